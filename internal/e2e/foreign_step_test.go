package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// A workflow that fails because one of its steps did has run: what became of the step is not what became of the call.
func TestForeignWorkflowFailsByAStep(t *testing.T) {
	t.Parallel()
	do := func(ctx workflow.Context, typ, queue string, toClose time.Duration) error {
		o := workflow.ActivityOptions{TaskQueue: queue, StartToCloseTimeout: toClose, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}
		if queue == "nobody" {
			o.ScheduleToStartTimeout = time.Second
		}
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), typ).Get(ctx, nil)
	}
	for name, c := range map[string]struct {
		step func(ctx workflow.Context) error
		code tool.Code
		says string
	}{
		"its error":             {func(ctx workflow.Context) error { return do(ctx, "Poor", "", time.Minute) }, tool.ToolError, "a step of the workflow failed: no money (Poor)"},
		"its type is not known": {func(ctx workflow.Context) error { return do(ctx, "Nothing", "", time.Minute) }, tool.ToolError, "a step of the workflow failed: "},
		"it was refused":        {func(ctx workflow.Context) error { return do(ctx, "Refused", "", time.Minute) }, tool.ToolError, "a step of the workflow failed: not this"},
		"it never started":      {func(ctx workflow.Context) error { return do(ctx, "Poor", "nobody", time.Minute) }, tool.EffectUnknown, "a step of the workflow failed: "},
		"it took too long":      {func(ctx workflow.Context) error { return do(ctx, "Long", "", 100*time.Millisecond) }, tool.EffectUnknown, "a step of the workflow failed: "},
		"below its own error": {func(ctx workflow.Context) error {
			return temporal.NewApplicationErrorWithCause("half of it is done", "Half", do(ctx, "Poor", "nobody", time.Minute))
		}, tool.ToolError, "half of it is done (Half)"},
		"its gate refused it": {func(workflow.Context) error {
			return temporal.NewNonRetryableApplicationError("not this", protocol.ErrorDenied, nil)
		}, tool.Denied, "not this"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := &billing{queue: w.queue + "-steps"}
			wk := sdkworker.New(w.c, b.queue, sdkworker.Options{DeadlockDetectionTimeout: deadlock})
			for typ, err := range map[string]error{"Poor": temporal.NewApplicationError("no money", "Poor"),
				"Refused": temporal.NewNonRetryableApplicationError("not this", protocol.ErrorDenied, nil)} {
				wk.RegisterActivityWithOptions(func(context.Context) error { return err }, activity.RegisterOptions{Name: typ})
			}
			wk.RegisterActivityWithOptions(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, activity.RegisterOptions{Name: "Long"})
			wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ refundIn) error { return c.step(ctx) }, workflow.RegisterOptions{Name: "Steps"})
			require.NoError(t, wk.Start())
			t.Cleanup(wk.Stop)
			w.workForeign(setup{Script: script("{tool: x, args: {orderId: a}}")}, nil, b.child(t, "x", "Steps"))
			r := w.one()
			require.Equal(t, c.code, r.Code, "%+v", r.Failure)
			require.Contains(t, r.Failure.Message, c.says)
			require.NotContains(t, r.Failure.Message, "and it never started")
			require.Equal(t, name != "below its own error", r.Failure.Started)
			replaytest.Replay(t, &historypb.History{Events: w.history()})
		})
	}
}

// A worker that does not know the type says nothing of the attempts before it.
func TestForeignTypeThatTheLastWorkerDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := &billing{queue: w.queue + "-two"}
	wk := sdkworker.New(w.c, b.queue, sdkworker.Options{DeadlockDetectionTimeout: deadlock})
	wk.RegisterActivityWithOptions(func(ctx context.Context, _ refundIn) error {
		if activity.GetInfo(ctx).Attempt > 1 {
			return temporal.NewApplicationError("unable to find activityType", "ActivityNotRegisteredError")
		}
		return errors.New("half of it is done")
	}, activity.RegisterOptions{Name: "Half"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	w.workForeign(setup{Script: script(oneRefund)}, nil, b.act(t, "refund", "Half", tool.Write,
		tool.Retry{MaximumAttempts: 2, InitialInterval: time.Millisecond}, tool.Timeouts{ScheduleToStart: 10 * time.Second}))
	r := w.one()
	require.Equal(t, tool.EffectUnknown, r.Code, "%+v", r.Failure)
	require.Contains(t, r.Failure.Message, "does not know it")
}

// An attempt that comes too late for its approval is not the only one there was.
func TestForeignRetryAfterTheApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guard, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"Half": {Risk: tool.Write}},
		GrantKeys: []protocol.GrantKey{grantKey}, Enforce: activities.On, Log: logger()})
	require.NoError(t, err)
	b := &billing{queue: w.queue + "-guarded"}
	wk := sdkworker.New(w.c, b.queue, sdkworker.Options{DeadlockDetectionTimeout: deadlock, Plugins: []sdkworker.Plugin{guard}})
	wk.RegisterActivityWithOptions(func(context.Context, refundIn) error {
		b.note("half")
		return errors.New("half of it is done")
	}, activity.RegisterOptions{Name: "Half"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	w.workForeign(setup{Keys: true, Script: script(oneRefund)}, nil, b.act(t, "refund", "Half", tool.Write, tool.NeedsApproval(),
		tool.Retry{MaximumAttempts: 2, InitialInterval: 15 * time.Second}))
	w.start(protocol.AgentInput{})
	answer, err := json.Marshal(protocol.Resolution{Key: w.pending(1)[0].Key, Decision: approval.Allow, ExpiresAt: ptr(time.Now().Add(10 * time.Second))})
	require.NoError(t, err)
	w.send(string(answer))
	r := w.results(w.result())[0].Result
	require.Equal(t, tool.EffectUnknown, r.Code, "%+v", r.Failure)
	require.Equal(t, []string{"half"}, b.notes())
}
