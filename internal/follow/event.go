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
	AgentReady      Kind = "agent.ready"      // Ready: tools, models and limits are frozen
	Turn            Kind = "turn"             // Turn
	Decision        Kind = "decision"         // Decision
	ApprovalPending Kind = "approval.pending" // Question
	Answer          Kind = "answer"           // Answer: somebody answered, to whatever effect
	ApprovalClosed  Kind = "approval.closed"  // Closed
	ToolStart       Kind = "tool.start"       // Tool
	ToolEnd         Kind = "tool.end"         // Tool
	Worktree        Kind = "worktree"         // Worktree
	Signal          Kind = "signal"           // Note: the name of a signal that is no answer
	CancelRequested Kind = "cancel.requested" // Note
	Problem         Kind = "problem"          // Note: what keeps the run from going on
	Reset           Kind = "reset"            // Note: the run goes on from an earlier point
	Continued       Kind = "continued"        // the run goes on in a new history
	AgentEnd        Kind = "agent.end"        // End
)

// Event is one thing that happened to an agent.
type Event struct {
	Kind Kind      `json:"event"`
	Time time.Time `json:"time"`
	// WorkflowID, RunID and EventID say which event of which history this comes from.
	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`
	EventID    int64  `json:"eventId"`

	Start    *Started         `json:"start,omitempty"`
	Ready    *Ready           `json:"ready,omitempty"`
	Turn     *TurnOf          `json:"turn,omitempty"`
	Decision *Decided         `json:"decision,omitempty"`
	Question *Question        `json:"question,omitempty"`
	Answer   *Answered        `json:"answer,omitempty"`
	Closed   *approval.Closed `json:"closed,omitempty"`
	Tool     *Call            `json:"tool,omitempty"`
	Worktree *Tree            `json:"worktree,omitempty"`
	Note     string           `json:"note,omitempty"`
	End      *Ended           `json:"end,omitempty"`
}

// Started is how an agent begins.
type Started struct {
	// WorkflowType differs from protocol.WorkflowAgent in workflows that are not agents; then the rest is empty.
	WorkflowType string              `json:"workflowType"`
	TaskQueue    string              `json:"taskQueue"`
	AgentType    string              `json:"agentType,omitempty"`
	Label        string              `json:"label,omitempty"`
	Prompt       string              `json:"prompt,omitempty"`
	Isolation    *worktree.Isolation `json:"isolation,omitempty"`
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
	// Error is set instead of all others but Number when the model could not be had.
	Error string `json:"error,omitempty"`
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

	// contentKey is what the key is made of.
	contentKey string
}

// Answered is an answer as it arrived.
type Answered struct {
	// Via is signal or update.
	Via      string          `json:"via"`
	Key      string          `json:"key,omitempty"`
	Decision approval.Choice `json:"decision,omitempty"`
	By       string          `json:"by,omitempty"`
	Reason   string          `json:"reason,omitempty"`
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
