package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

const (
	// mostForwarding bounds the answers that are on their way to children at once, mostForwarded those of a run: each is an
	// activity, and anybody can send answers.
	mostForwarding = 32
	mostForwarded  = 1000
)

// elsewhere reports whether an answer may be for a child: its key is none that this run ever had, and there are children.
func (g *gate) elsewhere(key string) bool {
	return key != "" && g.kin != nil && len(g.kin.started) > 0 && g.ledger.Ended(key) == "" && g.box(key) == nil && g.standing[key] == nil
}

// forward takes an answer to the child whose question it answers. The run knows of none: a child that waits would else have
// to tell it, and every one above. So an activity asks them, when there is an answer.
func (g *gate) forward(ctx workflow.Context, r approval.Resolution, via string) (protocol.Accepted, error) {
	f := g.family()
	if f.forwarding >= mostForwarding || f.forwarded >= mostForwarded {
		return protocol.Accepted{}, notPending("approval " + quoted(r.Key) + ": too many answers were sent here; send it to the agent that asks")
	}
	f.forwarding++
	f.forwarded++
	defer func() { f.forwarding-- }()
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           workflow.GetInfo(ctx).TaskQueueName,
		StartToCloseTimeout: time.Minute, Summary: "answer " + label(short(r.Key, mostSummary)),
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 10 * time.Second, MaximumAttempts: 5,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig}},
	})
	var got protocol.ForwardResponse
	err := recorded(ctx, workflow.ExecuteActivity(ctx, protocol.ActivityForwardAnswer,
		protocol.ForwardRequest{Answer: r, Children: g.children()}), &got)
	why := got.Refused
	if err != nil {
		why = "it could not be taken to a child: " + explain(err)
	}
	if why != "" {
		g.note(ctx, approval.Ignored{Key: short(r.Key, mostSummary), By: short(r.By, mostBy), Via: via, Why: short(why, mostReason)})
		g.board.details(ctx, g.ledger)
		if got.Bad {
			return protocol.Accepted{}, temporal.NewNonRetryableApplicationError(why, protocol.ErrorBadAnswer, nil)
		}
		return protocol.Accepted{}, notPending(why)
	}
	workflow.GetLogger(ctx).Info("assent: an answer was taken to a child", "key", r.Key, "child", got.WorkflowID)
	if got.Accepted != nil {
		return *got.Accepted, nil
	}
	key, _, _ := strings.Cut(r.Key, "@")
	return protocol.Accepted{Key: key, Decision: r.Decision}, nil
}

// forwarded takes a signal to a child if it can only be for one. It reports whether it is.
func (g *gate) forwarded(ctx workflow.Context, data []byte, bad *approval.DecodeError) bool {
	if !g.elsewhere(bad.Key) {
		return false
	}
	// As the child would read it.
	list, err := approval.Decode(data, []string{bad.Key}, nil)
	if err != nil || len(list) != 1 {
		return false
	}
	g.spawn(ctx, "assent forward", func(ctx workflow.Context) {
		if _, err := g.forward(ctx, list[0], viaSignal); err != nil {
			workflow.GetLogger(ctx).Warn("assent: an answer was not forwarded", "key", list[0].Key, "reason", err)
		}
	})
	return true
}
