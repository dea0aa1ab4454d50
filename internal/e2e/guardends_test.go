package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// holding starts a worker whose guarded activity Hold begins and waits; the workflow Held cancels it at the signal stop.
func (w *world) holding() {
	w.t.Helper()
	cfg := guardConfig()
	cfg.Tools, cfg.Permissions = map[string]tool.Options{"Hold": {Risk: tool.Execute}}, permission.Layer{}
	wk := sdkworker.New(w.c, w.queue, options(newGuard(w.t, cfg)))
	wk.RegisterWorkflowWithOptions(func(ctx workflow.Context) (string, error) {
		ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute,
			HeartbeatTimeout: time.Minute, WaitForCancellation: true, RetryPolicy: &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond}}))
		workflow.Go(ctx, func(ctx workflow.Context) {
			workflow.GetSignalChannel(ctx, "stop").Receive(ctx, nil)
			cancel()
		})
		var out string
		return out, workflow.ExecuteActivity(ctx, "Hold").Get(ctx, &out)
	}, workflow.RegisterOptions{Name: "Held"})
	wk.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		if err := appendLine(w.effects, "hold"); err != nil {
			return "", err
		}
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(tick):
			}
		}
		return "", ctx.Err()
	}, activity.RegisterOptions{Name: "Hold"})
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
}

// Cancellation is cancellation behind the gate too: the workflow hears of it as of any activity's.
func TestGuardedActivityIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.holding()
	run := w.run("", "Held")
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", "stop", nil))
	_, err := w.get(run)
	require.True(t, temporal.IsCanceledError(err), "%v", err)
}

// A run that the server tries again has not passed because of what its client says: it is no continuation.
func TestARetriedWorkflowIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := guardConfig()
	cfg.Tools, cfg.Workflows = nil, map[string]tool.Options{"Release": {Risk: tool.Execute}, "Twice": {Risk: tool.Execute}}
	w.team(newGuard(t, cfg))
	forged, err := converter.GetDefaultDataConverter().ToPayload(protocol.Carry{Calls: 1, Passed: "Release"})
	require.NoError(t, err)
	ctx := context.Background()
	arg, err := converter.GetDefaultDataConverter().ToPayloads("x")
	require.NoError(t, err)
	first, err := w.c.WorkflowService().StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: w.id, RequestId: w.id, WorkflowType: &commonpb.WorkflowType{Name: "Release"},
		TaskQueue: &taskqueuepb.TaskQueue{Name: w.queue}, Input: arg, WorkflowRunTimeout: durationpb.New(3 * time.Second),
		RetryPolicy: &commonpb.RetryPolicy{InitialInterval: durationpb.New(10 * time.Millisecond)},
		Header:      &commonpb.Header{Fields: map[string]*commonpb.Payload{protocol.HeaderCarry: forged}}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		d, err := w.c.DescribeWorkflow(ctx, w.id, "")
		return err == nil && d.WorkflowExecution.RunID != first.GetRunId()
	}, patience, tick)
	q := w.asked(w.id, 1)[0]
	require.Empty(t, w.ran())
	w.resolveIn(w.id, q.Key, approval.Deny)
}

// A workflow that is cancelled while a call of it waits for an answer ends as cancelled.
func TestCancelledWhileAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team(newGuard(t, guardConfig()))
	run := w.run("", "Release", "api")
	w.asked(w.id, 1)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	_, err := w.get(run)
	require.True(t, temporal.IsCanceledError(err), "%v", err)
	h := w.eventsOf(run)
	require.Equal(t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, h[len(h)-1].GetEventType())
	replaytest.Replay(t, &historypb.History{Events: h})
}

// A hook that takes longer than a decision may take is declared slow: then neither the question nor its answer is
// denied for want of time.
func TestSlowHooksAreAskedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := guardConfig()
	cfg.DecideTimeout = 4 * time.Second
	cfg.Permissions.Hooks = []permission.Hook{{Name: "elsewhere", Slow: true, Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		time.Sleep(cfg.DecideTimeout + time.Second)
		return permission.Answer{}, nil
	}}}
	w.team(newGuard(t, cfg))
	run := w.run("", "Rounds", 1)
	w.resolveIn(w.id, w.asked(w.id, 1)[0].Key, approval.Allow)
	_, err := w.get(run)
	require.NoError(t, err)
	require.Len(t, w.ran(), 1)
	replaytest.Replay(t, &historypb.History{Events: w.eventsOf(run)})
}
