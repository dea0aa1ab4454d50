package approval

import (
	"encoding/json"
	"time"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// Approval is the open question: one for each asked call, never one for a batch.
type Approval struct {
	// Key names the question; short, typeable, unique in its agent.
	Key  string `json:"key"`
	Tool string `json:"tool"`
	// Input is exactly what will run if the answer is allow. It is shortened only for display.
	Input json.RawMessage `json:"input"`
	// Why says who asks: the layer, the rule and its reason.
	Why       string             `json:"why"`
	DecidedBy permission.Decider `json:"decidedBy"`
	Rule      *permission.Rule   `json:"rule,omitempty"`
	Segments  []argv.Segment     `json:"segments,omitempty"`
	AskedAt   time.Time          `json:"askedAt"`
	// Deadline is when the question closes as expired; absent means never.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Approvers says whose allow counts, and how many are needed; nil means anybody's, once. An escalation adds groups.
	Approvers *permission.Approvers `json:"approvers,omitempty"`
	// RequestedBy is who asked for the run. Where there are Approvers that principal is none of them.
	RequestedBy string `json:"requestedBy,omitempty"`
	// Votes are the allows that count so far.
	Votes []Vote `json:"votes,omitempty"`
	// Reminded counts the reminders that were given.
	Reminded int `json:"reminded,omitempty"`
	// Escalated is when nobody had answered for so long that more people were asked, EscalatedTo who they are.
	Escalated   *time.Time `json:"escalated,omitempty"`
	EscalatedTo []string   `json:"escalatedTo,omitempty"`
	// Agent is the agent type that asks, or the workflow type outside agents.
	Agent string `json:"agent,omitempty"`
	// CallID is the call that waits.
	CallID string `json:"callId"`
	// Seal binds an answer to what was asked.
	Seal Seal `json:"seal"`
	// Run is the run in which the question stands now, if the one that asked has continued as new. It is no part of what is
	// signed: an answer to a question is good as long as the question is.
	Run string `json:"run,omitempty"`
}

// StandsIn is the run whose answers the question takes.
func (a Approval) StandsIn() string {
	if a.Run != "" {
		return a.Run
	}
	return a.Seal.RunID
}

// Needs is how many distinct principals have to allow the call.
func (a Approval) Needs() int {
	if a.Approvers == nil {
		return 1
	}
	return max(a.Approvers.Min, 1)
}

// Vote is an allow that counts towards the number that is needed.
type Vote struct {
	By string `json:"by,omitempty"`
	// Signed says that By is proved; otherwise it is self-asserted.
	Signed bool      `json:"signed,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// ExpiresAt is as in Resolution; the first of all votes' is that of the call.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Via is signal, update or approver.
	Via string `json:"via"`
}

// Seal is what a grant must still match when an answer takes effect.
type Seal struct {
	// RunID is the run that asked, as recorded by the decision. After a reset it differs and the answer is void.
	RunID        string `json:"runId"`
	ContentKey   string `json:"contentKey"`
	InputDigest  string `json:"inputDigest"`
	ContractHash string `json:"contractHash"`
	PolicyDigest string `json:"policyDigest"`
}

// Choice is what an answer says.
type Choice string

// The choices. Anything else that names a pending question denies it.
const (
	Allow  Choice = "allow"
	Deny   Choice = "deny"
	Revoke Choice = "revoke"
)

// Resolution is the answer as it travels: a signal's or an update's argument.
type Resolution struct {
	Key      string `json:"key"`
	Decision Choice `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	// By is self-asserted unless Signature is verified.
	By string `json:"by,omitempty"`
	// Input replaces the arguments; it is validated and judged again before it runs.
	Input json.RawMessage `json:"input,omitempty"`
	// Always proposes a vetted line for the segment that asked.
	Always bool `json:"always,omitempty"`
	// ExpiresAt is the last moment at which the call may start.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	Signature *Signature `json:"signature,omitempty"`
}

// How says how a question was closed.
type How string

// The ways in which a question closes.
const (
	Allowed   How = "allowed"
	Denied    How = "denied"
	Revoked   How = "revoked"
	Expired   How = "expired"
	Cancelled How = "cancelled"
	Abandoned How = "abandoned"
	// Void answers were given to another run of the same history; the question opens again under a new key.
	Void How = "void"
)

// What becomes of an allow that does not close its question.
const (
	// Counted allows count, and more are needed.
	Counted How = "counted"
	// Uncounted allows are of somebody who cannot give one. Nothing changes.
	Uncounted How = "uncounted"
)

// Closed is the record of a question that is no longer open.
type Closed struct {
	Key    string    `json:"key"`
	Tool   string    `json:"tool"`
	CallID string    `json:"callId"`
	How    How       `json:"how"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// Via is signal, update, approver, timer or workflow.
	Via string `json:"via"`
	// Edited says that the call was allowed with other arguments than it asked for.
	Edited bool `json:"edited,omitempty"`
	// Signed says that By is proved; otherwise it is self-asserted.
	Signed bool `json:"signed,omitempty"`
	// Votes are all allows, where more than one was needed.
	Votes []Vote `json:"votes,omitempty"`
	// Vetted is the line that `always` proposes: it holds for the rest of this run, and for others when it is written
	// into the policy.
	Vetted *permission.Vetted `json:"vetted,omitempty"`
	// Revoked says who took an allow back, and what came of it.
	Revoked *Revocation `json:"revoked,omitempty"`
}

// Revocation takes back an allow whose call has not ended.
type Revocation struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	Via    string    `json:"via"`
	// Dispatched says that the call was on its way to a worker, or with one: then it was asked to stop.
	Dispatched bool `json:"dispatched,omitempty"`
	// Outcome is the code of the call's result once it has one: DENIED, it never ran; ABORTED, it had begun; anything
	// else, it ended before it heard of it.
	Outcome tool.Code `json:"outcome,omitempty"`
}

// Granted is an allowed call that has not ended, so that the allow can be revoked.
type Granted struct {
	Key    string    `json:"key"`
	Tool   string    `json:"tool"`
	CallID string    `json:"callId"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
	// Dispatched says that the call is on its way to a worker, or with one.
	Dispatched bool `json:"dispatched,omitempty"`
}

// Ignored is an answer that changed nothing, and why.
type Ignored struct {
	At  time.Time `json:"at"`
	Key string    `json:"key,omitempty"`
	// By is what the answer says of who gave it.
	By  string `json:"by,omitempty"`
	Why string `json:"why"`
	Via string `json:"via"`
}

// List is the answer of the approvals query.
type List struct {
	Pending []Approval `json:"pending"`
	// More counts pending questions that are left out because the list would be too large; they are listed when others
	// have been answered.
	More    int       `json:"more,omitempty"`
	Granted []Granted `json:"granted"`
	Closed  []Closed  `json:"closed"`
	Ignored []Ignored `json:"ignored"`
	// Children are the runs that this one has started and that have not ended. Their questions are theirs; an answer that
	// is sent here is taken to the one whose it is.
	Children []Started `json:"children,omitempty"`
}

// Started is a child of a run.
type Started struct {
	WorkflowID   string `json:"workflowId"`
	WorkflowType string `json:"workflowType"`
}
