package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/tool"
)

// logged is a log and what is in it.
func logged() (*slog.Logger, func() string) {
	w := &locked{}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})), w.String
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// badTools are tools that cannot be offered, and some that can.
var badTools = `{"tools":[` + strings.Join([]string{
	`{"name":"good","description":"Good.","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9223372036854775807}}}}`,
	`{"name":"untold","inputSchema":{"type":"object"}}`,
	`{"name":"titled","title":"A title","description":"  ","inputSchema":{"type":"object"}}`,
	`{"name":"talks","description":"` + strings.Repeat("ä", 10_000) + `","inputSchema":{"type":"object"}}`,
	`{"name":"` + strings.Repeat("n", 63) + `","description":"d","inputSchema":{"type":"object"}}`,
	`{"name":"with.dots","description":"d","inputSchema":{"type":"object"}}`,
	`{"name":"ünicode","description":"d","inputSchema":{"type":"object"}}`,
	`{"name":"twice","description":"one","inputSchema":{"type":"object"}}`,
	`{"name":"twice","description":"two","inputSchema":{"type":"object"}}`,
	`{"name":"array","description":"d","inputSchema":{"type":"array"}}`,
	`{"name":"none","description":"d"}`,
	`{"name":"null","description":"d","inputSchema":null}`,
	`{"name":"text","description":"d","inputSchema":"{}"}`,
	`{"name":"remote","description":"d","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/schema"}}}}`,
	`{"name":"cyclic","description":"d","inputSchema":{"type":"object","$ref":"#"}}`,
	`{"name":"large","description":"d","inputSchema":{"type":"object","description":"` + strings.Repeat("x", 5<<20) + `"}}`,
	`{"name":"odd","description":5,"inputSchema":{"type":"object"}}`,
	`{"description":"d","inputSchema":{"type":"object"}}`,
	`null`,
	`"text"`,
}, ",") + `]}`

func TestBadToolsAreRefusedByName(t *testing.T) {
	t.Parallel()
	everyWay(t, "bad tools", func(t *testing.T, c mcp.Config) {
		s := open(t, c)
		defs, err := s.Tools(context.Background())
		require.NoError(t, err)
		told, parameters := map[string]string{}, ""
		for _, d := range defs {
			parameters += string(d.Info().Parameters)
			told[d.Name()] = d.Info().Description
		}
		assert.Len(t, told["s_talks"], 8<<10+len("…"))
		delete(told, "s_talks")
		assert.Equal(t, map[string]string{"s_good": "Good.", "s_titled": "A title",
			"s_untold": "The tool untold of the MCP server s, which does not describe it."}, told)
		assert.Contains(t, parameters, `"maximum":9223372036854775807`)
		var names []string
		for _, r := range s.Refused() {
			names = append(names, r.Name)
			assert.NotEmpty(t, r.Why)
		}
		assert.Equal(t, []string{"#18", "#19", "#20", "array", "cyclic", "large", strings.Repeat("n", 63), "none", "null", "odd", "remote", "text", "twice",
			"with.dots", "ünicode"}, names)
	})
}

func TestNamesThatTheServerDoesNotHave(t *testing.T) {
	t.Parallel()
	for key, change := range map[string]func(*mcp.Config){
		"allow":      func(c *mcp.Config) { c.Allow = []string{"a", "nope"} },
		"deny":       func(c *mcp.Config) { c.Deny = []string{"nope"} },
		"approval":   func(c *mcp.Config) { c.Approval = []string{"nope"} },
		"risk":       func(c *mcp.Config) { c.Risk = map[string]tool.Risk{"nope": tool.Read} },
		"idempotent": func(c *mcp.Config) { c.Idempotent = []string{"nope"} },
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			c := config(t, "changes")
			change(&c)
			err := open(t, c).Start(context.Background())
			var bad *fault.ConfigError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, "mcp.s."+key, bad.Key)
			assert.Equal(t, []string{"a"}, bad.Allowed)
		})
	}
	c := config(t, "500 tools")
	c.Allow = []string{"t7", "t8"}
	s := start(t, c)
	assert.Len(t, s.Refused(), 498)
	c.Allow, c.Prefix = []string{}, new("")
	defs, err := open(t, c).Tools(context.Background())
	require.NoError(t, err)
	assert.Empty(t, defs, "an empty list allows nothing")
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	t.Setenv("MCP_TEST_TOKEN", "t0ken")
	stdio := func(change func(*mcp.Config)) mcp.Config {
		c := mcp.Config{Name: "s", Command: []string{"x"}}
		change(&c)
		return c
	}
	web := func(change func(*mcp.Config)) mcp.Config {
		c := mcp.Config{Name: "s", URL: "https://mcp.example.com/mcp"}
		change(&c)
		return c
	}
	for want, c := range map[string]mcp.Config{
		`mcp: "a b" is no name of a server`:                                          {Name: "a b", Command: []string{"x"}},
		`mcp.s.command: is missing; a server has`:                                    {Name: "s"},
		`mcp.s.command: and url are both set`:                                        {Name: "s", Command: []string{"x"}, URL: "https://x"},
		`mcp.s.command: names no program`:                                            stdio(func(c *mcp.Config) { c.Command = []string{" "} }),
		`mcp.s.command: has a zero byte`:                                             stdio(func(c *mcp.Config) { c.Command = []string{"a\x00"} }),
		`mcp.s.url: is missing; headers and a token`:                                 stdio(func(c *mcp.Config) { c.Token.Env = "MCP_TEST_TOKEN" }),
		`mcp.s.command: is a program in the agent's own`:                             stdio(func(c *mcp.Config) { c.Command, c.PerDir = []string{"{dir}/server"}, true }),
		`mcp.s.command: "npx" runs what it finds in its working directory`:           stdio(func(c *mcp.Config) { c.Command, c.PerDir = []string{"npx", "-y", "server", "{dir}"}, true }),
		`mcp.s.command: "/usr/bin/bunx" runs what it finds in its working directory`: stdio(func(c *mcp.Config) { c.Command, c.PerDir = []string{"/usr/bin/bunx", "server"}, true }),
		`mcp.s.dir: and perDir are both set`:                                         stdio(func(c *mcp.Config) { c.Dir, c.PerDir = "/", true }),
		`mcp.s.env: "a=b" is no name of a variable`:                                  stdio(func(c *mcp.Config) { c.PassEnv = []string{"a=b"} }),
		`mcp.s.env.A: has a zero byte`:                                               stdio(func(c *mcp.Config) { c.Env = map[string]string{"A": "\x00"} }),
		`mcp.s.perDir: is for a server with a command`:                               web(func(c *mcp.Config) { c.PerDir = true }),
		`mcp.s.command: is missing; dir, env`:                                        web(func(c *mcp.Config) { c.Dir = "/" }),
		`mcp.s.url: is no address over http`:                                         web(func(c *mcp.Config) { c.URL = "ftp://x" }),
		`mcp.s.url: holds a user or password`:                                        web(func(c *mcp.Config) { c.URL = "https://a:b@x/" }),
		`mcp.s.url: has a fragment`:                                                  web(func(c *mcp.Config) { c.URL = "https://x/#a" }),
		`mcp.s.url: would carry the token in the clear`:                              web(func(c *mcp.Config) { c.URL, c.Token.Env = "http://mcp.example.com", "MCP_TEST_TOKEN" }),
		`mcp.s.tokenEnv: the environment variable MCP_NO`:                            web(func(c *mcp.Config) { c.Token.Env = "MCP_NO" }),
		`mcp.s.tokenFile: the file /no/token cannot be read`:                         web(func(c *mcp.Config) { c.Token.File = "/no/token" }),
		`mcp.s.headers: "a b" is no name of a header`:                                web(func(c *mcp.Config) { c.Headers = map[string]string{"a b": ""} }),
		`mcp.s.headers.Authorization: is not set here`:                               web(func(c *mcp.Config) { c.Headers = map[string]string{"Authorization": "x"} }),
		`mcp.s.headers.Idempotency-Key: is not set here`:                             web(func(c *mcp.Config) { c.Headers = map[string]string{"Idempotency-Key": "x"} }),
		`mcp.s.headers.Mcp-Session-Id: is not set here`:                              web(func(c *mcp.Config) { c.Headers = map[string]string{"Mcp-Session-Id": "x"} }),
		`mcp.s.headers.X: holds a control character`:                                 web(func(c *mcp.Config) { c.Headers = map[string]string{"X": "a\r\nB: c"} }),
		`mcp.s.prefix: "a.b" cannot stand before`:                                    stdio(func(c *mcp.Config) { c.Prefix = new("a.b") }),
		`mcp.s.allow: has an empty name`:                                             stdio(func(c *mcp.Config) { c.Allow = []string{""} }),
		`mcp.s.deny: names "a" twice`:                                                stdio(func(c *mcp.Config) { c.Deny = []string{"a", "a"} }),
		`mcp.s.deny: names "a", which allow names too`:                               stdio(func(c *mcp.Config) { c.Allow, c.Deny = []string{"a"}, []string{"a"} }),
		`mcp.s.risk.a: unknown risk "mild"; one of read`:                             stdio(func(c *mcp.Config) { c.Risk = map[string]tool.Risk{"a": "mild"} }),
		`mcp.s.startTimeout: is -1ns`:                                                stdio(func(c *mcp.Config) { c.StartTimeout = -1 }),
		`mcp.s.callTimeout: is 25h0m0s`:                                              stdio(func(c *mcp.Config) { c.CallTimeout = 25 * 3600e9 }),
		`mcp.s.maxResult: is 5 bytes`:                                                stdio(func(c *mcp.Config) { c.MaxResult = 5 }),
	} {
		_, err := mcp.New(c)
		var bad *fault.ConfigError
		if assert.ErrorAs(t, err, &bad, want) {
			assert.Contains(t, err.Error(), want)
		}
	}
	for _, url := range []string{"http://localhost:1/", "http://127.0.0.1/", "http://[::1]:2/mcp", "https://mcp.example.com/"} {
		_, err := mcp.New(web(func(c *mcp.Config) { c.URL, c.Token.Env = url, "MCP_TEST_TOKEN" }))
		require.NoError(t, err, url)
	}
}

func TestServersThatCannotBeUsedTogether(t *testing.T) {
	t.Parallel()
	made := func(name string, prefix *string) *mcp.Server {
		c := config(t, "500 tools")
		c.Name, c.Prefix = name, prefix
		return open(t, c)
	}
	require.NoError(t, mcp.Check(made("a", nil), made("b", nil), made("c", new("")), made("d", new(""))))
	assert.ErrorContains(t, mcp.Check(made("a", nil), made("a", new("x_"))), "mcp.a: there are two servers of this name")
	assert.ErrorContains(t, mcp.Check(made("a", nil), made("b", new("a_"))), `mcp.b.prefix: "a_" is that of the server "a" too`)
	assert.ErrorContains(t, mcp.Check(nil), "a server is nil")
	one, two := made("a", new("")), made("b", new(""))
	require.NoError(t, one.Start(context.Background()))
	require.NoError(t, two.Start(context.Background()))
	assert.ErrorContains(t, mcp.Check(one, two), fmt.Sprintf("mcp.b.prefix: the tool %q is one of the server %q too", "t0", "a"))
}
