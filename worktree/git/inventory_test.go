package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// held is the state of a tree as the inventory has it.
func held(t *testing.T, d *Driver, id string) Held {
	t.Helper()
	h, err := d.Held(id)
	require.NoError(t, err)
	require.NotNil(t, h)
	return *h
}

// damage makes a record unreadable.
func damage(t *testing.T, d *Driver, id string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(d.stateDir(id), "record"), []byte(`{"state":"rea`), 0o600))
}

func TestARetainedTreeIsNeverEvictedWithItsWork(t *testing.T) {
	one := 1
	d := driver(t, repo(t), func(c *Config) { c.PinCap = &one })
	ids := agents(4)
	var l []worktree.Lease
	for _, id := range ids {
		l = append(l, acquire(t, d, id, ""))
	}
	retain := func(l worktree.Lease) {
		kept, err := d.Retain(ctx, l, "failed")
		require.NoError(t, err)
		require.True(t, kept)
	}
	retain(l[0]) // its work was not collected
	collect(t, d, l[1])
	retain(l[1])
	// A process is at it.
	unlock, err := d.lock(ctx, l[1].ID)
	require.NoError(t, err)
	collect(t, d, l[2])
	retainedBy := func() (out []string) {
		list, err := d.List(ctx)
		require.NoError(t, err)
		for _, h := range list {
			if h.State == Retained {
				out = append(out, h.ID)
			}
		}
		return out
	}
	retain(l[2])
	unlock()
	require.Equal(t, []string{l[0].ID, l[1].ID, l[2].ID}, retainedBy(), "two cannot go, and the newest is why it was asked")
	// What was not collected has no other copy; a damaged record does not keep the rest from being counted.
	damage(t, d, l[2].ID)
	collect(t, d, l[0])
	collect(t, d, l[3])
	retain(l[3])
	require.Equal(t, []string{l[3].ID}, retainedBy())
	requireGone(t, d.Check(ctx, l[0]), "evicted")
	requireGone(t, d.Check(ctx, l[1]), "evicted")
}

func TestInventoryTellsEveryState(t *testing.T) {
	d := driver(t, repo(t))
	ids := agents(6)
	var l []worktree.Lease
	for _, id := range ids {
		l = append(l, acquire(t, d, id, ""))
	}
	collect(t, d, l[1])
	collect(t, d, l[2])
	_, err := d.Retain(ctx, l[2], "failed")
	require.NoError(t, err)
	require.NoError(t, d.Dispose(ctx, l[3], true))
	damage(t, d, l[4].ID)
	r, err := d.load(l[5].ID)
	require.NoError(t, err)
	r.State = stateMaking
	require.NoError(t, d.save(l[5].ID, r))

	before := fingerprint(t, d.root, "trash")
	o, err := Open(d.root)
	require.NoError(t, err)
	require.Equal(t, d.hostID, o.hostID)
	states := map[string]string{}
	all, err := o.Inventory(ctx)
	require.NoError(t, err)
	for _, h := range all {
		states[h.ID] = h.State
	}
	require.Equal(t, map[string]string{l[0].ID: Ready, l[1].ID: Collected, l[2].ID: Retained, l[3].ID: Gone, l[4].ID: Unreadable,
		l[5].ID: Making}, states)
	u, err := o.Measure(ctx, l[0].ID, 1<<20)
	require.NoError(t, err)
	require.False(t, u.Partial)
	require.Greater(t, u.Bytes, int64(0))
	few, err := o.Measure(ctx, l[0].ID, 3)
	require.NoError(t, err)
	require.True(t, few.Partial)
	require.Less(t, few.Bytes, u.Bytes)
	require.Equal(t, before, fingerprint(t, d.root, "trash"), "looking changes nothing")

	list, err := o.List(ctx)
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, "failed", held(t, o, l[2].ID).Why)
	require.False(t, held(t, o, l[0].ID).Busy)
	unlock, err := d.lock(ctx, l[0].ID)
	require.NoError(t, err)
	defer unlock()
	require.True(t, held(t, o, l[0].ID).Busy)
	h, err := o.Held("../state")
	require.NoError(t, err)
	require.Nil(t, h)
}

func TestOpenMakesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{"nothing": filepath.Join(dir, "none"), "an empty folder": t.TempDir()} {
		_, err := Open(path)
		require.ErrorIs(t, err, ErrNoRoot, name)
	}
	require.NoDirExists(t, filepath.Join(dir, "none"))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file)
	require.True(t, fault.IsConfig(err), "%v", err)
	require.NotErrorIs(t, err, ErrNoRoot)

	d := driver(t, repo(t))
	require.NoError(t, os.Chmod(d.root, 0o750))
	_, err = Open(d.root)
	require.ErrorContains(t, err, "mode 0700")
	require.NoError(t, os.Chmod(d.root, 0o700))
	stranger := &Driver{euid: os.Geteuid() + 1}
	require.ErrorContains(t, stranger.ownRoot(d.root), "belongs to user")
	require.NoError(t, os.WriteFile(filepath.Join(d.root, "host-id"), []byte("x"), 0o600))
	_, err = Open(d.root)
	require.ErrorContains(t, err, "host id")
}

func TestRemoveLosesNothingUnasked(t *testing.T) {
	d := driver(t, repo(t))
	ids := agents(5)
	var kept *worktree.NotCollectedError
	refused := func(l worktree.Lease, changed bool) {
		t.Helper()
		require.ErrorAs(t, d.Remove(ctx, l.ID, nil), &kept)
		require.Equal(t, changed, kept.Changed)
		require.NoError(t, d.Check(ctx, l))
	}
	l := acquire(t, d, ids[0], "")
	put(t, l.Dir, "work.txt", "w\n")
	refused(l, false)
	collect(t, d, l)
	put(t, l.Dir, "more.txt", "m\n")
	refused(l, true)
	no := errors.New("no")
	require.ErrorIs(t, d.Remove(ctx, l.ID, func(p worktree.Patch, err error) error {
		require.NoError(t, err)
		require.Equal(t, "a more.txt\na work.txt\n", status(p))
		return no
	}), no)
	require.NoError(t, d.Check(ctx, l))
	require.NoError(t, os.Remove(filepath.Join(l.Dir, "more.txt")))
	unlock, err := d.lock(ctx, l.ID)
	require.NoError(t, err)
	var busy *worktree.BusyError
	require.ErrorAs(t, d.Remove(ctx, l.ID, nil), &busy)
	unlock()
	require.NoError(t, d.Remove(ctx, l.ID, nil))
	requireGone(t, d.Check(ctx, l), "operator")
	requireGone(t, d.Remove(ctx, l.ID, nil), "operator")
	requireGone(t, d.Remove(ctx, "never-0-00", nil), "no record")
	require.NoDirExists(t, d.stateDir("never-0-00"))
	requireGone(t, d.Remove(ctx, "../x", nil), "no tree")

	// Without its repository a tree can be collected no more.
	host := d.repos["r"]
	a, b := acquire(t, d, ids[1], ""), acquire(t, d, ids[2], "")
	collect(t, d, b)
	require.NoError(t, os.Rename(host, host+".away"))
	require.ErrorAs(t, d.Remove(ctx, a.ID, nil), &kept)
	require.ErrorContains(t, d.Remove(ctx, b.ID, nil), "cannot be told")
	for _, id := range []string{a.ID, b.ID} {
		require.NoError(t, d.Remove(ctx, id, func(_ worktree.Patch, err error) error {
			require.Error(t, err)
			return nil
		}))
	}
	require.NoError(t, os.Rename(host+".away", host))
	damaged := acquire(t, d, ids[3], "")
	damage(t, d, damaged.ID)
	require.ErrorContains(t, d.Remove(ctx, damaged.ID, nil), "damaged")
	require.DirExists(t, damaged.Dir)
}
