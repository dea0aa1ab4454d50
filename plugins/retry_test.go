package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// pauses is a sleep that only takes notes, and what is to happen in it.
type pauses struct {
	all []time.Duration
	in  func(n int) error
}

func (p *pauses) sleep(_ context.Context, d time.Duration) error {
	p.all = append(p.all, d)
	if p.in != nil {
		return p.in(len(p.all))
	}
	return nil
}

func retrying(t *testing.T, c RetryConfig, p *pauses) pipeline.Plugin {
	t.Helper()
	if p != nil {
		c.sleep = p.sleep
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	plugin, err := Retry(c)
	require.NoError(t, err)
	return plugin
}

// tries is a tool that counts its attempts.
func tries(n *int, do func(ctx context.Context, n int) (any, error), options ...tool.Option) pipeline.Plugin {
	return pipeline.PluginFunc("tool", func(s *pipeline.Scope) error {
		def, err := tool.FromSchema("t", "Tries.", json.RawMessage(`{"type":"object"}`), func(ctx context.Context, _ *tool.Context, _ json.RawMessage) (any, error) {
			*n++
			return do(ctx, *n)
		}, options...)
		if err != nil {
			return err
		}
		return s.Tool(def)
	})
}

func run(t *testing.T, ctx context.Context, mounted ...pipeline.Plugin) tool.Result {
	t.Helper()
	p := pipeline.New(pipeline.Config{Log: slog.New(slog.DiscardHandler)})
	defer p.Close()
	for _, m := range mounted {
		_, err := p.Mount(m)
		require.NoError(t, err)
	}
	return p.Execute(ctx, "t", json.RawMessage(`{}`))
}

var errBroken = errors.New("broken")

func TestRetry(t *testing.T) {
	second := func(_ context.Context, n int) (any, error) {
		if n < 2 {
			return nil, errBroken
		}
		return n, nil
	}
	never := func(context.Context, int) (any, error) { return nil, errBroken }
	for name, c := range map[string]struct {
		config  RetryConfig
		do      func(context.Context, int) (any, error)
		options []tool.Option
		tries   int
		want    tool.Result
	}{
		"mended":         {RetryConfig{}, second, []tool.Option{tool.Idempotent()}, 2, tool.Result{Code: tool.OK, Value: json.RawMessage("2")}},
		"never mended":   {RetryConfig{}, never, []tool.Option{tool.Idempotent()}, 3, tool.Fail(tool.ToolError, "after 3 attempts: broken")},
		"more often":     {RetryConfig{Attempts: 7}, never, []tool.Option{tool.Idempotent()}, 7, tool.Fail(tool.ToolError, "after 7 attempts: broken")},
		"once":           {RetryConfig{Attempts: 1}, never, []tool.Option{tool.Idempotent()}, 1, tool.Fail(tool.ToolError, "broken")},
		"not idempotent": {RetryConfig{}, second, []tool.Option{tool.Write}, 1, tool.Fail(tool.ToolError, "broken")},
		"only reading":   {RetryConfig{}, second, []tool.Option{tool.Read}, 1, tool.Fail(tool.ToolError, "broken")},
		"another code":   {RetryConfig{Codes: []tool.Code{tool.ToolTimeout}}, second, []tool.Option{tool.Idempotent()}, 1, tool.Fail(tool.ToolError, "broken")},
		"a panic":        {RetryConfig{}, func(_ context.Context, n int) (any, error) { panic("x") }, []tool.Option{tool.Idempotent()}, 3, tool.Fail(tool.ToolError, "after 3 attempts: the tool panicked: x")},
		"no JSON":        {RetryConfig{}, func(context.Context, int) (any, error) { return func() {}, nil }, []tool.Option{tool.Idempotent()}, 1, tool.Result{Code: tool.NonSerializable}},
		"for the model":  {RetryConfig{}, func(context.Context, int) (any, error) { return nil, tool.ModelRetry{Message: "name a word"} }, []tool.Option{tool.Idempotent()}, 1, tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "name a word", Retry: true}}},
		"later for the model": {RetryConfig{}, func(_ context.Context, n int) (any, error) {
			if n == 1 {
				return nil, errBroken
			}
			return nil, tool.ModelRetry{Message: "name a word"}
		}, []tool.Option{tool.Idempotent()}, 2, tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "after 2 attempts: name a word", Retry: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			r := run(t, t.Context(), retrying(t, c.config, &pauses{}), tries(&n, c.do, c.options...))
			assert.Equal(t, c.tries, n)
			if c.want.Code == tool.NonSerializable {
				assert.Equal(t, c.want.Code, r.Code)
				return
			}
			assert.Equal(t, c.want, r)
		})
	}
}

// What somebody refused is not tried again, at the gate or while the tool runs.
func TestRetryKeepsRefusals(t *testing.T) {
	n := 0
	refusing := pipeline.PluginFunc("refuse", func(s *pipeline.Scope) error {
		return s.Wrap(func(context.Context, pipeline.Call, func(context.Context) tool.Result) (tool.Result, error) {
			n++
			return tool.Deny(tool.ByRule, "a rule", "no"), nil
		})
	})
	body := 0
	r := run(t, t.Context(), retrying(t, RetryConfig{}, &pauses{}), refusing,
		tries(&body, func(context.Context, int) (any, error) { return nil, nil }, tool.Idempotent()))
	assert.Equal(t, tool.Deny(tool.ByRule, "a rule", "no"), r)
	assert.Equal(t, 1, n)
	assert.Zero(t, body)
}

// Pauses double up to their bound, each shortened by a quarter at most.
func TestRetryBackoff(t *testing.T) {
	p, n := &pauses{}, 0
	run(t, t.Context(), retrying(t, RetryConfig{Attempts: 6, Backoff: 100, MaxBackoff: 500}, p),
		tries(&n, func(context.Context, int) (any, error) { return nil, errBroken }, tool.Idempotent()))
	require.Len(t, p.all, 5)
	for i, full := range []time.Duration{100, 200, 400, 500, 500} {
		assert.LessOrEqual(t, p.all[i], full)
		assert.GreaterOrEqual(t, p.all[i], full*3/4)
	}
	p, n = &pauses{}, 0
	run(t, t.Context(), retrying(t, RetryConfig{Attempts: 20, Backoff: 1 << 60, MaxBackoff: 1<<63 - 1}, p),
		tries(&n, func(context.Context, int) (any, error) { return nil, errBroken }, tool.Idempotent()))
	assert.Len(t, p.all, 19, "no overflow")
}

// After the cancellation nothing runs any more, and the pause ends with it.
func TestRetryEndsWithTheCall(t *testing.T) {
	t.Run("in the tool", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		r := run(t, ctx, retrying(t, RetryConfig{}, &pauses{}), tries(&n, func(context.Context, int) (any, error) { cancel(); return nil, errBroken }, tool.Idempotent()))
		assert.Equal(t, 1, n)
		assert.Equal(t, tool.Aborted, r.Code)
		assert.True(t, r.Failure.Started)
	})
	t.Run("in the pause", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		// A real pause of an hour, which only the cancellation ends.
		c := RetryConfig{Backoff: time.Hour, MaxBackoff: time.Hour, sleep: func(ctx context.Context, d time.Duration) error { cancel(); return sleep(ctx, d) }}
		r := run(t, ctx, retrying(t, c, nil), tries(&n, func(context.Context, int) (any, error) { return nil, errBroken }, tool.Idempotent()))
		assert.Equal(t, 1, n)
		assert.Equal(t, tool.Aborted, r.Code)
		assert.Contains(t, r.Failure.Message, "broken")
	})
	t.Run("in the pause after a timeout", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		p := &pauses{in: func(int) error { cancel(); return ctx.Err() }}
		r := run(t, ctx, retrying(t, RetryConfig{}, p), pipeline.Timeout(),
			tries(&n, func(ctx context.Context, _ int) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, tool.Idempotent(), tool.Timeout(time.Millisecond)))
		assert.Equal(t, tool.Aborted, r.Code, "%+v", r.Failure)
		assert.Contains(t, r.Failure.Message, "the last one ended with TOOL_TIMEOUT")
		assert.Len(t, p.all, 1)
		assert.LessOrEqual(t, n, 1)
	})
	t.Run("when the deadline is nearer than the next attempt", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p, n := &pauses{}, 0
		r := run(t, ctx, retrying(t, RetryConfig{Backoff: 2 * time.Hour, MaxBackoff: 2 * time.Hour}, p),
			tries(&n, func(context.Context, int) (any, error) { return nil, errBroken }, tool.Idempotent()))
		assert.Empty(t, p.all)
		assert.Equal(t, tool.Fail(tool.ToolError, "broken"), r)
	})
}

// A timeout inside clocks each attempt, one outside the whole.
func TestRetryAndTimeout(t *testing.T) {
	slow := func(ctx context.Context, _ int) (any, error) { <-ctx.Done(); return nil, ctx.Err() }
	// The time of an attempt may be over before its body begins, so the pauses are counted.
	n, p := 0, &pauses{}
	r := run(t, t.Context(), retrying(t, RetryConfig{}, p), pipeline.Timeout(), tries(&n, slow, tool.Idempotent(), tool.Timeout(time.Millisecond)))
	assert.Len(t, p.all, 2)
	assert.LessOrEqual(t, n, 3)
	assert.Equal(t, tool.Fail(tool.ToolTimeout, "after 3 attempts: t exceeded 0.001s"), r)
	n, p = 0, &pauses{}
	r = run(t, t.Context(), pipeline.Timeout(), retrying(t, RetryConfig{}, p), tries(&n, slow, tool.Idempotent(), tool.Timeout(time.Millisecond)))
	assert.Empty(t, p.all)
	assert.LessOrEqual(t, n, 1)
	assert.Equal(t, tool.Fail(tool.ToolTimeout, "t exceeded 0.001s"), r)
}

// A further attempt is a line in the log without the message of the failure; a log that panics changes nothing.
func TestRetryLog(t *testing.T) {
	var out bytes.Buffer
	n := 0
	run(t, t.Context(), retrying(t, RetryConfig{Log: slog.New(slog.NewTextHandler(&out, nil))}, &pauses{}),
		tries(&n, func(context.Context, int) (any, error) { return nil, errBroken }, tool.Idempotent()))
	assert.Contains(t, out.String(), "attempt=1 code=TOOL_ERROR")
	assert.Contains(t, out.String(), "attempt=2 code=TOOL_ERROR")
	assert.NotContains(t, out.String(), "broken")
	n = 0
	r := run(t, t.Context(), retrying(t, RetryConfig{Log: slog.New(panicking{})}, &pauses{}),
		tries(&n, func(context.Context, int) (any, error) { return nil, errBroken }, tool.Idempotent()))
	assert.Equal(t, tool.Fail(tool.ToolError, "after 3 attempts: broken"), r)
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { panic("log") }

func TestRetryConfigErrors(t *testing.T) {
	for name, c := range map[string]RetryConfig{
		"attempts": {Attempts: -1}, "too many": {Attempts: MostAttempts + 1}, "backoff": {Backoff: -1}, "most": {MaxBackoff: -1},
		"order": {Backoff: 2, MaxBackoff: 1}, "code": {Codes: []tool.Code{tool.Denied}}, "no code": {Codes: []tool.Code{""}},
	} {
		_, err := Retry(c)
		assert.True(t, fault.IsConfig(err), "%s: %v", name, err)
	}
	c, err := RetryConfig{MaxBackoff: time.Millisecond}.checked()
	require.NoError(t, err)
	assert.Equal(t, time.Millisecond, c.Backoff)
	c, err = RetryConfig{Backoff: time.Hour}.checked()
	require.NoError(t, err)
	assert.Equal(t, time.Hour, c.MaxBackoff)
}
