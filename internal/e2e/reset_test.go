package e2e

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// reset begins a new run from the workflow task that event finished.
func (w *world) reset(run string, event int64) string {
	w.t.Helper()
	resp, err := w.c.WorkflowService().ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: w.id, RunId: run},
		Reason: "test", WorkflowTaskFinishEventId: event, RequestId: uuid.NewString(),
	})
	require.NoError(w.t, err)
	return resp.GetRunId()
}

// finishedTasks are the workflow tasks a run can be reset to.
func (w *world) finishedTasks() []int64 {
	var out []int64
	for _, e := range w.history() {
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			out = append(out, e.EventId)
		}
	}
	return out
}

// A reset delivers old answers again. Whatever task it goes back to, no tool runs on an answer that was given to
// another run: either its result is in the kept history, or the question is put again under a new key.
func TestResetToEveryTaskNeverRunsOnAVoidAnswer(t *testing.T) {
	for _, by := range []string{"signal", "update"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			w.work(askingWith(oneAsk))
			run := w.start(protocol.AgentInput{}).GetRunID()
			key := w.pending(1)[0].Key
			if by == "signal" {
				w.answer(key, approval.Allow)
			} else {
				_, err := w.c.UpdateWorkflow(context.Background(), client.UpdateWorkflowOptions{WorkflowID: w.id, UpdateName: protocol.UpdateResolve,
					Args: []any{protocol.Resolution{Key: key, Decision: approval.Allow}}, WaitForStage: client.WorkflowUpdateStageCompleted})
				require.NoError(t, err)
			}
			require.Equal(t, protocol.OK, w.result().Status)
			require.Len(t, w.ran(), 1)
			asked := 0
			for _, event := range w.finishedTasks() {
				next := w.reset(run, event)
				if w.settles(next) {
					require.Len(t, w.ran(), 1+asked, "event %d: the kept history has the result", event)
					continue
				}
				require.Len(t, w.ran(), 1+asked, "event %d: nothing ran on a void answer", event)
				// Only a fresh answer lets it run.
				q := w.pending(1)[0]
				w.answer(q.Key, approval.Allow)
				asked++
				require.Equal(t, protocol.OK, w.result().Status, "event %d", event)
				require.Len(t, w.ran(), 1+asked, "event %d", event)
			}
			require.Positive(t, asked)
			t.Logf("%d times asked again", asked)
		})
	}
}

// settles reports whether a run ends by itself; false means that it asks.
func (w *world) settles(run string) bool {
	w.t.Helper()
	var closed bool
	require.Eventually(w.t, func() bool {
		d, err := w.c.DescribeWorkflow(context.Background(), w.id, run)
		if err != nil {
			return false
		}
		if closed = d.RawResponse.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING; closed {
			return true
		}
		l, err := w.list()
		// An old answer that was delivered again may still be on its way to be found void.
		return err == nil && len(l.Pending) == 1 && !w.busy(run)
	}, patience, tick)
	return closed
}

// busy reports whether a workflow task or an activity of the run is still to come.
func (w *world) busy(run string) bool {
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, run)
	return err != nil || d.RawResponse.PendingWorkflowTask != nil || len(d.RawResponse.PendingActivities) > 0
}

// A call that was in flight when the run was reset is not run a second time: the model is told that its effect is
// unknown.
func TestResetWhileAToolRuns(t *testing.T) {
	w := newWorld(t)
	s := setup{Keys: true, Script: `
turns:
  - calls: [{tool: hold, args: {text: a}}]
  - say: done
`}
	w.work(s)
	run := w.start(protocol.AgentInput{}).GetRunID()
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	// A signal makes a workflow task while the tool runs; that is where the reset goes.
	w.send(`{"key":"none","decision":"allow"}`)
	var event int64
	require.Eventually(t, func() bool {
		signaled := false
		for _, e := range w.history() {
			signaled = signaled || e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
			if signaled && e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				event = e.EventId
			}
		}
		return event > 0
	}, patience, tick)
	w.reset(run, event)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"EFFECT_UNKNOWN"}, w.codes(res))
	require.Equal(t, []string{"hold a"}, w.ran(), "it did not run again")
}
