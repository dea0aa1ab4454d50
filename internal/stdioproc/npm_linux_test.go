package stdioproc_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/mcptest"
)

// TestAServerByNPMDiesWithTheWorker kills a worker whose server was started as people do it: npm starts a shell, which
// starts node.
func TestAServerByNPMDiesWithTheWorker(t *testing.T) {
	mcptest.NPM(t, "mcp-server-everything")
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not on PATH")
	}
	// A server that ends with its stdin would end anyway; this one's stdin stays open.
	script := `sleep 1000 | exec "` + npm + `" exec --offline --prefix "` + os.Getenv(mcptest.Servers) + `" -- mcp-server-everything stdio`
	dir := t.TempDir()
	exe, err := os.Executable()
	require.NoError(t, err)
	worker := exec.Command(exe)
	worker.Dir = dir
	worker.Env = append(os.Environ(), "STDIOPROC_TEST_WORKER="+script, "HOME="+dir)
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	// HOME is a folder of this test alone, and every process of the tree has it, as the worker has.
	server := func(environ string) bool { return strings.Contains(environ, "\x00HOME="+dir+"\x00") }
	node := func() bool {
		for _, command := range commands(t, server) {
			if strings.HasPrefix(command, "node\x00") && strings.Contains(command, ".bin/mcp-server-everything\x00") {
				return true
			}
		}
		return false
	}
	require.Eventually(t, node, 3*time.Minute, 5*time.Millisecond)
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	require.Eventually(t, func() bool { return len(commands(t, server)) == 0 }, 3*time.Minute, 5*time.Millisecond)
}

// commands are the command lines of the living processes whose environment is as is says.
func commands(t *testing.T, is func(environ string) bool) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !is("\x00"+string(environ)) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found = append(found, string(command))
	}
	return found
}
