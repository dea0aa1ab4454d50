package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

var ctx = context.Background()

func requireGone(t testing.TB, err error, why string) {
	t.Helper()
	var gone *worktree.GoneError
	require.ErrorAs(t, err, &gone)
	require.Contains(t, gone.Why, why)
}

// agents returns different identities.
func agents(n int) []worktree.Identity {
	var out []worktree.Identity
	for i := range n {
		out = append(out, worktree.Identity{Namespace: "default", WorkflowID: fmt.Sprintf("agent-%d", i)})
	}
	return out
}

func TestAcquireAgainReturnsTheSameTree(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "work.txt", "w\n")
	git(t, l.Dir, "add", "-A")
	git(t, l.Dir, "commit", "-qm", "work")

	// A worker that starts anew on the same root, after the ref has moved.
	put(t, host, "later.txt", "l\n")
	git(t, host, "add", "-A")
	git(t, host, "commit", "-qm", "later")
	d2, err := New(Config{Repos: map[string]string{"r": host}, Root: d.root})
	require.NoError(t, err)
	again, err := d2.Acquire(ctx, who, l.Resolved)
	require.NoError(t, err)
	require.Equal(t, l, again)
	require.NoError(t, d2.Check(ctx, l))
	require.Equal(t, "a work.txt\n", status(collect(t, d2, l)))

	moved, err := d2.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	require.NotEqual(t, l.Resolved.Commit, moved.Commit)
	_, err = d2.Acquire(ctx, who, moved)
	require.True(t, fault.IsConfig(err), "%v", err)

	a, err := d.HostID()
	require.NoError(t, err)
	b, err := d2.HostID()
	require.NoError(t, err)
	require.Equal(t, a, b)
	require.Len(t, a, 16)
}

func TestAGoneTreeIsNeverMadeAnew(t *testing.T) {
	d := driver(t, repo(t))
	away := []struct {
		name, why string
		do        func(l worktree.Lease)
	}{
		{"disposed", "disposed", func(l worktree.Lease) { require.NoError(t, d.Dispose(ctx, l, true)) }},
		{"removed", "removed", func(l worktree.Lease) { require.NoError(t, os.RemoveAll(l.Dir)) }},
		{"moved and remade", "in its place", func(l worktree.Lease) {
			require.NoError(t, os.Rename(l.Dir, filepath.Join(t.TempDir(), "elsewhere")))
			require.NoError(t, os.Mkdir(l.Dir, 0o777))
			put(t, l.Dir, "stranger", "s\n")
		}},
		{"link in its place", "in its place", func(l worktree.Lease) {
			to := filepath.Join(t.TempDir(), "elsewhere")
			require.NoError(t, os.Rename(l.Dir, to))
			require.NoError(t, os.Symlink(to, l.Dir))
		}},
	}
	for i, a := range away {
		t.Run(a.name, func(t *testing.T) {
			id := agents(len(away))[i]
			l := acquire(t, d, id, "")
			a.do(l)
			_, err := d.Acquire(ctx, id, l.Resolved)
			requireGone(t, err, a.why)
			requireGone(t, d.Check(ctx, l), a.why)
			_, err = d.Collect(ctx, l)
			requireGone(t, err, a.why)
			_, err = d.Retain(ctx, l, "failed")
			requireGone(t, err, a.why)
			// Dispose cleans up after it and keeps what it points to and what it did not make.
			require.NoError(t, d.Dispose(ctx, l, false))
			require.NoError(t, d.Dispose(ctx, l, false))
			require.NoDirExists(t, filepath.Join(d.repos["r"], ".git", "worktrees", l.ID))
			_, err = d.Acquire(ctx, id, l.Resolved)
			requireGone(t, err, "")
			if a.name == "moved and remade" {
				require.FileExists(t, filepath.Join(l.Dir, "stranger"))
				return
			}
			_, err = os.Lstat(l.Dir)
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
	unknown := worktree.Lease{ID: "never-0-00", Dir: "/x", Nonce: "n"}
	requireGone(t, d.Check(ctx, unknown), "no record")
	require.NoError(t, d.Dispose(ctx, unknown, true))
	requireGone(t, d.Check(ctx, worktree.Lease{ID: "../state"}), "no tree")
	require.NoError(t, d.Dispose(ctx, worktree.Lease{ID: "../state"}, true))
}

func TestDisposeRefusesUncollectedWork(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "only-untracked", "w\n")
	var not *worktree.NotCollectedError
	require.ErrorAs(t, d.Dispose(ctx, l, false), &not)
	done, err := d.Sweep(ctx)
	require.NoError(t, err)
	require.Empty(t, done)
	require.FileExists(t, filepath.Join(l.Dir, "only-untracked"))
	other := l
	other.Nonce = "another"
	require.NoError(t, d.Dispose(ctx, other, true))
	require.NoError(t, d.Check(ctx, l))
	collect(t, d, l)
	require.NoError(t, d.Dispose(ctx, l, false))
	require.NoDirExists(t, l.Dir)
}

func TestDisposeDeletesWhatAnAgentLockedAndFollowsNothing(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	outside := t.TempDir()
	put(t, outside, "precious", "p\n")
	require.NoError(t, os.Symlink(outside, filepath.Join(l.Dir, "out")))
	put(t, l.Dir, "locked/in/file", "x\n")
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "locked/in"), 0o500))
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "locked"), 0))
	require.NoError(t, d.Dispose(ctx, l, true))
	require.NoError(t, d.Close())
	left, err := os.ReadDir(filepath.Join(d.root, "trash"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.FileExists(t, filepath.Join(outside, "precious"))
}

func TestStrangersAreLeftAlone(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	for _, dir := range []string{d.treeDir(d.treeID(who)), filepath.Join(host, ".git", "worktrees", d.treeID(who))} {
		require.NoError(t, os.MkdirAll(dir, 0o777))
		put(t, dir, "file", "theirs\n")
		_, err = d.Acquire(ctx, who, at)
		require.True(t, fault.IsConfig(err), "%v", err)
		require.FileExists(t, filepath.Join(dir, "file"))
		require.NoError(t, os.RemoveAll(dir))
	}
	// A file where the admin folders of all trees lie is not theirs to remove either.
	require.NoError(t, os.Remove(filepath.Join(host, ".git", "worktrees")))
	put(t, host, ".git/worktrees", "theirs\n")
	_, err = d.Acquire(ctx, who, at)
	require.Error(t, err)
	require.FileExists(t, filepath.Join(host, ".git", "worktrees"))
	require.NoError(t, os.Remove(filepath.Join(host, ".git", "worktrees")))
	// A worktree of the user's own lives through all of it, though git would prune it.
	mine := filepath.Join(t.TempDir(), "mine")
	git(t, host, "worktree", "add", "-q", "--detach", mine)
	require.NoError(t, os.RemoveAll(mine))
	l := acquire(t, d, who, "")
	require.NoError(t, d.Dispose(ctx, l, true))
	_, err = d.Sweep(ctx)
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(host, ".git", "worktrees", "mine"))
}

func TestAdminFolderSurvivesGitAndItsAgent(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	git(t, l.Dir, "commit", "-q", "--allow-empty", "-m", "only here")
	own := git(t, l.Dir, "rev-parse", "HEAD")
	git(t, host, "worktree", "prune", "--expire=now")
	git(t, host, "reflog", "expire", "--expire=now", "--all")
	git(t, host, "gc", "-q", "--prune=now")
	require.Equal(t, "commit", git(t, l.Dir, "cat-file", "-t", own))
	git(t, host, "update-ref", "-d", "refs/heads/main")
	git(t, host, "gc", "-q", "--prune=now")
	require.Equal(t, l.Resolved.Tree, git(t, l.Dir, "rev-parse", "HEAD^{tree}"))
	// The agent unlocks, loses the marker, and git removes the tree: that is gone, and dispose is content.
	require.NoError(t, os.Remove(filepath.Join(host, ".git", "worktrees", l.ID, markerName)))
	git(t, l.Dir, "worktree", "unlock", l.Dir)
	git(t, host, "update-ref", "refs/heads/main", own)
	git(t, host, "worktree", "remove", l.Dir)
	requireGone(t, d.Check(ctx, l), "removed")
	require.NoError(t, d.Dispose(ctx, l, false))
}

func TestTheBaseOutlivesItsBranch(t *testing.T) {
	host := repo(t)
	git(t, host, "checkout", "-q", "--orphan", "other")
	git(t, host, "commit", "-qm", "unrelated", "--allow-empty")
	d := driver(t, host)
	l := acquire(t, d, who, "main")
	git(t, l.Dir, "checkout", "-q", "--detach", "other")
	git(t, l.Dir, "rm", "-rqf", ".")
	git(t, host, "branch", "-qD", "main")
	git(t, host, "gc", "-q", "--prune=now")
	put(t, l.Dir, "README.md", "rewritten\n")
	p := collect(t, d, l)
	require.Contains(t, status(p), "m README.md\n")
	require.Contains(t, status(p), "d src/main.go\n")
	byIndex, _ := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
}

func TestConcurrentAcquires(t *testing.T) {
	host := repo(t)
	before := fingerprint(t, host)
	d := driver(t, host)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	ids := agents(8)
	for range 6 {
		ids = append(ids, who)
	}
	leases := make([]worktree.Lease, len(ids))
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			leases[i], errs[i] = d.Acquire(ctx, ids[i], at)
		})
	}
	all.Wait()
	for i := range ids {
		require.NoError(t, errs[i])
		require.Equal(t, leases[8], leases[max(8, i)])
	}
	for _, l := range leases[:9] {
		require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
	}
	for i := range ids {
		all.Go(func() {
			_, errs[i] = d.Collect(ctx, leases[i])
			if i < 9 {
				errs[i] = d.Dispose(ctx, leases[i], true)
			}
		})
	}
	all.Wait()
	for i := range 9 {
		require.NoError(t, errs[i])
	}
	same(t, before, fingerprint(t, host))
}

func TestAcquireLeavesNothingWhenItFails(t *testing.T) {
	host := repo(t)
	leaf := git(t, host, "rev-parse", "HEAD:src/deep/er/leaf.txt")
	require.NoError(t, os.Remove(filepath.Join(host, "src/deep/er/leaf.txt")))
	require.NoError(t, os.Remove(filepath.Join(host, ".git", "objects", leaf[:2], leaf[2:])))
	before := fingerprint(t, host)
	d := driver(t, host)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	_, err = d.Acquire(ctx, who, at)
	require.ErrorContains(t, err, leaf)
	same(t, before, fingerprint(t, host))
	require.NoDirExists(t, d.treeDir(d.treeID(who)))
	// Given out was nothing, so the next attempt may succeed.
	put(t, host, "src/deep/er/leaf.txt", "leaf\n")
	acquire(t, d, who, "")

	stopped, cancel := context.WithCancel(ctx)
	cancel()
	_, err = d.Acquire(stopped, agents(1)[0], at)
	require.ErrorIs(t, err, context.Canceled)
	_, err = d.Acquire(ctx, agents(1)[0], worktree.Resolved{Repo: "r", Commit: at.Commit, Tree: leaf})
	require.True(t, fault.IsConfig(err))
}

func TestTooFullDiskIsRefused(t *testing.T) {
	d := driver(t, repo(t), func(c *Config) { c.MinFree = 1 << 60 })
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	_, err = d.Acquire(ctx, who, at)
	var space *worktree.SpaceError
	require.ErrorAs(t, err, &space)
	require.Equal(t, int64(1<<60), space.Min)
	require.Positive(t, space.Free)
}

func TestRetainWithinThePinCap(t *testing.T) {
	two := 2
	d := driver(t, repo(t), func(c *Config) { c.PinCap = &two })
	ids := agents(5)
	var leases []worktree.Lease
	for _, id := range ids {
		leases = append(leases, acquire(t, d, id, ""))
	}
	for _, l := range leases[:4] {
		collect(t, d, l)
		kept, err := d.Retain(ctx, l, "failed "+l.ID)
		require.NoError(t, err)
		require.True(t, kept)
		kept, err = d.Retain(ctx, l, "again")
		require.NoError(t, err)
		require.True(t, kept)
	}
	list, err := d.List(ctx)
	require.NoError(t, err)
	var got []string
	for _, h := range list {
		got = append(got, h.State+" "+h.Why)
		assert.DirExists(t, h.Path)
	}
	require.Equal(t, []string{"retained failed " + leases[2].ID, "retained failed " + leases[3].ID, "ready "}, got)
	requireGone(t, d.Check(ctx, leases[0]), "evicted")
	_, err = d.Acquire(ctx, ids[1], leases[1].Resolved)
	requireGone(t, err, "evicted")
	collect(t, d, leases[4])
	list, err = d.List(ctx)
	require.NoError(t, err)
	require.Equal(t, Collected, list[2].State)

	zero := 0
	for _, change := range []func(*Config){func(c *Config) { c.PinCap = &zero }, func(c *Config) { c.KeepOnError = false }} {
		d := driver(t, repo(t), change)
		l := acquire(t, d, who, "")
		kept, err := d.Retain(ctx, l, "failed")
		require.NoError(t, err)
		require.False(t, kept)
	}
}

func TestLeftoversOfALostRecordAreSwept(t *testing.T) {
	host := repo(t)
	before := fingerprint(t, host)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	live := acquire(t, d, agents(1)[0], "")
	require.NoError(t, os.RemoveAll(d.stateDir(l.ID)))
	require.NoError(t, os.RemoveAll(l.Dir))
	put(t, d.root, "trash/old.1234/file", "x\n")
	// Another root's tree, and one whose lock is held, are not touched.
	other := driver(t, host)
	theirs := acquire(t, other, who, "")
	done, err := d.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{l.ID}, done)
	require.NoError(t, d.Check(ctx, live))
	require.NoError(t, other.Check(ctx, theirs))
	require.Empty(t, git(t, live.Dir, "status", "--porcelain"))
	require.Empty(t, git(t, theirs.Dir, "status", "--porcelain"))
	require.NoDirExists(t, filepath.Join(d.root, "trash", "old.1234"))
	require.NoError(t, d.Dispose(ctx, live, true))
	require.NoError(t, other.Dispose(ctx, theirs, true))
	same(t, before, fingerprint(t, host))
}

func TestAMachineThatStopsTooSoonCostsTheTree(t *testing.T) {
	d := driver(t, repo(t))
	l := acquire(t, d, who, "")
	require.NoError(t, d.Close())
	r, err := d.load(l.ID)
	require.NoError(t, err)
	r.Boot = "before"
	require.NoError(t, d.save(l.ID, r))
	require.NoError(t, d.Check(ctx, l))
	require.NoError(t, os.Remove(filepath.Join(d.stateDir(l.ID), flushedMark)))
	requireGone(t, d.Check(ctx, l), "machine stopped")
	require.NoError(t, d.Dispose(ctx, l, false))
}

func TestAFileThatKeepsChangingIsNamed(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "busy.txt", "0\n")
	f, err := d.unfreeze(l.ID, mustLoad(t, d, l.ID))
	require.NoError(t, err)
	defer f.objects.close()
	root, err := os.OpenRoot(l.Dir)
	require.NoError(t, err)
	defer root.Close()
	s := &scan{ctx: ctx, base: f.base, tracked: f.tracked, ignore: f.ignore, attrs: f.attrs, settings: f.settings, objects: f.objects}
	require.NoError(t, s.run(root))
	put(t, l.Dir, "busy.txt", "1\n")
	at := newStack(root)
	for i := range s.found {
		if e := &s.found[i]; e.path == "busy.txt" {
			side, err := s.diskSide(ctx, at, e)
			require.NoError(t, err)
			_, err = side.load()
			var changing *worktree.ChangingError
			require.ErrorAs(t, err, &changing)
			require.Equal(t, "busy.txt", changing.Path)
			require.ErrorAs(t, side.copy(new(strings.Builder)), &changing)
		}
	}
	require.Equal(t, "a busy.txt\n", status(collect(t, d, l)))
}

func mustLoad(t testing.TB, d *Driver, id string) *record {
	t.Helper()
	r, err := d.load(id)
	require.NoError(t, err)
	require.NotNil(t, r)
	return r
}
