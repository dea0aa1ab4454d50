package git

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// faults are what users of such tools have met, each with what is right. That a tool called with an absolute path of
// the host is refused is a matter of package toolbox.
var faults = []struct {
	input string
	check func(t *testing.T, host string, d *Driver)
}{
	{"host on a feature branch, acquire without a ref: base is the host's HEAD", func(t *testing.T, host string, d *Driver) {
		git(t, host, "checkout", "-q", "-b", "feature")
		put(t, host, "feature", "f\n")
		commitAll(t, host)
		l := acquire(t, d, who, "")
		require.Equal(t, git(t, host, "rev-parse", "feature"), l.Resolved.Commit)
		require.FileExists(t, filepath.Join(l.Dir, "feature"))
	}},
	{"ref HEAD in a clone with an upstream: the commit, not a branch of that name", func(t *testing.T, host string, d *Driver) {
		up := clone(t, host)
		d.repos["r"] = up
		put(t, up, "ahead", "a\n")
		commitAll(t, up)
		require.Equal(t, git(t, up, "rev-parse", "HEAD"), acquire(t, d, who, "HEAD").Resolved.Commit)
	}},
	{"eight acquires of one host at once: all succeed, nothing is left by them", func(t *testing.T, host string, d *Driver) {
		before := fingerprint(t, host)
		at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
		require.NoError(t, err)
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i, id := range agents(8) {
			all.Go(func() {
				var l worktree.Lease
				if l, errs[i] = d.Acquire(ctx, id, at); errs[i] == nil {
					errs[i] = d.Dispose(ctx, l, true)
				}
			})
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		same(t, before, fingerprint(t, host))
	}},
	{"host with modified and untracked files: the host is byte for byte the same, the tree is HEAD", func(t *testing.T, host string, d *Driver) {
		put(t, host, "README.md", "the user's\n")
		put(t, host, "untracked", "the user's\n")
		before := fingerprint(t, host)
		l := acquire(t, d, who, "")
		require.Equal(t, git(t, host, "rev-parse", "HEAD^{tree}"), collect(t, d, l).Tree)
		require.NoError(t, d.Dispose(ctx, l, false))
		same(t, before, fingerprint(t, host))
	}},
	{"agent commits in the tree, then collect: diff against the base of acquire", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, "work", "w\n")
		commitAll(t, l.Dir)
		require.Equal(t, "a work\n", status(collect(t, d, l)))
	}},
	{"agent creates a file and never adds it: in patch and list", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, "work", "w\n")
		p := collect(t, d, l)
		require.Equal(t, "a work\n", status(p))
		require.Contains(t, string(p.Bytes), "+w\n")
	}},
	{"agent builds a binary beside edits: binary hunks, the whole patch applies", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, "README.md", "edit\n")
		put(t, l.Dir, "a.out", "\x7fELF\x00\x01")
		p := collect(t, d, l)
		require.Contains(t, string(p.Bytes), "GIT binary patch")
		referee(t, host, l, p, true)
	}},
	{"repository with no commit: a ConfigError before anything exists", func(t *testing.T, host string, d *Driver) {
		require.NoError(t, os.RemoveAll(host))
		git(t, filepath.Dir(host), "init", "-q", host)
		_, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
		require.True(t, fault.IsConfig(err), "%v", err)
	}},
	{"same id exists from before: reused if ours and of the same base, else a typed error", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		require.Equal(t, l, acquire(t, d, who, ""))
		put(t, host, "later", "l\n")
		commitAll(t, host)
		at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
		require.NoError(t, err)
		_, err = d.Acquire(ctx, who, at)
		require.True(t, fault.IsConfig(err), "%v", err)
	}},
	{"dispose of a failed, dirty tree: collect first, keepOnError retains", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, "work", "w\n")
		var not *worktree.NotCollectedError
		require.ErrorAs(t, d.Dispose(ctx, l, false), &not)
		kept, err := d.Retain(ctx, l, "failed")
		require.NoError(t, err)
		require.True(t, kept)
		require.FileExists(t, filepath.Join(l.Dir, "work"))
	}},
	{"the only change is an untracked file, then a sweep: the sweep goes by its own marker", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, "work", "w\n")
		done, err := d.Sweep(ctx)
		require.NoError(t, err)
		require.Empty(t, done)
		require.FileExists(t, filepath.Join(l.Dir, "work"))
	}},
	{"agent commits, the activity is retried on the same tree: the base is that of the first acquire", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, "work", "w\n")
		commitAll(t, l.Dir)
		again, err := d.Acquire(ctx, who, l.Resolved)
		require.NoError(t, err)
		require.Equal(t, l, again)
		require.Equal(t, "a work\n", status(collect(t, d, again)))
	}},
	{"two trees, stash push and pop: the new stash is reported, a private tree keeps its own", func(t *testing.T, host string, d *Driver) {
		ids := agents(4)
		l := acquire(t, d, ids[0], "")
		put(t, l.Dir, "README.md", "mine\n")
		git(t, l.Dir, "stash", "-q")
		require.Contains(t, keys(collect(t, d, l).HostChanges), "refs/stash")
		d.private = func(string) bool { return true }
		a, b := acquire(t, d, ids[1], ""), acquire(t, d, ids[2], "")
		put(t, a.Dir, "README.md", "private\n")
		git(t, a.Dir, "stash", "-q")
		_, err := tryGit(b.Dir, nil, "stash", "pop")
		require.Error(t, err)
	}},
	{"GIT_DIR=<admin> git init in the tree: reported as a host change with its keys", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		_, err := gitWith(l.Dir, []string{"GIT_DIR=" + admin(t, l.Dir)}, nil, "init", "-q", "--bare")
		require.NoError(t, err)
		if git(t, host, "config", "core.bare") != "true" {
			// This git keeps its hands off; others do not.
			git(t, host, "config", "core.bare", "true")
		}
		require.Contains(t, keys(collect(t, d, l).HostChanges), "config core.bare")
	}},
	{"a collect that fails: the tree is kept, and the error says what was in the way", func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, "README.md", "work\n")
		id := git(t, host, "rev-parse", "HEAD:README.md")
		object := filepath.Join(host, ".git", "objects", id[:2], id[2:])
		require.NoError(t, os.Rename(object, object+".away"))
		_, err := d.Collect(ctx, l)
		require.ErrorContains(t, err, id)
		require.NoError(t, d.Check(ctx, l))
		var not *worktree.NotCollectedError
		require.ErrorAs(t, d.Dispose(ctx, l, false), &not)
		require.FileExists(t, filepath.Join(l.Dir, "README.md"))
		require.NoError(t, os.Rename(object+".away", object))
		require.Equal(t, "m README.md\n", status(collect(t, d, l)))
	}},
}

// TestFaults holds each fault of the table to what is right.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.input, func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			f.check(t, host, driver(t, host))
		})
	}
}
