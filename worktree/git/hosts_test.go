package git

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// hosts are the kinds of repository that a tree can hang on. Each returns the path to configure and a ref.
var hosts = []struct {
	name string
	make func(t *testing.T, base string) (path, ref string)
}{
	{"plain", func(t *testing.T, base string) (string, string) { return base, "" }},
	{"feature branch without a ref", func(t *testing.T, base string) (string, string) {
		git(t, base, "checkout", "-q", "-b", "feature/x")
		put(t, base, "feature.txt", "f\n")
		git(t, base, "add", "-A")
		git(t, base, "commit", "-qm", "feature")
		return base, ""
	}},
	{"ref HEAD in a clone with an upstream", func(t *testing.T, base string) (string, string) {
		dir := clone(t, base)
		put(t, dir, "ahead.txt", "a\n")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "ahead")
		return dir, "HEAD"
	}},
	{"a remote branch", func(t *testing.T, base string) (string, string) { return clone(t, base), "origin/main" }},
	{"the default branch of a remote", func(t *testing.T, base string) (string, string) { return clone(t, base), "origin" }},
	{"annotated tag of a tag", func(t *testing.T, base string) (string, string) {
		git(t, base, "tag", "-am", "one", "v1")
		git(t, base, "tag", "-am", "two", "v2", "v1")
		return base, "v2"
	}},
	{"ancestor of a detached head", func(t *testing.T, base string) (string, string) {
		put(t, base, "second.txt", "2\n")
		git(t, base, "add", "-A")
		git(t, base, "commit", "-qm", "second")
		git(t, base, "checkout", "-q", "--detach")
		return base, "HEAD^0~1^{commit}"
	}},
	{"abbreviated id", func(t *testing.T, base string) (string, string) {
		return base, git(t, base, "rev-parse", "--short=9", "HEAD")
	}},
	{"second parent", func(t *testing.T, base string) (string, string) {
		git(t, base, "checkout", "-q", "-b", "side")
		put(t, base, "side.txt", "s\n")
		git(t, base, "add", "-A")
		git(t, base, "commit", "-qm", "side")
		git(t, base, "checkout", "-q", "main")
		git(t, base, "merge", "-q", "--no-ff", "-m", "merge", "side")
		return base, "main^2"
	}},
	{"bare", func(t *testing.T, base string) (string, string) {
		return clone(t, base, "--bare"), ""
	}},
	{"linked worktree as host", func(t *testing.T, base string) (string, string) {
		dir := filepath.Join(t.TempDir(), "linked")
		git(t, base, "worktree", "add", "-q", "-b", "linked", dir)
		put(t, dir, "linked.txt", "l\n")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "linked")
		return dir, ""
	}},
	{"packed refs and packed objects", func(t *testing.T, base string) (string, string) {
		for i := range 5 {
			put(t, base, "src/main.go", numbered("line", 41+i))
			git(t, base, "commit", "-qam", "more")
		}
		git(t, base, "gc", "-q", "--prune=now")
		require.NoFileExists(t, filepath.Join(base, ".git", "refs", "heads", "main"))
		return base, "main~2"
	}},
	{"objects borrowed from another repository", func(t *testing.T, base string) (string, string) {
		git(t, base, "gc", "-q")
		dir := clone(t, base, "--shared")
		put(t, dir, "own.txt", "o\n")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "own")
		return dir, ""
	}},
	{"shallow clone", func(t *testing.T, base string) (string, string) {
		put(t, base, "second.txt", "2\n")
		git(t, base, "add", "-A")
		git(t, base, "commit", "-qm", "second")
		dir := filepath.Join(t.TempDir(), "shallow")
		git(t, base, "clone", "-q", "--depth", "1", "file://"+base, dir)
		return dir, ""
	}},
	{"separate git directory", func(t *testing.T, base string) (string, string) {
		return clone(t, base, "--separate-git-dir", filepath.Join(t.TempDir(), "elsewhere")), ""
	}},
	{"path through a symbolic link, with spaces", func(t *testing.T, base string) (string, string) {
		to := filepath.Join(t.TempDir(), "a path ü")
		require.NoError(t, os.Symlink(base, to))
		return to, ""
	}},
	{"own configuration for each worktree", func(t *testing.T, base string) (string, string) {
		git(t, base, "config", "extensions.worktreeConfig", "true")
		git(t, base, "config", "--worktree", "user.name", "x")
		return base, ""
	}},
	{"submodule with a worktree in its configuration", func(t *testing.T, base string) (string, string) {
		super := filepath.Join(t.TempDir(), "super")
		git(t, filepath.Dir(super), "init", "-q", super)
		git(t, super, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", base, "sub")
		return filepath.Join(super, "sub"), ""
	}},
	{"dirty host", func(t *testing.T, base string) (string, string) {
		put(t, base, "README.md", "user's own edit\n")
		put(t, base, "untracked", "user's own file\n")
		put(t, base, "staged", "s\n")
		git(t, base, "add", "staged")
		require.NoError(t, os.Remove(filepath.Join(base, "run.sh")))
		return base, ""
	}},
	{"checked out submodule", func(t *testing.T, base string) (string, string) {
		git(t, base, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", clone(t, base), "dep")
		git(t, base, "commit", "-qm", "submodule")
		return base, ""
	}},
}

func clone(t *testing.T, base string, args ...string) string {
	dir := filepath.Join(t.TempDir(), "clone")
	git(t, base, append(append([]string{"clone", "-q"}, args...), base, dir)...)
	return dir
}

func TestEveryKindOfHost(t *testing.T) {
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			path, ref := h.make(t, repo(t))
			asked := ref
			if asked == "" {
				asked = "HEAD"
			}
			want := git(t, path, "rev-parse", asked+"^{commit}")
			common := git(t, path, "rev-parse", "--path-format=absolute", "--git-common-dir")
			_, err := os.Lstat(filepath.Join(common, "worktrees"))
			had := err == nil
			before, beforeCommon := fingerprint(t, path), fingerprint(t, common)

			d := driver(t, path)
			l := acquire(t, d, who, ref)
			require.Equal(t, want, l.Resolved.Commit)
			require.Equal(t, git(t, path, "rev-parse", want+"^{tree}"), l.Resolved.Tree)
			require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
			require.Equal(t, l.Resolved.Tree, git(t, l.Dir, "write-tree"))
			git(t, l.Dir, "fsck", "--strict", "--no-dangling")

			put(t, l.Dir, "added/by agent.txt", "x\n")
			require.NoError(t, os.Remove(filepath.Join(l.Dir, "bin.dat")))
			p := collect(t, d, l)
			require.Empty(t, p.HostChanges)

			require.NoError(t, d.Dispose(context.Background(), l, false))
			require.NoDirExists(t, filepath.Join(common, "worktrees", l.ID))
			if !had {
				same(t, before, fingerprint(t, path))
				same(t, beforeCommon, fingerprint(t, common))
			}
			byIndex, byFiles := applied(t, path, p)
			require.Equal(t, p.Tree, byIndex)
			require.Equal(t, p.Tree, byFiles)
		})
	}
}

// refusals are repositories that are not served, with a part of the reason.
var refusals = []struct {
	name, reason string
	do           func(t *testing.T, host string)
}{
	{"lfs", `filter driver "lfs" in .gitattributes`, func(t *testing.T, host string) {
		put(t, host, ".gitattributes", "*.psd filter=lfs diff=lfs merge=lfs -text\n")
		git(t, host, "add", "-A")
		git(t, host, "commit", "-qm", "lfs")
	}},
	{"filter by a macro in info", `filter driver "evil" in info/attributes`, func(t *testing.T, host string) {
		put(t, host, ".git/info/attributes", "[attr]big filter=evil\n*.dat big\n")
	}},
	{"ident in a folder", `ident attribute in src/.gitattributes`, func(t *testing.T, host string) {
		put(t, host, "src/.gitattributes", "*.go ident\n")
		git(t, host, "add", "-A")
		git(t, host, "commit", "-qm", "ident")
	}},
	{"encoding", "working-tree-encoding", func(t *testing.T, host string) {
		put(t, host, ".gitattributes", "*.none working-tree-encoding=UTF-16\n")
		git(t, host, "add", "-A")
		git(t, host, "commit", "-qm", "enc")
	}},
	{"sparse", "sparse checkout", func(t *testing.T, host string) { git(t, host, "sparse-checkout", "set", "src") }},
	{"promisor", "promisor", func(t *testing.T, host string) { git(t, host, "config", "remote.origin.promisor", "true") }},
	{"partial clone", "extension partialclone", func(t *testing.T, host string) {
		git(t, host, "config", "core.repositoryFormatVersion", "1")
		git(t, host, "config", "extensions.partialClone", "origin")
	}},
	{"unknown extension", `extension newthing "1"`, func(t *testing.T, host string) {
		put(t, host, ".git/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tnewThing = 1\n")
	}},
	{"reftable", `extension refstorage "reftable"`, func(t *testing.T, host string) {
		put(t, host, ".git/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable\n")
	}},
	{"sha256", `extension objectformat "sha256"`, func(t *testing.T, host string) {
		require.NoError(t, os.RemoveAll(host))
		git(t, filepath.Dir(host), "init", "-q", "--object-format=sha256", host)
		put(t, host, "f", "f\n")
		git(t, host, "add", "-A")
		git(t, host, "commit", "-qm", "f")
	}},
	{"no symlinks", "core.symlinks", func(t *testing.T, host string) { git(t, host, "config", "core.symlinks", "false") }},
	{"folded case", "core.ignoreCase", func(t *testing.T, host string) { git(t, host, "config", "core.ignoreCase", "true") }},
	{"include", "config include", func(t *testing.T, host string) { git(t, host, "config", "include.path", "more") }},
	{"conditional include", "config include", func(t *testing.T, host string) {
		git(t, host, "config", "includeIf.gitdir:/x/.path", "more")
	}},
	{"replace refs", "replace refs", func(t *testing.T, host string) {
		git(t, host, "commit", "-q", "--allow-empty", "-m", "other")
		git(t, host, "replace", "HEAD", "HEAD~1")
	}},
	{"packed replace refs", "replace refs", func(t *testing.T, host string) {
		git(t, host, "commit", "-q", "--allow-empty", "-m", "other")
		git(t, host, "replace", "HEAD", "HEAD~1")
		git(t, host, "pack-refs", "--all")
	}},
	{"grafts", "grafts", func(t *testing.T, host string) { put(t, host, ".git/info/grafts", "\n") }},
	{"old mode", "mode 100664", func(t *testing.T, host string) {
		blob := git(t, host, "rev-parse", "HEAD:README.md")
		commitTree(t, host, "100664 x\x00"+raw(t, blob))
	}},
	{"name .GIT", "name", func(t *testing.T, host string) {
		commitTree(t, host, "100644 .GIT\x00"+raw(t, git(t, host, "rev-parse", "HEAD:README.md")))
	}},
	{"name git~1", "name", func(t *testing.T, host string) {
		commitTree(t, host, "40000 git~1\x00"+raw(t, git(t, host, "rev-parse", "HEAD:src")))
	}},
	{"name ..", "name", func(t *testing.T, host string) {
		commitTree(t, host, "40000 ..\x00"+raw(t, git(t, host, "rev-parse", "HEAD:src")))
	}},
	{"invisible .git", "name", func(t *testing.T, host string) {
		commitTree(t, host, "100644 .g\u200cit\x00"+raw(t, git(t, host, "rev-parse", "HEAD:README.md")))
	}},
	{"linked .gitmodules", "name", func(t *testing.T, host string) {
		commitTree(t, host, "120000 .gitmodules\x00"+raw(t, git(t, host, "rev-parse", "HEAD:link")))
	}},
}

// commitTree commits a tree object as it is, which git would not make.
func commitTree(t *testing.T, host, tree string) {
	out, err := tryGit(host, []byte(tree), "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	require.NoError(t, err)
	commit := git(t, host, "commit-tree", "-m", "made", out[:40])
	git(t, host, "update-ref", "HEAD", commit)
}

func raw(t *testing.T, id string) string {
	require.True(t, isFullHex(id))
	h := plumbing.NewHash(id)
	return string(h[:])
}

func TestRefusesToGuess(t *testing.T) {
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			r.do(t, host)
			before := fingerprint(t, host)
			d := driver(t, host)
			at, err := d.Resolve(context.Background(), worktree.Isolation{Repo: "r"})
			if err == nil {
				_, err = d.Acquire(context.Background(), who, at)
			}
			var needs *worktree.NeedsGitError
			require.ErrorAs(t, err, &needs)
			assert.Contains(t, needs.Reason, r.reason)
			same(t, before, fingerprint(t, host))
			list, err := d.List(context.Background())
			require.NoError(t, err)
			assert.Empty(t, list)
		})
	}
}

func TestResolveRefusesWhatIsNoCommit(t *testing.T) {
	host := repo(t)
	empty := filepath.Join(t.TempDir(), "empty")
	git(t, filepath.Dir(empty), "init", "-q", empty)
	nothing := t.TempDir()
	git(t, host, "tag", "a-blob", "HEAD:README.md")
	d, err := New(Config{Root: filepath.Join(t.TempDir(), "root"), Repos: map[string]string{
		"r": host, "empty": empty, "nothing": nothing, "inside": filepath.Join(host, "src"), "missing": "/no/such/path",
	}})
	require.NoError(t, err)
	for _, iso := range []worktree.Isolation{
		{Repo: "unknown"}, {Repo: "empty"}, {Repo: "empty", Ref: "main"}, {Repo: "nothing"}, {Repo: "inside"}, {Repo: "missing"},
		{Repo: "r", Ref: "no-such"}, {Repo: "r", Ref: "--force"}, {Repo: "r", Ref: "-"}, {Repo: "r", Ref: "main..HEAD"},
		{Repo: "r", Ref: "HEAD:README.md"}, {Repo: "r", Ref: "refs/heads/../../config"}, {Repo: "r", Ref: "../x"},
		{Repo: "r", Ref: "config"}, {Repo: "r", Ref: "index"}, {Repo: "r", Ref: "HEAD~99"}, {Repo: "r", Ref: "HEAD^7"},
		{Repo: "r", Ref: "HEAD^{tree}"}, {Repo: "r", Ref: "@{-1}"}, {Repo: "r", Ref: "a-blob"}, {Repo: "r", Ref: "main\nx"},
		{Repo: "r", Ref: "0123456789012345678901234567890123456789"}, {Repo: "r", Ref: "abcd"}, {Repo: "r", Ref: "HEAD~99999999999999999999"},
	} {
		_, err := d.Resolve(context.Background(), iso)
		var config *fault.ConfigError
		assert.ErrorAs(t, err, &config, "%+v", iso)
	}

	d.euid++
	_, err = d.Resolve(context.Background(), worktree.Isolation{Repo: "r"})
	var config *fault.ConfigError
	require.ErrorAs(t, err, &config)
	require.Contains(t, config.Msg, "belongs to user")
}

func TestNewRefusesWrongConfig(t *testing.T) {
	host := repo(t)
	minus := -1
	loose := t.TempDir()
	require.NoError(t, os.Chmod(loose, 0o755))
	root := filepath.Join(t.TempDir(), "root")
	for name, c := range map[string]Config{
		"pin cap":      {Root: root, PinCap: &minus},
		"free":         {Root: root, MinFree: -1},
		"bytes":        {Root: root, MaxBytes: -1},
		"no root":      {},
		"relative":     {Root: "trees"},
		"open to all":  {Root: loose},
		"in the host":  {Root: filepath.Join(host, "trees"), Repos: map[string]string{"r": host}},
		"in any repo":  {Root: filepath.Join(host, "src", "trees")},
		"in a git dir": {Root: filepath.Join(host, ".git", "trees")},
		"repo path":    {Root: root, Repos: map[string]string{"r": "relative"}},
		"repo name":    {Root: root, Repos: map[string]string{"": host}},
	} {
		_, err := New(c)
		var config *fault.ConfigError
		assert.ErrorAs(t, err, &config, name)
	}
}
