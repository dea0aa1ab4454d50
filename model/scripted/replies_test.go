package scripted_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/tool"
)

// One script serves agents with different tasks, and reacts to what tools return.
func TestRepliesAreForTheRequestsThatTheyName(t *testing.T) {
	m, err := scripted.Parse("s", []byte(`
replies:
  - {when: {lastResult: {tool: run, code: TOOL_ERROR}}, say: it broke, calls: [{tool: look}]}
  - {when: {lastResult: {contains: green}}, say: all is well}
  - {when: {prompt: docs, turn: 1}, say: writing, calls: [{tool: write}]}
  - {when: {contains: Be brief}, say: ok}
turns: [{say: first, calls: [{tool: run}]}, {say: second}]
`))
	require.NoError(t, err)
	user := func(text string) model.Message { return model.Message{Role: model.User, Text: text} }
	said := model.Message{Role: model.Assistant, Text: "x", Calls: []model.ToolCall{{Name: "run"}}}
	returned := func(name string, r tool.Result) model.Message {
		return model.Message{Role: model.Tool, Results: []model.ToolResult{{Name: name, Result: r}}}
	}
	ok := tool.Result{Code: tool.OK, Value: []byte(`"tests are green"`)}
	broke := tool.Fail(tool.ToolError, "green no more")
	for want, messages := range map[string][]model.Message{
		"first":       {user("fix the bug")},
		"writing":     {user("write the docs")},
		"second":      {user("write the docs"), said, returned("write", tool.Result{Code: tool.OK, Value: []byte(`"red"`)})},
		"it broke":    {user("fix"), said, returned("run", broke)},
		"all is well": {user("fix"), said, returned("look", broke)},
		"ok":          {user("fix"), said, returned("run", ok), said, user("Be brief.")},
	} {
		got, err := m.Generate(context.Background(), model.Request{Messages: messages, Tools: []model.Spec{{Name: "run"}}})
		require.NoError(t, err)
		require.Equal(t, want, got.Text)
	}
	_, err = m.Generate(context.Background(), model.Request{})
	require.NoError(t, err)
	alone, err := scripted.Parse("s", []byte(`replies: [{when: {turn: 1}, say: hi}]`))
	require.NoError(t, err)
	_, err = alone.Generate(context.Background(), model.Request{Messages: []model.Message{user("a"), said}})
	require.ErrorContains(t, err, "has 0 turns and turn 2 was asked for")
}

func TestBadReplies(t *testing.T) {
	for text, says := range map[string]string{
		`replies: [{say: hi}]`:                                "says which requests the reply is for",
		`replies: [{when: {}, say: hi}]`:                      "says which requests the reply is for",
		`replies: [{when: {turn: -1}}]`:                       "turns count from 1",
		`replies: [{when: {lastResult: {}}}]`:                 "needs code, contains or tool",
		`replies: [{when: {lastResult: {code: NICE}}}]`:       `unknown result code "NICE"`,
		`replies: [{when: {promt: x}}]`:                       `unknown field "promt"`,
		`turns: [{when: {turn: 1}, say: hi}]`:                 "is for replies",
		`{turns: [{say: a}], summaries: [{when: {turn: 1}}]}`: "no when",
		`replies: [{when: {turn: 1}, calls: [{args: {}}]}]`:   "a call names its tool",
		`replies: []`: "at least one turn",
	} {
		_, err := scripted.Parse("s.yaml", []byte(text))
		require.True(t, fault.IsConfig(err), text)
		require.ErrorContains(t, err, says)
	}
}
