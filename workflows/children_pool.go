package workflows

import (
	"math"
)

// dust is less money than any turn costs: what is left of a budget after sums of floats have been taken from it.
const dust = 1e-6

// pool is money that several agents share. Each takes its part before it starts and gives back what it did not use, so
// that no sum of theirs goes over the cap by more than the one turn by which each may. A pool inside another is bounded by
// both.
type pool struct {
	outer *pool
	// cap is +Inf where there is no bound.
	cap, spent, reserved float64
	// bad says that the cap is none.
	bad error
}

func unbounded() *pool { return &pool{cap: math.Inf(1)} }

// bounded reports whether some cap holds.
func (p *pool) bounded() bool {
	for ; p != nil; p = p.outer {
		if !math.IsInf(p.cap, 1) {
			return true
		}
	}
	return false
}

// wrong is the first pool whose cap is none.
func (p *pool) wrong() error {
	for ; p != nil; p = p.outer {
		if p.bad != nil {
			return p.bad
		}
	}
	return nil
}

// left is what can be reserved now; +Inf without a cap.
func (p *pool) left() float64 {
	left := math.Inf(1)
	for ; p != nil; p = p.outer {
		left = min(left, p.cap-p.spent-p.reserved)
	}
	return left
}

// hopeful reports whether somebody could still give something back to what keeps p from having any: every pool in the way
// that is empty has reservations.
func (p *pool) hopeful() bool {
	for ; p != nil; p = p.outer {
		if p.cap-p.spent-p.reserved <= dust && p.cap-p.spent <= dust {
			return false
		}
	}
	return true
}

// take reserves what an agent may spend: want, or less if there is less, or all if it does not say. ok is false where
// nothing is left. Without any cap, want is what it gets, and nil is no bound.
func (p *pool) take(want *float64) (part *float64, ok bool) {
	left := p.left()
	switch {
	case left <= dust:
		return nil, false
	case math.IsInf(left, 1):
		return want, true
	case want != nil && *want < left:
		left = *want
	}
	for q := p; q != nil; q = q.outer {
		q.reserved += left
	}
	return &left, true
}

// settle gives a part back of which some was spent.
func (p *pool) settle(part *float64, spent float64) {
	for bounded := p.bounded(); p != nil; p = p.outer {
		if bounded && part != nil {
			p.reserved = max(0, p.reserved-*part)
		}
		p.spent += spent
	}
}
