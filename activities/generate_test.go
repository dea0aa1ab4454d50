package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// says is a model that answers by a function and keeps what it was asked.
type says struct {
	fn    func(model.Request) (model.Response, error)
	asked []model.Request
}

func (s *says) Generate(_ context.Context, r model.Request) (model.Response, error) {
	s.asked = append(s.asked, r)
	return s.fn(r)
}

func text(s string) *says {
	return &says{fn: func(model.Request) (model.Response, error) {
		return model.Response{Text: s, Stop: model.StopEnd, Usage: model.Usage{InputTokens: 1, OutputTokens: 2}}, nil
	}}
}

func failing(err error) *says {
	return &says{fn: func(model.Request) (model.Response, error) { return model.Response{}, err }}
}

func models(m map[string]model.Model) activities.Config { return activities.Config{Models: m} }

func TestTheFirstModelThatWorksAnswers(t *testing.T) {
	limited := &model.Error{Kind: "rate_limit", Msg: "later", Retry: true, After: 7 * time.Second}
	refused := &model.Error{Kind: "bad_request", Msg: "never"}
	a, b, c := failing(refused), failing(limited), text("hello")
	bench := newBench(t, models(map[string]model.Model{"a": a, "b": b, "c": c}))
	resp, err := bench.generate(protocol.GenerateRequest{Models: []string{"a:x", "b:y", "c:z"}, Prompt: "go", Frozen: bench.frozen(activities.Frozen{System: "s"}), MaxOutputTokens: 9})
	require.NoError(t, err)
	require.Equal(t, "c:z", resp.Model)
	require.Equal(t, "hello", resp.Text)
	require.Equal(t, model.Usage{InputTokens: 1, OutputTokens: 2}, resp.Usage)
	require.Equal(t, "z", c.asked[0].Model)
	require.Equal(t, "s", c.asked[0].System)
	require.Equal(t, 9, c.asked[0].MaxOutputTokens)
	require.Equal(t, []model.Message{{Role: model.User, Text: "go"}}, c.asked[0].Messages)

	_, err = bench.generate(protocol.GenerateRequest{Models: []string{"a:x", "b:y"}, Prompt: "go"})
	requireType(t, err, protocol.ErrorModel+".retry", true)
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app))
	require.Equal(t, 7*time.Second, app.NextRetryDelay(), "the failure that can pass is the one that is told")

	_, err = bench.generate(protocol.GenerateRequest{Models: []string{"a:x"}, Prompt: "go"})
	requireType(t, err, protocol.ErrorModel, false)
	_, err = bench.generate(protocol.GenerateRequest{Models: []string{"d:x"}, Prompt: "go"})
	requireType(t, err, protocol.ErrorConfig, false)
	_, err = bench.generate(protocol.GenerateRequest{Models: []string{"c:z"}, Prompt: "go", Store: "elsewhere"})
	requireType(t, err, protocol.ErrorStore, false)
}

// One result for each call, in order, whatever the workflow had to say about it.
func TestEveryCallIsAnswered(t *testing.T) {
	m := &says{fn: func(r model.Request) (model.Response, error) {
		if len(r.Messages) > 1 {
			return model.Response{Text: "done", Stop: model.StopEnd}, nil
		}
		return model.Response{Stop: model.StopToolUse, Calls: []model.ToolCall{
			{ID: "1", Name: "look", Input: raw(pathIn{"a"})}, {ID: "1", Name: "look", Input: raw(pathIn{"a"})}, {ID: "3", Name: "run", Raw: "{"}}}, nil
	}}
	b := newBench(t, models(map[string]model.Model{"m": m}))
	first, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go"})
	require.NoError(t, err)
	require.Len(t, first.Calls, 3)
	for n := range 5 {
		var results []model.ToolResult
		for range n {
			results = append(results, model.ToolResult{CallID: "wrong", Name: "wrong", Result: tool.Result{Code: tool.OK, Value: raw(1)}})
		}
		_, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Transcript: &first.Transcript, Results: results, Note: "hurry"})
		require.NoError(t, err)
		messages := m.asked[len(m.asked)-1].Messages
		require.Len(t, messages, 4)
		got := messages[2].Results
		require.Len(t, got, 3)
		for i, id := range []string{"1", "1", "3"} {
			require.Equal(t, id, got[i].CallID)
			want := tool.Skipped
			if i < n {
				want = tool.OK
			}
			require.Equal(t, want, got[i].Result.Code)
		}
		require.Equal(t, model.Message{Role: model.User, Text: "hurry"}, messages[3])
	}
}

func TestATurnIsBounded(t *testing.T) {
	calls := make([]model.ToolCall, 200)
	for i := range calls {
		calls[i] = model.ToolCall{ID: "c", Name: strings.Repeat("n", 1000), Input: raw(pathIn{strings.Repeat("<", 5000)})}
	}
	calls[0].Raw, calls[0].Input = strings.Repeat("é", 5000), nil
	m := &says{fn: func(model.Request) (model.Response, error) {
		return model.Response{Text: strings.Repeat("é", 20<<10), Calls: calls, Stop: model.StopToolUse}, nil
	}}
	b := newBench(t, models(map[string]model.Model{"m": m}))
	resp, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go"})
	require.NoError(t, err)
	require.Len(t, resp.Calls, protocol.MaxCallsPerTurn)
	require.Equal(t, 200-protocol.MaxCallsPerTurn, resp.Dropped)
	require.Less(t, len(raw(resp)), 1<<20)
	require.Equal(t, strings.Repeat("é", 512)+"…", resp.Calls[0].Raw)
	inline := 0
	for _, c := range resp.Calls[1:] {
		require.True(t, (c.Input == nil) != (c.InputRef == nil), "exactly one is set")
		inline += len(c.Input)
		if c.InputRef != nil {
			stored, err := b.store.Get(context.Background(), *c.InputRef)
			require.NoError(t, err)
			require.JSONEq(t, string(calls[1].Input), string(stored))
		}
	}
	require.LessOrEqual(t, inline, protocol.InlineTurn)
	messages, err := b.engine.Transcript(context.Background(), &resp.Transcript)
	require.NoError(t, err)
	require.Len(t, messages[1].Calls, 200, "the transcript is whole")
	require.Len(t, messages[1].Text, 40<<10)
}

func TestStoredResultsAreShown(t *testing.T) {
	m := &says{fn: func(r model.Request) (model.Response, error) {
		if len(r.Messages) > 1 {
			return model.Response{Stop: model.StopEnd}, nil
		}
		return model.Response{Calls: []model.ToolCall{{ID: "1", Name: "look", Input: raw(pathIn{"a"})}, {ID: "2", Name: "look", Input: raw(pathIn{"b"})}}}, nil
	}}
	b := newBench(t, models(map[string]model.Model{"m": m}))
	first, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go"})
	require.NoError(t, err)
	put := func(v any) *blob.Ref {
		ref, err := b.store.Put(context.Background(), raw(v))
		require.NoError(t, err)
		return &ref
	}
	results := []model.ToolResult{{Result: tool.Result{Code: tool.OK, ValueRef: put(strings.Repeat("v", 5000)), Preview: "vvv"}},
		{Result: tool.Result{Code: tool.OK, ValueRef: put(strings.Repeat("w", 300<<10))}}}
	second, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Transcript: &first.Transcript, Results: results})
	require.NoError(t, err)
	got := m.asked[1].Messages[2].Results
	require.Len(t, got[0].Result.Value, 5002)
	require.Empty(t, got[0].Result.Preview)
	require.Nil(t, got[0].Result.ValueRef)
	require.Contains(t, string(got[1].Result.Value), "the result has 307202 bytes, 262144 are shown")
	require.True(t, json.Valid(got[1].Result.Value))
	kept, err := b.engine.Transcript(context.Background(), &second.Transcript)
	require.NoError(t, err)
	require.NotNil(t, kept[2].Results[0].Result.ValueRef, "the transcript keeps references")

	missing := results
	missing[0].Result.ValueRef = ptr(refOf("gone"))
	_, err = b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Transcript: &first.Transcript, Results: missing})
	require.Error(t, err)
	_, err = b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Transcript: ptr(refOf("gone"))})
	require.Error(t, err)
}

// Text that is not JSON, in any place, is kept as raw text; the transcript can be read and sent back.
func TestInvalidTurnsAreKept(t *testing.T) {
	for name, c := range map[string]model.ToolCall{
		"half":         {Input: json.RawMessage(`{"a":`)},
		"two values":   {Input: json.RawMessage(`{} {}`)},
		"not UTF-8":    {Input: json.RawMessage("{\"a\":\"\xff\"}")},
		"raw":          {Raw: "\xff{"},
		"nothing":      {},
		"both":         {Raw: "x", Input: json.RawMessage(`{`)},
		"a lone quote": {Input: json.RawMessage(`"`)},
	} {
		t.Run(name, func(t *testing.T) {
			c.ID, c.Name = "1\xff", "look"
			m := &says{fn: func(model.Request) (model.Response, error) {
				return model.Response{Calls: []model.ToolCall{c}, Opaque: json.RawMessage(`{`), Stop: model.StopToolUse}, nil
			}}
			b := newBench(t, models(map[string]model.Model{"m": m}))
			resp, err := b.generate(protocol.GenerateRequest{Models: []string{"m:x"}, Prompt: "go"})
			require.NoError(t, err)
			require.Empty(t, resp.Calls[0].Input)
			messages, err := b.engine.Transcript(context.Background(), &resp.Transcript)
			require.NoError(t, err)
			require.Empty(t, messages[1].Calls[0].Input)
			require.Empty(t, messages[1].Opaque)
		})
	}
}
