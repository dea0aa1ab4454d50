package workerproc_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/mcptest"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/tool"
)

// withServers is a configuration with MCP servers, each by its keys in braces.
func withServers(servers ...string) string {
	text := strings.Replace(minimal, "[files, shell]", "[files, a]", 1) + "mcp:\n"
	for i, s := range servers {
		text += "  " + string(rune('a'+i)) + ": {" + s + "}\n"
	}
	return text
}

func command(parts []string) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	return "command: " + string(text)
}

// A server that cannot be used is said with its place in the file, and the worker does not hang.
func TestServersThatCannotBeUsed(t *testing.T) {
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>welcome</html>")
	}))
	t.Cleanup(html.Close)
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(locked.Close)
	good := command(mcptest.Command(t))
	for name, c := range map[string]struct {
		servers []string
		code    int
		want    []string
	}{
		"no program":   {[]string{"command: [no-such-program]"}, exit.Usage, []string{"a.yaml:7:16: mcp.a.command: ", `no program "no-such-program"`}},
		"exits":        {[]string{`command: [sh, -c, "echo no key >&2; exit 3"]`}, exit.Failed, []string{`a.yaml:7:16: mcp server "a": `, "exit status 3", "no key"}},
		"garbage":      {[]string{command(mcptest.Command(t, "-hostile", "garbage")) + ", startTimeout: 6s"}, exit.Failed, []string{"a.yaml:7:16: ", "standard output"}},
		"silent":       {[]string{"command: [sleep, '1000'], startTimeout: 500ms"}, exit.Failed, []string{"a.yaml:7:16: ", "no answer in time"}},
		"refuses":      {[]string{"url: 'http://127.0.0.1:1/mcp'"}, exit.Failed, []string{"a.yaml:7:12: ", "refused"}},
		"html":         {[]string{"url: '" + html.URL + "'"}, exit.Failed, []string{"a.yaml:7:12: ", "text/html", "welcome"}},
		"401":          {[]string{"url: '" + locked.URL + "'"}, exit.Failed, []string{"a.yaml:7:12: ", "401", "tokenEnv"}},
		"no token":     {[]string{"url: 'https://mcp.example.com/', tokenEnv: NO_SUCH_TOKEN"}, exit.Usage, []string{"a.yaml:7:50: mcp.a.tokenEnv: ", "not set"}},
		"clear token":  {[]string{"url: 'http://mcp.example.com/', tokenFile: s.yaml"}, exit.Usage, []string{"mcp.a.url: ", "http"}},
		"unknown name": {[]string{good + ", risk: {ech: read}"}, exit.Usage, []string{`mcp.a.risk: the server has no tool "ech"; one of add, append, `}},
		"unknown name of a server that may be away": {[]string{good + ", required: false, allow: [ech]"}, exit.Usage, []string{`mcp.a.allow: the server has no tool "ech"`}},
		"two without a prefix":                      {[]string{good + ", prefix: ''", good + ", prefix: ''"}, exit.Usage, []string{`a.yaml:8:`, "mcp.b.prefix: the tool ", `server "a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, withServers(c.servers...))
			_, err := workerproc.Start(t.Context(), workerproc.Options{Config: path,
				Connect: connect.Settings{Address: devservertest.Server(t).Address(), Alone: true}})
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, strings.Replace(want, "a.yaml", path, 1))
			}
			require.Equal(t, c.code, exit.CodeOf(err))
		})
	}
}

// A tool of a server never takes the place of a first-party one.
func TestNamesOfFirstPartyTools(t *testing.T) {
	path := write(t, withServers(command(mcptest.Command(t))))
	f, err := config.Load(path)
	require.NoError(t, err)
	servers, err := workerproc.OpenMCP(f, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, servers.Close()) }()
	own := tool.MustNew("a_echo", "Echoes.", func(context.Context, *tool.Context, struct{}) (string, error) { return "", nil })
	require.EqualError(t, servers.Start(t.Context(), []*tool.Def{own}), path+`:7:6: mcp.a.prefix: the tool "a_echo" is a first-party tool too; a prefix tells them apart`)
}

// A worker that is not ready yet says what it waits for.
func TestWhatAWorkerWaitsFor(t *testing.T) {
	t.Parallel()
	f, err := config.Load(write(t, withServers(command(mcptest.Command(t)), "command: [sleep, '1000'], startTimeout: 5m")))
	require.NoError(t, err)
	out := &line{want: "waits for MCP servers", ready: make(chan struct{})}
	servers, err := workerproc.OpenMCP(f, slog.New(slog.NewTextHandler(out, nil)))
	require.NoError(t, err)
	defer func() { require.NoError(t, servers.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-out.ready
		cancel()
	}()
	require.NoError(t, servers.Start(ctx, nil))
	require.Contains(t, out.String(), "b]")
}

// The ready line counts servers and tools; what no agent gets is said.
func TestServersOfAWorker(t *testing.T) {
	out := says(t, withServers(command(mcptest.Command(t))+", allow: [echo, add]",
		command(mcptest.Command(t, "-hostile", "names")), `command: [sh, -c, "echo no key >&2; exit 3"], required: false`), "servers", "warning: MCP server \"b\" is in no profile")
	require.Regexp(t, `worker ready: .*, 1 profile, 2 of 3 MCP servers with \d+ tools\n`, out)
	require.Contains(t, out, `warning: MCP server "b": no agent gets its tool "`)
	out = says(t, withServers("command: [sleep, '1000'], startTimeout: 300ms, required: false"), "away", "warning: agents that need")
	require.Contains(t, out, ", 0 of 1 MCP server with 0 tools\n")
	require.Contains(t, out, `warning: agents that need an MCP server wait for it: mcp server "a": no answer in time`)
}
