package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

const oneRefund = "{tool: refund, args: {orderId: a, amount: 1}}"

func asksForRefunds(t *testing.T, opts ...tool.Option) (*world, *billing) {
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Keys: true, Script: script(oneRefund)}, nil, b.act(t, "refund", "Refund", append(opts, tool.Write, tool.NeedsApproval())...))
	w.start(protocol.AgentInput{})
	return w, b
}

func TestForeignCallThatIsDeniedNeverRuns(t *testing.T) {
	t.Parallel()
	w, b := asksForRefunds(t)
	w.answer(w.pending(1)[0].Key, approval.Deny)
	res := w.result()
	require.Equal(t, []string{"DENIED/person"}, w.codes(res))
	require.Empty(t, b.notes())
	require.Empty(t, w.scheduledAs("Refund"))
	w.sound()
}

// What a person writes is what arrives, byte for byte.
func TestForeignCallIsEdited(t *testing.T) {
	t.Parallel()
	w, b := asksForRefunds(t)
	key := w.pending(1)[0].Key
	w.send(`{"key":"` + key + `","decision":"allow","input":{"orderId":"b","amount":9007199254740993}}`)
	res := w.result()
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.Equal(t, []string{"refund b 9007199254740993"}, b.notes())
	require.JSONEq(t, `{"orderId":"b","amount":9007199254740993}`, string(w.results(res)[0].Result.FinalInput))
	w.sound()
}

// An edit that does not fit is an answer that allows nothing.
func TestForeignCallIsEditedBadly(t *testing.T) {
	t.Parallel()
	w, b := asksForRefunds(t, tool.Positional("orderId", "amount"))
	w.send(`{"key":"` + w.pending(1)[0].Key + `","decision":"allow","input":{"orderId":"b","account":"mine"}}`)
	require.NotEqual(t, []string{"OK"}, w.codes(w.result()))
	require.Empty(t, b.notes())
}

// Arguments that are not in history cannot be passed to a worker that has no store of ours: that is said before anybody is
// asked, and of an edit after it.
func TestForeignArgumentsAreTooLong(t *testing.T) {
	t.Parallel()
	t.Run("of the model", func(t *testing.T) {
		w := newWorld(t)
		b := w.billing()
		w.workForeign(setup{Script: script("{tool: refund, args: {orderId: " + strings.Repeat("x", protocol.InlineInput) + "}}")}, nil,
			b.act(t, "refund", "Refund", tool.NeedsApproval()))
		r := w.one()
		require.Equal(t, tool.InvalidArguments, r.Code)
		require.Contains(t, r.Failure.Message, "at most 32768 bytes")
		require.Empty(t, b.notes())
	})
	t.Run("of a person", func(t *testing.T) {
		w, b := asksForRefunds(t)
		w.send(`{"key":"` + w.pending(1)[0].Key + `","decision":"allow","input":{"orderId":"` + strings.Repeat("x", 20<<10) + `"}}`)
		require.Equal(t, []string{"INVALID_ARGUMENTS"}, w.codes(w.result()))
		require.Empty(t, b.notes())
		w.sound()
	})
}

// An approval that ends before a worker takes the call lets nothing run, although that worker looks at no clock.
func TestForeignApprovalExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.workForeign(setup{Script: script(oneRefund)}, nil, (&billing{queue: w.queue + "-nobody"}).act(t, "refund", "Refund", tool.NeedsApproval()))
	w.start(protocol.AgentInput{})
	b, err := json.Marshal(protocol.Resolution{Key: w.pending(1)[0].Key, Decision: approval.Allow, ExpiresAt: ptr(time.Now().Add(3 * time.Second))})
	require.NoError(t, err)
	w.send(string(b))
	require.Equal(t, []string{"DENIED/expired"}, w.codes(w.result()))
	w.sound()
}

func ptr[T any](v T) *T { return &v }

// A queue that nobody polls ends the call, and never the agent.
func TestForeignQueueThatNobodyPolls(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]tool.Option{
		"effect": {tool.Write},
		"read":   {tool.Read},
		// No attempt has begun, so there is no doubt about its effect.
		"with retries": {tool.Write, tool.Retry{MaximumAttempts: 5}},
		"its own time": {tool.Timeouts{ScheduleToStart: time.Second}},
		"in all":       {tool.Timeouts{ScheduleToClose: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			change := patient(2 * time.Second)
			if name == "its own time" || name == "in all" {
				change = nil
			}
			w.workForeign(setup{Script: script(oneRefund)}, change, (&billing{queue: w.queue + "-nobody"}).act(t, "refund", "Refund", opts...))
			r := w.one()
			require.Equal(t, tool.ToolError, r.Code, "%+v", r.Failure)
			require.Contains(t, r.Failure.Message, "no worker took")
			require.Contains(t, r.Failure.Message, "-nobody")
			require.Contains(t, r.Failure.Message, "never started")
		})
	}
}

// A worker that does not know the type is one of an older build, perhaps: another one gets the call.
func TestForeignTypeThatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Script: script(oneRefund)}, nil, b.act(t, "refund", "Unheard", tool.Timeouts{ScheduleToStart: 9 * time.Second}))
	r := w.one()
	require.Equal(t, tool.ToolError, r.Code, "%+v", r.Failure)
	require.Contains(t, r.Failure.Message, "does not know it")
	require.Len(t, w.scheduledAs("Unheard"), 2, "it was tried again before patience ended, ten seconds later")
}

// What an activity returns passes the listeners before anybody sees it, and errors do.
func TestForeignResultsPassTheListeners(t *testing.T) {
	t.Parallel()
	var seen []string
	redact := pipeline.PluginFunc("redact", func(s *pipeline.Scope) error {
		if err := s.Observe(func(_ context.Context, c pipeline.Call, r tool.Result) error {
			seen = append(seen, c.Name+" "+c.Info.Remote.Type+" "+string(r.Code)+" "+string(r.Value))
			return nil
		}); err != nil {
			return err
		}
		return s.Post(func(_ context.Context, _ pipeline.Call, r tool.Result, _ func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
			switch {
			case r.IsOK():
				return pipeline.Replace(json.RawMessage(`"a receipt"`)), nil
			case strings.Contains(r.Failure.Message, "account"):
				return pipeline.Block("nobody's business"), nil
			}
			return pipeline.Accept(), nil
		})
	})
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Script: script(oneRefund, "{tool: fail, args: {orderId: a}}")},
		func(c *worker.Config, _ *config.Profile) { c.Plugins = append(c.Plugins, redact) }, b.act(t, "refund", "Refund"), b.act(t, "fail", "Fail"))
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, []string{"OK", "BLOCKED"}, w.codes(res))
	require.JSONEq(t, `"a receipt"`, string(w.results(res)[0].Result.Value))
	require.Equal(t, "nobody's business", w.results(res)[1].Result.Failure.Message)
	require.Equal(t, []string{`refund Refund OK "a receipt"`, "fail Fail BLOCKED "}, seen)
}

// A team that guards the activity too lets a call of an agent pass, which was asked about once, and nothing else.
func TestForeignWorkerWithAGuard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guard, err := worker.NewGuard(worker.GuardConfig{
		Tools: map[string]tool.Options{"Refund": {Risk: tool.Write}}, Permissions: permission.Layer{Preset: permission.Strict},
		GrantKeys: []protocol.GrantKey{grantKey}, Enforce: activities.On, Log: logger(),
	})
	require.NoError(t, err)
	b := w.billingWith(sdkworker.Options{DeadlockDetectionTimeout: deadlock, Plugins: []sdkworker.Plugin{guard}})
	w.workForeign(setup{Keys: true, Script: script(oneRefund)}, nil, b.act(t, "refund", "Refund", tool.NeedsApproval()))
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	res := w.result()
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.Equal(t, []string{"refund a 1"}, b.notes())
}

// Without the key that the team trusts, the grant is none.
func TestForeignWorkerWithAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guard, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"Refund": {Risk: tool.Write}},
		GrantKeys: []protocol.GrantKey{{ID: "theirs", Secret: []byte("fedcba9876543210")}}, Enforce: activities.On, Log: logger()})
	require.NoError(t, err)
	b := w.billingWith(sdkworker.Options{DeadlockDetectionTimeout: deadlock, Plugins: []sdkworker.Plugin{guard}})
	w.workForeign(setup{Keys: true, Script: script(oneRefund)}, nil, b.act(t, "refund", "Refund"))
	r := w.one()
	require.Equal(t, tool.Denied, r.Code, "%+v", r.Failure)
	require.Equal(t, tool.ByGrant, r.Failure.Reason)
	require.Empty(t, b.notes())
}

// changing is an interceptor of the team of the agent that rewrites what leaves, or wraps what comes.
type changing struct {
	interceptor.WorkerInterceptorBase
	change bool
}

func (c *changing) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	i := &changingIn{c: c}
	i.Next = next
	return i
}

type changingIn struct {
	interceptor.WorkflowInboundInterceptorBase
	c *changing
}

func (i *changingIn) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &changingOut{c: i.c}
	o.Next = out
	return i.Next.Init(o)
}

type changingOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	c *changing
}

func (o *changingOut) rewritten(args []any) []any {
	if o.c.change {
		return []any{json.RawMessage(`{"orderId":"mine","amount":1000}`)}
	}
	return args
}

func (o *changingOut) ExecuteActivity(ctx workflow.Context, typ string, args ...any) workflow.Future {
	if typ == "Refund" {
		args = o.rewritten(args)
	}
	return wrapped{o.Next.ExecuteActivity(ctx, typ, args...)}
}

func (o *changingOut) ExecuteChildWorkflow(ctx workflow.Context, typ string, args ...any) workflow.ChildWorkflowFuture {
	return o.Next.ExecuteChildWorkflow(ctx, typ, o.rewritten(args)...)
}

type wrapped struct{ workflow.Future }

// What a team's interceptors make of a call after a person has allowed it does not run. That they look on is fine.
func TestForeignCallAndInterceptors(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]bool{"that look on": false, "that rewrite": true} {
		for kind, def := range map[string]func(b *billing) *tool.Def{
			"activity": func(b *billing) *tool.Def { return b.act(t, "refund", "Refund") },
			"workflow": func(b *billing) *tool.Def { return b.child(t, "refund", "RefundFlow") },
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				b := w.billing()
				cfg := w.foreignConfig(setup{Keys: true, Script: script(oneRefund)}, nil, def(b))
				p, err := worker.New(cfg)
				require.NoError(t, err)
				o := options(p)
				o.Interceptors = []interceptor.WorkerInterceptor{&changing{change: change}}
				wk := sdkworker.New(w.c, w.queue, o)
				require.NoError(t, wk.Start())
				t.Cleanup(wk.Stop)
				w.start(protocol.AgentInput{})
				r := w.results(w.result())[0].Result
				if !change {
					require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
					require.Equal(t, []string{"refund a 1"}, b.notes())
					w.sound()
					return
				}
				require.Equal(t, tool.Denied, r.Code, "%+v", r.Failure)
				require.Contains(t, r.Failure.Message, "changed the call")
				require.Empty(t, b.notes())
			})
		}
	}
}

// sealed is a codec that no other process can read.
type sealed struct{}

func (sealed) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		b, err := p.Marshal()
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/sealed")}, Data: flip(b)}
	}
	return out, nil
}

func (sealed) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		if out[i] = p; string(p.GetMetadata()["encoding"]) == "binary/sealed" {
			out[i] = &commonpb.Payload{}
			if err := out[i].Unmarshal(flip(p.GetData())); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func flip(in []byte) []byte {
	out := make([]byte, len(in))
	for i, b := range in {
		out[i] = b ^ 0x5a
	}
	return out
}

// A team's codec seals what goes to its worker and what comes back, like everything of theirs.
func TestForeignCallWithACodec(t *testing.T) {
	t.Parallel()
	dc := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), sealed{})
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, Logger: sdklog.NewStructuredLogger(logger()), DataConverter: dc})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w := newWorldAt(t, c, t.TempDir())
	w.converter = dc
	b := w.billing()
	w.workForeign(setup{Script: script("{tool: refund, args: {orderId: topsecret}}", "{tool: huge, args: {bytes: 1900000}}", "{tool: flow, args: {orderId: topsecret}}")},
		func(c *worker.Config, _ *config.Profile) { c.DataConverter = dc },
		b.act(t, "refund", "Refund"), b.act(t, "huge", "Big"), b.child(t, "flow", "RefundFlow"))
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, []string{"OK", "OK", "OK"}, w.codes(res))
	require.JSONEq(t, `{"receipt":"r-topsecret"}`, string(w.results(res)[0].Result.Value))
	for _, e := range w.history() {
		raw, err := e.Marshal()
		require.NoError(t, err)
		if e.EventType == enumspb.EVENT_TYPE_MARKER_RECORDED {
			continue
		}
		require.NotContains(t, string(raw), "topsecret", "event %d %s", e.EventId, e.EventType)
	}
}
