package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// guards reports whether a run guards what has a name. It is decided when the run first comes to it, and stays: a run
// that began before this was guarded, or while it drains, never does.
func (g *gate) guards(ctx workflow.Context, all map[string]protocol.ToolFacts, name string) (protocol.ToolFacts, bool) {
	facts, ok := all[name]
	if !ok || !g.open || g.own {
		return facts, false
	}
	return facts, workflow.GetVersion(ctx, protocol.ChangeGuard+name, workflow.DefaultVersion, 1) >= 1
}

// guard puts an activity of a workflow that is not an agent through the gate.
func (g *gate) guard(ctx workflow.Context, facts protocol.ToolFacts, activityType string, args []any,
	next func(workflow.Context, string, ...any) workflow.Future) workflow.Future {
	// Encoded now: the caller could change its arguments while a person reads them.
	shot, err := g.snapshot(ctx, args)
	if err != nil {
		return failed(ctx, unreadable(activityType, err))
	}
	opts := workflow.GetActivityOptions(ctx)
	if id := g.number(); opts.ActivityID == "" {
		opts.ActivityID = id
	}
	return g.later(ctx, g.request(ctx, opts.ActivityID, facts, shot), func(ctx workflow.Context, p *permit) (workflow.Future, error) {
		if opts.Summary == "" {
			opts.Summary = summary(p)
		}
		ctx = workflow.WithValue(workflow.WithActivityOptions(ctx, opts), permitKey{}, p)
		if err := p.stamp(ctx, g.cfg.Keys, activityType); err != nil {
			return nil, err
		}
		g.dispatched(p)
		return next(ctx, activityType, shot.frozen()...), nil
	})
}

// guardLocal does the same for a local activity. It takes its arguments as they are, so they must not have changed.
func (g *gate) guardLocal(ctx workflow.Context, facts protocol.ToolFacts, activityType string, args []any,
	next func(workflow.Context, string, ...any) workflow.Future) workflow.Future {
	shot, err := g.snapshot(ctx, args)
	if err != nil {
		return failed(ctx, unreadable(activityType, err))
	}
	return g.later(ctx, g.request(ctx, g.number(), facts, shot), func(ctx workflow.Context, p *permit) (workflow.Future, error) {
		if err := g.unchanged(ctx, shot, args); err != nil {
			return nil, unreadable(activityType, err)
		}
		if opts := workflow.GetLocalActivityOptions(ctx); opts.Summary == "" {
			opts.Summary = summary(p)
			ctx = workflow.WithLocalActivityOptions(ctx, opts)
		}
		if err := p.stamp(ctx, g.cfg.Keys, activityType); err != nil {
			return nil, err
		}
		g.dispatched(p)
		return next(ctx, activityType, args...), nil
	})
}

// operation judges a Nexus operation. It blocks its coroutine: the SDK's future of an operation cannot be made ahead.
func (g *gate) operation(ctx workflow.Context, facts protocol.ToolFacts, name string, arg any) error {
	shot, err := g.snapshot(ctx, []any{arg})
	if err != nil {
		return unreadable(name, err)
	}
	p, err := g.permitted(ctx, g.request(ctx, g.number(), facts, shot))
	if err != nil {
		return err
	}
	// From here on the operation cannot be taken back.
	g.begun(ctx, p)
	if err = g.unchanged(ctx, shot, []any{arg}); err != nil {
		return unreadable(name, err)
	}
	return nil
}

// enter puts a run of a guarded workflow type through the gate before its first line, whoever started it. A run that
// continues one that has passed goes on.
func (g *gate) enter(ctx workflow.Context, args []any) error {
	name := workflow.GetInfo(ctx).WorkflowType.Name
	if g.passed {
		return nil
	}
	facts, guarded := g.guards(ctx, g.cfg.GuardedWorkflows, name)
	if !guarded {
		return nil
	}
	shot, err := g.snapshot(ctx, args)
	if err != nil {
		return unreadable(name, err)
	}
	p, err := g.permitted(ctx, g.request(ctx, g.number(), facts, shot))
	if g.passed = err == nil; g.passed {
		// From here on the run is cancelled like any other.
		g.begun(ctx, p)
	}
	return err
}

// number gives a call its id within the workflow.
func (g *gate) number() string {
	g.nextCall++
	return fmt.Sprintf("%s%d", ownIDs, g.nextCall)
}

func (g *gate) request(ctx workflow.Context, id string, facts protocol.ToolFacts, shot snapshot) protocol.DecideRequest {
	return protocol.DecideRequest{CallID: id, Tool: facts, Input: shot.input, Unencoded: shot.failed,
		Subject: protocol.Subject{Vetted: g.vetted, Agent: tool.Agent{Type: workflow.GetInfo(ctx).WorkflowType.Name}}}
}

// later runs a call when it may run. It returns at once, so that parallel calls ask in parallel.
func (g *gate) later(ctx workflow.Context, req protocol.DecideRequest,
	run func(workflow.Context, *permit) (workflow.Future, error)) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "assent "+req.CallID, func(ctx workflow.Context) {
		p, err := g.permitted(ctx, req)
		if err != nil {
			settable.SetError(err)
			return
		}
		ctx, done := g.revocable(ctx, p)
		f, err := run(ctx, p)
		if err != nil {
			settable.SetError(err)
			done(tool.ToolError)
			return
		}
		if p.standing == nil {
			g.hand(ctx, settable, f)
			return
		}
		code, err := g.ended(ctx, f)
		done(code)
		if err != nil {
			settable.SetError(err)
			return
		}
		g.hand(ctx, settable, f)
	})
	return future
}

// hand gives the outcome of a call to who waits for it. A future that an interceptor of the client has made cannot be
// chained.
func (g *gate) hand(ctx workflow.Context, s workflow.Settable, f workflow.Future) {
	if chained(s, f) {
		return
	}
	var raw converter.RawValue
	if err := recorded(ctx, f, &raw); err != nil || raw.Payload() == nil {
		s.Set(nil, err)
		return
	}
	p, err := g.converter(ctx).ToPayload(raw)
	if err != nil {
		panic(err)
	}
	s.Set(&commonpb.Payloads{Payloads: []*commonpb.Payload{p}}, nil)
}

func chained(s workflow.Settable, f workflow.Future) (ok bool) {
	defer func() { ok = recover() == nil }()
	s.Chain(f)
	return true
}

// permitted takes one call through decision, question and answer. Its error is an assent.Denied with the result.
func (g *gate) permitted(ctx workflow.Context, req protocol.DecideRequest) (*permit, error) {
	p, refused := g.pass(ctx, req)
	if refused == nil {
		if refused = g.lapsed(ctx, p); refused != nil && p.standing != nil {
			g.end(ctx, p.standing.key, refused.Code)
		}
	}
	if refused != nil {
		return nil, g.denied(*refused)
	}
	p.place.ActivityID = req.CallID
	return p, nil
}

// lapsed refuses a permitted call that may not start any more. Nobody else looks at what takes no grant with it.
func (g *gate) lapsed(ctx workflow.Context, p *permit) *tool.Result {
	refuse := func(r tool.Result) *tool.Result { return &r }
	switch s := p.standing; {
	case p.modified:
		return refuse(tool.Fail(tool.Denied, "arguments of a guarded call cannot be changed"))
	case s != nil && s.cause.revoked != nil:
		return refuse(takenBack(s.cause.revoked))
	case p.expires != 0 && workflow.Now(ctx).Unix() > p.expires:
		return refuse(expired())
	}
	return nil
}

// denied is the error that a refused call gives to its workflow.
func (g *gate) denied(r tool.Result) error {
	message, detail := protocol.Refusal(r, g.cfg.Words)
	o := temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{detail}}
	if r.Failure.Reason == tool.ByCancel {
		// So that the workflow knows it for a cancellation, and may end as cancelled.
		o.Cause = workflow.ErrCanceled
	}
	return temporal.NewApplicationErrorWithOptions(message, protocol.ErrorDenied, o)
}

func (g *gate) pass(ctx workflow.Context, req protocol.DecideRequest) (*permit, *tool.Result) {
	if ctx.Err() != nil {
		r := tool.Deny(tool.ByCancel, "", "the run was cancelled before the call was judged")
		return nil, &r
	}
	g.board.busy()
	defer g.board.free(ctx, g.ledger)
	leave := g.place(ctx)
	d := g.judge(ctx, req)
	leave()
	consistent(req, d)
	p, refused := g.settle(ctx, req, d)
	if p != nil || refused != nil {
		return p, refused
	}
	p, r := g.ask(ctx, g.question(ctx, req, d), req, d)
	if p == nil {
		return nil, &r
	}
	g.board.running(ctx, g.ledger)
	return p, nil
}

// snapshot is what arguments were at the moment of a call.
type snapshot struct {
	raw []converter.RawValue
	// input is the JSON object that is judged: the single object argument, or {"args": […]}.
	input json.RawMessage
	// failed says that a codec failed, and how; then there is nothing else.
	failed string
}

func (s snapshot) frozen() []any {
	out := make([]any, len(s.raw))
	for i, r := range s.raw {
		out[i] = r
	}
	return out
}

// mostArguments bounds what is judged: larger arguments would not fit into a decision or a question.
const mostArguments = 1 << 20

// snapshot encodes arguments once, with the team's converter. Its error is the same on every replay.
func (g *gate) snapshot(ctx workflow.Context, args []any) (snapshot, error) {
	var s snapshot
	list := make([]json.RawMessage, 0, len(args))
	size := 0
	for i, a := range args {
		raw, err := g.encode(ctx, a)
		if err != nil && !lasting(err) {
			return snapshot{failed: unencoded(err)}, nil
		}
		if err != nil {
			return snapshot{}, fmt.Errorf("argument %d: %w", i, err)
		}
		if size += len(raw.Payload().GetData()); size > mostArguments {
			return snapshot{}, fmt.Errorf("they have more than %d bytes", mostArguments)
		}
		s.raw, list = append(s.raw, raw), append(list,
			protocol.Argument(string(raw.Payload().GetMetadata()[converter.MetadataEncoding]), raw.Payload().GetData()))
	}
	var err error
	s.input, err = protocol.Input(list)
	return s, err
}

func (g *gate) encode(ctx workflow.Context, arg any) (converter.RawValue, error) {
	dc := g.converter(ctx)
	var raw converter.RawValue
	p, err := dc.ToPayload(arg)
	if err == nil {
		// Back through the converter without decoding the value: a codec's encryption is taken off, the bytes stay.
		err = dc.FromPayload(p, &raw)
	}
	if asksForRetry(err) {
		panic(err)
	}
	return raw, err
}

// unchanged says whether arguments are still what was judged.
func (g *gate) unchanged(ctx workflow.Context, s snapshot, args []any) error {
	for i, a := range args {
		raw, err := g.encode(ctx, a)
		if err != nil && !lasting(err) {
			panic(err)
		}
		if err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
		if !bytes.Equal(raw.Payload().GetData(), s.raw[i].Payload().GetData()) {
			return fmt.Errorf("argument %d was changed after the call was judged", i)
		}
	}
	return nil
}

func unreadable(name string, err error) error {
	r := tool.Fail(tool.Denied, "arguments of "+short(name, mostSummary)+": "+short(err.Error(), 500))
	r.Failure.Reason = tool.ByFailure
	return temporal.NewApplicationErrorWithOptions(r.Failure.Message, protocol.ErrorDenied,
		temporal.ApplicationErrorOptions{NonRetryable: true, Cause: err, Details: []any{r}})
}
