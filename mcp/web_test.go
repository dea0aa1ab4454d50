package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

func TestResponsesThatAreNoAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		kind, body string
		want       string
	}{
		"401":        {401, "text/plain", "who are you?", `status 401 Unauthorized: it wants a token; tokenEnv or tokenFile names one: text/plain: "who are you?"`},
		"403":        {403, "application/json", `{"error":"no"}`, `status 403 Forbidden: application/json: "{\"error\":\"no\"}"`},
		"404":        {404, "text/plain", "", `status 404 Not Found`},
		"500":        {500, "text/html", "<html><title>Bad day</title>", `status 500 Internal Server Error: text/html: "Bad day"`},
		"503":        {503, "", "", `status 503 Service Unavailable`},
		"html":       {200, "text/html", "<html><TITLE>Sign in</TITLE>", `it does not answer in MCP but with text/html: "Sign in"; is the url right?`},
		"202":        {202, "", "", `status 202 Accepted and no answer`},
		"redirect":   {302, "", "", `status 302 Found: it redirects, which is not followed`},
		"garbage":    {200, "application/json", `{"hello":1}`, `it does not answer the request but says application/json: "{\"hello\":1}"`},
		"another id": {200, "application/json", `{"jsonrpc":"2.0","id":77,"result":{}}`, `it does not answer the request but says`},
		"stream":     {200, "text/event-stream", "data: hello\n\n", `it sent what is no message: "hello"`},
		"cut stream": {200, "text/event-stream", "data: {\"jsonrpc\"", `request terminated without response`},
		"rpc error":  {400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"go away"}}`, `go away`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := open(t, httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))).Start(context.Background())
			assert.ErrorContains(t, err, `mcp server "s": `)
			assert.ErrorContains(t, err, c.want)
		})
	}
	c := httpServer(t, http.NotFoundHandler())
	c.URL = "http://127.0.0.1:1/mcp"
	assert.ErrorContains(t, open(t, c).Start(context.Background()), "it cannot be reached")
}

// switched is a server whose handler can be replaced.
type switched struct{ atomic.Pointer[http.Handler] }

func (s *switched) set(h http.Handler) { s.Store(&h) }

func (s *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.Load()).ServeHTTP(w, r) }

func goodHandler() http.Handler {
	server := goodServer()
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
}

// A server that wants OAuth says so in a header.
func TestAServerThatWantsOAuth(t *testing.T) {
	t.Parallel()
	c := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	err := open(t, c).Start(context.Background())
	assert.ErrorContains(t, err, "it wants a token by OAuth, which is not done here; tokenEnv or tokenFile names one that you have got: it says Bearer resource_metadata=")
}

func TestASessionThatIsLost(t *testing.T) {
	t.Parallel()
	at := &switched{}
	at.set(goodHandler())
	s := start(t, httpServer(t, at))
	echo := def(t, s, "s_echo")
	// A new process knows no sessions. The call is no read, and the server has refused it, so it is tried again.
	at.set(goodHandler())
	r := echo.Invoke(context.Background(), nil, json.RawMessage(`{"text":"again"}`))
	assert.Equal(t, `"again"`, string(r.Value), "%+v", r.Failure)
}

func TestAnErrorOfTheProtocolWithAStatus(t *testing.T) {
	t.Parallel()
	for _, code := range []int{-32602, -32000} {
		var n atomic.Int64
		s := start(t, httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
			var r request
			if json.NewDecoder(hr.Body).Decode(&r) != nil || r.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "one")
			if !usual(r, func(text string) { _, _ = io.WriteString(w, text) }) {
				n.Add(1)
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"no such thing"}}`, code)
			}
		})))
		r := invoke(context.Background(), t, s, "s_echo", `{}`)
		assert.Equal(t, tool.ToolError, r.Code)
		assert.Contains(t, r.Failure.Message, "no such thing")
		assert.EqualValues(t, 1, n.Load(), "it is not sent again")
	}
}

func TestWhatAStatusMeansForACall(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]tool.Code{400: tool.ToolError, 401: tool.ToolError, 403: tool.ToolError, 429: tool.ToolError, 307: tool.ToolError,
		500: tool.EffectUnknown, 502: tool.EffectUnknown, 503: tool.EffectUnknown, 202: tool.EffectUnknown, 408: tool.EffectUnknown} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			c := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
				var r request
				if json.NewDecoder(hr.Body).Decode(&r) != nil || r.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if !usual(r, func(text string) { _, _ = io.WriteString(w, text) }) {
					calls.Add(1)
					w.WriteHeader(status)
				}
			}))
			s := start(t, c)
			r := invoke(context.Background(), t, s, "s_echo", `{}`)
			assert.Equal(t, code, r.Code, "%+v", r.Failure)
			assert.EqualValues(t, 1, calls.Load())
			if code == tool.EffectUnknown {
				c.Idempotent = []string{"echo"}
				calls.Store(0)
				assert.Equal(t, tool.EffectUnknown, invoke(context.Background(), t, start(t, c), "s_echo", `{}`).Code)
				assert.EqualValues(t, 3, calls.Load(), "an idempotent call is tried again")
			}
		})
	}
}

func TestOneBadAnswerLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"application/json", "text/event-stream", "cut"} {
		t.Run(bad, func(t *testing.T) {
			t.Parallel()
			var ready, release sync.WaitGroup
			ready.Add(1)
			release.Add(1)
			c := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
				var r request
				if json.NewDecoder(hr.Body).Decode(&r) != nil || r.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Mcp-Session-Id", "one")
				w.Header().Set("Content-Type", "application/json")
				write := func(text string) { _, _ = io.WriteString(w, text) }
				if usual(r, write) {
					return
				}
				if strings.Contains(string(r.Params), "wait") {
					ready.Done()
					release.Wait()
					write(reply(r, `{"content":[{"type":"text","text":"whole"}]}`))
					return
				}
				if bad == "cut" {
					w.Header().Set("Content-Length", "1000")
				} else {
					w.Header().Set("Content-Type", bad)
				}
				write(`data: {"jsonrpc":"2.0", what`)
			}))
			s := start(t, c)
			echo := def(t, s, "s_echo")
			whole := make(chan tool.Result, 1)
			go func() { whole <- echo.Invoke(context.Background(), nil, json.RawMessage(`{"text":"wait"}`)) }()
			ready.Wait()
			assert.Equal(t, tool.EffectUnknown, echo.Invoke(context.Background(), nil, json.RawMessage(`{}`)).Code)
			release.Done()
			assert.Equal(t, `"whole"`, string((<-whole).Value))
		})
	}
}

func TestTheTokenIsReadEachTimeAndGoesNowhereElse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("first-t0ken\n"), 0o600))
	var other atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	t.Cleanup(elsewhere.Close)
	var want atomic.Value
	want.Store("Bearer first-t0ken")
	good := goodHandler()
	c := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Team") != "blue":
			http.Error(w, "no team", http.StatusForbidden)
		case r.Header.Get("Authorization") == want.Load():
			good.ServeHTTP(w, r)
		case r.Header.Get("Authorization") == "Bearer third-t0ken":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		default:
			http.Error(w, "what is "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		}
	}))
	c.Token.File, c.Headers = file, map[string]string{"X-Team": "blue"}
	s := start(t, c)
	want.Store("Bearer second-t0ken")
	err := s.Start(context.Background())
	require.ErrorContains(t, err, "it does not take the token")
	require.ErrorContains(t, err, "what is Bearer (secret)")
	require.NoError(t, os.WriteFile(file, []byte("second-t0ken"), 0o600))
	require.NoError(t, s.Start(context.Background()))
	require.NoError(t, os.WriteFile(file, []byte("third-t0ken"), 0o600))
	require.ErrorContains(t, s.Start(context.Background()), "it redirects, which is not followed")
	require.NoError(t, os.Remove(file))
	require.ErrorContains(t, s.Start(context.Background()), "tokenFile: the file")
	assert.Zero(t, other.Load())
}

func TestAStreamThatIsResumed(t *testing.T) {
	t.Parallel()
	for resumed, want := range map[bool]tool.Code{true: tool.OK, false: tool.EffectUnknown} {
		t.Run(fmt.Sprint(resumed), func(t *testing.T) {
			t.Parallel()
			var gets atomic.Int64
			answer := make(chan string, 1)
			c := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				write := func(text string) { _, _ = io.WriteString(w, "data: "+text+"\n\n") }
				if hr.Method == http.MethodGet {
					gets.Add(1)
					if resumed {
						write(<-answer)
					} else {
						w.WriteHeader(http.StatusNotFound)
					}
					return
				}
				var r request
				if json.NewDecoder(hr.Body).Decode(&r) != nil || r.ID == nil {
					w.WriteHeader(http.StatusAccepted)
				} else if !usual(r, write) {
					answer <- reply(r, `{"content":[{"type":"text","text":"later"}]}`)
					_, _ = io.WriteString(w, "id: 7\nretry: 10\ndata:\n\n")
				}
			}))
			s := start(t, c)
			r := invoke(context.Background(), t, s, "s_echo", `{}`)
			assert.Equal(t, want, r.Code, "%+v", r.Failure)
			assert.EqualValues(t, 1, gets.Load())
			assert.NotPanics(t, func() { def(t, s, "s_echo") }, "the session goes on")
		})
	}
}
