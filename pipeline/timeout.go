package pipeline

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/assent-dev/assent/tool"
)

// Timeout returns the plugin that gives each execution of a tool with a Timeout that long. Mounted inside a
// retry it clocks each attempt, outside it the whole. When the deadline passes, the body's context is
// cancelled and the result is TOOL_TIMEOUT at once; a body that ignores its context goes on in the background and
// its result is dropped. A timeout that the tool reports by itself stays the tool's error.
//
// When the call is cancelled, it waits for the body to wind down, until the deadline at most.
func Timeout() Plugin {
	return PluginFunc("timeout", func(s *Scope) error {
		return s.Wrap(func(ctx context.Context, call Call, next func(context.Context) tool.Result) (tool.Result, error) {
			if call.Info.Timeout <= 0 {
				return next(ctx), nil
			}
			return withDeadline(ctx, call, next)
		})
	})
}

func withDeadline(parent context.Context, call Call, next func(context.Context) tool.Result) (tool.Result, error) {
	// A sentinel of this very frame, so that no deadline of anybody else is taken for it.
	ours := errors.New("the time of the tool is over")
	ctx, cancel := context.WithTimeoutCause(parent, call.Info.Timeout, ours)
	defer cancel()
	clock := time.NewTimer(call.Info.Timeout)
	defer clock.Stop()

	done := make(chan tool.Result, 1)
	go func() {
		// The zero Result, which is no result, if the body ends this goroutine.
		var result tool.Result
		defer func() { done <- result }()
		result = next(ctx)
	}()
	select {
	case result := <-done:
		if !result.IsOK() && errors.Is(context.Cause(ctx), ours) {
			return timedOut(call), nil
		}
		return result, nil
	case <-clock.C:
	}
	if parent.Err() != nil {
		return tool.Fail(tool.Aborted, "the call was cancelled and the tool has not stopped in its time"), nil
	}
	return timedOut(call), nil
}

func timedOut(call Call) tool.Result {
	seconds := strconv.FormatFloat(call.Info.Timeout.Seconds(), 'f', -1, 64)
	return tool.Fail(tool.ToolTimeout, call.Name+" exceeded "+seconds+"s")
}
