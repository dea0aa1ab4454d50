package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/mcptest"
)

var (
	consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	yamlBlock    = regexp.MustCompile("(?ms)^```yaml\n# ([a-z]+\\.yaml)\n.*?^```$")
)

// Every command of docs/policy.md prints what stands below it. Its files are those that the page shows.
func TestPolicyPage(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	path := filepath.Join(root, "docs", "policy.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)

	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")))
	files := yamlBlock.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, files)
	for _, m := range files {
		text := strings.TrimSuffix(strings.TrimPrefix(m[0], "```yaml\n"), "```")
		require.NoError(t, os.WriteFile(filepath.Join(dir, m[1]), []byte(text), 0o600))
		_, errs := config.Check(filepath.Join(dir, m[1]))
		require.Empty(t, errs, m[1])
	}

	require.Greater(t, tellsPage(t, path, dir, false), 5)
}

// tellsPage runs the commands of a page's console blocks in dir, holds what they print against what stands below them,
// and returns how many there were. findings says that a command may end with exit code 1.
func tellsPage(t *testing.T, path, dir string, findings bool) (commands int) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "starter"))) // under this name the test is the command
	now := consoleBlock.ReplaceAllStringFunc(string(page), func(block string) string {
		var out strings.Builder
		out.WriteString("```console\n")
		for _, line := range strings.Split(block, "\n") {
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			commands++
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "NO_COLOR=1")
			text, err := cmd.CombinedOutput()
			require.NotContains(t, string(text), "error:")
			if code := cmd.ProcessState.ExitCode(); !findings || code != exit.Failed {
				require.NoError(t, err, "%s\n%s", command, text)
			}
			out.WriteString(line + "\n" + string(text))
		}
		return out.String() + "```"
	})
	if *updatePages {
		require.NoError(t, os.WriteFile(path, []byte(now), 0o600))
		return commands
	}
	require.Equal(t, string(page), now, "go test ./cmd/starter -run %s -update", t.Name())
	return commands
}

// The worked example of docs/approvals.md is what the engine signs and accepts, and what openssl takes for a signature.
func TestApprovalsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "approvals.md"))
	require.NoError(t, err)
	block := func(name string) string {
		m := regexp.MustCompile("(?ms)^```[a-z]+ " + name + "\n(.*?)^```$").FindSubmatch(page)
		require.NotNil(t, m, name)
		return strings.TrimSpace(string(m[1]))
	}
	var q approval.Approval
	require.NoError(t, json.Unmarshal([]byte(block("question")), &q))
	require.NoError(t, q.Sealed(), "the digest is that of the arguments")
	r, err := approval.Parse([]byte(block("answer")))
	require.NoError(t, err)
	statement, err := approval.Statement(q, r)
	require.NoError(t, err)
	require.Equal(t, block("statement"), string(statement))

	der, _ := pem.Decode([]byte(block("public")))
	require.NotNil(t, der)
	public, err := x509.ParsePKIXPublicKey(der.Bytes)
	require.NoError(t, err)
	keys := map[string]ed25519.PublicKey{"alice": public.(ed25519.PublicKey)}
	name, err := approval.VerifySignature(q, r, keys)
	require.NoError(t, err)
	require.Equal(t, "alice", name)

	file, err := config.Parse("assent.yaml", []byte(yamlBlocks.FindStringSubmatch(string(page))[1]))
	require.NoError(t, err)
	require.Equal(t, keys, file.Keys)

	if openssl, err := exec.LookPath("openssl"); err == nil {
		t.Log(openssl)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "statement.json"), statement, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "alice.pub"), []byte(block("public")+"\n"), 0o600))
		cmd := exec.Command("sh", "-ec", block("openssl"))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "Signature Verified Successfully")
	}
}

var yamlBlocks = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The commands of docs/mcp.md print what stands below them, with the server from npm.
func TestMCPPage(t *testing.T) {
	program := mcptest.NPM(t, "mcp-server-filesystem")[0]
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	path := filepath.Join(root, "docs", "mcp.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Dir(filepath.Dir(program)), filepath.Join(dir, "node_modules")))
	m := yamlBlock.FindSubmatch(page)
	require.NotNil(t, m)
	require.NoError(t, os.WriteFile(filepath.Join(dir, string(m[1])), []byte(strings.TrimSuffix(strings.TrimPrefix(string(m[0]), "```yaml\n"), "```")), 0o600))
	require.Equal(t, 3, tellsPage(t, path, dir, false))
}
