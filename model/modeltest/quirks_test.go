package modeltest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/modeltest"
)

// Servers that speak an API of others do so with an accent.
func TestAccents(t *testing.T) {
	call := func(id, name, input string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Input: json.RawMessage(input)}
	}
	chunk := func(choice string) modeltest.Event {
		return modeltest.Event{Data: `{"id":"c","object":"chat.completion.chunk","model":"x","choices":[` + choice + `]}`}
	}
	usage := modeltest.Event{Data: `{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}`}
	for name, c := range map[string]struct {
		api    modeltest.API
		events []modeltest.Event
		want   model.Response
	}{
		"all calls have the index 0 and come whole, and the reason is stop": {modeltest.Chat, []modeltest.Event{
			chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":"{\"n\":1}"}}]}}`),
			chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"look","arguments":"{\"n\":2}"}}]}}`),
			chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`), usage,
		}, model.Response{Calls: []model.ToolCall{call("a", "look", `{"n":1}`), call("b", "look", `{"n":2}`)}, Stop: model.StopToolUse,
			Usage: model.Usage{InputTokens: 5, OutputTokens: 3}}},
		"name and id stand in every piece, pieces of two calls come by turns, and nothing ends the stream": {modeltest.Chat, []modeltest.Event{
			chunk(`{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{\"n\""}}]}}`),
			chunk(`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"look","arguments":"{\"n\":2"}}]}}`),
			chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":":1}"}},{"index":1,"function":{"arguments":"}"}}]}}`),
			chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`),
		}, model.Response{Calls: []model.ToolCall{call("a", "look", `{"n":1}`), call("b", "look", `{"n":2}`)}, Stop: model.StopToolUse}},
		"a refusal has a field of its own": {modeltest.Chat, []modeltest.Event{
			chunk(`{"index":0,"delta":{"refusal":"I can"}}`), chunk(`{"index":0,"delta":{"refusal":"not."},"finish_reason":"stop"}`), {Data: "[DONE]"},
		}, model.Response{Text: "I cannot.", Stop: model.StopRefusal}},
		"the last event leaves the output out": {modeltest.Responses, []modeltest.Event{
			{Name: "response.output_item.done", Data: `{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc","call_id":"a","name":"look","arguments":"","status":"completed"}}`},
			{Name: "response.output_item.done", Data: `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Look.","annotations":[]}]}}`},
			{Name: "response.completed", Data: `{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":3}}}`},
		}, model.Response{Text: "Look.", Calls: []model.ToolCall{call("a", "look", `{}`)}, Stop: model.StopToolUse, Usage: model.Usage{InputTokens: 5, OutputTokens: 3}}},
		"a refusal is a part of a message": {modeltest.Responses, []modeltest.Event{
			{Name: "response.completed", Data: `{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"refusal","refusal":"I cannot."}]}]}}`},
		}, model.Response{Text: "I cannot.", Stop: model.StopRefusal}},
		"a call comes whole, and pings and unknown events between": {modeltest.Messages, []modeltest.Event{
			{Name: "message_start", Data: `{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}`},
			{Name: "ping", Data: `{"type":"ping"}`},
			{Name: "content_block_start", Data: `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"look","input":{"n":1}}}`},
			{Name: "content_block_stop", Data: `{"type":"content_block_stop","index":0}`},
			{Name: "something_new", Data: `{"type":"something_new","index":9}`},
			{Name: "message_delta", Data: `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":6,"output_tokens":3}}`},
		}, model.Response{Calls: []model.ToolCall{call("a", "look", `{"n":1}`)}, Stop: model.StopToolUse, Usage: model.Usage{InputTokens: 6, OutputTokens: 3}}},
		"a refusal is explained": {modeltest.Messages, []modeltest.Event{
			{Name: "message_start", Data: `{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}`},
			{Name: "message_delta", Data: `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"cyber","explanation":"This is not done here."}},"usage":{"output_tokens":3}}`},
			{Name: "message_stop", Data: `{"type":"message_stop"}`},
		}, model.Response{Text: "This is not done here.", Stop: model.StopRefusal, Usage: model.Usage{InputTokens: 5, OutputTokens: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := modeltest.Serve(t, c.api, always(model.Response{}))
			s.Fail(func(w http.ResponseWriter, _ *http.Request) { modeltest.Stream(w, c.events...) })
			r, err := driver(t, c.api, s.URL, nil).Generate(t.Context(), hello)
			require.NoError(t, err)
			require.Equal(t, c.want, r)
		})
	}
}

// A turn that the provider ended before the model was done is not a finished one, whatever it says of the reason.
func TestIncompleteWithoutAReason(t *testing.T) {
	for _, event := range []string{
		`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":null,%s}}`,
		`{"type":"response.incomplete","response":{"id":"r",%s}}`,
		`{"type":"response.completed","response":{"id":"r","status":"incomplete",%s}}`,
	} {
		output := `"output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"I am","annotations":[]}]},` +
			`{"type":"function_call","id":"fc","call_id":"a","name":"look","arguments":""}]`
		s := modeltest.Serve(t, modeltest.Responses, always(model.Response{}))
		s.Fail(func(w http.ResponseWriter, _ *http.Request) {
			modeltest.Stream(w, modeltest.Event{Name: "response.completed", Data: fmt.Sprintf(event, output)})
		})
		r, err := driver(t, modeltest.Responses, s.URL, nil).Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, model.Response{Text: "I am", Stop: model.StopMaxTokens, Calls: []model.ToolCall{{ID: "a", Name: "look", Raw: "{"}}}, r, event)
	}
}

// A chunk may begin any number of calls, and a message may have any number of parts. If the time grew with the square of their
// number, this would take minutes.
func TestVeryManyPieces(t *testing.T) {
	const many = 150_000
	var calls, parts strings.Builder
	for i := range many {
		fmt.Fprintf(&calls, `{"index":%d},`, i)
		parts.WriteString(`{"text":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},`)
	}
	r, err := hostile(t, modeltest.Chat, `data: {"choices":[{"index":0,"delta":{"tool_calls":[`+calls.String()+`{"index":0,"id":"a","function":{"name":"look"}}]},"finish_reason":"stop"}]}`+"\n\n")
	require.NoError(t, err)
	require.Len(t, r.Calls, many)
	require.Equal(t, model.ToolCall{ID: "a", Name: "look", Input: json.RawMessage(`{}`)}, r.Calls[0])
	r, err = hostile(t, modeltest.Responses, "event: response.completed\n"+`data: {"type":"response.completed","response":{"output":[{"type":"message","content":[`+
		parts.String()+`{"text":"b"}]}]}}`+"\n\n")
	require.NoError(t, err)
	require.Len(t, r.Text, many*65+1)
}
