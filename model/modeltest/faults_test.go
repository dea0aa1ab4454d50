package modeltest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/anthropic"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/model/modeltest"
	"github.com/assent-dev/assent/tool"
)

// first is how a turn begins in each API.
func first(api modeltest.API) []modeltest.Event {
	switch api {
	case modeltest.Messages:
		return []modeltest.Event{
			{Name: "message_start", Data: `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`},
			{Name: "content_block_start", Data: `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`},
			piece(api),
		}
	case modeltest.Responses:
		return []modeltest.Event{{Name: "response.created", Data: `{"type":"response.created","sequence_number":0,"response":{"id":"r","output":[]}}`}, piece(api)}
	}
	return []modeltest.Event{piece(api)}
}

func piece(api modeltest.API) modeltest.Event {
	switch api {
	case modeltest.Messages:
		return modeltest.Event{Name: "content_block_delta", Data: `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"on and "}}`}
	case modeltest.Responses:
		return modeltest.Event{Name: "response.output_text.delta", Data: `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"on and "}`}
	}
	return modeltest.Event{Data: `{"id":"c","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":{"content":"on and "},"finish_reason":null}]}`}
}

// inStream is an error in a stream.
func inStream(api modeltest.API) modeltest.Event {
	switch api {
	case modeltest.Messages:
		return modeltest.Event{Name: "error", Data: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}
	case modeltest.Responses:
		return modeltest.Event{Name: "error", Data: `{"type":"error","code":"server_is_overloaded","message":"Overloaded","param":null,"sequence_number":2}`}
	}
	return modeltest.Event{Data: `{"error":{"message":"Overloaded","type":"overloaded_error","code":503}}`}
}

func endless(api modeltest.API) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		modeltest.Stream(w, first(api)...)
		for r.Context().Err() == nil {
			modeltest.Stream(w, piece(api))
		}
	}
}

func page(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// Every failure is a *model.Error that says what it is and whether trying again can help. The driver makes one attempt, and
// the next request finds all well.
func TestFailures(t *testing.T) {
	const html = "<html><head><title>502 Bad Gateway\n</title></head><body>nginx</body></html>"
	type c struct {
		name  string
		fault func(modeltest.API) http.HandlerFunc
		kind  string
		retry bool
		after time.Duration
		says  string
	}
	status := func(code int, kind, message string, headers ...string) func(modeltest.API) http.HandlerFunc {
		return func(api modeltest.API) http.HandlerFunc {
			return modeltest.Status(code, api, kind, message, headers...)
		}
	}
	plain := func(h http.HandlerFunc) func(modeltest.API) http.HandlerFunc {
		return func(modeltest.API) http.HandlerFunc { return h }
	}
	streamed := func(more func(api modeltest.API) []modeltest.Event) func(modeltest.API) http.HandlerFunc {
		return func(api modeltest.API) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { modeltest.Stream(w, append(first(api), more(api)...)...) }
		}
	}
	for _, c := range []c{
		{"429 in seconds", status(429, "rate_limit_error", "slow down", "Retry-After", "7"), endpoint.KindRateLimit, true, 7 * time.Second, "status 429: slow down"},
		{"429 in milliseconds", status(429, "rate_limit_error", "x", "Retry-After-Ms", "1500", "Retry-After", "9"), endpoint.KindRateLimit, true, 1500 * time.Millisecond, ""},
		{"429 with a date", status(429, "rate_limit_error", "x", "Date", "Tue, 01 Dec 2026 10:00:00 GMT", "Retry-After", "Tue, 01 Dec 2026 10:00:30 GMT"), endpoint.KindRateLimit, true, 30 * time.Second, ""},
		{"429 for ever", status(429, "rate_limit_error", "x", "Retry-After", "999999999"), endpoint.KindRateLimit, true, time.Hour, ""},
		{"429 in the past", status(429, "rate_limit_error", "x", "Date", "Tue, 01 Dec 2026 10:00:00 GMT", "Retry-After", "Tue, 01 Dec 2026 09:00:30 GMT"), endpoint.KindRateLimit, true, 0, ""},
		{"429 with nonsense", status(429, "rate_limit_error", "x", "Retry-After", "NaN"), endpoint.KindRateLimit, true, 0, ""},
		{"429 without credit", status(429, "insufficient_quota", "You exceeded your current quota", "Retry-After", "7"), endpoint.KindBilling, false, 0, "quota"},
		{"500", status(500, "api_error", "Internal server error"), endpoint.KindServer, true, 0, "Internal server error"},
		{"500 that says no", status(500, "api_error", "x", "X-Should-Retry", "false"), endpoint.KindServer, false, 0, ""},
		{"529", status(529, "overloaded_error", "Overloaded"), endpoint.KindOverloaded, true, 0, "status 529: Overloaded"},
		{"503", status(503, "api_error", "x", "Retry-After", "1.5"), endpoint.KindOverloaded, true, 1500 * time.Millisecond, ""},
		{"401", status(401, "authentication_error", "invalid x-api-key "+modeltest.Key), endpoint.KindAuthentication, false, 0, "invalid x-api-key (secret)"},
		{"403", status(403, "permission_error", "x"), endpoint.KindPermission, false, 0, ""},
		{"404", status(404, "not_found_error", "model: some-model"), endpoint.KindNotFound, false, 0, "some-model"},
		{"400", status(400, "invalid_request_error", "gemma does not support tools"), endpoint.KindBadRequest, false, 0, "does not support tools"},
		{"413", status(413, "request_too_large", "x"), model.KindTooLong, false, 0, ""},
		{"too long, in words", status(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), model.KindTooLong, false, 0, "210000"},
		{"too long, by code", status(400, "context_length_exceeded", "x"), model.KindTooLong, false, 0, ""},
		{"a page of a proxy", plain(page(200, html)), endpoint.KindBadResponse, false, 0, "no event stream but text/html: 502 Bad Gateway; is the base URL right?"},
		{"a page with 502", plain(page(502, html)), endpoint.KindServer, true, 0, "status 502: text/html: 502 Bad Gateway"},
		{"JSON where a stream is due", plain(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[]}`)
		}), endpoint.KindBadResponse, false, 0, "no event stream but application/json"},
		{"a refusal of another server", plain(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"error":"model 'x' not found"}`)
		}), endpoint.KindNotFound, false, 0, "model 'x' not found"},
		{"a redirect", plain(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://localhost:1/elsewhere", http.StatusTemporaryRedirect)
		}), endpoint.KindBadResponse, false, 0, "redirects to localhost:1, which is not followed"},
		{"a stream that ends early", streamed(func(modeltest.API) []modeltest.Event { return nil }), endpoint.KindCut, true, 0, "ended before the turn did"},
		{"a stream that is cut", func(api modeltest.API) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				modeltest.Stream(w, first(api)...)
				panic(http.ErrAbortHandler)
			}
		}, endpoint.KindCut, true, 0, "was cut"},
		{"an error in the stream", streamed(func(api modeltest.API) []modeltest.Event { return []modeltest.Event{inStream(api)} }), endpoint.KindOverloaded, true, 0, "Overloaded"},
		{"malformed JSON", streamed(func(api modeltest.API) []modeltest.Event {
			e := piece(api)
			e.Data = `{"type":`
			return []modeltest.Event{e}
		}), endpoint.KindBadResponse, true, 0, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, always(model.Response{Text: "fine", Stop: model.StopEnd}), func(t *testing.T, api modeltest.API, s *modeltest.Server, d model.Streamer) {
				s.Fail(c.fault(api))
				_, err := d.Generate(t.Context(), hello)
				var m *model.Error
				require.True(t, errors.As(err, &m), "%v", err)
				require.Equal(t, c.kind, m.Kind, "%v", err)
				require.Equal(t, c.retry, m.Retry)
				require.Equal(t, c.kind == endpoint.KindCut || c.kind == endpoint.KindBadResponse && c.retry, m.Begun)
				require.Equal(t, c.after, m.After)
				require.Contains(t, m.Msg, c.says)
				require.Len(t, s.Bodies(), 1, "one attempt")
				keepsTheKey(t, err)
				r, err := d.Generate(t.Context(), hello)
				require.NoError(t, err)
				require.Equal(t, "fine", r.Text)
			})
		})
	}
}

// keepsTheKey looks for the key in whatever may be made of an error.
func keepsTheKey(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		raw, _ := json.Marshal(e)
		for _, text := range []string{fmt.Sprintf("%v", e), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e), string(raw)} {
			require.NotContains(t, text, modeltest.Key)
		}
		var m *model.Error
		require.True(t, errors.As(e, &m), "what a driver returns holds nothing of an SDK: %T", e)
	}
}

// A provider that says nothing is left, before and after it began.
func TestSilence(t *testing.T) {
	for _, api := range modeltest.APIs {
		t.Run(string(api), func(t *testing.T) {
			s := modeltest.Serve(t, api, always(model.Response{}))
			wait := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			s.Fail(wait, func(w http.ResponseWriter, r *http.Request) {
				modeltest.Stream(w, first(api)...)
				wait(w, r)
			})
			d := driver(t, api, s.URL, func(c *endpoint.Config) { c.Silence = 200 * time.Millisecond })
			for i := range 2 {
				_, err := d.Generate(t.Context(), hello)
				var m *model.Error
				require.True(t, errors.As(err, &m), "%v", err)
				require.Equal(t, i == 1, m.Begun, "what had begun may be charged")
				require.Equal(t, endpoint.KindTimeout, m.Kind)
				require.Equal(t, "not a byte for 200ms", m.Msg)
				require.True(t, m.Retry)
			}
		})
	}
}

// A provider that had taken the request may charge for it, also where the connection breaks before it said a word.
func TestAConnectionThatBreaks(t *testing.T) {
	for _, api := range modeltest.APIs {
		t.Run(string(api), func(t *testing.T) {
			s := modeltest.Serve(t, api, always(model.Response{}))
			reset := func(w http.ResponseWriter) {
				c, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					_ = c.(*net.TCPConn).SetLinger(0)
					_ = c.Close()
				}
			}
			s.Fail(func(w http.ResponseWriter, _ *http.Request) { reset(w) }, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, ": thinking\n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond)
				reset(w)
			})
			d := driver(t, api, s.URL, nil)
			for i := range 2 {
				_, err := d.Generate(t.Context(), hello)
				var m *model.Error
				require.True(t, errors.As(err, &m), "%v", err)
				require.Contains(t, []string{endpoint.KindNetwork, endpoint.KindCut}, m.Kind)
				require.Equal(t, i == 1, m.Begun, "%v", err)
				require.True(t, m.Retry)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	for _, api := range modeltest.APIs {
		// A port that was free a moment ago may be somebody's; nobody is ever given this one.
		_, err := driver(t, api, "http://127.0.0.1:1", nil).Generate(t.Context(), hello)
		var m *model.Error
		require.True(t, errors.As(err, &m), "%v", err)
		require.Equal(t, endpoint.KindNetwork, m.Kind)
		require.True(t, m.Retry)
		require.False(t, m.Begun)
		require.Contains(t, m.Msg, "refused")
		keepsTheKey(t, err)
	}
}

// What an SDK reads of the environment is not what was configured.
func TestTheEnvironmentIsNotRead(t *testing.T) {
	for name, value := range map[string]string{"ANTHROPIC_API_KEY": "sk-other", "ANTHROPIC_AUTH_TOKEN": "other", "ANTHROPIC_BASE_URL": "http://localhost:1",
		"ANTHROPIC_CUSTOM_HEADERS": "X-Other: yes", "OPENAI_API_KEY": "sk-other", "OPENAI_BASE_URL": "http://localhost:1", "OPENAI_ORG_ID": "org-other",
		"OPENAI_CUSTOM_HEADERS": "X-Other: yes"} {
		t.Setenv(name, value)
	}
	each(t, always(model.Response{Text: "ok", Stop: model.StopEnd}), func(t *testing.T, api modeltest.API, s *modeltest.Server, _ model.Streamer) {
		seen := make(chan http.Header, 1)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Clone()
			s.ServeHTTP(w, r)
		}))
		defer front.Close()
		url := front.URL
		if api != modeltest.Messages {
			url += "/v1"
		}
		d := driver(t, api, url, func(c *endpoint.Config) {
			c.Headers = map[string]string{"X-Team": "blue", "Anthropic-Version": "2023-06-01"}
		})
		_, err := d.Generate(t.Context(), hello)
		require.NoError(t, err)
		h := <-seen
		require.Equal(t, "blue", h.Get("X-Team"))
		require.Equal(t, []string{"2023-06-01"}, h.Values("Anthropic-Version"), "a gateway that is behind")
		require.Empty(t, h.Get("X-Other"))
		require.Empty(t, h.Get("Openai-Organization"))
	})
}

// Thinking that the provider does not know again, weeks later, is left out, once.
func TestStaleThinking(t *testing.T) {
	for api, message := range map[modeltest.API]string{
		modeltest.Messages:  "messages.1.content.0: Invalid `signature` in `thinking` block",
		modeltest.Responses: "The encrypted content gAAA...k= could not be verified.",
	} {
		t.Run(string(api), func(t *testing.T) {
			s := modeltest.Serve(t, api, always(model.Response{Text: "Look.", Stop: model.StopEnd}))
			d := driver(t, api, s.URL, nil)
			turn, err := d.Generate(t.Context(), hello)
			require.NoError(t, err)
			require.NotEmpty(t, turn.Opaque)
			r := hello
			r.Messages = append(r.Messages[:1:1], model.Message{Role: model.Assistant, Text: turn.Text, Opaque: turn.Opaque}, model.Message{Role: model.User, Text: "go on"})
			refuse := modeltest.Status(400, api, "invalid_request_error", message)
			s.Fail(refuse, modeltest.Status(400, api, "invalid_request_error", message))
			_, err = d.Generate(t.Context(), r)
			var m *model.Error
			require.True(t, errors.As(err, &m), "%v", err)
			require.Equal(t, endpoint.KindStale, m.Kind)
			require.Len(t, s.Bodies(), 3)
			require.Contains(t, string(s.Bodies()[1]), "sig+/")
			require.NotContains(t, string(s.Bodies()[2]), "sig+/")
		})
	}
}

// An image that the provider cannot read, or a model that sees none, is no reason to give up: it is asked once without images.
func TestImagesThatAreRefused(t *testing.T) {
	for api, message := range map[modeltest.API]string{
		modeltest.Messages:  "messages.2.content.0.image.source.base64.data: Could not process image",
		modeltest.Responses: "The image data you provided does not represent a valid image.",
	} {
		t.Run(string(api), func(t *testing.T) {
			s := modeltest.Serve(t, api, always(model.Response{Text: "Fine.", Stop: model.StopEnd}))
			r := hello
			r.Messages = append(r.Messages[:1:1],
				model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: "a", Name: "look", Input: json.RawMessage(`{}`)}}},
				model.Message{Role: model.Tool, Results: []model.ToolResult{{CallID: "a", Name: "look", Result: tool.Result{Code: tool.OK, Value: json.RawMessage(`"a page"`),
					Images: []tool.Image{{MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n but cut")}}}}}})
			s.Fail(modeltest.Status(400, api, "invalid_request_error", message))
			got, err := driver(t, api, s.URL, nil).Generate(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, "Fine.", got.Text)
			require.NotNil(t, r.Messages[2].Results[0].Result.Images[0].Data, "the request of the caller is as it was")
			require.Len(t, s.Bodies(), 2)
			require.Contains(t, string(s.Bodies()[0]), "iVBORw0KGgo")
			require.NotContains(t, string(s.Bodies()[1]), "iVBORw0KGgo")
			require.Contains(t, string(s.Bodies()[1]), "[an image of this result is not shown]")

			s.Fail(modeltest.Status(400, api, "invalid_request_error", message))
			_, err = driver(t, api, s.URL, nil).Generate(t.Context(), hello)
			require.Error(t, err, "there is nothing to leave out")
			require.Len(t, s.Bodies(), 3)
		})
	}
}

// The parts of a prompt that stay the same are marked for the cache.
func TestThePromptIsCached(t *testing.T) {
	s := modeltest.Serve(t, modeltest.Messages, always(model.Response{Text: "ok", Stop: model.StopEnd}))
	for cache, want := range map[string]int{anthropic.CacheShort: 3, anthropic.CacheLong: 3, anthropic.CacheOff: 0} {
		t.Setenv("MODELTEST_KEY", modeltest.Key)
		d, err := anthropic.New(anthropic.Config{Endpoint: endpoint.Config{BaseURL: s.URL, Key: endpoint.Key{Env: "MODELTEST_KEY"}}, Cache: cache})
		require.NoError(t, err)
		_, err = d.Generate(t.Context(), hello)
		require.NoError(t, err)
		bodies := s.Bodies()
		require.Equal(t, want, strings.Count(string(bodies[len(bodies)-1]), `"cache_control":{"ttl":"`+cache))
	}
}
