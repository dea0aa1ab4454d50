package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

func TestExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	dir := t.TempDir()
	require.Zero(t, run(context.Background(), []string{devservertest.Server(t).Address(), dir}, nil, &stdout, &stderr), stderr.String())
	// Visibility may be late: then nobody is known to need them. The run is the same.
	require.Regexp(t, `^ok: That was long\. \d+ blobs, \d+ that nobody needs\n$`, stdout.String())
	store, err := blob.NewDir(dir)
	require.NoError(t, err)
	offloaded := false
	for e, err := range store.List(context.Background()) {
		require.NoError(t, err)
		data, err := store.Get(context.Background(), e.Ref)
		require.NoError(t, err)
		offloaded = offloaded || bytes.Contains(data, []byte("json/plain"))
	}
	require.True(t, offloaded, "a payload of Temporal is among the blobs")
}

func TestUsage(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, 2, run(context.Background(), nil, nil, &bytes.Buffer{}, &stderr))
	require.Equal(t, 1, run(context.Background(), []string{"127.0.0.1:1", t.TempDir()}, nil, &bytes.Buffer{}, &stderr))
	require.Contains(t, stderr.String(), "error: failed reaching server")
}

// The Go code of the page is code of this program and of the package's examples.
func TestPageShowsThisProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/storage.md")
	require.NoError(t, err)
	var code string
	for _, name := range []string{"main.go", "../../storage/example_test.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		code += string(source)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	require.Len(t, blocks, 2)
	for _, b := range blocks {
		shown, _, closed := strings.Cut(b, "```")
		require.True(t, closed)
		require.Contains(t, code, shown)
	}
}
