package workflows_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/transcript"
)

// dollar makes a thousand tokens of output a dollar, and input free of charge.
var dollar = model.Prices{"scripted:s": {Rates: model.Rates{Output: 1000}}}

// The turn that spends the budget is the last: its calls are skipped, nothing more is asked, and the transcript is whole.
func TestTheBudgetEndsAnAgent(t *testing.T) {
	b := newBench(t, setup{prices: dollar, tools: []*tool.Def{noop("report_progress", tool.Read)}, script: `
turns:
  - calls: [{tool: report_progress, args: {path: half}}]
    usage: {inputTokens: 9, outputTokens: 400}
  - calls: [{tool: change, args: {path: a}}, {tool: change, args: {path: b}}]
    usage: {inputTokens: 9, outputTokens: 700}
  - say: never said
`})
	res := b.run(protocol.AgentInput{BudgetUSD: usd(1)})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Equal(t, "the budget of 1 USD was reached, 1.1 USD are spent: nothing is left for another turn", res.Error)
	require.Equal(t, 2, res.Turns)
	require.InDelta(t, 1.1, res.CostUSD, 1e-9)
	require.Empty(t, b.ran["change"])
	require.Equal(t, []string{"OK", "SKIPPED", "SKIPPED"}, b.codes(res))
	require.JSONEq(t, `{"path":"half"}`, string(res.Progress))
	b.requireOneResultEach(res)
	_, err := transcript.Verify(context.Background(), b.blob, res.Transcript)
	require.NoError(t, err)
}

// What is left pays for less than a turn is worth: it is not begun, and no last turn either.
func TestATurnThatCannotBePaidIsNotBegun(t *testing.T) {
	script := `
turns:
  - calls: [{tool: look, args: {path: a}}]
    usage: {outputTokens: 800}
  - say: never said
`
	b := newBench(t, setup{prices: dollar, script: script})
	res := b.run(protocol.AgentInput{BudgetUSD: usd(1)})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Contains(t, res.Error, "the budget of 1 USD was reached, 0.8 USD are spent: 0.200000 USD are left, and a turn of scripted:s")
	require.Equal(t, 1, res.Turns)
	require.Equal(t, []string{"OK"}, b.codes(res), "the call of the turn that was paid ran")

	b = newBench(t, setup{prices: dollar, script: script})
	res = b.run(protocol.AgentInput{BudgetUSD: usd(1), Limits: &protocol.Limits{MaxTurns: 1}})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Contains(t, res.Error, "maxTurns (1) was reached; there was no last turn: the budget of 1 USD was reached")
	require.Equal(t, []string{"OK"}, b.codes(res))
}

// An agent that is done when its money is has done what it was asked.
func TestTheLastAnswerMaySpendTheBudget(t *testing.T) {
	b := newBench(t, setup{prices: dollar, script: "turns: [{say: done, usage: {outputTokens: 1200}}]"})
	res := b.run(protocol.AgentInput{BudgetUSD: usd(1)})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.InDelta(t, 1.2, res.CostUSD, 1e-9)
}

// The smaller one of both budgets counts, and what is left bounds the output of a turn.
func TestNobodyRaisesABudget(t *testing.T) {
	for name, tc := range map[string]struct {
		profile, input *float64
		want           int
	}{
		"the profile's":    {usd(0.5), nil, 500},
		"the input's":      {nil, usd(0.6), 600},
		"lowered":          {usd(0.5), usd(0.4), 400},
		"raised by no one": {usd(0.5), usd(100), 500},
		"none":             {nil, nil, 8192},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			m := modelFunc(func(r model.Request) (model.Response, error) {
				asked.Store(int64(r.MaxOutputTokens))
				return model.Response{Text: "cut", Stop: model.StopMaxTokens, Usage: model.Usage{OutputTokens: int64(r.MaxOutputTokens)}}, nil
			})
			b := newBench(t, setup{prices: dollar, model: m, profile: config.Profile{BudgetUSD: tc.profile}})
			res := b.run(protocol.AgentInput{BudgetUSD: tc.input})
			require.InDelta(t, tc.want, asked.Load(), 1)
			require.Equal(t, protocol.LimitHit, res.Status)
			if tc.want == 8192 {
				require.Equal(t, "the model's output was cut at maxOutputTokens", res.Error)
				return
			}
			require.Contains(t, res.Error, "the model's output was cut at ")
			require.LessOrEqual(t, res.CostUSD, float64(tc.want)/1000)
		})
	}
}

// modelFunc answers by a function.
type modelFunc func(model.Request) (model.Response, error)

func (f modelFunc) Generate(_ context.Context, r model.Request) (model.Response, error) { return f(r) }

func TestABudgetNeedsEveryPrice(t *testing.T) {
	b := newBench(t, setup{model: modelFunc(func(model.Request) (model.Response, error) { return model.Response{}, errors.New("asked") }),
		prices: dollar})
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: "go", BudgetUSD: usd(1), Models: []string{"scripted:s", "scripted:other"}})
	var app *temporal.ApplicationError
	require.ErrorAs(t, b.env.GetWorkflowError(), &app)
	require.Equal(t, protocol.ErrorConfig, app.Type())
	require.Contains(t, app.Message(), `no price is known for model "scripted:other", so that a budget cannot hold; give one in models.prices`)
}

// A cost that nobody knows is not a cost of nothing.
func TestATurnWithoutAPriceIsSaidToBeOne(t *testing.T) {
	b := newBench(t, setup{model: modelFunc(func(model.Request) (model.Response, error) {
		return model.Response{Text: "done", Stop: model.StopEnd, Usage: model.Usage{InputTokens: 5, OutputTokens: 5}}, nil
	})})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 1, res.UnpricedTurns)
	require.Zero(t, res.CostUSD)

	b = newBench(t, setup{script: "turns: [{say: done, usage: {inputTokens: 5, outputTokens: 5}}]"})
	require.Zero(t, b.run(protocol.AgentInput{}).UnpricedTurns, "a script costs nothing, and that is known")
}

// full is a store on a disk that is full once a model was asked.
type full struct {
	blob.Store
	asked *int
}

func (f full) Put(ctx context.Context, raw []byte) (blob.Ref, error) {
	if *f.asked > 0 {
		return blob.Ref{}, syscall.ENOSPC
	}
	return f.Store.Put(ctx, raw)
}

// What a turn may have cost that fails for good is in the result, so that a parent does not get it back.
func TestWhatAFailedTurnMayHaveCostIsCounted(t *testing.T) {
	endless := &model.Error{Kind: "endless", Msg: "x"}
	for name, tc := range map[string]struct {
		says  func() (model.Response, error)
		full  bool
		asked int
		lost  float64
	}{
		// At most 300 tokens of output each.
		"no answer ends": {func() (model.Response, error) { return model.Response{}, endless }, false, 1, 0.3},
		"nothing can be stored": {func() (model.Response, error) {
			return model.Response{Text: "paid", Stop: model.StopEnd, Usage: model.Usage{OutputTokens: 50}}, nil
		}, true, 10, 3},
		"more than was allowed": {func() (model.Response, error) {
			return model.Response{Text: "paid", Stop: model.StopEnd, Usage: model.Usage{OutputTokens: 900}}, nil
		}, true, 10, 9},
		"more than was allowed, unsaid": {func() (model.Response, error) {
			return model.Response{Text: strings.Repeat("x", 1800), Stop: model.StopEnd}, nil
		}, true, 10, 9.01},
		"the driver panics": {func() (model.Response, error) { panic("a driver") }, false, 10, 3},
		// What a driver's own error has in its causes is no money.
		"a driver's own cause": {func() (model.Response, error) {
			return model.Response{}, temporal.NewNonRetryableApplicationError("theirs", "theirs", temporal.NewCanceledError(42.0))
		}, false, 1, 0},
		"a driver's own cancellation": {func() (model.Response, error) { return model.Response{}, temporal.NewCanceledError(42.0) }, false, 1, 0},
		"a driver's own timeout": {func() (model.Response, error) {
			return model.Response{}, temporal.NewNonRetryableApplicationError("theirs", "theirs", temporal.NewHeartbeatTimeoutError(42.0))
		}, false, 1, 0},
		"a driver's own cause, and money": {func() (model.Response, error) {
			return model.Response{}, errors.Join(&model.Error{Kind: "endless"}, temporal.NewNonRetryableApplicationError("theirs", "theirs", temporal.NewHeartbeatTimeoutError(42.0)))
		}, false, 1, 0.3},
		"nothing was asked from": {func() (model.Response, error) { return model.Response{}, &model.Error{Kind: "network", Msg: "refused"} }, false, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := setup{prices: dollar, model: modelFunc(func(model.Request) (model.Response, error) {
				asked++
				return tc.says()
			})}
			if tc.full {
				s.blobs = func(s blob.Store) blob.Store { return full{s, &asked} }
			}
			b := newBench(t, s)
			res := b.run(protocol.AgentInput{BudgetUSD: usd(100), Limits: &protocol.Limits{MaxOutputTokens: 300}})
			require.Equal(t, protocol.Failed, res.Status)
			require.Equal(t, tc.asked, asked)
			require.InDelta(t, tc.lost, res.LostUSD, 1e-9)
		})
	}
}

// However a turn ends for good, what its last attempt or its last report of life says of money counts, and nonsense does not.
func TestWhatTheLastAttemptSaysOfMoney(t *testing.T) {
	app := func(details ...any) error {
		return temporal.NewApplicationErrorWithOptions("no", "X", temporal.ApplicationErrorOptions{NonRetryable: true, Details: details})
	}
	for name, tc := range map[string]struct {
		err  error
		lost float64
	}{
		"error": {app(0.25), 0.25}, "nothing": {app(0.0), 0},
		// Generate says none of these: whoever does knows of no attempt before, and each may have cost what was left.
		"no details": {app(), 100}, "text": {app("much"), 100}, "money back": {app(-1.0), 100}, "a bare error": {errors.New("no"), 100},
		// Their causes are a driver's.
		"a driver's": {temporal.NewApplicationErrorWithOptions("no", "X", temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{0.25},
			Cause: temporal.NewHeartbeatTimeoutError(42.0)}), 0.25},
		"more than there is": {app(1e300), protocol.MostBudget},
		"lost worker":        {temporal.NewHeartbeatTimeoutError(0.5, "speech"), 0.5}, "lost before it asked": {temporal.NewHeartbeatTimeoutError(), 0},
		"cancelled": {temporal.NewCanceledError(0.75), 0.75},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{prices: dollar, script: "turns: [{say: never said}]"})
			b.env.OnActivity(protocol.ActivityGenerate, mock.Anything, mock.Anything).Return(protocol.GenerateResponse{}, tc.err)
			res := b.run(protocol.AgentInput{BudgetUSD: usd(100)})
			require.NotEqual(t, protocol.OK, res.Status)
			require.InDelta(t, tc.lost, res.LostUSD, 1e-9, res.Error)
		})
	}
}

// moneyless is a data converter whose codec cannot read money.
type moneyless struct{ converter.DataConverter }

func (m moneyless) FromPayloads(p *commonpb.Payloads, to ...any) error {
	if _, money := to[0].(*float64); money {
		return errors.New("the codec is away")
	}
	return m.DataConverter.FromPayloads(p, to...)
}

// Where nobody can read any more what the attempts before may have cost, it is all that they were allowed.
func TestWhatNobodyCanReadAnyMoreIsSpent(t *testing.T) {
	asked := 0
	b := newBench(t, setup{prices: dollar, model: modelFunc(func(model.Request) (model.Response, error) {
		asked++
		return model.Response{}, &model.Error{Kind: "stream_cut", Msg: "cut", Retry: true}
	})})
	b.env.SetDataConverter(moneyless{converter.GetDefaultDataConverter()})
	res := b.run(protocol.AgentInput{BudgetUSD: usd(5), Limits: &protocol.Limits{MaxOutputTokens: 300}})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "the codec is away")
	require.Equal(t, 1, asked)
	require.InDelta(t, 5, res.LostUSD, 1e-9)
}

// An operator can end an activity with any value: none gives money back, and none makes a sum that is no number.
func TestNoAnswerGivesMoneyBack(t *testing.T) {
	for name, tc := range map[string]struct {
		says  protocol.GenerateResponse
		spent float64
	}{
		"cost back": {protocol.GenerateResponse{CostUSD: -50}, 0}, "loss back": {protocol.GenerateResponse{LostUSD: -50}, 0},
		"too much": {protocol.GenerateResponse{CostUSD: math.MaxFloat64, LostUSD: math.MaxFloat64}, 2 * protocol.MostBudget},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{prices: dollar, script: "turns: [{say: never said}]"})
			tc.says.Text, tc.says.Stop, tc.says.Transcript = "done", model.StopEnd, blob.Ref{SHA256: strings.Repeat("0", 64), Size: 1}
			b.env.OnActivity(protocol.ActivityGenerate, mock.Anything, mock.Anything).Return(tc.says, nil)
			res := b.run(protocol.AgentInput{BudgetUSD: usd(100)})
			require.GreaterOrEqual(t, res.CostUSD, 0.0)
			require.GreaterOrEqual(t, res.LostUSD, 0.0)
			require.InDelta(t, tc.spent, res.CostUSD+res.LostUSD, 1e-9)
		})
	}
}

// What the attempts of a turn have put down that is cancelled counts, and all that was left where the server does not say it.
func TestWhatACancelledTurnMayHaveCost(t *testing.T) {
	for name, tc := range map[string]struct {
		said protocol.SpentResponse
		late int
		err  error
		lost float64
	}{
		"known": {protocol.SpentResponse{SpentUSD: 0.5}, 0, nil, 0.5}, "nothing was asked": {protocol.SpentResponse{}, 0, nil, 0},
		"money back": {protocol.SpentResponse{SpentUSD: -1}, 0, nil, 0}, "the server does not answer": {protocol.SpentResponse{}, 0, errors.New("away"), 5},
		// Many agents that are cancelled at once are more than a server takes.
		"the server is busy": {protocol.SpentResponse{}, 3, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{prices: dollar, script: "turns: [{say: never said}]", spent: activities.AssentSpent})
			b.env.OnActivity(protocol.ActivityGenerate, mock.Anything, mock.Anything).After(time.Hour).Return(protocol.GenerateResponse{}, nil)
			for range tc.late {
				b.env.OnActivity(activities.AssentSpent, mock.Anything, protocol.SpentRequest{Turn: true}).Return(tc.said, errors.New("busy")).Once()
			}
			b.env.OnActivity(activities.AssentSpent, mock.Anything, protocol.SpentRequest{Turn: true}).Return(tc.said, tc.err)
			b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Minute)
			res := b.run(protocol.AgentInput{BudgetUSD: usd(5)})
			require.Equal(t, protocol.Cancelled, res.Status)
			require.InDelta(t, tc.lost, res.LostUSD, 1e-9)
			b.env.AssertExpectations(t)
		})
	}
}
