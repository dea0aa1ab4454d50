package worker

import (
	"log/slog"
	"reflect"
	"strings"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// front is the first interceptor of all workers of a client.
type front struct {
	clientInterceptorBase
	workerInterceptorBase
	of *Plugin
}

type (
	clientInterceptorBase = interceptor.ClientInterceptorBase
	workerInterceptorBase = interceptor.WorkerInterceptorBase
)

// InterceptWorkflow is that of the gate, which exists since the worker was configured.
func (f *front) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return f.of.made().first.InterceptWorkflow(ctx, next)
}

// bodies is the half that activities pass. Workflows do not: what stands in their way is on their stack for as long as they are
// parked.
type bodies struct{ half }

// InterceptWorkflow adds nothing.
func (bodies) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return next
}

const telemetryPath = "github.com/assent-dev/assent/telemetry"

// lookBehind warns, once, of an interceptor that gets calls after they were judged: one of a client that does not have
// this Plugin. The SDK's own and that of telemetry change no arguments.
func (p *Plugin) lookBehind(out interceptor.WorkflowOutboundInterceptor) {
	t := reflect.TypeOf(out)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if p.fronted.Load() || strings.HasPrefix(t.PkgPath(), "go.temporal.io/sdk/") || t.PkgPath() == telemetryPath {
		return
	}
	p.behind.Do(func() {
		log := p.engine.Log
		if log == nil {
			log = slog.Default()
		}
		log.Warn("assent: an interceptor of the client gets calls after they were judged; give the plugin to the client as well",
			"interceptor", t.String())
	})
}
