package git

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefereeIsPresent(t *testing.T) {
	t.Log(git(t, t.TempDir(), "version"))
}

func TestAcquireMakesAWorktreeThatGitAgreesWith(t *testing.T) {
	host := repo(t)
	before := fingerprint(t, host)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	admin := filepath.Join(".git", "worktrees", l.ID)
	same(t, before, fingerprint(t, host, filepath.Dir(admin)))

	require.Contains(t, git(t, host, "worktree", "list", "--porcelain"), "worktree "+l.Dir+"\nHEAD "+l.Resolved.Commit+"\ndetached\nlocked")
	require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
	require.Empty(t, git(t, l.Dir, "diff", "HEAD"))
	require.Empty(t, git(t, l.Dir, "diff-files"))
	require.Equal(t, l.Resolved.Tree, git(t, l.Dir, "write-tree"))
	git(t, host, "fsck", "--strict")
	git(t, l.Dir, "fsck", "--strict")

	ref := filepath.Join(t.TempDir(), "ref")
	git(t, host, "worktree", "add", "-q", "--detach", ref)
	same(t, fingerprint(t, ref, ".git")[1:], fingerprint(t, l.Dir, ".git")[1:])

	require.NoError(t, d.Check(context.Background(), l))
	elsewhere := l
	elsewhere.Dir = host
	requireGone(t, d.Check(context.Background(), elsewhere), "another directory")

	git(t, host, "worktree", "remove", "-f", ref)
	require.NoError(t, d.Dispose(context.Background(), l, true))
	require.NoFileExists(t, l.Dir)
	same(t, before, fingerprint(t, host))
	require.NoError(t, d.Close())
	left, err := os.ReadDir(filepath.Join(d.root, "trash"))
	require.NoError(t, err)
	require.Empty(t, left)
}
