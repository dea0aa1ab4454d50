package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/assent-dev/assent/tool"
)

// sessions is a server over HTTP that knows one session. A call has its effect, and then it is answered as answer says.
func sessions(calls *atomic.Int64, known *atomic.Value, answer func(w http.ResponseWriter, r request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		var r request
		if json.NewDecoder(hr.Body).Decode(&r) != nil || r.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		session := hr.Header.Get("Mcp-Session-Id")
		switch {
		case r.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(known.Load()))
		case session != known.Load():
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}`)
			return
		case r.Method == "ping":
			_, _ = io.WriteString(w, reply(r, `{}`))
			return
		case r.Method == "tools/call":
			calls.Add(1)
			answer(w, r)
			return
		}
		usual(r, func(text string) { _, _ = io.WriteString(w, text) })
	})
}

// A status that many servers give for a session that they do not know may as well be about the call. Only a session that is
// unknown for a ping too is unknown.
func TestACallIsNotSentAgainForAStatusAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"400 without words": {400, ""},
		"400 in words":      {400, "the session of the database is over"},
		"400 of the server": {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the bank said no after the booking"}}`},
		"404":               {404, "no such customer"},
		"404 of the server": {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no such customer"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			var known atomic.Value
			known.Store("one")
			s := start(t, httpServer(t, sessions(&calls, &known, func(w http.ResponseWriter, _ request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})))
			r := invoke(context.Background(), t, s, "s_echo", `{}`)
			assert.Equal(t, tool.ToolError, r.Code)
			assert.EqualValues(t, 1, calls.Load(), "%+v", r.Failure)
		})
	}
}

func TestASessionIsMadeAnewIfAPingFindsItUnknownToo(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var known atomic.Value
	known.Store("one")
	s := start(t, httpServer(t, sessions(&calls, &known, func(w http.ResponseWriter, r request) {
		_, _ = io.WriteString(w, reply(r, `{"content":[{"type":"text","text":"done"}]}`))
	})))
	echo := def(t, s, "s_echo")
	known.Store("two")
	r := echo.Invoke(context.Background(), nil, json.RawMessage(`{}`))
	assert.Equal(t, `"done"`, string(r.Value), "%+v", r.Failure)
	assert.EqualValues(t, 1, calls.Load())
}
