package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/assent-dev/assent/internal/connect"
)

// history is one run.
type history struct {
	workflowID, runID string
	events            []*historypb.HistoryEvent
	// missing says which run before it the server no longer has.
	missing string
}

// mostRuns bounds the runs of one workflow that are read.
const mostRuns = 1000

// histories reads a workflow's latest run and all that it was continued or reset from, the oldest first; or the one run
// that is named.
func histories(ctx context.Context, s *connect.Server, id, run string) ([]history, error) {
	alone := run != ""
	now, err := s.DescribeWorkflow(ctx, id, run)
	if err != nil {
		return nil, unknownAgent(s, id, err)
	}
	queue := []string{now.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()}
	seen := map[string]bool{queue[0]: true}
	var out []history
	for len(queue) > 0 && len(out) < mostRuns {
		h := history{workflowID: id, runID: queue[0]}
		queue = queue[1:]
		h.events, err = events(ctx, s, id, h.runID)
		var gone *serviceerror.NotFound
		switch {
		case errors.As(err, &gone) && len(out) > 0:
			last := &out[len(out)-1]
			last.missing = fmt.Sprintf("run %s, from which it came: the server no longer has it", h.runID)
			continue
		case err != nil:
			return nil, unknownAgent(s, id, err)
		}
		out = append(out, h)
		if alone {
			break
		}
		for _, before := range origins(h.events) {
			if before != "" && !seen[before] {
				seen[before] = true
				queue = append(queue, before)
			}
		}
	}
	if len(queue) > 0 && !alone {
		out[len(out)-1].missing = fmt.Sprintf("the runs before it: there are more than %d", mostRuns)
	}
	slices.Reverse(out)
	return out, nil
}

// origins are the runs from which a run was continued or reset.
func origins(events []*historypb.HistoryEvent) []string {
	var out []string
	for _, e := range events {
		if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
			out = append(out, a.GetContinuedExecutionRunId())
		}
		if a := e.GetWorkflowTaskFailedEventAttributes(); a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			out = append(out, a.GetBaseRunId())
		}
	}
	return out
}

func events(ctx context.Context, s *connect.Server, id, run string) ([]*historypb.HistoryEvent, error) {
	it := s.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var out []*historypb.HistoryEvent
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
