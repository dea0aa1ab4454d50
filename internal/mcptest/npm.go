package mcptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Servers is the environment variable that names the folder where the servers from npm are installed: the one that
// holds node_modules.
const Servers = "ASSENT_MCP_SERVERS"

// NPM is the program of a server from npm, such as mcp-server-filesystem, with its arguments. Without those servers the test
// is skipped; in CI it fails.
func NPM(tb testing.TB, name string, args ...string) []string {
	tb.Helper()
	const get = "; npm ci --prefix .ci/mcp installs them into .ci/mcp, which it may then name by its absolute path"
	dir := os.Getenv(Servers)
	if dir == "" {
		missing(tb, Servers+" is not set; it names the folder of the MCP servers from npm"+get)
	}
	path := filepath.Join(dir, "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		missing(tb, Servers+" has no such server"+get+": "+err.Error())
	}
	if _, err := exec.LookPath("node"); err != nil {
		missing(tb, "node is not on PATH, which servers from npm need")
	}
	return append([]string{path}, args...)
}

func missing(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(why)
	}
	tb.Skip(why)
}
