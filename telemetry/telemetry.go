package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/interceptor"

	"github.com/assent-dev/assent/fault"
)

// Config says where spans and numbers go. At least one of both is needed.
type Config struct {
	// Tracers makes spans. It has to use IDs as its id generator, and should export in batches: a span of an agent ends within
	// a workflow task. Nil makes none.
	Tracers trace.TracerProvider
	// Meters makes metrics; nil makes none.
	Meters metric.MeterProvider
	// MaxNames bounds the distinct tools, models and agent types among the attributes of metrics, each; zero means 200. Those
	// beyond are Other.
	MaxNames int
}

const defaultMaxNames = 200

// Scope is the name of the instrumentation scope.
const Scope = "github.com/assent-dev/assent/telemetry"

// Telemetry is an interceptor for client.Options.Interceptors. Next to a tracing interceptor of the team's own it stands
// behind it in the list: then its spans are children of theirs.
type Telemetry struct {
	interceptor.InterceptorBase

	tracer trace.Tracer
	ended  onceEach

	tools, models, agents labels

	tokens                        metric.Int64Histogram
	durations, waits, toolLatency metric.Float64Histogram
	decisions                     metric.Int64Counter
	costs                         metric.Float64Counter
}

// New returns the interceptor, or a *fault.ConfigError.
func New(c Config) (*Telemetry, error) {
	switch {
	case c.Tracers == nil && c.Meters == nil:
		return nil, fault.Configf("telemetry", "Tracers and Meters are nil: there is nothing to do")
	case c.MaxNames < 0:
		return nil, fault.Configf("telemetry.MaxNames", "is negative")
	case c.MaxNames == 0:
		c.MaxNames = defaultMaxNames
	}
	if c.Tracers == nil {
		c.Tracers = noop.NewTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = metricnoop.NewMeterProvider()
	}
	t := &Telemetry{tracer: c.Tracers.Tracer(Scope, trace.WithSchemaURL(SchemaURL)),
		tools: labels{most: c.MaxNames}, models: labels{most: c.MaxNames}, agents: labels{most: c.MaxNames}}
	if !t.givesIDs() {
		return nil, fault.Configf("telemetry.Tracers", "does not give spans the ids of their runs; make the provider with sdktrace.WithIDGenerator(telemetry.IDs{})")
	}
	if err := t.instruments(c.Meters.Meter(Scope, metric.WithSchemaURL(SchemaURL))); err != nil {
		return nil, &fault.ConfigError{Key: "telemetry.Meters", Msg: "makes no instruments", Cause: err}
	}
	return t, nil
}

// givesIDs reports whether the provider uses IDs. A provider that makes no spans yet is believed.
func (t *Telemetry) givesIDs() bool {
	id := derivedSpan("probe")
	// It never ends, so no exporter sees it.
	_, span := t.tracer.Start(want(context.Background(), derivedTrace("probe"), id), "probe")
	got := span.SpanContext()
	return !got.IsValid() || got.SpanID() == id
}

var (
	secondsOfCalls = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokensOfCalls  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	// From a moment to a week: people sleep.
	secondsOfWaits = []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
	// From a look at a file to a day of tests.
	secondsOfTools = []float64{0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 24 * 3600}
)

func (t *Telemetry) instruments(m metric.Meter) error {
	var errs [6]error
	t.tokens, errs[0] = m.Int64Histogram(metricTokens, metric.WithUnit("{token}"),
		metric.WithDescription("Number of input and output tokens used."), metric.WithExplicitBucketBoundaries(tokensOfCalls...))
	t.durations, errs[1] = m.Float64Histogram(metricDuration, metric.WithUnit("s"),
		metric.WithDescription("GenAI operation duration."), metric.WithExplicitBucketBoundaries(secondsOfCalls...))
	t.waits, errs[2] = m.Float64Histogram(MetricApprovalWait, metric.WithUnit("s"),
		metric.WithDescription("How long a question waited until it closed."), metric.WithExplicitBucketBoundaries(secondsOfWaits...))
	t.toolLatency, errs[3] = m.Float64Histogram(MetricToolDuration, metric.WithUnit("s"),
		metric.WithDescription("How long a tool call took on its worker."), metric.WithExplicitBucketBoundaries(secondsOfTools...))
	t.decisions, errs[4] = m.Int64Counter(MetricDecisions, metric.WithUnit("{decision}"), metric.WithDescription("Decisions on tool calls."))
	t.costs, errs[5] = m.Float64Counter(MetricCost, metric.WithUnit("{USD}"), metric.WithDescription("What models cost, in US dollars."))
	return errors.Join(errs[:]...)
}

// safely keeps a provider that panics from failing the work that it is told of.
func safely(f func()) {
	defer func() { _ = recover() }()
	f()
}

// failed marks a span. The text of an error may hold what a tool said, so only its class is in it.
func failed(span trace.Span, class string) {
	span.SetAttributes(errorType.String(class))
	span.SetStatus(codes.Error, "")
}

// span is one that is made after the fact, or nearly so.
func (t *Telemetry) start(ctx context.Context, name string, kind trace.SpanKind, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(attrs...))
}
