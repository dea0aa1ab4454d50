package verify

import (
	"github.com/assent-dev/assent/permission"
)

// Kind names what is wrong with a history.
type Kind string

// The kinds of findings.
const (
	// NoGrant is a tool that was scheduled without the header that permits it.
	NoGrant Kind = "no-grant"
	// NoDecision is a call on which nothing in history decided before it was scheduled.
	NoDecision Kind = "no-decision"
	// Denied is a call that went on although it was decided, or answered, against.
	Denied Kind = "denied"
	// NoAnswer is a call that was asked about and went on without an admitted answer that allows it, or on an admission
	// that no recorded answer stands behind.
	NoAnswer Kind = "no-answer"
	// VoidAnswer is a call that went on by an answer to a question of another run.
	VoidAnswer Kind = "void-answer"
	// OtherInput is a call whose arguments are not those that were decided on.
	OtherInput Kind = "other-input"
	// OtherContract is a call of another version of the tool than the one that was frozen.
	OtherContract Kind = "other-contract"
	// OtherPolicy is a grant that names another policy than its decision.
	OtherPolicy Kind = "other-policy"
	// OtherCall is a grant, or an approval, of another call.
	OtherCall Kind = "other-call"
	// OtherRun is a call that ran, or was decided, in another run than it says.
	OtherRun Kind = "other-run"
	// OtherState is a run that took over something else than the run before left.
	OtherState Kind = "other-state"
	// OtherQuestion is a question that a run took over and that the run before had not left open like that.
	OtherQuestion Kind = "other-question"
	// UsedTwice is a permission by which a call was scheduled again after it may have run.
	UsedTwice Kind = "used-twice"
	// Revoked is a call that was scheduled after its permission had been revoked.
	Revoked Kind = "revoked"
	// Expired is a call that was answered or began after its time was over.
	Expired Kind = "expired"
	// BadSignature is a grant that no key of the ring has signed, or an answer that is not signed as it was admitted.
	BadSignature Kind = "bad-signature"
	// Unreadable is an event that had to be read and could not be.
	Unreadable Kind = "unreadable"
	// Incomplete is a history in which events are missing or out of order.
	Incomplete Kind = "incomplete"
)

// Finding is one violation, at one event.
type Finding struct {
	Kind Kind `json:"kind"`
	// EventID is the event that should not be there, or 0 if the history as a whole is wrong.
	EventID int64  `json:"eventId"`
	CallID  string `json:"callId,omitempty"`
	Tool    string `json:"tool,omitempty"`
	// Why says in words what is wrong, with the other events that show it.
	Why string `json:"why"`
}

// State says what a history can show.
type State string

// The states of a history.
const (
	// Gated is a run of an agent, or of a workflow behind the guard.
	Gated State = "gated"
	// Ungated is a run that began while its worker was losing the guard: it says itself that nothing in it is guarded.
	Ungated State = "ungated"
	// Foreign is a run that knows nothing of the gate: it began before the guard, or has nothing to do with Assent.
	Foreign State = "foreign"
)

// Call is one use of a permission: a tool's activity, local activity, child workflow or Nexus operation, or the run of a
// guarded workflow type itself.
type Call struct {
	CallID string `json:"callId"`
	Tool   string `json:"tool"`
	// EventID is where the call was scheduled; a local activity has the event of its end.
	EventID int64 `json:"eventId"`
	// DecidedBy is the layer whose decision is recorded at DecisionID, with its verdict: allow or ask.
	Verdict    permission.Verdict `json:"verdict"`
	DecidedBy  permission.Decider `json:"decidedBy,omitempty"`
	DecisionID int64              `json:"decisionEventId,omitempty"`
	// Key and AdmissionID are those of the answer, if somebody was asked. By names all who allowed it, with commas; Signed
	// says that all names are recorded as proved.
	Key         string `json:"key,omitempty"`
	By          string `json:"by,omitempty"`
	Signed      bool   `json:"signed,omitempty"`
	AdmissionID int64  `json:"admissionEventId,omitempty"`
	Edited      bool   `json:"edited,omitempty"`
	// Refused says that the worker did not let it run.
	Refused bool `json:"refused,omitempty"`
}

// Report is what one history shows.
type Report struct {
	WorkflowID   string `json:"workflowId"`
	RunID        string `json:"runId"`
	WorkflowType string `json:"workflowType"`
	State        State  `json:"state"`
	// Ended says how the run closed; empty while it goes on, or when the history stops before its end.
	Ended  string `json:"ended,omitempty"`
	Events int    `json:"events"`
	// ContinuedFrom is the run whose state an agent's run took over. Trusted says that the history of that run was not there
	// to hold the state against.
	ContinuedFrom string `json:"continuedFrom,omitempty"`
	Trusted       bool   `json:"trusted,omitempty"`
	// Decided counts the calls that were decided on, Calls lists those that were scheduled.
	Decided int    `json:"decided"`
	Calls   []Call `json:"calls"`
	// Findings is empty if every call was permitted.
	Findings []Finding `json:"findings"`
	// Unchecked says what this history, or what was given along with it, cannot show.
	Unchecked []string `json:"unchecked"`
}

// OK reports that nothing was found.
func (r Report) OK() bool { return len(r.Findings) == 0 }
