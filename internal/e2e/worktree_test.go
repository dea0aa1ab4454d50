package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

// gitRun runs the real git, the referee, in a closed environment.
func gitRun(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func newRepo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	gitRun(t, dir, "init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.txt"), []byte("gone\n"), 0o644))
	gitRun(t, dir, "add", "-A")
	gitRun(t, dir, "commit", "-q", "-m", "base")
	// A host that is in use: a modified file and an untracked one.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\nuser\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.txt"), []byte("mine\n"), 0o644))
	return dir
}

// digestTree hashes every path, mode and content below dir but for the object store, which is shared: an agent that
// commits adds objects to it.
func digestTree(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "/.git/objects") {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h.Write([]byte(path + "\x00" + info.Mode().String() + "\x00"))
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			h.Write(b)
		}
		return nil
	}))
	return hex.EncodeToString(h.Sum(nil))
}

// An agent edits, creates, deletes, commits and writes binary work; its patch applies to base and gives the
// recorded tree, and the host is byte for byte what it was.
func TestWorktreePatch(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	before := digestTree(t, repo)
	w := newWorld(t)
	s := setup{Repo: repo, Root: filepath.Join(t.TempDir(), "trees"), Keys: true, Script: `
turns:
  - calls:
      - {tool: write_file, args: {path: new/file.txt, content: "hello\n"}}
      - {tool: edit_file, args: {path: a.txt, old: two, new: three}}
      - {tool: delete_file, args: {path: b.txt}}
  - calls: [{tool: shell, args: {command: "printf '\\000\\001\\377' > data.bin && git add -A && git -c user.name=a -c user.email=a@example.com commit -q -m work && echo more >> new/file.txt"}}]
  - say: done
    expect: {lastResult: {code: OK, contains: '"exitCode":0'}}
`}
	w.work(s)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Len(t, res.Artifacts, 1)
	a := res.Artifacts[0]
	require.Len(t, a.Files, 4)
	require.Equal(t, before, digestTree(t, repo), "the host is untouched")

	patch, err := w.blobs.Get(context.Background(), a.Ref)
	require.NoError(t, err)
	clean := t.TempDir()
	gitRun(t, clean, "clone", "-q", repo, "c")
	clean = filepath.Join(clean, "c")
	file := filepath.Join(t.TempDir(), "p.patch")
	require.NoError(t, os.WriteFile(file, patch, 0o600))
	gitRun(t, clean, "checkout", "-q", a.Base)
	gitRun(t, clean, "apply", "--whitespace=nowarn", file)
	gitRun(t, clean, "add", "-A")
	require.Equal(t, a.Tree, gitRun(t, clean, "write-tree"))
	require.Equal(t, "worktree "+repo, strings.Split(gitRun(t, repo, "worktree", "list", "--porcelain"), "\n")[0])
	require.NotContains(t, gitRun(t, repo, "worktree", "list"), s.Root)
}

// A worker that is killed between two tool calls and started again on the same host goes on in the same tree.
func TestWorktreeSurvivesAWorkerKill(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	server := devservertest.Server(t)
	w := newWorld(t)
	s := setup{Repo: repo, Root: filepath.Join(t.TempDir(), "trees"), Preset: permission.Standard, Keys: true, Script: `
turns:
  - calls: [{tool: write_file, args: {path: kept.txt, content: "kept\n"}}]
  - calls: [{tool: shell, args: {command: "cat kept.txt"}}]
  - say: done
    expect: {lastResult: {code: OK, contains: kept}}
`}
	p := w.spawn(s, server.Address())
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	p.kill(t)
	w.spawn(s, server.Address())
	w.answer(key, "allow")
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Zero(t, res.Restarts)
	require.Equal(t, "kept.txt", res.Artifacts[0].Files[0].Path)
}

// An agent whose tree was removed while it waited starts again, says so, and never goes on in another tree.
func TestWorktreeRemovedWhileWaiting(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	w := newWorld(t)
	s := setup{Repo: repo, Root: filepath.Join(t.TempDir(), "trees"), Preset: permission.Standard, Keys: true, Script: `
turns:
  - calls: [{tool: shell, args: {command: "echo hi > hi.txt"}}]
  - say: done
`}
	w.work(s)
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	var tree string
	for _, line := range strings.Split(gitRun(t, repo, "worktree", "list", "--porcelain"), "\n") {
		if path, ok := strings.CutPrefix(line, "worktree "); ok && path != repo {
			tree = path
		}
	}
	require.NotEmpty(t, tree)
	require.NoError(t, os.RemoveAll(tree))
	w.answer(key, "allow")
	// The second life asks again.
	var second string
	require.Eventually(t, func() bool {
		l, err := w.list()
		if err != nil || len(l.Pending) != 1 || l.Pending[0].Key == key {
			return false
		}
		second = l.Pending[0].Key
		return true
	}, patience, tick)
	w.answer(second, "allow")
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 1, res.Restarts)
	require.Equal(t, "hi.txt", res.Artifacts[0].Files[0].Path)
}

// What cannot be isolated is refused before the agent starts.
func TestWorktreeRefusals(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	gitRun(t, empty, "init", "-q")
	good := newRepo(t)
	for name, tc := range map[string]struct {
		repo string
		iso  worktree.Isolation
		says string
	}{
		"not a repository":   {t.TempDir(), worktree.Isolation{Kind: worktree.Tree}, "repository"},
		"no commit yet":      {empty, worktree.Isolation{Kind: worktree.Tree}, "commit"},
		"unknown ref":        {good, worktree.Isolation{Kind: worktree.Tree, Ref: "nowhere"}, "nowhere"},
		"ref like an option": {good, worktree.Isolation{Kind: worktree.Tree, Ref: "--force"}, "--force"},
		"unknown repository": {good, worktree.Isolation{Kind: worktree.Tree, Repo: "other"}, "other"},
		"unknown kind":       {good, worktree.Isolation{Kind: "vm"}, "vm"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.work(setup{Repo: tc.repo, Root: filepath.Join(t.TempDir(), "trees"), Script: "turns: [{say: hi}]"})
			w.start(protocol.AgentInput{Isolation: &tc.iso})
			require.ErrorContains(t, w.configError(), tc.says)
		})
	}
}

// A run that is reset again and again begins in a fresh tree each time; it never meets the trees of runs before it.
func TestWorktreeAgentIsResetAgainAndAgain(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	w := newWorld(t)
	s := setup{Repo: repo, Root: filepath.Join(t.TempDir(), "trees"), Preset: permission.Standard, Keys: true, Script: `
turns:
  - calls: [{tool: shell, args: {command: "echo hi > hi.txt"}}]
  - say: done
`}
	w.work(s)
	run := w.start(protocol.AgentInput{}).GetRunID()
	w.answer(w.pending(1)[0].Key, "allow")
	require.Equal(t, protocol.OK, w.result().Status)
	asked := w.taskThatAsked()
	times := 2
	if long() {
		times = 5
	}
	for range times {
		run = w.reset(run, asked)
		for !w.settles(run) {
			w.answer(w.pending(1)[0].Key, "allow")
		}
		res := w.result()
		require.Equal(t, protocol.OK, res.Status, res.Error)
		require.Equal(t, 1, res.Restarts, "the tree of the run before is gone, the next one is fresh")
		require.Equal(t, "hi.txt", res.Artifacts[0].Files[0].Path)
	}
	require.NotContains(t, gitRun(t, repo, "worktree", "list"), s.Root)
}

// taskThatAsked is the last workflow task before the first signal.
func (w *world) taskThatAsked() int64 {
	for _, e := range w.history() {
		if e.GetWorkflowExecutionSignaledEventAttributes() != nil {
			return lastTaskBefore(w, e.EventId)
		}
	}
	w.t.Fatal("nobody answered")
	return 0
}
