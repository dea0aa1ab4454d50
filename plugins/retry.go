package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// Defaults and bounds of RetryConfig.
const (
	DefaultAttempts   = 3
	MostAttempts      = 20
	DefaultBackoff    = 200 * time.Millisecond
	DefaultMaxBackoff = 5 * time.Second
)

// RetryConfig says when a call is tried again. The zero value means the defaults.
type RetryConfig struct {
	// Attempts counts all executions, the first included; zero is DefaultAttempts, 1 never retries.
	Attempts int
	// Backoff is the pause before the second attempt; it doubles up to MaxBackoff. Each pause is shortened by a random
	// part of at most a quarter, so that many workers do not come back at once.
	Backoff, MaxBackoff time.Duration
	// Codes are those after which another attempt makes sense: TOOL_ERROR, TOOL_TIMEOUT or both; empty is both.
	Codes []tool.Code
	// Log gets a line for each further attempt, without the message of the failure; nil is slog.Default.
	Log *slog.Logger

	// sleep waits until d is over or ctx is; tests replace it.
	sleep func(ctx context.Context, d time.Duration) error
}

var retryable = []tool.Code{tool.ToolError, tool.ToolTimeout}

func (c RetryConfig) checked() (RetryConfig, error) {
	switch {
	case c.Attempts < 0 || c.Attempts > MostAttempts:
		return c, fault.Configf("retry.attempts", "is %d, not between 1 and %d", c.Attempts, MostAttempts)
	case c.Backoff < 0:
		return c, fault.Configf("retry.backoff", "is negative")
	case c.MaxBackoff < 0:
		return c, fault.Configf("retry.maxBackoff", "is negative")
	case c.MaxBackoff > 0 && c.Backoff > c.MaxBackoff:
		return c, fault.Configf("retry.backoff", "%v is longer than maxBackoff, %v", c.Backoff, c.MaxBackoff)
	}
	for _, code := range c.Codes {
		if !slices.Contains(retryable, code) {
			return c, &fault.ConfigError{Key: "retry.codes", Msg: fmt.Sprintf("%q is not a failure that another attempt can mend", code),
				Allowed: []string{string(tool.ToolError), string(tool.ToolTimeout)}}
		}
	}
	c.Codes = slices.Clone(c.Codes)
	if len(c.Codes) == 0 {
		c.Codes = retryable
	}
	if c.Attempts == 0 {
		c.Attempts = DefaultAttempts
	}
	if c.Backoff == 0 {
		c.Backoff = DefaultBackoff
		if c.MaxBackoff > 0 {
			c.Backoff = min(c.Backoff, c.MaxBackoff)
		}
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(DefaultMaxBackoff, c.Backoff)
	}
	if c.sleep == nil {
		c.sleep = sleep
	}
	return c, nil
}

// Retry returns the plugin that executes an idempotent tool again after a failure that another attempt may mend. All others
// run once: a read-only tool that did not say that it is idempotent, too. What the model has to mend (ModelRetry) and what
// somebody refused is never tried again, and neither is anything after the call was cancelled or when its deadline
// would pass in the pause. The message of a failed result begins with `after N attempts: ` when there was more than one.
//
// The attempts share the time of whatever is mounted outside: pipeline.Timeout inside clocks each attempt, outside it the
// whole. In an agent they also share that of the tool's activity, which is the tool's Timeout and a little more.
func Retry(config RetryConfig) (pipeline.Plugin, error) {
	c, err := config.checked()
	if err != nil {
		return nil, err
	}
	return pipeline.PluginFunc("retry", func(s *pipeline.Scope) error { return s.Wrap(c.wrap) }), nil
}

func (c RetryConfig) wrap(ctx context.Context, call pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
	pause := c.Backoff
	for n := 1; ; n++ {
		result := next(ctx)
		if n >= c.Attempts || !c.again(ctx, call, result) {
			return counted(result, n), nil
		}
		wait := pause - time.Duration(rand.Int64N(int64(pause)/4+1))
		if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
			return counted(result, n), nil
		}
		c.note(ctx, call, n, result.Code)
		if err := c.sleep(ctx, wait); err != nil || ctx.Err() != nil {
			return interrupted(ctx, result, n), nil
		}
		pause = min(pause, c.MaxBackoff/2) * 2
	}
}

// again reports whether one more attempt is allowed and may help.
func (c RetryConfig) again(ctx context.Context, call pipeline.Call, result tool.Result) bool {
	asked := result.Failure != nil && result.Failure.Retry
	return call.Info.Idempotent && ctx.Err() == nil && !asked && slices.Contains(c.Codes, result.Code)
}

// interrupted is the result of a call that was cancelled between two attempts; one whose time ran out there keeps its own.
func interrupted(ctx context.Context, last tool.Result, n int) tool.Result {
	last = counted(last, n)
	if !errors.Is(ctx.Err(), context.Canceled) || last.Code == tool.ToolError {
		return last // the pipeline makes an error of a cancelled call ABORTED
	}
	return tool.Fail(tool.Aborted, fmt.Sprintf("the call was cancelled before its next attempt; the last one ended with %s: %s",
		last.Code, last.Failure.Message))
}

// counted says in a failed result how many attempts there were.
func counted(r tool.Result, n int) tool.Result {
	if n > 1 && r.Failure != nil {
		f := *r.Failure
		f.Message = fmt.Sprintf("after %d attempts: %s", n, f.Message)
		r.Failure = &f
	}
	return r
}

func (c RetryConfig) note(ctx context.Context, call pipeline.Call, n int, code tool.Code) {
	defer func() { _ = recover() }() // a log that panics must not fail the call
	log := c.Log
	if log == nil {
		log = slog.Default()
	}
	log.InfoContext(ctx, "tool failed and is tried again", "tool", call.Name, "call", call.ID, "attempt", n, "code", code)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
