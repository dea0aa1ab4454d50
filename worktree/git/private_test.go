package git

import (
	"errors"
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

// private resolves ref and acquires a private tree.
func private(t testing.TB, d *Driver, id worktree.Identity, ref string) worktree.Lease {
	t.Helper()
	at, err := d.Resolve(ctx, worktree.Isolation{Kind: worktree.Tree, Repo: "r", Ref: ref, Private: true})
	require.NoError(t, err)
	require.True(t, at.Private)
	l, err := d.Acquire(ctx, id, at)
	require.NoError(t, err)
	return l
}

// history adds a second commit, a branch, a tag and a stash to a host.
func history(t testing.TB, host string) {
	t.Helper()
	put(t, host, "README.md", "# hello\n\nagain\n")
	git(t, host, "commit", "-qam", "second")
	git(t, host, "tag", "-a", "v1", "-m", "one")
	git(t, host, "branch", "feature", "HEAD~1")
	put(t, host, "README.md", "stashed\n")
	git(t, host, "stash", "-q")
}

func TestAPrivateTreeIsOneThatGitAgreesWith(t *testing.T) {
	host := repo(t)
	history(t, host)
	put(t, host, ".git/info/exclude", "*.own\n")
	put(t, host, ".git/rules", "*.tmp\n")
	git(t, host, "config", "core.excludesFile", ".git/rules")
	git(t, host, "config", "user.name", `Ä "quoted" \ name`)
	git(t, host, "remote", "add", "origin", "ext::sh -c evil")
	before := fingerprint(t, host)
	d := driver(t, host)
	l := private(t, d, who, "")
	pins := filepath.Join(".git", "refs", "assent")
	same(t, before, fingerprint(t, host, pins))
	require.Equal(t, l.Resolved.Commit, git(t, host, "rev-parse", d.pinName(l.ID)))
	git(t, host, "fsck", "--strict")
	require.NotContains(t, git(t, host, "worktree", "list"), l.ID)

	put(t, l.Dir, "a.own", "")
	put(t, l.Dir, "a.tmp", "")
	require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
	require.Equal(t, "!! a.own\n!! a.tmp", git(t, l.Dir, "status", "--porcelain", "--ignored"))
	require.Empty(t, git(t, l.Dir, "diff", "HEAD"))
	require.Empty(t, git(t, l.Dir, "diff-files"))
	require.Equal(t, l.Resolved.Tree, git(t, l.Dir, "write-tree"))
	git(t, l.Dir, "fsck", "--strict", "--full")
	require.Equal(t, "second\nbase", git(t, l.Dir, "log", "--format=%s"))
	require.Contains(t, git(t, l.Dir, "blame", "README.md"), "again")
	require.Empty(t, git(t, l.Dir, "for-each-ref"))
	require.Empty(t, git(t, l.Dir, "remote"))
	require.Equal(t, `Ä "quoted" \ name`, git(t, l.Dir, "config", "user.name"))
	require.Equal(t, filepath.Join(l.Dir, ".git"), git(t, l.Dir, "rev-parse", "--absolute-git-dir"))
	_, err := tryGit(l.Dir, nil, "symbolic-ref", "-q", "HEAD")
	require.Error(t, err, "HEAD is detached")

	put(t, l.Dir, "work.txt", "w\n")
	p := collect(t, d, l)
	require.Equal(t, "a work.txt\n", status(p))
	require.Empty(t, p.HostChanges)
	require.NoError(t, d.Dispose(ctx, l, false))
	same(t, before, fingerprint(t, host))
	byIndex, byFiles := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
	require.Equal(t, p.Tree, byFiles)
}

// everything is what an agent can do with git in a tree.
var everything = [][]string{
	{"config", "core.hooksPath", "/evil"}, {"config", "core.bare", "true"}, {"config", "core.bare", "false"}, {"config", "alias.st", "!evil"},
	{"tag", "v9"}, {"tag", "-f", "v1"}, {"branch", "main"}, {"branch", "feature"}, {"checkout", "-q", "-b", "agent"},
	{"rm", "-q", "--cached", "no-eol"}, {"add", "-A"}, {"commit", "-q", "--allow-empty", "-m", "work"}, {"notes", "add", "-m", "note"},
	{"stash", "push", "-q", "-u"}, {"stash", "list"}, {"stash", "pop", "-q"}, {"update-ref", "refs/heads/other", "HEAD"},
	{"replace", "HEAD", "HEAD~1"}, {"replace", "-d", "HEAD"}, {"reset", "-q", "--hard", "HEAD~1"}, {"checkout", "-q", "agent@{1}"},
	{"remote", "add", "origin", "/nowhere"}, {"worktree", "add", "-q", "../beside", "main"}, {"worktree", "remove", "--force", "../beside"}, {"worktree", "prune"},
	{"sparse-checkout", "set", "src"}, {"sparse-checkout", "disable"}, {"commit-graph", "write"}, {"multi-pack-index", "write"},
	{"pack-refs", "--all", "--prune"}, {"reflog", "expire", "--expire=now", "--all"}, {"repack", "-q", "-a", "-d"}, {"repack", "-q", "-a", "-d", "-l"},
	{"gc", "-q", "--aggressive", "--prune=now"}, {"prune", "--expire=now"}, {"prune-packed"}, {"init", "-q"}, {"update-server-info"},
	{"branch", "-D", "-q", "feature"}, {"symbolic-ref", "HEAD", "refs/heads/unborn"}, {"checkout", "-q", "--orphan", "lonely"}, {"fsck", "--full"},
}

// TestNothingAnAgentDoesWithGitReachesTheHost has real git do it. Only times of packs may change: git touches what it
// would have written again.
func TestNothingAnAgentDoesWithGitReachesTheHost(t *testing.T) {
	host := repo(t)
	history(t, host)
	git(t, host, "repack", "-q", "-a", "-d")
	put(t, host, "later.txt", "loose\n")
	git(t, host, "add", "-A")
	git(t, host, "commit", "-qm", "third")
	before := fingerprint(t, host)
	d := driver(t, host)
	l := private(t, d, who, "")
	held := fingerprint(t, host)
	put(t, l.Dir, "README.md", "edited\n")
	put(t, l.Dir, "new.txt", "n\n")
	put(t, l.Dir, ".git/hooks/post-commit", "#!/bin/sh\ntouch hook-ran\n")
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, ".git/hooks/post-commit"), 0o755))
	for _, args := range everything {
		switch args[0] {
		case "multi-pack-index":
			git(t, l.Dir, "repack", "-q", "-d", "-l")
		case "stash":
			put(t, l.Dir, "stashed."+args[1], "s\n")
		}
		_, err := tryGit(l.Dir, nil, args...)
		require.NoError(t, err)
		same(t, held, fingerprint(t, host))
	}
	p := collect(t, d, l)
	require.Empty(t, p.HostChanges)
	require.NoError(t, d.Dispose(ctx, l, false))
	same(t, before, fingerprint(t, host))
	byIndex, _ := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
	// What a linked tree does shows in the digest.
	held = fingerprint(t, host)
	linked := acquire(t, d, agents(1)[0], "")
	git(t, linked.Dir, "tag", "v9")
	require.NotEqual(t, held, fingerprint(t, host, filepath.Join(".git", "worktrees")))
}

func TestAPrivateTreeOutlivesWhatTheHostDoes(t *testing.T) {
	host := repo(t)
	git(t, host, "checkout", "-q", "--orphan", "other")
	git(t, host, "commit", "-qm", "unrelated", "--allow-empty")
	d := driver(t, host)
	l := private(t, d, who, "main")
	put(t, l.Dir, "work.txt", "w\n")
	git(t, l.Dir, "add", "-A")
	git(t, l.Dir, "commit", "-qm", "work")
	git(t, host, "branch", "-qD", "main")
	git(t, host, "reflog", "expire", "--expire=now", "--all")
	git(t, host, "repack", "-q", "-a", "-d")
	git(t, host, "gc", "-q", "--prune=now", "--aggressive")
	require.NoFileExists(t, filepath.Join(host, ".git", filepath.FromSlash(d.pinName(l.ID))), "it is packed now")
	git(t, l.Dir, "fsck", "--strict", "--full")
	require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
	require.Equal(t, "work\nbase", git(t, l.Dir, "log", "--format=%s"))
	put(t, l.Dir, "README.md", "rewritten\n")
	p := collect(t, d, l)
	require.Equal(t, "m README.md\na work.txt\n", status(p))
	byIndex, _ := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)

	packed, err := os.ReadFile(filepath.Join(host, ".git", "packed-refs"))
	require.NoError(t, err)
	require.NoError(t, d.Dispose(ctx, l, false))
	rest, err := os.ReadFile(filepath.Join(host, ".git", "packed-refs"))
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(packed), l.Resolved.Commit+" "+d.pinName(l.ID)+"\n", ""), string(rest))
	require.NotContains(t, git(t, host, "for-each-ref"), "assent")
	git(t, host, "gc", "-q", "--prune=now")
	_, err = tryGit(host, nil, "cat-file", "-e", l.Resolved.Commit)
	require.Error(t, err, "nothing else has kept the base")
}

func TestAlternatesAreTheAgentsToSpoil(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	for i, text := range []string{"", "/nowhere\n", "\x00", strings.Repeat("/tmp\n", 1000)} {
		l := private(t, d, agents(4)[i], "")
		before := fingerprint(t, host)
		put(t, l.Dir, ".git/objects/info/alternates", text)
		put(t, l.Dir, "work.txt", "w\n")
		_, _ = tryGit(l.Dir, nil, "gc", "-q", "--prune=now")
		p := collect(t, d, l)
		require.Equal(t, "a work.txt\n", status(p))
		same(t, before, fingerprint(t, host))
		require.NoError(t, d.Dispose(ctx, l, false))
	}
	// Nor does it matter what becomes of the whole git directory.
	l := private(t, d, who, "")
	require.NoError(t, os.RemoveAll(filepath.Join(l.Dir, ".git")))
	require.NoError(t, os.Symlink(filepath.Join(host, ".git"), filepath.Join(l.Dir, ".git")))
	put(t, l.Dir, "work.txt", "w\n")
	require.Equal(t, "a work.txt\n", status(collect(t, d, l)))
	require.NoError(t, d.Dispose(ctx, l, false))
	require.NoError(t, d.Close())
	git(t, host, "fsck", "--strict")
}

// TestObjectsOfObjects gives the host alternates of its own, one of them by a relative path.
func TestObjectsOfObjects(t *testing.T) {
	base := repo(t)
	history(t, base)
	middle := clone(t, base, "--shared")
	host := clone(t, middle, "--shared")
	put(t, middle, ".git/objects/info/alternates", "../../../"+relative(t, filepath.Dir(middle), filepath.Join(base, ".git", "objects"))+"\n")
	git(t, host, "fsck")
	d := driver(t, host)
	l := private(t, d, who, "")
	require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
	require.Equal(t, "second\nbase", git(t, l.Dir, "log", "--format=%s"))
	git(t, l.Dir, "fsck", "--strict", "--full")
	list, err := os.ReadFile(filepath.Join(l.Dir, ".git", "objects", "info", "alternates"))
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(list), "\n"))
}

func relative(t testing.TB, from, to string) string {
	t.Helper()
	rel, err := filepath.Rel(from, to)
	require.NoError(t, err)
	return rel
}

func TestAPrivateTreeOfAShallowHost(t *testing.T) {
	base := repo(t)
	history(t, base)
	host := filepath.Join(t.TempDir(), "host")
	git(t, base, "clone", "-q", "--depth=1", "file://"+base, host)
	l := private(t, driver(t, host), who, "")
	require.Equal(t, "second", git(t, l.Dir, "log", "--format=%s"))
	git(t, l.Dir, "fsck", "--strict", "--full")
	git(t, l.Dir, "gc", "-q", "--prune=now")
	require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
}

func TestWorkersForcePrivacyAndNobodyRefusesIt(t *testing.T) {
	host := repo(t)
	all := driver(t, host, func(c *Config) { c.Private = true })
	named := driver(t, host, func(c *Config) { c.PrivateRepos = []string{"r"} })
	for _, d := range []*Driver{all, named} {
		at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
		require.NoError(t, err)
		require.True(t, at.Private)
		// A revision that a worker without the force has resolved.
		at.Private = false
		l, err := d.Acquire(ctx, who, at)
		require.NoError(t, err)
		require.True(t, l.Resolved.Private)
		require.DirExists(t, filepath.Join(l.Dir, ".git"))
		again, err := d.Acquire(ctx, who, at)
		require.NoError(t, err)
		require.Equal(t, l, again)
	}
	open := driver(t, host)
	l := acquire(t, open, who, "")
	require.False(t, l.Resolved.Private)
	at := l.Resolved
	at.Private = true
	_, err := open.Acquire(ctx, who, at)
	require.True(t, fault.IsConfig(err), "%v", err)
	require.ErrorContains(t, err, "asked for as private")

	_, err = New(Config{Repos: map[string]string{"r": host}, Root: filepath.Join(t.TempDir(), "root"), PrivateRepos: []string{"R"}})
	require.ErrorContains(t, err, `unknown repository "R"`)
}

func TestPinsThatCannotBeWrittenOrRemoved(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, host string)
	}{
		{"a ref in the way", func(t *testing.T, host string) { git(t, host, "update-ref", "refs/assent", "HEAD") }},
		{"a packed ref in the way", func(t *testing.T, host string) {
			git(t, host, "update-ref", "refs/assent", "HEAD")
			git(t, host, "pack-refs", "--all")
		}},
		{"a link out of the repository", func(t *testing.T, host string) {
			require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(host, ".git", "refs", "assent")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := repo(t)
			c.do(t, host)
			before := fingerprint(t, host)
			d := driver(t, host)
			at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r", Private: true})
			require.NoError(t, err)
			_, err = d.Acquire(ctx, who, at)
			require.True(t, fault.IsConfig(err), "%v", err)
			same(t, before, fingerprint(t, host))
			requireOnlyState(t, d)
		})
	}
	host := repo(t)
	d := driver(t, host)
	l := private(t, d, who, "")
	git(t, host, "pack-refs", "--all", "--prune")
	packed := filepath.Join(host, ".git", packedRefs)
	put(t, host, ".git/"+packedLock, "")
	released := time.AfterFunc(200*time.Millisecond, func() { _ = os.Remove(filepath.Join(host, ".git", packedLock)) })
	defer released.Stop()
	require.NoError(t, d.Dispose(ctx, l, true), "the lock of a living git is waited for")
	text, err := os.ReadFile(packed)
	require.NoError(t, err)
	require.NotContains(t, string(text), "assent")

	// A host that has moved away holds up neither dispose nor sweep.
	l = private(t, d, agents(1)[0], "")
	require.NoError(t, os.Rename(host, host+".moved"))
	_, err = d.Collect(ctx, l)
	require.Error(t, err)
	require.NoError(t, d.Check(ctx, l), "the tree is kept")
	require.NoError(t, os.Rename(host+".moved", host))
	require.Empty(t, collect(t, d, l).Files)
	require.NoError(t, os.Rename(host, host+".moved"))
	require.NoError(t, d.Dispose(ctx, l, false))
	require.NoError(t, os.Rename(host+".moved", host))
	done, err := d.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{l.ID}, done, "the pin goes when the host is back")
	require.NotContains(t, git(t, host, "for-each-ref"), "assent")
}

func TestPinsWithoutARecordAreSwept(t *testing.T) {
	host := repo(t)
	git(t, host, "pack-refs", "--all", "--prune")
	before := fingerprint(t, host)
	d := driver(t, host)
	lost, live := private(t, d, who, ""), private(t, d, agents(1)[0], "")
	other := driver(t, host)
	theirs := private(t, other, who, "")
	git(t, host, "pack-refs", "--all", "--prune")
	require.NoError(t, os.RemoveAll(d.stateDir(lost.ID)))
	done, err := d.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{lost.ID}, done)
	got := git(t, host, "for-each-ref", "--format=%(refname)", "refs/assent")
	require.ElementsMatch(t, []string{d.pinName(live.ID), other.pinName(theirs.ID)}, strings.Split(got, "\n"))
	git(t, live.Dir, "fsck", "--full")
	require.NoError(t, d.Dispose(ctx, live, true))
	require.NoError(t, other.Dispose(ctx, theirs, true))
	same(t, before, fingerprint(t, host))
}

func TestWithoutRef(t *testing.T) {
	const head = "# pack-refs with: peeled fully-peeled sorted \n"
	for _, c := range []struct{ in, out string }{
		{head + "1 a\n2 x\n3 y\n", head + "1 a\n3 y\n"},
		{head + "2 x\n^4\n3 y\n^5\n", head + "3 y\n^5\n"},
		{head + "1 a\n^5\n2 x", head + "1 a\n^5\n"},
		{head + "1 xx\n1 a/x\n", ""},
		{"", ""},
	} {
		out, found := withoutRef(c.in, "x")
		require.Equal(t, c.out != "", found)
		if found {
			require.Equal(t, c.out, out)
		}
	}
}

// TestPinsComeAndGoBesideGit makes and removes private trees while the host packs its refs again and again.
func TestPinsComeAndGoBesideGit(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r", Private: true})
	require.NoError(t, err)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := tryGit(host, nil, "-c", "core.packedRefsTimeout=-1", "-c", "core.filesRefLockTimeout=-1", "pack-refs", "--all", "--prune"); err != nil {
				stopped <- err
				return
			}
		}
	}()
	ids := agents(8)
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			l, err := d.Acquire(ctx, id, at)
			if err == nil {
				_, err = tryGit(l.Dir, nil, "fsck", "--strict")
			}
			errs[i] = errors.Join(err, d.Dispose(ctx, l, true))
		})
	}
	all.Wait()
	close(stop)
	require.NoError(t, errors.Join(append(errs, <-stopped)...))
	require.NotContains(t, git(t, host, "for-each-ref"), "assent")
	require.NoFileExists(t, filepath.Join(host, ".git", packedLock))
}
