package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/tool"
)

// bad sections mcp, with the message after "p.yaml".
var badMCP = map[string]string{
	"mcp: []":                             `:1:6: mcp: want a mapping of servers, got a list`,
	"mcp: {servers: {a: {command: [x]}}}": `:1:17: mcp.servers: unknown key "a"; one of ` + mcpKeys,
	"mcp: {a: {comand: [x]}}":             `:1:11: mcp.a: unknown key "comand", did you mean "command"; one of ` + mcpKeys,
	"mcp: {a: npx}":                       `:1:10: mcp.a: want a mapping, got a string`,
	"mcp: {a: {}}":                        `:1:10: mcp.a: command or url is missing: a program to start, or the address of a server that runs`,
	"mcp: {'a b': {command: [x]}}":        `:1:7: mcp: "a b" cannot be the name of a server: want 1 to 40 of a-z, A-Z, 0-9, _ and -`,
	"mcp: {" + strings.Repeat("a", 41) + ": {command: [x]}}":            `:1:7: mcp: "` + strings.Repeat("a", 41) + `" cannot be the name of a server: want 1 to 40 of a-z, A-Z, 0-9, _ and -`,
	"mcp: {files: {command: [x]}}":                                      `:1:7: mcp: the name "files" is taken by a set of first-party tools: a profile's list could not tell them apart`,
	"mcp:\n  shell: {command: [x]}":                                     `:2:3: mcp: the name "shell" is taken by a first-party tool: a profile's list could not tell them apart`,
	"mcp: {a: {command: [x]}, a: {command: [x]}}":                       `:1:26: mapping key "a" already defined at [1:7]`,
	"mcp: {a: {command: [x], prefix: p}, b: {command: [x], prefix: p}}": `:1:63: mcp.b and mcp.a have one prefix, "p": a name could be a tool of either`,
	"mcp: {a: {command: [x], prefix: b_}, b: {command: [x]}}":           `:1:41: mcp.b and mcp.a have one prefix, "b_": a name could be a tool of either`,
	"mcp: {a: {command: npx -y server}}":                                `:1:20: mcp.a.command: want a list of strings such as ["npx", "server"], got a string`,
	"mcp: {a: {command: []}}":                                           `:1:20: mcp.a.command: is empty`,
	"mcp: {a: {command: ['']}}":                                         `:1:20: mcp.a.command: the program is empty`,
	"mcp: {a: {command: [x, 5]}}":                                       `:1:24: mcp.a.command[1]: want a string, got a number`,
	"mcp: {a: {command: [~/bin/x]}}":                                    `:1:20: mcp.a.command: ~ is not expanded; write the path out`,
	"mcp: {a: {command: [x], url: 'http://h/'}}":                        `:1:30: mcp.a.url: and command are both set; a server is started or has an address`,
	"mcp: {a: {url: h}}":                                                `:1:16: mcp.a.url: is no URL of http or https, want one such as https://mcp.example.com/mcp`,
	"mcp: {a: {url: 'ftp://h/'}}":                                       `:1:16: mcp.a.url: is no URL of http or https, want one such as https://mcp.example.com/mcp`,
	"mcp: {a: {url: 'https://u:p@h/'}}":                                 `:1:16: mcp.a.url: holds a user or password; a token comes from tokenEnv or tokenFile`,
	"mcp: {a: {url: 'https://h/#x'}}":                                   `:1:16: mcp.a.url: has a fragment, which no server sees`,
	"mcp: {a: {url: 'https://h/', env: {A: b}}}":                        `:1:35: mcp.a.env: goes with command only`,
	"mcp: {a: {url: 'https://h/', passEnv: [A]}}":                       `:1:39: mcp.a.passEnv: goes with command only`,
	"mcp: {a: {url: 'https://h/', dir: .}}":                             `:1:35: mcp.a.dir: goes with command only`,
	"mcp: {a: {url: 'https://h/', perDir: true}}":                       `:1:38: mcp.a.perDir: goes with command only`,
	"mcp: {a: {command: [x], headers: {A: b}}}":                         `:1:34: mcp.a.headers: goes with url only`,
	"mcp: {a: {command: [x], tokenEnv: T}}":                             `:1:35: mcp.a.tokenEnv: goes with url only`,
	"mcp: {a: {command: [x], tokenFile: t}}":                            `:1:36: mcp.a.tokenFile: goes with url only`,
	"mcp: {a: {url: 'https://h/', tokenEnv: a-b}}":                      `:1:40: mcp.a.tokenEnv: is no name of an environment variable, which is what stands here; the token itself does not`,
	"mcp: {a: {url: 'https://h/', tokenEnv: T, tokenFile: t}}":          `:1:54: mcp.a.tokenFile: and tokenEnv are both set; one of them names the token`,
	"mcp: {a: {url: 'https://h/', headers: {Authorization: x}}}":        `:1:55: mcp.a.headers.Authorization: is not set here; a token comes from tokenEnv or tokenFile`,
	"mcp: {a: {url: 'https://h/', headers: {'a b': x}}}":                `:1:47: mcp.a.headers.a b: "a b" is no name of a header`,
	"mcp: {a: {command: [x], env: {A-B: x}}}":                           `:1:31: mcp.a.env: bad name of a variable`,
	"mcp: {a: {command: [x], env: {A: x}, passEnv: [A]}}":               `:1:47: mcp.a.passEnv: A is set in env too`,
	"mcp: {a: {command: [x], passEnv: [A, B=c]}}":                       `:1:38: mcp.a.passEnv: "B=c" is no name of a variable; values stand in env`,
	"mcp: {a: {command: [x, '{dir}']}}":                                 `:1:20: mcp.a.command: holds {dir}, which is the agent's directory with perDir: true`,
	"mcp: {a: {command: [x], perDir: true, dir: .}}":                    `:1:44: mcp.a.dir: and perDir are both set; with perDir the directory is the agent's`,
	"mcp: {a: {command: [x], prefix: a.b}}":                             `:1:33: mcp.a.prefix: "a.b" cannot begin the name of a tool: want 0 to 40 of a-z, A-Z, 0-9, _ and -`,
	"mcp: {a: {command: [x], allow: []}}":                               `:1:32: mcp.a.allow: is empty; leave it out for all tools of the server`,
	"mcp: {a: {command: [x], allow: [t, t]}}":                           `:1:36: mcp.a.allow[1]: "t" stands twice`,
	"mcp: {a: {command: [x], allow: [t], deny: [u, t]}}":                `:1:47: mcp.a.deny[1]: "t" is allowed and denied`,
	"mcp: {a: {command: [x], approval: some}}":                          `:1:35: mcp.a.approval: want all or a list of tools, got "some"`,
	"mcp: {a: {command: [x], approval: true}}":                          `:1:35: mcp.a.approval: want all or a list of tools, got a boolean`,
	"mcp: {a: {command: [x], approval: [t, t]}}":                        `:1:39: mcp.a.approval[1]: "t" stands twice`,
	"mcp: {a: {command: [x], risk: {t: harmless}}}":                     `:1:35: unknown risk "harmless"; one of read, write, network, execute, destructive, undeclared`,
	"mcp: {a: {command: [x], risk: read}}":                              `:1:31: mcp.a.risk: want a mapping of tools to risks, got a string`,
	"mcp: {a: {command: [x], startTimeout: 0s}}":                        `:1:39: mcp.a.startTimeout: duration "0s" is not more than zero`,
	"mcp: {a: {command: [x], callTimeout: 5}}":                          `:1:38: mcp.a.callTimeout: want a duration such as 90s, 30m or 48h, got a number`,
	"mcp: {a: {command: [x], callTimeout: 25h}}":                        `:1:38: mcp.a.callTimeout: 25h0m0s is more than 24h0m0s`,
	"mcp: {a: {command: [x], maxResult: 0}}":                            `:1:36: mcp.a.maxResult: 0 bytes are out of range; 1KiB to 16MiB`,
	"mcp: {a: {command: [x], maxResult: 17MiB}}":                        `:1:36: mcp.a.maxResult: 17825792 bytes are out of range; 1KiB to 16MiB`,
	"mcp: {a: {command: [x], required: no}}":                            `:1:35: mcp.a.required: want true or false, got a string`,
}

const mcpKeys = "command, env, passEnv, dir, perDir, url, headers, tokenEnv, tokenFile, prefix, allow, deny, approval, risk, idempotent, startTimeout, callTimeout, maxResult, required"

func TestWhatIsSaidOfAServer(t *testing.T) {
	f, err := config.Parse("/srv/a/assent.yaml", []byte(`
mcp:
  plain: {command: [npx, server]}
  near: {command: [bin/server, "{dir}"], perDir: true, prefix: "", approval: all, required: false}
  far: {url: "https://h/mcp", tokenFile: token, risk: {send: network, list: undeclared}, approval: [send]}
`))
	require.NoError(t, err)
	none := ""
	assert.Equal(t, map[string]config.MCPServer{
		"plain": {Key: "mcp.plain", Command: []string{"npx", "server"}, Dir: "/srv/a", Required: true},
		"near":  {Key: "mcp.near", Command: []string{"/srv/a/bin/server", "{dir}"}, PerDir: true, Prefix: &none, ApproveAll: true},
		"far": {Key: "mcp.far", URL: "https://h/mcp", Token: config.MCPServer{}.Token, Required: true, Approval: []string{"send"},
			Risk: map[string]tool.Risk{"send": tool.Network, "list": tool.Undeclared}},
	}, withoutToken(f.MCP))
	assert.Equal(t, "/srv/a/token", f.MCP["far"].Token.File)

	for name, want := range map[string][]any{
		"far_send": {"far", tool.Network, true, true}, "far_list": {"far", tool.Undeclared, false, true},
		"plain_x": {"plain", tool.Undeclared, false, true}, "x": {"", tool.Undeclared, false, false}, "far_": {"", tool.Undeclared, false, false},
	} {
		server, risk, approval, ok := f.Describes(name)
		assert.Equal(t, want, []any{server, risk, approval, ok}, name)
	}
}

func withoutToken(in map[string]config.MCPServer) map[string]config.MCPServer {
	out := map[string]config.MCPServer{}
	for name, s := range in {
		s.Token = config.MCPServer{}.Token
		out[name] = s
	}
	return out
}

// Names of tools that only a server knows are no slips of the pen, and the name of a server is not one of a tool.
func TestLintKnowsServers(t *testing.T) {
	f, err := config.Parse("p.yaml", []byte(`
engine: {deny: [{tool: [fs, read_fily, other_x]}]}
profiles: {p: {tools: [fs, shell], permissions: {ask: [{tool: read_filo}, {tool: shel}]}}}
mcp: {fs: {command: [x], prefix: read_}}
`))
	require.NoError(t, err)
	var said []string
	for _, w := range f.Lint([]tool.Info{{Name: "read_file"}, {Name: "shell"}}, nil) {
		said = append(said, w.Key+": "+w.Message)
	}
	assert.Equal(t, []string{
		"engine.deny[0].tool[0]: fs is a server, and rules name tools: those of it begin with read_",
		"profiles.p.permissions.ask[1].tool: no tool is known as shel, did you mean shell",
	}, said)
}

// What docs/mcp.md shows is read as it stands there.
func TestMCPPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "mcp.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		_, err := config.Parse("assent.yaml", []byte(b[1]))
		require.NoError(t, err, b[1])
	}
}
