package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// The names are those of the conventions, as OpenTelemetry's own module has them.
func TestNamesAreThoseOfTheConventions(t *testing.T) {
	require.Equal(t, semconv.SchemaURL, SchemaURL)
	for want, got := range map[attribute.Key]attribute.Key{
		semconv.GenAIOperationNameKey: genOperation, semconv.GenAIProviderNameKey: genProvider, semconv.GenAIAgentNameKey: genAgentName,
		semconv.GenAIAgentIDKey: genAgentID, semconv.GenAIConversationIDKey: genConversation, semconv.GenAIRequestModelKey: genRequestModel,
		semconv.GenAIRequestMaxTokensKey: genRequestMost, semconv.GenAIResponseModelKey: genResponse, semconv.GenAIResponseFinishReasonsKey: genFinish,
		semconv.GenAIUsageInputTokensKey: genInput, semconv.GenAIUsageCacheReadInputTokensKey: genCached, semconv.GenAIUsageOutputTokensKey: genOutput,
		semconv.GenAIToolNameKey: genToolName, semconv.GenAIToolTypeKey: genToolType, semconv.GenAIToolCallIDKey: genToolCall,
		semconv.GenAITokenTypeKey: genTokenType, semconv.ErrorTypeKey: errorType,
	} {
		require.Equal(t, want, got)
	}
	require.Equal(t, semconv.GenAIOperationNameInvokeAgent.Value.AsString(), opAgent)
	require.Equal(t, semconv.GenAIOperationNameChat.Value.AsString(), opChat)
	require.Equal(t, semconv.GenAIOperationNameExecuteTool.Value.AsString(), opTool)
	require.Equal(t, genaiconv.ClientTokenUsage{}.Name(), metricTokens)
	require.Equal(t, genaiconv.ClientOperationDuration{}.Name(), metricDuration)
}

func TestConfig(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "there is nothing to do")
	_, err = New(Config{Meters: noop.NewMeterProvider(), MaxNames: -1})
	require.ErrorContains(t, err, "telemetry.MaxNames: is negative")
	_, err = New(Config{Tracers: sdktrace.NewTracerProvider()})
	require.ErrorContains(t, err, "WithIDGenerator(telemetry.IDs{})")
	for name, c := range map[string]Config{
		"metrics alone": {Meters: noop.NewMeterProvider()},
		"spans alone":   {Tracers: sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(IDs{}))},
		"none sampled":  {Tracers: sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(IDs{}), sdktrace.WithSampler(sdktrace.NeverSample()))},
		// The global provider makes no spans before the program sets it.
		"set later": {Tracers: otel.GetTracerProvider()},
	} {
		_, err := New(c)
		require.NoError(t, err, name)
	}
}

// Nothing that New does reaches an exporter.
func TestTheProbeIsNotExported(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(IDs{}), sdktrace.WithSyncer(exported))
	_, err := New(Config{Tracers: p})
	require.NoError(t, err)
	require.NoError(t, p.ForceFlush(context.Background()))
	require.Empty(t, exported.GetSpans())
}

type fixed struct{}

func (fixed) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	return trace.TraceID{1}, trace.SpanID{2}
}
func (fixed) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return trace.SpanID{3} }

func TestIDs(t *testing.T) {
	for name, g := range map[string]IDs{"random": {}, "theirs": {Else: fixed{}}} {
		p := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(g)).Tracer("t")
		id, of := derivedSpan("agent", "run"), derivedTrace("run")
		ctx, agent := p.Start(want(context.Background(), of, id), "agent")
		require.Equal(t, id, agent.SpanContext().SpanID(), name)
		require.Equal(t, of, agent.SpanContext().TraceID())
		_, other := p.Start(context.Background(), "other")
		require.True(t, other.SpanContext().IsValid())
		require.NotEqual(t, id, other.SpanContext().SpanID(), name)
		_, child := p.Start(trace.ContextWithSpan(context.Background(), trace.SpanFromContext(ctx)), "child")
		require.Equal(t, of, child.SpanContext().TraceID())
		require.NotEqual(t, id, child.SpanContext().SpanID(), "one span alone has the id")
	}
	require.NotEqual(t, derivedSpan("a", "bc"), derivedSpan("ab", "c"))
	_, s := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(IDs{Else: fixed{}})).Tracer("t").Start(context.Background(), "root")
	require.Equal(t, trace.SpanID{2}, s.SpanContext().SpanID())
}

func TestASpanTravels(t *testing.T) {
	state, err := trace.ParseTraceState("vendor=a")
	require.NoError(t, err)
	for _, f := range []trace.TraceFlags{0, trace.FlagsSampled} {
		span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: derivedTrace("r"), SpanID: derivedSpan("r"), TraceFlags: f, TraceState: state})
		header := map[string]*commonpb.Payload{}
		put(header, protocol.Trace{Parent: written(span), State: state.String(), Agent: "fixer", Verdict: permission.Ask, DecidedBy: permission.ByAskRule})
		came := take(header)
		require.True(t, span.WithRemote(true).Equal(read(came)))
		require.Equal(t, permission.Ask, came.Verdict)
		require.Equal(t, permission.ByAskRule, came.DecidedBy)
	}
	put(nil, protocol.Trace{})
	require.Equal(t, protocol.Trace{}, take(nil))
	header := map[string]*commonpb.Payload{protocol.HeaderTrace: {Data: []byte("no")}}
	require.Equal(t, protocol.Trace{}, take(header))
	require.False(t, trace.SpanContextFromContext(under(context.Background(), protocol.Trace{})).IsValid())
}

// Whoever starts a workflow can send any header.
func FuzzRead(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=a")
	f.Add("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")
	f.Add("00-0-0-0", "==")
	f.Fuzz(func(t *testing.T, parent, state string) {
		s := read(protocol.Trace{Parent: parent, State: state})
		if s.IsValid() != (s.TraceID().IsValid() && s.SpanID().IsValid()) || s.IsValid() && !s.IsRemote() {
			t.Fatal(s)
		}
	})
}

func TestLabelsAreBounded(t *testing.T) {
	l := labels{most: 2}
	require.Equal(t, []string{"a", "b", Other, "a", Other}, []string{l.of("a"), l.of("b"), l.of("c"), l.of("a"), l.of("d")})
}

func TestOnceEach(t *testing.T) {
	var o onceEach
	for i := range 3 * mostEnded {
		id := derivedSpan(fmt.Sprint(i))
		require.True(t, o.first(id))
		require.False(t, o.first(id))
	}
	require.LessOrEqual(t, len(o.now)+len(o.old), 2*mostEnded)
	require.False(t, o.first(derivedSpan(fmt.Sprint(3*mostEnded-mostEnded/2))))
}

// What an error says is nowhere: only what kind it is.
func TestClassesOfErrors(t *testing.T) {
	for want, err := range map[string]error{
		"assent.ModelError": fmt.Errorf("x: %w", temporal.NewNonRetryableApplicationError("secret", protocol.ErrorModel, nil)),
		"cancelled":         temporal.NewCanceledError("secret"),
		"timeout":           context.DeadlineExceeded,
		"_OTHER":            temporal.NewApplicationError("secret", "secret"),
	} {
		require.Equal(t, want, class(err))
	}
	require.Equal(t, "_OTHER", class(errors.New("secret")))
	require.Equal(t, "DENIED", refusal(temporal.NewNonRetryableApplicationError("no", protocol.ErrorDenied, nil)))
	require.Equal(t, "ABORTED", refusal(context.Canceled))
	require.Equal(t, "TOOL_ERROR", refusal(errors.New("x")))
}

func TestAProviderThatPanicsFailsNothing(t *testing.T) {
	safely(func() { panic("no") })
}

// The page names every attribute and every metric.
func TestThePageNamesEverything(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "events.md"))
	require.NoError(t, err)
	source, err := os.ReadFile("names.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`"((?:gen_ai|assent|error|temporal)[.A-Z][\w.]*)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(names), 30)
	for _, n := range names {
		require.Contains(t, string(page), "`"+n[1]+"`")
	}
}
