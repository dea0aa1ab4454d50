package workerproc_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/mcptest"
)

// Servers end with the worker, and with them what they have started.
func TestServersEndWithTheWorker(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	says(t, withServers(command(mcptest.Command(t, "-children", pids))), "ends", "1 MCP server with ")
	text, err := os.ReadFile(pids)
	require.NoError(t, err)
	lines := strings.Fields(string(text))
	require.NotEmpty(t, lines)
	for _, line := range lines {
		pid, err := strconv.Atoi(line)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, 3*time.Minute, 20*time.Millisecond, line)
	}
}
