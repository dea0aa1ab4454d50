package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
)

// calls is the number of calls of one run, rounds the number of runs of each kind, interleaved.
const (
	calls  = 40
	rounds = 7
)

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

// loop calls activities one after another; think adds one before each, as an agent's model turn is.
func loop(ctx workflow.Context, n int, think bool) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range n {
		if think {
			if err := workflow.ExecuteActivity(ctx, "Work", work{Text: "x"}).Get(ctx, nil); err != nil {
				return err
			}
		}
		if err := workflow.ExecuteActivity(ctx, "Work", work{Text: "x"}).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// once runs one workflow of a kind and reads what it cost.
func (b *bench) once(ctx context.Context, kind string) (measure, error) {

	opts := client.StartWorkflowOptions{ID: fmt.Sprintf("%s-%d", kind, b.n.Add(1)), TaskQueue: strings.TrimSuffix(kind, "-loop")}
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
