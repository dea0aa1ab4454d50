package modeltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/assent-dev/assent/blob"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/anthropic"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/model/modeltest"
	"github.com/assent-dev/assent/model/openai"
	"github.com/assent-dev/assent/tool"
)

// says is a model that says the same whatever it is asked, or what a function makes of the request.
type says func(model.Request) model.Response

func (s says) Generate(_ context.Context, r model.Request) (model.Response, error) { return s(r), nil }

func always(r model.Response) says { return func(model.Request) model.Response { return r } }

// driver makes a driver for an API at a URL. Whatever the test says of the endpoint is added.
func driver(t *testing.T, api modeltest.API, url string, change func(*endpoint.Config)) model.Streamer {
	t.Helper()
	t.Setenv("MODELTEST_KEY", modeltest.Key)
	at := endpoint.Config{BaseURL: url, Key: endpoint.Key{Env: "MODELTEST_KEY"}}
	if change != nil {
		change(&at)
	}
	var m model.Streamer
	var err error
	switch api {
	case modeltest.Messages:
		m, err = anthropic.New(anthropic.Config{Endpoint: at, Thinking: anthropic.ThinkingAdaptive})
	case modeltest.Responses:
		m, err = openai.New(openai.Config{Endpoint: at, Dialect: openai.Full})
	default:
		m, err = openai.New(openai.Config{Endpoint: at, API: openai.Chat})
	}
	require.NoError(t, err)
	return m
}

// each runs a test for every API, against a server that says what m says.
func each(t *testing.T, m model.Model, test func(t *testing.T, api modeltest.API, s *modeltest.Server, d model.Streamer)) {
	t.Helper()
	for _, api := range modeltest.APIs {
		t.Run(string(api), func(t *testing.T) {
			s := modeltest.Serve(t, api, m)
			test(t, api, s, driver(t, api, s.URL, nil))
		})
	}
}

var hello = model.Request{Model: "some-model", System: "Be brief.", MaxOutputTokens: 100,
	Messages: []model.Message{{Role: model.User, Text: "hi"}},
	Tools: []model.Spec{{Name: "look", Description: "Looks.", Parameters: json.RawMessage(
		`{"type":"object","properties":{"n":{"type":"integer","enum":[9007199254740993]}}}`)}}}

// heard collects what is told of a turn while it is said.
type heard struct {
	text, thinking string
	calls          map[int]*model.CallDelta
}

func (h *heard) hear(d model.Delta) {
	h.text += d.Text
	h.thinking += d.Thinking
	if d.Call != nil {
		if h.calls == nil {
			h.calls = map[int]*model.CallDelta{}
		}
		if h.calls[d.Call.Index] == nil {
			h.calls[d.Call.Index] = &model.CallDelta{Name: d.Call.Name}
		}
		h.calls[d.Call.Index].Input += d.Call.Input
	}
}

func TestAnAnswer(t *testing.T) {
	usage := model.Usage{InputTokens: 1000, CachedInputTokens: 700, CacheWriteTokens: 200, OutputTokens: 42}
	var got model.Request
	said := says(func(r model.Request) model.Response {
		got = r
		return model.Response{Text: "Grüße, <you> & all.\n", Stop: model.StopEnd, Usage: usage}
	})
	each(t, said, func(t *testing.T, api modeltest.API, _ *modeltest.Server, d model.Streamer) {
		var h heard
		r, err := d.Stream(t.Context(), hello, h.hear)
		require.NoError(t, err)
		require.Equal(t, "Grüße, <you> & all.\n", r.Text)
		require.Equal(t, r.Text, h.text)
		require.Contains(t, h.thinking, "I think <0> & go on.")
		require.Equal(t, model.StopEnd, r.Stop)
		require.Empty(t, r.Calls)
		require.Equal(t, usage, r.Usage)
		require.Equal(t, hello.System, got.System)
		require.Equal(t, hello.Model, got.Model)
		require.Equal(t, hello.MaxOutputTokens, got.MaxOutputTokens)
		require.Len(t, got.Tools, 1)
		require.Equal(t, "Looks.", got.Tools[0].Description)
		require.JSONEq(t, string(hello.Tools[0].Parameters), string(got.Tools[0].Parameters))
		require.Contains(t, string(got.Tools[0].Parameters), "9007199254740993")
		plain, err := d.Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, r, plain)
	})
}

func TestCalls(t *testing.T) {
	want := []model.ToolCall{
		{ID: "call_1", Name: "look", Input: json.RawMessage(`{"n":9007199254740993,"s":"ä\u003c<"}`)},
		{ID: "call_2", Name: "look", Input: json.RawMessage(`{}`)},
		{ID: "call_3", Name: "nothing.of-the_kind", Raw: `{"n": 1`},
		{ID: "call_4", Name: "look", Input: json.RawMessage(`[1]`)},
	}
	each(t, always(model.Response{Text: "Two looks.", Calls: want, Stop: model.StopToolUse}), func(t *testing.T, api modeltest.API, _ *modeltest.Server, d model.Streamer) {
		var h heard
		r, err := d.Stream(t.Context(), hello, h.hear)
		require.NoError(t, err)
		require.Equal(t, model.StopToolUse, r.Stop)
		require.Equal(t, "Two looks.", r.Text)
		require.Equal(t, want, r.Calls)
		require.Len(t, h.calls, 4)
		require.Equal(t, &model.CallDelta{Name: "look", Input: string(want[0].Input)}, h.calls[0])
		require.Equal(t, &model.CallDelta{Name: "look"}, h.calls[1])
		require.Equal(t, want[2].Raw, h.calls[2].Input)
	})
}

func TestStops(t *testing.T) {
	for name, c := range map[string]struct{ said, want model.Response }{
		"refusal":    {model.Response{Text: "No.", Stop: model.StopRefusal}, model.Response{Text: "No.", Stop: model.StopRefusal}},
		"max tokens": {model.Response{Text: "And so", Stop: model.StopMaxTokens}, model.Response{Text: "And so", Stop: model.StopMaxTokens}},
		"a cut call": {model.Response{Calls: []model.ToolCall{{ID: "a", Name: "look", Raw: `{"n":`}}, Stop: model.StopMaxTokens},
			model.Response{Calls: []model.ToolCall{{ID: "a", Name: "look", Raw: `{"n":`}}, Stop: model.StopMaxTokens}},
		// What was cut before its first argument is not a call without arguments, which would run.
		"a call cut at once": {model.Response{Calls: []model.ToolCall{{ID: "a", Name: "look", Input: json.RawMessage(`{}`)}, {ID: "b", Name: "look", Input: json.RawMessage(`{}`)}}, Stop: model.StopMaxTokens},
			model.Response{Calls: []model.ToolCall{{ID: "a", Name: "look", Input: json.RawMessage(`{}`)}, {ID: "b", Name: "look", Raw: `{`}}, Stop: model.StopMaxTokens}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, always(c.said), func(t *testing.T, _ modeltest.API, _ *modeltest.Server, d model.Streamer) {
				r, err := d.Generate(t.Context(), hello)
				require.NoError(t, err)
				r.Opaque = nil
				require.Equal(t, c.want, r)
			})
		})
	}
}

// Whatever became of calls, every request has one result for each, and the thinking of earlier turns as it was sent: the
// server looks at both.
func TestAConversation(t *testing.T) {
	said := says(func(r model.Request) model.Response {
		n := 0
		for _, m := range r.Messages {
			if m.Role == model.Assistant {
				n++
			}
		}
		calls := []model.ToolCall{{ID: fmt.Sprintf("c%da", n), Name: "look", Input: json.RawMessage(`{"n":1}`)}, {ID: fmt.Sprintf("c%db", n), Name: "look", Raw: "{"}}
		if n == 3 {
			return model.Response{Text: "Done.", Stop: model.StopEnd}
		}
		return model.Response{Text: "More.", Calls: calls, Stop: model.StopToolUse}
	})
	results := []tool.Result{
		{Code: tool.OK, Value: json.RawMessage(`"text <&>"`)},
		tool.Deny(tool.ByPerson, "ann", "not today"),
		{Code: tool.OK},
		{Code: tool.OK, Value: json.RawMessage(`""`)},
		{Code: tool.OK, Value: json.RawMessage(`{"a":1}`), FinalInput: json.RawMessage(`{"n":2}`)},
		tool.Fail(tool.InvalidArguments, "no JSON"),
	}
	each(t, said, func(t *testing.T, _ modeltest.API, s *modeltest.Server, d model.Streamer) {
		r := hello
		next := 0
		for range 4 {
			turn, err := d.Generate(t.Context(), r)
			require.NoError(t, err)
			// As the transcript stores it.
			raw, err := json.Marshal(model.Message{Role: model.Assistant, Text: turn.Text, Calls: turn.Calls, Opaque: turn.Opaque})
			require.NoError(t, err)
			var m model.Message
			require.NoError(t, json.Unmarshal(raw, &m))
			r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)], m)
			if len(turn.Calls) == 0 {
				break
			}
			got := model.Message{Role: model.Tool}
			for _, c := range turn.Calls {
				got.Results = append(got.Results, model.ToolResult{CallID: c.ID, Name: c.Name, Result: results[next%len(results)]})
				next++
			}
			r.Messages = append(r.Messages, got, model.Message{Role: model.User, Text: "A note."})
		}
		require.Equal(t, "Done.", r.Messages[len(r.Messages)-1].Text)
		bodies := s.Bodies()
		require.Len(t, bodies, 4)
		last := string(bodies[3])
		require.Contains(t, last, "not today")
		require.Contains(t, last, "invalid_arguments")
		require.Contains(t, last, "which are not yours")
	})
}

// Images of a result go where the API takes them, and elsewhere the model is told that there are some.
func TestImagesOfAResult(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n and more")
	for name, c := range map[string]struct {
		result tool.Result
		shown  int
		line   string
	}{
		"with a value":     {tool.Result{Code: tool.OK, Value: json.RawMessage(`"a plot"`), Images: []tool.Image{{MediaType: "image/png", Data: png}}}, 1, ""},
		"alone":            {tool.Result{Code: tool.OK, Value: json.RawMessage(`""`), Images: []tool.Image{{MediaType: "image/png", Data: png}, {MediaType: "image/png", Data: png}}}, 2, ""},
		"not loaded":       {tool.Result{Code: tool.OK, Value: json.RawMessage(`""`), Images: []tool.Image{{MediaType: "image/png", Ref: &blob.Ref{Size: 5}}}}, 0, "[an image of this result is not shown]"},
		"what is no image": {tool.Result{Code: tool.OK, Value: json.RawMessage(`"x"`), Images: []tool.Image{{MediaType: "image/png", Data: []byte("text")}, {MediaType: "image/png", Data: png}}}, 1, "[an image of this result is not shown]"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []tool.Image
			seen := says(func(r model.Request) model.Response {
				got = r.Messages[2].Results[0].Result.Images
				return model.Response{Text: "ok", Stop: model.StopEnd}
			})
			each(t, seen, func(t *testing.T, api modeltest.API, s *modeltest.Server, d model.Streamer) {
				r := hello
				r.Messages = append(slices.Clone(r.Messages), model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: "c1", Name: "look", Input: json.RawMessage(`{}`)}}},
					model.Message{Role: model.Tool, Results: []model.ToolResult{{CallID: "c1", Name: "look", Result: c.result}}})
				_, err := d.Generate(t.Context(), r)
				require.NoError(t, err)
				body := string(s.Bodies()[0])
				if api == modeltest.Chat {
					require.Empty(t, got)
					require.Contains(t, body, "not shown]")
					return
				}
				require.Len(t, got, c.shown)
				for _, i := range got {
					require.Equal(t, tool.Image{MediaType: "image/png", Data: png}, i)
				}
				if c.line == "" {
					require.NotContains(t, body, "not shown")
				} else {
					require.Contains(t, body, c.line)
				}
			})
		})
	}
}

// A conversation with holes and with ids and names that no provider takes is sent in a form that all of them take.
func TestAConversationWithHoles(t *testing.T) {
	call := func(id, name, raw string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Input: json.RawMessage(raw)}
	}
	ok := func(id string) model.ToolResult {
		return model.ToolResult{CallID: id, Result: tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}}
	}
	r := hello
	r.Messages = []model.Message{
		{Role: model.Tool, Results: []model.ToolResult{ok("nobody")}},
		{Role: model.User, Text: "hi"},
		{Role: model.Assistant, Text: " \n", Calls: []model.ToolCall{call("x", "look", `{}`), call("x", "", `7`), call("", strings.Repeat("ü", 60), `{}`)}},
		{Role: model.Tool, Results: []model.ToolResult{ok("x")}},
		{Role: model.User, Text: "  "},
		{Role: model.Assistant, Text: "", Calls: []model.ToolCall{call("x", "functions.look", `{"n":1}`)}},
		{Role: model.User, Text: "and?"},
		{Role: model.Assistant, Text: "cut", Opaque: json.RawMessage(`{"api":"messages","model":"another","blocks":[{"call":4}]}`)},
	}
	each(t, says(func(got model.Request) model.Response {
		return model.Response{Text: fmt.Sprint(len(got.Messages)), Stop: model.StopEnd}
	}), func(t *testing.T, _ modeltest.API, _ *modeltest.Server, d model.Streamer) {
		_, err := d.Generate(t.Context(), r)
		require.NoError(t, err)
		last := r
		last.Tools = nil
		_, err = d.Generate(t.Context(), last)
		require.NoError(t, err)
	})
}

// A conversation goes on with another provider when the first one fails, in either direction: what only the first understands
// stays out of the request, and is there again when it is asked again.
func TestAnotherProviderGoesOn(t *testing.T) {
	for _, a := range modeltest.APIs {
		for _, b := range modeltest.APIs {
			t.Run(string(a)+" and "+string(b), func(t *testing.T) {
				call := model.ToolCall{ID: "call_1", Name: "look", Input: json.RawMessage(`{"n":1}`)}
				m := always(model.Response{Text: "Look.", Calls: []model.ToolCall{call}, Stop: model.StopToolUse})
				one, two := modeltest.Serve(t, a, m), modeltest.Serve(t, b, m)
				drivers := []model.Streamer{driver(t, a, one.URL, nil), driver(t, b, two.URL, nil)}
				r := hello
				for turn := range 4 {
					r.Model = []string{"first", "second"}[turn%2]
					said, err := drivers[turn%2].Generate(t.Context(), r)
					require.NoError(t, err)
					require.NotEmpty(t, said.Opaque)
					r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)],
						model.Message{Role: model.Assistant, Text: said.Text, Calls: said.Calls, Opaque: said.Opaque},
						model.Message{Role: model.Tool, Results: []model.ToolResult{{CallID: "call_1", Result: tool.Result{Code: tool.OK}}}})
				}
			})
		}
	}
}

// A last turn without tools has none, however the provider wants to be told.
func TestNoToolsAnyMore(t *testing.T) {
	var got model.Request
	each(t, says(func(r model.Request) model.Response { got = r; return model.Response{Text: "ok", Stop: model.StopEnd} }),
		func(t *testing.T, api modeltest.API, s *modeltest.Server, d model.Streamer) {
			r := hello
			r.Tools = nil
			_, err := d.Generate(t.Context(), r)
			require.NoError(t, err)
			require.Empty(t, got.Tools)
		})
}

const open = `{"type":"object","properties":{"a":{"type":"string","minLength":3}}}`

// A schema that the provider can hold the model to is given to it; any other is told in words.
func TestAnOutput(t *testing.T) {
	const closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	var got model.Request
	each(t, says(func(r model.Request) model.Response { got = r; return model.Response{Text: "ok", Stop: model.StopEnd} }),
		func(t *testing.T, api modeltest.API, s *modeltest.Server, d model.Streamer) {
			for _, schema := range []string{closed, open} {
				r := hello
				r.OutputSchema = json.RawMessage(schema)
				_, err := d.Generate(t.Context(), r)
				require.NoError(t, err)
				native := api == modeltest.Responses || api == modeltest.Messages && schema == closed
				if native {
					require.JSONEq(t, schema, string(got.OutputSchema))
					require.Equal(t, "Be brief.", got.System)
				} else {
					require.Empty(t, got.OutputSchema)
					require.Contains(t, got.System, schema)
				}
			}
		})
}

// A model that never stops is stopped: by its caller, and by the endpoint's own bound.
func TestAModelThatNeverStops(t *testing.T) {
	for _, api := range modeltest.APIs {
		t.Run(string(api), func(t *testing.T) {
			s := modeltest.Serve(t, api, always(model.Response{}))
			s.Fail(endless(api), endless(api))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			_, err := driver(t, api, s.URL, nil).Stream(ctx, hello, func(d model.Delta) {
				if n++; n == 50 {
					cancel()
				}
			})
			require.ErrorIs(t, err, context.Canceled)
			require.GreaterOrEqual(t, n, 50)

			_, err = driver(t, api, s.URL, func(c *endpoint.Config) { c.Timeout = time.Second }).Generate(t.Context(), hello)
			var m *model.Error
			require.True(t, errors.As(err, &m), "%v", err)
			require.Equal(t, endpoint.KindEndless, m.Kind)
			require.Contains(t, m.Msg, "did not end in 1s, and the model was speaking")
			require.False(t, m.Retry, "it would do so again")
		})
	}
}

// Signs of life are no speech: a provider that is slow may be faster the next time.
func TestAProviderThatOnlyKeepsTheLineOpen(t *testing.T) {
	for _, api := range modeltest.APIs {
		t.Run(string(api), func(t *testing.T) {
			s := modeltest.Serve(t, api, always(model.Response{}))
			s.Fail(func(w http.ResponseWriter, r *http.Request) {
				modeltest.Stream(w, first(api)...)
				<-r.Context().Done()
			})
			_, err := driver(t, api, s.URL, func(c *endpoint.Config) { c.Timeout = 300 * time.Millisecond }).Generate(t.Context(), hello)
			var m *model.Error
			require.True(t, errors.As(err, &m), "%v", err)
			require.Equal(t, endpoint.KindTimeout, m.Kind)
			require.True(t, m.Retry)
		})
	}
}
