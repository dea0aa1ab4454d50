package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/workflows"
)

// spawnShapes are histories of workflows that spawn.
var spawnShapes = map[string]func(w *world){
	"spawned": func(w *world) {
		w.planning(setup{Script: oneAsk, Preset: permission.Standard}, map[string]string{"free": speaks}, nil)
		run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("free", "b"), task("free", "b")})
		key := w.asksBelow(w.id)
		_, err := w.resolves(w.id, approval.Resolution{Key: "run-00000000", Decision: approval.Allow})
		require.Error(w.t, err)
		_, err = w.resolves(w.id, approval.Resolution{Key: key, Decision: approval.Allow, By: "alice"})
		require.NoError(w.t, err)
		w.got(run, nil)
	},
	"spawned-cancelled": func(w *world) {
		w.planning(setup{Script: holding}, nil, nil)
		run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a")})
		require.Eventually(w.t, func() bool { return len(w.ran()) == 1 }, patience, tick)
		require.NoError(w.t, w.c.CancelWorkflow(context.Background(), w.id, ""))
		w.got(run, nil)
	},
	"spawned-again": func(w *world) {
		w.planning(setup{Script: speaks}, nil, nil)
		in := []protocol.AgentInput{task("p", "a")}
		w.got(w.plans(w.id, "Plan", in), nil)
		w.got(w.plans(w.id, "Plan", in), nil)
	},
	"spawned-reused": func(w *world) {
		w.planning(setup{Script: speaks}, nil, nil)
		w.got(w.plans(w.id+"-first", "Again", task("p", w.id)), nil)
		w.got(w.plans(w.id, "Again", task("p", w.id)), nil)
	},
}

// asksBelow waits for the one question of a run's children and returns its key.
func (w *world) asksBelow(id string) (key string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		own, err := w.listOf(id, protocol.GuardQueryApprovals)
		if err != nil {
			return false
		}
		for _, c := range own.Children {
			if l, err := w.listOf(c.WorkflowID, protocol.QueryApprovals); err == nil && len(l.Pending) == 1 {
				key = l.Pending[0].Key
				return true
			}
		}
		return false
	}, patience, tick)
	return key
}

// A worker that is killed while three agents work loses none of them, and no tree.
func TestWorkerIsKilledWhileChildrenRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	repo, root := newRepo(t), filepath.Join(t.TempDir(), "trees")
	s := setup{Script: holding, Repo: repo, Root: root, Keys: true}
	address := devservertest.Server(t).Address()
	first := w.spawn(s, address)
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("p", "b"), task("p", "c")})
	require.Eventually(t, func() bool { return len(w.ran()) == 3 }, patience, tick)
	first.kill(t)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	w.spawn(s, address)
	var res []protocol.AgentResult
	w.got(run, &res)
	require.Len(t, res, 3)
	for _, r := range res {
		require.Equal(t, protocol.OK, r.Status, r.Error)
		require.Equal(t, []string{"EFFECT_UNKNOWN"}, w.codes(r))
		require.Len(t, r.Artifacts, 1)
	}
	require.Equal(t, []string{"hold a", "hold a", "hold a"}, w.ran(), "nothing ran twice")
	require.Len(t, w.begot(w.id), 3)
	require.NotContains(t, gitRun(t, repo, "worktree", "list"), root)
	w.replays(w.id)
}

// A planner that is reset while its agents work gets agents of its own again; those of the run before are stopped, and no
// tree stays.
func TestPlannerIsResetWhileChildrenRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	repo, root := newRepo(t), filepath.Join(t.TempDir(), "trees")
	w.planning(setup{Script: holding, Repo: repo, Root: root, Keys: true}, nil, nil)
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("p", "b")})
	require.Eventually(t, func() bool { return len(w.ran()) == 2 }, patience, tick)
	next := w.reset(run.GetRunID(), w.finishedTasks()[0])
	require.Eventually(t, func() bool { return len(w.ran()) == 4 }, patience, tick)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	var res []protocol.AgentResult
	w.got(w.c.GetWorkflow(context.Background(), w.id, next), &res)
	for _, r := range res {
		require.Equal(t, protocol.OK, r.Status, r.Error)
	}
	w.replays(w.id)
	t.Log(w.begot(w.id))
	require.Eventually(t, func() bool { return !strings.Contains(gitRun(t, repo, "worktree", "list"), root) }, patience, tick)
}

// Inputs of many agents together are more than one message to the server holds.
func TestManyLargeInputsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: speaks}, nil, map[string]any{"Large": func(ctx workflow.Context) ([]protocol.Status, error) {
		var children []*workflows.Child
		for i := range 8 {
			children = append(children, workflows.Spawn(ctx, task("p", strings.Repeat(string(rune('a'+i)), protocol.MaxPrompt))))
		}
		var out []protocol.Status
		for _, c := range children {
			res, err := c.Get(ctx)
			if err != nil {
				return nil, err
			}
			out = append(out, res.Status)
		}
		return out, nil
	}})
	var got []protocol.Status
	w.got(w.plans(w.id, "Large"), &got)
	require.Equal(t, slices.Repeat([]protocol.Status{protocol.OK}, 8), got)
}

// Answers that are for nobody come and go; they cost a planner an activity each, up to a bound, and then nothing.
func TestStrayAnswersToAPlanner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: holding}, nil, nil)
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a")})
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	for i := range 60 {
		for _, raw := range []string{fmt.Sprintf(`{"key":"run-%08x","decision":"allow"}`, i), `{"key":"@","decision":"allow"}`, `{"key":"run@` + w.id + `","decision":"nonsense"}`, `"allow"`, `{}`, `{"key":"` + strings.Repeat("k", 60000) + `"}`} {
			require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.GuardSignalApproval, converter.NewRawValue(payloadOf(raw))))
		}
	}
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	var res []protocol.AgentResult
	w.got(run, &res)
	require.Equal(t, protocol.OK, res[0].Status, res[0].Error)
	w.replays(w.id)
}

// Agents and the workflows between them that continue as new keep their place in the tree: the bound of its depth holds, and
// each stays the child that its parent waits for.
func TestTreeOfRunsThatContinueAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	schema := json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string"}}}`)
	deeper := "turns:\n  - calls: [{tool: look, args: {text: a}}]\n"
	for i := range 6 {
		deeper += fmt.Sprintf("  - calls: [{tool: look, args: {text: b%d}}]\n", i)
	}
	deeper += "  - calls: [{tool: plan, args: {prompt: deeper}}]\n  - {say: done}\n"
	w.planning(setup{Script: deeper, Keys: true}, nil, map[string]any{
		"Deeper": func(ctx workflow.Context, in map[string]string) (protocol.Status, error) {
			if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
				return "", workflow.NewContinueAsNewError(ctx, "Deeper", in)
			}
			res, err := workflows.Spawn(ctx, task("p", in["prompt"])).Get(ctx)
			return res.Status, err
		}}, func(cfg *worker.Config) {
		cfg.ContinueAfter = 50
		d, err := tool.FromWorkflow("plan", "Plans.", schema, "Deeper", w.queue, tool.Read)
		require.NoError(t, err)
		cfg.Tools = append(cfg.Tools, d)
		p := cfg.Profiles["p"]
		p.Tools = []string{"look", "plan"}
		cfg.Profiles["p"] = p
	})
	w.start(protocol.AgentInput{})
	require.Equal(t, protocol.OK, w.result().Status)
	looked := 0
	for _, line := range w.ran() {
		if line == "look a" {
			looked++
		}
	}
	require.Equal(t, protocol.DefaultBounds().Depth, looked, "one agent at each level")
	require.NotEmpty(t, w.history()[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId())
}

// A child that an operator resets stays the child: its planner waits for the run that goes on, and takes its result.
func TestChildIsResetWhileItsPlannerWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: holding}, nil, map[string]any{"Pooled": pooled})
	run := w.plans(w.id, "Pooled", 1.0, []protocol.AgentInput{task("p", "a"), task("p", "b")})
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	child := w.begot(w.id)[0]
	planner := w.id
	w.id = child
	w.reset(w.history()[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId(), w.finishedTasks()[0])
	w.id = planner
	require.Eventually(t, func() bool { return len(w.ran()) == 2 }, patience, tick)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	var res []protocol.AgentResult
	w.got(run, &res)
	require.Len(t, res, 2)
	for _, r := range res {
		require.Equal(t, protocol.OK, r.Status, r.Error)
	}
	require.Equal(t, child, w.begot(w.id)[0])
}
