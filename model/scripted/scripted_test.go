package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/tool"
)

const fixer = `
turns:
  - say: Looking.
    calls:
      - tool: list_files
        args: {dir: ., deep: true, n: 9007199254740993}
      - {tool: read_file, id: mine, raw: '{"path": "a"'}
    usage: {inputTokens: 100, cachedInputTokens: 40, outputTokens: 7}
  - expect: {lastResult: {code: TOOL_ERROR, contains: no such file}}
    calls: [{tool: ping}]
    stop: max_tokens
  - say: Done.
`

func parse(t *testing.T, text string) *scripted.Model {
	t.Helper()
	m, err := scripted.Parse("s.yaml", []byte(text))
	require.NoError(t, err)
	return m
}

// request returns a conversation in which the model has spoken turns times and the last result is last.
func request(turns int, last *tool.Result) model.Request {
	r := model.Request{Messages: []model.Message{{Role: model.User, Text: "go"}}, Tools: []model.Spec{{Name: "ping"}}}
	for i := range turns {
		r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Text: "x"})
		if last != nil && i == turns-1 {
			r.Messages = append(r.Messages, model.Message{Role: model.Tool, Results: []model.ToolResult{
				{CallID: "a", Name: "first", Result: tool.Result{Code: tool.OK}},
				{CallID: "b", Name: "second", Result: *last},
			}})
		}
	}
	return r
}

func TestTurnsArePlayedByPosition(t *testing.T) {
	m := parse(t, fixer)
	require.Equal(t, 3, m.Turns())
	for range 2 { // a retry of the same request is the same turn
		got, err := m.Generate(t.Context(), request(0, nil))
		require.NoError(t, err)
		require.Equal(t, model.Response{
			Text: "Looking.",
			Calls: []model.ToolCall{
				{ID: "call_1_1", Name: "list_files", Input: json.RawMessage(`{"deep":true,"dir":".","n":9007199254740993}`)},
				{ID: "mine", Name: "read_file", Raw: `{"path": "a"`},
			},
			Stop:  model.StopToolUse,
			Usage: model.Usage{InputTokens: 100, CachedInputTokens: 40, OutputTokens: 7},
		}, got)
	}
	got, err := m.Generate(t.Context(), request(2, nil))
	require.NoError(t, err)
	require.Equal(t, model.Response{Text: "Done.", Stop: model.StopEnd}, got)
}

func TestAnExpectationThatHoldsPlaysTheTurn(t *testing.T) {
	last := tool.Fail(tool.ToolError, "open a: no such file")
	got, err := parse(t, fixer).Generate(t.Context(), request(1, &last))
	require.NoError(t, err)
	require.Equal(t, []model.ToolCall{{ID: "call_2_1", Name: "ping", Input: json.RawMessage(`{}`)}}, got.Calls)
	require.Equal(t, model.StopMaxTokens, got.Stop)
}

func TestAnExpectationThatFailsSaysWhatWasFound(t *testing.T) {
	ok := tool.Result{Code: tool.OK, Value: json.RawMessage(`"fine"`)}
	other := tool.Fail(tool.ToolError, "disk full")
	for want, last := range map[string]*tool.Result{
		`expected a last result with code TOOL_ERROR and containing "no such file", found OK from second: "fine"`:       &ok,
		`expected a last result with code TOOL_ERROR and containing "no such file", found TOOL_ERROR from second: disk`: &other,
		`found no tool result`: nil,
	} {
		_, err := parse(t, fixer).Generate(t.Context(), request(1, last))
		var e *model.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, scripted.KindExpectation, e.Kind)
		require.False(t, e.Retry)
		require.Contains(t, e.Msg, want)
	}
}

func TestContainsSeesTextAndJSON(t *testing.T) {
	last := tool.Result{Code: tool.OK, Value: json.RawMessage(`"two\nlines"`)}
	for _, contains := range []string{`"two\nlines"`, `'two\nlines'`} { // a line break, and the two characters of its JSON
		m := parse(t, "turns: [{}, {say: y, expect: {lastResult: {contains: "+contains+"}}}]")
		_, err := m.Generate(t.Context(), request(1, &last))
		require.NoError(t, err, contains)
	}
	// Values that are no strings are compared as JSON.
	last.Value = json.RawMessage(`{"exitCode":1}`)
	_, err := parse(t, `turns: [{}, {expect: {lastResult: {contains: '"exitCode":1'}}}]`).Generate(t.Context(), request(1, &last))
	require.NoError(t, err)
}

func TestAScriptThatEndsEarlyIsNotRetried(t *testing.T) {
	_, err := parse(t, fixer).Generate(t.Context(), request(3, nil))
	var e *model.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, scripted.KindEnded, e.Kind)
	require.False(t, e.Retry)
	require.Contains(t, e.Msg, "3 turns")
}

func TestALastTurnWithoutToolsHasNoCalls(t *testing.T) {
	r := request(0, nil)
	r.Tools = nil
	got, err := parse(t, fixer).Generate(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "Looking.", got.Text)
	require.Empty(t, got.Calls)
	require.Equal(t, model.StopEnd, got.Stop)
}

func TestACancelledContextIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := parse(t, fixer).Generate(ctx, request(0, nil))
	require.ErrorIs(t, err, context.Canceled)
}

func TestRawThatIsJSONIsSentAsWritten(t *testing.T) {
	m := parse(t, `turns: [{calls: [{tool: a, raw: '{"x":1, "x":2}'}, {tool: b, args: [1]}, {tool: c, raw: ''}]}]`)
	got, err := m.Generate(t.Context(), request(0, nil))
	require.NoError(t, err)
	require.Equal(t, `{"x":1, "x":2}`, string(got.Calls[0].Input))
	require.Equal(t, `[1]`, string(got.Calls[1].Input))
	require.Empty(t, got.Calls[2].Input)
}

func TestBadScriptsNameThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                        "s.yaml:1:1: turns: a script has at least one turn",
		"turns: []":                                               "s.yaml:1:8: turns: a script has at least one turn",
		"turns:\n  - sya: x":                                      `s.yaml:2:5: unknown field "sya"`,
		"turns:\n  - say: x\n    say: y":                          `s.yaml:3:5: mapping key "say" already defined`,
		"turns:\n  - calls: [{args: {}}]":                         "turns[0].calls[0].tool: a call names its tool",
		"turns:\n  - calls:\n      - args: {}":                    "s.yaml:3:9: turns[0].calls[0].tool: a call names its tool",
		"turns:\n  - stop: maybe":                                 `s.yaml:2:11: turns[0].stop: unknown stop reason "maybe"; one of end, tool_use, max_tokens, refusal`,
		"turns:\n  - usage: {inputTokens: -1}":                    "turns[0].usage: token counts",
		"turns:\n  - usage: {inputTokens: two}":                   "s.yaml:2:26: ",
		"turns:\n  - expect: {lastResult: {code: NOPE}}":          `s.yaml:2:33: turns[0].expect.lastResult.code: unknown result code "NOPE"`,
		"turns:\n  - expect: {lastResult: {}}":                    "turns[0].expect.lastResult: needs code, contains or tool",
		"turns:\n  - calls: [{tool: a, args: {x: 1}, raw: '{}'}]": "turns[0].calls[0].raw: give args or raw, not both",
		"turns:\n  - calls: [{tool: a, args: {x: .nan}}]":         "turns[0].calls[0].args: not expressible in JSON",
		"turns: [":                "s.yaml:1:",
		"turns: {}":               "s.yaml:1:",
		"turns: [{}]\n---\nx: 1":  "s.yaml:3:1: a script is one YAML document",
		"turns: [{}]\nmodel: gpt": `s.yaml:2:1: unknown field "model"`,
	} {
		_, err := scripted.Parse("s.yaml", []byte(text))
		require.Error(t, err, "%s", text)
		require.True(t, fault.IsConfig(err), "%s: %v", text, err)
		require.Contains(t, err.Error(), want, "%s", text)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.TrimSpace(fixer)), 0o600))
	m, err := scripted.Load(path)
	require.NoError(t, err)
	require.Equal(t, 3, m.Turns())

	_, err = scripted.Load(path + ".gone")
	require.True(t, fault.IsConfig(err))
	require.True(t, errors.Is(err, os.ErrNotExist))
	require.Contains(t, err.Error(), path+".gone")
}

// A summary stands for turns that were played, so that the script goes on where it was.
func TestSummaries(t *testing.T) {
	m, err := scripted.Parse("s.yaml", []byte(`
turns: [{say: one}, {say: two}, {say: three, expect: {contains: hurry}}]
summaries: [{say: It went well., usage: {inputTokens: 9, cacheWriteTokens: 4, outputTokens: 3}, expect: {contains: minutes}}]
`))
	require.NoError(t, err)
	about := func(n int) *model.Summary { return &model.Summary{Number: n, Turns: 2, Messages: 3} }
	ask := func(r model.Request) (string, error) {
		resp, err := m.Generate(context.Background(), r)
		return resp.Text, err
	}
	said, err := m.Generate(context.Background(), model.Request{Summary: about(1), Messages: []model.Message{{Role: model.User, Text: "the minutes"}}})
	require.NoError(t, err)
	require.Equal(t, model.Response{Text: "It went well.", Stop: model.StopEnd, Usage: model.Usage{InputTokens: 9, CacheWriteTokens: 4, OutputTokens: 3}}, said)
	_, err = ask(model.Request{Summary: about(1), Messages: []model.Message{{Role: model.User, Text: "else"}}})
	require.ErrorContains(t, err, `script "s.yaml" summary 1: expected a last message containing "minutes", found "else"`)
	_, err = ask(model.Request{Summary: about(2)})
	require.ErrorContains(t, err, `has 1 summaries and summary 2 was asked for`)

	talk := []model.Message{{Role: model.User, Text: "go"}, {Role: model.User, Text: "It went well.", Summary: about(1)}}
	_, err = ask(model.Request{Messages: talk})
	require.ErrorContains(t, err, `turn 3: expected a last message containing "hurry"`)
	text, err := ask(model.Request{Messages: append(talk, model.Message{Role: model.User, Text: "hurry up"})})
	require.NoError(t, err)
	require.Equal(t, "three", text)

	plain, err := scripted.Parse("s.yaml", []byte("turns: [{say: one}]"))
	require.NoError(t, err)
	resp, err := plain.Generate(context.Background(), model.Request{Summary: about(4)})
	require.NoError(t, err)
	require.Equal(t, "Summary 4 of 2 turns.", resp.Text)

	for text, want := range map[string]string{
		"turns: [{say: x}]\nsummaries: [{calls: [{tool: x}]}]":                          "s.yaml:2:13: summaries[0]: a summary has no calls, no last result and no when",
		"turns: [{say: x}]\nsummaries: [{expect: {lastResult: {code: OK}}}]":            "summaries[0]: a summary has no calls, no last result and no when",
		"turns: [{usage: {inputTokens: 2, cachedInputTokens: 1, cacheWriteTokens: 2}}]": "cached ones are a part of the input",
		"turns: [{usage: {cacheWriteTokens: -1}}]":                                      "token counts are not negative",
	} {
		_, err := scripted.Parse("s.yaml", []byte(text))
		require.ErrorContains(t, err, want)
	}
}
