package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// generate is one turn of the model. Messages travel by reference. A conversation that has become too long is
// compacted first, which is an answer of its own: what it cost is in history before the turn begins.
func (a *agent) generate(ctx workflow.Context, results []model.ToolResult, note string, tools bool) (protocol.GenerateResponse, error) {
	if left := a.left(); left != nil && *left <= 0 {
		return protocol.GenerateResponse{OverBudget: "nothing is left for another turn"}, nil
	}
	a.turns++
	a.lifeTurns++
	a.runTurns++
	req := protocol.GenerateRequest{
		Models: a.frozen.Models, Profile: a.in.AgentType, Store: a.frozen.Store, Frozen: &a.frozen.Frozen, NoTools: !tools,
		Transcript: a.transcript, Results: results, Note: note, MaxOutputTokens: a.frozen.Limits.MaxOutputTokens, Turn: a.turns,
	}
	if a.transcript == nil {
		req.PromptRef, req.Earlier, req.Note = a.promptRef, a.earlier, a.anew(note)
		if req.PromptRef == nil {
			req.Prompt = a.in.Prompt
		}
	}
	ctx = a.asking(ctx, fmt.Sprintf("turn %d", a.turns))
	for {
		req.LeftUSD = a.left()
		var resp protocol.GenerateResponse
		if err := a.ask(ctx, req, &resp); err != nil {
			return resp, err
		}
		a.spent.Add(resp)
		if resp.OverBudget != "" {
			a.turns--
			a.lifeTurns--
			return resp, nil
		}
		// Not a part of the answer, which is not kept.
		transcript := resp.Transcript
		a.transcript = &transcript
		if resp.Compacted == nil {
			a.output = resp.Text
			a.structured, a.structuredRef = resp.Structured, resp.StructuredRef
			return resp, nil
		}
		if req.Compacted {
			return resp, errors.New("the conversation was compacted twice for one turn and is still too long")
		}
		req.Transcript, req.Compacted = a.transcript, true
	}
}

// ask runs the activity of a turn, and counts what it may have cost that gives no answer. What the attempts of one have put down that is
// cancelled while it waits for the next is asked before, because the server drops it then.
func (a *agent) ask(ctx workflow.Context, req protocol.GenerateRequest, resp *protocol.GenerateResponse) error {
	own, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if ctx.Err() != nil {
		cancel()
	}
	f, risked := workflow.ExecuteActivity(own, protocol.ActivityGenerate, req), 0.0
	if own.Err() == nil && workflow.Await(ctx, f.IsReady) != nil && !f.IsReady() {
		risked = a.risked(own, allowed(req))
		cancel()
	}
	err := recorded(own, f, resp)
	if err != nil {
		a.spent.LostUSD += owed(ctx, err, allowed(req), risked)
	}
	return err
}

// allowed is all that a turn was allowed; a run without a budget counts what it knows.
func allowed(req protocol.GenerateRequest) float64 {
	if req.LeftUSD == nil {
		return 0
	}
	return max(0, *req.LeftUSD)
}

// risked is what the attempts of the turn that is at work have put down, all where nobody says.
func (a *agent) risked(ctx workflow.Context, all float64) float64 {
	if a.gate.cfg.Spent == nil {
		return all
	}
	var now protocol.SpentResponse
	if err := recorded(ctx, workflow.ExecuteLocalActivity(a.gate.again(ctx), a.gate.cfg.Spent, protocol.SpentRequest{Turn: true}), &now); err != nil {
		workflow.GetLogger(ctx).Warn("assent: not known what the attempts of a cancelled turn may have cost", "error", err)
		return all
	}
	return protocol.Dollars(now.SpentUSD)
}

// owed is what a turn may have cost that failed for good: its last attempt says so, or its last report of life. Generate says it with
// every error. One without it comes from somebody who does not know what earlier attempts may have cost, a codec that was away or an
// operator: it is all that they were allowed then. Of a turn that was cancelled or lost before it asked nothing is said, and risked counts.
func owed(ctx workflow.Context, err error, all, risked float64) float64 {
	said, silent := saidOf(err)
	switch {
	case said == nil && silent:
		return risked
	case said == nil:
		return all
	}
	// Recorded, because the codec may give another outcome to the next replay.
	var usd float64
	if err := workflow.SideEffect(ctx, func(ctx workflow.Context) any { return readUSD(said, silent && ctx.Err() != nil, risked, all) }).Get(&usd); err != nil {
		panic(err)
	}
	return usd
}

// saidOf finds the details of the error that is nearest to the server: those of its causes are a driver's own. silent is an end
// that need not say anything.
func saidOf(err error) (said func(...any) error, silent bool) {
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) { //errorlint:ignore one after the other
		case *temporal.CanceledError:
			if silent = true; e.HasDetails() {
				return e.Details, true
			}
		case *temporal.TimeoutError:
			if silent = true; e.HasLastHeartbeatDetails() {
				return e.LastHeartbeatDetails, false
			}
		case *temporal.ApplicationError:
			if e.HasDetails() {
				return e.Details, false
			}
		}
	}
	return nil, silent
}

// readUSD reads what is owed, all if it is no money. Of a turn that was cancelled between two attempts the server itself says so, in
// plain text, which a codec that refuses what it did not encode refuses each time: then it is risked. One that cannot read for a
// moment fails the task, else the sum would be missing.
func readUSD(said func(...any) error, cancelled bool, risked, all float64) float64 {
	var usd float64
	err := said(&usd)
	switch {
	case err != nil && !lasting(err) && (!cancelled || asksForRetry(err)):
		panic(err)
	case cancelled && (err != nil || !(usd >= 0)):
		return risked
	case err != nil || !(usd >= 0):
		return all
	}
	return protocol.Dollars(usd)
}

// asking is for the activity that asks a model.
func (a *agent) asking(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Minute, HeartbeatTimeout: 30 * time.Second, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute, MaximumAttempts: 10,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorModel, protocol.ErrorStore}},
		Summary: summary,
	})
}

// mostAmends is how often in a row a model is told that a turn without calls is no answer.
const mostAmends = 2

// amend is what the model is told of a turn without calls that is no answer, or nothing.
func amend(t protocol.GenerateResponse) string {
	switch {
	case t.Stop == model.StopRefusal || t.Stop == model.StopMaxTokens:
		return ""
	case len(t.Issues) > 0:
		return "your answer was not taken. It must be one JSON text that fits its schema, and nothing else:\n" + issues(t.Issues, "\n")
	case empty(t):
		return "your last turn was empty: it had no text and no call. Go on with the task, or answer if it is done"
	}
	return ""
}

// empty reports a turn that says and does nothing.
func empty(t protocol.GenerateResponse) bool {
	return strings.TrimSpace(t.Text) == "" && t.Structured == nil && t.StructuredRef == nil
}

// ended is the status of a turn without calls.
func (a *agent) ended(t protocol.GenerateResponse) (protocol.Status, error) {
	switch {
	case t.Stop == model.StopRefusal:
		return protocol.Failed, errors.New("the model refused")
	case t.Stop == model.StopMaxTokens && t.MaxOutputTokens > 0:
		return protocol.LimitHit, a.overBudget(fmt.Sprintf("the model's output was cut at %d tokens", t.MaxOutputTokens))
	case t.Stop == model.StopMaxTokens:
		return protocol.LimitHit, errors.New("the model's output was cut at maxOutputTokens")
	case len(t.Issues) > 0:
		return protocol.Failed, fmt.Errorf("the model's answer does not fit its schema: %s", issues(t.Issues, "; "))
	case empty(t):
		return protocol.Failed, fmt.Errorf("the model said nothing and called nothing, %d times in a row", mostAmends+1)
	}
	return protocol.OK, nil
}

// issues lists what does not fit, each with its JSON pointer.
func issues(list []tool.Issue, separator string) string {
	lines := make([]string, len(list))
	for i, issue := range list {
		at := issue.Pointer
		if at == "" {
			at = "the answer"
		}
		lines[i] = at + ": " + issue.Message
	}
	return strings.Join(lines, separator)
}

// restart begins a new conversation that keeps a link to the one before; what was spent stays spent, and what that one came to
// is nothing.
func (a *agent) restart(lost *lostError) {
	a.lost = lost.why
	if a.transcript != nil {
		a.earlier = a.transcript
	}
	a.output, a.structured, a.structuredRef, a.escalation = "", nil, nil, nil
	a.transcript, a.lifeTurns, a.idle, a.seen, a.seenList, a.retries = nil, 0, 0, map[string]bool{}, nil, nil
}

// anew is what the model is told at the first turn of a life, before a note: after a loss, that nothing is left of what it did.
func (a *agent) anew(note string) string {
	if a.restarts == 0 || a.env.tree == nil {
		return note
	}
	told := fmt.Sprintf("The environment of an earlier attempt at this task was lost: %s. This is restart %d of at most %d, from the beginning and in a "+
		"fresh worktree of commit %.12s: nothing of what was done before is in it. What was done outside of it may have been done.",
		a.lost, a.restarts, maxRestarts, a.env.tree.lease.Resolved.Commit)
	if note != "" {
		told += "\n\n" + note
	}
	return told
}
