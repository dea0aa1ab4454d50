package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// driver is the one that a worker of this world would have.
func (w *world) driver(change ...func(*git.Config)) *git.Driver {
	w.t.Helper()
	c := git.Config{Repos: map[string]string{"main": w.path("repo")}, Root: w.path("trees"), KeepOnError: true}
	for _, f := range change {
		f(&c)
	}
	d, err := git.New(c)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, d.Close()) })
	return d
}

// tree acquires a tree for a run of an agent.
func (w *world) tree(d *git.Driver, agent, run string) worktree.Lease {
	w.t.Helper()
	ctx := context.Background()
	at, err := d.Resolve(ctx, worktree.Isolation{Kind: worktree.Tree, Repo: "main"})
	require.NoError(w.t, err)
	l, err := d.Acquire(ctx, worktree.Identity{Namespace: "default", WorkflowID: agent + "/" + run}, at)
	require.NoError(w.t, err)
	return l
}

func (w *world) collect(d *git.Driver, l worktree.Lease) {
	w.t.Helper()
	_, err := d.Collect(context.Background(), l)
	require.NoError(w.t, err)
}

// What operators see of the trees of a root, without a server and without changing it.
func TestWorktreesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "")
	d := w.driver()
	ready, failed, over := w.tree(d, "fix-1", "run-1"), w.tree(d, "fix-2", "run-2"), w.tree(d, "fix-3", "run-3")
	w.collect(d, failed)
	_, err := d.Retain(context.Background(), failed, "failed")
	require.NoError(t, err)
	require.NoError(t, d.Dispose(context.Background(), over, true))

	byConfig, byRoot := w.ok(w.local("worktrees", "--config", w.path("assent.yaml"), "-o", "json")), w.ok(w.local("worktrees", "list", "--root", d.Root(), "-o", "json"))
	require.Equal(t, byRoot.out.String(), byConfig.out.String())
	rows := lines[treeRow](t, byRoot.out.String())
	require.Len(t, rows, 2)
	first := rows[0]
	require.Equal(t, []string{ready.ID, git.Ready, ready.Dir, "main", "HEAD", ready.Resolved.Commit, "default", "fix-1", "run-1"},
		[]string{first.ID, first.State, first.Path, first.Repo, first.Ref, first.Base, first.Namespace, first.WorkflowID, first.RunID})
	require.Positive(t, first.Bytes)
	require.Empty(t, first.Agent)
	require.Equal(t, []string{git.Retained, "failed"}, []string{rows[1].State, rows[1].Why})
	require.Len(t, lines[treeRow](t, w.ok(w.local("worktrees", "--root", d.Root(), "--all", "-o", "json")).out.String()), 3)
	require.Equal(t, failed.ID, lines[treeRow](t, w.ok(w.local("worktrees", "retained", "--root", d.Root(), "-o", "json")).out.String())[0].ID)

	text := w.ok(w.local("worktrees", "--root", d.Root()))
	require.Regexp(t, `(?m)^WORKTREE +STATE +FOR +REPO +BASE +SIZE +OF AGENT$`, text.out.String())
	require.Regexp(t, `(?m)^`+ready.ID+` +ready +\d+s +main +`+ready.Resolved.Commit[:12]+` +[\d.]+ KiB +fix-1$`, text.out.String())
	require.Contains(t, text.err.String(), "2 worktrees below "+d.Root())

	path := func(word string) string {
		return w.ok(w.local("worktrees", "path", word, "--root", d.Root())).out.String()
	}
	require.Equal(t, ready.Dir+"\n", path(ready.ID))
	require.Equal(t, ready.Dir+"\n", path("fix-1"))
	require.Equal(t, ready.Dir+"\n", path(ready.ID[:12]))
	for _, c := range []struct {
		word string
		code int
		says string
	}{
		{"fix-9", exit.Failed, `error: no worktree "fix-9" below `},
		{"fix-", exit.Usage, `error: "fix-" means 2 worktrees: `},
		{"../state", exit.Failed, `error: no worktree "../state"`},
		{"fix-3", exit.Failed, "is not there any more"},
	} {
		got := w.exits(w.local("worktrees", "path", c.word, "--root", d.Root()), c.code)
		require.Contains(t, got.err.String(), c.says)
		require.Contains(t, got.err.String(), "hint: ")
		require.Empty(t, got.out.String())
	}
	for word, says := range map[string]string{"fix-1": "its work was not collected", "fix-2": "(failed)", "fix-3": "gone for"} {
		require.Contains(t, w.ok(w.local("worktrees", "why", word, "--root", d.Root())).out.String(), says)
	}
}

// A root that is none is named, and never made.
func TestWorktreesOfNoRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "")
	for _, args := range [][]string{{"list"}, {"retained"}, {"path", "x"}, {"why", "x"}, {"dispose", "x", "--force"}} {
		got := w.exits(w.local(append(append([]string{"worktrees"}, args...), "--root", w.path("none"))...), exit.Failed)
		require.Equal(t, "error: no worktrees at "+w.path("none")+"\nhint: run this where the worker is, or name its folder with --config FILE or --root DIR\n", got.err.String())
		require.NoDirExists(t, w.path("none"))
	}
	w.exits(w.local("worktrees", "--config", w.path("assent.yaml")), exit.Failed)
	require.NoDirExists(t, w.path("trees"))
	d := w.driver()
	require.NoError(t, os.Chmod(d.Root(), 0o755))
	require.Contains(t, w.exits(w.local("worktrees", "--root", d.Root()), exit.Usage).err.String(), "must be a directory of mode 0700")
}

// A tree that a git has made is read by a git, the configured one or that of the PATH.
func TestATreeThatGitMadeIsSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "")
	w.git("repo", "config", "core.sparseCheckout", "true")
	program, err := exec.LookPath("git")
	require.NoError(t, err)
	d := w.driver(func(c *git.Config) { c.Git = program })
	l := w.tree(d, "fix-1", "run-1")
	require.NoError(t, os.WriteFile(filepath.Join(l.Dir, "b.txt"), []byte("new\n"), 0o600))
	done := lines[disposed](t, w.ok(w.local("worktrees", "dispose", "fix-1", "--force", "--root", d.Root(), "-o", "json")).out.String())[0]
	saved, err := os.ReadFile(done.Saved)
	require.NoError(t, err)
	require.Contains(t, string(saved), "+new\n")
}

// Work that nobody has collected is refused, or saved first.
func TestWorktreesAreDisposedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "")
	d := w.driver()
	dispose := func(code int, args ...string) *invocation {
		return w.exits(w.local(append([]string{"worktrees", "dispose", "--root", d.Root()}, args...)...), code)
	}
	l := w.tree(d, "fix-1", "run-1")
	require.NoError(t, os.WriteFile(filepath.Join(l.Dir, "b.txt"), []byte("new\n"), 0o600))
	refused := dispose(exit.Failed, "fix-1")
	require.Contains(t, refused.err.String(), "error: worktree \""+l.ID+"\" holds work that was not collected\nhint: see it with: cd "+l.Dir)
	require.DirExists(t, l.Dir)
	done := lines[disposed](t, dispose(exit.OK, "fix-1", "--force", "-o", "json").out.String())[0]
	require.Equal(t, disposed{ID: l.ID, Disposed: true, Saved: filepath.Join(d.Root(), "saved", l.ID+".patch")}, done)
	require.NoDirExists(t, l.Dir)
	saved, err := os.ReadFile(done.Saved)
	require.NoError(t, err)
	require.Contains(t, string(saved), "+new\n")
	w.git("repo", "apply", "--check", done.Saved)
	require.Contains(t, dispose(exit.Failed, "fix-1").err.String(), "is gone: an operator disposed of it")

	// What has no room in a patch is saved beside it.
	l = w.tree(d, "fix-5", "run-1")
	require.NoError(t, os.Mkdir(filepath.Join(l.Dir, "in"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(l.Dir, "in/big"), nil, 0o700))
	require.NoError(t, os.Truncate(filepath.Join(l.Dir, "in/big"), git.LargeFile+1))
	done = lines[disposed](t, dispose(exit.OK, "fix-5", "--force", "-o", "json").out.String())[0]
	require.Equal(t, disposed{ID: l.ID, Disposed: true, Large: filepath.Join(d.Root(), "saved", l.ID+".large")}, done)
	fi, err := os.Stat(filepath.Join(done.Large, "in/big"))
	require.NoError(t, err)
	require.Equal(t, int64(git.LargeFile+1), fi.Size())
	require.NotZero(t, fi.Mode()&0o100)

	l = w.tree(d, "fix-2", "run-1")
	w.collect(d, l)
	require.Equal(t, "disposed "+l.ID+"\n", dispose(exit.OK, l.ID).out.String())
	left, err := os.ReadDir(filepath.Join(d.Root(), "trash"))
	require.NoError(t, err)
	require.Empty(t, left, "the command has waited for the janitor")

	// Work that cannot be read is lost only on purpose.
	l = w.tree(d, "fix-4", "run-1")
	require.NoError(t, os.WriteFile(filepath.Join(l.Dir, "a.txt"), []byte("two\n"), 0o600))
	require.NoError(t, os.Rename(w.path("repo"), w.path("away")))
	unread := dispose(exit.Failed, l.ID, "--force")
	require.Contains(t, unread.err.String(), "cannot be read to be saved")
	require.Contains(t, unread.err.String(), "hint: --unread removes it")
	require.DirExists(t, l.Dir)
	require.NotEmpty(t, lines[disposed](t, dispose(exit.OK, l.ID, "--force", "--unread", "-o", "json").out.String())[0].Unread)
	require.NoDirExists(t, l.Dir)
	require.NoError(t, os.Rename(w.path("away"), w.path("repo")))

	l = w.tree(d, "fix-3", "run-1")
	record := filepath.Join(d.Root(), "state", l.ID, "record")
	require.NoError(t, os.WriteFile(record, []byte("{"), 0o600))
	require.Contains(t, dispose(exit.Failed, l.ID, "--force").err.String(), "is damaged")
	require.DirExists(t, l.Dir)
	require.True(t, strings.HasPrefix(w.ok(w.local("worktrees", "why", l.ID, "--root", d.Root())).out.String(), l.ID+": unreadable: record"))
}

var shellBlocks = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// The configuration of docs/worktrees.md is read as it stands there, and its commands do what they say on a root that has
// a tree of the agent fix-1.
func TestWorktreesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "worktrees.md"))
	require.NoError(t, err)
	file, err := config.Parse("assent.yaml", []byte(yamlBlocks.FindStringSubmatch(string(page))[1]))
	require.NoError(t, err)
	require.Len(t, file.Worker.Worktrees.Repos, 2)

	w := newWorld(t, "", "")
	d := w.driver()
	w.collect(d, w.tree(d, "fix-1", "run-1"))
	ran := 0
	for _, block := range shellBlocks.FindAllStringSubmatch(string(page), -1) {
		for _, line := range strings.Split(block[1], "\n") {
			command, _, _ := strings.Cut(line, "#")
			_, command, found := strings.Cut(strings.Trim(command, ` )"`), "starter worktrees")
			if !found {
				continue
			}
			ran++
			w.ok(w.local(append(append([]string{"worktrees"}, strings.Fields(strings.Trim(command, ` )"`))...), "--root", d.Root())...))
		}
	}
	require.GreaterOrEqual(t, ran, 5)
}
