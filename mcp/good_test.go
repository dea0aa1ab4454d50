package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/tool"
)

// both runs a test against the good server over stdio and over HTTP.
func both(t *testing.T, test func(t *testing.T, c mcp.Config)) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		test(t, config(t, "good"))
	})
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprintf("http json=%v", json), func(t *testing.T) {
			t.Parallel()
			server := goodServer()
			test(t, httpServer(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{JSONResponse: json})))
		})
	}
}

func TestAGoodServer(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c mcp.Config) {
		c.Risk = map[string]tool.Risk{"add": tool.Read, "gone": tool.Read}
		c.Approval, c.Idempotent, c.Deny = []string{"fail"}, []string{"key"}, []string{"crash"}
		s := start(t, c)
		assert.Equal(t, []mcp.Refused{{Name: "crash", Why: "deny names it"}}, s.Refused())
		ctx := context.Background()
		infos := map[string]tool.Info{}
		defs, err := s.Tools(ctx)
		require.NoError(t, err)
		for _, d := range defs {
			infos[d.Name()] = d.Info()
		}
		assert.Len(t, infos, 9)
		assert.Equal(t, tool.Undeclared, infos["s_echo"].Risk)
		assert.Equal(t, tool.Read, infos["s_add"].Risk)
		assert.Equal(t, tool.Destructive, infos["s_gone"].Risk, "a hint raises the risk over the map, and lowers none")
		assert.True(t, infos["s_fail"].NeedsApproval)
		assert.True(t, infos["s_key"].Idempotent)
		assert.Equal(t, c.CallTimeout, infos["s_echo"].Timeout)

		assert.JSONEq(t, `"hello"`, string(invoke(ctx, t, s, "s_echo", `{"text":"hello"}`).Value))
		assert.JSONEq(t, `{"sum":9007199254740993}`, string(invoke(ctx, t, s, "s_add", `{"a":9007199254740992,"b":1}`).Value))
		assert.Equal(t, `"key-1"`, string(invoke(ctx, t, s, "s_key", `{}`).Value))
		failed := invoke(ctx, t, s, "s_fail", `{}`)
		assert.Equal(t, tool.ToolError, failed.Code)
		assert.Equal(t, "the disk is full", failed.Failure.Message)
		image := invoke(ctx, t, s, "s_image", `{}`)
		require.Len(t, image.Images, 1)
		assert.Equal(t, pixel, string(image.Images[0].Data))
		var told string
		require.NoError(t, json.Unmarshal(image.Value, &told))
		assert.Equal(t, "look\nfile:///a:\ninside\n[audio that cannot be shown here: audio/wav, 3 bytes]\n[a resource that is no text: file:///b, application/pdf, 5 bytes]", told)
		asked := invoke(ctx, t, s, "s_ask", `{}`)
		assert.Equal(t, tool.ToolError, asked.Code)
		assert.Contains(t, asked.Failure.Message, "sampling")

		require.NoError(t, s.Close())
		_, err = s.Tools(ctx)
		assert.ErrorContains(t, err, "closed")
	})
}

func TestACancelledCallIsToldToTheServer(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		file := scratch(t)
		ctx, cancel := context.WithCancel(context.Background())
		slow := def(t, s, "s_slow")
		done := make(chan tool.Result, 1)
		go func() { done <- slow.Invoke(ctx, nil, json.RawMessage(fmt.Sprintf(`{"file":%q}`, file))) }()
		waitFor(t, file, "started")
		cancel()
		r := <-done
		assert.Equal(t, tool.Aborted, r.Code)
		assert.True(t, r.Failure.Started)
		waitFor(t, file, "cancelled")
		assert.JSONEq(t, `"on"`, string(invoke(context.Background(), t, s, "s_echo", `{"text":"on"}`).Value))
	})
}

func TestACrashInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("its effect is not known", func(t *testing.T) {
		t.Parallel()
		s := start(t, config(t, "good"))
		input := fmt.Sprintf(`{"file":%q}`, scratch(t))
		r := invoke(ctx, t, s, "s_crash", input)
		assert.Equal(t, tool.EffectUnknown, r.Code)
		assert.True(t, r.Failure.Started)
		assert.Contains(t, r.Failure.Message, "exit status 3")
		assert.Contains(t, r.Failure.Message, "out of cheese")
		assert.Equal(t, `"survived"`, string(invoke(ctx, t, s, "s_crash", input).Value), "the next call has a new program")
	})
	for what, change := range map[string]func(*mcp.Config){
		"idempotent": func(c *mcp.Config) { c.Idempotent = []string{"crash"} },
		"read":       func(c *mcp.Config) { c.Risk = map[string]tool.Risk{"crash": tool.Read} },
	} {
		t.Run(what+" is called again", func(t *testing.T) {
			t.Parallel()
			c := config(t, "good")
			change(&c)
			s := start(t, c)
			assert.Equal(t, `"survived"`, string(invoke(ctx, t, s, "s_crash", fmt.Sprintf(`{"file":%q}`, scratch(t))).Value))
		})
	}
}

func TestAProgramForEachDirectory(t *testing.T) {
	t.Setenv("MCP_TEST_SECRET", "of the worker")
	c := config(t, "good")
	c.PerDir, c.Command = true, append(c.Command, "at={dir}")
	s := start(t, c)
	where := def(t, s, "s_where")
	at := func(dir string) string {
		r := where.Invoke(context.Background(), &tool.Context{Dir: dir}, json.RawMessage(`{}`))
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
		var out string
		require.NoError(t, json.Unmarshal(r.Value, &out))
		return out
	}
	a, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	b, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	first := at(a)
	assert.Contains(t, first, a+"|at="+a+"|file://"+a+"||", "no variable of the worker is there")
	assert.Equal(t, first, at(a), "the program stays")
	assert.Contains(t, at(b), b+"|at="+b+"|file://"+b+"||")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(a, link))
	assert.Equal(t, first, at(link), "one directory, whatever it is called")
	r := where.Invoke(context.Background(), nil, json.RawMessage(`{}`))
	assert.Equal(t, tool.ToolError, r.Code)
	assert.Contains(t, r.Failure.Message, "has none")
	r = where.Invoke(context.Background(), &tool.Context{Dir: filepath.Join(a, "none")}, json.RawMessage(`{}`))
	assert.Equal(t, tool.ToolError, r.Code)
}

func TestAProgramThatEndsBetweenTwoCalls(t *testing.T) {
	t.Parallel()
	s := start(t, config(t, "good"))
	where := def(t, s, "s_where")
	pid := func() int {
		r := where.Invoke(context.Background(), nil, json.RawMessage(`{}`))
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
		n, err := strconv.Atoi(strings.Trim(string(r.Value[strings.LastIndexByte(string(r.Value), '|')+1:]), `"`))
		require.NoError(t, err)
		return n
	}
	for range 3 {
		before := pid()
		p, err := os.FindProcess(before)
		require.NoError(t, err)
		require.NoError(t, p.Kill())
		require.Eventually(t, func() bool { return p.Signal(syscall.Signal(0)) != nil }, patience, time.Millisecond)
		// The call cannot have reached a program that was gone, so it is made again although it is no read.
		assert.NotEqual(t, before, pid())
	}
}
