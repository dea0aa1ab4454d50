package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// kind is a kind of repository. hosts and refusals are more of them.
type kind struct {
	name string
	// make returns the path to configure and a ref.
	make func(t *testing.T, base string) (path, ref string)
	// needs is a part of the reason for which the built-in driver refuses it, empty if it serves it.
	needs string
	// refused is a part of the error with git configured, empty if it is served.
	refused string
	// always is for what the driver on git has failed once.
	always bool
}

// inPlace makes a kind of the base repository itself.
func inPlace(do func(t *testing.T, host string)) func(t *testing.T, base string) (string, string) {
	return func(t *testing.T, base string) (string, string) {
		do(t, base)
		return base, ""
	}
}

func config(pairs ...string) func(t *testing.T, base string) (string, string) {
	return inPlace(func(t *testing.T, host string) {
		for i := 0; i < len(pairs); i += 2 {
			git(t, host, "config", pairs[i], pairs[i+1])
		}
	})
}

// more commits more versions of a file.
func more(t *testing.T, host string, n int) {
	for i := range n {
		put(t, host, "src/main.go", numbered(newNonce(), 41+i))
		git(t, host, "commit", "-qam", "more")
	}
}

// fails runs a git command that stops in the middle.
func fails(t *testing.T, host string, args ...string) {
	_, err := tryGit(host, nil, args...)
	require.Error(t, err)
}

// diverge makes a branch that conflicts with main.
func diverge(t *testing.T, host string) {
	git(t, host, "checkout", "-q", "-b", "side")
	put(t, host, "README.md", "side\n")
	git(t, host, "commit", "-qam", "side")
	git(t, host, "checkout", "-q", "main")
	put(t, host, "README.md", "main\n")
	git(t, host, "commit", "-qam", "main")
}

func hook(t *testing.T, host, name, script string) {
	put(t, host, ".git/hooks/"+name, script)
	require.NoError(t, os.Chmod(filepath.Join(host, ".git", "hooks", name), 0o755))
}

var kinds = []kind{
	{name: "index version 4", make: inPlace(func(t *testing.T, host string) { git(t, host, "update-index", "--index-version", "4") })},
	{name: "split index", make: inPlace(func(t *testing.T, host string) { git(t, host, "update-index", "--split-index") })},
	{name: "damaged index", make: inPlace(func(t *testing.T, host string) { put(t, host, ".git/index.lock", "x") })},
	{name: "autocrlf true", make: config("core.autocrlf", "true")},
	{name: "autocrlf input", make: config("core.autocrlf", "input")},
	{name: "eol crlf by configuration", make: inPlace(func(t *testing.T, host string) {
		put(t, host, ".gitattributes", "*.md text\n")
		commitNeeds(t, host, "eol")
		git(t, host, "config", "core.eol", "crlf")
	})},
	{name: "eol attributes", make: inPlace(func(t *testing.T, host string) {
		put(t, host, ".gitattributes", "* text=auto\n*.md eol=crlf\n*.dat binary\n")
		git(t, host, "add", "--renormalize", ".")
		commitNeeds(t, host, "eol")
	})},
	{name: "attributes in info", make: inPlace(func(t *testing.T, host string) { put(t, host, ".git/info/attributes", "*.md text eol=crlf\n") })},
	{name: "file modes do not count", make: config("core.fileMode", "false")},
	{name: "case twins", make: inPlace(func(t *testing.T, host string) {
		put(t, host, "readme.MD", "a twin\n")
		put(t, host, "SRC/main.go", "another\n")
		commitNeeds(t, host, "twins")
	})},
	{name: "long paths", make: inPlace(func(t *testing.T, host string) {
		put(t, host, strings.Repeat(strings.Repeat("d", 200)+"/", 10)+strings.Repeat("f", 250), "deep\n")
		commitNeeds(t, host, "deep")
	})},
	{name: "names that are no text", always: true, make: inPlace(func(t *testing.T, host string) {
		for _, n := range []string{"\xff\xfe", "a\nb", "tab\there", "quo\"te", "back\\slash", "-rf", " lead", "trail ", "é", "e\u0301", ":(top)x", "*", "#x", "!x"} {
			put(t, host, "odd/"+n, "content of "+n)
		}
		commitNeeds(t, host, "odd")
	})},
	{name: "commit of an empty tree", make: inPlace(func(t *testing.T, host string) {
		out, err := tryGit(host, nil, "hash-object", "-t", "tree", "-w", "/dev/null")
		require.NoError(t, err)
		git(t, host, "update-ref", "HEAD", git(t, host, "commit-tree", "-m", "none", strings.TrimSpace(out)))
	})},
	{name: "octopus merge", make: func(t *testing.T, base string) (string, string) {
		for _, b := range []string{"a", "b", "c"} {
			git(t, base, "checkout", "-q", "-b", b, "main")
			put(t, base, b+".txt", b)
			commitNeeds(t, base, b)
		}
		git(t, base, "checkout", "-q", "main")
		git(t, base, "merge", "-q", "-m", "octopus", "a", "b", "c")
		return base, "main^3"
	}},
	{name: "hooks that fail", make: inPlace(func(t *testing.T, host string) {
		for _, name := range []string{"post-checkout", "reference-transaction", "post-index-change", "pre-commit"} {
			hook(t, host, name, "#!/bin/sh\nexit 1\n")
		}
	})},
	{name: "hooks elsewhere", make: config("core.hooksPath", "/no/such/path")},
	{name: "fsmonitor set", make: config("core.fsmonitor", "/no/such/program", "core.untrackedCache", "true")},
	{name: "in the middle of a merge", make: inPlace(func(t *testing.T, host string) {
		diverge(t, host)
		fails(t, host, "merge", "side")
	})},
	{name: "in the middle of a rebase", make: inPlace(func(t *testing.T, host string) {
		diverge(t, host)
		fails(t, host, "rebase", "side")
	})},
	{name: "in the middle of a cherry-pick", make: func(t *testing.T, base string) (string, string) {
		diverge(t, base)
		fails(t, base, "cherry-pick", "side")
		return base, "CHERRY_PICK_HEAD"
	}},
	{name: "in the middle of a bisect", make: inPlace(func(t *testing.T, host string) {
		more(t, host, 4)
		git(t, host, "bisect", "start", "HEAD", "HEAD~3")
	})},
	{name: "loose objects alone", make: inPlace(func(t *testing.T, host string) { more(t, host, 3) })},
	{name: "many packs", make: inPlace(func(t *testing.T, host string) {
		for range 5 {
			more(t, host, 1)
			git(t, host, "repack", "-q")
		}
	})},
	{name: "multi-pack-index", make: inPlace(func(t *testing.T, host string) {
		for range 3 {
			more(t, host, 1)
			git(t, host, "repack", "-q")
		}
		git(t, host, "multi-pack-index", "write", "--bitmap")
	})},
	{name: "commit-graph", make: func(t *testing.T, base string) (string, string) {
		more(t, base, 5)
		git(t, base, "commit-graph", "write", "--reachable", "--changed-paths")
		return base, "main~3"
	}},
	{name: "bitmaps", make: func(t *testing.T, base string) (string, string) {
		dir := clone(t, base, "--bare")
		git(t, dir, "-c", "repack.writeBitmaps=true", "repack", "-adbq")
		return dir, ""
	}},
	{name: "kept pack and a cruft pack", make: inPlace(func(t *testing.T, host string) {
		more(t, host, 2)
		git(t, host, "reset", "-q", "--hard", "HEAD~1")
		git(t, host, "reflog", "expire", "--expire=now", "--all")
		git(t, host, "gc", "-q", "--cruft", "--prune=never")
		packs, err := filepath.Glob(filepath.Join(host, ".git/objects/pack/*.pack"))
		require.NoError(t, err)
		for _, p := range packs {
			require.NoError(t, os.WriteFile(strings.TrimSuffix(p, "pack")+"keep", nil, 0o666))
		}
	})},
	{name: "no compression", make: inPlace(func(t *testing.T, host string) {
		git(t, host, "config", "core.compression", "0")
		more(t, host, 1)
	})},
	{name: "big file threshold of one byte", make: inPlace(func(t *testing.T, host string) {
		git(t, host, "config", "core.bigFileThreshold", "1")
		more(t, host, 1)
	})},
	{name: "path with quotes and odd characters", make: func(t *testing.T, base string) (string, string) {
		dir := filepath.Join(t.TempDir(), `it's "a" \path: #1 $x;é`)
		git(t, base, "clone", "-q", base, dir)
		return dir, ""
	}},
	{name: "path with a line break", refused: "line break", needs: "line break", make: func(t *testing.T, base string) (string, string) {
		dir := filepath.Join(t.TempDir(), "a\nb")
		git(t, base, "clone", "-q", base, dir)
		return dir, ""
	}},
	{name: "work tree elsewhere by configuration", make: func(t *testing.T, base string) (string, string) {
		git(t, base, "config", "core.worktree", t.TempDir())
		return base, "main"
	}},
	{name: "relative .git file", make: func(t *testing.T, base string) (string, string) {
		dir := filepath.Join(filepath.Dir(base), "moved")
		require.NoError(t, os.Rename(filepath.Join(base, ".git"), dir))
		put(t, base, ".git", "gitdir: ../moved\n")
		return base, ""
	}},
	{name: ".git is a symbolic link", make: func(t *testing.T, base string) (string, string) {
		dir := filepath.Join(filepath.Dir(base), "moved")
		require.NoError(t, os.Rename(filepath.Join(base, ".git"), dir))
		require.NoError(t, os.Symlink(dir, filepath.Join(base, ".git")))
		return base, ""
	}},
	{name: "refs with odd characters", make: func(t *testing.T, base string) (string, string) {
		git(t, base, "branch", "a'b\"c$d;e&f(g)h,i=j%k#l!m{n}é")
		return base, "a'b\"c$d;e&f(g)h,i=j%k#l!m{n}é"
	}},
	{name: "a branch named HEAD and one like an id", make: func(t *testing.T, base string) (string, string) {
		more(t, base, 1)
		git(t, base, "update-ref", "refs/heads/HEAD", "HEAD~1")
		git(t, base, "update-ref", "refs/heads/abcd", "HEAD~1")
		return base, "HEAD"
	}},
	{name: "HEAD is a symbolic link", make: inPlace(func(t *testing.T, host string) {
		require.NoError(t, os.Remove(filepath.Join(host, ".git", "HEAD")))
		require.NoError(t, os.Symlink("refs/heads/main", filepath.Join(host, ".git", "HEAD")))
	})},
	{name: "branch that is a symbolic ref", make: func(t *testing.T, base string) (string, string) {
		git(t, base, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
		return base, "alias"
	}},
	{name: "reflogs off and a shared repository", make: config("core.logAllRefUpdates", "false", "core.sharedRepository", "group")},
	{name: "mirror", make: func(t *testing.T, base string) (string, string) { return clone(t, base, "--mirror"), "" }},
	{name: "no branch at all, a tag", make: func(t *testing.T, base string) (string, string) {
		git(t, base, "tag", "only")
		git(t, base, "checkout", "-q", "--orphan", "unborn")
		git(t, base, "branch", "-qD", "main")
		return base, "only"
	}},
	{name: "no commit yet", needs: "has no commit yet", refused: "has no commit yet", make: func(t *testing.T, base string) (string, string) {
		git(t, base, "checkout", "-q", "--orphan", "unborn")
		return base, ""
	}},
	{name: "read-only objects of alternates two deep", make: func(t *testing.T, base string) (string, string) {
		one := clone(t, base, "--shared")
		return clone(t, one, "--shared"), ""
	}},
	{name: "include that is in force", needs: "config include", make: inPlace(func(t *testing.T, host string) {
		put(t, host, ".git/more", "[core]\n\tautocrlf = true\n")
		git(t, host, "config", "include.path", "more")
	})},
	{name: "conditional include that is in force", needs: "config include", make: inPlace(func(t *testing.T, host string) {
		put(t, host, ".git/more", "[core]\n\tautocrlf = true\n")
		git(t, host, "config", "includeIf.gitdir:"+filepath.Dir(host)+"/.path", "more")
	})},
	{name: "sparse checkout with patterns", needs: "sparse", make: inPlace(func(t *testing.T, host string) {
		git(t, host, "sparse-checkout", "set", "--no-cone", "/*", "!/src/", "/src/deep/")
	})},
	{name: "sparse index", needs: "sparse", make: inPlace(func(t *testing.T, host string) {
		git(t, host, "sparse-checkout", "set", "--cone", "--sparse-index", "src/deep")
	})},
	{name: "replaced tree", needs: "replace refs", make: inPlace(func(t *testing.T, host string) {
		other := git(t, host, "rev-parse", "HEAD")
		more(t, host, 1)
		git(t, host, "replace", "HEAD", other)
	})},
	{name: "partial clone that has everything", needs: "", make: partial(true)},
	{name: "partial clone that lacks files", needs: "", refused: "lacks object", make: partial(false)},
	{name: "sha256 with changes", needs: "sha256", make: inPlace(func(t *testing.T, host string) {
		sha256Repo(t, host)
		more(t, host, 2)
		git(t, host, "gc", "-q")
	})},
}

// partial makes a partial clone, with or without the files of its HEAD.
func partial(complete bool) func(t *testing.T, base string) (string, string) {
	return func(t *testing.T, base string) (string, string) {
		more(t, base, 2)
		git(t, base, "config", "uploadpack.allowFilter", "true")
		git(t, base, "config", "uploadpack.allowAnySHA1InWant", "true")
		dir := filepath.Join(t.TempDir(), "partial")
		git(t, base, "clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+base, dir)
		if complete {
			git(t, dir, "checkout", "-q", "main")
		}
		// What runs when git fetches from here now must not run.
		git(t, dir, "config", "remote.origin.uploadpack", "touch '"+filepath.Join(filepath.Dir(dir), "ran")+"'; git-upload-pack")
		return dir, ""
	}
}

// sha256Repo makes the host anew with ids of sha256.
func sha256Repo(t *testing.T, host string) {
	require.NoError(t, os.RemoveAll(filepath.Join(host, ".git")))
	git(t, host, "init", "-q", "-b", "main", "--object-format=sha256")
	commitNeeds(t, host, "base")
}

// byGit says what becomes of the refusals with git configured, where they are not served.
var byGit = map[string]string{
	"unknown extension": "refuses it too",
	// The fixture has the extension and no tables: a git that knows it finds no refs, one that does not refuses.
	"reftable":           "",
	"name .GIT":          "which git refuses",
	"name git~1":         "which git refuses",
	"name ..":            "which git refuses",
	"invisible .git":     "which git refuses",
	"linked .gitmodules": "which git refuses",
}

// allKinds are all of them.
func allKinds() []kind {
	out := append([]kind(nil), kinds...)
	for _, h := range hosts {
		out = append(out, kind{name: h.name, make: h.make})
	}
	for _, r := range refusals {
		out = append(out, kind{name: r.name, needs: r.reason, refused: byGit[r.name], make: inPlace(r.do)})
	}
	return out
}

// TestTheMatrixOfHosts has every kind of host equal what git makes of it, or refused with nothing left behind: by
// the built-in driver, by the driver with git configured, and by git all the same where it is not needed: all of those
// with ASSENT_LONG=1, else every twelfth.
func TestTheMatrixOfHosts(t *testing.T) {
	t.Log(git(t, t.TempDir(), "version"))
	all := allKinds()
	require.Greater(t, len(all), 90)
	for i, k := range all {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			path, ref := k.make(t, repo(t))
			if k.needs != "" || strings.HasPrefix(k.name, "partial") {
				refusedHost(t, driver(t, path), path, ref, k.needs)
			} else if i < len(kinds) { // the others are TestEveryKindOfHost
				servedHost(t, driver(t, path), path, ref, "")
			}
			d := driver(t, path, withGit(t))
			if k.refused != "" || k.name == "reftable" {
				refusedHost(t, d, path, ref, k.refused)
				return
			}
			if k.needs == "" && !k.always && i%12 != 0 && os.Getenv("ASSENT_LONG") != "1" {
				return
			}
			d.always = true
			servedHost(t, d, path, ref, git(t, path, "version"))
			if strings.HasPrefix(k.name, "partial") {
				require.NoFileExists(t, filepath.Join(filepath.Dir(path), "ran"))
			}
		})
	}
}

// refusedHost requires a typed error, and nothing of it.
func refusedHost(t *testing.T, d *Driver, path, ref, says string) {
	t.Helper()
	before := fingerprint(t, path)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r", Ref: ref})
	if err == nil {
		_, err = d.Acquire(ctx, who, at)
	}
	var needs *worktree.NeedsGitError
	var missing *worktree.MissingError
	if !fault.IsConfig(err) {
		require.True(t, errors.As(err, &needs) || errors.As(err, &missing), "%v", err)
	}
	require.ErrorContains(t, err, says)
	same(t, before, fingerprint(t, path))
	list, err := d.List(ctx)
	require.NoError(t, err)
	require.Empty(t, list)
	requireOnlyStateAfterClose(t, d)
}

// servedHost requires a tree that equals git's own in every way that shows, a patch that applies, and a host that
// is as it was. version is that of the git that is to have made it, empty for none.
func servedHost(t *testing.T, d *Driver, path, ref, version string) {
	t.Helper()
	asked := ref
	if asked == "" {
		asked = "HEAD"
	}
	want := git(t, path, "rev-parse", asked+"^{commit}")
	gitDir := git(t, path, "rev-parse", "--path-format=absolute", "--git-common-dir")
	_, err := os.Lstat(filepath.Join(gitDir, "worktrees"))
	had := err == nil
	before, beforeCommon := fingerprint(t, path), fingerprint(t, gitDir)
	l := acquire(t, d, who, ref)
	require.Equal(t, want, l.Resolved.Commit)
	require.Equal(t, git(t, path, "rev-parse", want+"^{tree}"), l.Resolved.Tree)
	require.Equal(t, version != "", mustLoad(t, d, l.ID).Git != nil)
	quiet := []string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", "-c", "core.untrackedCache=false"}
	reference := filepath.Join(t.TempDir(), "reference")
	git(t, path, append(quiet, "worktree", "add", "-q", "--detach", reference, want)...)
	same(t, fingerprint(t, reference, ".git")[1:], fingerprint(t, l.Dir, ".git")[1:])
	git(t, path, append(quiet, "worktree", "remove", "-f", reference)...)
	require.Empty(t, git(t, l.Dir, append(quiet, "status", "--porcelain", "--ignored")...))
	if _, err := tryGit(path, nil, "config", "remote.origin.promisor"); err != nil {
		git(t, l.Dir, "fsck", "--no-dangling")
	}
	p := collect(t, d, l)
	require.Empty(t, p.Bytes)
	require.Empty(t, p.Files)

	put(t, l.Dir, "added/by agent.txt", "x\n")
	put(t, l.Dir, "odd.bin", "\x00\x01")
	_ = os.Remove(filepath.Join(l.Dir, "bin.dat"))
	if _, err := os.Lstat(filepath.Join(l.Dir, "README.md")); err == nil {
		put(t, l.Dir, "README.md", "changed\n")
	}
	p = collect(t, d, l)
	require.Empty(t, p.HostChanges)
	require.NoError(t, d.Dispose(ctx, l, false))
	require.NoDirExists(t, filepath.Join(gitDir, "worktrees", l.ID))
	if !had {
		same(t, before, fingerprint(t, path))
		same(t, beforeCommon, fingerprint(t, gitDir))
	}
	for _, args := range [][]string{{"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}} {
		git(t, path, "config", args[0], args[1])
	}
	byIndex, byFiles := applied(t, path, p)
	require.Equal(t, p.Tree, byIndex)
	require.Equal(t, p.Tree, byFiles)
}
