package procfs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/procfs"
)

// sleeper is a process of a program with a name, which ends with the test.
func sleeper(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Symlink(sh, path))
	cmd := exec.Command(path, "-c", "read line")
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestRead(t *testing.T) {
	cmd := sleeper(t, "a) Z 1 2 3")
	p, ok := procfs.Read(cmd.Process.Pid)
	require.True(t, ok)
	require.Equal(t, os.Getpid(), p.Parent)
	session, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(cmd.Process.Pid), 0, 0)
	require.Zero(t, errno)
	require.Equal(t, int(session), p.Session)
	procfs.Settled(time.Now(), func(l *procfs.Look) (int, bool) {
		seq, err := l.Others()
		require.NoError(t, err)
		all := slices.Collect(seq)
		require.Contains(t, all, p)
		for n, other := range all {
			require.NotEqual(t, os.Getpid(), other.ID)
			require.True(t, n == 0 || other.ID < all[n-1].ID, "the newest first")
		}
		return 1, false
	})

	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { _, lives := procfs.Read(cmd.Process.Pid); return !lives }, time.Minute, time.Millisecond, "a zombie does not live")
	_ = cmd.Wait()
	_, ok = procfs.Read(cmd.Process.Pid)
	require.False(t, ok)
	require.False(t, p.Signal(0))
}

// The number of a process that is gone may be another one's.
func TestSignalMeetsNoOther(t *testing.T) {
	cmd := sleeper(t, "victim")
	p, ok := procfs.Read(cmd.Process.Pid)
	require.True(t, ok)
	require.True(t, p.Signal(0))
	ticks, err := strconv.Atoi(p.Start)
	require.NoError(t, err)
	p.Start = strconv.Itoa(ticks - 1)
	require.False(t, p.Signal(syscall.SIGKILL))
	_, lives := procfs.Read(p.ID)
	require.True(t, lives)
}

// One that is stopped is continued, so that it can obey.
func TestSignalContinues(t *testing.T) {
	cmd := sleeper(t, "stopped")
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	p, ok := procfs.Read(cmd.Process.Pid)
	require.True(t, ok)
	require.True(t, p.Signal(syscall.SIGTERM))
	require.EqualError(t, cmd.Wait(), "signal: terminated")
}

func TestCarries(t *testing.T) {
	settled(t, testCarries)
}

// settled gives a test one look at what has begun in an hour.
func settled(t *testing.T, test func(*testing.T, *procfs.Look)) {
	procfs.Settled(time.Now().Add(-time.Hour), func(l *procfs.Look) (int, bool) { test(t, l); return 1, false })
}

func testCarries(t *testing.T, l *procfs.Look) {
	mine, ok := procfs.Read(os.Getpid())
	require.True(t, ok)
	path := os.Getenv("PATH")
	require.NotEmpty(t, path)
	for _, c := range []struct {
		name, value string
		carries     bool
	}{{"PATH", path, true}, {"PATH", path[1:], false}, {"ATH", path, false}, {"PATH", "", false}} {
		carries, told := l.Carries(mine, c.name, c.value)
		require.True(t, told)
		require.Equal(t, c.carries, carries, "%s=%s", c.name, c.value)
	}

	// Threads of the kernel have no environment at any time.
	kernel, ok := procfs.Read(2)
	if ok && kernel.Parent == 0 {
		_, told := l.Carries(kernel, "PATH", path)
		require.True(t, told)
	}
}

func TestSettled(t *testing.T) {
	looks := 0
	require.Equal(t, 2, procfs.Settled(time.Now(), func(*procfs.Look) (int, bool) {
		if looks++; looks == 3 {
			return 2, true
		}
		return 0, true
	}))
	require.Equal(t, 3, looks)
	require.Zero(t, procfs.Settled(time.Now(), func(*procfs.Look) (int, bool) { return 0, false }))
	require.Zero(t, procfs.Settled(time.Now(), func(*procfs.Look) (int, bool) { return 0, true }), "it ends although it is not told")
}

// One that ends between the listing and its turn may have left another one: there is one more look, and not more for a zombie.
func TestSettledLooksAgainForOneThatHasEnded(t *testing.T) {
	cmd := sleeper(t, "ends")
	looks := 0
	require.Equal(t, 1, procfs.Settled(time.Now(), func(l *procfs.Look) (found int, unclear bool) {
		all, err := l.Others()
		require.NoError(t, err)
		if looks++; looks == 1 {
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
		}
		for p := range all {
			require.NotEqual(t, cmd.Process.Pid, p.ID)
		}
		return looks - 1, false
	}))
	require.Equal(t, 2, looks)
}
