package git

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// start starts a process that does c, and does not wait for it.
func (c crash) start(t *testing.T, d *Driver) *exec.Cmd {
	t.Helper()
	c.Host, c.Root = d.repos["r"], d.root
	text, err := json.Marshal(c)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(gitEnv(), crashVariable+"="+string(text), "TMPDIR="+os.TempDir())
	require.NoError(t, cmd.Start())
	return cmd
}

// TestProcessesAcquireWhileOneIsKilled has a process each make eight trees of one host, and six the same one. One of them
// is killed at a random step, another at a random time. All others succeed.
func TestProcessesAcquireWhileOneIsKilled(t *testing.T) {
	t.Parallel()
	for _, isPrivate := range []bool{false, true} {
		host := repo(t)
		before := fingerprint(t, host)
		d := driver(t, host)
		at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r", Private: isPrivate})
		require.NoError(t, err)
		ids := agents(8)
		for range 6 {
			ids = append(ids, who)
		}
		steps := ownSteps
		if isPrivate {
			steps = pinSteps
		}
		dies, shot, step := rand.IntN(8), 8+rand.IntN(6), steps[rand.IntN(len(steps))]
		wait := time.Duration(rand.IntN(60)) * time.Millisecond
		t.Logf("%d dies at %s, %d after %v", dies, step, shot, wait)
		var all []*exec.Cmd
		for i, id := range ids {
			c := crash{Op: "acquire", Resolved: at, As: &id}
			if i == dies {
				c.Step = step
			}
			all = append(all, c.start(t, d))
		}
		time.Sleep(wait)
		_ = all[shot].Process.Signal(syscall.SIGKILL)
		for i, cmd := range all {
			_ = cmd.Wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			switch i {
			case dies:
				require.Equal(t, syscall.SIGKILL, status.Signal())
			case shot: // it may have been faster
			default:
				require.Equal(t, noStep, status.ExitStatus(), "process %d", i)
			}
		}
		for _, id := range ids[:9] {
			l, err := d.Acquire(ctx, id, at)
			require.NoError(t, err)
			require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
			require.NoError(t, d.Dispose(ctx, l, true))
		}
		_, err = d.Sweep(ctx)
		require.NoError(t, err)
		same(t, before, fingerprint(t, host))
		requireOnlyStateAfterClose(t, d)
	}
}
