package activities_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

// TestFilesBesideThePatchAreStoredInParts collects a file of more than two parts, an empty one, and one that changes.
func TestFilesBesideThePatchAreStoredInParts(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcde\n"), 33<<16)
	file := func(path string, data []byte) worktree.LargeFile {
		return worktree.LargeFile{Path: path, Mode: "100644", Size: int64(len(data)), ID: "id of " + path,
			Copy: func(_ context.Context, w io.Writer) error {
				_, err := io.Copy(w, bytes.NewReader(data))
				return err
			}}
	}
	p := &trees{patch: worktree.Patch{Bytes: []byte("diff"), Large: []worktree.LargeFile{file("big", big), file("none", nil), file("\xff", nil)}}}
	b := treeBench(t, p)
	var lease worktree.Lease
	require.NoError(t, b.call("acquire", b.engine.AcquireWorktree, protocol.AcquireRequest{}, &lease))
	var art protocol.Artifact
	collect := func() error {
		return b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: lease, Store: "memory"}, &art)
	}
	require.NoError(t, collect())
	require.Equal(t, 3, art.Large.Files)
	require.Equal(t, int64(len(big)), art.Large.Bytes)
	text, err := b.store.Get(context.Background(), art.Large.Ref)
	require.NoError(t, err)
	var list []protocol.LargeFile
	require.NoError(t, json.Unmarshal(text, &list))
	require.Equal(t, []string{"big", "none"}, []string{list[0].Path, list[1].Path})
	require.Equal(t, "id of big", list[0].ID)
	require.Nil(t, list[1].Name)
	require.Equal(t, "\xff", string(list[2].Name))
	require.Len(t, list[0].Parts, 3)
	require.Empty(t, list[1].Parts)
	var back []byte
	for _, ref := range list[0].Parts {
		part, err := b.store.Get(context.Background(), ref)
		require.NoError(t, err)
		require.LessOrEqual(t, len(part), 16<<20)
		back = append(back, part...)
	}
	require.True(t, bytes.Equal(big, back))

	p.patch.Large[1].Copy = func(context.Context, io.Writer) error { return &worktree.ChangingError{Path: "none"} }
	require.ErrorContains(t, collect(), `store "none": "none" keeps changing`)
	p.patch.Large[1].Copy = func(context.Context, io.Writer) error { return errors.New("disk on fire") }
	require.ErrorContains(t, collect(), "disk on fire")
}
