package follow

import (
	"encoding/json"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// Kind names what happened.
type Kind string

// The kinds of events, and the member of Event that each sets.
const (
	AgentStart      Kind = "agent.start"      // Start
	AgentRestart    Kind = "agent.restart"    // Restart: the environment was lost, and the agent begins anew
	AgentReady      Kind = "agent.ready"      // Ready: tools, models and limits are frozen
	Turn            Kind = "turn"             // Turn
	Said            Kind = "said"             // Said: what a model says in a turn that goes on; not from history
	Decision        Kind = "decision"         // Decision
	ApprovalPending Kind = "approval.pending" // Question
	Answer          Kind = "answer"           // Answer: somebody answered, to whatever effect
	ApprovalClosed  Kind = "approval.closed"  // Closed, and Overruled where a layer kept an allow from taking effect

	ApprovalVote      Kind = "approval.vote"      // Progress: an allow counts, and more are needed
	ApprovalReminder  Kind = "approval.reminder"  // Progress: nobody has answered yet
	ApprovalEscalated Kind = "approval.escalated" // Progress: more people are asked
	ApprovalIgnored   Kind = "approval.ignored"   // Ignored: an answer that had been taken changed nothing
	ApprovalRevoked   Kind = "approval.revoked"   // Revoked: an allow was taken back

	ToolStart       Kind = "tool.start"       // Tool
	ToolEnd         Kind = "tool.end"         // Tool
	Worktree        Kind = "worktree"         // Worktree
	Signal          Kind = "signal"           // Note: the name of a signal that is no answer
	CancelRequested Kind = "cancel.requested" // Note
	Problem         Kind = "problem"          // Note: what keeps the run from going on
	Reset           Kind = "reset"            // Note: the run goes on from an earlier point
	Continued       Kind = "continued"        // Note: the id of the run in whose history it goes on
	ChildStart      Kind = "child.start"      // Child: the run has started an agent
	ChildEnd        Kind = "child.end"        // Child
	AgentEnd        Kind = "agent.end"        // End
)

// Event is one thing that happened to an agent.
type Event struct {
	Kind Kind      `json:"event"`
	Time time.Time `json:"time"`
	// WorkflowID, RunID and EventID say which event of which history this comes from; of Said it is the one that asked for the
	// turn.
	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`
	EventID    int64  `json:"eventId"`

	Start     *Started          `json:"start,omitempty"`
	Ready     *Ready            `json:"ready,omitempty"`
	Restart   *Restart          `json:"restart,omitempty"`
	Turn      *TurnOf           `json:"turn,omitempty"`
	Said      *Saying           `json:"said,omitempty"`
	Decision  *Decided          `json:"decision,omitempty"`
	Question  *Question         `json:"question,omitempty"`
	Answer    *Answered         `json:"answer,omitempty"`
	Closed    *approval.Closed  `json:"closed,omitempty"`
	Progress  *Progress         `json:"progress,omitempty"`
	Ignored   *approval.Ignored `json:"ignored,omitempty"`
	Revoked   *Revoked          `json:"revoked,omitempty"`
	Overruled *Overruled        `json:"overruled,omitempty"`
	Tool      *Call             `json:"tool,omitempty"`
	Worktree  *Tree             `json:"worktree,omitempty"`
	Child     *Child            `json:"child,omitempty"`
	Note      string            `json:"note,omitempty"`
	End       *Ended            `json:"end,omitempty"`
}

// Started is how an agent begins.
type Started struct {
	// WorkflowType differs from protocol.WorkflowAgent in workflows that are not agents; then the rest is empty.
	WorkflowType string `json:"workflowType"`
	TaskQueue    string `json:"taskQueue"`
	AgentType    string `json:"agentType,omitempty"`
	Label        string `json:"label,omitempty"`
	// RequestedBy is who asked for the run, as its starter says.
	RequestedBy string `json:"requestedBy,omitempty"`
	Prompt      string `json:"prompt,omitempty"`
	// Parent is the run that started this one as its child, if one did.
	Parent *Run `json:"parent,omitempty"`
	// ContinuedFrom is the run that continued as this one.
	ContinuedFrom string `json:"continuedFrom,omitempty"`
	// RunsBefore counts the runs of the agent before this one.
	RunsBefore int                 `json:"runsBefore,omitempty"`
	Isolation  *worktree.Isolation `json:"isolation,omitempty"`
}

// Run names one run of a workflow.
type Run struct {
	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`
}

// Ready is what is frozen for the agent's life.
type Ready struct {
	Models      []string           `json:"models"`
	Tools       []string           `json:"tools"`
	ToolsetHash string             `json:"toolsetHash"`
	Limits      protocol.Limits    `json:"limits"`
	Isolation   worktree.Isolation `json:"isolation"`
	Store       string             `json:"store"`
}

// Restart is a new life of an agent, from its prompt and in a new worktree. What it spent before stays spent.
type Restart struct {
	// Number counts them from 1.
	Number int    `json:"number"`
	Lost   string `json:"lost"`
}

// TurnOf is one turn of the model.
type TurnOf struct {
	// Number counts from 1.
	Number  int                  `json:"number"`
	Model   string               `json:"model"`
	Text    string               `json:"text,omitempty"`
	Calls   []protocol.Requested `json:"calls"`
	Dropped int                  `json:"dropped,omitempty"`
	Stop    model.Stop           `json:"stop"`
	Usage   model.Usage          `json:"usage"`
	CostUSD float64              `json:"costUSD"`
	// Took is how long the model took, without attempts that failed before.
	Took time.Duration `json:"tookNs,omitempty"`
	// Unpriced says that the cost is unknown.
	Unpriced bool `json:"unpriced,omitempty"`
	// Compacted is set instead of a turn when older turns were summarised; the turn of this number comes next.
	Compacted *protocol.Compacted `json:"compacted,omitempty"`
	// Transcript is the last node of the conversation after it; it has no JSON form.
	Transcript blob.Ref `json:"-"`
	// OverBudget says why the turn was not begun.
	OverBudget string `json:"overBudget,omitempty"`
	// Error is set instead of all others but Number when the model could not be had.
	Error string `json:"error,omitempty"`
}

// Saying is more of what a model says. The Turn that follows has all of it, so that nobody needs these.
type Saying struct {
	// Number is the turn's. Attempt and Request count from 1; a later one begins anew, and what was said in an earlier one counts
	// for nothing.
	Number  int    `json:"number"`
	Attempt int    `json:"attempt"`
	Request int    `json:"request"`
	Model   string `json:"model"`
	// Summary says that it summarises older turns.
	Summary bool `json:"summary,omitempty"`
	// Text and Thinking go on where the ones before ended.
	Text     *Piece `json:"text,omitempty"`
	Thinking *Piece `json:"thinking,omitempty"`
	// Calls are all that it writes so far.
	Calls []protocol.SpeechCall `json:"calls,omitempty"`
}

// Piece is a part of a text. At is its place in bytes: if that is behind the end of the piece before, what lies between was
// not seen.
type Piece struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

// Decided is the recorded decision on one call.
type Decided struct {
	CallID string `json:"callId"`
	Tool   string `json:"tool"`
	// Input is what the call asks for, Decision.Input what a hook made of it.
	Input    json.RawMessage     `json:"input,omitempty"`
	InputRef *blob.Ref           `json:"inputRef,omitempty"`
	Decision permission.Decision `json:"decision"`
	// Drift says that the worker could not serve the frozen tool; there will be another decision.
	Drift string `json:"drift,omitempty"`
}

// Question is an open approval.
type Question struct {
	Key    string `json:"key"`
	CallID string `json:"callId"`
	Tool   string `json:"tool"`
	// Input is exactly what will run if the answer is allow, unless InputRef has it.
	Input    json.RawMessage     `json:"input,omitempty"`
	InputRef *blob.Ref           `json:"inputRef,omitempty"`
	Decision permission.Decision `json:"decision"`
	AskedAt  time.Time           `json:"askedAt"`
	Deadline *time.Time          `json:"deadline,omitempty"`
	// Approvers, RequestedBy and Agent are as in approval.Approval.
	Approvers   *permission.Approvers `json:"approvers,omitempty"`
	RequestedBy string                `json:"requestedBy,omitempty"`
	Agent       string                `json:"agent,omitempty"`
	// Seal is what a signed answer speaks of. Its ContractHash is empty where history does not tell it, in workflows that
	// are not agents; such a question cannot be signed from history.
	Seal approval.Seal `json:"seal"`
	// Run is as in approval.Approval.
	Run string `json:"run,omitempty"`

	// What has happened to the question since it was put; an event says how it was then.
	Votes       []approval.Vote `json:"votes,omitempty"`
	Reminded    int             `json:"reminded,omitempty"`
	Escalated   *time.Time      `json:"escalated,omitempty"`
	EscalatedTo []string        `json:"escalatedTo,omitempty"`
}

// Approval is the question as the approvals query lists it.
func (q Question) Approval() approval.Approval {
	input := q.Input
	if q.InputRef != nil {
		input, _ = json.Marshal(map[string]any{"$blob": q.InputRef}) // a struct of a string and a number
	}
	d := q.Decision
	return approval.Approval{Key: q.Key, Tool: q.Tool, Input: input, Why: d.Because(), DecidedBy: d.DecidedBy, Rule: d.Rule, Segments: d.Segments,
		AskedAt: q.AskedAt, Deadline: q.Deadline, Approvers: q.Approvers, RequestedBy: q.RequestedBy, Votes: q.Votes, Reminded: q.Reminded,
		Escalated: q.Escalated, EscalatedTo: q.EscalatedTo, Agent: q.Agent, CallID: q.CallID, Seal: q.Seal, Run: q.Run}
}

// Progress is how far an open question has come.
type Progress struct {
	Key string `json:"key"`
	// Vote is the allow that was counted; nil for reminders and escalations.
	Vote *approval.Vote `json:"vote,omitempty"`
	// Votes are all that count, Needs how many are needed.
	Votes []approval.Vote `json:"votes,omitempty"`
	Needs int             `json:"needs"`
	// Approvers are those who may answer now.
	Approvers   *permission.Approvers `json:"approvers,omitempty"`
	Reminded    int                   `json:"reminded,omitempty"`
	Escalated   *time.Time            `json:"escalated,omitempty"`
	EscalatedTo []string              `json:"escalatedTo,omitempty"`
}

// Apply brings a question up to date.
func (p Progress) Apply(q *Question) {
	q.Votes, q.Approvers, q.Reminded, q.Escalated, q.EscalatedTo = p.Votes, p.Approvers, p.Reminded, p.Escalated, p.EscalatedTo
}

// Overruled says which layer denied a call that a person had allowed.
type Overruled struct {
	DecidedBy permission.Decider `json:"decidedBy"`
	// Invalid says why edited arguments do not fit the tool's schema.
	Invalid []tool.Issue `json:"invalid,omitempty"`
}

// Revoked is an allow that was taken back. The Outcome of a call that was on its way by then is told by its tool.end.
type Revoked struct {
	Key    string `json:"key"`
	Tool   string `json:"tool"`
	CallID string `json:"callId"`
	approval.Revocation
}

// Answered is an answer as it arrived.
type Answered struct {
	// Via is signal, update or approver.
	Via      string          `json:"via"`
	Key      string          `json:"key,omitempty"`
	Decision approval.Choice `json:"decision,omitempty"`
	By       string          `json:"by,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	// Signed is the name of the key that the answer says it is signed with; whether it is, its admission tells.
	Signed string `json:"signed,omitempty"`
	// Edited says that the answer brings other arguments.
	Edited    bool       `json:"edited,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Ignored says why the answer changed nothing.
	Ignored string `json:"ignored,omitempty"`
}

// Call is a tool call that was let through. Verdict, DecidedBy, Rule and Advisories are those of its decision.
type Call struct {
	CallID string `json:"callId"`
	// ActivityID differs from CallID when the call is tried again.
	ActivityID string                `json:"activityId"`
	Tool       string                `json:"tool"`
	Input      json.RawMessage       `json:"input,omitempty"`
	InputRef   *blob.Ref             `json:"inputRef,omitempty"`
	Approved   *tool.Approved        `json:"approved,omitempty"`
	Verdict    permission.Verdict    `json:"verdict"`
	DecidedBy  permission.Decider    `json:"decidedBy,omitempty"`
	Rule       *permission.Rule      `json:"rule,omitempty"`
	Advisories []permission.Advisory `json:"advisories,omitempty"`
	// Result is set at the end of a call that returned one, Error at the end of one that did not.
	Result *tool.Result `json:"result,omitempty"`
	Error  string       `json:"error,omitempty"`
	// Revoked is set at the end of a call whose allow was taken back after it had been sent.
	Revoked *Revoked `json:"revoked,omitempty"`
	// Took is the time between both events of the call.
	Took time.Duration `json:"tookNs,omitempty"`
}

// The phases of a worktree.
const (
	Pinned    = "pinned"
	Acquired  = "acquired"
	Collected = "collected"
	Disposed  = "disposed"
)

// Tree is what happened to an agent's worktree.
type Tree struct {
	Phase    string             `json:"phase"`
	Resolved *worktree.Resolved `json:"resolved,omitempty"`
	Dir      string             `json:"dir,omitempty"`
	Artifact *protocol.Artifact `json:"artifact,omitempty"`
	Retained string             `json:"retained,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// Child is an agent that the run has started.
type Child struct {
	Run
	// Closed is set at its end, and is as in Ended. Result is set if it completed; what it cost is not part of the turns of
	// this run.
	Closed string                `json:"closed,omitempty"`
	Result *protocol.AgentResult `json:"result,omitempty"`
	Error  string                `json:"error,omitempty"`
}

// Ended is how a run ended.
type Ended struct {
	// Closed is completed, failed, cancelled, terminated or timed-out, as Temporal sees it.
	Closed string `json:"closed"`
	// Result is set when the workflow completed as an agent.
	Result *protocol.AgentResult `json:"result,omitempty"`
	Error  string                `json:"error,omitempty"`
	// ErrorType is the type of an application error, such as protocol.ErrorConfig.
	ErrorType string `json:"errorType,omitempty"`
}
