package protocol

import (
	"context"
	"time"
)

// DecidedAtOnce bounds the decisions of one turn that are under way at once.
const DecidedAtOnce = 8

// DecideTurnRequest asks for the decisions on several calls of one turn, each of which has its own time. It is the input of a
// local activity and never in history.
type DecideTurnRequest struct {
	Calls []DecideRequest `json:"calls"`
	Each  time.Duration   `json:"eachNs"`
}

// DecideTurnResponse has one decision for each call that was asked about, in their order.
type DecideTurnResponse struct {
	Decisions []DecideResponse `json:"decisions"`
}

// Decide decides on one call.
type Decide func(context.Context, DecideRequest) (DecideResponse, error)

// Deciding is round each decision of a turn, which next makes.
type Deciding func(ctx context.Context, req DecideRequest, next Decide) (DecideResponse, error)

type decidingKey struct{}

// WithDeciding is the context of an ActivityDecideTurn that has d round each decision: interceptors see one activity for all.
func WithDeciding(ctx context.Context, d Deciding) context.Context {
	return context.WithValue(ctx, decidingKey{}, d)
}

// DecidingFrom returns what is round each decision; by itself, nothing is.
func DecidingFrom(ctx context.Context) Deciding {
	if d, ok := ctx.Value(decidingKey{}).(Deciding); ok {
		return d
	}
	return func(ctx context.Context, req DecideRequest, next Decide) (DecideResponse, error) {
		return next(ctx, req)
	}
}
