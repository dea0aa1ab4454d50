package model_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

func TestPairedLeavesAGoodConversation(t *testing.T) {
	r := func(id string, code tool.Code) model.ToolResult {
		return model.ToolResult{CallID: id, Name: "look", Result: tool.Result{Code: code}}
	}
	good := []model.Message{
		{Role: model.User, Text: "hi"},
		{Role: model.Assistant, Text: "looking", Opaque: json.RawMessage(`{}`), Calls: []model.ToolCall{
			{ID: "a", Name: "look", Input: json.RawMessage(`{"n":1}`)}, {ID: "b", Name: "look", Input: json.RawMessage(`{}`)}}},
		{Role: model.Tool, Results: []model.ToolResult{r("a", tool.OK), r("b", tool.Denied)}},
		{Role: model.User, Text: "a note"},
	}
	require.Equal(t, good, model.Paired(good))
}

func TestPairedMends(t *testing.T) {
	in := []model.Message{
		{Role: model.User, Text: "hi"},
		{Role: model.Assistant, Calls: []model.ToolCall{{ID: "a", Name: "x y", Raw: `{"`}, {ID: "a", Name: "look", Input: json.RawMessage(`"s"`)}}},
		// Ids need not be unique; the order is.
		{Role: model.Tool, Results: []model.ToolResult{{CallID: "a", Result: tool.Result{Code: tool.OK}}, {CallID: "a", Result: tool.Result{Code: tool.Denied}}}},
		{Role: model.Assistant, Text: "cut"},
	}
	out := model.Paired(in)
	require.Len(t, out, 5)
	require.Equal(t, "a", out[1].Calls[0].ID)
	require.Equal(t, "x_y", out[1].Calls[0].Name)
	require.JSONEq(t, `{"invalid_arguments":"{\""}`, string(out[1].Calls[0].Input))
	require.JSONEq(t, `{"invalid_arguments":"\"s\""}`, string(out[1].Calls[1].Input))
	require.NotEqual(t, "a", out[1].Calls[1].ID)
	require.Equal(t, tool.OK, out[2].Results[0].Result.Code)
	require.Equal(t, tool.Denied, out[2].Results[1].Result.Code)
	require.Equal(t, model.Message{Role: model.User, Text: "Continue."}, out[4])
	require.Equal(t, "a", in[1].Calls[1].ID, "what it was given is as it was")
}

// Whatever a transcript holds, each call has one result and the other way round.
func FuzzPaired(f *testing.F) {
	f.Add([]byte(`[{"role":"user","text":"hi"},{"role":"assistant","calls":[{"id":"a","name":"b","input":{}},{"id":"a"}]},{"role":"tool","results":[{"callId":"z"}]},{"role":"assistant"}]`))
	f.Add([]byte(`[{"role":"tool","results":[{"callId":"a"}]},{"role":"assistant","calls":[{"id":"call_1_1","raw":"x"},{"id":""}]},{"role":"assistant","calls":[{"id":"call_1_1"}]}]`))
	id := regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var in []model.Message
		if json.Unmarshal(raw, &in) != nil {
			return
		}
		seen := map[string]bool{}
		out := model.Paired(in)
		for i, m := range out {
			if m.Role == model.Tool {
				require.Positive(t, i)
				require.Len(t, m.Results, len(out[i-1].Calls))
				for n, r := range m.Results {
					require.Equal(t, out[i-1].Calls[n].ID, r.CallID)
				}
			}
			if m.Role != model.Assistant {
				continue
			}
			if len(m.Calls) > 0 {
				require.Equal(t, model.Tool, out[i+1].Role)
			}
			for _, c := range m.Calls {
				require.False(t, seen[c.ID])
				require.Regexp(t, id, c.ID)
				require.Regexp(t, id, c.Name)
				require.Equal(t, byte('{'), c.Input[0])
				require.True(t, json.Valid(c.Input))
				seen[c.ID] = true
			}
		}
		if n := len(out); n > 0 {
			require.NotEqual(t, model.Assistant, out[n-1].Role)
		}
	})
}

func TestTold(t *testing.T) {
	for _, c := range []struct {
		result tool.Result
		text   string
		failed bool
	}{
		{tool.Result{Code: tool.OK, Value: json.RawMessage(`"a <b>"`)}, "a <b>", false},
		{tool.Result{Code: tool.OK, Value: json.RawMessage(`{"n":9007199254740993}`)}, `{"n":9007199254740993}`, false},
		{tool.Result{Code: tool.OK}, "null", false},
		{tool.Result{Code: tool.OK, Value: json.RawMessage(`null`)}, "null", false},
		{tool.Result{Code: tool.OK, Value: json.RawMessage(`1`), FinalInput: json.RawMessage(`{"a":"<"}`)},
			`{"note":"The call ran with these arguments, which are not yours.","arguments":{"a":"<"},"result":1}`, false},
		{tool.Deny(tool.ByPerson, "ann", "no"), `{"code":"DENIED","message":"no","reason":"person"}`, true},
		{tool.Result{Code: tool.Aborted}, `{"code":"ABORTED","message":"the call did not succeed"}`, true},
	} {
		text, failed := model.Told(c.result)
		require.Equal(t, c.text, text)
		require.Equal(t, c.failed, failed)
	}
}

func TestStrict(t *testing.T) {
	for schema, want := range map[string][2]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:                                                {true, true},
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                                                                 {true, false},
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                             {false, false},
		`{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`:                                  {false, false},
		`{"type":"object","properties":{"a":{"type":"string","format":"date"}},"required":["a"],"additionalProperties":false}`:                                {true, true},
		`{"type":"object","properties":{"a":{"type":"string","format":"regex"}},"required":["a"],"additionalProperties":false}`:                               {false, false},
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{}}}},"required":["a"],"additionalProperties":false}`:       {false, false},
		`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/$defs/x"},true]}},"required":["a"],"additionalProperties":false,"$defs":{"x":{"enum":[1]}}}`: {false, false},
		`7`: {false, false},
	} {
		closed, complete := model.Strict(json.RawMessage(schema))
		require.Equal(t, want, [2]bool{closed, complete}, schema)
	}
}
