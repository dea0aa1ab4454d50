package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/protocol"
)

func TestFilesBesideAPatchAreWrittenBelowAFolder(t *testing.T) {
	ctx := context.Background()
	store := blob.NewMemory("")
	get := func(ref blob.Ref) ([]byte, error) { return store.Get(ctx, ref) }
	put := func(text string) blob.Ref {
		ref, err := store.Put(ctx, []byte(text))
		require.NoError(t, err)
		return ref
	}
	list := func(files ...protocol.LargeFile) blob.Ref {
		text, err := json.Marshal(files)
		require.NoError(t, err)
		return put(string(text))
	}
	dir := filepath.Join(t.TempDir(), "new")
	whole := list(
		protocol.LargeFile{Path: "a/b\n/big", Mode: "100755", Size: 6, Parts: []blob.Ref{put("one"), put("two")}},
		protocol.LargeFile{Path: "\ufffd", Name: []byte("\xff"), Mode: "100644"},
		protocol.LargeFile{Path: "none", Mode: "100644"})
	require.NoError(t, writeLarge(get, whole, dir))
	text, err := os.ReadFile(filepath.Join(dir, "a/b\n/big"))
	require.NoError(t, err)
	require.Equal(t, "onetwo", string(text))
	fi, err := os.Stat(filepath.Join(dir, "a/b\n/big"))
	require.NoError(t, err)
	require.NotZero(t, fi.Mode()&0o100)
	require.FileExists(t, filepath.Join(dir, "\xff"))
	require.ErrorIs(t, writeLarge(get, whole, dir), fs.ErrExist)

	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	for _, path := range []string{"../x", "/etc/x", "out/x", "a/../../x"} {
		require.Error(t, writeLarge(get, list(protocol.LargeFile{Name: []byte(path), Size: 3, Parts: []blob.Ref{put("one")}}), dir), path)
		require.Error(t, writeLarge(get, list(protocol.LargeFile{Path: path, Size: 3, Parts: []blob.Ref{put("one")}}), dir), path)
	}
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorContains(t, writeLarge(get, list(protocol.LargeFile{Path: "short", Size: 4, Parts: []blob.Ref{put("one")}}), dir), "has 3 bytes")
	require.Error(t, writeLarge(get, list(protocol.LargeFile{Path: "gone", Parts: []blob.Ref{blob.RefOf([]byte("never"))}}), dir))
	require.ErrorContains(t, writeLarge(get, put("{}"), dir), "read the list")
}
