package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	historypb "go.temporal.io/api/history/v1"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// replay compares the replay of a run of a thousand calls in fifty turns.
func (b *bench) replay(ctx context.Context) ([]ratio, error) {
	recorded := map[string][]*historypb.History{}
	events := map[string]int{}
	if _, _, err := both(1, func(kind string) (struct{}, error) {
		run, err := b.begin(ctx, kind, "long")
		if err != nil {
			return struct{}{}, err
		}
		first := run.GetRunID()
		if err := ended(ctx, kind, run); err != nil {
			return struct{}{}, err
		}
		recorded[kind], err = b.histories(ctx, run, first)
		for _, h := range recorded[kind] {
			events[kind] += len(h.GetEvents())
		}
		return struct{}{}, err
	}); err != nil {
		return nil, err
	}
	ours, bare, err := both(7, func(kind string) (float64, error) {
		began := time.Now()
		for _, h := range recorded[kind] {
			if err := b.replayed(h); err != nil {
				return 0, err
			}
		}
		return float64(time.Since(began)) / float64(time.Millisecond), nil
	})
	if err != nil {
		return nil, err
	}
	o, r := middle(ours), middle(bare)
	perEvent := (o / float64(events[kindAgent])) / (r / float64(events[kindBare]))
	return []ratio{{Name: "replay of 1,000 calls", Value: o / r, Unit: "ratio", AtMost: 1.5, Ours: o, Bare: r,
		Of: fmt.Sprintf("median ms to replay 1,000 calls: %d events in %d runs, bare %d; per event the ratio is %.2f",
			events[kindAgent], len(recorded[kindAgent]), events[kindBare], perEvent)}}, nil
}

// replayed replays one run.
func (b *bench) replayed(h *historypb.History) error {
	r, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{
		DisableDeadlockDetection: true, Plugins: []sdkworker.Plugin{b.engine}})
	if err != nil {
		return err
	}
	r.RegisterWorkflowWithOptions(bareAgent, workflow.RegisterOptions{Name: "BareAgent"})
	return r.ReplayWorkflowHistory(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), h)
}
