package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/internal/history"
)

// Run is the history of one run.
type Run struct {
	WorkflowID, RunID string
	Events            []*historypb.HistoryEvent
	// Missing says which run that belongs to it could not be had.
	Missing string
}

// mostRuns bounds the runs of one workflow that are read.
const mostRuns = 1000

// Fetch reads a run, the latest if none is named, and all that it was continued or reset from, and what those were continued
// as, the oldest first. It is the server's error if the run itself cannot be had.
func Fetch(ctx context.Context, c client.Client, workflowID, runID string) ([]Run, error) {
	now, err := c.DescribeWorkflow(ctx, workflowID, runID)
	if err != nil {
		return nil, err
	}
	queue := []string{now.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()}
	seen, from := map[string]bool{queue[0]: true}, map[string]int{}
	var out []Run
	for ; len(queue) > 0 && len(out) < mostRuns; queue = queue[1:] {
		run, err := FetchOne(ctx, c, workflowID, queue[0])
		gone := new(serviceerror.NotFound)
		switch {
		case errors.As(err, &gone) && len(out) > 0:
			out[from[queue[0]]].Missing = fmt.Sprintf("run %s, which belongs to it: the server no longer has it", queue[0])
			continue
		case err != nil:
			return nil, err
		}
		out = append(out, run)
		for _, other := range relatives(run.Events) {
			if other != "" && !seen[other] {
				seen[other], from[other] = true, len(out)-1
				queue = append(queue, other)
			}
		}
	}
	if len(queue) > 0 {
		out[len(out)-1].Missing = fmt.Sprintf("further runs: there are more than %d", mostRuns)
	}
	slices.Reverse(out)
	slices.SortStableFunc(out, func(a, b Run) int { return beganAt(a.Events).Compare(beganAt(b.Events)) })
	return out, nil
}

// FetchOne reads one run alone.
func FetchOne(ctx context.Context, c client.Client, workflowID, runID string) (Run, error) {
	run := Run{WorkflowID: workflowID, RunID: runID}
	for e, err := range history.Read(ctx, c, workflowID, runID) {
		if err != nil {
			return Run{}, err
		}
		run.Events = append(run.Events, e)
	}
	return run, nil
}

// relatives are the runs from which a run was continued or reset, and the one as which it continued.
func relatives(events []*historypb.HistoryEvent) []string {
	var out []string
	for _, e := range events {
		if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
			out = append(out, a.GetContinuedExecutionRunId())
		}
		if a := e.GetWorkflowTaskFailedEventAttributes(); isReset(e) {
			out = append(out, a.GetBaseRunId())
		}
		out = append(out, e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId())
	}
	return out
}

func isReset(e *historypb.HistoryEvent) bool {
	return e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
}

// beganAt is when the server made a run: a reset copies the events of another one.
func beganAt(events []*historypb.HistoryEvent) (at time.Time) {
	for i, e := range events {
		if i == 0 || isReset(e) {
			at = e.GetEventTime().AsTime()
		}
	}
	return at
}
