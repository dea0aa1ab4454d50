package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// TestCanariesAreSilentByGit plants programs where git itself makes and reads the tree.
func TestCanariesAreSilentByGit(t *testing.T) {
	t.Parallel()
	host := needy(t)
	c := newCage(t)
	put(t, host, ".gitattributes", "* diff=canary merge=canary\n*.c ident\n*.slow filter=canary\n")
	commitNeeds(t, host, "canaries")
	plant := func(dir string) {
		c.set(dir)
		for _, part := range []string{"clean", "smudge", "process"} {
			git(t, dir, "config", "filter.canary."+part, c.program)
		}
		git(t, dir, "config", "filter.canary.required", "true")
		git(t, dir, "config", "core.hooksPath", filepath.Join(host, ".git", "hooks"))
	}
	plant(host)
	_, _ = tryGit(host, nil, "worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "x"))
	require.Contains(t, c.fired(), "canary", "they do sing where git is at work")
	git(t, host, "config", "--unset", "filter.canary.process") // what is left is silent too
	_ = c.fired()

	d := driver(t, host, withGit(t))
	d.step = func(step string) { require.Empty(t, c.fired(), step) }
	_, err := d.Resolve(ctx, worktree.Isolation{Repo: "r", Ref: "HEAD~1^{commit}"})
	require.NoError(t, err)
	require.Empty(t, c.fired(), "resolve")
	_, err = d.Resolve(ctx, worktree.Isolation{Repo: "r", Ref: "no-such"})
	require.Error(t, err)
	require.Empty(t, c.fired(), "resolve what is not there")
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	l, err := d.Acquire(ctx, who, at)
	require.NoError(t, err)
	require.NotNil(t, mustLoad(t, d, l.ID).Git, "git made it")
	require.Empty(t, c.fired(), "acquire")

	put(t, l.Dir, "a.slow", "changed\n")
	put(t, l.Dir, "a.c", "/* $Id$ */ changed\n")
	put(t, l.Dir, ".gitattributes", "* diff=canary merge=canary filter=canary\n")
	plant(l.Dir)
	_, _ = tryGit(l.Dir, nil, "add", "a.slow")
	require.NotEmpty(t, c.fired(), "the agent's own filter")
	require.Equal(t, "m .gitattributes\nm a.c\nm a.slow\n", status(collect(t, d, l)))
	_, err = d.Sweep(ctx)
	require.NoError(t, err)
	require.NoError(t, d.Dispose(ctx, l, true))
	require.NoError(t, d.Close())
	require.Empty(t, c.fired())
	_, err = os.Lstat(c.mark)
	require.ErrorIs(t, err, os.ErrNotExist)
}
