package git

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// sizeOf is what one tree of a repository is counted as when it is made.
func sizeOf(t *testing.T, host string) int64 {
	t.Helper()
	d := driver(t, host, func(c *Config) { c.MaxBytes = 1 << 50 })
	l := acquire(t, d, who, "")
	size := d.loadWeight(l.ID).Bytes
	require.Positive(t, size)
	u, err := d.Measure(ctx, l.ID, mostSwept)
	require.NoError(t, err)
	require.InDelta(t, float64(u.Bytes), float64(size), float64(u.Bytes)/2, "as the file system says, but for folders")
	require.NoError(t, d.Dispose(ctx, l, true))
	return size
}

// tryAcquire acquires a tree of repository r.
func tryAcquire(t *testing.T, d *Driver, id worktree.Identity) (worktree.Lease, error) {
	t.Helper()
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	return d.Acquire(ctx, id, at)
}

// old makes the counts of all trees look old.
func old(t *testing.T, d *Driver) {
	t.Helper()
	list, err := d.List(ctx)
	require.NoError(t, err)
	for _, h := range list {
		w := d.loadWeight(h.ID)
		w.At = w.At.Add(-time.Hour)
		require.NoError(t, d.saveWeight(h.ID, w))
	}
}

func TestTreesWithinABoundOfBytes(t *testing.T) {
	host := repo(t)
	size := sizeOf(t, host)
	d := driver(t, host, func(c *Config) { c.MaxBytes = 3*size + size/2 })
	ids := agents(6)
	var l []worktree.Lease
	for _, id := range ids[:3] {
		got, err := tryAcquire(t, d, id)
		require.NoError(t, err)
		l = append(l, got)
	}
	before := fingerprint(t, host)
	var space *worktree.SpaceError
	_, err := tryAcquire(t, d, ids[3])
	require.ErrorAs(t, err, &space)
	require.Equal(t, worktree.SpaceError{Used: 3 * size, Want: size, Max: d.maxBytes, Trees: 3}, *space)
	same(t, before, fingerprint(t, host))

	// Trees whose agents work or wait never go; a retained one does, when its work is safe.
	_, err = d.Retain(ctx, l[0], "failed")
	require.NoError(t, err)
	_, err = tryAcquire(t, d, ids[3])
	require.ErrorAs(t, err, &space)
	collect(t, d, l[0])
	collect(t, d, l[1])
	_, err = tryAcquire(t, d, ids[3])
	require.NoError(t, err)
	requireGone(t, d.Check(ctx, l[0]), "needed the room")
	require.NoError(t, d.Check(ctx, l[1]))

	// The tree of an agent that has one is not refused, and a disposed one makes room.
	again, err := tryAcquire(t, d, ids[1])
	require.NoError(t, err)
	require.Equal(t, l[1], again)
	require.NoError(t, d.Dispose(ctx, l[1], false))
	_, err = tryAcquire(t, d, ids[4])
	require.NoError(t, err)

	// What agents write is found when it is counted again: at a sweep, and at the next acquire.
	require.NoError(t, d.Dispose(ctx, l[2], true))
	list, err := d.List(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	put(t, list[0].Path, "big", strings.Repeat("x", int(2*size)))
	old(t, d)
	_, err = tryAcquire(t, d, ids[5])
	require.ErrorAs(t, err, &space)
	require.Greater(t, space.Used, 3*size)
	require.NoError(t, os.Remove(filepath.Join(list[0].Path, "big")))
	old(t, d)
	_, err = d.Sweep(ctx)
	require.NoError(t, err)
	_, err = tryAcquire(t, d, ids[5])
	require.NoError(t, err)
}

func TestATreeThatIsAloneTooBigIsAMistake(t *testing.T) {
	host := repo(t)
	d := driver(t, host, func(c *Config) { c.MaxBytes = sizeOf(t, host) - 1 })
	before := fingerprint(t, host)
	_, err := tryAcquire(t, d, who)
	require.True(t, fault.IsConfig(err), "%v", err)
	require.ErrorContains(t, err, "worktrees.maxBytes")
	same(t, before, fingerprint(t, host))
	list, err := d.Inventory(ctx)
	require.NoError(t, err)
	require.Empty(t, list)
}

// Trees that are being made at the same time are counted too, and what a crashed acquire reserved is not for ever.
func TestTheBoundHoldsForAcquiresAtOnce(t *testing.T) {
	host := repo(t)
	size := sizeOf(t, host)
	d := driver(t, host, func(c *Config) { c.MaxBytes = 4 * size })
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for _, id := range agents(9) {
		wg.Go(func() {
			_, err := tryAcquire(t, d, id)
			mu.Lock()
			defer mu.Unlock()
			var space *worktree.SpaceError
			if err == nil {
				made++
			} else {
				require.ErrorAs(t, err, &space)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, made, 4)
	require.NoError(t, d.weighing(ctx, func(w *weights) error {
		w.Reserved["crashed-0-00"] = 1 << 40
		return nil
	}))
	list, err := d.List(ctx)
	require.NoError(t, err)
	for _, h := range list {
		require.NoError(t, d.Remove(ctx, h.ID, func(worktree.Patch, error) error { return nil }))
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		_, err = tryAcquire(t, d, worktree.Identity{WorkflowID: id})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(d.root, "space"), []byte("{"), 0o600))
	var space *worktree.SpaceError
	_, err = tryAcquire(t, d, worktree.Identity{WorkflowID: "e"})
	require.ErrorAs(t, err, &space)
}

func TestAFullDiskEvictsWhatIsRetained(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	collect(t, d, l)
	_, err := d.Retain(ctx, l, "failed")
	require.NoError(t, err)
	d.minFree = 1 << 60
	var space *worktree.SpaceError
	_, err = tryAcquire(t, d, agents(1)[0])
	require.ErrorAs(t, err, &space)
	require.Equal(t, int64(1<<60), space.Min)
	require.ErrorContains(t, err, "minFree")
	requireGone(t, d.Check(ctx, l), "needed the room")
}
