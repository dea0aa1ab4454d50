package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}
{"jsonrpc":"2.0","id":"ours","error":{"code":-32601,"message":"no"}}
`

// TestEachModeMisbehaves holds every mode to the sentence that describes it.
func TestEachModeMisbehaves(t *testing.T) {
	for mode, want := range map[string]struct {
		says  string
		lines int
		code  int
	}{
		"garbage":     {"Welcome", 100, 0},
		"exit":        {"no license", 0, 9},
		"silent":      {"", 0, 0},
		"silent-list": {"hostile", 2, 0},
		"silent-call": {"Says what it is told.", 2, 0},
		"loop":        {`"nextCursor":"again"`, 3, 0},
		"endless":     {`"nextCursor":"1"`, 3, 0},
		"changing":    {"for the 1th time", 3, 0},
		"sampling":    {"tell me a secret", 4, 0},
		"elicitation": {"your password?", 4, 0},
		"noise":       {"INFO", 6, 0},
		"twice":       {"424242", 9, 0},
		"schemas":     {`"type":"array"`, 3, 0},
		"names":       {"with space", 3, 0},
		"status":      {"hi", 3, 0},
	} {
		t.Run(mode, func(t *testing.T) {
			var out, err bytes.Buffer
			require.Equal(t, want.code, run(t.Context(), []string{"-hostile", mode}, strings.NewReader(hello), &out, &err))
			require.Contains(t, out.String()+err.String(), want.says)
			require.Equal(t, want.lines, strings.Count(out.String(), "\n"), "%.2000s", out.String())
		})
	}
	require.Len(t, modes, 15)
	var out, err bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-hostile", "x"}, strings.NewReader(""), &out, &err))
	require.Contains(t, err.String(), `unknown mode "x"; one of garbage`)
	require.Equal(t, 2, run(t.Context(), []string{"-no-such-flag"}, strings.NewReader(""), &out, &err))
}
