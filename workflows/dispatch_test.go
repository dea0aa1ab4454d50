package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// Whatever becomes of a tool's activity is a code, and says whether the effect can have happened.
func TestWhatBecomesOfAnActivity(t *testing.T) {
	refusal := temporal.NewApplicationErrorWithOptions("no", protocol.ErrorDenied,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{tool.Deny(tool.ByGuard, "g", "not today")}})
	for name, tc := range map[string]struct {
		err          error
		change, look string
	}{
		"refused with its result": {refusal, "DENIED/guard", "DENIED/guard"},
		"refused without one":     {temporal.NewNonRetryableApplicationError("no", protocol.ErrorDenied, nil), "DENIED/grant", "DENIED/grant"},
		"refused as a success": {temporal.NewApplicationErrorWithOptions("no", protocol.ErrorDenied, temporal.ApplicationErrorOptions{
			NonRetryable: true, Details: []any{tool.Result{Code: tool.OK}}}), "DENIED/grant", "DENIED/grant"},
		"an error of the worker": {errors.New("disk full"), "EFFECT_UNKNOWN", "TOOL_ERROR"},
		"the worker stopped":     {temporal.NewApplicationError("stopped", "assent.WorkerStopped"), "EFFECT_UNKNOWN", "TOOL_ERROR"},
		"never started":          {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), "TOOL_ERROR", "TOOL_ERROR"},
		"lost while it ran":      {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil), "TOOL_ERROR", "TOOL_ERROR"},
		"not registered":         {temporal.NewApplicationError("x", "ActivityNotRegisteredError"), "CONTRACT_DRIFT", "CONTRACT_DRIFT"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{script: `
turns:
  - calls: [{tool: change, args: {path: a}}, {tool: look, args: {path: b}}]
  - say: done
`})
			b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(tool.Result{}, tc.err)
			b.env.OnActivity("tool.look", mock.Anything, mock.Anything).Return(tool.Result{}, tc.err)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{tc.change, tc.look}, b.codes(res))
		})
	}
}

// A worker whose tool drifted gives the call back; another one gets it under the same call id.
func TestDriftIsTriedAgain(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: change, args: {path: a}}]
  - say: done
`})
	n := 0
	b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(func(_ context.Context, c tool.Call) (tool.Result, error) {
		require.Empty(t, c.ID, "the activity says it")
		if n++; n < 3 {
			return tool.Fail(tool.ContractDrift, "an older build"), nil
		}
		return tool.Result{Code: tool.OK, Value: []byte(`1`)}, nil
	})
	var ids []string
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "tool.change" {
			ids = append(ids, info.ActivityID)
		}
	})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK"}, b.codes(res))
	require.Equal(t, []string{"t1.1", "t1.1~2", "t1.1~3"}, ids)
}

func TestDriftEndsAfterASetTime(t *testing.T) {
	b := newBench(t, setup{script: oneAsk})
	start := b.env.Now()
	b.env.OnActivity("tool.run", mock.Anything, mock.Anything).Return(tool.Fail(tool.ContractDrift, "an older build"), nil)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"CONTRACT_DRIFT"}, b.codes(res))
	require.GreaterOrEqual(t, b.env.Now().Sub(start), 10*time.Minute, "of workflow time")
}

// A worker that does not serve a call says whether an attempt before it was lost. If no worker ever serves it, the model is not
// told that it did not run.
func TestDriftAfterALostAttempt(t *testing.T) {
	drift := tool.Fail(tool.ContractDrift, "the source does not answer")
	drift.Failure.Started = true
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: change, args: {path: a}}, {tool: look, args: {path: b}}]
  - say: done
`})
	n := 0
	b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(func(context.Context, tool.Call) (tool.Result, error) {
		if n++; n > 1 {
			return tool.Fail(tool.ContractDrift, "an older build"), nil
		}
		return drift, nil
	})
	b.env.OnActivity("tool.look", mock.Anything, mock.Anything).Return(drift, nil)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"EFFECT_UNKNOWN", "CONTRACT_DRIFT"}, b.codes(res))
	require.Greater(t, n, 2)
}

// A run that is cancelled while its calls wait for their place starts none of them.
func TestCancelledRunStartsNothing(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: change, args: {path: a}}, {tool: run, args: {path: b}}]
  - say: done
`})
	b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Fail(tool.ContractDrift, "an older build"), nil
	})
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Minute)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Cancelled, res.Status)
	require.Empty(t, b.ran)
}

// outcome collects what an update said.
type outcome struct {
	rejected, failed error
	value            any
}

func (o *outcome) Accept()          {}
func (o *outcome) Reject(err error) { o.rejected = err }
func (o *outcome) Complete(v any, err error) {
	o.value, o.failed = v, err
}

// The update says at once what is wrong with an answer; only a good one is taken.
func TestTheUpdate(t *testing.T) {
	b := newBench(t, asking(twoAsks))
	outcomes := map[string]*outcome{}
	send := func(text string) {
		outcomes[text] = &outcome{}
		b.env.UpdateWorkflow(protocol.UpdateResolve, text, outcomes[text], json.RawMessage(text))
	}
	wrong := map[string]string{
		`{"key":"run-0","decision":"allow"}`: "no such question is pending",
		`"allow"`:                            "no JSON object",
		`{"decision":"allow"}`:               "names no key",
	}
	var good, late string
	b.env.RegisterDelayedCallback(func() {
		key := b.list().Pending[0].Key
		wrong[`{"key":"`+key+`","decision":"yes"}`] = "none of allow, deny, revoke"
		wrong[`{"key":"`+key+`"}`] = "it has no decision"
		wrong[`{"key":"`+key+`","by":"x","decision":"allow","by":"y"}`] = "appears twice"
		for text := range wrong {
			send(text)
		}
	}, time.Minute)
	b.env.RegisterDelayedCallback(func() {
		require.Len(t, b.list().Pending, 2, "nothing has changed")
		require.Empty(t, b.list().Ignored)
		key := b.list().Pending[0].Key
		good, late = `{"key":"`+key+`","decision":"allow","by":"alice"}`, `{"key":"`+key+`","decision":"deny"}`
		send(good)
		send(late)
	}, time.Hour)
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.Len(t, p, 1)
		send(`{"key":"` + p[0].Key + `","decision":"deny"}`)
	}, 2*time.Hour)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK", "DENIED/person"}, b.codes(res))
	for text, why := range wrong {
		require.ErrorContains(t, outcomes[text].rejected, why, text)
	}
	require.NoError(t, outcomes[good].rejected)
	require.NoError(t, outcomes[good].failed)
	require.Equal(t, approval.Allow, outcomes[good].value.(protocol.Accepted).Decision)
	require.ErrorContains(t, outcomes[late].rejected, "already")
	closed := b.list().Closed
	require.Equal(t, "update", closed[0].Via)
	require.Equal(t, "alice", closed[0].By)
}

// Search attributes are written when the run starts, suspends, resumes and ends, and only if the namespace has them.
func TestSearchAttributes(t *testing.T) {
	b := newBench(t, asking(oneAsk))
	b.env.OnActivity(protocol.ActivityResolveToolset, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, req protocol.ResolveRequest) (protocol.ResolveResponse, error) {
			resp, err := b.engine.ResolveToolset(ctx, req)
			resp.Attributes = true
			return resp, err
		})
	var statuses []string
	var tools [][]string
	b.env.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(a temporal.SearchAttributes) bool {
		s, _ := a.GetKeyword(temporal.NewSearchAttributeKeyKeyword(protocol.AttrStatus))
		pending, _ := a.GetKeywordList(temporal.NewSearchAttributeKeyKeywordList(protocol.AttrPendingTool))
		statuses, tools = append(statuses, s), append(tools, slices.Clone(pending))
		return true
	})).Return(nil)
	b.answer(time.Hour, 0, "allow")
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK"}, b.codes(res))
	require.Equal(t, []string{"running", "waiting", "running", "done"}, statuses)
	require.Equal(t, []string{"run"}, tools[1])
	require.Empty(t, tools[3])
}
