package pipeline

import (
	"errors"
	"sync"
)

var (
	errNextTwice = errors.New("next was called twice")
	errNextLate  = errors.New("next was called after its listener had returned")
	errNextOpen  = errors.New("the listener returned while next was still running")
)

// gate holds the `next` of one frame to its rule: at most one call, begun and ended before the frame returns.
type gate struct {
	mu               sync.Mutex
	used, ended      bool
	closed           bool
	violation        error
	onFirstViolation func(error)
}

// enter asks to call next. A nil error must be paired with leave.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return g.violate(errNextLate)
	case g.used:
		return g.violate(errNextTwice)
	}
	g.used = true
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

// shut ends the frame and returns the rule that it broke, if any.
func (g *gate) shut() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.used && !g.ended {
		return g.violate(errNextOpen)
	}
	return g.violation
}

func (g *gate) violate(err error) error {
	if g.violation == nil {
		g.violation = err
		g.onFirstViolation(err)
	}
	return err
}
