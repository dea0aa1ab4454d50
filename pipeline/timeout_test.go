package pipeline_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

func clocked(t *testing.T) (*pipeline.Pipeline, call) {
	p := quiet()
	_, err := p.Mount(pipeline.Timeout())
	require.NoError(t, err)
	return p, call{Name: "t", Info: tool.Info{Name: "t", Timeout: time.Minute}}
}

func TestTimeout(t *testing.T) {
	expired := tool.Fail(tool.ToolTimeout, "t exceeded 60s")
	for _, c := range []struct {
		name   string
		caller func(context.Context) (context.Context, context.CancelFunc)
		body   run
		want   tool.Result
		after  time.Duration
	}{
		{"a body that obeys", nil, func(ctx context.Context) tool.Result {
			_ = sleep(ctx, 3600)
			return tool.Fail(tool.ToolError, "stopped")
		}, expired, time.Minute},
		{"a body that ignores it", nil, func(ctx context.Context) tool.Result {
			time.Sleep(time.Hour)
			return value(`1`)(ctx)
		}, expired, time.Minute},
		{"a body that fails in time", nil, func(context.Context) tool.Result {
			time.Sleep(time.Second)
			return tool.Fail(tool.ToolError, "its own timeout")
		}, tool.Fail(tool.ToolError, "its own timeout"), time.Second},
		{"a body that panics", nil, func(context.Context) tool.Result { panic("x") }, tool.Fail(tool.ToolError, "panic: x"), 0},
		{"a body that ends its goroutine", nil, func(context.Context) tool.Result { runtime.Goexit(); return tool.Result{} },
			tool.Fail(tool.ToolError, "ended without an answer"), 0},
		{"the caller's deadline is not ours", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, func(ctx context.Context) tool.Result {
			return tool.Fail(tool.ToolError, sleep(ctx, 3600).Error())
		}, tool.Result{Code: tool.Aborted, Failure: &tool.Failure{Started: true,
			Message: "the call was cancelled while the tool was running: context deadline exceeded: context deadline exceeded"}}, time.Second},
		{"cancelled, and it winds down", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, context.Canceled)
		}, func(ctx context.Context) tool.Result {
			<-ctx.Done()
			time.Sleep(time.Second)
			return tool.Fail(tool.ToolError, "wound down")
		}, tool.Result{Code: tool.Aborted, Failure: &tool.Failure{Started: true,
			Message: "the call was cancelled while the tool was running: wound down"}}, 2 * time.Second},
		{"cancelled, and it never stops", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, context.Canceled)
		}, func(ctx context.Context) tool.Result {
			time.Sleep(time.Hour)
			return value(`1`)(ctx)
		}, tool.Result{Code: tool.Aborted, Failure: &tool.Failure{Started: true,
			Message: "the call was cancelled and the tool has not stopped in its time"}}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, tc := clocked(t)
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if c.caller != nil {
					ctx, cancel = c.caller(ctx)
				}
				defer cancel()
				// The clock is the bubble's, not the wall's.
				start := time.Now()
				assert.Equal(t, c.want, p.Run(ctx, tc, nil, c.body))
				assert.Equal(t, c.after, time.Since(start))
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestTimeoutInsideAndOutsideOfARetry(t *testing.T) {
	retry := func(ctx context.Context, _ call, next run) (tool.Result, error) {
		var r tool.Result
		for range 3 {
			if r = next(ctx); r.IsOK() {
				break
			}
		}
		return r, nil
	}
	for _, outer := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := quiet()
			if !outer {
				wrap(t, p, retry)
			}
			_, err := p.Mount(pipeline.Timeout())
			require.NoError(t, err)
			if outer {
				wrap(t, p, retry)
			}
			bodies := 0
			start := time.Now()
			r := p.Run(t.Context(), call{Name: "t", Info: tool.Info{Timeout: time.Minute}}, nil, func(ctx context.Context) tool.Result {
				bodies++
				_ = sleep(ctx, 3600)
				return tool.Fail(tool.ToolError, "stopped")
			})
			assert.Equal(t, tool.ToolTimeout, r.Code)
			want := 3
			if outer {
				want = 1 // the attempts share one clock, and nothing starts when it has run out
			}
			assert.Equal(t, want, bodies)
			assert.Equal(t, time.Duration(want)*time.Minute, time.Since(start))
			time.Sleep(time.Hour)
			assert.Equal(t, want, bodies)
		})
	}
}
