package follow

import (
	"errors"
	"maps"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

const (
	viaSignal   = "signal"
	viaUpdate   = "update"
	viaTimer    = "timer"
	viaWorkflow = "workflow"
)

// What the SDK calls the marker of a local activity and the parts of its details.
const (
	localActivityMarker = "LocalActivity"
	markerData          = "data"
	markerResult        = "result"
)

// deadlineSuffix ends the summary of a question's timer, after its key.
const deadlineSuffix = " · deadline"

// wallClock is the summary of the timer that bounds a whole agent.
const wallClock = "wall clock"

// marker reads the record of a decision or of an admission.
func (r *Reader) marker(a *historypb.MarkerRecordedEventAttributes) {
	if a.GetMarkerName() != localActivityMarker {
		return
	}
	var data struct{ ActivityType string }
	if !r.decode(a.GetDetails()[markerData], &data) {
		return
	}
	switch result := a.GetDetails()[markerResult]; data.ActivityType {
	case protocol.ActivityDecide:
		var d protocol.DecideResponse
		if a.GetFailure() != nil || !r.decode(result, &d) {
			// The workflow takes a decision that cannot be had for a deny. The record does not say of which call.
			d = protocol.DecideResponse{Decision: permission.Decision{Verdict: permission.Deny, DecidedBy: permission.ByDefault,
				Failed: true, Reason: "no decision could be had: " + why(a.GetFailure())}}
		}
		if !d.Slow {
			r.decision(d)
		}
	case protocol.ActivityAdmit:
		r.admitted("", result, why(a.GetFailure()))
	}
}

// judged is a decision of the present batch of markers.
type judged struct {
	at       *historypb.HistoryEvent
	response protocol.DecideResponse
}

// decision keeps a recorded decision until its batch is complete.
func (r *Reader) decision(d protocol.DecideResponse) {
	out := Decided{CallID: d.CallID, Tool: d.Tool, Decision: d.Decision, Drift: d.Drift}
	out.Input, out.InputRef = r.input(d.CallID)
	r.decided[d.CallID] = out
	r.batch = append(r.batch, judged{r.now, d})
}

// settle tells of the decisions of a batch and opens its questions. Local activities finish in any order; the
// workflow opens questions in the model's order, on which their keys depend.
func (r *Reader) settle() {
	batch := r.batch
	r.batch = nil
	slices.SortStableFunc(batch, func(a, b judged) int { return compareCalls(a.response.CallID, b.response.CallID) })
	for _, j := range batch {
		r.now = j.at
		out := r.decided[j.response.CallID]
		r.tell(Event{Kind: Decision, Decision: &out})
	}
	for _, j := range batch {
		r.now = j.at
		if j.response.Drift == "" && j.response.Decision.Verdict == permission.Ask {
			r.ask(r.question(j.response))
		}
	}
}

// question is what a decision to ask leads to.
func (r *Reader) question(d protocol.DecideResponse) Question {
	q := Question{contentKey: d.ContentKey, CallID: d.CallID, Tool: d.Tool, Decision: d.Decision, AskedAt: r.now.GetEventTime().AsTime()}
	if q.Input, q.InputRef = r.input(d.CallID); d.Decision.Modified {
		q.Input, q.InputRef = d.Decision.Input, d.InputRef
	}
	if d.Approval != nil && d.Approval.Deadline > 0 {
		at := q.AskedAt.Add(d.Approval.Deadline)
		q.Deadline = &at
	}
	return q
}

// compareCalls orders t2.10 after t2.9.
func compareCalls(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// minContentKey is the fewest hex digits that a key may need.
const minContentKey = 64

// ask opens a question and tells of it.
func (r *Reader) ask(q Question) {
	if len(q.contentKey) < minContentKey {
		return
	}
	a := r.ledger.Open(approval.Approval{Tool: q.Tool, CallID: q.CallID, Seal: approval.Seal{ContentKey: q.contentKey}})
	q.Key = a.Key
	r.open[q.Key] = q
	r.tell(Event{Kind: ApprovalPending, Question: &q})
}

// admitted tells how a question was closed by its answer. A void answer was given to another run of the same history:
// then the question opens again. key is empty where only an admission itself says what it is about.
func (r *Reader) admitted(key string, result *commonpb.Payloads, failed string) {
	var resp protocol.AdmitResponse
	if failed != "" || !r.decode(result, &resp) {
		if key == "" {
			key = r.onlyAnswered()
		}
		resp = protocol.AdmitResponse{Key: key, How: approval.Denied, Reason: "the answer could not be admitted: " + failed}
	}
	if resp.Slow {
		// An activity says more.
		return
	}
	q, open := r.open[resp.Key]
	r.close(approval.Closed{Key: resp.Key, How: resp.How, By: resp.By, Reason: resp.Reason, Via: r.answers[resp.Key].Via})
	if resp.How == approval.Void && open {
		asked := r.now.GetEventTime().AsTime()
		if q.Deadline != nil {
			at := asked.Add(q.Deadline.Sub(q.AskedAt))
			q.Deadline = &at
		}
		q.AskedAt = asked
		r.ask(q)
	}
}

// withdrawn closes the question whose answer an activity admits: the workflow does not wait for one that it cancels.
func (r *Reader) withdrawn(id int64) {
	s := r.scheduled[id]
	if s == nil || s.kind != protocol.ActivityAdmitSlow {
		return
	}
	delete(r.scheduled, id)
	c := approval.Closed{How: approval.Cancelled, Via: viaWorkflow}
	if r.dropped != nil {
		c = *r.dropped
	}
	c.Key = s.key
	r.close(c)
}

// onlyAnswered is the key of the question whose answer is being admitted, if there is exactly one.
func (r *Reader) onlyAnswered() string {
	found := ""
	for key := range r.open {
		if _, ok := r.answers[key]; ok {
			if found != "" {
				return ""
			}
			found = key
		}
	}
	return found
}

// close closes a question that is open.
func (r *Reader) close(c approval.Closed) {
	q, ok := r.open[c.Key]
	if !ok {
		return
	}
	delete(r.open, c.Key)
	c.Tool, c.CallID, c.At = q.Tool, q.CallID, r.now.GetEventTime().AsTime()
	r.ledger.Close(c)
	r.tell(Event{Kind: ApprovalClosed, Closed: &c})
}

// drop closes every question that has no answer under way.
func (r *Reader) drop(c approval.Closed) {
	for _, key := range r.ledger.Keys() {
		c.Key = key
		r.close(c)
	}
}

// dropAll closes every question, at the end of a run.
func (r *Reader) dropAll(c approval.Closed) {
	r.drop(c)
	for _, key := range slices.Sorted(maps.Keys(r.open)) {
		c.Key = key
		r.close(c)
	}
}

// timer closes the question whose deadline has passed, unless its answer came before.
func (r *Reader) timer(summary string) {
	if summary == wallClock {
		r.dropped = &approval.Closed{How: approval.Abandoned, Reason: "the wall-clock limit was reached", Via: viaWorkflow}
	}
	key, ok := strings.CutSuffix(summary, deadlineSuffix)
	if _, answered := r.answers[key]; ok && !answered {
		r.close(approval.Closed{Key: key, How: approval.Expired, Via: viaTimer})
	}
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
	resolutions, err := approval.Decode(r.raw(a.GetInput()), r.ledger.Asked(), r.ledger.Standing())
	if err != nil {
		r.tell(Event{Kind: Answer, Answer: &Answered{Via: viaSignal, Ignored: reason(err)}})
	}
	for _, res := range resolutions {
		r.answer(viaSignal, res)
	}
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
	res, err := approval.Parse(r.raw(in.GetArgs()))
	if err != nil {
		r.tell(Event{Kind: Answer, Answer: &Answered{Via: viaUpdate, Ignored: reason(err)}})
		return
	}
	r.answer(viaUpdate, res)
}

// answer notes the first answer to a question.
func (r *Reader) answer(via string, res approval.Resolution) {
	a := Answered{Via: via, Key: res.Key, Decision: res.Decision, By: res.By, Reason: res.Reason}
	if err := r.ledger.Answer(res.Key); err != nil {
		a.Ignored = err.Error()
	} else {
		r.answers[res.Key] = a
	}
	r.tell(Event{Kind: Answer, Answer: &a})
}
