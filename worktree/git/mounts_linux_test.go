package git

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsMountedInATreeIsNotDeleted mounts a stranger's folder in a tree, as a tool that runs containers may.
func TestWhatIsMountedInATreeIsNotDeleted(t *testing.T) {
	cache := t.TempDir()
	put(t, cache, "precious", "p\n")
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	at := filepath.Join(l.Dir, "ca che")
	require.NoError(t, os.Mkdir(at, 0o777))
	if err := syscall.Mount(cache, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	// In case the test fails: nobody is to delete what is mounted.
	t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	require.ErrorContains(t, d.Dispose(ctx, l, true), "mounted at \""+at)
	// A tree that was renamed away before it was mounted.
	trash := filepath.Join(d.root, "trash", "x")
	require.NoError(t, os.MkdirAll(filepath.Join(trash, "sub"), 0o700))
	require.NoError(t, syscall.Mount(cache, filepath.Join(trash, "sub"), "", syscall.MS_BIND, ""))
	t.Cleanup(func() { _ = syscall.Unmount(filepath.Join(trash, "sub"), syscall.MNT_DETACH) })
	_, err := d.Sweep(ctx)
	require.ErrorContains(t, err, "something is mounted")
	requireFile(t, cache, "precious", "p\n")

	require.NoError(t, syscall.Unmount(at, 0))
	require.NoError(t, syscall.Unmount(filepath.Join(trash, "sub"), 0))
	_, err = d.Sweep(ctx)
	require.NoError(t, err)
	require.NoDirExists(t, l.Dir)
	require.NoDirExists(t, trash)
	requireFile(t, cache, "precious", "p\n")
}
