package follow

import (
	"errors"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

const (
	viaSignal   = "signal"
	viaUpdate   = "update"
	viaApprover = "approver"
	viaTimer    = "timer"
	viaWorkflow = "workflow"
)

// The summary of a question's timer is its key, this, and the occasion.
const beforeOccasion = " · "

const (
	// mostAnswers bounds the answers that wait for one question, and mostVetted the lines that answers add to a run, as
	// the workflow does.
	mostAnswers = 256
	mostVetted  = 100
)

const withCancellation = "the answer came with the cancellation"

// waiting is an open question.
type waiting struct {
	Question
	policy permission.ApprovalPolicy
	// answers are those that came and have no effect yet, in order. The first of them is being admitted.
	answers []Answered
	// late says that the deadline has passed.
	late bool
	// armed is true while another timer runs; rung is the occasion of one that has fired, and that the workflow has not
	// acted on.
	armed bool
	rung  approval.Occasion
	// reminded is when the next reminder is counted from.
	reminded time.Time
}

// signal tells of an answer that came as a signal, with what the workflow makes of it.
func (r *Reader) signal(a *historypb.WorkflowExecutionSignaledEventAttributes) {
	own := protocol.SignalApproval
	if !r.agent {
		own = protocol.GuardSignalApproval
	}
	if a.GetSignalName() != own {
		r.tell(Event{Kind: Signal, Note: a.GetSignalName()})
		return
	}
	resolutions, err := approval.Decode(r.written(a.GetInput()), r.ledger.Asked(), r.ledger.Standing())
	many := len(a.GetInput().GetPayloads()) > 1
	if err != nil {
		said := Answered{Via: viaSignal, Ignored: reason(err)}
		var bad *approval.DecodeError
		if errors.As(err, &bad) {
			said.Key, said.By = bad.Key, bad.By
			if how := r.ledger.Ended(bad.Key); how != "" {
				said.Ignored += ", it was " + string(how) + " before"
			}
		}
		if many {
			said.Ignored += "; " + onlyFirst
		}
		r.answered(said)
	} else if many {
		r.answered(Answered{Via: viaSignal, Ignored: onlyFirst})
	}
	for _, res := range resolutions {
		r.answer(viaSignal, res)
	}
}

const onlyFirst = "more than one came in a signal, only the first counts"

// answered tells of an answer as it arrived.
func (r *Reader) answered(a Answered) {
	if a.Ignored != "" {
		r.ledger.Ignore(approval.Ignored{At: r.clock, Key: a.Key, By: a.By, Why: a.Ignored, Via: a.Via})
	}
	r.tell(Event{Kind: Answer, Answer: &a})
}

func reason(err error) string {
	var d *approval.DecodeError
	if errors.As(err, &d) {
		return d.Why
	}
	return err.Error()
}

// update tells of an answer that came as an update.
func (r *Reader) update(a *historypb.WorkflowExecutionUpdateAcceptedEventAttributes) {
	in := a.GetAcceptedRequest().GetInput()
	if name := in.GetName(); name != protocol.UpdateResolve && name != protocol.GuardUpdateResolve {
		return
	}
	res, err := approval.Parse(r.written(in.GetArgs()))
	if err != nil {
		r.answered(Answered{Via: viaUpdate, Ignored: reason(err)})
		return
	}
	r.answer(viaUpdate, res)
}

// consulted keeps what an approver said until the workflow has taken it: signals of the same task come first.
func (r *Reader) consulted(key string, result *commonpb.Payloads, failed string) {
	var resp protocol.ApproverResponse
	if failed != "" || !r.decode(result, &resp) {
		resp = protocol.ApproverResponse{Decision: approval.Deny, Reason: "the approver failed: " + failed}
	}
	if r.open[key] != nil && !resp.Unavailable {
		r.said = append(r.said, approval.Resolution{Key: key, Decision: resp.Decision, By: resp.By, Reason: resp.Reason})
	}
}

// answer puts an answer behind those that came before it, as the workflow does.
func (r *Reader) answer(via string, res approval.Resolution) {
	a := Answered{Via: via, Key: res.Key, Decision: res.Decision, By: res.By, Reason: res.Reason, Edited: len(res.Input) > 0,
		ExpiresAt: res.ExpiresAt}
	if res.Signature != nil {
		a.Signed = res.Signature.KeyID
	}
	w := r.open[res.Key]
	switch {
	case w == nil && res.Decision == approval.Revoke:
		r.revoke(a)
		return
	case w == nil:
		a.Ignored = (&approval.StateError{Key: res.Key, How: r.ledger.Ended(res.Key)}).Error()
	case w.late && (len(w.answers) == 0 || res.Decision != approval.Revoke):
		a.Ignored = "its deadline has passed"
	case len(w.answers) >= mostAnswers && (res.Decision != approval.Revoke || slices.ContainsFunc(w.answers, revokes)):
		a.Ignored = "too many answers to this question came at once"
	default:
		// The first one takes the question from the list of those that can be answered.
		_ = r.ledger.Answer(res.Key)
		w.answers = append(w.answers, a)
	}
	r.answered(a)
}

// admitted tells what became of an answer. key is empty where only an admission itself says what it is about.
func (r *Reader) admitted(key string, result *commonpb.Payloads, failed string) {
	var resp protocol.AdmitResponse
	if failed != "" || !r.decode(result, &resp) {
		if key == "" {
			key = r.onlyAnswered()
		}
		resp = protocol.AdmitResponse{Key: key, How: approval.Denied, Reason: "the answer could not be admitted: " + failed}
	}
	w := r.open[resp.Key]
	if resp.Slow || w == nil {
		// An activity says more, or the question was closed by a cancellation that came first.
		return
	}
	var a Answered
	if len(w.answers) > 0 {
		a, w.answers = w.answers[0], w.answers[1:]
	}
	now := r.clock
	c := approval.Closed{Key: resp.Key, How: resp.How, By: resp.By, Signed: resp.Signed, Reason: resp.Reason, Via: a.Via, Vetted: resp.Vetted}
	vote := approval.Vote{By: resp.By, Signed: resp.Signed, Reason: resp.Reason, At: now, ExpiresAt: a.ExpiresAt, Via: a.Via}
	switch resp.How {
	case approval.Counted:
		w.Votes = append(slices.Clone(w.Votes), vote)
		r.tell(Event{Kind: ApprovalVote, Progress: w.progress(&vote)})
		r.reopen(w)
	case approval.Uncounted:
		r.ignored(w.Key, a, "it does not count: "+resp.Reason)
		r.reopen(w)
	case approval.Allowed:
		c.Edited = len(resp.Input) > 0 || resp.InputRef != nil
		c.Join(append(slices.Clone(w.Votes), vote))
		r.vet(resp)
		r.close(c)
		if !r.agent && w.Tool == r.agentType {
			// A guarded workflow begins at once, and is cancelled like any other.
			r.began(w.Tool)
		}
	case approval.Void:
		// It was given to another run of the same history: the question opens again under a new key.
		r.close(c)
		again := w.Question
		again.Seal.RunID, again.Run = resp.RunID, ""
		again.Votes, again.Reminded, again.Escalated, again.EscalatedTo = nil, 0, nil, nil
		r.ask(again, &w.policy)
	case approval.Denied, approval.Revoked, approval.Expired:
		if resp.DecidedBy != "" {
			r.overruled = &Overruled{DecidedBy: resp.DecidedBy, Invalid: resp.Invalid}
		}
		r.close(c)
	default:
		c.How, c.Reason = approval.Denied, "the answer was admitted as nothing that is known: "+string(resp.How)
		r.close(c)
	}
}

// vet tells why an `always` adds no line.
func (r *Reader) vet(resp protocol.AdmitResponse) {
	why := resp.NotVetted
	switch {
	case resp.Vetted != nil && r.vetted < mostVetted:
		r.vetted++
	case resp.Vetted != nil:
		why = "too many lines hold for this run already"
	}
	if why != "" {
		r.ignored(resp.Key, Answered{By: resp.By, Via: viaWorkflow}, "always adds no line: "+why+"; the answer is for this call alone")
	}
}

// reopen goes on with a question whose answer did not close it.
func (r *Reader) reopen(w *waiting) {
	if len(w.answers) > 0 {
		return
	}
	r.ledger.Reopen(w.Key)
	r.rings(w)
}

// onlyAnswered is the key of the question whose answer is being admitted, if there is exactly one.
func (r *Reader) onlyAnswered() string {
	found := ""
	for key, w := range r.open {
		if len(w.answers) > 0 {
			if found != "" {
				return ""
			}
			found = key
		}
	}
	return found
}

// withdrawn closes the question whose answer an activity admits: the workflow does not wait for one that it cancels.
func (r *Reader) withdrawn(id int64) {
	s := r.scheduled[id]
	if s == nil || s.kind != protocol.ActivityAdmitSlow {
		return
	}
	delete(r.scheduled, id)
	r.drop(s.key, approval.Closed{How: approval.Cancelled, Via: viaWorkflow})
}

// close closes a question that is open. Whoever came after the answer that closed it is told so.
func (r *Reader) close(c approval.Closed) {
	w := r.open[c.Key]
	if w == nil {
		return
	}
	delete(r.open, c.Key)
	c.Tool, c.CallID, c.At = w.Tool, w.CallID, r.clock
	r.ledger.Close(c)
	r.tell(Event{Kind: ApprovalClosed, Closed: &c, Overruled: r.overruled})
	r.overruled = nil
	for _, a := range w.answers {
		if c.How == approval.Allowed && revokes(a) && !r.revoked[c.Key] {
			// It came while the allow was being admitted.
			r.takeBack(a)
			continue
		}
		r.ignored(c.Key, a, (&approval.StateError{Key: c.Key, How: c.How}).Error())
	}
}

func revokes(a Answered) bool { return a.Decision == approval.Revoke }

// drop closes a question that is given up, with the answers that wait for it.
func (r *Reader) drop(key string, c approval.Closed) {
	w := r.open[key]
	if w == nil {
		return
	}
	for _, a := range w.answers {
		r.ignored(key, a, withCancellation)
	}
	w.answers, c.Key = nil, key
	r.close(c)
}

// dropAll drops every question.
func (r *Reader) dropAll(c approval.Closed) {
	for _, key := range r.ledger.Asked() {
		r.drop(key, c)
	}
}

// ignored tells of an answer that had been taken and changed nothing.
func (r *Reader) ignored(key string, a Answered, why string) {
	i := approval.Ignored{At: r.clock, Key: key, By: a.By, Why: why, Via: a.Via}
	r.ledger.Ignore(i)
	r.tell(Event{Kind: ApprovalIgnored, Ignored: &i})
}

// taskDone does what the workflow did in the task that ended: it takes what approvers said, gives up what was cancelled, and
// then looks at the timers that have fired.
func (r *Reader) taskDone() {
	r.clock = r.taskAt
	said := r.said
	r.said = nil
	r.callsEnded()
	if c := r.dropped; c != nil {
		r.dropAll(*c)
		if !r.agent || c.Reason == environmentLost {
			// The workflow may go on, and ask again.
			r.dropped = nil
		}
		return
	}
	for _, res := range said {
		r.answer(viaApprover, res)
	}
	for _, key := range r.ledger.Asked() {
		if w := r.open[key]; w != nil && len(w.answers) == 0 {
			r.rings(w)
		}
	}
}

func (r *Reader) escalate(w *waiting) {
	var groups []string
	if w.policy.Escalate != nil {
		groups = w.policy.Escalate.Groups
	}
	q := w.Approval()
	q.Escalate(r.clock, groups)
	w.Escalated, w.EscalatedTo, w.Approvers = q.Escalated, q.EscalatedTo, q.Approvers
}

func (w *waiting) progress(vote *approval.Vote) *Progress {
	var escalated *time.Time
	if w.Escalated != nil {
		at := *w.Escalated
		escalated = &at
	}
	return &Progress{Key: w.Key, Vote: vote, Votes: slices.Clone(w.Votes), Needs: w.Approval().Needs(), Approvers: w.Approvers,
		Reminded: w.Reminded, Escalated: escalated, EscalatedTo: w.EscalatedTo}
}
