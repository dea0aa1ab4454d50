package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// opus costs 5 USD for a million tokens in and 25 out.
var opus = model.Price{Rates: model.Rates{Input: 5, CachedInput: 0.5, Output: 25}, MaxOutput: 2000}

func using(u model.Usage) *says {
	return &says{fn: func(model.Request) (model.Response, error) {
		return model.Response{Text: "hi", Stop: model.StopEnd, Usage: u}, nil
	}}
}

func left(usd float64) *float64 { return &usd }

func TestATurnIsPriced(t *testing.T) {
	for name, tc := range map[string]struct {
		usage    model.Usage
		price    model.Price
		usd      float64
		unpriced bool
		lost     bool
	}{
		"plain":            {model.Usage{InputTokens: 1000, OutputTokens: 100}, opus, 0.0075, false, false},
		"cached":           {model.Usage{InputTokens: 1000, CachedInputTokens: 1000}, opus, 0.0005, false, false},
		"more than all":    {model.Usage{InputTokens: 1000, CachedInputTokens: 5000}, opus, 0.0005, false, false},
		"money back":       {model.Usage{InputTokens: -1e9, OutputTokens: 100, CachedInputTokens: -5}, opus, 0.0025, false, false},
		"no price":         {model.Usage{InputTokens: 1000, OutputTokens: 100}, model.Price{}, 0, true, false},
		"free":             {model.Usage{InputTokens: 1000, OutputTokens: 100}, model.Price{Free: true}, 0, false, false},
		"no usage":         {model.Usage{}, opus, 0, true, true},
		"no usage, no fee": {model.Usage{}, model.Price{Free: true}, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, models(map[string]model.Model{"m": using(tc.usage)}))
			resp, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go", MaxOutputTokens: 100,
				Frozen: b.frozen(activities.Frozen{Prices: model.Prices{"m:x": tc.price}})})
			require.NoError(t, err)
			require.InDelta(t, tc.usd, resp.CostUSD, 1e-12)
			require.Equal(t, tc.unpriced, resp.Unpriced)
			require.Equal(t, tc.lost, resp.LostUSD > 0, "a budget counts what may have been used")
		})
	}
}

// The output is what is left pays for beside the input; a fallback that is cheaper may still be asked.
func TestAFallbackThatCanBePaid(t *testing.T) {
	dear, cheap := text("dear"), text("cheap")
	b := newBench(t, models(map[string]model.Model{"a": dear, "b": cheap}))
	req := protocol.GenerateRequest{Models: []string{"a:x", "b:y"}, Prompt: "go", MaxOutputTokens: 8000, LeftUSD: left(0.004), Frozen: b.frozen(activities.Frozen{
		Prices: model.Prices{"a:x": opus, "b:y": {Rates: model.Rates{Input: 0.5, Output: 2.5}}}})}
	resp, err := b.generate(req)
	require.NoError(t, err)
	require.Equal(t, "cheap", resp.Text)
	require.Empty(t, dear.asked)
	asked := cheap.asked[0].MaxOutputTokens
	require.Greater(t, asked, 256)
	require.Less(t, asked, 1600)
	require.Equal(t, asked, resp.MaxOutputTokens)

	req.LeftUSD = left(0.0001)
	resp, err = b.generate(req)
	require.NoError(t, err)
	require.Contains(t, resp.OverBudget, "0.000100 USD are left, and a turn of ")
	require.Len(t, cheap.asked, 1)

	req.LeftUSD = nil
	_, err = b.generate(req)
	require.NoError(t, err)
	require.Equal(t, 2000, dear.asked[0].MaxOutputTokens, "a model's own bound holds")
}

// An attempt that was lost after it had asked may have been paid. The next one knows of it from the heartbeat.
func TestALostAttemptIsCounted(t *testing.T) {
	b := newBench(t, models(map[string]model.Model{"m": using(model.Usage{InputTokens: 10, OutputTokens: 10})}))
	req := protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go", MaxOutputTokens: 1000, LeftUSD: left(1),
		Frozen: b.frozen(activities.Frozen{Prices: model.Prices{"m:x": opus}})}
	run := func(lost any) (resp protocol.GenerateResponse, told []float64) {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.SetTestTimeout(10 * time.Minute)
		env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{activities.NewInterceptor(b.engine)}})
		env.RegisterActivityWithOptions(b.engine.Generate, activity.RegisterOptions{Name: protocol.ActivityGenerate})
		if lost != nil {
			env.SetHeartbeatDetails(lost)
		}
		env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
			var usd float64
			if details.HasValues() && details.Get(&usd) == nil {
				told = append(told, usd)
			}
		})
		v, err := env.ExecuteActivity(protocol.ActivityGenerate, req)
		require.NoError(t, err)
		require.NoError(t, v.Get(&resp))
		return resp, told
	}
	resp, told := run(nil)
	require.Zero(t, resp.LostUSD)
	require.NotEmpty(t, told)
	require.InDelta(t, 0.025+0.003, told[0], 0.002, "the most that the request can cost, before it is sent")

	resp, _ = run(0.4)
	require.Equal(t, 0.4, resp.LostUSD)
	require.Empty(t, resp.OverBudget)
	resp, _ = run(0.9999)
	require.NotEmpty(t, resp.OverBudget, "what may be spent is not left")
	require.Equal(t, 0.9999, resp.LostUSD)
	resp, _ = run("begun")
	require.Zero(t, resp.LostUSD)
}

// A worker whose profile checks the output in another way must not judge it.
func TestAnotherCheckOfTheOutput(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	check := func(s json.RawMessage) *tool.Validator {
		v, err := tool.OutputFromPair(s, func(json.RawMessage) error { return nil })
		require.NoError(t, err)
		return v
	}
	plain, err := tool.OutputFromSchema(schema)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		output *tool.Validator
		ok     bool
	}{
		"the same": {check(schema), true}, "none": {nil, false}, "unchecked": {plain, false},
		"another": {check(json.RawMessage(`{"type":"object","title":"x"}`)), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, activities.Config{Models: map[string]model.Model{"m": text(`{"a":1}`)}, Profiles: map[string]config.Profile{"p": {Name: "p", Output: tc.output}}})
			resp, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go", Profile: "p",
				Frozen: b.frozen(activities.Frozen{Output: schema, Checked: true})})
			if !tc.ok {
				requireType(t, err, protocol.ErrorConfig, false)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, `{"a":1}`, string(resp.Structured))
		})
	}
}

// speaker says something, and then its stream is cut.
type speaker struct{ err error }

func (s speaker) Generate(context.Context, model.Request) (model.Response, error) {
	return model.Response{}, s.err
}

func (s speaker) Stream(_ context.Context, _ model.Request, progress func(model.Delta)) (model.Response, error) {
	progress(model.Delta{Text: "half an answer"})
	return model.Response{}, s.err
}

// What a provider began to say it charges for, also when the rest never came; a request that it refused costs nothing.
func TestAStreamThatWasCutIsCounted(t *testing.T) {
	cut := &model.Error{Kind: "stream_cut", Msg: "cut", Retry: true}
	for name, tc := range map[string]struct {
		first model.Model
		lost  bool
	}{
		"spoke":          {speaker{&model.Error{Kind: "overloaded", Msg: "later", Retry: true}}, true},
		"cut at once":    {failing(cut), true},
		"cut unheard":    {failing(&model.Error{Kind: "timeout", Msg: "not a byte", Retry: true, Begun: true}), true},
		"refused":        {failing(&model.Error{Kind: "rate_limit", Msg: "later", Retry: true}), false},
		"not even asked": {failing(&model.Error{Kind: "network", Msg: "connection refused", Retry: true}), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, models(map[string]model.Model{"a": tc.first, "b": using(model.Usage{InputTokens: 10, OutputTokens: 10})}))
			resp, err := b.generate(protocol.GenerateRequest{Models: []string{"a:x", "b:y"}, Prompt: "go", MaxOutputTokens: 1000, LeftUSD: left(1),
				Frozen: b.frozen(activities.Frozen{Prices: model.Prices{"a:x": opus, "b:y": opus}})})
			require.NoError(t, err)
			require.Equal(t, tc.lost, resp.LostUSD > 0, "%v", resp.LostUSD)
		})
	}
}

// Telemetry tells a turn whose time is over from others, whatever is owed of it.
func TestAnErrorStaysATimeout(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	b := newBench(t, models(map[string]model.Model{"m": failing(context.DeadlineExceeded)}))
	env := suite.NewTestActivityEnvironment()
	var got error
	env.RegisterActivityWithOptions(func(ctx context.Context, req protocol.GenerateRequest) (resp protocol.GenerateResponse, err error) {
		resp, got = b.engine.Generate(ctx, req)
		return resp, got
	}, activity.RegisterOptions{Name: protocol.ActivityGenerate})
	_, err := env.ExecuteActivity(protocol.ActivityGenerate, protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go", MaxOutputTokens: 1000,
		Frozen: b.frozen(activities.Frozen{Prices: model.Prices{"m:x": opus}})})
	require.Error(t, err)
	require.ErrorIs(t, got, context.DeadlineExceeded)
}

// What an attempt may have cost that ends with an error is in the error: where it was the last one, nothing else says so.
func TestAnErrorSaysWhatItMayHaveCost(t *testing.T) {
	theirs := temporal.NewApplicationError("overloaded", "theirs", 529)
	for name, tc := range map[string]struct {
		model model.Model
		kind  string
		again bool
		lost  bool
	}{
		"endless": {failing(&model.Error{Kind: "endless", Msg: "x"}), protocol.ErrorModel, false, true},
		"cut":     {failing(&model.Error{Kind: "stream_cut", Msg: "x", Retry: true}), protocol.ErrorModel + ".retry", true, true},
		"refused": {failing(&model.Error{Kind: "rate_limit", Msg: "x", Retry: true}), protocol.ErrorModel + ".retry", true, false},
		// What a driver's own error has beside its text is no money.
		"driver's own":              {failing(errors.Join(theirs, &model.Error{Kind: "endless", Msg: "x"})), "theirs", true, true},
		"driver's own, nothing due": {failing(theirs), "theirs", true, false},
		"panicked":                  {&says{fn: func(model.Request) (model.Response, error) { panic("a driver") }}, "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, models(map[string]model.Model{"m": tc.model}))
			_, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go", MaxOutputTokens: 1000, LeftUSD: left(1),
				Frozen: b.frozen(activities.Frozen{Prices: model.Prices{"m:x": opus}})})
			requireType(t, err, tc.kind, tc.again)
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			var usd float64
			require.NoError(t, app.Details(&usd), "an error that says nothing comes from somebody who does not know")
			if !tc.lost {
				require.Zero(t, usd)
				return
			}
			require.InDelta(t, 0.028, usd, 0.002, "a thousand tokens of output and a short prompt")
		})
	}
}

// away is a data converter whose codec cannot read money now.
type away struct{ converter.DataConverter }

func (a away) FromPayloads(p *commonpb.Payloads, to ...any) error {
	if _, money := to[0].(*float64); money {
		return errors.New("the codec is away")
	}
	return a.DataConverter.FromPayloads(p, to...)
}

// What attempts before this one may have cost is known before a model is asked again, or it is not asked.
func TestAnAttemptThatCannotReadWhatIsLost(t *testing.T) {
	m := using(model.Usage{InputTokens: 10, OutputTokens: 10})
	b := newBench(t, models(map[string]model.Model{"m": m}))
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetDataConverter(away{converter.GetDefaultDataConverter()})
	env.RegisterActivityWithOptions(b.engine.Generate, activity.RegisterOptions{Name: protocol.ActivityGenerate})
	env.SetHeartbeatDetails(0.4)
	_, err := env.ExecuteActivity(protocol.ActivityGenerate, protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go", MaxOutputTokens: 1000,
		LeftUSD: left(0.41), Frozen: b.frozen(activities.Frozen{Prices: model.Prices{"m:x": opus}})})
	requireType(t, err, "", true)
	require.ErrorContains(t, err, "the codec is away")
	require.Empty(t, m.asked)
}

// tagged is a driver that says what its model costs.
type tagged struct {
	model.Model
	price model.Price
}

func (p tagged) Price(string) model.Price { return p.price }

// What a driver says of a price that no table could hold is no price: it would give money back, or be no number.
func TestADriversPriceIsOne(t *testing.T) {
	for name, p := range map[string]model.Price{
		"money back":  {Rates: model.Rates{Input: 1, Output: -10}},
		"no number":   {Rates: model.Rates{Input: 1, Output: math.NaN()}},
		"without end": {Rates: model.Rates{Input: math.Inf(1), Output: 1}},
		"half free":   {Rates: model.Rates{Input: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, models(map[string]model.Model{"m": tagged{using(model.Usage{InputTokens: 10, OutputTokens: 10}), p}}))
			var resp protocol.ResolveResponse
			in := protocol.AgentInput{AgentType: "p", Prompt: "go", Models: []string{"m:x"}}
			require.NoError(t, b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset, protocol.ResolveRequest{Input: in}, &resp))
			turn, err := b.generate(protocol.GenerateRequest{Models: resp.Models, Prompt: "go", MaxOutputTokens: 1000, Frozen: &resp.Frozen})
			require.NoError(t, err)
			require.True(t, turn.Unpriced)
			in.BudgetUSD = left(1)
			err = b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset, protocol.ResolveRequest{Input: in}, &resp)
			requireType(t, err, protocol.ErrorConfig, false)
			require.ErrorContains(t, err, "no price is known")
		})
	}
}
