package telemetry

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/protocol"
)

// What a body does to its goroutine is no reason to lose sight of a call: it may have had its effect.
func TestACallThatPanicsHasASpan(t *testing.T) {
	grant, err := converter.GetDefaultDataConverter().ToPayload(protocol.Grant{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		activity string
		body     any
		arg      any
	}{
		"a team's own": {"Deploy", func(context.Context, string) error { panic("secret") }, "x"},
		"a model": {protocol.ActivityGenerate, func(context.Context, protocol.GenerateRequest) (protocol.GenerateResponse, error) {
			panic("secret")
		}, protocol.GenerateRequest{Models: []string{"scripted:s"}}},
		"a decision": {protocol.ActivityDecideSlow, func(context.Context, protocol.DecideRequest) (protocol.DecideResponse, error) {
			panic("secret")
		}, protocol.DecideRequest{}},
	} {
		t.Run(name, func(t *testing.T) {
			exported := tracetest.NewInMemoryExporter()
			of, err := New(Config{Tracers: sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(IDs{}), sdktrace.WithSyncer(exported))})
			require.NoError(t, err)
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetHeader(&commonpb.Header{Fields: map[string]*commonpb.Payload{protocol.HeaderGrant: grant}})
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{of}})
			env.RegisterActivityWithOptions(c.body, activity.RegisterOptions{Name: c.activity})
			_, err = env.ExecuteActivity(c.activity, c.arg)
			require.Error(t, err)
			spans := exported.GetSpans()
			require.Len(t, spans, 1)
			require.NotContains(t, spans[0].Status.Description, "secret")
			require.Equal(t, "Error", spans[0].Status.Code.String())
		})
	}
}
