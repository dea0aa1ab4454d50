package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/metrics"
	"gopkg.in/yaml.v3"
)

const (
	configVariable = "TEMPORAL_DEV_CONFIG"
	configName     = "temporal-dev.yaml"
)

// settings is the section `devserver` of temporal-dev.yaml, which Temporal's own loader ignores.
type settings struct {
	Namespaces       []string          `yaml:"namespaces"`
	SearchAttributes map[string]string `yaml:"searchAttributes"`
	UIPort           int               `yaml:"uiPort"`
	DynamicConfig    map[string]any    `yaml:"dynamicConfig"`
	SqlitePragmas    map[string]string `yaml:"sqlitePragmas"`
}

// plan is what will run: the file with the command line laid over it.
type plan struct {
	options
	// cfg is complete once takePorts has filled in the free ports.
	cfg     *config.Config
	dynamic dynamicconfig.StaticClient
	// frontend is where clients connect, for example 127.0.0.1:7233; set by takePorts.
	frontend string
}

// findConfig returns the path of temporal-dev.yaml: named, if it is not empty, else in dir or a directory above it.
func findConfig(named, dir string) (string, error) {
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", &failure{msg: fmt.Sprintf("read %s %q", configVariable, named), cause: err, hint: "unset it, or let it name a temporal-dev.yaml"}
		}
		return named, nil
	}
	for at := dir; ; at = filepath.Dir(at) {
		file := filepath.Join(at, configName)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find %s: %w", configName, err)
		}
		if at == filepath.Dir(at) {
			return "", &failure{
				msg:  fmt.Sprintf("no %s in %s or above it", configName, dir),
				hint: "start in a checkout of Assent, or let " + configVariable + " name the file",
			}
		}
	}
}

// loadPlan reads file and lays o over it. It opens nothing else.
func loadPlan(file string, o options) (*plan, error) {
	cfg, err := config.Load(config.WithConfigFile(file))
	if err != nil {
		return nil, fmt.Errorf("load %q: %w", file, err)
	}
	s, err := loadSettings(file)
	if err != nil {
		return nil, err
	}
	p := &plan{options: o, cfg: cfg, dynamic: dynamicconfig.StaticClient{}}
	for _, values := range []map[string]any{s.DynamicConfig, o.dynamic} {
		for k, v := range values {
			p.dynamic[dynamicconfig.MakeKey(k)] = v
		}
	}
	p.namespaces = nil
	for _, ns := range slices.Concat(s.Namespaces, o.namespaces) {
		if !slices.Contains(p.namespaces, ns) {
			p.namespaces = append(p.namespaces, ns)
		}
	}
	if len(p.namespaces) == 0 {
		p.namespaces = []string{"default"}
	}
	p.attributes = map[string]enumspb.IndexedValueType{}
	for name, text := range s.SearchAttributes {
		if p.attributes[name], err = attributeType(text); err != nil {
			return nil, fmt.Errorf("load %q: devserver.searchAttributes.%s: %q: %w", file, name, text, err)
		}
	}
	maps.Copy(p.attributes, o.attributes)
	p.pragmas = maps.Clone(s.SqlitePragmas)
	if p.pragmas == nil {
		p.pragmas = map[string]string{}
	}
	maps.Copy(p.pragmas, o.pragmas)
	return p, p.lay(s)
}

func loadSettings(file string) (settings, error) {
	f, err := os.Open(file)
	if err != nil {
		return settings{}, err
	}
	defer f.Close()
	// The rest of the file is Temporal's. Our own section is read strictly: a misspelt key would be a server that is
	// not tuned, and nothing would say so.
	var whole struct {
		Devserver yaml.Node      `yaml:"devserver"`
		Rest      map[string]any `yaml:",inline"`
	}
	if err := yaml.NewDecoder(f).Decode(&whole); err != nil {
		return settings{}, fmt.Errorf("load %q: %w", file, err)
	}
	var s settings
	if whole.Devserver.IsZero() {
		return s, nil
	}
	if err := knownKeys(&whole.Devserver, "namespaces", "searchAttributes", "uiPort", "dynamicConfig", "sqlitePragmas"); err != nil {
		return s, fmt.Errorf("load %q: %w", file, err)
	}
	if err := whole.Devserver.Decode(&s); err != nil {
		return s, fmt.Errorf("load %q: devserver: %w", file, err)
	}
	return s, nil
}

func knownKeys(section *yaml.Node, known ...string) error {
	if section.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: devserver: not a mapping", section.Line)
	}
	for i := 0; i < len(section.Content); i += 2 {
		if key := section.Content[i]; !slices.Contains(known, key.Value) {
			return fmt.Errorf("line %d: devserver: unknown key %q; one of %v", key.Line, key.Value, known)
		}
	}
	return nil
}

// lay fills in the ports and addresses that the command line or the file fixes. A port that stays 0 is a free one.
//
// With --port the whole server moves: the UI to that port plus 1000, as with the real command, and the HTTP API to a
// free port, because the file's ports may be in use by a server that was started without it.
func (p *plan) lay(s settings) error {
	front, ok := p.cfg.Services["frontend"]
	if !ok {
		return &failure{msg: "services.frontend is missing in " + configName}
	}
	if !p.portSet {
		p.port = front.RPC.GRPCPort
		if p.httpPort == 0 {
			p.httpPort = front.RPC.HTTPPort
		}
		if p.uiPort == 0 {
			p.uiPort = s.UIPort
		}
	}
	if p.uiPort == 0 && p.port != 0 {
		p.uiPort = min(p.port+1000, 65535)
	}
	if p.uiIP == "" {
		p.uiIP = p.ip
	}
	if p.metricsPort != 0 {
		p.cfg.Global.Metrics = &metrics.Config{Prometheus: &metrics.PrometheusConfig{
			ListenAddress: net.JoinHostPort(p.ip, strconv.Itoa(p.metricsPort)),
			HandlerPath:   "/metrics",
		}}
	}
	return nil
}

// reachable is ip, or the loopback address if ip stands for every interface.
func reachable(ip string) string {
	if parsed := net.ParseIP(ip); parsed != nil && parsed.IsUnspecified() {
		return "127.0.0.1"
	}
	return ip
}
