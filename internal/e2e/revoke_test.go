package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// revoking are the two ways in which an allow is taken back. By update its sender is told whether the call was on its way.
var revoking = map[string]func(a *asker, key string, dispatched bool){
	"signal": func(a *asker, key string, _ bool) {
		a.say(`{"key":"` + key + `","decision":"revoke","by":"bob","reason":"wrong host"}`)
	},
	"update": func(a *asker, key string, dispatched bool) {
		h, err := a.c.UpdateWorkflow(context.Background(), client.UpdateWorkflowOptions{WorkflowID: a.id, UpdateName: a.update,
			Args:         []any{approval.Resolution{Key: key, Decision: approval.Revoke, By: "bob", Reason: "wrong host"}},
			WaitForStage: client.WorkflowUpdateStageCompleted})
		require.NoError(a.t, err)
		var out protocol.Accepted
		require.NoError(a.t, h.Get(context.Background(), &out))
		require.Equal(a.t, protocol.Accepted{Key: key, Decision: approval.Revoke, Dispatched: dispatched}, out)
	},
}

func (w *world) asAgent() *asker {
	return &asker{world: w, signal: protocol.SignalApproval, update: protocol.UpdateResolve, query: protocol.QueryApprovals,
		codes: func() []string { return w.codes(w.result()) }}
}

func (w *world) asGuarded() *asker {
	return &asker{world: w, signal: protocol.GuardSignalApproval, update: protocol.GuardUpdateResolve, query: protocol.GuardQueryApprovals}
}

// queued waits until a call is with the server and no worker has it.
func (a *asker) queued() {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		d, err := a.c.DescribeWorkflow(context.Background(), a.id, "")
		if err != nil || len(d.RawResponse.GetPendingActivities()) != 1 {
			return false
		}
		return d.RawResponse.GetPendingActivities()[0].GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
	}, patience, tick)
}

// revoked is the record of the only question, once its call has ended.
func (a *asker) revoked() approval.Closed {
	a.t.Helper()
	l := a.until(func(l approval.List) bool { return len(l.Closed) > 0 && len(l.Granted) == 0 })
	c := l.Closed[0]
	require.Equal(a.t, approval.Allowed, c.How)
	require.Equal(a.t, "alice", c.By)
	require.NotNil(a.t, c.Revoked)
	require.Equal(a.t, "bob", c.Revoked.By)
	require.Equal(a.t, "wrong host", c.Revoked.Reason)
	require.True(a.t, c.Revoked.Dispatched)
	return c
}

func allowOfAlice(key string) string { return `{"key":"` + key + `","decision":"allow","by":"alice"}` }

// A call was allowed and is queued, and nobody polls its queue: a revoke means that it never runs, also when a worker comes.
func TestRevokeOfAQueuedCall(t *testing.T) {
	t.Parallel()
	for via, revoke := range revoking {
		t.Run("agent, "+via, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := askingWith(oneAsk)
			first := w.work(s)
			a := w.asAgent()
			w.start(protocol.AgentInput{})
			key := a.open(1)[0].Key
			first.Stop()
			p, done, err := plugin(s, w.c, w.effects, w.blobs)
			require.NoError(t, err)
			t.Cleanup(done)
			o := options(p)
			o.LocalActivityWorkerOnly = true
			deciding := sdkworker.New(w.c, w.queue, o)
			require.NoError(t, deciding.Start())
			t.Cleanup(deciding.Stop)
			a.say(allowOfAlice(key))
			a.queued()
			revoke(a, key, true)
			a.until(func(l approval.List) bool { return len(l.Granted) == 0 })
			w.work(s)
			require.Equal(t, []string{"DENIED/revoked"}, a.codes())
			require.Equal(t, tool.Denied, a.revoked().Revoked.Outcome)
			require.Empty(t, w.ran())
			require.Zero(t, count(w.history(), enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT))
			w.sound()
		})
		t.Run("guarded workflow, "+via, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.watching(w.queue)
			a := w.asGuarded()
			run := w.run("", "Watched", w.queue+"-nobody")
			key := a.open(1)[0].Key
			a.say(allowOfAlice(key))
			a.queued()
			revoke(a, key, true)
			told, err := w.get(run)
			require.NoError(t, err)
			require.Equal(t, "DENIED/revoked", told)
			require.Equal(t, tool.Denied, a.revoked().Revoked.Outcome)
			require.Empty(t, w.ran())
			require.Zero(t, count(w.eventsOf(run), enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED))
		})
	}
}

// watched begins, waits until its context ends, and notes that it did.
func watched(ctx context.Context, effects string) error {
	if err := appendLine(effects, "began"); err != nil {
		return err
	}
	for beat := time.NewTicker(tick); ; {
		select {
		case <-ctx.Done():
			return errors.Join(appendLine(effects, "stopped"), ctx.Err())
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// watching starts a worker whose workflow Watched makes one guarded call on a queue and says what became of it.
func (w *world) watching(queue string) {
	w.t.Helper()
	wk := sdkworker.New(w.c, queue, options(newGuard(w.t, guardConfig())))
	wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, queue string) (string, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: queue, StartToCloseTimeout: 10 * time.Minute,
			HeartbeatTimeout: 10 * time.Second, WaitForCancellation: true, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
		return refusal(workflow.ExecuteActivity(ctx, "Deploy").Get(ctx, nil)), nil
	}, workflowNamed("Watched"))
	wk.RegisterActivityWithOptions(func(ctx context.Context) error { return watched(ctx, w.effects) }, activity.RegisterOptions{Name: "Deploy"})
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
}

// A call runs and its allow is taken back: it hears that its context ends, and whoever made the call is told that it had
// begun. What has ended cannot be taken back.
func TestRevokeOfARunningCall(t *testing.T) {
	t.Parallel()
	for via, revoke := range revoking {
		t.Run("agent, "+via, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.workLike(asking, func(c *worker.Config, p *config.Profile) {
				c.Models["other"], p.Models = turns{{Calls: wires("watch", "a"), Stop: model.StopToolUse}, {Calls: wires("run", "b"), Stop: model.StopToolUse}}, []string{"other:x"}
				c.Tools = append(c.Tools, tool.MustNew("watch", "Waits.", func(ctx context.Context, _ *tool.Context, _ noteIn) (string, error) {
					return "", watched(ctx, w.effects)
				}, tool.Execute))
				p.Tools = append(p.Tools, "watch")
			})
			a := w.asAgent()
			w.start(protocol.AgentInput{})
			key := a.open(1)[0].Key
			a.say(allowOfAlice(key))
			require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
			require.True(t, a.until(func(l approval.List) bool { return len(l.Granted) == 1 }).Granted[0].Dispatched)
			revoke(a, key, true)
			next := a.until(func(l approval.List) bool { return len(l.Pending) == 1 }).Pending[0]
			require.Equal(t, tool.Aborted, a.revoked().Revoked.Outcome)
			require.Equal(t, []string{"began", "stopped"}, w.ran())

			require.ErrorContains(t, a.resolve(approval.Resolution{Key: key, Decision: approval.Revoke}), "already allowed")
			a.say(`{"key":"` + key + `","decision":"revoke","by":"carol"}`)
			l := a.until(func(l approval.List) bool { return len(l.Ignored) == 1 })
			require.Equal(t, "carol", l.Ignored[0].By)
			require.Equal(t, "bob", l.Closed[0].Revoked.By)
			a.say(`{"key":"` + next.Key + `","decision":"revoke"}`)
			require.Equal(t, []string{"ABORTED/revoked", "DENIED/revoked"}, a.codes())
			require.Len(t, w.ran(), 2)
			w.sound()
		})
		t.Run("guarded workflow, "+via, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.watching(w.queue)
			a := w.asGuarded()
			run := w.run("", "Watched", w.queue)
			key := a.open(1)[0].Key
			a.say(allowOfAlice(key))
			require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
			revoke(a, key, true)
			told, err := w.get(run)
			require.NoError(t, err)
			require.Equal(t, "ABORTED/revoked", told)
			require.Equal(t, tool.Aborted, a.revoked().Revoked.Outcome)
			require.Equal(t, []string{"began", "stopped"}, w.ran())
		})
	}
}
