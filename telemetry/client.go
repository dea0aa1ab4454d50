package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/assent-dev/assent/protocol"
)

// InterceptClient hands the span under which a workflow is started on to it.
func (t *Telemetry) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	out := &clientOutbound{}
	out.Next = next
	return out
}

type clientOutbound struct {
	interceptor.ClientOutboundInterceptorBase
}

func stamp(ctx context.Context) {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		put(interceptor.Header(ctx), protocol.Trace{Parent: written(span), State: span.TraceState().String()})
	}
}

func (c *clientOutbound) ExecuteWorkflow(ctx context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	stamp(ctx)
	return c.Next.ExecuteWorkflow(ctx, in)
}

func (c *clientOutbound) SignalWithStartWorkflow(ctx context.Context, in *interceptor.ClientSignalWithStartWorkflowInput) (client.WorkflowRun, error) {
	stamp(ctx)
	return c.Next.SignalWithStartWorkflow(ctx, in)
}
