package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/internal/verify"
)

// An agent that was asked about, reset and asked again: verify reads both runs from the server, with the key of their
// grants, and policy replay puts their calls to another policy.
func TestVerifyAndReplayFromTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("echo "+unique(t)), "")
	w.work()
	id := unique(t)
	running := w.begin("run", "--profile", "p", "--task", "say it", "--id", id)
	q := w.pending(id, 1)[0]

	// While it waits, nothing ran.
	text := w.ok(w.starter("verify", id)).out.String()
	require.Contains(t, text, "and goes on\n")
	require.Contains(t, text, "ok: 0 calls of 1 run, each permitted\n")

	w.ok(w.starter("approve", q.Key, "--by", "alice"))
	w.ok(running)
	s := w.server()
	first := lines[verify.Report](t, w.ok(w.starter("verify", id, "-o", "json", "--grant-key", w.path("key"))).out.String())
	require.Len(t, first, 1)
	require.Empty(t, first[0].Unchecked)
	require.Len(t, first[0].Calls, 1)
	require.Equal(t, "alice", first[0].Calls[0].By)

	// Back to the task that followed the model's turn: the question is put again.
	var task int64
	for e, err := range history.Read(context.Background(), s, id, first[0].RunID) {
		require.NoError(t, err)
		if task == 0 && e.GetEventId() > 14 && e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			task = e.GetEventId()
		}
	}
	require.NotZero(t, task)
	reset, err := s.WorkflowService().ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: executionOf(id, first[0].RunID), Reason: "test", WorkflowTaskFinishEventId: task, RequestId: uuid.NewString()})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		i := w.starter("approve", "-w", id, w.pending(id, 1)[0].Key, "--by", "bob")
		return i.code == exit.OK
	}, patience, tick)
	w.ok(w.starter("watch", id))

	text = w.ok(w.starter("verify", id, "--grant-key", w.path("key"), "--verbose")).out.String()
	require.Contains(t, text, "run "+first[0].RunID)
	require.Contains(t, text, "run "+reset.GetRunId())
	require.Contains(t, text, "allowed by bob at event")
	require.Contains(t, text, "ok: 2 calls of 2 runs, each permitted\n")
	one := lines[verify.Report](t, w.ok(w.starter("verify", id, "--run", reset.GetRunId(), "-o", "json")).out.String())
	require.Len(t, one, 1)
	require.Equal(t, reset.GetRunId(), one[0].RunID)

	// Another key has signed nothing of it, and another id is no agent.
	w.write("other", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
	require.Contains(t, w.exits(w.starter("verify", id, "--grant-key", w.path("other")), exit.Failed).out.String(), "bad-signature")
	require.Contains(t, w.exits(w.starter("verify", "nobody"), exit.Failed).err.String(), `no agent "nobody"`)

	w.write("new.yaml", "engine:\n  deny: [{tool: shell, argv: [\"echo **\"], reason: be quiet}]\nprofiles:\n  p: {tools: [shell], permissions: {preset: standard}}\n")
	var replay string
	require.Eventually(t, func() bool {
		// The list of workflows lags behind.
		replay = w.ok(w.starter("policy", "replay", w.path("new.yaml"), "--query", fmt.Sprintf("WorkflowId='%s'", id))).out.String()
		return replay != "0 calls of 0 runs: no verdict changes\n"
	}, patience, tick)
	require.Contains(t, replay, "ask   → deny    "+id+" t1.1   shell   ")
	require.Contains(t, w.ok(w.starter("policy", "replay", w.path("new.yaml"), id)).out.String(), "2 calls of 2 runs: 2 verdicts change (2 ask → deny)\n")
}
