package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

const payTwice = `
turns:
  - calls: [{tool: pay, args: {to: a, cents: 1}}]
  - say: done
`

var paySchema = json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"cents":{"type":"integer"}},"required":["to"]}`)

func payer(t *testing.T, opts ...tool.Option) *tool.Def {
	t.Helper()
	d, err := tool.FromActivity("pay", "Pays.", paySchema, "Pay", "bank", opts...)
	require.NoError(t, err)
	return d
}

func payFlow(t *testing.T, opts ...tool.Option) *tool.Def {
	t.Helper()
	d, err := tool.FromWorkflow("pay", "Pays.", paySchema, "Pay", "bank", opts...)
	require.NoError(t, err)
	return d
}

// bank is an agent's surroundings with an activity that another worker would run.
func bank(t *testing.T, d *tool.Def, fn func(context.Context, json.RawMessage) (json.RawMessage, error)) *bench {
	t.Helper()
	b := newBench(t, setup{script: payTwice, tools: []*tool.Def{d}})
	b.env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: "Pay"})
	b.env.RegisterActivityWithOptions(b.engine.ReceiveResult, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
	return b
}

func (b *bench) only(res protocol.AgentResult) tool.Result {
	b.t.Helper()
	require.Equal(b.t, protocol.OK, res.Status, res.Error)
	r := b.results(res)
	require.Len(b.t, r, 1)
	return r[0].Result
}

func TestForeignActivityGetsTheArguments(t *testing.T) {
	var got []string
	b := bank(t, payer(t), func(_ context.Context, in json.RawMessage) (json.RawMessage, error) {
		got = append(got, string(in))
		return json.RawMessage(`{"receipt":9007199254740993}`), nil
	})
	r := b.only(b.run(protocol.AgentInput{}))
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	require.JSONEq(t, `{"receipt":9007199254740993}`, string(r.Value))
	require.Equal(t, []string{`{"cents":1,"to":"a"}`}, got)
}

// Every way in which a call of another worker ends is a result, and none says more than is known.
func TestForeignFailures(t *testing.T) {
	refusal := func(r tool.Result) error {
		return temporal.NewApplicationErrorWithOptions("refused", protocol.ErrorDenied, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{r}})
	}
	for name, c := range map[string]struct {
		err    error
		opts   []tool.Option
		code   tool.Code
		reason tool.Reason
		says   string
	}{
		"its error":                     {temporal.NewApplicationError("no money", "Poor"), nil, tool.ToolError, "", "no money (Poor)"},
		"a plain one":                   {errors.New("no money"), nil, tool.ToolError, "", "no money"},
		"a long one":                    {errors.New(strings.Repeat("x", 100_000)), nil, tool.ToolError, "", "xxx…"},
		"a guard's refusal":             {refusal(tool.Deny(tool.ByGuard, "limits", "too much")), nil, tool.Denied, tool.ByGuard, "too much"},
		"a guard's doubt":               {refusal(tool.Fail(tool.EffectUnknown, "was reset")), nil, tool.EffectUnknown, "", "was reset"},
		"a refusal without a result":    {temporal.NewNonRetryableApplicationError("no", protocol.ErrorDenied, nil), nil, tool.Denied, tool.ByGrant, "no"},
		"a lost tree is not believed":   {refusal(tool.Fail(tool.EnvironmentLost, "gone")), nil, tool.Denied, tool.ByGrant, "refused"},
		"success is not believed":       {refusal(tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}), nil, tool.Denied, tool.ByGrant, "refused"},
		"a result that was too large":   {temporal.NewApplicationError("too large", "payloadSizeError"), nil, tool.EffectUnknown, "", "larger than the server takes"},
		"the same when only read":       {temporal.NewApplicationError("too large", "payloadSizeError"), []tool.Option{tool.Read}, tool.ToolError, "", "larger than the server takes"},
		"cancelled by itself":           {temporal.NewCanceledError(), nil, tool.ToolError, "", "unexpected activity cancel"},
		"a timeout below its error":     {temporal.NewApplicationErrorWithCause("no answer", "Bank", temporal.NewTimeoutError(1, nil)), nil, tool.ToolError, "", "no answer (Bank)"},
		"a cancellation below an error": {temporal.NewApplicationErrorWithCause("no answer", "Bank", temporal.NewCanceledError()), nil, tool.ToolError, "", "no answer (Bank)"},
		"nobody knows the type":         {temporal.NewApplicationError("unable to find activityType", "ActivityNotRegisteredError"), []tool.Option{tool.Timeouts{ScheduleToStart: time.Second}}, tool.ToolError, "", "does not know it"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bank(t, payer(t, c.opts...), func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, c.err })
			r := b.only(b.run(protocol.AgentInput{}))
			require.Equal(t, c.code, r.Code, "%+v", r.Failure)
			require.Equal(t, c.reason, r.Failure.Reason)
			require.Contains(t, r.Failure.Message, c.says)
			require.Less(t, len(r.Failure.Message), 5000)
		})
	}
}

// A worker that does not know the type is asked again until patience ends, and one that does gets the call.
func TestForeignCallWaitsForAWorkerThatKnowsIt(t *testing.T) {
	n := 0
	b := bank(t, payer(t), func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		if n++; n < 5 {
			return nil, temporal.NewApplicationError("unable to find activityType", "ActivityNotRegisteredError")
		}
		return json.RawMessage(`"` + activity.GetInfo(ctx).ActivityID + `"`), nil
	})
	r := b.only(b.run(protocol.AgentInput{}))
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	require.JSONEq(t, `"t1.1~5"`, string(r.Value))
}

// What has happened is not lost because no worker of the agent can take it; what came back is not told past the listeners.
func TestForeignResultThatCannotBeReceived(t *testing.T) {
	tries := 0
	b := newBench(t, setup{script: payTwice, tools: []*tool.Def{payer(t)}})
	b.env.RegisterActivityWithOptions(func(context.Context, json.RawMessage) (string, error) { return "a secret", nil }, activity.RegisterOptions{Name: "Pay"})
	b.env.RegisterActivityWithOptions(func(context.Context, protocol.ReceiveRequest, converter.RawValue) (tool.Result, error) {
		tries++
		return tool.Result{}, errors.New("the store is away")
	}, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
	r := b.only(b.run(protocol.AgentInput{}))
	require.Equal(t, tool.ToolError, r.Code)
	require.Equal(t, "the call ended with OK, and what it returned could not be received", r.Failure.Message)
	require.True(t, r.Failure.Started)
	require.Equal(t, 10, tries)
}

// An activity that expects no heartbeats cannot be told; the agent does not wait for it for longer than a moment.
func TestForeignCallIsCancelledUnheard(t *testing.T) {
	b := newBench(t, setup{script: payTwice, tools: []*tool.Def{payer(t, tool.Timeout(24*time.Hour))}})
	b.env.RegisterActivityWithOptions(func(context.Context, json.RawMessage) (string, error) { return "", nil }, activity.RegisterOptions{Name: "Pay"})
	b.env.RegisterActivityWithOptions(b.engine.ReceiveResult, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
	b.env.OnActivity("Pay", mock.Anything, mock.Anything).Return("late", nil).After(10 * time.Hour)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
	began := b.env.Now()
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Cancelled, res.Status)
	require.Less(t, b.env.Now().Sub(began), 2*time.Hour)
}

func TestForeignWorkflowIsAChild(t *testing.T) {
	b := newBench(t, setup{script: payTwice, tools: []*tool.Def{payFlow(t, tool.Positional("cents", "to"))}})
	b.env.RegisterActivityWithOptions(b.engine.ReceiveResult, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
	b.env.RegisterWorkflowWithOptions(func(ctx workflow.Context, cents int, to string) (map[string]any, error) {
		i := workflow.GetInfo(ctx)
		return map[string]any{"paid": cents, "to": to, "queue": i.TaskQueueName, "id": i.WorkflowExecution.ID, "bound": i.WorkflowRunTimeout.String()}, nil
	}, workflow.RegisterOptions{Name: "Pay"})
	r := b.only(b.run(protocol.AgentInput{}))
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	require.JSONEq(t, `{"paid":1,"to":"a","queue":"bank","id":"default-test-run-id_t1.1","bound":"10m0s"}`, string(r.Value))
}

func TestForeignWorkflowFails(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code tool.Code
		says string
	}{
		"its error": {temporal.NewApplicationError("no money", "Poor"), tool.ToolError, "no money (Poor)"},
		"cancelled": {temporal.NewCanceledError(), tool.Aborted, "cancelled while it ran"},
		"timed out": {temporal.NewTimeoutError(1, nil), tool.EffectUnknown, "may have had its effect"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{script: payTwice, tools: []*tool.Def{payFlow(t)}})
			b.env.RegisterActivityWithOptions(b.engine.ReceiveResult, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
			b.env.RegisterWorkflowWithOptions(func(workflow.Context, json.RawMessage) error { return c.err }, workflow.RegisterOptions{Name: "Pay"})
			r := b.only(b.run(protocol.AgentInput{}))
			require.Equal(t, c.code, r.Code, "%+v", r.Failure)
			require.Contains(t, r.Failure.Message, c.says)
		})
	}
}

// A foreign call is a call like any other: it waits for its answer, it counts, it is skipped at the limit.
func TestForeignCallsCountAndAsk(t *testing.T) {
	ran := 0
	b := newBench(t, setup{tools: []*tool.Def{payer(t, tool.Write)},
		profile: config.Profile{Permissions: permission.Layer{Preset: permission.Strict}, Limits: protocol.Limits{MaxToolCalls: 2}},
		script: `
turns:
  - calls: [{tool: pay, args: {to: a}}, {tool: pay, args: {to: b}}, {tool: pay, args: {to: c}}]
  - say: done
`})
	b.env.RegisterActivityWithOptions(func(context.Context, json.RawMessage) error { ran++; return nil }, activity.RegisterOptions{Name: "Pay"})
	b.env.RegisterActivityWithOptions(b.engine.ReceiveResult, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
	b.answer(time.Hour, 0, approval.Deny)
	b.answer(2*time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Equal(t, []string{"DENIED/person", "OK", "SKIPPED"}, b.codes(res))
	require.Equal(t, 1, ran)
	require.Equal(t, 2, res.Calls)
}

// An approval that ends while the call waits for its place lets nothing run: no worker of ours would look at the clock.
func TestForeignCallThatWaitedTooLong(t *testing.T) {
	ran := 0
	b := newBench(t, setup{tools: []*tool.Def{payer(t, tool.NeedsApproval())}, script: `
turns:
  - calls: [{tool: change, args: {path: a}}, {tool: pay, args: {to: a}}]
  - say: done
`})
	b.env.RegisterActivityWithOptions(func(context.Context, json.RawMessage) error { ran++; return nil }, activity.RegisterOptions{Name: "Pay"})
	b.env.RegisterActivityWithOptions(b.engine.ReceiveResult, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
	b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}, nil).After(3 * time.Hour)
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.Len(t, p, 1)
		at := time.Now().Add(2 * time.Hour)
		b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: p[0].Key, Decision: approval.Allow, ExpiresAt: &at})
	}, time.Minute)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK", "DENIED/expired"}, b.codes(res))
	require.Zero(t, ran)
}
