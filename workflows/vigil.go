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
	key     string
	answers []answer
	// revoked says that one of them is a revoke.
	revoked bool
	// consulted is true while the approver is asked. It is not the vigil's: that of a void answer still ends when the next one
	// asks.
	consulted bool
	// wake is set while a coroutine waits.
	wake workflow.Settable
	// expiry is nil if the question does not expire.
	expiry *expiry
	// vigil waits for what comes; nil before it begins.
	vigil *vigil
	// reminded is set for a question of the run before: when people were last told of it.
	reminded *time.Time
}

// expiry rings at the deadline of a question, whatever its call does. It ends with the question by stop.
type expiry struct {
	workflow.Future
	life workflow.Context
	stop func()
}

// quiet reports whether its call waits, and nothing has come for it.
func (b *mailbox) quiet() bool {
	return b.vigil != nil && b.vigil.asleep && !b.vigil.stirred() && !b.consulted
}

func newMailbox(ctx workflow.Context, q approval.Approval) *mailbox {
	b := &mailbox{key: q.Key}
	b.open(ctx, q)
	return b
}

// open lets the deadline of its question ring.
func (b *mailbox) open(ctx workflow.Context, q approval.Approval) {
	if q.Deadline != nil {
		b.expiry = &expiry{}
		b.expiry.life, b.expiry.stop = workflow.WithCancel(ctx)
		b.expiry.Future = ring(b.expiry.life, q, *q.Deadline, approval.AtDeadline)
	}
}

// box is the mailbox of an open question, or nil.
func (g *gate) box(key string) *mailbox {
	for _, b := range g.mail {
		if b.key == key {
			return b
		}
	}
	return nil
}

// unbox takes a mailbox away; its deadline rings no more.
func (g *gate) unbox(b *mailbox) {
	g.mail = remove(g.mail, b)
	if b.expiry != nil {
		b.expiry.stop()
	}
}

// ring sets the timer of an occasion.
func ring(ctx workflow.Context, q approval.Approval, at time.Time, what approval.Occasion) workflow.Future {
	return workflow.NewTimerWithOptions(ctx, at.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: label(q.Key) + " · " + string(what)})
}

// late reports whether the deadline has passed in history, before whatever comes now.
func (b *mailbox) late() bool {
	return b.expiry != nil && b.expiry.IsReady() && b.expiry.life.Err() == nil
}

// stirred reports whether there is something to look at.
func (b *mailbox) stirred() bool { return len(b.answers) > 0 || b.late() }

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
// without an approver no activity. It may last for days, so it keeps little: the ledger has the question, and what was asked
// about the call is made anew when an answer comes.
type vigil struct {
	gate *gate
	// box is that of the question as it stands, about the call that req and d are about.
	box *mailbox
	req func() protocol.DecideRequest
	d   *protocol.DecideResponse
	// reminded is when people were last told of the question.
	reminded time.Time

	// ctx is that of the run or of the call.
	ctx workflow.Context
	// begun is nil until the vigil begins something.
	begun *begun
	// asleep says that the question waits, and the board knows.
	asleep bool
}

// begun is what ends with a vigil, by stop: it lives in the context life.
type begun struct {
	life workflow.Context
	stop func()
	// timer rings at the next occasion; nil while none is set.
	timer    workflow.Future
	occasion approval.Occasion
}

// vigil begins to wait for the answers to the question of a key.
func (g *gate) vigil(ctx workflow.Context, key string, req func() protocol.DecideRequest, d *protocol.DecideResponse) *vigil {
	v := &vigil{gate: g, box: g.box(key), req: req, d: d}
	v.start(ctx)
	return v
}

// question is the open question as it stands.
func (v *vigil) question() approval.Approval {
	q, _ := v.gate.ledger.Question(v.box.key)
	return q
}

// again puts the question once more, in this run.
func (v *vigil) again(runID string) {
	v.end()
	ctx, d := v.ctx, *v.d
	d.RunID = runID
	*v = vigil{gate: v.gate, box: v.gate.box(v.gate.question(ctx, v.req(), d)), req: v.req, d: &d}
	v.start(ctx)
}

// end ends what the vigil has begun.
func (v *vigil) end() {
	if v.begun != nil {
		v.begun.stop()
	}
}

// alive is what ends with the vigil.
func (v *vigil) alive() *begun {
	if v.begun == nil {
		v.begun = &begun{}
		v.begun.life, v.begun.stop = workflow.WithCancel(v.ctx)
	}
	return v.begun
}

// armed reports whether a timer is set.
func (v *vigil) armed() bool { return v.begun != nil && v.begun.timer != nil }

// rung reports whether that timer has come to its end.
func (v *vigil) rung() bool { return v.armed() && v.begun.timer.IsReady() }

func (v *vigil) start(ctx workflow.Context) {
	v.ctx, v.reminded = ctx, v.question().AskedAt
	v.box.vigil = v
	if v.box.reminded != nil {
		// The run before has asked.
		v.reminded = *v.box.reminded
		return
	}
	v.consult(protocol.OccasionAsked)
}

// stirred reports whether there is something to look at.
func (v *vigil) stirred() bool {
	return v.box.stirred() || v.rung()
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
		case v.box.late() && rang(v.box.expiry.Get(ctx, nil)):
			return answer{}, approval.Expired, false
		case v.rung():
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
	if v.armed() {
		sel.AddFuture(v.begun.timer, func(workflow.Future) {})
	}
	if e := v.box.expiry; e != nil {
		sel.AddFuture(e.Future, func(workflow.Future) {})
	}
	sel.Select(ctx)
	v.box.wake = nil
}

// arm sets the timer for what comes before the deadline.
func (v *vigil) arm(ctx workflow.Context) {
	if v.armed() {
		return
	}
	q := v.question()
	at, what := q.Upcoming(v.policy(), v.reminded)
	if what == "" || q.Deadline != nil && !at.Before(*q.Deadline) {
		return
	}
	b := v.alive()
	b.occasion, b.timer = what, ring(b.life, q, at, what)
}

// policy says how to ask.
func (v *vigil) policy() permission.ApprovalPolicy {
	if v.d.Approval == nil {
		return permission.ApprovalPolicy{}
	}
	return *v.d.Approval
}

// rings acts on a timer.
func (v *vigil) rings(ctx workflow.Context) {
	// Timers fill a history like signals.
	v.gate.heard++
	what, rung := v.begun.occasion, rang(v.begun.timer.Get(ctx, nil))
	v.begun.timer, v.begun.occasion = nil, ""
	now, q := workflow.Now(ctx), v.question()
	switch {
	case !rung:
	case what == approval.AtEscalation:
		q.Escalate(now, v.policy().Escalate.Groups)
		v.tell(ctx, q, MetricEscalations, "assent: nobody has answered, more people are asked", "groups", q.EscalatedTo)
		v.consult(protocol.OccasionEscalated)
	default:
		q.Reminded++
		v.reminded = now
		v.tell(ctx, q, MetricReminders, "assent: a call still waits for an answer", "reminder", q.Reminded)
		v.consult(protocol.OccasionReminded)
	}
}

// Metrics of questions that wait, by tool.
const (
	MetricReminders   = "assent_approval_reminders"
	MetricEscalations = "assent_approval_escalations"
)

// tell makes a change of the question known: on the workflow's page, in the log and in a metric.
func (v *vigil) tell(ctx workflow.Context, q approval.Approval, metric, msg string, keyvals ...any) {
	v.changed(ctx, q)
	workflow.GetLogger(ctx).Warn(msg, append([]any{"key", q.Key, "tool", q.Tool, "asked", q.AskedAt}, keyvals...)...)
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{"tool": q.Tool}).Counter(metric).Inc(1)
}

func (v *vigil) changed(ctx workflow.Context, q approval.Approval) {
	v.gate.ledger.Update(q)
	v.gate.board.changed(q.Key)
	v.gate.board.details(ctx, v.gate.ledger)
}

// count adds an allow that is not enough.
func (v *vigil) count(ctx workflow.Context, vote approval.Vote) {
	q := v.question()
	q.Votes = append(slices.Clone(q.Votes), vote)
	v.reopen()
	v.changed(ctx, q)
}

// uncount notes an allow of somebody who cannot give one.
func (v *vigil) uncount(ctx workflow.Context, a answer, why string) {
	v.gate.note(ctx, approval.Ignored{Key: v.box.key, By: a.by(), Via: a.via, Why: "it does not count: " + why})
	v.reopen()
	v.changed(ctx, v.question())
}

// reopen takes answers again, unless some wait already.
func (v *vigil) reopen() {
	if len(v.box.answers) == 0 {
		v.gate.ledger.Reopen(v.box.key)
	}
}

// dismiss notes the answers that wait and will not be looked at.
func (v *vigil) dismiss(ctx workflow.Context, why string) {
	for a, ok := v.box.take(); ok; a, ok = v.box.take() {
		v.gate.note(ctx, approval.Ignored{Key: v.box.key, By: a.by(), Via: a.via, Why: why})
	}
}

// consult asks the approver that is registered on a worker, unless it is being asked. What it says is an answer like
// any other; a failure is a deny.
func (v *vigil) consult(why protocol.Occasion) {
	box := v.box
	if !v.d.Approver || box.consulted {
		return
	}
	box.consulted = true
	req, key := v.approverRequest(why), v.box.key
	workflow.GoNamed(v.alive().life, "assent approver "+key, func(ctx workflow.Context) {
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

// approverRequest is what an approver is told.
func (v *vigil) approverRequest(why protocol.Occasion) protocol.ApproverRequest {
	req := v.req()
	input, ref := finalInput(req, *v.d)
	agent := req.Subject.Agent
	out := protocol.ApproverRequest{Question: v.question(), Occasion: why, Risk: req.Tool.Risk,
		Call: tool.Call{ID: req.CallID, Name: req.Tool.Name, Input: input, InputRef: ref, ContractHash: req.Tool.ContractHash,
			Source: req.Tool.Source, Agent: &agent, Dir: req.Subject.Dir, Isolation: req.Subject.Isolation, Store: req.Store, Modified: v.d.Decision.Modified}}
	out.Question.Input = nil
	return out
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
