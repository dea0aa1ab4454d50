package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// crowd is many agents on one worker.
type crowd struct {
	*world
	ids []string
}

// each does something for every agent, eight at a time, until it works or the test's time is over.
func (c crowd) each(what string, f func(ctx context.Context, n int) error) {
	c.t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	var next, failed atomic.Int64
	for range 8 {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(c.ids); n = int(next.Add(1)) - 1 {
				for {
					ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
					err := f(ctx, n)
					cancel()
					if err == nil {
						break
					}
					if failed.Add(1); c.t.Context().Err() != nil || failed.Load() > int64(10*len(c.ids)) {
						return
					}
					time.Sleep(tick)
				}
			}
		})
	}
	wg.Wait()
	c.t.Logf("%s: %d agents in %v, %d tries failed", what, len(c.ids), time.Since(began).Round(time.Millisecond), failed.Load())
}

// parkMany parks n agents on one worker, answers them all at once, by signal and by update, and has every one of them end
// as it was told to.
func parkMany(t *testing.T, n int) {
	w := newWorld(t)
	w.work(setup{Keys: true, Preset: permission.Standard, Script: "turns:\n  - calls: [{tool: run, args: {text: once}}]\n  - say: done\n"})
	c := crowd{world: w}
	for i := range n {
		c.ids = append(c.ids, fmt.Sprintf("%s-%d", w.id, i))
	}
	// The world's own proof is of its last agent.
	w.id = c.ids[n-1]
	c.each("started", func(ctx context.Context, i int) error {
		_, err := w.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: c.ids[i], TaskQueue: w.queue}, protocol.WorkflowAgent,
			protocol.AgentInput{AgentType: "p", Prompt: "go"})
		if started := new(serviceerror.WorkflowExecutionAlreadyStarted); errors.As(err, &started) {
			return nil
		}
		return err
	})
	waiting := fmt.Sprintf("TaskQueue = %q AND %s = 'waiting' AND ExecutionStatus = 'Running'", w.queue, protocol.AttrStatus)
	require.Eventually(t, func() bool {
		r, err := w.c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: waiting})
		return err == nil && r.GetCount() == int64(n)
	}, 10*time.Minute, tick)
	keys := make([]string, n)
	c.each("asked", func(ctx context.Context, i int) error {
		d, err := w.c.DescribeWorkflow(ctx, c.ids[i], "")
		if err != nil {
			return err
		}
		var open []protocol.MemoQuestion
		if err := d.GetMemoValue(protocol.MemoPending, &open); err != nil || len(open) != 1 {
			return fmt.Errorf("%d questions: %w", len(open), err)
		}
		keys[i] = open[0].Key
		return nil
	})
	// Every third is denied; every fourth answer is an update, which waits for the worker's word.
	c.each("answered", func(ctx context.Context, i int) error {
		r := approval.Resolution{Key: keys[i], Decision: approval.Allow, By: "alice"}
		if i%3 == 0 {
			r.Decision = approval.Deny
		}
		if i%4 != 0 {
			return w.c.SignalWorkflow(ctx, c.ids[i], "", protocol.SignalApproval, r)
		}
		h, err := w.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: c.ids[i], UpdateID: "answer", UpdateName: protocol.UpdateResolve,
			Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if gone := new(serviceerror.NotFound); errors.As(err, &gone) {
			// The try before was heard and its agent has ended.
			return nil
		}
		if err != nil {
			return err
		}
		return h.Get(ctx, nil)
	})
	var wrong atomic.Int64
	c.each("ended", func(ctx context.Context, i int) error {
		var res protocol.AgentResult
		if err := w.c.GetWorkflow(ctx, c.ids[i], "").Get(ctx, &res); err != nil {
			return err
		}
		if res.Status != protocol.OK || res.Asked != 1 || res.Calls != 1 {
			wrong.Add(1)
			t.Errorf("agent %d: %+v", i, res)
			return nil
		}
		want := "OK"
		if i%3 == 0 {
			want = "DENIED/person"
		}
		if got := w.codes(res); len(got) != 1 || got[0] != want {
			t.Errorf("agent %d was told %v, not %s", i, got, want)
		}
		return nil
	})
	require.Zero(t, wrong.Load())
	require.Len(t, w.ran(), n-(n+2)/3, "each allowed call ran once")
}

// Fifty agents wait on one worker, and each gets its own answer.
func TestFiftyParkedAgents(t *testing.T) {
	t.Parallel()
	parkMany(t, 50)
}

// Two thousand agents wait on one worker and one server, and none of two thousand answers is lost.
func TestTwoThousandParkedAgents(t *testing.T) {
	if !long() {
		t.Skip("ASSENT_LONG=1")
	}
	parkMany(t, 2000)
}

// Calls that wait for an answer have no coroutine: a run that is parked keeps one stack, however many there are.
func TestParkedCallsHaveNoCoroutine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Keys: true, Preset: permission.Standard, Script: "turns:\n  - calls:\n" +
		strings.Repeat("      - {tool: run, args: {text: once}}\n", 8) + "  - say: done\n"})
	w.start(protocol.AgentInput{})
	w.pending(8)
	var trace string
	require.Eventually(t, func() bool {
		v, err := w.c.QueryWorkflow(t.Context(), w.id, "", client.QueryTypeStackTrace)
		// What is shown of the questions may still be on its way.
		return err == nil && v.Get(&trace) == nil && strings.Count(trace, "coroutine ") == 1
	}, patience, tick, "a parked run keeps one stack")
	w.send(`"deny"`)
	require.Equal(t, 8, len(w.codes(w.result())))
}
