package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"
	"gopkg.in/yaml.v3"
)

// genuine is the file that everybody runs.
var genuine = filepath.Join("..", configName)

func TestFindConfig(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	require.NoError(t, os.MkdirAll(below, 0o755))

	_, err := findConfig("", below)
	var f *failure
	require.ErrorAs(t, err, &f)
	assert.Contains(t, f.Error(), "no temporal-dev.yaml in "+below)
	assert.Contains(t, f.hint, configVariable)

	file := filepath.Join(dir, configName)
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, from := range []string{dir, below} {
		got, err := findConfig("", from)
		require.NoError(t, err)
		assert.Equal(t, file, got)
	}

	got, err := findConfig(genuine, below)
	require.NoError(t, err)
	assert.Equal(t, genuine, got)
	_, err = findConfig(filepath.Join(dir, "none.yaml"), below)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorAs(t, err, &f)
	assert.NotEmpty(t, f.hint)
}

func TestPlanOfTheGenuineFile(t *testing.T) {
	p := mustPlan(t)
	assert.Equal(t, []any{7233, 7243, 8233, "127.0.0.1", "127.0.0.1"}, []any{p.port, p.httpPort, p.uiPort, p.ip, p.uiIP})
	assert.Equal(t, []string{"default"}, p.namespaces)
	assert.Equal(t, map[string]enumspb.IndexedValueType{
		"AssentStatus":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"AssentAgent":       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"AssentPendingTool": enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		"AssentRoot":        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}, p.attributes)
	assert.Equal(t, 2000, p.dynamic[dynamicconfig.TransferProcessorMaxPollRPS.Key()])
	assert.Equal(t, 1, p.dynamic[dynamicconfig.MatchingNumTaskqueueReadPartitions.Key()])
	assert.Equal(t, false, p.dynamic[dynamicconfig.EnableServerVersionCheck.Key()])
}

// A key that the server does not know would be ignored without a word, and the server would be slow.
func TestDynamicConfigOfTheGenuineFileIsKnown(t *testing.T) {
	s, err := loadSettings(genuine)
	require.NoError(t, err)
	require.NotEmpty(t, s.DynamicConfig)
	file := map[string]any{}
	for key, value := range s.DynamicConfig {
		file[key] = []any{map[string]any{"value": value}}
	}
	text, err := yaml.Marshal(file)
	require.NoError(t, err)
	result := dynamicconfig.LoadYamlFile(text)
	assert.Empty(t, result.Errors)
	assert.Empty(t, result.Warnings)
}

func TestCommandLineWins(t *testing.T) {
	p := mustPlan(t,
		"--namespace", "other", "--namespace", "default", "--search-attribute", "Mine=Int", "--search-attribute", "AssentRoot=Text",
		"--dynamic-config-value", "matching.numTaskqueueReadPartitions=7", "--sqlite-pragma", "synchronous=full", "--metrics-port", "9999")
	assert.Equal(t, []string{"default", "other"}, p.namespaces)
	assert.Equal(t, enumspb.INDEXED_VALUE_TYPE_INT, p.attributes["Mine"])
	assert.Equal(t, enumspb.INDEXED_VALUE_TYPE_TEXT, p.attributes["AssentRoot"])
	assert.Equal(t, 7, p.dynamic[dynamicconfig.MatchingNumTaskqueueReadPartitions.Key()])
	assert.Equal(t, map[string]string{"journal_mode": "wal", "synchronous": "full"}, p.pragmas)
	assert.Equal(t, "127.0.0.1:9999", p.cfg.Global.Metrics.Prometheus.ListenAddress)
}

func TestPortFlagMovesTheWholeServer(t *testing.T) {
	for _, c := range []struct {
		args           string
		grpc, http, ui int
	}{
		{"", 7233, 7243, 8233},
		{"--ui-port 1", 7233, 7243, 1},
		{"--port 5000", 5000, 0, 6000},
		{"--port 65000", 65000, 0, 65535},
		{"--port 5000 --ui-port 1 --http-port 2", 5000, 2, 1},
		{"--port 0", 0, 0, 0},
		{"--http-port 2", 7233, 2, 8233},
	} {
		p := mustPlan(t, strings.Fields(c.args)...)
		assert.Equal(t, []int{c.grpc, c.http, c.ui}, []int{p.port, p.httpPort, p.uiPort}, c.args)
	}
}

func TestWrongFiles(t *testing.T) {
	whole, err := os.ReadFile(genuine)
	require.NoError(t, err)
	for name, c := range map[string]struct{ old, new, want string }{
		"not yaml":        {"log:", "log: [", "failed to unmarshal"},
		"not valid":       {"connectAddr: localhost", "connectAddr: ''", "ConnectAddr"},
		"unknown key":     {"  uiPort: 8233", "  uiprt: 8233", `devserver: unknown key "uiprt"; one of [namespaces`},
		"not a mapping":   {"devserver:\n  uiPort: 8233", "devserver: 5\nother:\n  uiPort: 8233", "devserver: not a mapping"},
		"wrong kind":      {"  uiPort: 8233", "  uiPort: many", "cannot unmarshal"},
		"attribute type":  {"AssentRoot: Keyword", "AssentRoot: Word", `devserver.searchAttributes.AssentRoot: "Word": unknown type`},
		"no frontend":     {"  frontend:\n    rpc:", "  backend:\n    rpc:", "services.frontend is missing"},
		"another storage": {"pluginName: sqlite", "pluginName: mysql8", "not one sqlite store"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, string(whole), c.old)
			file := filepath.Join(t.TempDir(), configName)
			require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(whole), c.old, c.new, 1)), 0o644))
			p, err := loadPlan(file, options{})
			if err == nil {
				err = p.prepareStorage()
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// The section is optional: any static configuration with one sqlite store will do.
func TestFileWithoutOurSection(t *testing.T) {
	whole, err := os.ReadFile(genuine)
	require.NoError(t, err)
	stock, _, ok := strings.Cut(string(whole), "\ndevserver:")
	require.True(t, ok)
	file := filepath.Join(t.TempDir(), configName)
	require.NoError(t, os.WriteFile(file, []byte(stock), 0o644))
	p, err := loadPlan(file, options{ip: "127.0.0.1"})
	require.NoError(t, err)
	assert.Equal(t, []string{"default"}, p.namespaces)
	assert.Equal(t, 8233, p.uiPort)
	assert.Empty(t, p.attributes)
}

// mustPlan is the plan of the genuine file with args.
func mustPlan(t *testing.T, args ...string) *plan {
	t.Helper()
	o, err := parseFlags(args)
	require.NoError(t, err)
	p, err := loadPlan(genuine, o)
	require.NoError(t, err)
	return p
}
