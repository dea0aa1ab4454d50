package protocol

import "strings"

// DefaultTaskQueue is where agents run unless told otherwise.
const DefaultTaskQueue = "assent"

// WorkflowAgent is the workflow type of an agent: AgentInput in, AgentResult out.
const WorkflowAgent = "assent.Agent"

// The handlers of an agent.
const (
	SignalApproval = "approval"
	UpdateResolve  = "resolve"
	QueryApprovals = "approvals"
)

// The same handlers in workflows that are not agents.
const (
	GuardSignalApproval = "assent_approval"
	GuardUpdateResolve  = "assent_resolve"
	GuardQueryApprovals = "assent_approvals"
	// GuardPrefix is reserved: a workflow's own handler with such a name is refused.
	GuardPrefix = "assent_"
)

// The activities. Decide, DecideTurn, Admit, Attributes, Continue and Spent are local activities; their names are in history and never change.
const (
	ActivityDecide     = "AssentDecide"
	ActivityDecideTurn = "AssentDecideTurn"
	ActivityDecideSlow = "AssentDecideSlow"
	ActivityAdmit      = "AssentAdmit"
	ActivityAdmitSlow  = "AssentAdmitSlow"
	// ActivityAskApprover is a normal activity that puts a question to an approver in the worker.
	ActivityAskApprover = "AssentAskApprover"
	ActivityAttributes  = "AssentAttributes"
	// ActivityContinue is the local activity with which an agent that continued as new learns its run.
	ActivityContinue = "AssentContinue"
	// ActivitySpent is the local activity with which a workflow that is tried again learns what its agents have cost before, and an
	// agent that is cancelled what its turn may have.
	ActivitySpent = "AssentSpent"
	// ActivityJoinAgent waits for an agent that somebody else has spawned; ActivityForwardAnswer takes an answer to a child.
	ActivityJoinAgent     = "AssentJoinAgent"
	ActivityForwardAnswer = "AssentForwardAnswer"

	ActivityResolveToolset  = "ResolveToolset"
	ActivityResolveRef      = "ResolveRef"
	ActivityGenerate        = "Generate"
	ActivityAcquireWorktree = "AcquireWorktree"
	ActivityCollectWorktree = "CollectWorktree"
	ActivityDisposeWorktree = "DisposeWorktree"
	ActivityObserve         = "Observe"
	ActivityReceiveResult   = "ReceiveResult"

	// ToolPrefix starts the activity type of a tool: tool.<name>.
	ToolPrefix = "tool."
	// ActivityCallTool runs tools of sources on workers whose dynamic activity is the team's own: its argument names the tool.
	ActivityCallTool = "assent.CallTool"
)

// IsTool reports whether an activity type is that of an agent's tool on a worker of ours.
func IsTool(activityType string) bool {
	return activityType == ActivityCallTool || strings.HasPrefix(activityType, ToolPrefix)
}

// Error types of application errors.
const (
	// ErrorConfig is bad input or configuration; it is never retried.
	ErrorConfig = "assent.ConfigError"
	// ErrorDenied refuses an activity; its details carry the tool.Result.
	ErrorDenied = "assent.Denied"
	// ErrorNotPending refuses an update that names no question which can be answered now.
	ErrorNotPending = "assent.NotPending"
	// ErrorBadAnswer refuses an update that is no answer.
	ErrorBadAnswer = "assent.BadAnswer"
	// ErrorModel is a model's failure that trying again cannot mend.
	ErrorModel = "assent.ModelError"
	// ErrorGone says that an agent's worktree no longer exists.
	ErrorGone = "assent.EnvironmentLost"
	// ErrorSpace says that a host has no room for a worktree; trying again helps once it has.
	ErrorSpace = "assent.NoSpace"
	// ErrorStore says that a worker uses another blob store than the agent started with.
	ErrorStore = "assent.StoreMismatch"
	// ErrorBlobMissing says that the store does not hold what was to be read; it may come late.
	ErrorBlobMissing = "assent.BlobMissing"
	// ErrorBlobAltered says that what was to be read has another hash than its reference; it is never retried.
	ErrorBlobAltered = "assent.BlobAltered"
)

// HeaderGrant is the header that carries a Grant to the worker.
const HeaderGrant = "assent-grant"

// Begun is the heartbeat details of a tool activity that must not run twice, from the moment at which it begins. One
// that timed out without it never ran.
const Begun = "begun"

// Search attributes, used when the namespace has them with these types.
const (
	AttrStatus      = "AssentStatus"      // Keyword: running, waiting, done
	AttrAgent       = "AssentAgent"       // Keyword: the agent type
	AttrPendingTool = "AssentPendingTool" // KeywordList
	AttrRoot        = "AssentRoot"        // Keyword: the root agent's workflow id
)

// MemoPending is the memo field that lists pending questions as []MemoQuestion.
const MemoPending = "assentPending"

// MemoSpent is the memo field in which a workflow that was called as a tool leaves what its agents have spent, in US dollars,
// for the agent whose budget pays.
const MemoSpent = "assentSpent"

// MemoQuestion is what the memo says of a pending question; it needs no worker to be read.
type MemoQuestion struct {
	Key    string `json:"key"`
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}

// RunStatus is the value of AttrStatus.
type RunStatus string

// The values of AttrStatus.
const (
	StatusRunning RunStatus = "running"
	StatusWaiting RunStatus = "waiting"
	StatusDone    RunStatus = "done"
)

// ChangeGate is the GetVersion change id of the gate in workflows that are not agents.
const ChangeGate = "assent"

// ChangeGuard starts the GetVersion change id of each activity type, workflow type or operation that is guarded.
const ChangeGuard = ChangeGate + "/"

// PlainEncoding reports whether a payload with that metadata "encoding" is in one of the SDK's own. An answer in it is read as it is,
// past a codec that refuses what it did not encode: it is how the temporal command, the UI and the HTTP API send.
func PlainEncoding(encoding string) bool {
	switch encoding {
	case "json/plain", "json/protobuf", "binary/null", "binary/plain":
		return true
	}
	return false
}
