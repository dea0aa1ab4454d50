package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// withGit configures the git of this machine, and filters that it may run.
func withGit(t testing.TB, filters ...string) func(*Config) {
	t.Helper()
	path, err := exec.LookPath("git")
	require.NoError(t, err)
	return func(c *Config) { c.Git, c.Filters = path, filters }
}

// commitNeeds commits everything in a host.
func commitNeeds(t testing.TB, host, message string) {
	t.Helper()
	git(t, host, "add", "-A")
	git(t, host, "commit", "-qm", message)
}

// TestByGitWhatGitAloneConverts has git make a tree of files that only it can convert, and collects every kind of
// change to them.
func TestByGitWhatGitAloneConverts(t *testing.T) {
	host := repo(t)
	put(t, host, ".gitattributes", "*.psd filter=lfs diff=lfs merge=lfs -text\n*.c ident\n*.u16 text working-tree-encoding=UTF-16LE\n*.bat text eol=crlf\n")
	put(t, host, "a.psd", "version https://git-lfs\n")
	put(t, host, "a.c", "/* $Id$ */\n")
	put(t, host, "t.u16", "h\x00i\x00\n\x00")
	put(t, host, "keep.u16", "k\x00\n\x00")
	put(t, host, "x.bat", "one\r\ntwo\r\n")
	commitNeeds(t, host, "needs")
	before := fingerprint(t, host)
	d := driver(t, host, withGit(t))
	l := acquire(t, d, who, "")
	ref := filepath.Join(t.TempDir(), "ref")
	git(t, host, "worktree", "add", "-q", "--detach", ref)
	same(t, fingerprint(t, ref, ".git")[1:], fingerprint(t, l.Dir, ".git")[1:])
	git(t, host, "worktree", "remove", "-f", ref)
	require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
	require.Equal(t, l.Resolved.Tree, git(t, l.Dir, "write-tree"))
	p := collect(t, d, l)
	require.Empty(t, p.Files)
	require.Empty(t, p.Bytes)
	require.Equal(t, l.Resolved.Tree, p.Tree)

	put(t, l.Dir, "a.c", "/* $Id: anything$ */\nint x;\n")
	put(t, l.Dir, "b.c", "/* $Id: hello$ */\nint x;\n")
	put(t, l.Dir, "t.u16", "h\x00o\x00\n\x00")
	put(t, l.Dir, "bad.u16", "odd")
	put(t, l.Dir, "x.bat", "one\r\nTWO\r\n")
	put(t, l.Dir, "bin.dat", "\x00\x05")
	put(t, l.Dir, "a.psd", "another pointer\n")
	require.NoError(t, os.Remove(filepath.Join(l.Dir, "run.sh")))
	require.NoError(t, os.RemoveAll(filepath.Join(l.Dir, "src")))
	put(t, l.Dir, "src", "now a file\n")
	require.NoError(t, os.Remove(filepath.Join(l.Dir, "abs")))
	put(t, l.Dir, "abs/inside", "now a folder\n")
	require.NoError(t, os.Remove(filepath.Join(l.Dir, "link")))
	require.NoError(t, os.Symlink("elsewhere", filepath.Join(l.Dir, "link")))
	require.NoError(t, os.Rename(filepath.Join(l.Dir, "README.md"), filepath.Join(l.Dir, "READ.me")))
	put(t, l.Dir, "new\n\"name\"\xff", "odd\n")
	put(t, l.Dir, "vendor/lib/a", "a\n")
	git(t, filepath.Join(l.Dir, "vendor/lib"), "init", "-q")
	put(t, l.Dir, "x.log", "ignored\n")
	p = collect(t, d, l)
	require.Equal(t, `m a.c
m a.psd
d abs
a abs/inside
a b.c
a bad.u16
m bin.dat
m link
a "new\n\"name\"\377"
d run.sh
a src
d src/deep/er/leaf.txt
d src/main.go
m t.u16
a vendor/lib/a
m x.bat
`, strings.Replace(status(p), "r READ.me < README.md\n", "", 1))
	require.Equal(t, []string{"x.log"}, p.Ignored)
	require.Equal(t, []string{
		`"vendor/lib" is a repository of its own: its files are in the patch, its history is not`,
		`"bad.u16" is not in the encoding that the base says: its bytes are in the patch as they are`,
		`filter "lfs" did not run: the files that it is for are as they are stored`,
	}, p.Warnings)
	again := collect(t, d, l)
	require.Equal(t, p, again)
	same(t, before, fingerprint(t, host, ".git/worktrees"))
	byIndex, _ := applied(t, host, p)
	assert.Equal(t, p.Tree, byIndex)
	require.NoError(t, os.Remove(filepath.Join(l.Dir, "bad.u16")))
	p = collect(t, d, l)
	byIndex, byFiles := applied(t, host, p)
	assert.Equal(t, p.Tree, byIndex)
	assert.Equal(t, p.Tree, byFiles)
	require.NoError(t, d.Dispose(ctx, l, false))
	require.NoError(t, d.Close())
	requireOnlyState(t, d)
	left, err := os.ReadDir(d.stateDir(l.ID))
	require.NoError(t, err)
	for _, e := range left {
		require.Contains(t, []string{"lock", "git.lock", "record"}, e.Name())
	}
}

// TestByGitTheRulesAreThoseOfTheBase changes attributes in the tree, which must not change how files are read.
func TestByGitTheRulesAreThoseOfTheBase(t *testing.T) {
	host := repo(t)
	put(t, host, ".gitattributes", "*.c ident\n*.bat text eol=crlf\n.gitattributes text eol=crlf\n")
	put(t, host, "sub/.gitattributes", "*.x text eol=crlf\n")
	put(t, host, "a.c", "/* $Id$ */\n")
	commitNeeds(t, host, "needs")
	d := driver(t, host, withGit(t))
	l := acquire(t, d, who, "")
	put(t, l.Dir, ".gitattributes", "* -text\r\n")
	require.NoError(t, os.RemoveAll(filepath.Join(l.Dir, "sub")))
	put(t, l.Dir, "sub", "a file now\n")
	put(t, l.Dir, "deep/.gitattributes", "* ident\r\n")
	put(t, l.Dir, "deep/y.bat", "1\r\n2\r\n")
	put(t, l.Dir, "a.c", "/* $Id: mine$ */\n\n")
	p := collect(t, d, l)
	require.Equal(t, "m .gitattributes\nm a.c\na deep/.gitattributes\na deep/y.bat\na sub\nd sub/.gitattributes\n", status(p))
	require.Contains(t, string(p.Bytes), "+* -text\n")
	require.Contains(t, string(p.Bytes), "+1\n+2\n")
	require.NotContains(t, string(p.Bytes), "mine")
	byIndex, _ := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
}

func TestByGitFiltersRunOnlyIfAllowed(t *testing.T) {
	host := repo(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, name := range []string{"up", "evil"} {
		for _, part := range []string{"clean", "smudge"} {
			from, to := "a-z", "A-Z"
			if part == "clean" {
				from, to = to, from
			}
			git(t, host, "config", "filter."+name+"."+part, "echo "+name+" "+part+" >>'"+ran+"'; tr "+from+" "+to)
		}
	}
	put(t, host, ".gitattributes", "*.up filter=up\n*.evil filter=evil\n")
	put(t, host, "a.up", "STORED LOW\n")
	put(t, host, "a.evil", "STORED LOW\n")
	commitNeeds(t, host, "filters")
	require.NoError(t, os.Remove(ran))

	plain := driver(t, host, withGit(t))
	l := acquire(t, plain, who, "")
	requireFile(t, l.Dir, "a.up", "stored low\n")
	put(t, l.Dir, "b.up", "Mixed\n")
	p := collect(t, plain, l)
	require.Equal(t, "a b.up\n", status(p))
	require.Contains(t, string(p.Bytes), "+Mixed\n")
	require.Len(t, p.Warnings, 2)
	require.NoFileExists(t, ran)

	d := driver(t, host, withGit(t, "up"))
	l = acquire(t, d, who, "")
	requireFile(t, l.Dir, "a.up", "STORED LOW\n")
	requireFile(t, l.Dir, "a.evil", "stored low\n")
	require.Empty(t, collect(t, d, l).Files)
	// What is written into the shared configuration now never runs for this tree.
	git(t, host, "config", "filter.up.clean", "echo changed >>'"+ran+"'; cat")
	put(t, l.Dir, "b.up", "ABC\n")
	put(t, l.Dir, "b.evil", "ABC\n")
	p = collect(t, d, l)
	require.Contains(t, string(p.Bytes), "+abc\n")
	require.Contains(t, string(p.Bytes), "+ABC\n")
	require.Len(t, p.Warnings, 1)
	text, err := os.ReadFile(ran)
	require.NoError(t, err)
	require.NotContains(t, string(text), "evil")
	require.NotContains(t, string(text), "changed")
	require.NoError(t, d.Dispose(ctx, l, false))

	// A filter that is required and fails is no tree, and no half of one.
	git(t, host, "config", "filter.up.smudge", "false")
	git(t, host, "config", "filter.up.required", "true")
	before := fingerprint(t, host)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	_, err = d.Acquire(ctx, agents(1)[0], at)
	require.ErrorContains(t, err, "smudge filter up failed")
	same(t, before, fingerprint(t, host))
	requireOnlyStateAfterClose(t, d)
}

func requireOnlyStateAfterClose(t *testing.T, d *Driver) {
	t.Helper()
	require.NoError(t, d.Close())
	requireOnlyState(t, d)
}

func requireFile(t testing.TB, dir, path, content string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, path))
	require.NoError(t, err)
	require.Equal(t, content, string(b))
}

// TestByGitACollectNeedsTheSameDriver takes the git away that made a tree.
func TestByGitACollectNeedsTheSameDriver(t *testing.T) {
	host := repo(t)
	git(t, host, "config", "core.symlinks", "false")
	d := driver(t, host, withGit(t))
	l := acquire(t, d, who, "")
	require.NotEmpty(t, mustLoad(t, d, l.ID).Git)
	other, err := New(Config{Repos: d.repos, Root: d.root})
	require.NoError(t, err)
	_, err = other.Collect(ctx, l)
	require.True(t, fault.IsConfig(err), "%v", err)
	require.NoError(t, other.Check(ctx, l))
	operator, err := Open(d.root)
	require.NoError(t, err)
	require.Empty(t, collect(t, operator, l).Files)
	require.Empty(t, collect(t, d, l).Files)
	require.NoError(t, other.Dispose(ctx, l, false))

	// And a tree that was made without stays one of the built-in driver.
	git(t, host, "config", "--unset", "core.symlinks")
	l = acquire(t, other, agents(1)[0], "")
	git(t, host, "config", "core.symlinks", "false")
	require.Empty(t, collect(t, d, l).Files)
	require.Empty(t, mustLoad(t, d, l.ID).Git)
}

// TestByGitNothingOfTheRepositoryRuns sets canaries wherever git looks for a program.
func TestByGitNothingOfTheRepositoryRuns(t *testing.T) {
	host := repo(t)
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	program := filepath.Join(dir, "canary")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$0\" >>'"+ran+"'\ncat\n"), 0o755))
	put(t, host, ".gitattributes", "* filter=canary diff=canary merge=canary ident\n")
	commitNeeds(t, host, "canary")
	git(t, host, "config", "extensions.worktreeConfig", "true")
	git(t, host, "config", "--worktree", "filter.canary.smudge", program)
	for _, key := range []string{
		"core.fsmonitor", "filter.canary.clean", "filter.canary.smudge", "filter.canary.process", "diff.canary.textconv", "diff.canary.command",
		"diff.external", "core.pager", "pager.rev-parse", "pager.config", "core.editor", "credential.helper", "core.sshCommand", "core.askPass", "gpg.program",
		"core.alternateRefsCommand", "alias.rev-parse", "alias.read-tree", "remote.origin.uploadpack", "core.gitProxy", "sequence.editor",
	} {
		git(t, host, "config", key, program)
	}
	git(t, host, "config", "filter.canary.required", "true")
	git(t, host, "config", "remote.origin.url", "ext::"+program)
	git(t, host, "config", "remote.origin.promisor", "true")
	for _, name := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"} {
		hook(t, host, name, "#!/bin/sh\nexec "+program+"\n")
	}
	require.NoError(t, os.RemoveAll(ran))
	for name, value := range map[string]string{"GIT_DIR": host, "GIT_EXTERNAL_DIFF": program, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor",
		"GIT_CONFIG_VALUE_0": program, "GIT_INDEX_FILE": "/no/such", "GIT_OBJECT_DIRECTORY": "/no/such", "GIT_PAGER": program, "GIT_EXEC_PATH": dir} {
		t.Setenv(name, value)
	}
	d := driver(t, host, withGit(t, "another"))
	l := acquire(t, d, who, "")
	put(t, l.Dir, "README.md", "edited\n")
	put(t, l.Dir, "new", "new\n")
	// An agent adds to what is shared while its tree is there, and to the tree itself.
	put(t, l.Dir, ".git.attributes", "")
	put(t, l.Dir, "sub/.gitattributes", "* filter=canary diff=canary\n")
	p := collect(t, d, l)
	require.Equal(t, "a .git.attributes\nm README.md\na new\na sub/.gitattributes\n", status(p))
	require.Contains(t, p.Warnings, `filter "canary" did not run: the files that it is for are as they are stored`)
	_, err := d.Sweep(ctx)
	require.NoError(t, err)
	require.NoError(t, d.Check(ctx, l))
	require.NoError(t, d.Dispose(ctx, l, false))
	_, err = d.Resolve(ctx, worktree.Isolation{Repo: "r", Ref: "0123456789012345678901234567890123456789"})
	require.Error(t, err)
	require.NoFileExists(t, ran)
	// The canary sings: git itself would have run it.
	_, _ = tryGit(host, nil, "status")
	require.FileExists(t, ran)
}

// TestByGitPrivate has git make a tree with a git directory of its own.
func TestByGitPrivate(t *testing.T) {
	host := repo(t)
	git(t, host, "config", "core.symlinks", "false")
	put(t, host, ".gitattributes", "*.c ident\n")
	put(t, host, "a.c", "/* $Id$ */\n")
	commitNeeds(t, host, "needs")
	git(t, host, "sparse-checkout", "set", "spa ce")
	before := fingerprint(t, host)
	d := driver(t, host, withGit(t), func(c *Config) { c.Private = true })
	l := acquire(t, d, who, "")
	require.True(t, l.Resolved.Private)
	require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
	require.NoFileExists(t, filepath.Join(l.Dir, "src", "main.go"))
	put(t, l.Dir, "a.c", "/* $Id$ */\n\n")
	put(t, l.Dir, "beyond/the cone", "x\n")
	git(t, l.Dir, "commit", "-qam", "work")
	git(t, l.Dir, "config", "core.hooksPath", "/evil")
	p := collect(t, d, l)
	require.Equal(t, "m a.c\na beyond/the cone\n", status(p))
	require.Empty(t, p.HostChanges)
	require.NoError(t, d.Dispose(ctx, l, false))
	same(t, before, fingerprint(t, host))
	byIndex, byFiles := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
	require.Equal(t, p.Tree, byFiles)
}

// TestByGitCollectsEveryMess holds what git collects to what the built-in driver is held to: the same manifest, the
// same warnings. All of them with ASSENT_LONG=1, else every sixteenth.
func TestByGitCollectsEveryMess(t *testing.T) {
	for i, m := range allMesses() {
		if i%16 != 0 && os.Getenv("ASSENT_LONG") != "1" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.judge(t, func(host string) *Driver {
				d := driver(t, host, withGit(t))
				d.always = true
				return d
			})
		})
	}
}
