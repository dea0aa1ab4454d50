package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/storage"
)

// unproved are tests whose histories are not clean, with the reason: what verify finds in them, it has to find.
var unproved = map[string]string{
	"TestAStateThatAnotherWorkflowLeaves":                                    "its agents go on with states that no agent has left",
	"TestGuardedWorkflowUnderTheirEncryption/bound_to_a_workflow":            "their codec has to be told what each payload is of",
	"TestGuardedWorkflowUnderTheirEncryption/strict_and_bound,_worker_alone": "their codec has to be told what each payload is of",
	"TestSpawnUnderTheirEncryption/bound_to_a_workflow":                      "their codec has to be told what each payload is of",
}

func init() {
	unproved["TestSourcesLeaveTheDynamicActivityToTheTeam"] = "a workflow that is no agent schedules tools by itself"
	for _, forged := range []string{"other_arguments", "expired", "unsigned", "other_key", "other_call", "other_workflow"} {
		unproved["TestNoToolWithoutAGrant/"+forged] = "its workflow makes its own grants, without a decision"
	}
}

// prove holds every run of the world's workflows, at the end of its test, against what its history proves: whatever a
// test does to an agent or to a guarded workflow, no tool leaves it that was not permitted.
func (w *world) prove(c client.Client) {
	w.t.Helper()
	if w.t.Failed() || w.t.Skipped() {
		return
	}
	if !reachable(c) {
		w.t.Log("the test has stopped its server: there is no history to hold against anything")
		return
	}
	found := ""
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := map[string]bool{}
	for _, run := range w.runs(ctx, c) {
		if done[run[1]] {
			continue
		}
		// With all runs that it was continued or reset from, and those that these were continued as.
		chain, err := verify.Fetch(ctx, storage.Reading(c, w.drivers...), run[0], run[1])
		if gone := new(serviceerror.NotFound); errors.As(err, &gone) {
			continue
		}
		require.NoError(w.t, err)
		for _, r := range verify.Chain(chain, verify.Options{Converter: w.converter, WorkflowID: run[0]}) {
			done[r.RunID] = true
			for _, f := range r.Findings {
				found += fmt.Sprintf("%s, run %s, event %d: %s: %s %s: %s\n", run[0], r.RunID, f.EventID, f.Kind, f.CallID, f.Tool, f.Why)
			}
			if r.Trusted {
				found += fmt.Sprintf("%s, run %s: the run before it is not there\n", run[0], r.RunID)
			}
		}
	}
	for name, reason := range unproved {
		if w.t.Name() == name {
			require.NotEmpty(w.t, found, "%s: %s, and nothing was found", name, reason)
			return
		}
	}
	require.Empty(w.t, found, "history does not prove that every tool was permitted")
}

// reachable reports whether a test has left its server up.
func reachable(c client.Client) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := c.CheckHealth(ctx, nil)
	return err == nil
}

// runs are the workflow and run ids of everything that ran on the world's queue, as far as the server lists it by now,
// and the runs of its own workflow.
func (w *world) runs(ctx context.Context, c client.Client) [][2]string {
	w.t.Helper()
	out, seen := [][2]string{}, map[string]bool{}
	add := func(id, run string) {
		if !seen[run] {
			seen[run] = true
			out = append(out, [2]string{id, run})
		}
	}
	if d, err := c.DescribeWorkflow(ctx, w.id, ""); err == nil {
		add(w.id, d.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId())
	}
	var token []byte
	for {
		resp, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("TaskQueue=%q", w.queue), NextPageToken: token})
		require.NoError(w.t, err)
		for _, e := range resp.GetExecutions() {
			add(e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId())
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			return out
		}
	}
}

func recordedEvents(ctx context.Context, c client.Client, id, run string) ([]*historypb.HistoryEvent, error) {
	var out []*historypb.HistoryEvent
	for e, err := range history.Read(ctx, c, id, run) {
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Calls that were allowed, approved, edited and denied, before and after a reset: each run's history proves by itself what
// it let through, with the signatures of its grants, and that nothing went on by an answer of before the reset.
func TestHistoryProvesWhatWasPermitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(`
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: run, args: {text: b}}, {tool: run, args: {text: c}}, {tool: run, args: {text: d}}]
  - say: done
`))
	first := w.start(protocol.AgentInput{}).GetRunID()
	decide := func(run string) {
		keys := map[string]string{}
		require.Eventually(t, func() bool {
			l, err := w.list()
			clear(keys)
			for _, q := range l.Pending {
				if q.Seal.RunID == run {
					keys[string(q.Input)] = q.Key
				}
			}
			return err == nil && len(keys) == 3
		}, patience, tick)
		w.answer(keys[`{"text":"b"}`], approval.Allow)
		w.send(`{"key":"` + keys[`{"text":"c"}`] + `","decision":"allow","by":"alice","input":{"text":"edited"}}`)
		w.answer(keys[`{"text":"d"}`], approval.Deny)
		require.Equal(t, []string{"OK", "OK", "OK", "DENIED/person"}, w.codes(w.result()))
	}
	decide(first)
	second := w.reset(first, w.taskThatAsked())
	// The answers are delivered again, and are void or too early: the questions of this run want their own.
	decide(second)

	ring, err := protocol.NewKeyring(grantKey)
	require.NoError(t, err)
	for _, run := range []string{first, second} {
		events, err := recordedEvents(context.Background(), w.c, w.id, run)
		require.NoError(t, err)
		r := verify.History(events, verify.Options{Keys: ring, Namespace: "default"})
		require.Empty(t, r.Findings)
		require.Equal(t, run, r.RunID)
		require.Equal(t, 4, r.Decided)
		var how []string
		for _, c := range r.Calls {
			how = append(how, fmt.Sprint(c.Tool, " ", c.Verdict, " ", c.By, " ", c.Edited))
		}
		require.ElementsMatch(t, []string{"look allow  false", "run ask alice false", "run ask alice true"}, how)
		require.Empty(t, r.Unchecked)
	}
}
