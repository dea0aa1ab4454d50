package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/transcript"
)

// window makes the context window of the bench's model small, and every output token a dollar.
func window(tokens int64) model.Prices {
	return model.Prices{"scripted:s": {Rates: model.Rates{Output: 1e6}, ContextWindow: tokens}}
}

// talker calls a tool for so many turns and then answers. It keeps what it was shown.
type talker struct {
	turns   int
	shown   []model.Request
	summary func(model.Request) (model.Response, error)
}

func (m *talker) Generate(_ context.Context, r model.Request) (model.Response, error) {
	if r.Summary != nil && m.summary != nil {
		return m.summary(r)
	}
	m.shown = append(m.shown, r)
	if r.Summary != nil {
		return model.Response{Text: fmt.Sprintf("summary %d", r.Summary.Number), Stop: model.StopEnd, Usage: model.Usage{OutputTokens: 1}}, nil
	}
	n := 1
	for _, msg := range r.Messages {
		if msg.Role == model.Assistant {
			n++
		}
		if msg.Summary != nil {
			n += msg.Summary.Turns
		}
	}
	if n > m.turns || len(r.Tools) == 0 {
		return model.Response{Text: "done", Stop: model.StopEnd, Usage: model.Usage{OutputTokens: 1}}, nil
	}
	raw, _ := json.Marshal(pathIn{fmt.Sprintf("turn-%d-%s", n, strings.Repeat("x", 400))})
	return model.Response{Stop: model.StopToolUse, Usage: model.Usage{OutputTokens: 1}, Opaque: json.RawMessage(fmt.Sprintf(`{"turn":%d}`, n)),
		Calls: []model.ToolCall{{ID: fmt.Sprint(n), Name: "look", Input: raw}}}, nil
}

// A long conversation is compacted again and again. What the model is shown stays in its window and whole: the task as it
// was, one summary, then turns of which each call has its result. The transcript keeps every message once.
func TestALongConversationIsCompacted(t *testing.T) {
	const turns = 60
	m := &talker{turns: turns}
	b := newBench(t, setup{prices: window(4000), model: m})
	res := b.run(protocol.AgentInput{Prompt: "the task", Limits: &protocol.Limits{MaxTurns: 100, MaxOutputTokens: 500}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, turns+1, res.Turns)
	require.Greater(t, res.Compactions, 3)
	require.Len(t, b.ran["look"], turns)
	require.InDelta(t, turns+1+res.Compactions, res.CostUSD, 1e-6, "compactions cost too")
	require.Equal(t, int64(turns+1+res.Compactions), res.Usage.OutputTokens)

	for _, r := range m.shown {
		require.Less(t, r.InputTokens()*2/3, int64(4000-500))
		if r.Summary != nil {
			require.Empty(t, r.Tools)
			require.Len(t, r.Messages, 1)
			continue
		}
		require.Equal(t, model.Message{Role: model.User, Text: "the task"}, r.Messages[0])
		var open []model.ToolCall
		for i, msg := range r.Messages {
			require.Equal(t, len(open) > 0, msg.Role == model.Tool)
			for j, call := range open {
				require.Equal(t, call.ID, msg.Results[j].CallID)
			}
			require.Equal(t, msg.Summary != nil, strings.Contains(msg.Text, "summary "))
			require.True(t, msg.Summary == nil || i == 1, "one summary, after the task")
			open = msg.Calls
		}
	}

	entries, err := transcript.Verify(context.Background(), b.blob, res.Transcript)
	require.NoError(t, err)
	said, summaries := transcript.Count(entries)
	require.Equal(t, turns+1, said)
	require.Equal(t, 1+2*turns+1, summaries)
	kept := 0
	for _, e := range entries {
		if e.Node.Compaction != nil {
			kept++
		}
	}
	require.Equal(t, res.Compactions, kept)
	b.requireOneResultEach(res)
}

// Room for a long output is taken from the conversation, which is compacted before it has none: it is never cut down first.
func TestALongOutputLeavesLessRoom(t *testing.T) {
	m := &talker{turns: 40}
	b := newBench(t, setup{prices: window(6000), model: m})
	res := b.run(protocol.AgentInput{Prompt: "the task", Limits: &protocol.Limits{MaxTurns: 100}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Greater(t, res.Compactions, 3)
	for _, r := range m.shown {
		require.LessOrEqual(t, r.InputTokens()*2/3+int64(r.MaxOutputTokens), int64(6000))
		for _, msg := range r.Messages[1:] {
			require.NotContains(t, msg.Text, "are shown]")
		}
	}
}

func TestAScriptedSummary(t *testing.T) {
	call := func(n int) string {
		return fmt.Sprintf("  - calls: [{tool: look, args: {path: %q}}]\n", fmt.Sprint(n, strings.Repeat(" long", 300)))
	}
	b := newBench(t, setup{prices: model.Prices{"scripted:s": {ContextWindow: 4000}}, script: "turns:\n" + call(1) + call(2) + call(3) + call(4) + call(5) + call(6) + call(7) +
		"  - {say: done, expect: {lastResult: {code: OK}}}\nsummaries:\n" +
		"  - {say: I looked around., expect: {contains: '1 long'}}\n  - {say: I looked around more., expect: {contains: I looked around.}}\n  - {say: And more.}\n"})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxOutputTokens: 500}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 8, res.Turns)
	require.GreaterOrEqual(t, res.Compactions, 2)
	require.Len(t, b.ran["look"], 7)
}

// A compaction that fails ends the agent with what failed; it never loops.
func TestACompactionThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		summary func(model.Request) (model.Response, error)
		want    string
	}{
		"refused": {func(model.Request) (model.Response, error) {
			return model.Response{Stop: model.StopRefusal, Text: "no"}, nil
		}, "compact the conversation: model: refusal: "},
		"empty": {func(model.Request) (model.Response, error) {
			return model.Response{Stop: model.StopEnd, Text: " "}, nil
		}, "compact the conversation: model: empty_summary: "},
		"error": {func(model.Request) (model.Response, error) {
			return model.Response{}, &model.Error{Kind: "bad_request", Msg: "never"}
		}, "compact the conversation: model: bad_request: never"},
		"too long": {func(model.Request) (model.Response, error) {
			return model.Response{}, &model.Error{Kind: model.KindTooLong, Msg: "still"}
		}, "compact the conversation: model: input_too_long: still"},
		"for a day": {func(model.Request) (model.Response, error) {
			return model.Response{}, &model.Error{Kind: "overloaded", Msg: "later", Retry: true}
		}, "compact the conversation: model: overloaded: later"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{prices: window(4000), model: &talker{turns: 60, summary: tc.summary}})
			res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxTurns: 100, MaxOutputTokens: 500}})
			require.Equal(t, protocol.Failed, res.Status)
			require.Contains(t, res.Error, tc.want)
			require.Less(t, res.Turns, 60)
			require.Zero(t, res.Compactions)
		})
	}
}

// A summary that is as long as what it replaces still fits: it is cut.
func TestAnEndlessSummary(t *testing.T) {
	m := &talker{turns: 30, summary: func(model.Request) (model.Response, error) {
		return model.Response{Text: strings.Repeat("on and on ", 100_000), Stop: model.StopEnd, Usage: model.Usage{OutputTokens: 1}}, nil
	}}
	b := newBench(t, setup{prices: window(8000), model: m})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxTurns: 100, MaxOutputTokens: 500}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Greater(t, res.Compactions, 0)
}

// A result that is larger than the window is shown in part; the transcript has it whole.
func TestAMessageLargerThanTheWindow(t *testing.T) {
	large := tool.MustNew("large", "Says much.", func(context.Context, *tool.Context, pathIn) (string, error) { return strings.Repeat("y", 200<<10), nil }, tool.Read)
	var shown string
	b := newBench(t, setup{prices: window(4000), tools: []*tool.Def{large}, model: modelFunc(func(r model.Request) (model.Response, error) {
		if len(r.Messages) > 1 {
			shown = string(r.Messages[len(r.Messages)-1].Results[0].Result.Value)
			return model.Response{Text: "done", Stop: model.StopEnd}, nil
		}
		return model.Response{Stop: model.StopToolUse, Calls: []model.ToolCall{{ID: "1", Name: "large", Input: json.RawMessage(`{"path":"a"}`)}}}, nil
	})})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxOutputTokens: 500}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Contains(t, shown, "[the result has 204802 bytes, ")
	require.Less(t, len(shown), 12_000)

	// What cannot be shortened ends the agent in words.
	b = newBench(t, setup{prices: window(4000), model: modelFunc(func(model.Request) (model.Response, error) {
		return model.Response{}, errors.New("asked")
	}), profile: profileWith(strings.Repeat("rules ", 10_000))})
	res = b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "input_too_long: the conversation has about ")
}

// A provider may know a smaller window than we do: what it refuses is compacted, once.
func TestAWindowThatNobodyKnows(t *testing.T) {
	m := &talker{turns: 40}
	b := newBench(t, setup{model: modelFunc(func(r model.Request) (model.Response, error) {
		if r.InputTokens() > 6000 {
			return model.Response{}, &model.Error{Kind: model.KindTooLong, Msg: "too long"}
		}
		return m.Generate(context.Background(), r)
	})})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxTurns: 100}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Greater(t, res.Compactions, 0)
	require.Less(t, res.Compactions, 8)
}

func profileWith(system string) config.Profile { return config.Profile{System: system} }
