package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// mailbox holds the answers to one open question, in the order in which they came. Rivals wait in it while one of them
// is admitted: the first that counts closes the question, and the others are told so.
type mailbox struct {
	answers []answer
	// revoked says that one of them is a revoke.
	revoked bool
	// wake is set while a coroutine waits.
	wake workflow.Settable
	// deadline rings when the question expires, whatever its call does; nil if it does not. life ends with the question.
	deadline workflow.Future
	life     workflow.Context
	stop     func()
	// vigil waits for what comes; nil before it begins.
	vigil *vigil
	// consulted is true while the approver is asked. It is not the vigil's: that of a void answer still ends when the next one
	// asks.
	consulted bool
	// reminded is set for a question of the run before: when people were last told of it.
	reminded *time.Time
}

// quiet reports whether its call waits, and nothing has come for it.
func (b *mailbox) quiet() bool {
	return b.vigil != nil && b.vigil.asleep && !b.vigil.stirred() && !b.consulted
}

func newMailbox(ctx workflow.Context, q approval.Approval) *mailbox {
	b := &mailbox{}
	b.life, b.stop = workflow.WithCancel(ctx)
	if q.Deadline != nil {
		b.deadline = ring(b.life, q, *q.Deadline, approval.AtDeadline)
	}
	return b
}

// ring sets the timer of an occasion.
func ring(ctx workflow.Context, q approval.Approval, at time.Time, what approval.Occasion) workflow.Future {
	return workflow.NewTimerWithOptions(ctx, at.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: label(q.Key) + " · " + string(what)})
}

// late reports whether the deadline has passed in history, before whatever comes now.
func (b *mailbox) late() bool {
	return b.deadline != nil && b.deadline.IsReady() && b.life.Err() == nil
}

// mostAnswers bounds the answers to one question that wait to be admitted.
const mostAnswers = 256

const withCancellation = "the answer came with the cancellation"

func (b *mailbox) post(a answer) {
	b.answers = append(b.answers, a)
	b.revoked = b.revoked || a.resolution.Decision == approval.Revoke
	if b.wake != nil {
		b.wake.Set(nil, nil)
		b.wake = nil
	}
}

func (b *mailbox) take() (answer, bool) {
	if len(b.answers) == 0 {
		return answer{}, false
	}
	a := b.answers[0]
	b.answers = b.answers[1:]
	return a, true
}

// vigil waits for the answers to one question. Without reminders, escalation and deadline there is no timer, and
// without an approver no activity.
type vigil struct {
	gate *gate
	// q is the question as it stands, asked what the call has of it; both are about the call that req and d are about.
	q      approval.Approval
	asked  *approval.Approval
	req    *protocol.DecideRequest
	d      protocol.DecideResponse
	policy permission.ApprovalPolicy
	box    *mailbox
	// call is what an approver is told; nil without one.
	call     *tool.Call
	risk     tool.Risk
	reminded time.Time

	// life ends with the vigil.
	life workflow.Context
	end  func()
	// asleep says that the question waits, and the board knows.
	asleep bool
	// timer rings at the next occasion.
	timer    workflow.Future
	occasion approval.Occasion
}

// vigil begins to wait for the answers to q.
func (g *gate) vigil(ctx workflow.Context, q *approval.Approval, req *protocol.DecideRequest, d protocol.DecideResponse) *vigil {
	v := &vigil{gate: g, asked: q, req: req, d: d}
	v.start(ctx)
	return v
}

// again puts the question once more, in this run.
func (v *vigil) again(ctx workflow.Context, runID string) {
	v.end()
	v.d.RunID = runID
	*v.asked = v.gate.question(ctx, *v.req, v.d)
	*v = vigil{gate: v.gate, asked: v.asked, req: v.req, d: v.d}
	v.start(ctx)
}

func (v *vigil) start(ctx workflow.Context) {
	g, req := v.gate, v.req
	v.q, v.box, v.reminded = *v.asked, g.mail[v.asked.Key], v.asked.AskedAt
	v.box.vigil = v
	v.life, v.end = workflow.WithCancel(ctx)
	if v.d.Approval != nil {
		v.policy = *v.d.Approval
	}
	if v.d.Approver {
		input, ref := finalInput(*req, v.d)
		agent := req.Subject.Agent
		v.call = &tool.Call{ID: req.CallID, Name: req.Tool.Name, Input: input, InputRef: ref, ContractHash: req.Tool.ContractHash,
			Source: req.Tool.Source, Agent: &agent, Dir: req.Subject.Dir, Isolation: req.Subject.Isolation, Store: req.Store, Modified: v.d.Decision.Modified}
		v.risk = req.Tool.Risk
	}
	if v.box.reminded != nil {
		// The run before has asked.
		v.reminded = *v.box.reminded
		return
	}
	v.consult(protocol.OccasionAsked)
}

// stirred reports whether there is something to look at.
func (v *vigil) stirred() bool {
	return len(v.box.answers) > 0 || v.box.late() || v.timer != nil && v.timer.IsReady()
}

// next returns the next answer, or how the question ended without one; waits says that there is neither yet.
func (v *vigil) next(ctx workflow.Context) (_ answer, _ approval.How, waits bool) {
	for {
		if ctx.Err() != nil {
			// When cancellation and answer arrive in one task, cancellation wins and the answer is noted.
			v.dismiss(ctx, withCancellation)
			return answer{}, approval.Cancelled, false
		}
		if a, ok := v.box.take(); ok {
			return a, "", false
		}
		switch {
		case v.box.late() && rang(v.box.deadline.Get(ctx, nil)):
			return answer{}, approval.Expired, false
		case v.timer != nil && v.timer.IsReady():
			v.rings(ctx)
		default:
			return answer{}, "", true
		}
	}
}

// sleep says that the question waits on, rise that it does no longer.
func (v *vigil) sleep(ctx workflow.Context) {
	if !v.asleep {
		v.asleep = true
		v.gate.board.idle(ctx, v.gate.ledger)
	}
	v.arm(ctx)
}

func (v *vigil) rise() {
	if v.asleep {
		v.asleep = false
		v.gate.board.busy()
	}
}

// wait returns when there is something to look at.
func (v *vigil) wait(ctx workflow.Context) {
	if ctx.Err() != nil || v.stirred() {
		// It came while the signs were put up.
		return
	}
	mail, wake := workflow.NewFuture(ctx)
	v.box.wake = wake
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(ctx.Done(), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) })
	sel.AddFuture(mail, func(workflow.Future) {})
	for _, timer := range []workflow.Future{v.timer, v.box.deadline} {
		if timer != nil {
			sel.AddFuture(timer, func(workflow.Future) {})
		}
	}
	sel.Select(ctx)
	v.box.wake = nil
}

// arm sets the timer for what comes before the deadline.
func (v *vigil) arm(ctx workflow.Context) {
	if v.timer != nil {
		return
	}
	at, what := v.q.Upcoming(v.policy, v.reminded)
	if what == "" || v.q.Deadline != nil && !at.Before(*v.q.Deadline) {
		return
	}
	v.occasion, v.timer = what, ring(v.life, v.q, at, what)
}

// rings acts on a timer.
func (v *vigil) rings(ctx workflow.Context) {
	// Timers fill a history like signals.
	v.gate.heard++
	what, rung := v.occasion, rang(v.timer.Get(ctx, nil))
	v.timer, v.occasion = nil, ""
	now := workflow.Now(ctx)
	switch {
	case !rung:
	case what == approval.AtEscalation:
		v.q.Escalate(now, v.policy.Escalate.Groups)
		v.tell(ctx, MetricEscalations, "assent: nobody has answered, more people are asked", "groups", v.q.EscalatedTo)
		v.consult(protocol.OccasionEscalated)
	default:
		v.q.Reminded++
		v.reminded = now
		v.tell(ctx, MetricReminders, "assent: a call still waits for an answer", "reminder", v.q.Reminded)
		v.consult(protocol.OccasionReminded)
	}
}

// Metrics of questions that wait, by tool.
const (
	MetricReminders   = "assent_approval_reminders"
	MetricEscalations = "assent_approval_escalations"
)

// tell makes a change of the question known: on the workflow's page, in the log and in a metric.
func (v *vigil) tell(ctx workflow.Context, metric, msg string, keyvals ...any) {
	v.changed(ctx)
	workflow.GetLogger(ctx).Warn(msg, append([]any{"key", v.q.Key, "tool", v.q.Tool, "asked", v.q.AskedAt}, keyvals...)...)
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{"tool": v.q.Tool}).Counter(metric).Inc(1)
}

func (v *vigil) changed(ctx workflow.Context) {
	v.gate.ledger.Update(v.q)
	v.gate.board.changed(v.q.Key)
	v.gate.board.details(ctx, v.gate.ledger)
}

// count adds an allow that is not enough.
func (v *vigil) count(ctx workflow.Context, vote approval.Vote) {
	v.q.Votes = append(slices.Clone(v.q.Votes), vote)
	v.reopen()
	v.changed(ctx)
}

// uncount notes an allow of somebody who cannot give one.
func (v *vigil) uncount(ctx workflow.Context, a answer, why string) {
	v.gate.note(ctx, approval.Ignored{Key: v.q.Key, By: a.by(), Via: a.via, Why: "it does not count: " + why})
	v.reopen()
	v.changed(ctx)
}

// reopen takes answers again, unless some wait already.
func (v *vigil) reopen() {
	if len(v.box.answers) == 0 {
		v.gate.ledger.Reopen(v.q.Key)
	}
}

// dismiss notes the answers that wait and will not be looked at.
func (v *vigil) dismiss(ctx workflow.Context, why string) {
	for a, ok := v.box.take(); ok; a, ok = v.box.take() {
		v.gate.note(ctx, approval.Ignored{Key: v.q.Key, By: a.by(), Via: a.via, Why: why})
	}
}

// consult asks the approver that is registered on a worker, unless it is being asked. What it says is an answer like
// any other; a failure is a deny.
func (v *vigil) consult(why protocol.Occasion) {
	box := v.box
	if v.call == nil || box.consulted {
		return
	}
	box.consulted = true
	req := protocol.ApproverRequest{Question: v.q, Occasion: why, Call: *v.call, Risk: v.risk}
	req.Question.Input = nil
	key := v.q.Key
	workflow.GoNamed(v.life, "assent approver "+key, func(ctx workflow.Context) {
		resp, err := v.gate.approver(ctx, req)
		box.consulted = false
		switch {
		case ctx.Err() != nil, err == nil && resp.Unavailable:
			return
		case err != nil:
			resp = protocol.ApproverResponse{Decision: approval.Deny, Reason: "the approver failed: " + short(err.Error(), 500)}
		}
		v.gate.take(ctx, approval.Resolution{Key: key, Decision: resp.Decision, By: resp.By, Reason: resp.Reason}, viaApprover)
	})
}

// approver runs the activity that asks it.
func (g *gate) approver(ctx workflow.Context, req protocol.ApproverRequest) (protocol.ApproverResponse, error) {
	var resp protocol.ApproverResponse
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           workflow.GetInfo(ctx).TaskQueueName,
		StartToCloseTimeout: slowDecision, HeartbeatTimeout: heartbeat,
		// A worker that was lost meanwhile has said nothing.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 10,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorStore}},
		Summary: fmt.Sprintf("%s · ask approver, %s", label(req.Call.Name), req.Occasion),
	})
	return resp, recorded(ctx, workflow.ExecuteActivity(ctx, protocol.ActivityAskApprover, req), &resp)
}
