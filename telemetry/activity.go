package telemetry

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// InterceptActivity measures model turns, decisions and tools.
func (t *Telemetry) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &activityInbound{t: t}
	in.Next = next
	return in
}

type activityInbound struct {
	interceptor.ActivityInboundInterceptorBase
	t *Telemetry
}

// work is one activity that is measured.
type work struct {
	t      *Telemetry
	info   activity.Info
	came   protocol.Trace
	began  time.Time
	span   trace.Span
	parent context.Context
}

// ExecuteActivity runs an activity below its span, so that what a tool traces by itself is below that.
func (a *activityInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	w := &work{t: a.t, info: activity.GetInfo(ctx), came: take(interceptor.Header(ctx)), began: time.Now()}
	var finish func(any, error)
	w.parent = ctx
	safely(func() {
		w.parent = under(ctx, w.came)
		ctx, finish = w.begin(w.parent, in, interceptor.Header(ctx)[protocol.HeaderGrant] != nil)
	})
	if finish == nil {
		return a.Next.ExecuteActivity(w.parent, in)
	}
	out, err := any(nil), errNoEnd
	// Also of one that panics.
	defer func() { safely(func() { finish(out, err) }) }()
	out, err = a.Next.ExecuteActivity(ctx, in)
	return out, err
}

// begin starts the span that an activity has, if it has one.
func (w *work) begin(ctx context.Context, in *interceptor.ExecuteActivityInput, granted bool) (context.Context, func(any, error)) {
	switch name := w.info.ActivityType.Name; {
	case name == protocol.ActivityDecide || name == protocol.ActivityDecideSlow:
		if req, ok := argument[protocol.DecideRequest](in.Args); ok {
			return w.decide(ctx, req)
		}
	case name == protocol.ActivityDecideTurn:
		return protocol.WithDeciding(ctx, w.deciding), func(any, error) {}
	case name == protocol.ActivityGenerate:
		if req, ok := argument[protocol.GenerateRequest](in.Args); ok {
			return w.chat(ctx, req)
		}
	case protocol.IsTool(name):
		if call, ok := argument[tool.Call](in.Args); ok {
			return w.tool(ctx, protocol.Received(call, name, w.info.ActivityID))
		}
	case granted:
		// An activity of the team's own; what is called with a grant has one id with its call.
		return w.tool(ctx, tool.Call{ID: w.info.ActivityID, Name: name})
	}
	return ctx, nil
}

// argument is the first one of an activity, as its function takes it or as the dynamic activity gets it.
func argument[T any](args []any) (out T, ok bool) {
	if len(args) != 1 {
		return out, false
	}
	if a, ok := args[0].(converter.EncodedValues); ok {
		return out, a.Get(&out) == nil
	}
	return value[T](args[0])
}

// value is what a function takes or returns, itself or behind a pointer.
func value[T any](of any) (out T, ok bool) {
	switch v := of.(type) {
	case T:
		return v, true
	case *T:
		if v != nil {
			return *v, true
		}
	}
	return out, false
}

// common are the attributes of every span of an activity.
func (w *work) common() []attribute.KeyValue {
	attrs := append(of(w.info.WorkflowExecution.ID, w.info.WorkflowExecution.RunID, w.came.Agent), keyActivity.String(w.info.ActivityID))
	if w.info.Attempt > 1 {
		attrs = append(attrs, keyAttempt.Int(int(w.info.Attempt)))
	}
	return attrs
}

func (w *work) start(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) context.Context {
	ctx, w.span = w.t.start(ctx, name, kind, w.began, append(w.common(), attrs...)...)
	return ctx
}

// chat is one attempt at a turn of the model.
func (w *work) chat(ctx context.Context, req protocol.GenerateRequest) (context.Context, func(any, error)) {
	var asked string
	if len(req.Models) > 0 {
		asked = req.Models[0]
	}
	from, model := provider(asked)
	ctx = w.start(ctx, opChat+" "+model, trace.SpanKindClient, genOperation.String(opChat), genProvider.String(from),
		genRequestModel.String(model), genRequestMost.Int(req.MaxOutputTokens), keyTurn.Int(req.Turn))
	return ctx, func(out any, err error) {
		resp, _ := value[protocol.GenerateResponse](out)
		if req.Close || err == nil && resp.OverBudget != "" {
			return // nobody was asked
		}
		labels := []attribute.KeyValue{genOperation.String(opChat), genProvider.String(from), genRequestModel.String(w.t.models.of(model))}
		if err == nil {
			// One of the fallbacks may have answered.
			by, said := provider(resp.Model)
			w.span.SetAttributes(genProvider.String(by), genResponse.String(said), genFinish.StringSlice([]string{string(resp.Stop)}),
				genInput.Int64(resp.Usage.InputTokens), genOutput.Int64(resp.Usage.OutputTokens))
			if resp.Usage.CachedInputTokens > 0 {
				w.span.SetAttributes(genCached.Int64(resp.Usage.CachedInputTokens))
			}
			labels[1] = genProvider.String(by)
			labels = append(labels, genResponse.String(w.t.models.of(said)))
			w.spent(resp, labels)
		} else {
			failed(w.span, class(err))
			labels = append(labels, errorType.String(class(err)))
		}
		w.t.durations.Record(w.parent, time.Since(w.began).Seconds(), metric.WithAttributes(labels...))
		w.span.End()
	}
}

// spent counts tokens and money.
func (w *work) spent(resp protocol.GenerateResponse, labels []attribute.KeyValue) {
	for kind, n := range map[string]int64{"input": resp.Usage.InputTokens, "output": resp.Usage.OutputTokens} {
		w.t.tokens.Record(w.parent, n, metric.WithAttributes(labels...), metric.WithAttributes(genTokenType.String(kind)))
	}
	if resp.Unpriced {
		// Nobody knows the price.
		return
	}
	w.span.SetAttributes(keyCost.Float64(resp.CostUSD))
	w.t.costs.Add(w.parent, resp.CostUSD, metric.WithAttributes(labels[1:]...), metric.WithAttributes(genAgentName.String(w.t.agents.of(w.came.Agent))))
}

// deciding is round one of the decisions of a turn.
func (w *work) deciding(ctx context.Context, req protocol.DecideRequest, next protocol.Decide) (protocol.DecideResponse, error) {
	one, finish, in := *w, func(any, error) {}, ctx
	one.began = time.Now()
	safely(func() { in, finish = one.decide(ctx, req) })
	resp, err := protocol.DecideResponse{}, errNoEnd
	// Also of one that panics.
	defer func() { safely(func() { finish(resp, err) }) }()
	resp, err = next(in, req)
	return resp, err
}

// errNoEnd is what work that panicked has come to.
var errNoEnd = errors.New("it ended without an answer")

// decide is the decision on one call. One that is only put off, to a normal activity or to a worker that has the tool, is none.
func (w *work) decide(ctx context.Context, req protocol.DecideRequest) (context.Context, func(any, error)) {
	ctx = w.start(ctx, "decide "+req.Tool.Name, trace.SpanKindInternal, genToolName.String(req.Tool.Name), genToolCall.String(req.CallID))
	return ctx, func(out any, err error) {
		resp, _ := value[protocol.DecideResponse](out)
		resp = resp.Whole(req.Under)
		d := resp.Decision
		switch {
		case err != nil:
			// The workflow takes it for a deny.
			failed(w.span, class(err))
			d = permission.Decision{Verdict: permission.Deny, DecidedBy: permission.ByDefault}
		case resp.Slow || resp.Drift != "":
			return
		}
		w.span.SetAttributes(keyVerdict.String(d.Verdict.String()), keyDecidedBy.String(string(d.DecidedBy)))
		if d.Rule != nil {
			w.span.SetAttributes(keyRule.String(d.Rule.String()))
		}
		if d.PolicyDigest != "" {
			w.span.SetAttributes(keyPolicy.String(d.PolicyDigest))
		}
		w.t.decisions.Add(w.parent, 1, metric.WithAttributes(genToolName.String(w.t.tools.of(req.Tool.Name)),
			keyVerdict.String(d.Verdict.String()), keyDecidedBy.String(string(d.DecidedBy))))
		w.span.End()
	}
}

// tool is one attempt at a call.
func (w *work) tool(ctx context.Context, call tool.Call) (context.Context, func(any, error)) {
	attrs := []attribute.KeyValue{genOperation.String(opTool), genToolName.String(call.Name), genToolCall.String(call.ID), genToolType.String("function")}
	if w.came.DecidedBy != "" {
		attrs = append(attrs, keyVerdict.String(w.came.Verdict.String()), keyDecidedBy.String(string(w.came.DecidedBy)))
	}
	if call.Approved != nil {
		attrs = append(attrs, keyApproval.String(call.Approved.Key))
	}
	ctx = w.start(ctx, opTool+" "+call.Name, trace.SpanKindInternal, attrs...)
	return ctx, func(out any, err error) {
		code := string(tool.OK)
		if r, ok := value[tool.Result](out); ok && err == nil {
			code = string(r.Code)
		}
		switch {
		case err != nil:
			code = refusal(err)
			failed(w.span, class(err))
		case code != string(tool.OK):
			failed(w.span, code)
		}
		w.span.SetAttributes(keyCode.String(code))
		w.t.toolLatency.Record(w.parent, time.Since(w.began).Seconds(),
			metric.WithAttributes(genToolName.String(w.t.tools.of(call.Name)), keyCode.String(code)))
		w.span.End()
	}
}

// refusal is the code of a call whose activity failed.
func refusal(err error) string {
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app) && app.Type() == protocol.ErrorDenied:
		return string(tool.Denied)
	case temporal.IsCanceledError(err), errors.Is(err, context.Canceled):
		return string(tool.Aborted)
	}
	return string(tool.ToolError)
}

// class is the kind of an error, never its text. Types of errors are written by programs, and those of a team's own are many:
// only ours are told apart.
func class(err error) string {
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app) && strings.HasPrefix(app.Type(), "assent."):
		return app.Type()
	case temporal.IsCanceledError(err), errors.Is(err, context.Canceled):
		return "cancelled"
	case temporal.IsTimeoutError(err), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "_OTHER"
}
