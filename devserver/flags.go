package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	enumspb "go.temporal.io/api/enums/v1"
)

// options is the command line. Its zero ports mean: as temporal-dev.yaml says, or a free one.
type options struct {
	help, version bool

	ip                                  string
	port, httpPort, metricsPort, uiPort int
	portSet                             bool
	headless                            bool
	uiIP, uiPublicPath                  string
	uiAssetPath, uiCodecEndpoint        string

	dbFile     string
	pragmas    map[string]string
	namespaces []string
	attributes map[string]enumspb.IndexedValueType
	dynamic    map[string]any

	logLevel    slog.Level
	logLevelSet bool
	logFormat   string
	logConfig   bool
}

// levelNever is above every level that is logged.
const levelNever = slog.Level(100)

// parseFlags reads args, which may begin with `server start-dev`. Every error it returns is a wrong argument.
func parseFlags(args []string) (options, error) {
	var o options
	fs, raw := flagSet(&o)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.help || o.version {
		return o, nil
	}
	if rest := fs.Args(); len(rest) > 0 && !slices.Equal(rest, []string{"server", "start-dev"}) {
		return o, fmt.Errorf("unknown command %q; the only one is `server start-dev`, and it may be left out", strings.Join(rest, " "))
	}
	o.portSet = fs.Changed("port")
	o.logLevelSet = fs.Changed("log-level")
	return o, raw.decode(&o)
}

// rawFlags holds the flags whose text needs decoding.
type rawFlags struct {
	attributes, dynamic, pragmas []string
	logLevel                     string
}

func flagSet(o *options) (*pflag.FlagSet, *rawFlags) {
	var raw rawFlags
	fs := pflag.NewFlagSet("devserver", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	fs.IntVarP(&o.port, "port", "p", 0, "gRPC port (default: services.frontend.rpc.grpcPort of the file, 7233)")
	fs.IntVar(&o.uiPort, "ui-port", 0, "web UI port (default: with --port, that plus 1000; else 8233)")
	fs.IntVar(&o.httpPort, "http-port", 0, "HTTP API port (default: with --port, a free one; else 7243)")
	fs.IntVar(&o.metricsPort, "metrics-port", 0, "serve Prometheus metrics on this port (default: none)")
	fs.StringVar(&o.ip, "ip", "127.0.0.1", "address that the gRPC and HTTP APIs listen on")
	fs.StringVar(&o.uiIP, "ui-ip", "", "address that the web UI listens on (default: that of --ip)")
	fs.BoolVar(&o.headless, "headless", false, "no web UI")
	fs.StringVarP(&o.dbFile, "db-filename", "f", "", "keep everything in this sqlite file (default: in memory, lost at the end)")
	fs.StringArrayVarP(&o.namespaces, "namespace", "n", nil, "one more namespace to create; may be repeated")
	fs.StringArrayVar(&raw.attributes, "search-attribute", nil, "one more search attribute, NAME=TYPE; may be repeated")
	fs.StringArrayVar(&raw.dynamic, "dynamic-config-value", nil, "a dynamic configuration value, KEY=JSON; may be repeated")
	fs.StringArrayVar(&raw.pragmas, "sqlite-pragma", nil, "a pragma for the database file, PRAGMA=VALUE; may be repeated")
	fs.StringVar(&raw.logLevel, "log-level", "warn", "debug, info, warn, error or never")
	fs.StringVar(&o.logFormat, "log-format", "text", "text, json or pretty")
	fs.BoolVar(&o.logConfig, "log-config", false, "print the server's whole configuration to stderr")
	fs.StringVar(&o.uiPublicPath, "ui-public-path", "", "path under which the web UI is served")
	fs.StringVar(&o.uiAssetPath, "ui-asset-path", "", "directory with other web UI assets")
	fs.StringVar(&o.uiCodecEndpoint, "ui-codec-endpoint", "", "remote codec for the web UI")
	fs.BoolVarP(&o.help, "help", "h", false, "print this")
	fs.BoolVarP(&o.version, "version", "v", false, "print the version")
	return fs, &raw
}

func (raw *rawFlags) decode(o *options) error {
	if o.ip == "localhost" {
		o.ip = "127.0.0.1" // the server wants an IP
	}
	for _, f := range []struct{ name, ip string }{{"ip", o.ip}, {"ui-ip", o.uiIP}} {
		if f.ip != "" && net.ParseIP(f.ip) == nil {
			return fmt.Errorf("--%s %q: not an IP address", f.name, f.ip)
		}
	}
	for name, port := range map[string]int{"port": o.port, "ui-port": o.uiPort, "http-port": o.httpPort, "metrics-port": o.metricsPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("--%s %d: not a port", name, port)
		}
	}
	if slices.Contains(o.namespaces, "") {
		return errors.New("--namespace: is empty")
	}
	var err error
	if o.attributes, err = keyed("search-attribute", raw.attributes, attributeType); err != nil {
		return err
	}
	if o.dynamic, err = keyed("dynamic-config-value", raw.dynamic, jsonValue); err != nil {
		return err
	}
	if o.pragmas, err = keyed("sqlite-pragma", raw.pragmas, func(s string) (string, error) { return s, nil }); err != nil {
		return err
	}
	if !slices.Contains([]string{"text", "json", "pretty"}, o.logFormat) {
		return fmt.Errorf("--log-format %q: one of text, json, pretty", o.logFormat)
	}
	if raw.logLevel == "never" {
		o.logLevel = levelNever
		return nil
	}
	if err := o.logLevel.UnmarshalText([]byte(raw.logLevel)); err != nil {
		return fmt.Errorf("--log-level %q: one of debug, info, warn, error, never", raw.logLevel)
	}
	return nil
}

// keyed decodes the values of a repeated KEY=VALUE flag. The last one of a key wins.
func keyed[T any](flag string, pairs []string, decode func(string) (T, error)) (map[string]T, error) {
	m := make(map[string]T, len(pairs))
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--%s %q: not KEY=VALUE", flag, pair)
		}
		value, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("--%s %q: %w", flag, pair, err)
		}
		m[key] = value
	}
	return m, nil
}

// attributeType reads the name of a search attribute's type, in any case.
func attributeType(text string) (enumspb.IndexedValueType, error) {
	var known []string
	for name, value := range enumspb.IndexedValueType_shorthandValue {
		if value == int32(enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED) {
			continue
		}
		if strings.EqualFold(name, text) {
			return enumspb.IndexedValueType(value), nil
		}
		known = append(known, name)
	}
	slices.Sort(known)
	return 0, fmt.Errorf("unknown type; one of %s", strings.Join(known, ", "))
}

// jsonValue reads a dynamic configuration value. Whole numbers become int, the one number type that the server takes.
func jsonValue(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	if d.More() {
		return nil, fmt.Errorf("the value is more than one JSON value")
	}
	return plainNumbers(v), nil
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return int(i)
		}
		f, _ := v.Float64() // a JSON number too large for a float is +Inf, as elsewhere in Go
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

func usage() string {
	fs, _ := flagSet(&options{})
	return `devserver runs a Temporal server and its web UI in one process, for development only.

usage: devserver [server start-dev] [flags]

examples:
  devserver                                        on 127.0.0.1:7233, UI on http://127.0.0.1:8233, in memory
  devserver --port 7000 --db-filename assent.db    on 127.0.0.1:7000, UI on 8000, survives a restart

flags:
` + fs.FlagUsagesWrapped(110) + `
The rest is in temporal-dev.yaml: TEMPORAL_DEV_CONFIG names it, or it is looked for in the working directory and
the directories above.
`
}
