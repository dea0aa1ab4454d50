package git

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

func TestHostChangesAreReported(t *testing.T) {
	host := repo(t)
	git(t, host, "config", "user.token", "secret")
	d := driver(t, host)
	l := acquire(t, d, who, "")
	git(t, l.Dir, "config", "core.hooksPath", "/evil")
	git(t, l.Dir, "config", "alias.st", "!sh -c evil")
	git(t, l.Dir, "config", "color.ui", "never")
	git(t, l.Dir, "config", "user.token", "other")
	git(t, l.Dir, "tag", "v9")
	git(t, l.Dir, "branch", "agent")
	put(t, l.Dir, "README.md", "stashed\n")
	git(t, l.Dir, "stash", "-q")
	put(t, host, ".git/hooks/pre-commit", "#!/bin/sh\n")
	require.NoError(t, os.Remove(filepath.Join(host, ".git", "hooks", "update.sample")))
	p := collect(t, d, l)
	var got []string
	for _, c := range p.HostChanges {
		s := c.Change + " " + c.Key
		if c.Dangerous {
			s += " !"
		}
		got = append(got, s)
		assert.NotContains(t, s, "secret")
	}
	require.Equal(t, []string{
		"added config alias.st !", "added config color.ui", "added config core.hookspath !", "changed config user.token",
		"added hooks/pre-commit !", "removed hooks/update.sample", "added refs/heads/agent", "added refs/stash", "added refs/tags/v9",
		"added stash entries",
	}, got)

	// `git init` through the admin folder makes the host bare.
	other := acquire(t, d, agents(1)[0], "")
	_, err := tryGit(other.Dir, nil, "--git-dir="+filepath.Join(host, ".git"), "config", "core.bare", "true")
	require.NoError(t, err)
	p = collect(t, d, other)
	require.Equal(t, []worktree.HostChange{{Key: "config core.bare", Change: "changed", Dangerous: true}}, p.HostChanges)

	// What cannot be parsed is dangerous, and collect does not stumble over it.
	put(t, host, ".git/config", "[core\n")
	put(t, host, ".git/refs/heads/broken", "junk\n")
	p = collect(t, d, other)
	require.Contains(t, p.HostChanges, worktree.HostChange{Key: "config", Change: "added", Dangerous: true})
	require.Contains(t, p.HostChanges, worktree.HostChange{Key: "refs/heads/broken", Change: "added"})
}

func TestNothingOfTheRepositoryRuns(t *testing.T) {
	host := repo(t)
	ran := filepath.Join(t.TempDir(), "ran")
	script := "#!/bin/sh\necho \"$0\" >>'" + ran + "'\ncat\n"
	for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-commit", "pre-commit", "fsmonitor-watchman"} {
		put(t, host, ".git/hooks/"+hook, script)
		require.NoError(t, os.Chmod(filepath.Join(host, ".git/hooks", hook), 0o755))
	}
	program := filepath.Join(host, ".git/hooks/fsmonitor-watchman")
	for _, key := range []string{"core.fsmonitor", "filter.canary.clean", "filter.canary.smudge", "filter.canary.process", "diff.canary.textconv", "diff.external", "core.pager", "core.editor", "credential.helper", "core.sshCommand"} {
		git(t, host, "config", key, program)
	}
	put(t, host, ".git/info/attributes", "* diff=canary merge=canary\n")
	require.NoError(t, os.RemoveAll(ran))
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "README.md", "edited\n")
	put(t, l.Dir, ".gitattributes", "* filter=canary\n")
	p := collect(t, d, l)
	require.Equal(t, "a .gitattributes\nm README.md\n", status(p))
	kept, err := d.Retain(ctx, l, "why")
	require.NoError(t, err)
	require.True(t, kept)
	_, err = d.Sweep(ctx)
	require.NoError(t, err)
	require.NoError(t, d.Dispose(ctx, l, false))
	require.NoFileExists(t, ran)
	// The canary sings: git itself would have run it.
	_, _ = tryGit(host, nil, "status")
	require.FileExists(t, ran)
}

// TestAFifoInASharedPlaceDoesNotHoldCollect has an agent put FIFOs where a careless reader would wait for ever.
func TestAFifoInASharedPlaceDoesNotHoldCollect(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	for _, name := range []string{"config", "packed-refs", "refs/heads/fifo", "info/exclude", "hooks/pre-push", "HEAD"} {
		path := filepath.Join(host, ".git", filepath.FromSlash(name))
		os.Remove(path)
		require.NoError(t, syscall.Mkfifo(path, 0o666))
	}
	require.NoError(t, os.Symlink("fifo", filepath.Join(host, ".git", "refs", "heads", "to-fifo")))
	put(t, l.Dir, "work.txt", "w\n")
	p := collect(t, d, l)
	require.Equal(t, "a work.txt\n", status(p))
	require.Contains(t, p.HostChanges, worktree.HostChange{Key: "config", Change: "added", Dangerous: true})
	require.Contains(t, p.HostChanges, worktree.HostChange{Key: "hooks/pre-push", Change: "added", Dangerous: true})
	require.NoError(t, d.Dispose(ctx, l, false))
}
