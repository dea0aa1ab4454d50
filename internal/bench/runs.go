package main

import (
	"context"
	"fmt"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/protocol"
)

// The two kinds that are compared. Each is also the name of its task queue.
const (
	kindBare  = "bare"
	kindAgent = "agent"
)

// begin starts an agent of a shape.
func (b *bench) begin(ctx context.Context, kind, name string) (client.WorkflowRun, error) {
	opts := client.StartWorkflowOptions{ID: fmt.Sprintf("%s-%s-%d", kind, name, b.n.Add(1)), TaskQueue: kind}
	if kind == kindBare {
		return b.client.ExecuteWorkflow(ctx, opts, "BareAgent", shapes[name])
	}
	return b.client.ExecuteWorkflow(ctx, opts, protocol.WorkflowAgent,
		protocol.AgentInput{Prompt: "x", AgentType: "p", Models: []string{"scripted:" + name}})
}

// ended waits for the end of a run, which has to be a good one.
func ended(ctx context.Context, kind string, run client.WorkflowRun) error {
	if kind == kindBare {
		return run.Get(ctx, nil)
	}
	var res protocol.AgentResult
	if err := run.Get(ctx, &res); err != nil {
		return err
	}
	if res.Status != protocol.OK {
		return fmt.Errorf("the agent ended %s: %s", res.Status, res.Error)
	}
	return nil
}

// history reads one run. An agent may go on in a next one, whose id is returned.
func (b *bench) history(ctx context.Context, id, runID string) (events []*historypb.HistoryEvent, next string, err error) {
	for e, err := range history.Read(ctx, b.client, id, runID) {
		if err != nil {
			return nil, "", err
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, "", fmt.Errorf("run %s of %q has no events", runID, id)
	}
	return events, events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(), nil
}

// histories reads all runs of an agent.
func (b *bench) histories(ctx context.Context, run client.WorkflowRun, first string) ([]*historypb.History, error) {
	var out []*historypb.History
	for id := first; id != ""; {
		events, next, err := b.history(ctx, run.GetID(), id)
		if err != nil {
			return nil, err
		}
		out, id = append(out, &historypb.History{Events: events}), next
	}
	return out, nil
}

// span is what a turn's calls cost: from the moment at which the model has spoken to that at which it is asked again.
type span struct {
	took   time.Duration
	events int
	bytes  int
}

// spans are those of a run.
func spans(events []*historypb.HistoryEvent) []span {
	asked := map[int64]bool{}
	var out []span
	var open *span
	var began time.Time
	for _, e := range events {
		if open != nil {
			open.events++
			open.bytes += e.Size()
		}
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			if t := s.GetActivityType().GetName(); t != "Think" && t != protocol.ActivityGenerate {
				continue
			}
			asked[e.GetEventId()] = true
			if open != nil {
				// This one is the next turn's.
				open.events--
				open.bytes -= e.Size()
				open.took = e.GetEventTime().AsTime().Sub(began)
				out = append(out, *open)
			}
			open = nil
		} else if c := e.GetActivityTaskCompletedEventAttributes(); c != nil && asked[c.GetScheduledEventId()] {
			open, began = &span{}, e.GetEventTime().AsTime()
		}
	}
	return out
}

// whole runs an agent of a shape to its end and returns the histories of its runs.
func (b *bench) whole(ctx context.Context, kind, name string) ([]*historypb.History, error) {
	run, err := b.begin(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	first := run.GetRunID()
	if err := ended(ctx, kind, run); err != nil {
		return nil, err
	}
	return b.histories(ctx, run, first)
}

// turns runs an agent of a shape and returns what its turns cost.
func (b *bench) turns(ctx context.Context, kind, name string) ([]span, error) {
	all, err := b.whole(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	var out []span
	for _, h := range all {
		out = append(out, spans(h.GetEvents())...)
	}
	return out, nil
}
