package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

type lentKey struct{}

// lend lets the agents of a workflow that is called as a tool spend what the budget has left; nil without a budget. Calls at
// once do not get the same money: the second has nothing for agents until the first has ended.
func (a *agent) lend(p *permit) *float64 {
	left := a.left()
	if left == nil || p.facts.Remote.Kind != tool.RemoteWorkflow {
		return nil
	}
	abroad := a.others()
	usd := max(0, *left-abroad.lent)
	abroad.lent += usd
	return &usd
}

// paidBack ends a loan: what was spent of it is counted by then.
func (a *agent) paidBack(lent *float64) {
	if lent != nil {
		abroad := a.others()
		abroad.lent = max(0, abroad.lent-*lent)
	}
}

// recall counts what agents have cost of a run that the server tries again. It gives the next try the whole loan, and the memo and the
// header of the first.
func (g *gate) recall(ctx workflow.Context) {
	if !g.anew || g.board.lineage == nil || g.board.lineage.BudgetUSD == nil {
		return
	}
	lent := *g.board.lineage.BudgetUSD
	now := protocol.SpentResponse{SpentUSD: lent}
	if g.cfg.Spent != nil && lent > 0 {
		// A cancelled run says what it has spent as well.
		after, done := workflow.NewDisconnectedContext(ctx)
		defer done()
		req := protocol.SpentRequest{Before: workflow.GetInfo(ctx).ContinuedExecutionRunID, LentUSD: lent}
		if err := recorded(after, workflow.ExecuteLocalActivity(g.insistent(after), g.cfg.Spent, req), &now); err != nil {
			workflow.GetLogger(ctx).Error("assent: not known what agents have cost before this try, so it has no money for any", "error", err)
			now.SpentUSD = lent
		}
	}
	p := g.family().pool
	p.spent = max(p.spent, protocol.Dollars(now.SpentUSD))
}

// account leaves what this run's agents have spent to the agent that lent the money, which a workflow's result does not say.
// What agents hold that are still at work counts as spent.
func (g *gate) account(ctx workflow.Context) {
	if g.own || g.board.lineage == nil || g.board.lineage.BudgetUSD == nil || g.kin == nil || g.kin.total == 0 && !g.anew {
		return
	}
	usd := g.kin.pool.spent + g.kin.pool.reserved
	if err := workflow.UpsertMemo(ctx, map[string]any{protocol.MemoSpent: sum{usd, new(bool)}}); err != nil {
		workflow.GetLogger(ctx).Warn("assent: what the agents have spent is not in the memo", "error", err)
	}
}

// broken is account for a run that panics: where the worker fails it of that, it ends here. Elsewhere the server hears nothing of the task.
func (g *gate) broken(ctx workflow.Context) {
	if p := recover(); p != nil {
		g.account(ctx)
		panic(p)
	}
}

// sum is an amount that is encoded once, like memo: a codec that fails leaves text that is no amount.
type sum struct {
	usd   float64
	tried *bool
}

// MarshalJSON is called by the converters.
func (s sum) MarshalJSON() ([]byte, error) {
	if *s.tried {
		return []byte(`"unknown"`), nil
	}
	*s.tried = true
	return json.Marshal(s.usd)
}
