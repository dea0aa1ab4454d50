package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// treesOf says how a worker has its trees. A host is a root: two workers with two roots are two machines.
type treesOf struct {
	// Toss removes the trees of failed agents too.
	Toss bool `json:"toss,omitempty"`
	// MinFree is that of git.Config, Patience the HostPatience of worker.Config.
	MinFree  int64         `json:"minFree,omitempty"`
	Patience time.Duration `json:"patience,omitempty"`
	// Dir is where agents work that have no tree.
	Dir string `json:"dir,omitempty"`
	// Dies names the moment at which the process kills itself, once.
	Dies string `json:"dies,omitempty"`
}

// mortal is a driver whose process dies before one of its methods, or after it and before anybody hears of it.
type mortal struct {
	*git.Driver
	dies string
}

// at kills the process at its moment, which is marked beside the trees: whoever runs workers starts another one.
func (m *mortal) at(root, moment string) {
	if moment != m.dies {
		return
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(root), filepath.Base(root)+"."+moment), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_ = f.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func rootOf(l worktree.Lease) string { return filepath.Dir(filepath.Dir(l.Dir)) }

func (m *mortal) Acquire(ctx context.Context, id worktree.Identity, at worktree.Resolved) (worktree.Lease, error) {
	l, err := m.Driver.Acquire(ctx, id, at)
	if err == nil {
		m.at(rootOf(l), "acquire")
	}
	return l, err
}

func (m *mortal) Collect(ctx context.Context, l worktree.Lease) (worktree.Patch, error) {
	p, err := m.Driver.Collect(ctx, l)
	m.at(rootOf(l), "collect")
	return p, err
}

func (m *mortal) Dispose(ctx context.Context, l worktree.Lease, force bool) error {
	m.at(rootOf(l), "dispose")
	err := m.Driver.Dispose(ctx, l, force)
	m.at(rootOf(l), "disposed")
	return err
}

// held are the trees of a root, as another process sees them.
func held(t *testing.T, s setup) []git.Held {
	t.Helper()
	d, err := git.New(git.Config{Repos: map[string]string{"repo": s.Repo}, Root: s.Root})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	list, err := d.List(context.Background())
	require.NoError(t, err)
	return list
}

// clean requires that neither root nor repository has a trace of a tree.
func clean(t *testing.T, s setup) {
	t.Helper()
	require.Empty(t, held(t, s))
	require.NotContains(t, gitRun(t, s.Repo, "worktree", "list"), s.Root)
	admin, err := filepath.Glob(filepath.Join(s.Repo, ".git", "worktrees", "*"))
	require.NoError(t, err)
	require.Empty(t, admin)
	trees, err := os.ReadDir(filepath.Join(s.Root, "trees"))
	require.NoError(t, err)
	require.Empty(t, trees)
}

// applies requires that the patch gives the recorded tree on a clean checkout of base, by git.
func (w *world) applies(repo string, a protocol.Artifact) {
	w.t.Helper()
	patch, err := w.blobs.Get(context.Background(), a.Ref)
	require.NoError(w.t, err)
	dir := w.t.TempDir()
	gitRun(w.t, dir, "clone", "-q", repo, "c")
	dir = filepath.Join(dir, "c")
	file := filepath.Join(w.t.TempDir(), "p.patch")
	require.NoError(w.t, os.WriteFile(file, patch, 0o600))
	gitRun(w.t, dir, "checkout", "-q", a.Base)
	gitRun(w.t, dir, "apply", "--allow-empty", "--whitespace=nowarn", file)
	gitRun(w.t, dir, "add", "-A")
	require.Equal(w.t, a.Tree, gitRun(w.t, dir, "write-tree"))
}

// restarted requires that whoever looks is told of so many restarts: the result, the events, the model.
func (w *world) restarted(res protocol.AgentResult, n int, why string) {
	w.t.Helper()
	require.Equal(w.t, n, res.Restarts)
	feed, err := follow.Start(context.Background(), w.c, w.id, "", follow.Options{})
	require.NoError(w.t, err)
	var restarts []follow.Restart
	for e := range feed.Events {
		if e.Kind == follow.AgentRestart {
			restarts = append(restarts, *e.Restart)
		}
	}
	_, err = feed.Wait()
	require.NoError(w.t, err)
	require.Len(w.t, restarts, n)
	require.Equal(w.t, n, restarts[n-1].Number)
	require.Contains(w.t, restarts[n-1].Lost, why)
	msgs, err := activities.ReadTranscript(context.Background(), w.blobs, res.Transcript)
	require.NoError(w.t, err)
	require.Equal(w.t, "go", msgs[0].Text)
	require.Equal(w.t, model.User, msgs[1].Role)
	require.Contains(w.t, msgs[1].Text, fmt.Sprintf("restart %d of at most 3", n))
	require.Contains(w.t, msgs[1].Text, why)
}

// second waits for a question that is not the one with this key.
func (w *world) second(key string) string {
	w.t.Helper()
	second := ""
	require.Eventually(w.t, func() bool {
		l, err := w.list()
		if err != nil || len(l.Pending) != 1 || l.Pending[0].Key == key {
			return false
		}
		second = l.Pending[0].Key
		return true
	}, patience, tick)
	return second
}

// hosts are two machines with clones of one repository, whose workers are processes.
func hosts(t *testing.T, script string) (one, other setup) {
	t.Helper()
	one = setup{Repo: newRepo(t), Root: filepath.Join(t.TempDir(), "trees"), Keys: true, Preset: permission.Standard,
		Script: script, Trees: treesOf{Toss: true, Patience: 8 * time.Second}}
	other = one
	other.Repo, other.Root = filepath.Join(t.TempDir(), "clone"), filepath.Join(t.TempDir(), "trees")
	gitRun(t, filepath.Dir(other.Repo), "clone", "-q", one.Repo, other.Repo)
	return one, other
}

const askAndWrite = `
turns:
  - calls: [{tool: write_file, args: {path: new.txt, content: "new\n"}}]
  - calls: [{tool: shell, args: {command: "cat new.txt && echo hi > hi.txt"}}]
  - say: done
    expect: {lastResult: {code: OK, contains: new}}
`

// A host that is gone while a question waits: the agent starts again on another one and says so. When the host comes back
// while the agent lives, it gives back the tree that it has.
func TestAHostIsLostWhileAQuestionWaits(t *testing.T) {
	t.Parallel()
	one, other := hosts(t, askAndWrite)
	before := digestTree(t, one.Repo)
	address := devservertest.Server(t).Address()
	w := newWorld(t)
	p := w.spawn(one, address)
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	require.Len(t, held(t, one), 1)
	p.kill(t)
	w.spawn(other, address)
	w.answer(key, approval.Allow)
	next := w.second(key)
	w.spawn(one, address)
	require.Eventually(t, func() bool { return len(held(t, one)) == 0 }, patience, tick)
	w.answer(next, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	w.restarted(res, 1, "did not come back in time")
	require.Len(t, res.Artifacts[0].Files, 2)
	w.applies(one.Repo, res.Artifacts[0])
	clean(t, one)
	clean(t, other)
	require.Equal(t, before, digestTree(t, one.Repo), "the host is untouched")
	l := w.lists()
	require.Equal(t, []approval.How{approval.Allowed, approval.Allowed}, []approval.How{l.Closed[0].How, l.Closed[1].How})
}

// A host that is gone while a tool runs: what the tool did is unknown, the next call finds nobody, and the agent starts again.
func TestAHostIsLostWhileAToolRuns(t *testing.T) {
	t.Parallel()
	one, other := hosts(t, `
turns:
  - calls: [{tool: hold, args: {text: a}}]
  - calls: [{tool: write_file, args: {path: new.txt, content: "new\n"}}]
  - say: done
`)
	one.Preset, other.Preset = permission.Open, permission.Open
	address := devservertest.Server(t).Address()
	w := newWorld(t)
	p := w.spawn(one, address)
	w.start(protocol.AgentInput{})
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	p.kill(t)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	w.spawn(other, address)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	w.restarted(res, 1, "did not come back in time")
	require.Equal(t, []string{"hold a", "hold a"}, w.ran())
	require.Equal(t, []string{"OK", "OK"}, w.codes(res))
	require.GreaterOrEqual(t, res.Turns, 4, "what was spent is kept")
	w.applies(one.Repo, res.Artifacts[0])
	clean(t, other)
}

// A worker that dies at one of the three steps. One that is started again on its host finishes the step; if its host is
// gone the agent starts again elsewhere, but for one whose work is safe already.
func TestAWorkerDiesAtAStep(t *testing.T) {
	t.Parallel()
	for _, dies := range []string{"acquire", "collect", "dispose", "disposed"} {
		for _, gone := range []bool{false, true} {
			if gone && dies == "disposed" {
				continue
			}
			t.Run(fmt.Sprintf("%s gone=%v", dies, gone), func(t *testing.T) {
				t.Parallel()
				one, other := hosts(t, "turns: [{calls: [{tool: write_file, args: {path: new.txt, content: \"new\\n\"}}]}, {say: done}]")
				one.Trees.Dies = dies
				if !gone {
					one.Trees.Patience = 0
				}
				before := digestTree(t, one.Repo)
				address := devservertest.Server(t).Address()
				w := newWorld(t)
				p := w.spawn(one, address)
				w.start(protocol.AgentInput{})
				require.Error(t, p.wait(), "it kills itself")
				again := one
				if gone {
					again = other
				}
				w.spawn(again, address)
				res := w.result()
				require.Equal(t, protocol.OK, res.Status, res.Error)
				if gone && dies != "dispose" {
					w.restarted(res, 1, "did not answer in time")
				} else {
					require.Zero(t, res.Restarts)
				}
				require.Len(t, res.Artifacts, 1)
				require.Equal(t, "new.txt", res.Artifacts[0].Files[0].Path)
				w.applies(one.Repo, res.Artifacts[0])
				clean(t, again)
				if !gone {
					require.Equal(t, before, digestTree(t, one.Repo), "the host is untouched")
				} else if dies == "dispose" {
					require.Contains(t, strings.Join(res.Artifacts[0].Warnings, "\n"), "still at "+one.Root)
				}
			})
		}
	}
}

// An environment that is lost at every start ends the agent with a clear word.
func TestAHostThatIsLostTooOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := setup{Repo: newRepo(t), Root: filepath.Join(t.TempDir(), "trees"), Keys: true, Preset: permission.Open, Trees: treesOf{Toss: true},
		Script: "turns: [{calls: [{tool: shell, args: {command: 'rm -rf \"$PWD\"'}}, {tool: look, args: {text: a}}]}, {say: done}]"}
	w.work(s)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.Failed, res.Status)
	require.Equal(t, 3, res.Restarts)
	require.Contains(t, res.Error, "the agent's environment was lost")
	require.Contains(t, res.Error, "started again 3 times")
	require.NotNil(t, res.Transcript)
	clean(t, s)
}
