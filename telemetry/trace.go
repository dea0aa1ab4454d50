package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/protocol"
)

// written is a span as it travels: a W3C traceparent.
func written(s trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-%02x", s.TraceID(), s.SpanID(), byte(s.TraceFlags()))
}

// read is the span that a header names; an invalid one if it names none.
func read(t protocol.Trace) trace.SpanContext {
	parts := strings.Split(t.Parent, "-")
	if len(parts) < 4 || parts[0] == "ff" {
		return trace.SpanContext{}
	}
	var c trace.SpanContextConfig
	var err error
	if c.TraceID, err = trace.TraceIDFromHex(parts[1]); err != nil {
		return trace.SpanContext{}
	}
	if c.SpanID, err = trace.SpanIDFromHex(parts[2]); err != nil {
		return trace.SpanContext{}
	}
	if flags, err := strconv.ParseUint(parts[3], 16, 8); err == nil {
		c.TraceFlags = trace.TraceFlags(flags)
	}
	if s, err := trace.ParseTraceState(t.State); err == nil {
		c.TraceState = s
	}
	c.Remote = true
	return trace.NewSpanContext(c)
}

// put writes a trace into a header, and take reads it: a header that cannot be read says nothing.
func put(header map[string]*commonpb.Payload, t protocol.Trace) {
	if header == nil {
		return
	}
	if p, err := converter.GetDefaultDataConverter().ToPayload(t); err == nil {
		header[protocol.HeaderTrace] = p
	}
}

func take(header map[string]*commonpb.Payload) (t protocol.Trace) {
	if p := header[protocol.HeaderTrace]; p != nil && converter.GetDefaultDataConverter().FromPayload(p, &t) != nil {
		return protocol.Trace{}
	}
	return t
}

// under is a context whose span is the one that is there, or else the one of the header.
func under(ctx context.Context, t protocol.Trace) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	if parent := read(t); parent.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	return ctx
}

// mostEnded bounds what a process remembers of spans that have ended.
const mostEnded = 4096

// onceEach is true once for each id: a workflow task that is done again, because the server did not take it, ends its spans
// again.
type onceEach struct {
	mu       sync.Mutex
	now, old map[trace.SpanID]bool
}

func (o *onceEach) first(id trace.SpanID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now[id] || o.old[id] {
		return false
	}
	if o.now == nil || len(o.now) >= mostEnded {
		o.now, o.old = map[trace.SpanID]bool{}, o.now
	}
	o.now[id] = true
	return true
}
