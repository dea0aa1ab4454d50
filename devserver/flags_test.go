package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
)

// What testsuite.StartDevServer of the Temporal SDK passes, with every option set.
func TestFlagsOfTheSDKTestsuite(t *testing.T) {
	o, err := parseFlags([]string{
		"server", "start-dev", "--ip", "127.0.0.1", "--port", "7300", "--namespace", "default",
		"--dynamic-config-value", "frontend.enableServerVersionCheck=false",
		"--log-level", "error", "--log-format", "pretty", "--headless",
		"--db-filename", "x.db", "--ui-port", "8300", "--search-attribute", "Where=KeywordList",
	})
	require.NoError(t, err)
	assert.Equal(t, options{
		ip: "127.0.0.1", port: 7300, portSet: true, uiPort: 8300, headless: true,
		namespaces: []string{"default"}, dbFile: "x.db", pragmas: map[string]string{},
		attributes: map[string]enumspb.IndexedValueType{"Where": enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST},
		dynamic:    map[string]any{"frontend.enableServerVersionCheck": false},
		logLevel:   slog.LevelError, logLevelSet: true, logFormat: "pretty",
	}, o)
}

func TestFlagDefaults(t *testing.T) {
	for _, args := range [][]string{nil, {"server", "start-dev"}} {
		o, err := parseFlags(args)
		require.NoError(t, err)
		assert.Equal(t, "127.0.0.1", o.ip)
		assert.Zero(t, o.port)
		assert.False(t, o.portSet)
		assert.False(t, o.headless)
		assert.Equal(t, slog.LevelWarn, o.logLevel)
		assert.False(t, o.logLevelSet)
	}
	o, err := parseFlags([]string{"-p", "1", "-n", "a", "-n=b", "-f=c", "--ip=localhost", "--log-level=never"})
	require.NoError(t, err)
	assert.Equal(t, []any{1, true, []string{"a", "b"}, "c", "127.0.0.1", levelNever},
		[]any{o.port, o.portSet, o.namespaces, o.dbFile, o.ip, o.logLevel})
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--bogus", "unknown flag: --bogus"},
		{"--port x", `invalid argument "x" for "-p, --port" flag`},
		{"--port 70000", "--port 70000: not a port"},
		{"--ui-port -1", "--ui-port -1: not a port"},
		{"start", `unknown command "start"`},
		{"server start-dev extra", `unknown command "server start-dev extra"`},
		{"--ip nowhere", `--ip "nowhere": not an IP address`},
		{"--ui-ip nowhere", `--ui-ip "nowhere": not an IP address`},
		{"--search-attribute X", `--search-attribute "X": not KEY=VALUE`},
		{"--search-attribute X=Blob", `--search-attribute "X=Blob": unknown type; one of Bool, Datetime, Double, Int, Keyword, KeywordList, Text`},
		{"--dynamic-config-value a=word", `--dynamic-config-value "a=word": the value is not JSON`},
		{"--dynamic-config-value a=1x", `more than one JSON value`},
		{"--dynamic-config-value =1", `--dynamic-config-value "=1": not KEY=VALUE`},
		{"--sqlite-pragma x", `--sqlite-pragma "x": not KEY=VALUE`},
		{"--namespace=", `--namespace: is empty`},
		{"--log-format xml", `--log-format "xml": one of text, json, pretty`},
		{"--log-level loud", `--log-level "loud": one of debug, info, warn, error, never`},
	} {
		t.Run(c.args, func(t *testing.T) {
			_, err := parseFlags(strings.Fields(c.args))
			require.ErrorContains(t, err, c.want)

			var stdout, stderr bytes.Buffer
			assert.Equal(t, 2, run(context.Background(), strings.Fields(c.args), nil, &stdout, &stderr))
			assert.Empty(t, stdout.String())
			assert.Contains(t, stderr.String(), "error: ")
			assert.Contains(t, stderr.String(), "\nhint: see: devserver --help\n")
		})
	}
}

func TestDynamicConfigNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"5": 5, "-5": -5, "0.5": 0.5, "true": true, `"5"`: "5", "null": nil,
		"[1, 2.5]": []any{1, 2.5}, `{"a": {"b": 3}}`: map[string]any{"a": map[string]any{"b": 3}},
	} {
		got, err := jsonValue(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestHelpAndVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	assert.Zero(t, run(context.Background(), []string{"--help"}, nil, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "examples:\n  devserver  ")
	assert.Empty(t, stderr.String())

	stdout.Reset()
	assert.Zero(t, run(context.Background(), []string{"--version"}, nil, &stdout, &stderr))
	assert.Regexp(t, `^assent devserver \(Server \d+\.\d+\.\d+, UI \d+\.\d+\.\d+\)\n$`, stdout.String())
}
