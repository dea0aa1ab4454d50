package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/mcp"
)

// Errors stand in histories and logs. What a server says in one is bounded, on one line, and without the token that it was
// sent.
func TestWordsOfAServerInErrors(t *testing.T) {
	const token = "s3cret-t0ken"
	t.Setenv("MCP_TEST_TOKEN", token)
	var at atomic.Value
	c := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		var r request
		if json.NewDecoder(hr.Body).Decode(&r) != nil || r.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		words, _ := json.Marshal("what is " + hr.Header.Get("Authorization") + "?\n\x1b[31m" + strings.Repeat("x", 1<<20))
		switch {
		case r.Method == at.Load():
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":%s}}`, *r.ID, words)
		case !usual(r, func(text string) { _, _ = io.WriteString(w, text) }):
			_, _ = io.WriteString(w, reply(r, `{"isError":true,"content":[{"type":"text","text":`+string(words)+`}]}`))
		}
	}))
	c.Token = mcp.Key{Env: "MCP_TEST_TOKEN"}
	for _, method := range []string{"initialize", "tools/list", "tools/call", "no error of the protocol"} {
		at.Store(method)
		s, said := open(t, c), ""
		if err := s.Start(context.Background()); err != nil {
			said = err.Error()
		} else {
			said = invoke(context.Background(), t, s, "s_echo", `{}`).Failure.Message
		}
		assert.Contains(t, said, "what is Bearer (secret)?", method)
		assert.NotContains(t, said, token, method)
		if strings.Contains(method, "/") || method == "initialize" {
			assert.Less(t, len(said), 1000, method)
			assert.NotContains(t, said, "\x1b", method)
		}
	}
}

func TestAVariableThatTheWorkerDoesNotHave(t *testing.T) {
	t.Setenv("MCP_TEST_PASSED", "")
	log, read := logged()
	c := config(t, "changes")
	c.Log, c.PassEnv = log, []string{"MCP_TEST_PASSED", "MCP_TEST_UNSET"}
	s := start(t, c)
	require.NoError(t, s.Start(context.Background()))
	assert.Equal(t, []string{"MCP_TEST_UNSET"}, s.Unset())
	assert.Equal(t, 1, strings.Count(read(), "variables that the worker does not have"))
	assert.Contains(t, read(), `server=s passEnv=[MCP_TEST_UNSET]`)
}

// A program that prints what it was given, as many do when they do not like it. Neither errors nor the log have it.
func TestVariablesOfTheWorkerAreNotTold(t *testing.T) {
	const key = "passed-0n-key\nof-two-lines"
	t.Setenv("MCP_TEST_PASSED", key)
	for mode, want := range map[string]string{"prints variables": "I got (secret) and more", "prints variables at calls": "I got (secret) and more",
		"prints variables without end": "I got (secret)"} {
		log, read := logged()
		c := config(t, mode)
		c.PassEnv, c.Log = []string{"MCP_TEST_PASSED"}, log
		s, said := open(t, c), ""
		if err := s.Start(context.Background()); err != nil {
			said = err.Error()
		} else {
			said = invoke(context.Background(), t, s, "s_echo", `{}`).Failure.Message
		}
		assert.Contains(t, said, want, mode)
		require.NoError(t, s.Close())
		// Nobody waits for the log of stderr.
		require.Eventually(t, func() bool { return strings.Contains(read(), "I got (secret)") }, time.Minute, time.Millisecond, mode)
		for line := range strings.Lines(key) {
			assert.NotContains(t, said, strings.TrimSpace(line), mode)
			assert.NotContains(t, read(), strings.TrimSpace(line), mode)
		}
	}
}
