package devserver

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A builder that is killed takes its compiler with it and frees the lock.
func TestKilledBuilder(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	real := os.Getenv("PATH")
	pidFile := blockingGo(t)
	builder := exec.Command(os.Args[0])
	builder.Env = append(os.Environ(), actVariable+"=locate", "ROOT="+root, "CACHE="+cache)
	require.NoError(t, builder.Start())
	pids := readPIDs(t, pidFile)
	require.NoError(t, builder.Process.Kill())
	require.Error(t, builder.Wait())
	assertGone(t, pids[0])
	if p, err := os.FindProcess(pids[1]); err == nil {
		_ = p.Kill() // the real compiler's children end by themselves within seconds
	}

	t.Setenv("PATH", real)
	b, err := testLocator(root, cache, nil).locate(t.Context())
	require.NoError(t, err)
	require.Equal(t, tinyVersion, b.Version)
}

// The owner is killed, so that nothing it could do for its server is done.
func TestServerDiesWithItsOwner(t *testing.T) {
	for _, detached := range []bool{false, true} {
		t.Run(fmt.Sprintf("detached=%v", detached), func(t *testing.T) {
			owner, port, pid := startOwner(t, detached)
			t.Cleanup(func() {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			})
			require.NoError(t, owner.Process.Kill())
			require.Error(t, owner.Wait())
			if detached {
				require.NoError(t, waitReady(t.Context(), chosenPorts{grpc: port}, "default"), "it is still there")
				return
			}
			assertGone(t, pid)
		})
	}
}
