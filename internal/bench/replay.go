package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	historypb "go.temporal.io/api/history/v1"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// replay compares the replay of a run of a thousand calls in fifty turns. The runs are made in one process and replayed in
// others, which have nothing but the history.
func replay(ctx context.Context, stderr io.Writer) ([]ratio, error) {
	dir, err := os.MkdirTemp("", "assent-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	events := map[string][]int{}
	for _, kind := range []string{kindBare, kindAgent} {
		if events[kind], err = part[[]int](ctx, stderr, "record", kind, dir); err != nil {
			return nil, err
		}
	}
	ours, bare, err := both(5, func(kind string) (taken, error) { return part[taken](ctx, stderr, replayPart, kind, dir) })
	if err != nil {
		return nil, err
	}
	o, r := middle(wall(ours)), middle(wall(bare))
	n, m := sum(events[kindAgent]), sum(events[kindBare])
	perEvent := (o / float64(n)) / (r / float64(m))
	return []ratio{{Name: "replay of 1,000 calls", Value: o / r, Unit: "ratio", AtMost: 1.5, Ours: o, Bare: r,
		Of: fmt.Sprintf("median ms to replay 1,000 calls: %d events in %d runs, bare %d; per event the ratio is %.2f, in processor time %.2f",
			n, len(events[kindAgent]), m, perEvent, middle(processor(ours))/middle(processor(bare)))}}, nil
}

// taken is what a replay takes, in milliseconds of the clock and of processors: of these a busy machine takes none away.
type taken struct {
	Wall float64 `json:"wall"`
	CPU  float64 `json:"cpu"`
}

func wall(t []taken) (v []float64) {
	for _, x := range t {
		v = append(v, x.Wall)
	}
	return v
}

func processor(t []taken) (v []float64) {
	for _, x := range t {
		v = append(v, x.CPU)
	}
	return v
}

func sum(v []int) (n int) {
	for _, x := range v {
		n += x
	}
	return n
}

// record runs an agent of a thousand calls and writes the histories of its runs. It returns the number of events of each.
func (b *bench) record(ctx context.Context, kind, dir string) (events []int, err error) {
	histories, err := b.whole(ctx, kind, "long")
	if err != nil {
		return nil, err
	}
	for i, h := range histories {
		data, err := h.Marshal()
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(recorded(dir, kind, fmt.Sprintf("%03d", i)), data, 0o600); err != nil {
			return nil, err
		}
		events = append(events, len(h.GetEvents()))
	}
	return events, nil
}

// recorded is where a history is kept.
func recorded(dir, kind, n string) string { return filepath.Join(dir, kind+"."+n) }

// replayRounds is how often a process replays what was recorded, the first time not counted: it pays for what is only
// made once.
const replayRounds = 4

// replayedFrom returns the medians of what the replay of all runs of a kind takes.
func replayedFrom(kind, dir string) (taken, error) {
	runs, err := recordedRuns(kind, dir)
	if err != nil {
		return taken{}, err
	}
	b := &bench{ran: make(chan time.Time, 1)}
	if err := b.newEngine(dir, slog.New(slog.DiscardHandler)); err != nil {
		return taken{}, err
	}
	var took []taken
	for range replayRounds {
		runtime.GC()
		began, used := time.Now(), processorTime()
		for _, h := range runs {
			if err := b.replayed(h); err != nil {
				return taken{}, err
			}
		}
		took = append(took, taken{Wall: milliseconds(time.Since(began)), CPU: milliseconds(processorTime() - used)})
	}
	took = took[1:]
	return taken{Wall: middle(wall(took)), CPU: middle(processor(took))}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// recordedRuns reads what record has written.
func recordedRuns(kind, dir string) ([]*historypb.History, error) {
	names, err := filepath.Glob(recorded(dir, kind, "*"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("nothing of kind %q was recorded in %q", kind, dir)
	}
	var runs []*historypb.History
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		h := &historypb.History{}
		if err := h.Unmarshal(data); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		runs = append(runs, h)
	}
	return runs, nil
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
