package git

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// said returns host changes as lines, with a mark at dangerous ones.
func said(p worktree.Patch) []string {
	var out []string
	for _, c := range p.HostChanges {
		s := c.Change + " " + c.Key
		if c.Dangerous {
			s += " !"
		}
		out = append(out, s)
	}
	return out
}

// TestHostChangesOfEveryKind has an agent in a linked tree, by git or by the path of the repository, change one thing.
func TestHostChangesOfEveryKind(t *testing.T) {
	host := repo(t)
	common := filepath.Join(host, ".git")
	history(t, host)
	git(t, host, "remote", "add", "origin", "https://example.com/x.git")
	git(t, host, "update-ref", "refs/remotes/origin/main", "HEAD")
	put(t, host, ".git/included", "[core]\n\tpager = less\n")
	git(t, host, "worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "mine"))
	git(t, host, "init", "-q", "--bare", ".git/modules/libs/one")
	// Hooks that the repository keeps elsewhere.
	shared := t.TempDir()
	put(t, shared, "pre-push", "#!/bin/sh\n")
	git(t, host, "config", "core.hooksPath", shared)
	require.NoError(t, os.RemoveAll(filepath.Join(common, "hooks")))
	saved := t.TempDir()
	require.NoError(t, os.CopyFS(saved, os.DirFS(common)))
	d := driver(t, host)
	for i, c := range []struct {
		name string
		do   func(t *testing.T, l worktree.Lease)
		want []string
	}{
		{"nothing", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "commit", "-q", "--allow-empty", "-m", "x") }, nil},
		{"a branch that follows another", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "checkout", "-q", "-b", "topic", "origin/main") },
			[]string{"added config branch.topic.merge", "added config branch.topic.remote", "added refs/heads/topic"}},
		{"a branch that follows a program", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "config", "branch.main.remote", "ext::sh -c evil") },
			[]string{"added config branch.main.remote !"}},
		{"a remote", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "remote", "add", "up", "https://example.com/up.git")
		},
			[]string{"added config remote.up.fetch", "added config remote.up.url"}},
		{"a remote that is a program", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "config", "remote.origin.url", "ext::sh -c evil") },
			[]string{"changed config remote.origin.url !"}},
		{"a remote on this machine", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "config", "remote.origin.pushurl", "../evil") },
			[]string{"added config remote.origin.pushurl !"}},
		{"a submodule as git registers it", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "config", "submodule.lib.url", "https://example.com/lib.git")
			git(t, l.Dir, "config", "submodule.lib.active", "true")
		}, []string{"added config submodule.lib.active", "added config submodule.lib.url"}},
		{"a submodule that is a command", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "config", "submodule.lib.update", "!evil")
			git(t, l.Dir, "config", "submodule.bad.url", "ext::evil")
		}, []string{"added config submodule.bad.url !", "added config submodule.lib.update !"}},
		{"a secret in the name of a key", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "config", "url.https://bot:hunter2@example.com/.insteadOf", "https://example.com/")
		}, []string{"added config url.https://***@example.com/.insteadof !"}},
		{"git init in the admin folder", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "--git-dir="+filepath.Join(common, "worktrees", l.ID), "init", "-q", "--template=")
		}, []string{"changed config core.bare !"}},
		{"hooks again where they were by default", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "config", "--unset", "core.hooksPath") },
			[]string{"removed config core.hookspath !", "removed hooks/pre-push"}},
		{"a hook where the repository keeps them", func(t *testing.T, l worktree.Lease) { put(t, shared, "pre-push", "#!/bin/sh\nevil\n") },
			[]string{"changed hooks/pre-push !"}},
		{"configuration of its own worktree", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "config", "extensions.worktreeConfig", "true")
			git(t, l.Dir, "config", "--worktree", "core.pager", "evil")
		}, []string{"added config extensions.worktreeconfig !"}},
		{"an include", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "config", "include.path", "included") },
			[]string{"added config core.pager !", "added config include.path !"}},
		{"attributes, excludes, grafts, shallow", func(t *testing.T, l worktree.Lease) {
			put(t, common, "info/attributes", "* filter=x\n")
			put(t, common, "info/exclude", "x\n")
			put(t, common, "info/grafts", "")
			put(t, common, "shallow", "")
		}, []string{"added info/attributes", "changed info/exclude", "added info/grafts", "added shallow"}},
		{"alternates", func(t *testing.T, l worktree.Lease) { put(t, common, "objects/info/alternates", "/evil\n") }, []string{"added objects/info/alternates"}},
		{"a common directory for the host", func(t *testing.T, l worktree.Lease) { put(t, common, "commondir", ".\n") }, []string{"added commondir !"}},
		{"a rebase that goes on", func(t *testing.T, l worktree.Lease) { put(t, common, "rebase-merge/git-rebase-todo", "exec evil\n") },
			[]string{"added rebase-merge/git-rebase-todo !"}},
		{"a remote as they once were", func(t *testing.T, l worktree.Lease) { put(t, common, "remotes/old", "URL: ext::evil\n") }, []string{"added remotes/old !"}},
		{"the host's HEAD", func(t *testing.T, l worktree.Lease) { put(t, common, "HEAD", "ref: refs/heads/feature\n") }, []string{"changed HEAD"}},
		{"the user's other worktree", func(t *testing.T, l worktree.Lease) {
			put(t, common, "worktrees/mine/commondir", "/evil\n")
			put(t, common, "worktrees/mine/HEAD", l.Resolved.Commit+" \n")
		}, []string{"changed worktrees/mine/HEAD", "changed worktrees/mine/commondir !"}},
		{"another worktree that hides behind a marker", func(t *testing.T, l worktree.Lease) { put(t, common, "worktrees/mine/"+markerName, "{}") },
			[]string{"removed worktrees/mine/HEAD", "removed worktrees/mine/commondir", "removed worktrees/mine/gitdir"}},
		{"a worktree", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "more"))
		},
			[]string{"added worktrees/more/HEAD", "added worktrees/more/commondir", "added worktrees/more/gitdir"}},
		{"a submodule's configuration and hooks", func(t *testing.T, l worktree.Lease) {
			git(t, filepath.Join(common, "modules/libs/one"), "config", "core.sshCommand", "evil")
			put(t, common, "modules/libs/one/hooks/post-checkout", "evil")
		}, []string{"added modules/libs/one/config core.sshcommand !", "added modules/libs/one/hooks/post-checkout !"}},
		{"a loose ref is packed", func(t *testing.T, l worktree.Lease) { git(t, l.Dir, "gc", "-q") }, nil},
		{"a note, a tag, a branch moved, one deleted", func(t *testing.T, l worktree.Lease) {
			git(t, l.Dir, "notes", "add", "-m", "n", "HEAD")
			git(t, l.Dir, "tag", "v9")
			git(t, l.Dir, "update-ref", "refs/heads/main", "HEAD~1")
			git(t, l.Dir, "tag", "-d", "v1")
		}, []string{"changed refs/heads/main", "added refs/notes/commits", "removed refs/tags/v1", "added refs/tags/v9"}},
		{"trees of others", func(t *testing.T, l worktree.Lease) {
			acquire(t, d, agents(100)[98], "")
			private(t, d, agents(100)[99], "")
		}, nil},
	} {
		ok := t.Run(c.name, func(t *testing.T) {
			l := acquire(t, d, agents(50)[i], "")
			c.do(t, l)
			got := said(collect(t, d, l))
			if len(c.want)+len(got) > 0 {
				assert.Equal(t, c.want, got)
			}
			require.NoError(t, d.Dispose(ctx, l, true))
			require.NoError(t, os.RemoveAll(common))
			require.NoError(t, os.CopyFS(common, os.DirFS(saved)))
		})
		require.True(t, ok)
	}
}

// TestAStashThatChangesHandsIsReported is the case of two trees of which each takes what the other has put away: all
// refs are in the end what they were.
func TestAStashThatChangesHandsIsReported(t *testing.T) {
	for _, filled := range []bool{false, true} {
		host := repo(t)
		if filled {
			history(t, host)
		}
		d := driver(t, host)
		a, b, idle := acquire(t, d, agents(3)[0], ""), acquire(t, d, agents(3)[1], ""), acquire(t, d, agents(3)[2], "")
		// A file system may tell times apart by a clock tick only.
		time.Sleep(20 * time.Millisecond)
		put(t, a.Dir, "README.md", "of a\n")
		git(t, a.Dir, "stash", "-q")
		require.NotEmpty(t, said(collect(t, d, a)))
		git(t, b.Dir, "stash", "pop", "-q")
		require.Equal(t, "m README.md\n", status(collect(t, d, b)))
		for _, l := range []worktree.Lease{a, b, idle} {
			require.Equal(t, []string{"changed stash"}, said(collect(t, d, l)))
		}
	}
	// A gc of a repository with a stash, and a ref of a new kind, are not that.
	host := repo(t)
	history(t, host)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	git(t, host, "gc", "-q")
	require.Empty(t, said(collect(t, d, l)))
	bare := repo(t)
	d = driver(t, bare)
	l = acquire(t, d, who, "")
	put(t, bare, ".git/logs/refs/other/x", "")
	require.Empty(t, said(collect(t, d, l)))
}

// TestALinkedHostIsWatched takes a worktree of the user as the host.
func TestALinkedHostIsWatched(t *testing.T) {
	main := repo(t)
	history(t, main)
	host := filepath.Join(t.TempDir(), "linked")
	git(t, main, "worktree", "add", "-q", "-b", "linked", host)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	git(t, host, "checkout", "-q", "--detach", "HEAD~1")
	require.Contains(t, said(collect(t, d, l)), "changed worktrees/linked/HEAD")
	put(t, host, ".git", "gitdir: /evil\n")
	require.Contains(t, said(collect(t, d, l)), "changed .git !")
}

// programName is how git names settings whose value it runs. A new version of git may have more: then they belong into
// programKeys, or here if they are harmless.
var (
	programName = regexp.MustCompile(`(?i)(command|cmd|program|prog|helper|editor|pager|hook|driver|external|textconv|clean|smudge|process|diffFilter|tunnel|insteadOf|askPass|proxy|templateDir|hooksPath|fsmonitor|browser|vcs|uploadpack|receivepack)$`)
	harmless    = regexp.MustCompile(`(?i)^(advice\.|color\.pager$|gitcvs\.|column\.clean$|diff\..*\.cacheTextconv$)`)
)

func TestTheProgramKeysAreGits(t *testing.T) {
	var missing []string
	n := 0
	for key := range strings.FieldsSeq(git(t, t.TempDir(), "help", "--config-for-completion")) {
		if !programName.MatchString(key) || harmless.MatchString(key) {
			continue
		}
		n++
		if !runsPrograms(strings.ToLower(key), "x") {
			missing = append(missing, key)
		}
	}
	for key := range strings.FieldsSeq(git(t, t.TempDir(), "help", "--config")) {
		key = strings.ToLower(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(key, "x"))
		if programName.MatchString(key) && !harmless.MatchString(key) {
			n++
			if !runsPrograms(key, "x") {
				missing = append(missing, key)
			}
		}
	}
	require.Empty(t, missing)
	require.Greater(t, n, 30)
	for _, key := range []string{"color.ui", "user.name", "branch.main.merge", "core.quotepath", "diff.algorithm", "filterx.y.clean", "aliasx", "core.pagers"} {
		require.False(t, runsPrograms(key, "x"), key)
	}
	for _, key := range []string{"alias.st", "pager.log", "filter.a.b.clean", "url.git@x:.insteadof", "includeif.gitdir:~/x/.path", "remote.a.b.uploadpack", "credential.https://x.helper"} {
		require.True(t, runsPrograms(key, "x"), key)
	}
}
