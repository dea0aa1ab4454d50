package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every form of a tool is called: right, wrong, retried, approved.
func TestExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(context.Background(), nil, nil, &stdout, &stderr), stderr.String())
	require.Empty(t, stderr.String())
	for _, want := range []string{
		`{"code":"OK","value":{"issues":["login, at most 10"]}}`,
		`name a word","retry":true}`,
		`{"pointer":"/limit","message":"maximum: got 99, want 50"}`,
		`from and to are the same account`,
		`{"approvedBy":"bank","booked":{"from":"a","to":"b","cents":9007199254740993}}`,
		`{"code":"OK","value":"12:00"}`,
	} {
		require.Contains(t, stdout.String(), want)
	}
}

// The Go code of the page about tools is code of this program.
func TestPageShowsThisProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/tools.md")
	require.NoError(t, err)
	var program string
	for _, name := range []string{"main.go", "mount.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		program += string(source)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	require.GreaterOrEqual(t, len(blocks), 5)
	for _, b := range blocks {
		code, _, closed := strings.Cut(b, "```")
		require.True(t, closed)
		for part := range strings.SplitSeq(strings.TrimSpace(code), "\n\n") {
			require.Contains(t, program, strings.TrimSpace(part))
		}
	}
}
