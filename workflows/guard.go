package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// guard puts a call of a workflow that is not an agent through the gate. It returns at once, so that parallel
// calls ask in parallel.
func (g *gate) guard(ctx workflow.Context, facts protocol.ToolFacts, activityType string, args []any,
	next func(workflow.Context, string, ...any) workflow.Future) workflow.Future {
	// Encoded now: the caller could change its arguments while a person reads them.
	frozen, input, err := g.snapshot(args)
	if err != nil {
		return failed(ctx, temporal.NewNonRetryableApplicationError("encode arguments of "+activityType, protocol.ErrorDenied, err))
	}
	future, settable := workflow.NewFuture(ctx)
	opts := workflow.GetActivityOptions(ctx)
	g.nextCall++
	if opts.ActivityID == "" {
		opts.ActivityID = fmt.Sprintf("%s%d", ownIDs, g.nextCall)
	}
	req := protocol.DecideRequest{CallID: opts.ActivityID, Tool: facts, Input: input,
		Subject: protocol.Subject{Agent: tool.Agent{Type: workflow.GetInfo(ctx).WorkflowType.Name}}}
	workflow.GoNamed(ctx, "assent "+opts.ActivityID, func(ctx workflow.Context) {
		p, refused := g.pass(ctx, req)
		if refused == nil && p.modified {
			r := tool.Fail(tool.Denied, "arguments of an existing activity cannot be changed")
			refused = &r
		}
		if refused != nil {
			settable.SetError(temporal.NewApplicationErrorWithOptions(refused.Failure.Message, protocol.ErrorDenied,
				temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{*refused}}))
			return
		}
		p.place.ActivityID = opts.ActivityID
		if opts.Summary == "" {
			opts.Summary = summary(p)
		}
		ctx = workflow.WithValue(workflow.WithActivityOptions(ctx, opts), permitKey{}, p)
		if err := p.stamp(ctx, g.cfg.Keys, activityType); err != nil {
			settable.SetError(err)
			return
		}
		settable.Chain(next(ctx, activityType, frozen...))
	})
	return future
}

// pass takes one call through decision, question and answer.
func (g *gate) pass(ctx workflow.Context, req protocol.DecideRequest) (*permit, *tool.Result) {
	g.board.busy()
	defer g.board.free(ctx, g.ledger)
	d := g.decided(ctx, g.judge(ctx, req), req)
	g.board.learn(ctx, d.Attributes)
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

// snapshot encodes arguments once, as raw values to pass on and as the JSON object that is judged.
func (g *gate) snapshot(args []any) (frozen []any, input json.RawMessage, err error) {
	list := make([]json.RawMessage, 0, len(args))
	for i, a := range args {
		var p *commonpb.Payload
		if p, err = g.cfg.Converter.ToPayload(a); err != nil {
			return nil, nil, fmt.Errorf("argument %d: %w", i, err)
		}
		// Back through the converter without decoding the value: a codec's encryption is taken off, the bytes stay.
		var raw converter.RawValue
		if err = g.cfg.Converter.FromPayload(p, &raw); err != nil {
			return nil, nil, fmt.Errorf("argument %d: %w", i, err)
		}
		data := raw.Payload().GetData()
		if len(data) == 0 {
			data = []byte("null")
		}
		if !json.Valid(data) {
			return nil, nil, fmt.Errorf("argument %d is not JSON", i)
		}
		frozen, list = append(frozen, raw), append(list, data)
	}
	if len(list) == 1 && strings.HasPrefix(strings.TrimSpace(string(list[0])), "{") {
		return frozen, list[0], nil
	}
	input, err = json.Marshal(map[string]any{"args": list})
	return frozen, input, err
}
