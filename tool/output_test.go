package tool_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

type reportOut struct {
	Title string `json:"title"`
	Level int    `json:"level,omitempty" jsonschema:"default=2"`
}

func TestOutputForms(t *testing.T) {
	typed := tool.MustOutputFor[reportOut]()
	require.True(t, typed.Checked())
	got, issues := typed.Accept(json.RawMessage(` {"title": "x"} `))
	require.Empty(t, issues)
	require.Equal(t, `{"level":2,"title":"x"}`, string(got))
	_, issues = typed.Accept(json.RawMessage(`{"level": "high"}`))
	require.NotEmpty(t, issues)
	_, issues = typed.Accept(json.RawMessage(`{`))
	require.NotEmpty(t, issues)

	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","default":1}}}`)
	literal, err := tool.OutputFromSchema(schema)
	require.NoError(t, err)
	require.False(t, literal.Checked())
	got, issues = literal.Accept(json.RawMessage(`{}`))
	require.Empty(t, issues)
	require.Equal(t, `{}`, string(got), "nothing is filled in for a schema that was written by hand")

	pair, err := tool.OutputFromPair(schema, func(raw json.RawMessage) error {
		if string(raw) == `{"n":7}` {
			return errors.Join(errors.New("seven"), errors.New("is refused"))
		}
		if string(raw) == `{"n":8}` {
			panic("eight")
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, pair.Checked())
	_, issues = pair.Accept(json.RawMessage(`{"n": 7}`))
	require.Equal(t, []tool.Issue{{Message: "seven"}, {Message: "is refused"}}, issues)
	_, issues = pair.Accept(json.RawMessage(`{"n": 8}`))
	require.Len(t, issues, 1, "a check that panics is an issue")
	_, issues = pair.Accept(json.RawMessage(`{"n": 9}`))
	require.Empty(t, issues)
}

func TestOutputsThatAreNone(t *testing.T) {
	_, err := tool.OutputFor[string]()
	require.True(t, fault.IsConfig(err), "%v", err)
	_, err = tool.OutputFor[func()]()
	require.True(t, fault.IsConfig(err), "%v", err)
	require.Panics(t, func() { tool.MustOutputFor[int]() })
	for _, schema := range []string{``, `{}`, `{"type":"array"}`, `{"type":"object","pattern":"("}`, `nonsense`} {
		_, err := tool.OutputFromSchema(json.RawMessage(schema))
		require.True(t, fault.IsConfig(err), "%s: %v", schema, err)
		_, err = tool.OutputFromPair(json.RawMessage(schema), func(json.RawMessage) error { return nil })
		require.True(t, fault.IsConfig(err), "%s: %v", schema, err)
	}
	_, err = tool.OutputFromPair(json.RawMessage(`{"type":"object"}`), nil)
	require.True(t, fault.IsConfig(err), "%v", err)
}
