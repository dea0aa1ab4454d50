package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/protocol"
)

// answers compares the time from a signal to the moment at which the call runs that waited for it.
func (b *bench) answers(ctx context.Context) ([]ratio, error) {
	reads, err := b.answered(ctx, "peeks", "peeks")
	if err != nil {
		return nil, err
	}
	writes, err := b.answered(ctx, "asks", "asks", "marks")
	if err != nil {
		return nil, err
	}
	const what = "median ms from sending the answer to the call's first line"
	return []ratio{
		{Name: "signal to read running", Value: reads[0] / reads[1], Unit: "ratio", AtMost: 1.15, Ours: reads[0], Bare: reads[1], Of: what},
		{Name: "signal to write running", Value: writes[0] / writes[1], Unit: "ratio", AtMost: 1.15, Ours: writes[0], Bare: writes[1], Of: what},
		{Name: "signal to write running, of a bare one with the same begin mark", Value: writes[0] / writes[2], Unit: "ratio", AtMost: 1.15, Ours: writes[0], Bare: writes[2],
			Of: fmt.Sprintf("the same, where the bare call too is put down with the server before it begins, which alone is %.2f times one that is not", writes[2]/writes[1])},
	}, nil
}

// answered returns the medians in milliseconds of an agent and of the bare loops, which are answered in turn.
func (b *bench) answered(ctx context.Context, agent string, bare ...string) ([]float64, error) {
	took, runs := make([][]float64, 1+len(bare)), make([]client.WorkflowRun, 1+len(bare))
	kinds, names := []string{kindAgent}, append([]string{agent}, bare...)
	for range bare {
		kinds = append(kinds, kindBare)
	}
	order := []int{0, 1, 2}[:len(kinds)]
	for range shapes[agent].Turns {
		for _, i := range order {
			kind := kinds[i]
			var err error
			if runs[i] == nil {
				if runs[i], err = b.begin(ctx, kind, names[i]); err != nil {
					return nil, fmt.Errorf("%s: %w", kind, err)
				}
			}
			one, err := b.answer(ctx, kind, runs, i)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			took[i] = append(took[i], one)
		}
		slices.Reverse(order)
	}
	medians := make([]float64, len(took))
	for i, run := range runs {
		if err := ended(ctx, kinds[i], run); err != nil {
			return nil, err
		}
		medians[i] = middle(took[i])
	}
	return medians, nil
}

// rest is how long nothing is asked of the server before an answer is sent: it has work left when runs already wait.
const rest = 20 * time.Millisecond

// answer sends one answer, to a run of several, and returns the milliseconds until the call runs. All of them wait before:
// what one does after its call would else be in the time of the next.
func (b *bench) answer(ctx context.Context, kind string, runs []client.WorkflowRun, i int) (float64, error) {
	for _, run := range runs {
		if run == nil {
			continue
		}
		if err := b.waits(ctx, run); err != nil {
			return 0, err
		}
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(rest):
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
	if err := b.client.SignalWorkflow(ctx, runs[i].GetID(), "", name, arg); err != nil {
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
