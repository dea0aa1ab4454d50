package follow

import (
	"slices"
	"strings"
	"time"

	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// What the SDK calls the marker of a local activity and the parts of its details.
const (
	localActivityMarker = "LocalActivity"
	markerData          = "data"
	markerResult        = "result"
)

// wallClock is the summary of the timer that bounds a whole agent.
const wallClock = "wall clock"

// marker reads the record of a decision or of an admission.
func (r *Reader) marker(a *historypb.MarkerRecordedEventAttributes) {
	if a.GetMarkerName() != localActivityMarker {
		return
	}
	var data struct {
		ActivityType string
		// ReplayTime is the workflow's time when it goes on with the result.
		ReplayTime time.Time
	}
	if !r.decode(a.GetDetails()[markerData], &data) {
		return
	}
	if !data.ReplayTime.IsZero() {
		r.clock = data.ReplayTime
	}
	switch result := a.GetDetails()[markerResult]; data.ActivityType {
	case protocol.ActivityDecide:
		var d protocol.DecideResponse
		readable := a.GetFailure() == nil && r.decode(result, &d)
		r.recorded(a.GetFailure(), readable, d)
	case protocol.ActivityDecideTurn:
		var turn protocol.DecideTurnResponse
		readable := a.GetFailure() == nil && r.decode(result, &turn)
		r.recorded(a.GetFailure(), readable, turn.Decisions...)
	case protocol.ActivityAdmit:
		r.admitted("", result, why(a.GetFailure()))
	case protocol.ActivityAttributes, protocol.ActivitySpent:
	case protocol.ActivityContinue:
		var now protocol.ContinueResponse
		if a.GetFailure() == nil && r.decode(result, &now) {
			r.under.RunID = now.RunID
			r.stamped(now.RunID)
		}
	default:
		// A guarded local activity of a team's own leaves nothing else in history.
		r.began(data.ActivityType)
	}
}

// recorded keeps the decisions of a local activity.
func (r *Reader) recorded(f *failurepb.Failure, readable bool, decisions ...protocol.DecideResponse) {
	if !readable {
		// The workflow takes decisions that cannot be had for denies. The record does not say of which calls.
		r.decision(protocol.DecideResponse{Decision: permission.Decision{Verdict: permission.Deny, DecidedBy: permission.ByDefault,
			Failed: true, Reason: "no decision could be had: " + why(f)}})
		return
	}
	for _, d := range decisions {
		if !d.Slow {
			r.decision(d.Whole(&r.under))
		}
	}
}

// judged is a decision of the present batch of markers.
type judged struct {
	at       *historypb.HistoryEvent
	clock    time.Time
	response protocol.DecideResponse
}

// decision keeps a recorded decision until its batch is complete.
func (r *Reader) decision(d protocol.DecideResponse) {
	out := Decided{CallID: d.CallID, Tool: d.Tool, Decision: d.Decision, Drift: d.Drift}
	out.Input, out.InputRef = r.input(d.CallID)
	r.decided[d.CallID] = out
	r.batch = append(r.batch, judged{r.now, r.clock, d})
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
	r.clock = time.Time{}
	for _, j := range batch {
		r.now = j.at
		if j.clock.After(r.clock) {
			// Its question is put after all those before it.
			r.clock = j.clock
		}
		if j.response.Drift == "" && j.response.Decision.Verdict == permission.Ask {
			r.ask(r.question(j.response), j.response.Approval)
		}
	}
}

// question is what a decision to ask leads to.
func (r *Reader) question(d protocol.DecideResponse) Question {
	q := Question{CallID: d.CallID, Tool: d.Tool, Decision: d.Decision, Agent: r.agentType, RequestedBy: r.requestedBy,
		Seal: approval.Seal{RunID: d.RunID, ContentKey: d.ContentKey, InputDigest: d.InputDigest, ContractHash: r.contracts[d.Tool],
			PolicyDigest: d.Decision.PolicyDigest}}
	if r.anew && d.ContentKey != "" {
		// A run that was begun anew gives none of the keys of the run before.
		q.Seal.ContentKey = approval.InRun(d.ContentKey, d.RunID)
	}
	if q.Input, q.InputRef = r.input(d.CallID); d.Decision.Modified {
		q.Input, q.InputRef = d.Decision.Input, d.InputRef
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
func (r *Reader) ask(q Question, policy *permission.ApprovalPolicy) {
	if len(q.Seal.ContentKey) < minContentKey {
		return
	}
	w := &waiting{Question: q}
	if policy != nil {
		w.policy = *policy
	}
	w.AskedAt, w.Approvers = r.clock, w.policy.Approvers
	w.reminded = w.AskedAt
	if w.policy.Deadline > 0 {
		at := w.AskedAt.Add(w.policy.Deadline)
		w.Deadline = &at
	}
	w.Key = r.ledger.Open(w.Approval()).Key
	r.open[w.Key] = w
	told := w.Question
	r.tell(Event{Kind: ApprovalPending, Question: &told})
}
