package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/tool"
)

// toolsRun runs starter tools with these arguments and returns both streams.
func toolsRun(t *testing.T, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Equal(t, want, run(context.Background(), append([]string{"tools"}, args...), nil, &stdout, &stderr), stdout.String()+stderr.String())
	return stdout.String() + stderr.String()
}

// What attest prints, put under the profile's permissions, is read and holds for exactly these tools.
func TestToolsAttest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assent.yaml")
	write := func(tools, attestation string) {
		text := "profiles:\n  p:\n    tools: [" + tools + "]\n    permissions:\n      preset: standard\n" + attestation
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	attest := func(want int, args ...string) string {
		return toolsRun(t, want, append([]string{"attest", "--config", path}, args...)...)
	}
	write("files, shell", "")
	require.Contains(t, toolsRun(t, exit.Usage, "check", "--config", path), "has no attestation to compare with")
	printed := attest(exit.OK, "--profile", "p")
	write("files, shell", "      "+strings.ReplaceAll(strings.TrimSpace(printed), "\n", "\n      ")+"\n")
	file, err := config.Load(path)
	require.NoError(t, err)
	require.Equal(t, "standard", string(file.Profiles["p"].Permissions.Preset))
	held := file.Profiles["p"].Attestation
	require.NotNil(t, held)

	var asJSON tool.Attestation
	require.NoError(t, json.Unmarshal([]byte(attest(exit.OK, "--profile", "p", "-o", "json")), &asJSON))
	require.Equal(t, *held, asJSON)
	require.Equal(t, "p: holds, 7 tools\n", toolsRun(t, exit.OK, "check", "--config", path))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, path+": the attestation of p holds; nothing is written\n", attest(exit.OK, "--profile", "p", "--write"))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	// Other tools are a drift, which is said before it is written down.
	changed := strings.Replace(string(before), "[files, shell]", "[files, exec] # since May", 1)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	require.NoError(t, os.Chmod(path, 0o640))
	require.Equal(t, "p: toolset differs from its attestation: missing: shell; added: exec\n", toolsRun(t, exit.Failed, "check", "--config", path))
	require.Contains(t, toolsRun(t, exit.OK, "--config", path), "attestation: toolset differs from its attestation: missing: shell; added: exec\n")
	require.Equal(t, path+": p is attested anew, 7 tools; missing: shell; added: exec\n", attest(exit.OK, "--profile", "p", "--write"))
	require.Equal(t, "p: holds, 7 tools\n", toolsRun(t, exit.OK, "check", "--config", path))
	is, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(is), "[files, exec] # since May\n")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm(), "the mode stays")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)

	write("files, mine", "")
	require.Contains(t, attest(exit.Usage, "--profile", "p"), `the stock worker has no tool "mine"`)
	require.Contains(t, toolsRun(t, exit.OK, "--config", path), "refused: mine: no tool, toolset or MCP server of this file has the name\n")
	write("files, read_file", "")
	require.Contains(t, attest(exit.Usage, "--profile", "p"), "tools.read_file: the toolset has two tools of this name")
	write("shell, shell", "")
	require.Contains(t, attest(exit.Usage, "--profile", "p"), `"shell" stands twice`)
	write("shell", "")
	require.Contains(t, attest(exit.Usage, "--profile", "q"), `unknown profile "q"`)
	require.Contains(t, attest(exit.Usage), "--profile is missing")
	require.Contains(t, toolsRun(t, exit.Usage, "--config", path+"x"), "no configuration file at")
	require.Contains(t, toolsRun(t, exit.Usage, "--config", ""), "--config is empty")
	require.Contains(t, toolsRun(t, exit.Usage, "--config", path, "--server", "fs"), `has no MCP server "fs"`)

	var stdout, stderr bytes.Buffer
	require.Equal(t, exit.Usage, run(context.Background(), []string{"policy", "attest", "--policy", path, "--profile", "p"}, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "hint: starter tools attest --config FILE --profile P")
}

// What the policy says to tools without looking at arguments.
func TestToolsPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
engine:
  deny: [{tool: shell, argv: "rm -rf **"}]
  vetted: [{tool: shell, argv: "ls"}]
profiles:
  p:
    tools: [shell, exec, read_file, write_file, fetch]
    permissions: {preset: standard, deny: [{tool: fetch}], ask: [{tool: write_file}]}
  q:
    tools: [shell, fetch, write_file]
    isolation: readonly
    permissions: {inheritPermissions: true, deny: [{tool: fetch, domains: [example.com]}]}
`), 0o600))
	out := toolsRun(t, exit.OK, "--config", path, "-o", "json")
	got := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var p profileTools
		require.NoError(t, json.Unmarshal([]byte(line), &p))
		for _, x := range p.Tools {
			got[p.Profile+" "+x.Name] = x.Risk + " " + x.Policy + ": " + x.Why
			require.NotEmpty(t, x.Description)
			require.Len(t, x.Contract, 64)
		}
	}
	require.Equal(t, map[string]string{
		"p shell":      "execute depends: ask unless its arguments make it deny or allow; ask-rule {risk: [network, execute, destructive]} (preset standard)",
		"p exec":       "execute ask: ask-rule {risk: [network, execute, destructive]} (preset standard)",
		"p read_file":  "read allow: default",
		"p write_file": "write ask: ask-rule {tool: write_file} (profile)",
		"p fetch":      "network deny: deny-rule {tool: fetch} (profile)",
		"q shell":      "execute depends: allow unless its arguments make it deny; default; what the agent above may not, it may not either",
		"q fetch":      "network depends: allow unless its arguments make it deny; default; what the agent above may not, it may not either",
		"q write_file": "write deny: deny-rule {risk: [write, destructive]} (readonly isolation)",
	}, got)
	text := toolsRun(t, exit.OK, "--config", path, "--profile", "p")
	require.Contains(t, text, "profile p: 5 tools\nTOOL ")
	require.Regexp(t, `(?m)^fetch +first-party +network +- +deny +[0-9a-f]{12} +[0-9a-f]{12} +deny-rule \{tool: fetch\} \(profile\)$`, text)
	require.Regexp(t, `(?m)^toolset [0-9a-f]{12}, authority [0-9a-f]{12}, attestation: none$`, text)
}

// A variable that is to be passed on and is not there is said once, and is no error.
func TestAVariableThatIsNotSet(t *testing.T) {
	t.Setenv("ASSENT_TEST_SET", "")
	path := filepath.Join(t.TempDir(), "assent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
profiles: {p: {tools: [a, b], permissions: {preset: standard}}}
mcp:
  a: {command: [sh, -c, exit 3], passEnv: [ASSENT_TEST_SET, ASSENT_TEST_UNSET, ASSENT_TEST_AWAY]}
  b: {command: [sh, -c, exit 3], passEnv: [ASSENT_TEST_SET]}
`), 0o600))
	said := toolsRun(t, exit.Failed, "--config", path)
	require.Equal(t, 1, strings.Count(said, `warning: MCP server "a": passEnv names what is not set here: ASSENT_TEST_UNSET, ASSENT_TEST_AWAY`+"\n"), said)
	require.Equal(t, 1, strings.Count(said, "not set"), said)
}

// explain takes what the file says of a server's tool, and says whose word it is.
func TestExplainAToolOfAServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
profiles: {p: {tools: [fs], permissions: {preset: standard}}}
mcp: {fs: {command: [no-such-program], risk: {look: read}, approval: [move]}}
`), 0o600))
	explain := func(name string) string {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exit.OK, run(context.Background(), []string{"explain", "--policy", path, "--profile", "p", "--tool", name}, nil, &stdout, &stderr), stderr.String())
		return stdout.String()
	}
	look := explain("fs_look")
	require.Contains(t, look, "allow   fs_look   {}\n")
	require.Contains(t, look, "note    risk read is what the file says; the MCP server fs may call the tool destructive: starter tools --server fs asks it\n")
	require.Contains(t, explain("fs_move"), "ask     fs_move   {}\n")
	require.Contains(t, explain("gs_look"), "note    profile p has no tool gs_look: a call of it is UNKNOWN_TOOL\n")
}
