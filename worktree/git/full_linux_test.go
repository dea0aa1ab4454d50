package git

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

const fullVariable = "WORKTREE_TEST_FULL"

// TestFullDisk runs TestOnAFullDisk with name spaces of its own, where anybody may mount a small file system.
func TestFullDisk(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^TestOnAFullDisk$")
	cmd.Env = append(os.Environ(), fullVariable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "where name spaces are forbidden: sysctl kernel.apparmor_restrict_unprivileged_userns=0\n%s", out)
	require.Contains(t, string(out), "--- PASS: TestOnAFullDisk")
}

// TestOnAFullDisk acquires, collects and disposes of trees on a disk with less and less room.
func TestOnAFullDisk(t *testing.T) {
	disk := os.Getenv(fullVariable)
	if disk == "" {
		t.Skip("TestFullDisk runs it")
	}
	for _, where := range []string{"root", "host"} {
		require.NoError(t, syscall.Mount("none", disk, "tmpfs", 0, "size=1m,mode=0700"))
		host := repo(t)
		root := filepath.Join(t.TempDir(), "root")
		if where == "root" {
			root = filepath.Join(disk, "root")
		} else {
			require.NoError(t, os.CopyFS(filepath.Join(disk, "host"), os.DirFS(host)))
			host = filepath.Join(disk, "host")
		}
		d, err := New(Config{Repos: map[string]string{"r": host}, Root: root, KeepOnError: true})
		require.NoError(t, err)
		before := fingerprint(t, host)
		at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
		require.NoError(t, err)
		refused := 0
		for pages := range 40 {
			filler := fillBut(t, disk, pages)
			id := worktree.Identity{Namespace: where, WorkflowID: fmt.Sprint(pages)}
			l, err := d.Acquire(ctx, id, at)
			if err != nil {
				var space *worktree.SpaceError
				require.ErrorAs(t, err, &space, "%s, %d pages", where, pages)
				refused++
				require.NoError(t, d.Close())
				same(t, before, fingerprint(t, host))
				requireOnlyState(t, d)
				require.NoError(t, os.Remove(filler))
				l, err = d.Acquire(ctx, id, at)
				require.NoError(t, err)
				filler = fillBut(t, disk, 0)
			}
			// Room is made by disposing of trees, so that must need none.
			require.NoError(t, d.Dispose(ctx, l, true), "%s, %d pages", where, pages)
			require.NoError(t, d.Close())
			same(t, before, fingerprint(t, host))
			requireOnlyState(t, d)
			require.NoError(t, os.Remove(filler))
		}
		collectOnAFullDisk(t, d, at, disk, where == "root")
		require.NoError(t, d.Close())
		same(t, before, fingerprint(t, host))
		t.Logf("%s: %d of 40 levels refused", where, refused)
		require.Positive(t, refused)
		require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH))
	}
}

// collectOnAFullDisk requires that a collect that has no room for its record says so, and that nothing is lost by it.
func collectOnAFullDisk(t *testing.T, d *Driver, at worktree.Resolved, disk string, fails bool) {
	l, err := d.Acquire(ctx, who, at)
	require.NoError(t, err)
	put(t, l.Dir, "work.txt", "w\n")
	require.NoError(t, d.Close()) // flushed
	filler := fillBut(t, disk, 0)
	_, err = d.Collect(ctx, l)
	if fails {
		var space *worktree.SpaceError
		require.ErrorAs(t, err, &space)
		var not *worktree.NotCollectedError
		require.ErrorAs(t, d.Dispose(ctx, l, false), &not)
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(filler))
	require.Equal(t, "a work.txt\n", status(collect(t, d, l)))
	require.NoError(t, d.Dispose(ctx, l, false))
}

// fillBut fills a disk but for some pages and returns the file that does.
func fillBut(t *testing.T, disk string, pages int) string {
	path := filepath.Join(disk, "filler")
	f, err := os.Create(path)
	require.NoError(t, err)
	page := []byte(strings.Repeat("x", 4096))
	for err == nil {
		_, err = f.Write(page)
	}
	require.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
	fi, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, f.Truncate(max(0, fi.Size()/4096*4096-int64(pages)*4096)))
	require.NoError(t, f.Close())
	return path
}
