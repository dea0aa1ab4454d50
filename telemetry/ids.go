package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"go.opentelemetry.io/otel/trace"
)

// Generator is the IDGenerator of OpenTelemetry's SDK.
type Generator interface {
	NewIDs(context.Context) (trace.TraceID, trace.SpanID)
	NewSpanID(context.Context, trace.TraceID) trace.SpanID
}

// IDs gives the spans of agents the ids that follow from their runs, and all others those of Else; nil makes them random.
// It is needed in the team's tracer provider: sdktrace.WithIDGenerator(telemetry.IDs{}).
type IDs struct{ Else Generator }

type wantedKey struct{}

// wanted are the ids of the one span that is started with a context.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

func want(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return context.WithValue(ctx, wantedKey{}, wanted{t, s})
}

// NewIDs returns the ids of a span without a parent.
func (g IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if w, ok := ctx.Value(wantedKey{}).(wanted); ok {
		return w.trace, w.span
	}
	if g.Else != nil {
		return g.Else.NewIDs(ctx)
	}
	var t trace.TraceID
	_, _ = rand.Read(t[:]) // it never fails
	return t, g.NewSpanID(ctx, t)
}

// NewSpanID returns the id of a span that has a parent.
func (g IDs) NewSpanID(ctx context.Context, t trace.TraceID) trace.SpanID {
	if w, ok := ctx.Value(wantedKey{}).(wanted); ok {
		return w.span
	}
	if g.Else != nil {
		return g.Else.NewSpanID(ctx, t)
	}
	var s trace.SpanID
	_, _ = rand.Read(s[:])
	return s
}

// derived ids are the same in every worker and in every replay.
func derivedTrace(of string) (t trace.TraceID) {
	sum := sha256.Sum256([]byte("trace\x00" + of))
	copy(t[:], sum[:])
	return t
}

func derivedSpan(of ...string) (s trace.SpanID) {
	h := sha256.New()
	for _, part := range of {
		_, _ = h.Write([]byte(part + "\x00"))
	}
	copy(s[:], h.Sum(nil))
	return s
}
