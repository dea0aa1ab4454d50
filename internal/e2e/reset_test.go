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

// A reset delivers old answers again. Whatever task it goes back to, and whatever task of the run after it is gone back to
// next, no tool runs on an answer that was given to another run: its result is in the kept history, its effect is unknown,
// or the question is put again under a new key.
func TestResetToEveryTaskNeverRunsOnAVoidAnswer(t *testing.T) {
	t.Parallel()
	const oneHold = "\nturns:\n  - calls: [{tool: hold, args: {text: a}}]\n  - say: done\n"
	for name, tc := range map[string]struct {
		script string
		// answer ends the question of a key.
		answer func(w *world, key string)
		// codes are what the model may be told by a run that does not ask again.
		codes []string
		// deep goes back to every task of every run that a reset began; otherwise only to its last.
		deep bool
	}{
		"allowed by signal": {oneAsk, func(w *world, key string) { w.answer(key, approval.Allow) }, []string{"OK"}, true},
		"allowed by update": {oneAsk, func(w *world, key string) {
			require.NoError(w.t, w.update(protocol.Resolution{Key: key, Decision: approval.Allow}))
		}, []string{"OK"}, true},
		"edited": {oneAsk, func(w *world, key string) {
			w.send(`{"key":"` + key + `","decision":"allow","input":{"text":"b"}}`)
		}, []string{"OK"}, false},
		"denied": {oneAsk, func(w *world, key string) { w.answer(key, approval.Deny) }, []string{"DENIED/person"}, false},
		"denied by update": {oneAsk, func(w *world, key string) {
			require.NoError(w.t, w.update(protocol.Resolution{Key: key, Decision: approval.Deny}))
		}, []string{"DENIED/person"}, false},
		"expired": {oneAsk, func(w *world, key string) {
			w.send(`{"key":"` + key + `","decision":"allow","expiresAt":"2001-01-01T00:00:00Z"}`)
		}, []string{"DENIED/expired"}, false},
		"revoked": {oneAsk, func(w *world, key string) { w.answer(key, approval.Revoke) }, []string{"DENIED/revoked"}, false},
		"in flight": {oneHold, func(w *world, key string) {
			w.answer(key, approval.Allow)
			require.Eventually(w.t, func() bool { return len(w.ran()) == 1 }, patience, tick)
			// A signal makes a workflow task while the tool runs.
			w.send(`{"key":"none","decision":"allow"}`)
			require.Eventually(w.t, func() bool { l, err := w.list(); return err == nil && len(l.Ignored) == 1 }, patience, tick)
			require.NoError(w.t, appendLine(w.effects+".go", "go"))
		}, []string{"OK", "EFFECT_UNKNOWN"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(askingWith(tc.script))
			run := w.start(protocol.AgentInput{}).GetRunID()
			tc.answer(w, w.pending(1)[0].Key)
			first := w.result()
			require.Equal(t, tc.codes[0], w.codes(first)[0])
			ran := len(w.ran())
			told := map[string]bool{}
			// settle looks at a run that a reset has begun.
			settle := func(run string, events ...int64) (asks bool) {
				if w.settles(run) {
					code := w.codes(w.result())[0]
					require.Contains(t, tc.codes, code, "reset to %d", events)
					told[code] = true
				} else {
					asks = true
				}
				require.Len(t, w.ran(), ran, "reset to %d: nothing ran on a void answer", events)
				return asks
			}
			asked, again := 0, 0
			for _, event := range w.finishedTasks() {
				next := w.reset(run, event)
				asks := settle(next, event)
				var last bool
				then := w.finishedTasks()
				if !tc.deep {
					then = then[len(then)-1:]
				}
				for _, later := range then {
					if last = settle(w.reset(next, later), event, later); last {
						again++
					}
				}
				if asks {
					asked++
				}
				if last {
					// Only a fresh answer lets it run.
					w.answer(w.pending(1)[0].Key, approval.Allow)
					require.Equal(t, []string{"OK"}, w.codes(w.result()), "event %d", event)
					ran++
					require.Len(t, w.ran(), ran, "event %d", event)
				}
			}
			require.Positive(t, asked)
			require.Positive(t, again)
			require.Len(t, told, len(tc.codes))
			t.Logf("asked again %d times after a reset and %d times after the reset of a reset", asked, again)
		})
	}
}

// update answers by update and returns what its sender is told.
func (w *world) update(arg any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := w.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: w.id, UpdateName: protocol.UpdateResolve,
		Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
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
	t.Parallel()
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
