package main

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/protocol"
)

// answers compares the time from a signal to the moment at which the call runs that waited for it.
func (b *bench) answers(ctx context.Context) ([]ratio, error) {
	var out []ratio
	for _, c := range []struct{ what, shape string }{{"read", "peeks"}, {"write", "asks"}} {
		runs := map[string]client.WorkflowRun{}
		ours, bare, err := both(shapes[c.shape].Turns, func(kind string) (float64, error) {
			if runs[kind] == nil {
				var err error
				if runs[kind], err = b.begin(ctx, kind, c.shape); err != nil {
					return 0, err
				}
			}
			return b.answer(ctx, kind, runs[kind])
		})
		if err != nil {
			return nil, err
		}
		for kind, run := range runs {
			if err := ended(ctx, kind, run); err != nil {
				return nil, err
			}
		}
		o, r := middle(ours), middle(bare)
		out = append(out, ratio{Name: "signal to " + c.what + " running", Value: o / r, Unit: "ratio", AtMost: 1.15, Ours: o, Bare: r,
			Of: "median ms from sending the answer to the call's first line"})
	}
	return out, nil
}

// answer sends one answer and returns the milliseconds until the call runs.
func (b *bench) answer(ctx context.Context, kind string, run client.WorkflowRun) (float64, error) {
	if err := b.waits(ctx, run); err != nil {
		return 0, err
	}
	select {
	case <-b.ran:
	default:
	}
	name, arg := answerBare, "go"
	if kind == kindAgent {
		name, arg = protocol.SignalApproval, "allow"
	}
	began := time.Now()
	if err := b.client.SignalWorkflow(ctx, run.GetID(), "", name, arg); err != nil {
		return 0, err
	}
	select {
	case at := <-b.ran:
		return float64(at.Sub(began)) / float64(time.Millisecond), nil
	case <-time.After(time.Minute):
		return 0, errors.New("an answer made nothing run within a minute")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// waits returns when a run has nothing to do.
func (b *bench) waits(ctx context.Context, run client.WorkflowRun) error {
	for {
		d, err := b.client.DescribeWorkflow(ctx, run.GetID(), "")
		if err != nil {
			return err
		}
		// Before its first task a run has nothing to do either.
		if len(d.RawResponse.GetPendingActivities()) == 0 && d.RawResponse.GetPendingWorkflowTask() == nil && d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength() > 8 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
