package e2e

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// guardConfig asks before Deploy.
func guardConfig() worker.GuardConfig {
	return worker.GuardConfig{Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}}, GrantKeys: []protocol.GrantKey{grantKey},
		Permissions: permission.Layer{Preset: permission.Standard}, DecideTimeout: 20 * time.Second, Log: logger(), Enforce: activities.On}
}

func newGuard(t *testing.T, cfg worker.GuardConfig) *worker.Plugin {
	t.Helper()
	g, err := worker.NewGuard(cfg)
	require.NoError(t, err)
	return g
}

// staged is a team's workflow that waits for its own signal before it deploys.
func staged(ctx workflow.Context, service string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(ctx, "Build", service).Get(ctx, nil); err != nil {
		return "", err
	}
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
	var out string
	return out, workflow.ExecuteActivity(ctx, "Deploy", service).Get(ctx, &out)
}

// parent runs a child workflow on a queue.
func parent(ctx workflow.Context, queue, childType, arg string) (string, error) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{TaskQueue: queue, WorkflowID: workflow.GetInfo(ctx).WorkflowExecution.ID + "-child"})
	var out string
	return out, workflow.ExecuteChildWorkflow(ctx, childType, arg).Get(ctx, &out)
}

// remote deploys on another queue.
func remote(ctx workflow.Context, queue string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, TaskQueue: queue,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
	var out string
	return out, workflow.ExecuteActivity(ctx, "Deploy", "api").Get(ctx, &out)
}

// team starts a worker of a team that has its own workflows, with or without a guard.
func (w *world) team(plugins ...sdkworker.Plugin) sdkworker.Worker {
	return w.teamOn(w.queue, plugins...)
}

func (w *world) teamOn(queue string, plugins ...sdkworker.Plugin) sdkworker.Worker {
	w.t.Helper()
	o := options(nil)
	o.Plugins = plugins
	wk := sdkworker.New(w.c, queue, o)
	for name, fn := range map[string]any{"Staged": staged, "Parent": parent, "Remote": remote, "Fails": fails} {
		wk.RegisterWorkflowWithOptions(fn, workflow.RegisterOptions{Name: name})
	}
	replaytest.Register(wk)
	for _, name := range []string{"Build", "Deploy"} {
		wk.RegisterActivityWithOptions(func(_ context.Context, what string) (string, error) {
			return what, appendLine(w.effects, name+" "+what)
		}, activity.RegisterOptions{Name: name})
	}
	require.NoError(w.t, wk.Start())
	stop := sync.OnceFunc(wk.Stop)
	w.t.Cleanup(stop)
	return stopper{wk, stop}
}

// stopper is a worker that can be stopped in the middle of a test.
type stopper struct {
	sdkworker.Worker
	stop func()
}

func (s stopper) Stop() { s.stop() }

// run starts a workflow of the team's with the world's id and a suffix.
func (w *world) run(suffix, workflowType string, args ...any) client.WorkflowRun {
	w.t.Helper()
	run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id + suffix, TaskQueue: w.queue,
		WorkflowTaskTimeout: 5 * time.Second}, workflowType, args...)
	require.NoError(w.t, err)
	return run
}

func (w *world) get(run client.WorkflowRun) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out string
	err := run.Get(ctx, &out)
	require.NotErrorIs(w.t, err, context.DeadlineExceeded)
	return out, err
}

// asked waits until a team's workflow has n open questions.
func (w *world) asked(id string, n int) []approval.Approval {
	w.t.Helper()
	var l approval.List
	require.Eventually(w.t, func() bool {
		var err error
		l, err = w.listOf(id, protocol.GuardQueryApprovals)
		return err == nil && len(l.Pending) == n
	}, patience, tick)
	return l.Pending
}

func (w *world) resolveIn(id, key string, choice approval.Choice) {
	w.t.Helper()
	require.NoError(w.t, w.c.SignalWorkflow(context.Background(), id, "", protocol.GuardSignalApproval, approval.Resolution{Key: key, Decision: choice}))
}

func (w *world) eventsOf(run client.WorkflowRun) []*historypb.HistoryEvent {
	w.t.Helper()
	var out []*historypb.HistoryEvent
	for e, err := range history.Read(context.Background(), w.c, run.GetID(), run.GetRunID()) {
		require.NoError(w.t, err)
		out = append(out, e)
	}
	return out
}

func (w *world) built(service string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return contains(w.ran(), "Build "+service) }, patience, tick)
}

func contains(lines []string, line string) bool {
	for _, l := range lines {
		if l == line {
			return true
		}
	}
	return false
}

func (w *world) goOn(run client.WorkflowRun) {
	w.t.Helper()
	require.NoError(w.t, w.c.SignalWorkflow(context.Background(), run.GetID(), "", "go", nil))
}

// A worker gains the guard while its workflows run and loses it again. Runs end as they began: those that are older
// than the guard without it, those that began behind it behind it, and those that began while it was drained without.
func TestGuardComesAndGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bare := w.team()
	old := w.run("-old", "Staged", "old")
	w.built("old")
	bare.Stop()

	guarded := w.team(newGuard(t, func() worker.GuardConfig { c := guardConfig(); c.Enforce = activities.Log; return c }()))
	w.goOn(old)
	_, err := w.get(old)
	require.NoError(t, err, "a run that is older than the guard is not asked about")
	behind, waiting, unasked := w.run("-behind", "Staged", "behind"), w.run("-waiting", "Staged", "waiting"), w.run("-unasked", "Staged", "unasked")
	for _, s := range []string{"behind", "waiting", "unasked"} {
		w.built(s)
	}
	w.goOn(behind)
	w.goOn(waiting)
	// How docs/embedding.md finds the runs that are gated.
	w.listed("TemporalChangeVersion='assent-1'", 3)
	question, held := w.asked(behind.GetID(), 1)[0], w.asked(waiting.GetID(), 1)[0]
	guarded.Stop()

	cfg := guardConfig()
	cfg.Drain = true
	draining := w.team(newGuard(t, cfg))
	fresh := w.run("-fresh", "Staged", "fresh")
	w.built("fresh")
	free := w.run("-free", "Staged", "free")
	w.goOn(free)
	_, err = w.get(free)
	require.NoError(t, err, "no grant is asked of what drains")
	require.Empty(t, w.deployed("behind"))
	w.resolveIn(behind.GetID(), question.Key, approval.Allow)
	_, err = w.get(behind)
	require.NoError(t, err)
	draining.Stop()

	// The guard is gone. What began while it was drained, or has not met it yet, goes on.
	bare = w.team()
	w.goOn(fresh)
	w.goOn(unasked)
	for _, run := range []client.WorkflowRun{fresh, unasked} {
		_, err = w.get(run)
		require.NoError(t, err)
	}
	// A run in the middle of a question cannot go on without it; it waits, and says why, until the guard is back.
	w.resolveIn(waiting.GetID(), held.Key, approval.Allow)
	require.Eventually(t, func() bool { return strings.Contains(w.failedTask(waiting), "nondeterministic") }, patience, tick)
	require.Empty(t, w.deployed("waiting"))
	bare.Stop()
	w.team(newGuard(t, cfg))
	_, err = w.get(waiting)
	require.NoError(t, err)
	for _, s := range []string{"old", "behind", "waiting", "unasked", "fresh"} {
		require.Len(t, w.deployed(s), 1, s)
	}
}

// listed waits until n running workflows of the team match a query.
func (w *world) listed(query string, n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		l, err := w.c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: query + " AND ExecutionStatus='Running' AND TaskQueue='" + w.queue + "'"})
		return err == nil && len(l.GetExecutions()) == n
	}, patience, tick)
}

func (w *world) deployed(service string) (out []string) {
	for _, l := range w.ran() {
		if l == "Deploy "+service {
			out = append(out, l)
		}
	}
	return out
}

// failedTask is the message of the last workflow task that failed.
func (w *world) failedTask(run client.WorkflowRun) (msg string) {
	for _, e := range w.eventsOf(run) {
		if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil {
			msg = a.GetFailure().GetMessage()
		}
	}
	return msg
}

// A run that continues as new closes its questions, and the next one never gives their keys again: an answer to the
// old question does not open the new one.
func TestGuardedContinueAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team(newGuard(t, guardConfig()))
	first := w.run("", "Rounds", 1)
	old := w.asked(w.id, 1)[0]
	require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", "next", nil))
	var next approval.Approval
	require.Eventually(t, func() bool {
		p := w.asked(w.id, 1)
		next = p[0]
		return next.Key != old.Key
	}, patience, tick)
	require.Equal(t, old.Key+".2", next.Key)
	require.Equal(t, "assent-2", next.CallID, "calls are numbered through all runs")

	w.resolveIn(w.id, old.Key, approval.Allow)
	var l approval.List
	require.Eventually(t, func() bool {
		var err error
		l, err = w.listOf(w.id, protocol.GuardQueryApprovals)
		return err == nil && len(l.Ignored) == 1
	}, patience, tick)
	require.Contains(t, l.Ignored[0].Why, "is not pending, it was abandoned before")
	require.Empty(t, w.ran())

	w.resolveIn(w.id, next.Key, approval.Allow)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, first.Get(ctx, nil))
	require.Equal(t, []string{"Deploy api"}, w.ran())

	d, err := w.c.DescribeWorkflow(ctx, w.id, "")
	require.NoError(t, err)
	status, ok := d.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(protocol.AttrStatus))
	require.True(t, ok)
	require.Equal(t, string(protocol.StatusDone), status)
	for _, e := range w.eventsOf(first) {
		if a := e.GetWorkflowExecutionContinuedAsNewEventAttributes(); a != nil {
			require.NotContains(t, a.GetHeader().String(), `"args"`)
		}
	}
	replaytest.Replay(t, &historypb.History{Events: w.eventsOf(first)})
	replaytest.Replay(t, &historypb.History{Events: w.history()})
}

// A guarded local activity waits, is denied and runs like any other, and its worker wants its grant.
func TestGuardedLocalActivity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team(newGuard(t, guardConfig()))
	for i, choice := range []approval.Choice{approval.Allow, approval.Deny} {
		id := []string{"-yes", "-no"}[i]
		run := w.run(id, "LocalRelease", "api")
		w.resolveIn(w.id+id, w.asked(w.id+id, 1)[0].Key, choice)
		_, err := w.get(run)
		if choice == approval.Allow {
			require.NoError(t, err)
		} else {
			require.Equal(t, protocol.ErrorDenied, appError(t, err).Type())
		}
		replaytest.Replay(t, &historypb.History{Events: w.eventsOf(run)})
	}
	require.Equal(t, []string{"Deploy api"}, w.ran())
}

func appError(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app), "%v", err)
	return app
}

// A guarded workflow type passes the gate in its own run: as a child of a parent that knows nothing of guards, and
// started by anybody with any header. One that continues as new has passed.
func TestGuardedWorkflowType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := guardConfig()
	cfg.Tools, cfg.Workflows = nil, map[string]tool.Options{"Release": {Risk: tool.Execute}, "Twice": {Risk: tool.Execute}}
	w.team(newGuard(t, cfg))
	other := w.queue + "-bare"
	w.teamOn(other)

	for _, choice := range []approval.Choice{approval.Deny, approval.Allow} {
		run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id + string(choice), TaskQueue: other},
			"Parent", w.queue, "Release", "api")
		require.NoError(t, err)
		child := w.id + string(choice) + "-child"
		q := w.asked(child, 1)[0]
		require.JSONEq(t, `{"args":["api"]}`, string(q.Input))
		require.Empty(t, w.ran(), "nothing of it runs before the answer")
		w.resolveIn(child, q.Key, choice)
		_, err = w.get(run)
		if choice == approval.Deny {
			require.Equal(t, protocol.ErrorDenied, appError(t, err).Type())
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []string{"Build api", "Deploy api"}, w.ran())
	}

	// A header that says that it has passed is not believed: nothing was before this run.
	forged, err := converter.GetDefaultDataConverter().ToPayload(protocol.Carry{Calls: 1, Passed: "Twice"})
	require.NoError(t, err)
	ctx := context.Background()
	arg, err := converter.GetDefaultDataConverter().ToPayloads("x")
	require.NoError(t, err)
	_, err = w.c.WorkflowService().StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: w.id + "-forged", RequestId: w.id, WorkflowType: &commonpb.WorkflowType{Name: "Twice"},
		TaskQueue: &taskqueuepb.TaskQueue{Name: w.queue}, Input: arg,
		Header: &commonpb.Header{Fields: map[string]*commonpb.Payload{protocol.HeaderCarry: forged}}})
	require.NoError(t, err)
	w.resolveIn(w.id+"-forged", w.asked(w.id+"-forged", 1)[0].Key, approval.Allow)
	out, err := w.get(w.c.GetWorkflow(ctx, w.id+"-forged", ""))
	require.NoError(t, err)
	require.Equal(t, "x", out, "the second run was not asked about")
}

// What on refuses, log lets through and reports: in the log and as a metric.
func TestEnforceLogReports(t *testing.T) {
	t.Parallel()
	for _, mode := range []activities.Enforce{activities.On, activities.Log, activities.Off} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t)
			var said lockedText
			cfg := guardConfig()
			cfg.Enforce, cfg.Log = mode, slog.New(slog.NewTextHandler(&said, nil))
			// The activity's worker has the guard, the workflow's has not: the call comes without a grant.
			w.teamOn(w.queue+"-tools", newGuard(t, cfg))
			w.team()
			run := w.run("", "Remote", w.queue+"-tools")
			_, err := w.get(run)
			if mode == activities.On {
				require.Equal(t, protocol.ErrorDenied, appError(t, err).Type())
				require.Empty(t, w.ran())
				require.Contains(t, said.String(), "tool refused")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"Deploy api"}, w.ran())
			if mode == activities.Log {
				require.Contains(t, said.String(), `would be refused" activity=Deploy`)
				require.Contains(t, said.String(), "the call carries no grant")
			} else {
				require.NotContains(t, said.String(), "refused")
			}
		})
	}
}

// lockedText collects a log.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A run that the server begins anew, after one that failed, asks under a key of its own: an answer to the run before
// does not open it.
func TestGuardedRetryAsksUnderANewKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team(newGuard(t, guardConfig()))
	_, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaximumAttempts: 2}}, "Fails")
	require.NoError(t, err)
	old := w.asked(w.id, 1)[0]
	require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", "fail", nil))
	var next approval.Approval
	require.Eventually(t, func() bool {
		next = w.asked(w.id, 1)[0]
		return next.Seal.RunID != old.Seal.RunID
	}, patience, tick)
	require.NotEqual(t, old.Key, next.Key)
	w.resolveIn(w.id, old.Key, approval.Allow)
	w.resolveIn(w.id, next.Key, approval.Deny)
	_, err = w.get(w.c.GetWorkflow(context.Background(), w.id, ""))
	require.Equal(t, protocol.ErrorDenied, appError(t, err).Type())
	require.Empty(t, w.ran())
}

// fails deploys and, at a signal, fails for no reason.
func fails(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	deployed := workflow.ExecuteActivity(ctx, "Deploy", "api")
	var err error
	sel := workflow.NewSelector(ctx)
	sel.AddFuture(deployed, func(f workflow.Future) { err = f.Get(ctx, nil) })
	sel.AddReceive(workflow.GetSignalChannel(ctx, "fail"), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		err = errors.New("it did not work")
	})
	sel.Select(ctx)
	return err
}

// A build that guards more, and one on its way to guard less, replay the runs of the one before as they were.
func TestWhatIsGuardedChangesBetweenBuilds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	less, more := guardConfig(), guardConfig()
	more.Tools = map[string]tool.Options{"Deploy": {Risk: tool.Execute}, "Build": {Risk: tool.Execute}}
	first := w.team(newGuard(t, less))
	a := w.run("-a", "Staged", "a")
	w.built("a")
	first.Stop()

	second := w.team(newGuard(t, more))
	b := w.run("-b", "Staged", "b")
	q := w.asked(b.GetID(), 1)[0]
	require.Equal(t, "Build", q.Tool)
	w.listed("TemporalChangeVersion='assent/Build-1'", 1)
	w.goOn(a)
	require.Equal(t, "Deploy", w.asked(a.GetID(), 1)[0].Tool, "what was guarded when it began still is; Build never was")
	second.Stop()

	// Both are to be guarded no more: what was asked stays so, what a run has not come to yet is free.
	more.Draining = []string{"Build", "Deploy"}
	w.team(newGuard(t, more))
	w.resolveIn(b.GetID(), q.Key, approval.Allow)
	w.built("b")
	w.goOn(b)
	w.resolveIn(a.GetID(), w.asked(a.GetID(), 1)[0].Key, approval.Allow)
	for _, run := range []client.WorkflowRun{a, b, w.run("-c", "Release", "c")} {
		_, err := w.get(run)
		require.NoError(t, err)
		for _, e := range w.eventsOf(run) {
			require.Nil(t, e.GetWorkflowTaskFailedEventAttributes(), "%v", e)
		}
	}
	for _, s := range []string{"a", "b", "c"} {
		require.Len(t, w.deployed(s), 1)
	}
}
