package e2e

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// asks is a model of one function.
type asks func(context.Context, model.Request) (model.Response, error)

func (f asks) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	return f(ctx, r)
}

// billed is a world whose model is priced at a dollar for a thousand tokens of output, under a converter.
func billed(t *testing.T, dc converter.DataConverter, m model.Model) (*world, *worker.Plugin) {
	w := newWorld(t)
	p, err := worker.New(worker.Config{
		Models: map[string]model.Model{"m": m}, Blobs: w.blobs, Dir: t.TempDir(), Log: logger(),
		Prices: model.Prices{"m:x": {Rates: model.Rates{Input: 0.001, Output: 1000}},
			"m:dear": {Rates: model.Rates{Input: 0.001, Output: 5000}}},
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"m:x"}}},
	})
	require.NoError(t, err)
	w.c, err = client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: dc, Plugins: []client.Plugin{p}, Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(t, err)
	t.Cleanup(w.c.Close)
	w.converter = dc
	return w, p
}

// dollars starts a run with a budget of twenty.
func dollars(t *testing.T, w *world) {
	budget := 20.0
	w.start(protocol.AgentInput{Prompt: "go", BudgetUSD: &budget, Limits: &protocol.Limits{MaxOutputTokens: 1000}})
}

// A turn that is cancelled between two attempts is told of by the server itself, in text that no codec of a team has encoded.
func TestATurnThatIsCancelledBetweenAttempts(t *testing.T) {
	t.Parallel()
	for name, dc := range map[string]converter.DataConverter{"plain": converter.GetDefaultDataConverter(), "strict": strictSealer().converter()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := billed(t, dc, asks(func(context.Context, model.Request) (model.Response, error) {
				return model.Response{}, &model.Error{Kind: "stream_cut", Msg: "cut", Retry: true, After: 50 * time.Second}
			}))
			w.workWith(p)
			dollars(t, w)
			require.Eventually(t, func() bool {
				d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
				if err != nil {
					return false
				}
				p := d.RawResponse.GetPendingActivities()
				return len(p) == 1 && p[0].GetLastFailure() != nil && p[0].GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
			}, patience, tick)
			require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
			res := w.result()
			require.Equal(t, protocol.Cancelled, res.Status, res.Error)
			require.InDelta(t, 1, res.LostUSD, 0.01, "the attempt that was cut")
			require.Empty(t, w.failedTasks())
			if name == "plain" {
				w.replays(w.id)
				all, err := verify.Fetch(t.Context(), w.c, w.id, "")
				require.NoError(t, err)
				for _, r := range verify.Chain(all, verify.Options{}) {
					require.Empty(t, r.Findings)
				}
			}
		})
	}
}

// A worker that stops in the middle of a turn: the turn is asked again, and what it may have cost is counted once.
func TestATurnWhoseWorkerStops(t *testing.T) {
	t.Parallel()
	for name, dc := range map[string]converter.DataConverter{"plain": converter.GetDefaultDataConverter(), "strict": strictSealer().converter()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			began := make(chan struct{}, 9)
			w, p := billed(t, dc, asks(func(ctx context.Context, _ model.Request) (model.Response, error) {
				if asked.Add(1) == 1 {
					began <- struct{}{}
					<-ctx.Done()
					return model.Response{}, ctx.Err()
				}
				return model.Response{Text: "done", Stop: model.StopEnd, Usage: model.Usage{OutputTokens: 10}}, nil
			}))
			wk := w.workWith(p)
			dollars(t, w)
			<-began
			wk.Stop()
			w.workWith(p)
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.EqualValues(t, 2, asked.Load())
			require.InDelta(t, 1, res.LostUSD, 0.01)
			require.InDelta(t, 0.01, res.CostUSD, 0.001)
			require.Empty(t, w.failedTasks())
		})
	}
}

// Each model is asked when the server knows what it may cost, also the second one of an attempt, whose report the SDK would hold back.
func TestAFallbackIsPutDownBeforeItIsAsked(t *testing.T) {
	t.Parallel()
	for name, dc := range map[string]converter.DataConverter{"plain": converter.GetDefaultDataConverter(), "strict": strictSealer().converter()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dear, done := make(chan struct{}, 9), make(chan struct{})
			w, p := billed(t, dc, asks(func(_ context.Context, r model.Request) (model.Response, error) {
				if r.Model == "x" {
					return model.Response{}, &model.Error{Kind: "stream_cut", Msg: "cut", Retry: true}
				}
				dear <- struct{}{}
				<-done
				return model.Response{Text: "done", Stop: model.StopEnd, Usage: model.Usage{OutputTokens: 10}}, nil
			}))
			o := options(p)
			o.MaxHeartbeatThrottleInterval = 0
			wk := sdkworker.New(w.c, w.queue, o)
			require.NoError(t, wk.Start())
			t.Cleanup(wk.Stop)
			budget := 20.0
			w.start(protocol.AgentInput{Prompt: "go", BudgetUSD: &budget, Limits: &protocol.Limits{MaxOutputTokens: 1000}, Models: []string{"m:x", "m:dear"}})
			<-dear
			d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
			close(done)
			require.NoError(t, err)
			require.Len(t, d.RawResponse.GetPendingActivities(), 1)
			var usd float64
			require.NoError(t, converter.WithDataConverterSerializationContext(dc, converter.ActivitySerializationContext{Namespace: "default", WorkflowID: w.id,
				ActivityType: protocol.ActivityGenerate, TaskQueue: w.queue, WorkflowType: protocol.WorkflowAgent}).
				FromPayloads(d.RawResponse.GetPendingActivities()[0].GetHeartbeatDetails(), &usd))
			require.InDelta(t, 1+5, usd, 0.01)
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.InDelta(t, 1, res.LostUSD, 0.01)
		})
	}
}
