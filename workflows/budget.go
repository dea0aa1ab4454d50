package workflows

import (
	"fmt"
	"strconv"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// left is what the budget has left in USD, or nil without one. What was lost is taken for spent.
func (a *agent) left() *float64 {
	if a.frozen.BudgetUSD == nil {
		return nil
	}
	usd := *a.frozen.BudgetUSD - a.spent.CostUSD - a.spent.LostUSD - a.spent.BelowUSD
	return &usd
}

// broke reports a budget that is spent: results of calls would go to nobody.
func (a *agent) broke() bool {
	left := a.left()
	return left != nil && *left <= 0
}

// overBudget says that the budget ended the agent, and why.
func (a *agent) overBudget(why string) error {
	lost := ""
	if a.spent.BelowUSD > 0 {
		lost = fmt.Sprintf(", and %s USD by agents below", usd(a.spent.BelowUSD))
	}
	if a.spent.LostUSD > 0 {
		lost += fmt.Sprintf(", and up to %s USD that no answer accounts for", usd(a.spent.LostUSD))
	}
	return fmt.Errorf("the budget of %s USD was reached, %s USD are spent%s: %s", usd(*a.frozen.BudgetUSD), usd(a.spent.CostUSD), lost, why)
}

func usd(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// close puts the results of the last calls into the transcript, which is whole then: there is no turn any more that would.
// The agent ends as it does if that fails.
func (a *agent) close(ctx workflow.Context, results []model.ToolResult) {
	if len(results) == 0 {
		return
	}
	req := protocol.GenerateRequest{Store: a.frozen.Store, Transcript: a.transcript, Results: results, Turn: a.turns, Close: true}
	var resp protocol.GenerateResponse
	ctx = a.asking(ctx, "close the transcript")
	if err := recorded(ctx, workflow.ExecuteActivity(ctx, protocol.ActivityGenerate, req), &resp); err != nil {
		workflow.GetLogger(ctx).Warn("assent: the results of the last calls are not in the transcript", "error", err)
		return
	}
	a.transcript = &resp.Transcript
}
