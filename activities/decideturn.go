package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// AssentDecideTurn is the local activity that decides on the calls of one turn: each as AssentDecide would, in its own time.
// One that fails, panics or takes too long denies its own call alone. It is a top-level function whose name is in every history.
func AssentDecideTurn(ctx context.Context, req protocol.DecideTurnRequest) (protocol.DecideTurnResponse, error) {
	out := protocol.DecideTurnResponse{Decisions: make([]protocol.DecideResponse, len(req.Calls))}
	if _, err := engineFrom(ctx); err != nil {
		return out, err
	}
	// As many at once as keep a worker busy. Each gives its place back when its time is over, whatever it still does.
	places, left := make(chan struct{}, protocol.DecidedAtOnce), make(chan struct{}, len(req.Calls))
	for i, one := range req.Calls {
		places <- struct{}{}
		go func() {
			out.Decisions[i] = inTime(ctx, one, req.Each)
			<-places
			left <- struct{}{}
		}()
	}
	for range req.Calls {
		<-left
	}
	return out, nil
}

// inTime decides on one call, in the time that it has.
func inTime(ctx context.Context, req protocol.DecideRequest, most time.Duration) protocol.DecideResponse {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	decided := make(chan protocol.DecideResponse, 1)
	go func() {
		resp, err := protocol.DecideResponse{}, errors.New("it ended without an answer")
		defer func() { // also if a hook ends its goroutine
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			if err != nil {
				resp = undecided(req, err)
			}
			decided <- resp
		}()
		resp, err = protocol.DecidingFrom(ctx)(ctx, req, AssentDecide)
	}()
	return before(ctx, decided, undecided(req, errors.New("it was not made in time")))
}

// before is what was decided while ctx lasts, else late. A deny is good at any time; what else comes then is not, whichever of the
// two is noticed first.
func before(ctx context.Context, decided <-chan protocol.DecideResponse, late protocol.DecideResponse) protocol.DecideResponse {
	select {
	case resp := <-decided:
		if ctx.Err() == nil || resp.Decision.Verdict == permission.Deny {
			return resp
		}
	case <-ctx.Done():
	}
	return late
}

// undecided denies a call that nobody has decided on.
func undecided(req protocol.DecideRequest, err error) protocol.DecideResponse {
	d := failedDecision(fmt.Errorf("no decision could be had: %s", explain(err)))
	d.Failed = true
	return protocol.DecideResponse{CallID: req.CallID, Tool: req.Tool.Name, Decision: d}
}
