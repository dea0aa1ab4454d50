package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// generate is one turn of the model. Messages travel by reference. A conversation that has become too long is
// compacted first, which is an answer of its own: what it cost is in history before the turn begins.
func (a *agent) generate(ctx workflow.Context, results []model.ToolResult, note string, tools bool) (protocol.GenerateResponse, error) {
	a.turns++
	a.lifeTurns++
	a.runTurns++
	req := protocol.GenerateRequest{
		Models: a.frozen.Models, Profile: a.in.AgentType, Store: a.frozen.Store, Frozen: &a.frozen.Frozen, NoTools: !tools,
		Transcript: a.transcript, Results: results, Note: note, MaxOutputTokens: a.frozen.Limits.MaxOutputTokens, Turn: a.turns,
	}
	if a.transcript == nil {
		req.PromptRef, req.Earlier = a.frozen.PromptRef, a.earlier
		if req.PromptRef == nil {
			req.Prompt = a.in.Prompt
		}
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Minute, HeartbeatTimeout: 30 * time.Second, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute, MaximumAttempts: 10,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorModel, protocol.ErrorStore}},
		Summary: fmt.Sprintf("turn %d", a.turns),
	})
	for {
		var resp protocol.GenerateResponse
		if err := recorded(ctx, workflow.ExecuteActivity(ctx, protocol.ActivityGenerate, req), &resp); err != nil {
			return resp, err
		}
		a.spent.Add(resp)
		if resp.Compacted == nil {
			a.transcript, a.output = &resp.Transcript, resp.Text
			a.structured, a.structuredRef = resp.Structured, resp.StructuredRef
			return resp, nil
		}
		a.transcript = &resp.Transcript
		if req.Compacted {
			return resp, errors.New("the conversation was compacted twice for one turn and is still too long")
		}
		req.Transcript, req.Compacted = a.transcript, true
	}
}

// restart begins a new conversation that keeps a link to the one before; what was spent stays spent.
func (a *agent) restart() {
	if a.transcript != nil {
		a.earlier = a.transcript
	}
	a.transcript, a.lifeTurns, a.idle, a.seen, a.seenList, a.retries = nil, 0, 0, map[string]bool{}, nil, nil
}
