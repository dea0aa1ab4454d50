package workflows

import (
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// carry gives the next run what it has to know. Open questions are not among it: the code that waited for them is gone.
func (g *gate) carry(ctx workflow.Context, next *workflow.ContinueAsNewError) {
	c := protocol.Carry{Calls: g.nextCall, Board: g.board.status != "", Attributes: g.board.attributes.has, Ledger: g.ledger.Carry()}
	if g.passed {
		c.Passed = workflow.GetInfo(ctx).WorkflowType.Name
	}
	g.carryFamily(&c)
	if c.Calls == 0 && c.SpentUSD == 0 && len(c.Spawned) == 0 {
		// A propagator of the team's may have copied what an earlier run carried.
		delete(next.Header.GetFields(), protocol.HeaderCarry)
		return
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(c)
	if err != nil {
		workflow.GetLogger(ctx).Error("assent: nothing is carried into the next run", "error", err)
		return
	}
	if next.Header == nil {
		next.Header = &commonpb.Header{}
	}
	if next.Header.Fields == nil {
		next.Header.Fields = map[string]*commonpb.Payload{}
	}
	next.Header.Fields[protocol.HeaderCarry] = payload
}

// restore takes over from the run before. Only the server says that there was one: whoever starts a workflow can send
// any header.
func (g *gate) restore(ctx workflow.Context) {
	info := workflow.GetInfo(ctx)
	g.anew = info.ContinuedExecutionRunID != "" && (info.CronSchedule != "" || info.Attempt > 1) && !g.own
	payload := interceptor.WorkflowHeader(ctx)[protocol.HeaderCarry]
	if payload == nil || g.own || info.ContinuedExecutionRunID == "" {
		return
	}
	var c protocol.Carry
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &c); err != nil {
		workflow.GetLogger(ctx).Error("assent: what the run before carried cannot be read", "error", err)
		return
	}
	g.nextCall = max(c.Calls, 0)
	g.ledger.Restore(c.Ledger)
	g.restoreFamily(c)
	// A run that a schedule begins anew, or the server after one that failed, asks anew: its header is the one of the
	// run before, and may be its client's.
	g.passed = info.CronSchedule == "" && info.Attempt <= 1 && c.Passed == info.WorkflowType.Name
	if c.Board {
		g.board.resume(ctx, c.Attributes)
	}
}

// contentKey is what a question's key is made of.
func (g *gate) contentKey(d protocol.DecideResponse) string {
	if !g.anew || d.ContentKey == "" {
		return d.ContentKey
	}
	return approval.InRun(d.ContentKey, d.RunID)
}
