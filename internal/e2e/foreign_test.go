package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// billing is the worker of another team: typed activities and workflows on a queue of its own, and nothing of ours.
type billing struct {
	queue string
	mu    sync.Mutex
	got   []string
	// hold lets activities that wait go on.
	hold chan struct{}
	// stop ends the worker.
	stop func()
}

type refundIn struct {
	OrderID string `json:"orderId"`
	Amount  int64  `json:"amount"`
}

type refundOut struct {
	Receipt string `json:"receipt"`
}

func (b *billing) note(format string, args ...any) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, fmt.Sprintf(format, args...))
	return len(b.got)
}

func (b *billing) notes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.got...)
}

// activities are what the team has had all along.
func (b *billing) activities() map[string]any {
	return map[string]any{
		"Refund": func(_ context.Context, in refundIn) (refundOut, error) {
			b.note("refund %s %d", in.OrderID, in.Amount)
			return refundOut{Receipt: "r-" + in.OrderID}, nil
		},
		"Transfer": func(_ context.Context, orderID string, amount int64) (string, error) {
			b.note("transfer %s %d", orderID, amount)
			return "done", nil
		},
		"Tick": func(context.Context) error { b.note("tick"); return nil },
		"Fail": func(context.Context, refundIn) error {
			b.note("fail")
			return temporal.NewApplicationError("the account is empty", "InsufficientFunds")
		},
		"FailPlainly": func(context.Context, refundIn) error { return errors.New("no such order") },
		"Panic":       func(context.Context, refundIn) error { panic("lost my mind") },
		"Flaky": func(context.Context, refundIn) (int, error) {
			if n := b.note("flaky"); n < 3 {
				return 0, errors.New("not yet")
			}
			return len(b.notes()), nil
		},
		"Big":    func(_ context.Context, in bigIn) (string, error) { return strings.Repeat("x", in.Bytes), nil },
		"Markup": func(_ context.Context, in bigIn) (string, error) { return strings.Repeat("<", in.Bytes), nil },
		"Bytes":  func(context.Context, bigIn) ([]byte, error) { return []byte{0, 1, 2}, nil },
		"Slow": func(ctx context.Context, _ refundIn) (string, error) {
			b.note("slow")
			for {
				select {
				case <-b.hold:
					return "slow", nil
				case <-ctx.Done():
					b.note("stopped")
					return "", ctx.Err()
				case <-time.After(tick):
					activity.RecordHeartbeat(ctx)
				}
			}
		},
		"Deaf": func(context.Context, refundIn) (string, error) {
			b.note("deaf")
			<-b.hold
			return "deaf", nil
		},
	}
}

// flow is a workflow of the team with an activity in it.
func (b *billing) flow(ctx workflow.Context, in refundIn) (refundOut, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var out refundOut
	return out, workflow.ExecuteActivity(ctx, "Refund", in).Get(ctx, &out)
}

// wait is a workflow that waits for a signal or for its cancellation.
func (b *billing) wait(ctx workflow.Context, _ refundIn) (string, error) {
	b.note("waiting")
	var s string
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(workflow.GetSignalChannel(ctx, "go"), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &s) })
	sel.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	sel.Select(ctx)
	return s, ctx.Err()
}

func (w *world) billing() *billing {
	w.t.Helper()
	// A heartbeat brings the news of a cancellation: often, so that heartbeat timeouts can be long.
	return w.billingWith(sdkworker.Options{DeadlockDetectionTimeout: deadlock, MaxHeartbeatThrottleInterval: time.Second})
}

func (w *world) billingWith(o sdkworker.Options) *billing {
	w.t.Helper()
	b := &billing{queue: w.queue + "-billing", hold: make(chan struct{})}
	wk := sdkworker.New(w.c, b.queue, o)
	for name, fn := range b.activities() {
		wk.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	wk.RegisterWorkflowWithOptions(b.flow, workflow.RegisterOptions{Name: "RefundFlow"})
	wk.RegisterWorkflowWithOptions(b.wait, workflow.RegisterOptions{Name: "Wait"})
	require.NoError(w.t, wk.Start())
	b.stop = sync.OnceFunc(wk.Stop)
	w.t.Cleanup(b.stop)
	w.t.Cleanup(b.letGo)
	return b
}

func (b *billing) letGo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.hold:
	default:
		close(b.hold)
	}
}

var (
	refundSchema = json.RawMessage(`{"type":"object","properties":{"orderId":{"type":"string"},"amount":{"type":"integer"}},"required":["orderId"]}`)
	bigSchema    = json.RawMessage(`{"type":"object","properties":{"bytes":{"type":"integer"}}}`)
)

// act is the tool of an activity, flow that of a workflow.
func (b *billing) act(t *testing.T, name, typ string, opts ...tool.Option) *tool.Def {
	t.Helper()
	schema := refundSchema
	if typ == "Big" || typ == "Bytes" || typ == "Markup" {
		schema = bigSchema
	}
	d, err := tool.FromActivity(name, "Does "+name+".", schema, typ, b.queue, opts...)
	require.NoError(t, err)
	return d
}

func (b *billing) child(t *testing.T, name, typ string, opts ...tool.Option) *tool.Def {
	t.Helper()
	d, err := tool.FromWorkflow(name, "Does "+name+".", refundSchema, typ, b.queue, opts...)
	require.NoError(t, err)
	return d
}

// workForeign starts the agent's worker with these tools too.
func (w *world) workForeign(s setup, change func(*worker.Config, *config.Profile), defs ...*tool.Def) {
	w.t.Helper()
	plug, err := worker.New(w.foreignConfig(s, change, defs...))
	require.NoError(w.t, err)
	w.workWith(plug)
}

func (w *world) foreignConfig(s setup, change func(*worker.Config, *config.Profile), defs ...*tool.Def) worker.Config {
	w.t.Helper()
	cfg, done, err := engine(s, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	p := cfg.Profiles["p"]
	cfg.Tools = append(cfg.Tools, defs...)
	for _, d := range defs {
		p.Tools = append(p.Tools, d.Name())
	}
	if change != nil {
		change(&cfg, &p)
	}
	cfg.Profiles["p"] = p
	return cfg
}

func patient(d time.Duration) func(*worker.Config, *config.Profile) {
	return func(c *worker.Config, _ *config.Profile) { c.Patience = d }
}

// script has one turn with these calls and an end.
func script(calls ...string) string {
	return "\nturns:\n  - calls: [" + strings.Join(calls, ", ") + "]\n  - say: done\n"
}

// one runs an agent with one foreign call and returns what the model was told.
func (w *world) one() tool.Result {
	w.t.Helper()
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(w.t, protocol.OK, res.Status, res.Error)
	r := w.results(res)
	require.Len(w.t, r, 1)
	w.sound()
	return r[0].Result
}

func (w *world) scheduledAs(activityType string) []*historypb.ActivityTaskScheduledEventAttributes {
	var out []*historypb.ActivityTaskScheduledEventAttributes
	for _, e := range w.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activityType {
			out = append(out, a)
		}
	}
	return out
}

func TestForeignActivityAsTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Keys: true, Script: script("{tool: refund, args: {orderId: a, amount: 9007199254740993}}")}, nil, b.act(t, "refund", "Refund", tool.Write))
	r := w.one()
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	require.JSONEq(t, `{"receipt":"r-a"}`, string(r.Value))
	require.Equal(t, []string{"refund a 9007199254740993"}, b.notes())
	s := w.scheduledAs("Refund")
	require.Len(t, s, 1)
	require.Equal(t, b.queue, s[0].GetTaskQueue().GetName())
	require.Equal(t, int32(1), s[0].GetRetryPolicy().GetMaximumAttempts())
	require.Contains(t, s[0].GetHeader().GetFields(), protocol.HeaderGrant)
	require.Len(t, w.scheduledAs(protocol.ActivityReceiveResult), 1)
}

func TestForeignActivityTakesPositionalArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	d, err := tool.FromActivity("tick", "Ticks.", json.RawMessage(`{"type":"object","properties":{}}`), "Tick", b.queue, tool.Positional())
	require.NoError(t, err)
	w.workForeign(setup{Script: script("{tool: transfer, args: {amount: 7, orderId: a}}", "{tool: transfer, args: {orderId: b}}",
		"{tool: transfer, args: {orderId: c, memo: x}}", "{tool: tick, args: {}}")},
		nil, b.act(t, "transfer", "Transfer", tool.Positional("orderId", "amount")), d)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK", "OK", "INVALID_ARGUMENTS", "OK"}, w.codes(res))
	require.Equal(t, []string{"transfer a 7", "transfer b 0", "tick"}, b.notes())
	require.Equal(t, "null", string(w.results(res)[3].Result.Value))
	w.sound()
}

func TestForeignFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ   string
		args  string
		opts  []tool.Option
		code  tool.Code
		says  string
		notes []string
	}{
		"an error":            {"Fail", "{orderId: a}", nil, tool.ToolError, "the account is empty (InsufficientFunds)", []string{"fail"}},
		"a plain error":       {"FailPlainly", "{orderId: a}", nil, tool.ToolError, "no such order", nil},
		"a panic":             {"Panic", "{orderId: a}", nil, tool.ToolError, "it panicked: lost my mind", nil},
		"its own retries":     {"Flaky", "{orderId: a}", []tool.Option{tool.Retry{MaximumAttempts: 5, InitialInterval: 10 * time.Millisecond}}, tool.OK, "3", []string{"flaky", "flaky", "flaky"}},
		"retries that end":    {"Fail", "{orderId: a}", []tool.Option{tool.Retry{MaximumAttempts: 2, InitialInterval: 10 * time.Millisecond}}, tool.ToolError, "InsufficientFunds", []string{"fail", "fail"}},
		"an error that ends":  {"Fail", "{orderId: a}", []tool.Option{tool.Retry{MaximumAttempts: 9, NonRetryable: []string{"InsufficientFunds"}}}, tool.ToolError, "InsufficientFunds", []string{"fail"}},
		"not in time":         {"Deaf", "{orderId: a}", []tool.Option{tool.Timeouts{StartToClose: 4 * time.Second}}, tool.EffectUnknown, "did not end in 4s", []string{"deaf"}},
		"reading not in time": {"Deaf", "{orderId: a}", []tool.Option{tool.Read, tool.Timeout(4 * time.Second), tool.Retry{MaximumAttempts: 1}}, tool.ToolTimeout, "did not end in 4s", []string{"deaf"}},
		"no heartbeat":        {"Deaf", "{orderId: a}", []tool.Option{tool.Timeouts{Heartbeat: 4 * time.Second}}, tool.EffectUnknown, "gave no heartbeat for 4s", []string{"deaf"}},
		"not in time in all":  {"Fail", "{orderId: a}", []tool.Option{tool.Timeouts{ScheduleToClose: time.Minute}, tool.Retry{InitialInterval: 2 * time.Minute}}, tool.ToolError, "InsufficientFunds", []string{"fail"}},
		"bytes":               {"Bytes", "{}", nil, tool.NonSerializable, `3 bytes of encoding "binary/plain"`, nil},
		"3 MB":                {"Big", "{bytes: 3000000}", nil, tool.EffectUnknown, "the server", nil},
		"reading 3 MB":        {"Big", "{bytes: 3000000}", []tool.Option{tool.Read, tool.Retry{MaximumAttempts: 1}}, tool.ToolError, "the server", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.billing()
			w.workForeign(setup{Script: script("{tool: x, args: " + c.args + "}")}, nil, b.act(t, "x", c.typ, c.opts...))
			r := w.one()
			require.Equal(t, c.code, r.Code, "%+v", r.Failure)
			if r.Failure != nil {
				require.Contains(t, r.Failure.Message, c.says)
			} else {
				require.Contains(t, string(r.Value), c.says)
			}
			require.Equal(t, c.notes, append([]string(nil), b.notes()...))
		})
	}
}
