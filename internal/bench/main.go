// Command bench measures the gate and the engine against a bare SDK loop that does the same activities on the same
// server in the same run. It prints JSON lines: absolutes for orientation, ratios for judging.
//
//	go run ./internal/bench gate
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// calls is the number of calls of one run, rounds the number of runs of each kind, interleaved.
const (
	calls  = 40
	rounds = 7
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || args[0] != "gate" {
		fmt.Fprintln(stderr, "usage: go run ./internal/bench gate")
		return 2
	}
	if err := gate(ctx, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

// measure is one run of a kind.
type measure struct {
	perCall time.Duration
	events  int64
	bytes   int64
}

func gate(ctx context.Context, stdout, stderr io.Writer) error {
	b, err := newBench(ctx, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	kinds := []string{"bare", "gated", "bare-loop", "agent"}
	got := map[string][]measure{}
	for range rounds {
		for _, k := range kinds {
			m, err := b.once(ctx, k)
			if err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			got[k] = append(got[k], m)
		}
	}
	out := json.NewEncoder(stdout)
	for _, k := range kinds {
		m := median(got[k])
		if err := out.Encode(map[string]any{"kind": k, "calls": calls, "rounds": rounds, "medianMsPerCall": ms(m.perCall),
			"eventsPerCall": float64(m.events) / calls, "bytesPerCall": m.bytes / calls}); err != nil {
			return err
		}
	}
	ratio := func(a, b string) float64 {
		return float64(median(got[a]).perCall) / float64(median(got[b]).perCall)
	}
	return out.Encode(map[string]any{"ratio": map[string]float64{"gated/bare": ratio("gated", "bare"), "agent/bare-loop": ratio("agent", "bare-loop")}})
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(m []measure) measure {
	s := slices.Clone(m)
	slices.SortFunc(s, func(a, b measure) int { return int(a.perCall - b.perCall) })
	return s[len(s)/2]
}

// bench is a server with a worker for each kind.
type bench struct {
	client  client.Client
	closers []func()
	n       int
}

func (b *bench) close() {
	for _, f := range slices.Backward(b.closers) {
		f()
	}
}

func newBench(ctx context.Context, stderr io.Writer) (b *bench, err error) {
	b = &bench{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	bin, err := devserver.Locate(ctx, devserver.Options{Progress: stderr})
	if err != nil {
		return b, err
	}
	server, err := devserver.Start(ctx, devserver.StartOptions{Binary: bin})
	if err != nil {
		return b, err
	}
	b.closers = append(b.closers, func() { _ = server.Stop(context.Background()) })
	quiet := slog.New(slog.DiscardHandler)
	if b.client, err = client.Dial(client.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(quiet)}); err != nil {
		return b, err
	}
	b.closers = append(b.closers, b.client.Close)
	dir, err := os.MkdirTemp("", "assent-bench-")
	if err != nil {
		return b, err
	}
	b.closers = append(b.closers, func() { _ = os.RemoveAll(dir) })
	return b, b.workers(dir, quiet)
}

// workers starts a bare worker, a guarded one and an engine.
func (b *bench) workers(dir string, log *slog.Logger) error {
	guard, err := assent.NewGuard(assent.GuardConfig{Tools: map[string]tool.Options{"Work": {Risk: tool.Write}},
		Permissions: permission.Layer{Preset: permission.Standard}, GrantKeys: keys(), Log: log})
	if err != nil {
		return err
	}
	store, err := blob.NewDir(dir)
	if err != nil {
		return err
	}
	script, err := scripted.Parse("bench.yaml", []byte("turns:\n"+strings.Repeat("  - calls: [{tool: work, args: {text: x}}]\n", calls)+"  - say: done\n"))
	if err != nil {
		return err
	}
	engine, err := assent.New(assent.Config{
		Models: map[string]model.Model{"scripted": scripted.Set{"s": script}}, Blobs: store, GrantKeys: keys(), Log: log,
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"scripted:s"}, Tools: []string{"work"},
			Limits: protocol.Limits{MaxTurns: calls + 1, MaxToolCalls: calls, MaxIdleTurns: calls}}},
		Tools: []*tool.Def{tool.MustNew("work", "Does nothing.", func(_ context.Context, _ *tool.Context, in work) (work, error) { return in, nil }, tool.Write)},
	})
	if err != nil {
		return err
	}
	for queue, plugins := range map[string][]sdkworker.Plugin{"bare": nil, "gated": {guard}, "agent": {engine}} {
		w := sdkworker.New(b.client, queue, sdkworker.Options{Plugins: plugins})
		w.RegisterWorkflowWithOptions(loop, workflow.RegisterOptions{Name: "Loop"})
		for _, name := range []string{"Work", "Think"} {
			w.RegisterActivityWithOptions(func(_ context.Context, in work) (work, error) { return in, nil }, activity.RegisterOptions{Name: name})
		}
		if err := w.Start(); err != nil {
			return err
		}
		b.closers = append(b.closers, w.Stop)
	}
	return nil
}

func keys() []protocol.GrantKey {
	return []protocol.GrantKey{{ID: "bench", Secret: []byte("a secret that is shared by nobody")}}
}

type work struct {
	Text string `json:"text"`
}

// loop calls activities one after another; think adds one before each, as an agent's model turn is.
func loop(ctx workflow.Context, n int, think bool) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range n {
		if think {
			if err := workflow.ExecuteActivity(ctx, "Think", work{"x"}).Get(ctx, nil); err != nil {
				return err
			}
		}
		if err := workflow.ExecuteActivity(ctx, "Work", work{"x"}).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// once runs one workflow of a kind and reads what it cost.
func (b *bench) once(ctx context.Context, kind string) (measure, error) {
	b.n++
	opts := client.StartWorkflowOptions{ID: fmt.Sprintf("%s-%d", kind, b.n), TaskQueue: strings.TrimSuffix(kind, "-loop")}
	began := time.Now()
	var run client.WorkflowRun
	var err error
	if kind == "agent" {
		run, err = b.client.ExecuteWorkflow(ctx, opts, protocol.WorkflowAgent, protocol.AgentInput{Prompt: "x", AgentType: "p"})
	} else {
		run, err = b.client.ExecuteWorkflow(ctx, opts, "Loop", calls, kind == "bare-loop")
	}
	if err != nil {
		return measure{}, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return measure{}, err
	}
	m := measure{perCall: time.Since(began) / calls}
	d, err := b.client.DescribeWorkflow(ctx, run.GetID(), run.GetRunID())
	if err != nil {
		return m, err
	}
	info := d.RawResponse.GetWorkflowExecutionInfo()
	if s := info.GetStatus(); s != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return m, fmt.Errorf("workflow ended %s", s)
	}
	m.events, m.bytes = info.GetHistoryLength(), info.GetHistorySizeBytes()
	return m, nil
}
