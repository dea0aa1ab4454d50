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
	blobtest.RunPlace(t, func(t *testing.T) blobtest.Place {
		path := filepath.Join(t.TempDir(), "store")
		return blobtest.Place{
			Open: func(t *testing.T) blob.Store { return open(t, path) },
			Damage: func(t *testing.T, ref blob.Ref, data []byte) {
				require.NoError(t, os.WriteFile(file(path, ref), data, 0o600))
			},
			Backdate: func(t *testing.T, ref blob.Ref, at time.Time) {
				require.NoError(t, os.Chtimes(file(path, ref), at, at))
			},
		}
	})
}

// file is where the store keeps a blob.
func file(store string, ref blob.Ref) string {
	return filepath.Join(store, "objects", ref.SHA256[:2], ref.SHA256[2:])
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
	old, fresh, other := filepath.Join(path, "tmp", "put-old"), filepath.Join(path, "tmp", "put-fresh"), filepath.Join(path, "tmp", "thesis.txt")
	for _, name := range []string{old, fresh, other} {
		require.NoError(t, os.WriteFile(name, []byte("half"), 0o600))
	}
	long := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(old, long, long))
	require.NoError(t, os.Chtimes(other, long, long))
	open(t, path)
	require.NoFileExists(t, old)
	require.FileExists(t, fresh, "another process may be writing it")
	require.FileExists(t, other, "nobody else's file is deleted")
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

// A process that dies while it deletes has not deleted: the blob may have been wanted again at that moment.
func TestDeletionThatCrashedIsUndone(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	ref, err := d.Put(t.Context(), []byte("keep"))
	require.NoError(t, err)
	aside := filepath.Join(path, "tmp", "del-"+ref.SHA256)
	require.NoError(t, os.Rename(file(path, ref), aside))
	open(t, path)
	require.NoFileExists(t, aside)
	_, err = d.Get(t.Context(), ref)
	require.NoError(t, err)

	// If somebody has written it anew, that one stays.
	require.NoError(t, os.WriteFile(aside, []byte("damaged"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(path, "tmp", "del-nonsense"), nil, 0o600))
	open(t, path)
	entries, err := os.ReadDir(filepath.Join(path, "tmp"))
	require.NoError(t, err)
	require.Empty(t, entries)
	got, err := d.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "keep", string(got))
}

func TestListLeavesOutWhatIsNoBlob(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	ref, err := d.Put(t.Context(), []byte("x"))
	require.NoError(t, err)
	for _, name := range []string{"objects/README", "objects/ab/short", "objects/ab/cd/" + ref.SHA256, "objects/zz/" + ref.SHA256[2:]} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(path, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
	}
	var got []blob.Ref
	for e, err := range d.List(t.Context()) {
		require.NoError(t, err)
		got = append(got, e.Ref)
	}
	require.Equal(t, []blob.Ref{ref}, got)
	require.NoError(t, os.RemoveAll(filepath.Join(path, "objects")))
	for _, err := range d.List(t.Context()) {
		require.ErrorIs(t, err, fs.ErrNotExist, "a store that cannot be read is not an empty one")
	}
}
