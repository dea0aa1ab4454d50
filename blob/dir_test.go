package blob_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/blob/blobtest"
	"github.com/assent-dev/assent/fault"
)

func open(t *testing.T, path string) *blob.Dir {
	t.Helper()
	d, err := blob.NewDir(path)
	require.NoError(t, err)
	return d
}

func TestDirKeepsTheContract(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blobtest.Opener {
		path := filepath.Join(t.TempDir(), "store")
		return func(t *testing.T) blob.Store { return open(t, path) }
	})
}

func TestDirIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "store")
	d := open(t, path)
	_, err := d.Put(t.Context(), []byte("secret"))
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s has mode %v", p, info.Mode())
		return nil
	}))
}

// objectPath finds the only blob of a store without knowing its layout.
func objectPath(t *testing.T, store string) string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(filepath.Join(store, "objects"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			found = append(found, p)
		}
		return err
	}))
	require.Len(t, found, 1)
	return found[0]
}

func TestDamagedBytesAreReportedAndHealed(t *testing.T) {
	for name, damage := range map[string]string{"changed": "keeP", "cut": "ke", "grown": "keep it", "emptied": ""} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			d := open(t, path)
			ref, err := d.Put(t.Context(), []byte("keep"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(objectPath(t, path), []byte(damage), 0o600))

			_, err = d.Get(t.Context(), ref)
			var corrupt *blob.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, ref, corrupt.Ref)
			require.Equal(t, d.ID(), corrupt.Store)
			require.Equal(t, blob.RefOf([]byte(damage)).SHA256, corrupt.Got)

			_, err = d.Put(t.Context(), []byte("keep"))
			require.NoError(t, err)
			got, err := d.Get(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, "keep", string(got))
		})
	}
}

func TestNewDirRefusesWhatIsNoStore(t *testing.T) {
	_, err := blob.NewDir("")
	require.True(t, fault.IsConfig(err), "%v", err)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = blob.NewDir(file)
	require.True(t, fault.IsConfig(err), "%v", err)

	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "store-id"), []byte("mine\n"), 0o600))
	_, err = blob.NewDir(path)
	require.True(t, fault.IsConfig(err), "%v", err)
}

func TestProcessesThatCreateAStoreAgreeOnItsIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			d, err := blob.NewDir(path)
			if assert.NoError(t, err) {
				ids[i] = d.ID()
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
}

func TestLeftoversOfCrashesAreSwept(t *testing.T) {
	path := t.TempDir()
	open(t, path)
	old, fresh := filepath.Join(path, "tmp", "put-old"), filepath.Join(path, "tmp", "put-fresh")
	for _, name := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(name, []byte("half"), 0o600))
	}
	long := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(old, long, long))
	open(t, path)
	require.NoFileExists(t, old)
	require.FileExists(t, fresh, "another process may be writing it")
}

func TestPutLeavesNothingAside(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	_, err := d.Put(t.Context(), []byte("x"))
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Join(path, "tmp"))
	require.NoError(t, err)
	require.Empty(t, entries)
}
