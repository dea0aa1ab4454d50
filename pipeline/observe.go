package pipeline

import (
	"context"
	"errors"

	"github.com/assent-dev/assent/tool"
)

// HasObservers reports whether anybody watches stage 5, so that a caller can spare the work of telling nobody.
func (p *Pipeline) HasObservers() bool { return len(p.live.Load().observers) > 0 }

// HasPosts reports whether anybody judges results in stage 4.
func (p *Pipeline) HasPosts() bool { return len(p.live.Load().posts) > 0 }

// Observe runs stage 5 alone, for calls that never ran: refused, unknown, skipped, cancelled before.
// Every observer gets its own copies; failures are logged and change nothing.
func (p *Pipeline) Observe(ctx context.Context, call Call, result tool.Result) {
	p.observe(ctx, p.live.Load(), call, result)
}

func (p *Pipeline) observe(ctx context.Context, start *snapshot, call Call, result tool.Result) {
	for _, e := range start.observers {
		if err := p.observeOne(ctx, e, call, result); err != nil {
			p.logFailure(&call, "observer failed", e.owner, err)
		}
	}
}

var (
	errObserverSlow = errors.New("took too long; it was left running")
	errNoReturn     = errors.New("ended its goroutine without returning")
)

// observeOne waits for one observer, but not for ever: one that hangs must not starve the next.
func (p *Pipeline) observeOne(ctx context.Context, e *entry, call Call, result tool.Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.ObserverTimeout)
	call, result = call.Clone(), cloneResult(result)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		err := errNoReturn
		defer func() { done <- err }()
		_, err = contain(func() (struct{}, error) { return struct{}{}, e.observe(ctx, call, result) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// The observer may have ended in the moment in which its time did, or have cancelled by ending.
	select {
	case err := <-done:
		return err
	default:
		return errObserverSlow
	}
}
