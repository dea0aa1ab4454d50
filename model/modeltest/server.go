package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// API names a wire format.
type API string

// The wire formats.
const (
	// Messages is Anthropic's.
	Messages API = "messages"
	// Responses and Chat are OpenAI's.
	Responses API = "responses"
	Chat      API = "chat"
)

// APIs lists them.
var APIs = []API{Messages, Responses, Chat}

// Key is the key that a Server wants, in the header that the provider has for it.
const Key = "sk-test-5f0c7d1e"

// Server is one provider.
type Server struct {
	// URL is the base URL for a driver.
	URL string

	t   testing.TB
	api API
	m   model.Model

	mu     sync.Mutex
	faults []http.HandlerFunc
	bodies [][]byte
	// thought says in which turns it has shown its thinking: those have to come back with it.
	thought map[int]bool
}

// Serve starts a provider that says what m says, until the test ends. Whatever in a request its API would refuse fails t.
func Serve(t testing.TB, api API, m model.Model) *Server {
	t.Helper()
	s := &Server{t: t, api: api, m: m, thought: map[int]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	if api != Messages {
		s.URL += "/v1"
	}
	return s
}

// Fail lets faults answer the next requests, one each, in their order.
func (s *Server) Fail(faults ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Bodies returns the requests so far.
func (s *Server) Bodies() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// paths are where the APIs are.
var paths = map[API]string{Messages: "/v1/messages", Responses: "/v1/responses", Chat: "/v1/chat/completions"}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	var fault http.HandlerFunc
	if len(s.faults) > 0 {
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	req, err := s.read(r, body)
	if err != nil {
		s.t.Errorf("the provider would refuse this request: %v\n%s", err, body)
		Status(http.StatusBadRequest, s.api, "invalid_request_error", err.Error())(w, r)
		return
	}
	resp, err := s.m.Generate(r.Context(), req.Request)
	if err != nil {
		Status(http.StatusBadRequest, s.api, "invalid_request_error", err.Error())(w, r)
		return
	}
	if req.thinking {
		s.mu.Lock()
		s.thought[req.turns] = true
		s.mu.Unlock()
	}
	Stream(w, s.events(req, resp)...)
}

// request is a request as the API understands it.
type request struct {
	model.Request
	// thinking says that thinking is sent, and turns counts what the assistant said so far.
	thinking bool
	turns    int
	// thought is the server's.
	thought map[int]bool
}

// lacks reports a turn that was sent with thinking and came back with so many pieces of it.
func (r *request) lacks(thoughts int) bool {
	return thoughts > 1 || thoughts == 0 && r.thinking && r.thought[r.turns]
}

func (s *Server) read(r *http.Request, body []byte) (request, error) {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != paths[s.api]:
		return request{}, fmt.Errorf("%s %s, want POST %s", r.Method, r.URL.Path, paths[s.api])
	case s.api == Messages && (r.Header.Get("X-Api-Key") != Key || r.Header.Get("Authorization") != ""):
		return request{}, errors.New("no key in X-Api-Key")
	case s.api == Messages && r.Header.Get("Anthropic-Version") == "":
		return request{}, errors.New("no version")
	case s.api != Messages && (r.Header.Get("Authorization") != "Bearer "+Key || r.Header.Get("X-Api-Key") != ""):
		return request{}, errors.New("no key in Authorization")
	case r.Header.Get("Content-Type") != "application/json":
		return request{}, errors.New("no JSON")
	}
	s.mu.Lock()
	req := request{thought: maps.Clone(s.thought)}
	s.mu.Unlock()
	var err error
	switch s.api {
	case Messages:
		err = req.readMessages(body)
	case Responses:
		err = req.readResponses(body)
	default:
		err = req.readChat(body)
	}
	if err == nil {
		err = check(req.Messages)
	}
	return req, err
}

func (s *Server) events(req request, resp model.Response) []Event {
	switch s.api {
	case Messages:
		return messagesEvents(req, resp)
	case Responses:
		return responsesEvents(req, resp)
	}
	return chatEvents(req, resp)
}

// strictly decodes a request and refuses what the API does not know.
func strictly(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

var (
	toolName = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)
	callID   = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)
)

// check is what all providers want of a conversation.
func check(messages []model.Message) error {
	if len(messages) == 0 || messages[0].Role != model.User || messages[len(messages)-1].Role == model.Assistant {
		return errors.New("the conversation does not begin and end with the user")
	}
	seen := map[string]bool{}
	for i, m := range messages {
		var want []string
		for _, c := range m.Calls {
			if !toolName.MatchString(c.Name) || !callID.MatchString(c.ID) || seen[c.ID] {
				return fmt.Errorf("message %d: a call %q with the id %q", i, c.Name, c.ID)
			}
			if in := bytes.TrimSpace(c.Input); len(in) == 0 || in[0] != '{' || !json.Valid(in) {
				return fmt.Errorf("message %d: the arguments of %s are no object: %s", i, c.ID, in)
			}
			seen[c.ID] = true
			want = append(want, c.ID)
		}
		if len(want) > 0 && (i+1 == len(messages) || messages[i+1].Role != model.Tool) {
			return fmt.Errorf("message %d: calls without results", i)
		}
		if m.Role == model.Tool {
			var got []string
			for _, r := range m.Results {
				got = append(got, r.CallID)
			}
			want = nil
			if i > 0 {
				for _, c := range messages[i-1].Calls {
					want = append(want, c.ID)
				}
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("message %d: results of %q for the calls %q", i, got, want)
			}
		}
	}
	return nil
}

// result is what a model would make of the text of a result.
func result(id, text string) model.ToolResult {
	var failure struct {
		Code    tool.Code `json:"code"`
		Message string    `json:"message"`
	}
	r := model.ToolResult{CallID: id, Result: tool.Result{Code: tool.OK}}
	if json.Unmarshal([]byte(text), &failure) == nil && failure.Code != "" && failure.Message != "" {
		r.Result = tool.Fail(failure.Code, text)
		return r
	}
	r.Result.Value, _ = json.Marshal(text) // text has a JSON form
	return r
}

// Event is one event of a stream.
type Event struct {
	// Name is empty where the API names none.
	Name string
	// Data is JSON, or text that is sent as it is.
	Data any
}

// Stream sends events as a provider does, each at once.
func Stream(w http.ResponseWriter, events ...Event) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, e := range events {
		text, ok := e.Data.(string)
		if !ok {
			raw, err := json.Marshal(e.Data)
			if err != nil {
				panic(err) // an event is made of what has a JSON form
			}
			text = string(raw)
		}
		if e.Name != "" {
			fmt.Fprintf(w, "event: %s\n", e.Name)
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

// Status is a failure in the provider's own words, with pairs of headers.
func Status(status int, api API, kind, message string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		said := map[string]any{"type": kind, "message": message}
		body := map[string]any{"error": said}
		if api == Messages {
			body["type"], body["request_id"] = "error", "req_1"
		} else {
			said["param"], said["code"] = nil, kind
		}
		_ = json.NewEncoder(w).Encode(body)
	}
}

// pieces cuts a text as a stream does.
func pieces(text string) []string {
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(7, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// thought is what the model thinks in a turn; it says nothing that a test depends on.
func thought(turn int) string { return fmt.Sprintf("I think <%d> & go on.", turn) }

// signed is what only the provider can make of it.
func signed(turn int) string { return fmt.Sprintf("sig+/%d==", turn*7919) }

// rawArguments is what the model wrote.
func rawArguments(c model.ToolCall) string {
	if c.Raw != "" {
		return c.Raw
	}
	if strings.TrimSpace(string(c.Input)) == "{}" {
		return "" // what has no arguments has no pieces
	}
	return string(c.Input)
}
