package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// oneHost is a machine whose worker is in this process.
func oneHost(t *testing.T, preset permission.Preset, script string) setup {
	return setup{Repo: newRepo(t), Root: filepath.Join(t.TempDir(), "trees"), Keys: true, Preset: preset, Script: script, Trees: treesOf{Toss: true}}
}

// changeRecord edits what is kept of a tree beside it.
func changeRecord(t *testing.T, s setup, id, key string, value any) {
	t.Helper()
	path := filepath.Join(s.Root, "state", id, "record")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var r map[string]any
	require.NoError(t, json.Unmarshal(b, &r))
	require.Contains(t, r, key)
	r[key] = value
	b, err = json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// Whatever becomes of a tree while its agent waits: it is the same one, or the agent starts again and says so. Nothing is
// left, and what is not the agent's is never touched.
func TestATreeMeetsAFateWhileItsAgentWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fate func(t *testing.T, s setup, h git.Held)
		says string
	}{
		"removed": {func(t *testing.T, _ setup, h git.Held) { require.NoError(t, os.RemoveAll(h.Path)) }, "its directory was removed"},
		"replaced by a link to the repository": {func(t *testing.T, s setup, h git.Held) {
			require.NoError(t, os.RemoveAll(h.Path))
			require.NoError(t, os.Symlink(s.Repo, h.Path))
		}, "something else is in its place"},
		"disposed of by an operator": {func(t *testing.T, s setup, h git.Held) {
			d, err := git.New(git.Config{Repos: map[string]string{"repo": s.Repo}, Root: s.Root})
			require.NoError(t, err)
			require.NoError(t, d.Remove(context.Background(), h.ID, func(worktree.Patch, error) error { return nil }))
			require.NoError(t, d.Close())
		}, "an operator disposed of it"},
		"the machine stopped before it was on disk": {func(t *testing.T, s setup, h git.Held) {
			flushed := filepath.Join(s.Root, "state", h.ID, "flushed")
			require.Eventually(t, func() bool { _, err := os.Stat(flushed); return err == nil }, patience, tick)
			require.NoError(t, os.Remove(flushed))
			changeRecord(t, s, h.ID, "boot", "another boot")
		}, "the machine stopped"},
		"the machine stopped": {func(t *testing.T, s setup, h git.Held) {
			flushed := filepath.Join(s.Root, "state", h.ID, "flushed")
			require.Eventually(t, func() bool { _, err := os.Stat(flushed); return err == nil }, patience, tick)
			changeRecord(t, s, h.ID, "boot", "another boot")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := oneHost(t, permission.Standard, askAndWrite)
			before := digestTree(t, s.Repo)
			w := newWorld(t)
			w.work(s)
			w.start(protocol.AgentInput{})
			key := w.pending(1)[0].Key
			trees := held(t, s)
			require.Len(t, trees, 1)
			tc.fate(t, s, trees[0])
			w.answer(key, approval.Allow)
			if tc.says != "" {
				w.answer(w.second(key), approval.Allow)
			}
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Len(t, res.Artifacts[0].Files, 2)
			w.applies(s.Repo, res.Artifacts[0])
			if tc.says == "" {
				require.Zero(t, res.Restarts)
			} else {
				w.restarted(res, 1, tc.says)
			}
			clean(t, s)
			require.Equal(t, before, digestTree(t, s.Repo), "the host is untouched")
		})
	}
}

// A run that is reset while its tree is still there does not go on in it: there is work in it that this run never did.
func TestAResetRunNeverMeetsTheTreeOfTheOneBefore(t *testing.T) {
	t.Parallel()
	s := oneHost(t, permission.Standard, `
turns:
  - calls: [{tool: shell, args: {command: "test ! -e one.txt && echo one > one.txt"}}]
  - calls: [{tool: shell, args: {command: "echo two > two.txt"}}]
    expect: {lastResult: {code: OK, contains: '"exitCode":0'}}
  - say: done
`)
	w := newWorld(t)
	w.work(s)
	run := w.start(protocol.AgentInput{}).GetRunID()
	key := w.pending(1)[0].Key
	w.answer(key, approval.Allow)
	w.second(key)
	trees := held(t, s)
	require.Len(t, trees, 1)
	require.FileExists(t, filepath.Join(trees[0].Path, "one.txt"))
	run = w.reset(run, w.taskThatAsked())
	for !w.settles(run) {
		w.answer(w.pending(1)[0].Key, approval.Allow)
	}
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	w.restarted(res, 1, "belongs to another run")
	require.Len(t, res.Artifacts[0].Files, 2)
	w.applies(s.Repo, res.Artifacts[0])
	clean(t, s)
}

// A run that is terminated leaves its tree, with all that is in it, for its owner to look at.
func TestATerminatedAgentLeavesItsTree(t *testing.T) {
	t.Parallel()
	s := oneHost(t, permission.Standard, askAndWrite)
	w := newWorld(t)
	w.work(s)
	w.start(protocol.AgentInput{})
	w.pending(1)
	require.NoError(t, w.c.TerminateWorkflow(context.Background(), w.id, "", "enough"))
	trees := held(t, s)
	require.Len(t, trees, 1)
	require.NotEqual(t, git.Retained, trees[0].State)
	require.Contains(t, trees[0].Identity.WorkflowID, w.id)
	require.FileExists(t, filepath.Join(trees[0].Path, "new.txt"))
}

// An agent that is cancelled while it waits hands over what it made, and its tree.
func TestACancelledAgentLeavesNoTree(t *testing.T) {
	t.Parallel()
	s := oneHost(t, permission.Standard, askAndWrite)
	w := newWorld(t)
	w.work(s)
	w.start(protocol.AgentInput{})
	w.pending(1)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	res := w.result()
	require.Equal(t, protocol.Cancelled, res.Status)
	require.Equal(t, "new.txt", res.Artifacts[0].Files[0].Path)
	w.applies(s.Repo, res.Artifacts[0])
	clean(t, s)
}

// An agent that makes the repository of its user run programs does not end ok, and its patch is there all the same.
func TestAnAgentThatPlantsAHook(t *testing.T) {
	t.Parallel()
	s := oneHost(t, permission.Open, `
turns:
  - calls: [{tool: shell, args: {command: "echo hi > hi.txt && git config core.hooksPath evil && git tag v1"}}]
  - say: done
`)
	w := newWorld(t)
	w.work(s)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.Failed, res.Status)
	require.Equal(t, "done", res.Output)
	for _, text := range []string{res.Error, res.Artifacts[0].Error} {
		require.Contains(t, text, "so that git runs programs: config core.hookspath (added)")
		require.NotContains(t, text, "refs/tags")
	}
	require.Len(t, res.Artifacts[0].HostChanges, 2)
	w.applies(s.Repo, res.Artifacts[0])
	clean(t, s)
}

// File tools of an agent reach its tree and nothing else, whatever path the model names; what runs in a shell begins there.
func TestPathsOutsideTheTree(t *testing.T) {
	t.Parallel()
	s := oneHost(t, permission.Open, "")
	outside := filepath.Join(t.TempDir(), "outside.txt")
	require.NoError(t, os.WriteFile(outside, []byte("secret\n"), 0o600))
	var calls []string
	for _, path := range []string{filepath.Join(s.Repo, "a.txt"), outside, "../x.txt", "sub/../../x.txt", "link/a.txt", "/etc/passwd"} {
		calls = append(calls, fmt.Sprintf("{tool: write_file, args: {path: %q, content: x}}", path), fmt.Sprintf("{tool: read_file, args: {path: %q}}", path),
			fmt.Sprintf("{tool: edit_file, args: {path: %q, old: one, new: x}}", path), fmt.Sprintf("{tool: delete_file, args: {path: %q}}", path))
	}
	s.Script = fmt.Sprintf("turns:\n  - calls: [{tool: shell, args: {command: %q}}]\n  - calls: [%s]\n  - calls: [{tool: shell, args: {command: pwd}}]\n  - say: done\n",
		"ln -s "+s.Repo+" link", strings.Join(calls, ", "))
	before := digestTree(t, s.Repo)
	w := newWorld(t)
	w.work(s)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	results := w.results(res)
	require.Len(t, results, len(calls)+2)
	for i, r := range results[1 : len(results)-1] {
		require.Equal(t, tool.ToolError, r.Result.Code, "%s: %s", calls[i], r.Result.Value)
		require.NotContains(t, r.Result.Failure.Message, "secret")
	}
	require.Contains(t, string(results[len(results)-1].Result.Value), filepath.Join(s.Root, "trees"))
	b, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(b))
	require.Equal(t, before, digestTree(t, s.Repo), "the host is untouched")
}

// A host whose disk is full is waited for, and operators see why; once there is room the agent begins.
func TestAFullDiskHoldsUpAnAgent(t *testing.T) {
	t.Parallel()
	s := oneHost(t, permission.Open, "turns: [{say: done}]")
	full := s
	full.Trees.MinFree = 1 << 60
	w := newWorld(t)
	first := w.work(full)
	w.start(protocol.AgentInput{})
	require.Eventually(t, func() bool {
		d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
		if err != nil {
			return false
		}
		for _, a := range d.RawResponse.GetPendingActivities() {
			f := a.GetLastFailure()
			if a.GetActivityType().GetName() == protocol.ActivityAcquireWorktree && f.GetApplicationFailureInfo().GetType() == protocol.ErrorSpace {
				return strings.Contains(f.GetMessage(), "no room for a worktree")
			}
		}
		return false
	}, patience, tick)
	// Another one that waits like it is stopped at once.
	stopped := newWorld(t)
	stopped.queue = w.queue
	stopped.start(protocol.AgentInput{})
	require.Eventually(t, func() bool {
		d, err := w.c.DescribeWorkflow(context.Background(), stopped.id, "")
		return err == nil && len(d.RawResponse.GetPendingActivities()) == 1 && d.RawResponse.GetPendingActivities()[0].GetAttempt() > 1
	}, patience, tick)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), stopped.id, ""))
	require.Equal(t, protocol.Cancelled, stopped.result().Status)
	first.Stop()
	w.work(s)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Zero(t, res.Restarts)
	clean(t, s)
}

// Without a tree tools run where the worker says; in readonly isolation none of them writes.
func TestToolsRunWhereTheWorkerSays(t *testing.T) {
	t.Parallel()
	for kind, code := range map[worktree.Kind]tool.Code{worktree.None: tool.OK, worktree.Readonly: tool.Denied} {
		t.Run(string(kind), func(t *testing.T) {
			s := oneHost(t, permission.Open, `
turns:
  - calls: [{tool: read_file, args: {path: here.txt}}, {tool: write_file, args: {path: new.txt, content: new}}]
  - say: done
`)
			s.Trees.Dir = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(s.Trees.Dir, "here.txt"), []byte("here\n"), 0o600))
			w := newWorld(t)
			w.work(s)
			w.start(protocol.AgentInput{Isolation: &worktree.Isolation{Kind: kind}})
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			results := w.results(res)
			require.Contains(t, string(results[0].Result.Value), "here")
			require.Equal(t, code, results[1].Result.Code)
			_, err := os.Stat(filepath.Join(s.Trees.Dir, "new.txt"))
			require.Equal(t, code == tool.OK, err == nil)
			require.Empty(t, res.Artifacts)
			require.Empty(t, held(t, s))
		})
	}
}

// Agents in worktrees of one host, whose worker is killed again and again: each has the right patch, and nothing is left.
func TestStormOverWorktrees(t *testing.T) {
	if !long() {
		t.Skip("ASSENT_LONG")
	}
	const agents, kills = 30, 20
	rnd := random(t)
	s := oneHost(t, permission.Open, `
turns:
  - calls: [{tool: write_file, args: {path: new.txt, content: "new\n"}}]
  - calls: [{tool: write_file, args: {path: new.txt, content: "new\n"}}, {tool: edit_file, args: {path: a.txt, old: two, new: three}}]
  - calls: [{tool: delete_file, args: {path: b.txt}}]
  - calls: [{tool: list_files, args: {}}]
  - say: done
`)
	before := digestTree(t, s.Repo)
	address := devservertest.Server(t).Address()
	base := newWorld(t)
	worlds := make([]*world, agents)
	for i := range worlds {
		w := *base
		w.id = fmt.Sprintf("%s-%d", base.id, i)
		worlds[i] = &w
		w.start(protocol.AgentInput{})
	}
	p := base.spawn(s, address)
	for range kills {
		time.Sleep(time.Duration(200+rnd.IntN(4000)) * time.Millisecond)
		p.kill(t)
		p = base.spawn(s, address)
	}
	var all sync.WaitGroup
	results := make([]protocol.AgentResult, agents)
	for i, w := range worlds {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			if err := w.c.GetWorkflow(ctx, w.id, "").Get(ctx, &results[i]); err != nil {
				t.Errorf("agent %d: %v", i, err)
			}
		})
	}
	all.Wait()
	lost := 0
	for i, res := range results {
		require.Equal(t, protocol.OK, res.Status, "%d: %s", i, res.Error)
		require.Zero(t, res.Restarts)
		require.Len(t, res.Artifacts, 1)
		worlds[i].applies(s.Repo, res.Artifacts[0])
		have := map[string]string{}
		for _, f := range res.Artifacts[0].Files {
			have[f.Path] = f.Status
		}
		want := map[string]string{"new.txt": "added", "a.txt": "modified", "b.txt": "deleted"}
		unknown := 0
		for _, code := range worlds[i].codes(res) {
			if code == string(tool.EffectUnknown) {
				unknown++
			}
		}
		lost += unknown
		if unknown == 0 {
			require.Equal(t, want, have)
		}
		for path, status := range have {
			require.Equal(t, want[path], status)
		}
	}
	t.Logf("%d agents, %d kills, %d calls whose effect is unknown", agents, kills, lost)
	clean(t, s)
	require.Equal(t, before, digestTree(t, s.Repo), "the host is untouched")
}
