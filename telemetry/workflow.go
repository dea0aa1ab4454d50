package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// InterceptWorkflow follows one run.
func (t *Telemetry) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &inbound{run: &run{t: t, info: workflow.GetInfo(ctx)}}
	in.Next = next
	return in
}

// run is what is known of the run: under which span its calls are, and where that began.
type run struct {
	t    *Telemetry
	info *workflow.Info
	// came is what the starter, the parent or the run before has handed on.
	came protocol.Trace
	// here is what calls are given; its Parent is the agent's span.
	here  protocol.Trace
	span  trace.Span
	agent string
	began time.Time
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	run *run
}

func (i *inbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &outbound{run: i.run}
	o.Next = out
	return i.Next.Init(o)
}

// ExecuteWorkflow begins the agent's span and ends it when the agent ends. A span that was begun in a replay, or of a run that
// leaves this worker, never ends and so is never exported.
func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	r := i.run
	r.came = take(interceptor.WorkflowHeader(ctx))
	r.here = protocol.Trace{Parent: r.came.Parent, State: r.came.State}
	if r.info.WorkflowType.Name == protocol.WorkflowAgent {
		safely(func() { r.begin(in.Args) })
	}
	ctx = workflows.Watch(ctx, func(q approval.Approval, c approval.Closed) { safely(func() { r.closed(q, c) }) })
	out, err := i.Next.ExecuteWorkflow(ctx, in)
	if next := (*workflow.ContinueAsNewError)(nil); r.span != nil && !errors.As(err, &next) && !workflow.IsReplaying(ctx) {
		safely(func() { r.end(workflow.Now(ctx), out, err) })
	}
	return out, err
}

// begin starts the span of an agent under the span of whoever has started it. The ids follow from the first run of those that
// continued each other. A run that was reset has a span of its own, below that of the run before.
func (r *run) begin(args []any) {
	var input protocol.AgentInput
	if len(args) > 0 {
		input, _ = value[protocol.AgentInput](args[0])
	}
	ctx := context.Background()
	parent := read(r.came)
	traceID, spanID := derivedTrace(r.root()), derivedSpan("agent", r.info.FirstRunID)
	if parent.IsValid() {
		traceID = parent.TraceID()
	}
	if id, err := trace.SpanIDFromHex(r.came.Span); err == nil {
		spanID = id
	}
	r.began = r.info.WorkflowStartTime
	if r.came.Began != nil {
		r.began = *r.came.Began
	}
	if run := r.info.WorkflowExecution.RunID; r.info.OriginalRunID != run {
		if !parent.IsValid() {
			// Whether the trace is sampled follows from its id, so it is what it was.
			_, before := r.t.tracer.Start(want(ctx, traceID, spanID), opAgent)
			parent = before.SpanContext()
		}
		parent = parent.WithSpanID(spanID).WithRemote(true)
		spanID = derivedSpan("agent", run)
	}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	r.agent = input.AgentType
	attrs := append(r.common(), genOperation.String(opAgent), genAgentID.String(r.info.WorkflowExecution.ID))
	if input.Label != "" {
		attrs = append(attrs, keyLabel.String(input.Label))
	}
	_, r.span = r.t.start(want(ctx, traceID, spanID), opAgent+" "+r.agent, trace.SpanKindInternal, r.began, attrs...)
	if s := r.span.SpanContext(); s.IsValid() {
		r.here.Parent, r.here.State = written(s), s.TraceState().String()
	}
	r.here.Agent = r.agent
}

// root is what agents have in common that one workflow has started without a span.
func (r *run) root() string {
	if root := r.info.RootWorkflowExecution; root != nil && root.RunID != "" {
		return root.RunID
	}
	return r.info.FirstRunID
}

func (r *run) common() []attribute.KeyValue {
	return of(r.info.WorkflowExecution.ID, r.info.WorkflowExecution.RunID, r.agent)
}

// of are the attributes of all spans. Agent is empty in workflows that are not agents.
func of(workflowID, runID, agent string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{keyWorkflow.String(workflowID), keyRun.String(runID)}
	if agent != "" {
		attrs = append(attrs, genAgentName.String(agent), genConversation.String(workflowID))
	}
	return attrs
}

func (r *run) end(now time.Time, out any, err error) {
	if !r.t.ended.first(r.span.SpanContext().SpanID()) {
		return
	}
	if err != nil {
		failed(r.span, class(err))
	}
	if res, ok := value[protocol.AgentResult](out); ok && err == nil {
		r.span.SetAttributes(keyStatus.String(string(res.Status)), genInput.Int64(res.Usage.InputTokens), genOutput.Int64(res.Usage.OutputTokens),
			keyCost.Float64(res.CostUSD), keyTurns.Int(res.Turns), keyCalls.Int(res.Calls), keyAsked.Int(res.Asked))
		if res.Usage.CachedInputTokens > 0 {
			r.span.SetAttributes(genCached.Int64(res.Usage.CachedInputTokens))
		}
		if res.UnpricedTurns > 0 {
			r.span.SetAttributes(keyUnpriced.Int(res.UnpricedTurns))
		}
		if res.Restarts > 0 {
			r.span.SetAttributes(keyRestarts.Int(res.Restarts))
		}
		if res.Status == protocol.Failed {
			failed(r.span, string(res.Status))
		}
	}
	r.span.End(trace.WithTimestamp(now))
}

// closed makes the span of a question, from when it was put to its end.
func (r *run) closed(q approval.Approval, c approval.Closed) {
	id := derivedSpan("approval", r.info.WorkflowExecution.RunID, q.Key)
	if !r.t.ended.first(id) {
		return
	}
	wait := max(c.At.Sub(q.AskedAt), 0)
	r.t.waits.Record(context.Background(), wait.Seconds(), metric.WithAttributes(
		genToolName.String(r.t.tools.of(q.Tool)), keyHow.String(string(c.How))))
	ctx := under(context.Background(), r.here)
	traceID := trace.SpanContextFromContext(ctx).TraceID()
	if !traceID.IsValid() {
		traceID = derivedTrace(r.root())
	}
	attrs := append(r.common(), genToolName.String(q.Tool), genToolCall.String(q.CallID), keyApproval.String(q.Key), keyHow.String(string(c.How)),
		keyDecidedBy.String(string(q.DecidedBy)), keyWait.Float64(wait.Seconds()))
	if c.Via != "" {
		attrs = append(attrs, keyVia.String(c.Via))
	}
	_, span := r.t.start(want(ctx, traceID, id), "approval "+q.Tool, trace.SpanKindInternal, q.AskedAt, attrs...)
	span.End(trace.WithTimestamp(c.At))
}

// outbound hands the span on to what the run starts.
type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	run *run
}

func (o *outbound) hand(ctx workflow.Context) {
	here := o.run.here
	if verdict, by, ok := workflows.Permitted(ctx); ok {
		here.Verdict, here.DecidedBy = verdict, by
	}
	if here != (protocol.Trace{}) {
		put(interceptor.WorkflowHeader(ctx), here)
	}
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	o.hand(ctx)
	return o.Next.ExecuteActivity(ctx, activityType, args...)
}

func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	o.hand(ctx)
	return o.Next.ExecuteLocalActivity(ctx, activityType, args...)
}

func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, childType string, args ...any) workflow.ChildWorkflowFuture {
	// The child is an agent of its own.
	put(interceptor.WorkflowHeader(ctx), protocol.Trace{Parent: o.run.here.Parent, State: o.run.here.State})
	return o.Next.ExecuteChildWorkflow(ctx, childType, args...)
}

func (o *outbound) NewContinueAsNewError(ctx workflow.Context, wfn any, args ...any) error {
	o.next(ctx)
	return o.Next.NewContinueAsNewError(ctx, wfn, args...)
}

func (o *outbound) NewContinueAsNewErrorWithOptions(ctx workflow.Context, options workflow.ContinueAsNewErrorOptions, wfn any, args ...any) error {
	o.next(ctx)
	return o.Next.NewContinueAsNewErrorWithOptions(ctx, options, wfn, args...)
}

// next tells the next run that it is the same agent, in the same span.
func (o *outbound) next(ctx workflow.Context) {
	r := o.run
	t := protocol.Trace{Parent: r.came.Parent, State: r.came.State}
	if r.span != nil && r.span.SpanContext().IsValid() {
		s := r.span.SpanContext()
		t.Span, t.Began = s.SpanID().String(), &r.began
	}
	if t != (protocol.Trace{}) {
		put(interceptor.WorkflowHeader(ctx), t)
	}
}
