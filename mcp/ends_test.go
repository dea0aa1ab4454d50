package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/tool"
)

func TestCloseEndsCallsUnderWay(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		slow, file := def(t, s, "s_slow"), scratch(t)
		done := make(chan tool.Result, 1)
		go func() {
			done <- slow.Invoke(context.Background(), nil, json.RawMessage(fmt.Sprintf(`{"file":%q}`, file)))
		}()
		waitFor(t, file, "started")
		require.NoError(t, s.Close())
		r := <-done
		assert.Equal(t, tool.EffectUnknown, r.Code, "%+v", r.Failure)
		r = slow.Invoke(context.Background(), nil, json.RawMessage(`{"file":"x"}`))
		assert.Equal(t, tool.ToolError, r.Code)
		assert.Contains(t, r.Failure.Message, "the server is closed")
	})
}

func TestAnAddressThatIsSilent(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	c := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-hang }))
	t.Cleanup(func() { close(hang) })
	c.StartTimeout = 300 * time.Millisecond
	assert.ErrorContains(t, open(t, c).Start(context.Background()), "no answer in time")
}

func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		echo := def(t, s, "s_echo")
		const calls = 50
		done := make(chan string, calls)
		for i := range calls {
			go func() {
				r := echo.Invoke(context.Background(), nil, json.RawMessage(fmt.Sprintf(`{"text":"%d"}`, i)))
				done <- fmt.Sprintf("%d:%s", i, r.Value)
			}()
		}
		var got []string
		for range calls {
			got = append(got, <-done)
		}
		for i := range calls {
			assert.Contains(t, got, fmt.Sprintf(`%d:"%d"`, i, i))
		}
	})
}
