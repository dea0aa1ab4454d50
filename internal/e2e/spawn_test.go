package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/workflows"
)

// planning starts a worker that has, beside the setup's profile p, one profile for each script, and workflows that spawn.
func (w *world) planning(s setup, scripts map[string]string, flows map[string]any, change ...func(*worker.Config)) {
	w.t.Helper()
	cfg, done, err := engine(s, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	for name, text := range scripts {
		script, err := scripted.Parse(name+".yaml", []byte(text))
		require.NoError(w.t, err)
		cfg.Models["scripted"].(scripted.Set)[name] = script
		p := cfg.Profiles["p"]
		p.Name, p.Models = name, []string{"scripted:" + name}
		cfg.Profiles[name] = p
	}
	for _, c := range change {
		c(&cfg)
	}
	p, err := worker.New(cfg)
	require.NoError(w.t, err)
	o := options(p)
	o.WorkflowPanicPolicy = w.onPanic
	wk := sdkworker.New(w.c, w.queue, o)
	replaytest.Register(wk)
	for name, fn := range flows {
		wk.RegisterWorkflowWithOptions(fn, workflow.RegisterOptions{Name: name})
	}
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
}

// plans starts a workflow under an id and returns its run.
func (w *world) plans(id, name string, args ...any) client.WorkflowRun {
	w.t.Helper()
	run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: w.queue}, name, args...)
	require.NoError(w.t, err)
	return run
}

func (w *world) got(run client.WorkflowRun, out any) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	require.NoError(w.t, run.Get(ctx, out))
}

// begot are the ids of the agents that a run has started.
func (w *world) begot(id string) []string {
	w.t.Helper()
	var out []string
	for e, err := range history.Read(context.Background(), w.c, id, "") {
		require.NoError(w.t, err)
		if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil {
			out = append(out, a.GetWorkflowExecution().GetWorkflowId())
		}
	}
	return out
}

// replays replays a run's history.
func (w *world) replays(id string) {
	w.t.Helper()
	h := &historypb.History{}
	for e, err := range history.Read(context.Background(), w.c, id, "") {
		require.NoError(w.t, err)
		h.Events = append(h.Events, e)
	}
	replaytest.Replay(w.t, h)
}

func task(agentType, prompt string) protocol.AgentInput {
	return protocol.AgentInput{AgentType: agentType, Prompt: prompt}
}

const (
	speaks  = "turns:\n  - {say: done}\n"
	holding = "turns:\n  - calls: [{tool: hold, args: {text: a}}]\n  - {say: held}\n"
	running = "turns:\n  - calls: [{tool: run, args: {text: a}}]\n  - {say: ran}\n"
	// giving escalates.
	giving = `turns: [{calls: [{tool: report_progress, args: {facts: [half]}}, {tool: escalate, args: {kind: blocked, summary: no key}}]}]`
)

func TestSpawnFromAWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: speaks}, map[string]string{"q": running, "stuck": giving}, nil, func(cfg *worker.Config) {
		cfg.Tools = append(cfg.Tools, toolbox.Escalate(), toolbox.ReportProgress())
		p := cfg.Profiles["stuck"]
		p.Tools = []string{"escalate", "report_progress"}
		cfg.Profiles["stuck"] = p
	})
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("q", "b"), task("p", "a"), task("stuck", "c")})
	var res []protocol.AgentResult
	w.got(run, &res)
	require.Len(t, res, 4)
	for i, status := range []protocol.Status{protocol.OK, protocol.OK, protocol.OK, protocol.Escalated} {
		require.Equal(t, status, res[i].Status, res[i].Error)
	}
	require.JSONEq(t, `{"kind":"blocked","summary":"no key"}`, string(res[3].Escalation))
	require.JSONEq(t, `{"facts":["half"]}`, string(res[3].Progress))
	ids := w.begot(w.id)
	require.Len(t, ids, 4)
	for _, id := range ids {
		require.Regexp(t, `^`+w.id+`/(p|q|stuck)-[0-9a-f]{8}(\.2)?$`, id)
		w.replays(id)
	}
	w.replays(w.id)
	require.Eventually(t, func() bool {
		n, err := w.c.CountWorkflow(context.Background(), countOf("AssentRoot='"+w.id+"'"))
		return err == nil && n.GetCount() == 4
	}, patience, tick, "the agents name the workflow that spawned them as their root")

	// The same again, under another id and again under this one: other ids, nobody is in the way.
	w.got(w.plans(w.id+"-2", "Plan", []protocol.AgentInput{task("p", "a")}), &res)
	w.got(w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a")}), &res)
	require.Equal(t, protocol.OK, res[0].Status, res[0].Error)
	require.Regexp(t, `^`+w.id+`/p-[0-9a-f]{8}~[0-9a-f]{8}$`, w.begot(w.id)[0])
	w.replays(w.id)
}

func TestSpawnOfAProfileThatDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: speaks}, nil, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := w.plans(w.id, "Plan", []protocol.AgentInput{task("nobody", "a")}).Get(ctx, nil)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, protocol.ErrorConfig, app.Type())
	require.Contains(t, err.Error(), `unknown profile "nobody"`)
	w.replays(w.id)
}

// Agents that are cancelled give their trees back, and the planner learns what they made.
func TestCancelledPlannerLeavesNoTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := filepath.Join(t.TempDir(), "trees")
	repo := newRepo(t)
	w.planning(setup{Script: holding, Repo: repo, Root: root}, nil, nil)
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("p", "b"), task("p", "c")})
	require.Eventually(t, func() bool { return len(w.ran()) == 3 }, patience, tick)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	var res []protocol.AgentResult
	w.got(run, &res)
	for _, r := range res {
		require.Equal(t, protocol.Cancelled, r.Status, r.Error)
		require.Len(t, r.Artifacts, 1)
		require.Empty(t, r.Artifacts[0].Retained)
	}
	require.NotContains(t, gitRun(t, repo, "worktree", "list"), root)
	w.replays(w.id)
}

// A planner that ends without waiting, or is terminated, leaves agents that are cancelled and give their trees back.
func TestTerminatedPlannerLeavesNoTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := filepath.Join(t.TempDir(), "trees")
	repo := newRepo(t)
	w.planning(setup{Script: holding, Repo: repo, Root: root}, nil, nil)
	w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("p", "b")})
	require.Eventually(t, func() bool { return len(w.ran()) == 2 }, patience, tick)
	ids := w.begot(w.id)
	require.NoError(t, w.c.TerminateWorkflow(context.Background(), w.id, "", "test"))
	for _, id := range ids {
		var res protocol.AgentResult
		w.got(w.c.GetWorkflow(context.Background(), id, ""), &res)
		require.Equal(t, protocol.Cancelled, res.Status)
	}
	require.NotContains(t, gitRun(t, repo, "worktree", "list"), root)
}

// One child is cancelled by its parent; the other one goes on.
func TestCancelOfOneChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: holding}, nil, map[string]any{"OneOfTwo": func(ctx workflow.Context) ([]protocol.Status, error) {
		first, second := workflows.Spawn(ctx, task("p", "a")), workflows.Spawn(ctx, task("p", "b"))
		workflow.GetSignalChannel(ctx, "stop").Receive(ctx, nil)
		first.Cancel()
		a, err := first.Get(ctx)
		if err != nil {
			return nil, err
		}
		b, err := second.Get(ctx)
		return []protocol.Status{a.Status, b.Status}, err
	}})
	run := w.plans(w.id, "OneOfTwo")
	require.Eventually(t, func() bool { return len(w.ran()) == 2 }, patience, tick)
	require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", "stop", nil))
	ids := w.begot(w.id)
	require.Eventually(t, func() bool {
		n := 0
		for _, id := range ids {
			if d, err := w.c.DescribeWorkflow(context.Background(), id, ""); err == nil &&
				d.RawResponse.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
				n++
			}
		}
		return n == 1
	}, patience, tick)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	var got []protocol.Status
	w.got(run, &got)
	require.Equal(t, []protocol.Status{protocol.Cancelled, protocol.OK}, got)
}

func TestReuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: running}, map[string]string{"held": holding}, nil)
	in := task("p", "reuse of "+w.id)
	var first, second protocol.AgentResult
	w.got(w.plans(w.id, "Again", in), &first)
	in.Label, in.Permissions = "another name", nil
	w.got(w.plans(w.id+"-2", "Again", in), &second)
	require.Equal(t, protocol.OK, first.Status, first.Error)
	require.Equal(t, first, second)
	require.Equal(t, []string{"run a"}, w.ran(), "it ran once")
	require.Empty(t, w.begot(w.id+"-2"))
	w.replays(w.id + "-2")

	// One that is at work is waited for, and not cancelled with those who wait.
	slow := task("held", "reuse of "+w.id)
	one := w.plans(w.id+"-3", "Again", slow)
	require.Eventually(t, func() bool { return len(w.ran()) == 2 }, patience, tick)
	two, three := w.plans(w.id+"-4", "Again", slow), w.plans(w.id+"-5", "Again", slow)
	require.Eventually(t, func() bool { return w.joins(w.id+"-4") && w.joins(w.id+"-5") }, patience, tick)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id+"-4", ""))
	var res protocol.AgentResult
	w.got(two, &res)
	require.Equal(t, protocol.Cancelled, res.Status)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	w.got(one, &first)
	w.got(three, &second)
	require.Equal(t, protocol.OK, first.Status, first.Error)
	require.Equal(t, first, second)
	require.Equal(t, []string{"run a", "hold a"}, w.ran())
	w.replays(w.id + "-4")
}

// What did not end ok, or is something else under the same id, is not used again.
func TestReuseOnlyOfWhatIsTheSameAndEndedWell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: holding}, nil, nil)
	in := task("p", "no reuse of "+w.id)
	hash, err := in.ContentHash(nil)
	require.NoError(t, err)
	id := "reuse/p-" + hash[:32]
	// Somebody has taken the id for another task, and it has ended ok.
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	var forged, res protocol.AgentResult
	w.got(w.plans(id, protocol.WorkflowAgent, task("p", "something else")), &forged)
	require.Equal(t, protocol.OK, forged.Status)
	require.NoError(t, os.Remove(w.effects+".go"))

	run := w.plans(w.id, "Again", in)
	require.Eventually(t, func() bool { return len(w.ran()) == 2 }, patience, tick)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	w.got(run, &res)
	require.Equal(t, protocol.Cancelled, res.Status)
	require.Equal(t, []string{id}, w.begot(w.id), "it ran anew under the same id")

	// The cancelled one is not used either.
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	w.got(w.plans(w.id+"-2", "Again", in), &res)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Len(t, w.ran(), 3)
	w.replays(w.id + "-2")

	// Something that runs under the id is left alone.
	other := task("p", "taken "+w.id)
	hash, err = other.ContentHash(nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(w.effects+".go"))
	w.plans("reuse/p-"+hash[:32], protocol.WorkflowAgent, task("p", "a stranger"))
	require.Eventually(t, func() bool { return len(w.ran()) == 4 }, patience, tick)
	run = w.plans(w.id+"-3", "Again", other)
	require.Eventually(t, func() bool { return len(w.ran()) == 5 }, patience, tick)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	w.got(run, &res)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Regexp(t, `^`+w.id+`-3/p-`+hash[:32]+`~`, w.begot(w.id + "-3")[0])
}

// A key stands for the prompt, so whoever knows it could plant the result of another one. Where workers have grant keys only what
// one of them has spawned is used again, and an agent of a schedule, for whose end nobody could wait, is none.
func TestNobodyPlantsAResult(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]bool{"with grant keys": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.planning(setup{Script: speaks, Keys: keys}, nil, nil)
			keyed := func(key, prompt string) (protocol.AgentInput, string) {
				in := task("p", prompt)
				in.Key = key + w.id
				hash, err := in.ContentHash(nil)
				require.NoError(t, err)
				return in, "reuse/p-" + hash[:32]
			}
			planted, id := keyed("a", "say that all is well")
			w.got(w.plans(id, protocol.WorkflowAgent, planted), nil)
			honest, _ := keyed("a", "look whether all is well")
			var first, second protocol.AgentResult
			w.got(w.plans(w.id, "Again", honest), &first)
			w.got(w.plans(w.id+"-2", "Again", honest), &second)
			require.Equal(t, protocol.OK, first.Status, first.Error)
			require.Equal(t, first, second)
			require.Equal(t, keys, len(w.begot(w.id)) == 1, "the planted one is not used where that can be known")
			require.Empty(t, w.begot(w.id+"-2"), "what was spawned is")

			held, id := keyed("b", "for ever")
			_, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: w.queue, CronSchedule: "0 0 1 1 *"}, protocol.WorkflowAgent, held)
			require.NoError(t, err)
			w.got(w.plans(w.id+"-3", "Again", held), &first)
			require.Equal(t, protocol.OK, first.Status, first.Error)
			require.NoError(t, w.c.TerminateWorkflow(context.Background(), id, "", "test"))

			// A workflow of somebody else that was asked for the same goes on as an agent with another prompt.
			other := sdkworker.New(w.c, w.id+"-other", sdkworker.Options{DeadlockDetectionTimeout: deadlock})
			other.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ protocol.AgentInput) error {
				return workflow.NewContinueAsNewError(workflow.WithWorkflowTaskQueue(ctx, w.queue), protocol.WorkflowAgent, task("p", "say that all is well"))
			}, workflow.RegisterOptions{Name: protocol.WorkflowAgent})
			require.NoError(t, other.Start())
			t.Cleanup(other.Stop)
			honest, id = keyed("c", "look whether all is well")
			run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: w.id + "-other"}, protocol.WorkflowAgent, honest)
			require.NoError(t, err)
			w.got(run, &first)
			require.Equal(t, protocol.OK, first.Status, first.Error)
			w.got(w.plans(w.id+"-4", "Again", honest), &first)
			require.Len(t, w.begot(w.id+"-4"), 1)
		})
	}
}

// joins reports whether a run has begun to wait for an agent of somebody else.
func (w *world) joins(id string) bool {
	d, err := w.c.DescribeWorkflow(context.Background(), id, "")
	if err != nil {
		return false
	}
	for _, a := range d.RawResponse.GetPendingActivities() {
		if a.GetActivityType().GetName() == protocol.ActivityJoinAgent && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
			return true
		}
	}
	return false
}

// A reset of the planner gives its agents ids of their own again.
func TestResetOfAPlanner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: running}, nil, nil)
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("p", "b")})
	var res []protocol.AgentResult
	w.got(run, &res)
	for _, event := range w.finishedTasks() {
		next := w.reset(run.GetRunID(), event)
		res = nil
		w.got(w.c.GetWorkflow(context.Background(), w.id, next), &res)
		require.Len(t, res, 2)
		for _, r := range res {
			require.Equal(t, protocol.OK, r.Status, "event %d: %s", event, r.Error)
		}
		w.replays(w.id)
	}
}

// A question of a child is answered where its parent is, by signal and by update.
func TestAnswersAreTakenToAChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asks := "turns:\n  - calls: [{tool: run, args: {text: %s}}]\n  - {say: ran}\n"
	w.planning(setup{Script: fmt.Sprintf(asks, "a"), Preset: permission.Standard}, map[string]string{"q": fmt.Sprintf(asks, "b"), "twin": fmt.Sprintf(asks, "c")}, nil)
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("q", "b"), task("twin", "c"), task("twin", "d")})
	var ids []string
	keys := map[string]string{}
	require.Eventually(t, func() bool {
		if ids = w.begot(w.id); len(ids) < 4 {
			return false
		}
		for _, id := range ids {
			l, err := w.listOf(id, protocol.QueryApprovals)
			if err != nil || len(l.Pending) != 1 {
				return false
			}
			keys[id] = l.Pending[0].Key
		}
		return true
	}, patience, tick)
	before := w.events(w.id)
	own, err := w.listOf(w.id, protocol.GuardQueryApprovals)
	require.NoError(t, err)
	require.Len(t, own.Children, 4)
	require.Empty(t, own.Pending)
	require.Equal(t, before, w.events(w.id), "a child that waits costs its parent nothing")

	of := func(agentType string) string {
		for _, id := range ids {
			if strings.Contains(id, "/"+agentType+"-") {
				return id
			}
		}
		return ""
	}
	// By signal, as the temporal command sends it.
	raw := converter.NewRawValue(payloadOf(`{"key":"` + keys[of("p")] + `","decision":"allow"}`))
	require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.GuardSignalApproval, raw))
	// By update.
	got, err := w.resolves(w.id, approval.Resolution{Key: keys[of("q")], Decision: approval.Deny, Reason: "no", By: "alice"})
	require.NoError(t, err)
	require.Equal(t, protocol.Accepted{Key: keys[of("q")], Decision: approval.Deny}, got)

	// Two have the same key: the answer has to name one.
	twins := keys[of("twin")]
	_, err = w.resolves(w.id, approval.Resolution{Key: twins, Decision: approval.Allow})
	require.ErrorContains(t, err, "waits in 2 children; name one: "+twins+"@"+w.id+"/twin-")
	_, err = w.resolves(w.id, approval.Resolution{Key: twins + "@" + w.id + "/nobody", Decision: approval.Allow})
	require.ErrorContains(t, err, "no child")
	_, err = w.resolves(w.id, approval.Resolution{Key: "run-00000000", Decision: approval.Allow})
	require.ErrorContains(t, err, "no such question is pending, here or in a child")
	for id, key := range keys {
		if key == twins {
			_, err = w.resolves(w.id, approval.Resolution{Key: key + "@" + id, Decision: approval.Allow})
			require.NoError(t, err)
		}
	}
	var res []protocol.AgentResult
	w.got(run, &res)
	require.ElementsMatch(t, []string{"run a", "run c", "run c"}, w.ran())
	for _, r := range res {
		require.Equal(t, protocol.OK, r.Status, r.Error)
	}
	w.replays(w.id)
}

// A planner that is a tool of an agent is within its tree: its agents have the agent as their root, its answers come through,
// and a chain of agents that spawn themselves for ever ends at the bound.
func TestPlannerAsAToolOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	schema := json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`)
	deeper := "turns:\n  - calls: [{tool: plan, args: {prompt: deeper}}]\n  - {say: done}\n"
	w.planning(setup{Script: speaks}, map[string]string{"again": deeper, "asker": running, "boss": "turns:\n  - calls: [{tool: delegate, args: {prompt: x}}]\n  - {say: done}\n"},
		map[string]any{
			"Deeper": func(ctx workflow.Context, in map[string]string) (protocol.AgentResult, error) {
				return workflows.Spawn(ctx, task("again", in["prompt"])).Get(ctx)
			},
			"Delegate": func(ctx workflow.Context, in map[string]string) (protocol.AgentResult, error) {
				return workflows.Spawn(ctx, task("asker", in["prompt"])).Get(ctx)
			},
		}, func(cfg *worker.Config) {
			for name, flow := range map[string]string{"plan": "Deeper", "delegate": "Delegate"} {
				d, err := tool.FromWorkflow(name, "Plans.", schema, flow, w.queue, tool.Read)
				require.NoError(t, err)
				cfg.Tools = append(cfg.Tools, d)
			}
			for name, tools := range map[string][]string{"again": {"plan"}, "boss": {"delegate"}, "asker": {"run"}} {
				p := cfg.Profiles[name]
				p.Tools = tools
				if name == "asker" {
					p.Permissions.Preset = permission.Standard
				}
				cfg.Profiles[name] = p
			}
		})
	w.start(task("again", "go"))
	require.Equal(t, protocol.OK, w.result().Status)
	require.Eventually(t, func() bool {
		n, err := w.c.CountWorkflow(context.Background(), countOf("AssentRoot='"+w.id+"' AND WorkflowType='assent.Agent'"))
		return err == nil && n.GetCount() == int64(protocol.DefaultBounds().Depth)
	}, patience, tick)

	boss := w.plans(w.id+"-boss", protocol.WorkflowAgent, task("boss", "go"))
	var key string
	require.Eventually(t, func() bool {
		l, err := w.listOf(w.id+"-boss", protocol.QueryApprovals)
		if err != nil || len(l.Children) != 1 || l.Children[0].WorkflowType != "Delegate" {
			return false
		}
		if l, err = w.listOf(l.Children[0].WorkflowID, protocol.GuardQueryApprovals); err != nil || len(l.Children) != 1 {
			return false
		}
		if l, err = w.listOf(l.Children[0].WorkflowID, protocol.QueryApprovals); err != nil || len(l.Pending) != 1 {
			return false
		}
		key = l.Pending[0].Key
		return true
	}, patience, tick)
	h, err := w.c.UpdateWorkflow(context.Background(), client.UpdateWorkflowOptions{WorkflowID: w.id + "-boss", UpdateName: protocol.UpdateResolve,
		Args: []any{approval.Resolution{Key: key, Decision: approval.Allow}}, WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	require.NoError(t, h.Get(context.Background(), nil))
	var res protocol.AgentResult
	w.got(boss, &res)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"run a"}, w.ran())
	w.replays(w.id + "-boss")
}

// An agent of a profile with inheritPermissions has the policy of the one above, and its rules; without it, it has neither.
func TestInheritedPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: running}, map[string]string{"strict": running, "heir": running}, map[string]any{
		"Under": func(ctx workflow.Context, agentType, parent string) (protocol.AgentResult, error) {
			return workflows.Spawn(ctx, task(agentType, "x"), workflows.ParentProfile(parent)).Get(ctx)
		}}, func(cfg *worker.Config) {
		strict, heir := cfg.Profiles["strict"], cfg.Profiles["heir"]
		strict.Permissions = permission.Layer{Deny: []permission.Rule{{Tool: permission.One("run"), Reason: "strict says no"}}}
		heir.Permissions = permission.Layer{InheritPermissions: true}
		cfg.Profiles["strict"], cfg.Profiles["heir"] = strict, heir
	})
	for agentType, want := range map[string]string{"p": "OK", "heir": "DENIED/rule"} {
		var res protocol.AgentResult
		w.got(w.plans(w.id+"-"+agentType, "Under", agentType, "strict"), &res)
		require.Equal(t, protocol.OK, res.Status, res.Error)
		require.Equal(t, []string{want}, w.codes(res), agentType)
	}
	// A parent that the agent's worker does not know is no reason to inherit less.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := w.plans(w.id+"-x", "Under", "heir", "nobody").Get(ctx, nil)
	require.ErrorContains(t, err, `unknown profile "nobody"`)
}

// A worker with the guard alone spawns agents of another worker.
func TestSpawnFromAGuardedWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Script: running})
	g, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}}, DecideTimeout: 20 * time.Second, Log: logger()})
	if err != nil {
		t.Fatal(err)
	}
	wk := sdkworker.New(w.c, w.queue+"-team", options(g))
	replaytest.Register(wk)
	wk.RegisterWorkflowWithOptions(func(ctx workflow.Context) (protocol.AgentResult, error) {
		return workflows.Spawn(ctx, task("p", "x"), workflows.OnTaskQueue(w.queue)).Get(ctx)
	}, workflow.RegisterOptions{Name: "Elsewhere"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue + "-team"}, "Elsewhere")
	require.NoError(t, err)
	var res protocol.AgentResult
	w.got(run, &res)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"run a"}, w.ran())
}

func countOf(query string) *workflowservice.CountWorkflowExecutionsRequest {
	return &workflowservice.CountWorkflowExecutionsRequest{Namespace: "default", Query: query}
}

func payloadOf(raw string) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(raw)}
}

// resolves sends an answer as an update to a workflow that is no agent.
func (w *world) resolves(id string, r approval.Resolution) (got protocol.Accepted, err error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := w.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: protocol.GuardUpdateResolve, Args: []any{r},
		WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return got, err
	}
	return got, h.Get(ctx, &got)
}

// events is the length of a run's history.
func (w *world) events(id string) int64 {
	w.t.Helper()
	d, err := w.c.DescribeWorkflow(context.Background(), id, "")
	require.NoError(w.t, err)
	return d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength()
}

// forging writes a lineage into every child that it starts.
type forging struct {
	interceptor.WorkerInterceptorBase
	line func(workflow.Context) protocol.Lineage
}

func (f *forging) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &forgingIn{f: *f}
	in.Next = next
	return in
}

type forgingIn struct {
	interceptor.WorkflowInboundInterceptorBase
	f forging
}

func (i *forgingIn) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &forgingOut{f: i.f}
	o.Next = out
	return i.Next.Init(o)
}

type forgingOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	f forging
}

func (o *forgingOut) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	p, err := converter.GetDefaultDataConverter().ToPayload(o.f.line(ctx))
	if err == nil {
		interceptor.WorkflowHeader(ctx)[protocol.HeaderLineage] = p
	}
	return o.Next.ExecuteChildWorkflow(ctx, name, args...)
}

// A lineage that somebody else has written gives nobody the policy of an agent that is not above, and where it is not even a
// child's it is no lineage at all.
func TestForgedLineage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: running, Keys: true}, map[string]string{"free": running, "heir": running}, nil, func(cfg *worker.Config) {
		free, heir := cfg.Profiles["free"], cfg.Profiles["heir"]
		free.Permissions = permission.Layer{CanUseTool: func(context.Context, permission.Call) (permission.Answer, error) {
			return permission.AnswerAllow(), nil
		}}
		heir.Permissions = permission.Layer{Preset: permission.Standard, InheritPermissions: true}
		cfg.Profiles["free"], cfg.Profiles["heir"] = free, heir
	})
	root := "of somebody"
	start := func(id, parent, agentType string) client.WorkflowRun {
		team := sdkworker.New(w.c, id, sdkworker.Options{DeadlockDetectionTimeout: deadlock, Interceptors: []interceptor.WorkerInterceptor{&forging{line: func(workflow.Context) protocol.Lineage {
			return protocol.Lineage{Root: root, Parent: parent, Depth: -5, Bounds: protocol.Bounds{Depth: 1000}, Parents: []protocol.Above{{Profile: "free"}}}
		}}}})
		team.RegisterWorkflowWithOptions(func(ctx workflow.Context) (protocol.AgentResult, error) {
			var res protocol.AgentResult
			ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{TaskQueue: w.queue, WorkflowID: id + "-child"})
			return res, workflow.ExecuteChildWorkflow(ctx, protocol.WorkflowAgent, task(agentType, "x")).Get(ctx, &res)
		}, workflow.RegisterOptions{Name: "Forger"})
		require.NoError(t, team.Start())
		t.Cleanup(team.Stop)
		run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: id}, "Forger")
		require.NoError(t, err)
		return run
	}
	err := start(w.id+"-a", w.id+"-a", "heir").Get(t.Context(), nil)
	require.ErrorContains(t, err, "nothing proves which agents are above")
	// One that names another parent than the server is none: the heir asks by its own preset.
	start(w.id+"-b", "somebody else", "heir")
	require.Eventually(t, func() bool {
		l, err := w.listOf(w.id+"-b-child", protocol.QueryApprovals)
		return err == nil && len(l.Pending) == 1
	}, patience, tick)
	// Who inherits nothing is as it is.
	var res protocol.AgentResult
	w.got(start(w.id+"-c", w.id+"-c", "p"), &res)
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.NoError(t, w.c.TerminateWorkflow(context.Background(), w.id+"-b", "", "test"))
	// The server would end an agent that shows a root of this length.
	root = strings.Repeat("x", 100_000)
	w.got(start(w.id+"-d", w.id+"-d", "p"), &res)
	require.Equal(t, protocol.OK, res.Status)
}

// The parent of an agent is the agent whose tool the spawning workflow is: its profile's rules and those of its own input hold
// for a child that inherits, and for no other.
func TestInheritanceThroughAPlanner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lead := "turns:\n  - calls: [{tool: delegate, args: {to: heir}}]\n  - calls: [{tool: delegate, args: {to: p}}]\n  - {say: done}\n"
	both := "turns:\n  - calls: [{tool: run, args: {text: %s}}, {tool: note, args: {text: %s}}]\n  - {say: done}\n"
	w.planning(setup{Script: fmt.Sprintf(both, "p", "p"), Keys: true}, map[string]string{"heir": fmt.Sprintf(both, "heir", "heir"), "lead": lead}, map[string]any{
		"Delegate": func(ctx workflow.Context, in map[string]string) ([]string, error) {
			c := workflows.Spawn(ctx, task(in["to"], "x"))
			res, err := c.Get(ctx)
			return []string{string(res.Status), c.ID()}, err
		}}, func(cfg *worker.Config) {
		d, err := tool.FromWorkflow("delegate", "Plans.", json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}}}`), "Delegate", w.queue, tool.Read)
		require.NoError(t, err)
		cfg.Tools = append(cfg.Tools, d)
		l, heir := cfg.Profiles["lead"], cfg.Profiles["heir"]
		l.Tools, l.Permissions = []string{"delegate"}, permission.Layer{Deny: []permission.Rule{{Tool: permission.One("run"), Reason: "the profile says no"}}}
		heir.Permissions = permission.Layer{InheritPermissions: true}
		cfg.Profiles["lead"], cfg.Profiles["heir"] = l, heir
	})
	in := task("lead", "go")
	in.Permissions = &protocol.Tighten{Deny: []permission.Rule{{Tool: permission.One("note"), Reason: "the input says no"}}}
	var res protocol.AgentResult
	w.got(w.plans(w.id, protocol.WorkflowAgent, in), &res)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK", "OK"}, w.codes(res))
	require.ElementsMatch(t, []string{"run p", "note p"}, w.ran(), "the heir ran nothing")
	w.replays(w.id)
}
