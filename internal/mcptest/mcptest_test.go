package mcptest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/stdioproc"
)

// connect is a client of the official SDK, which knows nothing of ours.
func connect(t *testing.T, command []string) (*mcp.ClientSession, *stdioproc.Process) {
	t.Helper()
	p := start(t, stdioproc.Config{Command: command})
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: p.Stdout, Writer: p.Stdin}, nil)
	require.NoError(t, err)
	return s, p
}

func call(t *testing.T, s *mcp.ClientSession, name string, args any) (*mcp.CallToolResult, error) {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	return s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
}

func said(t *testing.T, r *mcp.CallToolResult, err error) string {
	t.Helper()
	require.NoError(t, err)
	require.NotEmpty(t, r.Content)
	text, ok := r.Content[0].(*mcp.TextContent)
	require.True(t, ok, "%T", r.Content[0])
	return text.Text
}

func TestTheGoodServerIsGood(t *testing.T) {
	dir := t.TempDir()
	describe := filepath.Join(dir, "describe")
	require.NoError(t, os.WriteFile(describe, []byte("first"), 0o600))
	s, p := connect(t, Command(t, "-tools", "500", "-describe", describe))
	described := func() (n int, echo string) {
		for tool, err := range s.Tools(t.Context(), nil) {
			require.NoError(t, err)
			n++
			if tool.Name == "echo" {
				echo = tool.Description
			}
		}
		return n, echo
	}
	n, echo := described()
	require.Greater(t, n, 500)
	require.Equal(t, "first", echo)
	require.NoError(t, os.WriteFile(describe, []byte("second"), 0o600))
	_, echo = described()
	require.Equal(t, "second", echo)

	r, err := call(t, s, "echo", map[string]any{"text": "hello"})
	require.Equal(t, "hello", said(t, r, err))
	r, err = call(t, s, "add", map[string]any{"a": 2, "b": 3})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"sum": 5.0}, r.StructuredContent)
	r, err = call(t, s, "fail", nil)
	require.Contains(t, said(t, r, err), "failed as it was told")
	require.True(t, r.IsError)
	_, err = call(t, s, "refuse", nil)
	require.ErrorContains(t, err, "refused by the protocol")
	r, err = call(t, s, "environ", nil)
	require.Contains(t, said(t, r, err), "PATH")

	started, cancelled := filepath.Join(dir, "started"), filepath.Join(dir, "cancelled")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(lines(started)) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"seconds": 1000, "started": started, "cancelled": cancelled}})
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return len(lines(cancelled)) == 1 }, time.Minute, time.Millisecond)

	crashed := filepath.Join(dir, "crashed")
	_, err = call(t, s, "crash", map[string]any{"file": crashed})
	require.Error(t, err)
	<-p.Done()
	require.ErrorContains(t, p.Err(), "exit status 7; the end of its stderr:\nthis server crashes because")
	require.Equal(t, []string{"crashed"}, lines(crashed))
}

// lines are the whole lines of a file.
func lines(path string) []string {
	text, _ := os.ReadFile(path)
	whole, _, ok := strings.Cut(string(text), "\n")
	if !ok {
		return nil
	}
	return []string{whole}
}

func TestOverHTTP(t *testing.T) {
	h := Serve(t, "-token", "s3cret")
	r, err := http.Get(h.URL)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusUnauthorized, r.StatusCode)
	before, url := h.Pid(), h.URL
	h.Restart()
	require.NotEqual(t, before, h.Pid())
	require.Equal(t, url, h.URL)

	h = Serve(t, "-hostile", "status")
	r, err = http.Get(h.URL)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusInternalServerError, r.StatusCode)
}

func TestExamplesOfTheSDK(t *testing.T) {
	s, _ := connect(t, []string{SDKExample(t, "server/memory")})
	r, err := call(t, s, "read_graph", nil)
	require.NoError(t, err)
	require.False(t, r.IsError)
}

func TestServersFromNPM(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("content"), 0o600))
	s, _ := connect(t, NPM(t, "mcp-server-filesystem", dir))
	r, err := call(t, s, "read_text_file", map[string]any{"path": filepath.Join(dir, "a.txt")})
	require.Equal(t, "content", said(t, r, err))
}

func TestProcessesThatAreLeftBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	_, p := connect(t, Command(t, "-children", file))
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(file)
		return strings.Count(string(text), "\n") == 3
	}, time.Minute, time.Millisecond)
	require.NoError(t, p.Close())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for pid := range strings.Lines(string(text)) {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		require.True(t, err != nil || strings.Contains(string(stat), ") Z "), "%s lives", pid)
	}
}
