package protocol

import (
	"encoding/json"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// Sizes in bytes up to which values stay in history; larger ones go to the blob store.
const (
	InlineInput  = 32 << 10
	InlineResult = 4 << 10
	// InlineTurn bounds all inputs of one turn together.
	InlineTurn = 256 << 10
	// MaxDecision bounds the recorded answer of decide, MaxDecisions those of one turn together.
	MaxDecision  = 64 << 10
	MaxDecisions = 1 << 20
	// InlineText bounds the text of a turn and the output of an agent.
	InlineText = 16 << 10
	// InlinePrompt bounds the prompt of a turn; a longer one is in history once, as the agent's input.
	InlinePrompt = 16 << 10
	// InlineStructured bounds an agent's structured output.
	InlineStructured = 16 << 10
	// MaxCallsPerTurn bounds the calls of one turn that are looked at; the rest is skipped.
	MaxCallsPerTurn = 128
)

// ToolFacts is what a workflow keeps of a frozen tool.
type ToolFacts struct {
	Name          string        `json:"name"`
	Risk          tool.Risk     `json:"risk,omitempty"`
	NeedsApproval bool          `json:"needsApproval,omitempty"`
	Idempotent    bool          `json:"idempotent,omitempty"`
	Concurrent    bool          `json:"concurrent,omitempty"`
	Timeout       time.Duration `json:"timeoutNs,omitempty"`
	ContractHash  string        `json:"contractHash"`
	// Source names the tool.Source that offered the tool; empty for a tool that is mounted.
	Source string `json:"source,omitempty"`
	// CallTool says that the tool runs as ActivityCallTool and not as `tool.<name>`.
	CallTool bool `json:"callTool,omitempty"`
	// ActivityType is set for what is guarded in workflows that are not agents.
	ActivityType string `json:"activityType,omitempty"`
	// Remote is set for tools of an agent that are activities or workflows of a team's own.
	Remote *tool.Remote `json:"remote,omitempty"`
}

// Repeatable reports whether a lost attempt may be run again.
func (f ToolFacts) Repeatable() bool { return f.Idempotent || f.Risk == tool.Read }

// Activity is the activity type under which a tool of an agent runs on workers of ours.
func (f ToolFacts) Activity() string {
	if f.CallTool {
		return ActivityCallTool
	}
	return ToolPrefix + f.Name
}

// Subject says on whose behalf a call is judged.
type Subject struct {
	// Profile names the agent type; empty means that only the engine's layer applies.
	Profile string   `json:"profile,omitempty"`
	Tighten *Tighten `json:"tighten,omitempty"`
	// Parents are as in ResolveResponse.
	Parents []Parent `json:"parents,omitempty"`
	// Vetted are the lines that people have added by answering `always`.
	Vetted    []VettedLine `json:"vetted,omitempty"`
	Isolation string       `json:"isolation,omitempty"`
	Dir       string       `json:"dir,omitempty"`
	Agent     tool.Agent   `json:"agent"`
	// RequestedBy is as in AgentInput.
	RequestedBy string `json:"requestedBy,omitempty"`
}

// VettedLine is a line that an answer has added, and the run that admitted the answer: in another one, after a reset, the
// line does not hold.
type VettedLine struct {
	RunID string            `json:"runId"`
	Line  permission.Vetted `json:"line"`
}

// ResolveRequest asks a worker for everything that is frozen for an agent's life.
type ResolveRequest struct {
	Input AgentInput `json:"input"`
	// Lineage is what the agent was given by the run that spawned it, ParentRun, as the server says; nil at the root.
	Lineage   *Lineage `json:"lineage,omitempty"`
	ParentRun string   `json:"parentRun,omitempty"`
}

// ResolveResponse is recorded once; restarts keep it.
type ResolveResponse struct {
	Models      []string    `json:"models"`
	Tools       []ToolFacts `json:"tools"`
	ToolsetHash string      `json:"toolsetHash"`
	// Frozen points to what every turn needs and none carries: system prompt, tools as the model sees them, prices of
	// the models, schema of the output.
	Frozen blob.Ref `json:"frozen"`
	// PromptRef points to a prompt of more than InlinePrompt bytes.
	PromptRef *blob.Ref `json:"promptRef,omitempty"`
	Limits    Limits    `json:"limits"`
	// BudgetUSD is the smaller of the input's and the profile's; nil is none.
	BudgetUSD   *float64           `json:"budgetUSD,omitempty"`
	Isolation   worktree.Isolation `json:"isolation"`
	KeepOnError bool               `json:"keepOnError,omitempty"`
	// Dir is where tools run without a worktree.
	Dir    string   `json:"dir"`
	Store  string   `json:"store"`
	Guards []string `json:"guards,omitempty"`
	// Attributes says that the namespace has our search attributes with the right types.
	Attributes bool `json:"attributes,omitempty"`
	// Observers says that somebody wants to hear of calls that never ran.
	Observers bool `json:"observers,omitempty"`
	// ContinueAfter is the number of events after which a run continues as new; 0 leaves it to the server.
	ContinueAfter int `json:"continueAfter,omitempty"`
	// Parents are those of the agents above whose policy the agent has inherited, outermost first.
	Parents []Parent `json:"parents,omitempty"`
	// Under is the run and the policy at the start, which decisions need not repeat.
	Under Under `json:"under,omitzero"`
}

// Under is what decisions are made under. Those of local activities leave out what history has said already.
type Under struct {
	RunID        string `json:"runId"`
	PolicyDigest string `json:"policyDigest"`
}

// RefRequest pins a revision.
type RefRequest struct {
	Isolation worktree.Isolation `json:"isolation"`
	// Restart counts the lives before this one, and Lost says why the last of them ended.
	Restart int    `json:"restart,omitempty"`
	Lost    string `json:"lost,omitempty"`
}

// RefResponse is the pinned revision and the queue of the host that has the repository.
type RefResponse struct {
	Resolved  worktree.Resolved `json:"resolved"`
	HostQueue string            `json:"hostQueue"`
}

// AcquireRequest makes a tree on the host that receives it.
type AcquireRequest struct {
	Identity worktree.Identity `json:"identity"`
	Resolved worktree.Resolved `json:"resolved"`
}

// CollectRequest collects a tree; Store is where the agent's blobs are.
type CollectRequest struct {
	Lease worktree.Lease `json:"lease"`
	Store string         `json:"store"`
}

// MaxTreeAttempts bounds how often an activity of a worktree is tried while its disk is full: some fifty minutes.
const MaxTreeAttempts = 100

// DisposeRequest removes a tree, or retains it when Retain says why.
type DisposeRequest struct {
	Lease  worktree.Lease `json:"lease"`
	Force  bool           `json:"force,omitempty"`
	Retain string         `json:"retain,omitempty"`
}

// DisposeResponse says whether the tree was kept, and where.
type DisposeResponse struct {
	Retained string `json:"retained,omitempty"`
}

// GenerateRequest asks for one turn. Messages travel by reference; only what is new is here.
type GenerateRequest struct {
	Models []string `json:"models"`
	// Profile is the agent type: its worker knows how to check the output.
	Profile string `json:"profile,omitempty"`
	Store   string `json:"store"`
	// Frozen is that of ResolveResponse; NoTools makes this a turn without its tools.
	Frozen  *blob.Ref `json:"frozen,omitempty"`
	NoTools bool      `json:"noTools,omitempty"`
	// Transcript is the last node; nil at the first turn.
	Transcript *blob.Ref `json:"transcript,omitempty"`
	// Prompt, or PromptRef if it is long, is the first message and goes with a nil Transcript.
	Prompt    string    `json:"prompt,omitempty"`
	PromptRef *blob.Ref `json:"promptRef,omitempty"`
	// Earlier is the last node of the life before a restart; it goes with a nil Transcript.
	Earlier *blob.Ref `json:"earlier,omitempty"`
	// Compacted says that the conversation has just been compacted for this turn.
	Compacted bool `json:"compacted,omitempty"`
	// Results answer the calls of the turn before, in order.
	Results []model.ToolResult `json:"results,omitempty"`
	// Note is text of the engine for the model, such as that a limit was reached.
	Note string `json:"note,omitempty"`
	// MaxOutputTokens bounds the turn.
	MaxOutputTokens int `json:"maxOutputTokens"`
	// LeftUSD is what is left of the budget; nil without one.
	LeftUSD *float64 `json:"leftUSD,omitempty"`
	// Close asks nobody: it only puts Results into the transcript, because no turn will.
	Close bool `json:"close,omitempty"`
	Turn  int  `json:"turn"`
}

// Requested is one call of a turn.
type Requested struct {
	// ModelID is the provider's id, only sent back.
	ModelID string `json:"modelId"`
	Name    string `json:"name"`
	// Exactly one of Input, InputRef and Raw is set.
	Input    json.RawMessage `json:"input,omitempty"`
	InputRef *blob.Ref       `json:"inputRef,omitempty"`
	// Raw is a shortened copy of arguments that are not valid JSON.
	Raw string `json:"raw,omitempty"`
}

// GenerateResponse is one turn as history keeps it. If Compacted or OverBudget is set, there was no turn.
type GenerateResponse struct {
	// Transcript is the last node now.
	Transcript blob.Ref    `json:"transcript"`
	Model      string      `json:"model"`
	Text       string      `json:"text,omitempty"`
	Calls      []Requested `json:"calls,omitempty"`
	// Dropped counts calls beyond MaxCallsPerTurn.
	Dropped int         `json:"dropped,omitempty"`
	Stop    model.Stop  `json:"stop"`
	Usage   model.Usage `json:"usage"`
	CostUSD float64     `json:"costUSD"`
	// Unpriced says that no price is known for the model: CostUSD is 0 and means nothing.
	Unpriced bool `json:"unpriced,omitempty"`
	// LostUSD bounds what earlier attempts of this activity may have cost: they asked a model and their answer was lost.
	LostUSD float64 `json:"lostUSD,omitempty"`
	// Compacted says that older turns were summarised, which is what Usage and CostUSD are about: ask again.
	Compacted *Compacted `json:"compacted,omitempty"`
	// MaxOutputTokens is set if the budget left the turn fewer tokens than it may have otherwise.
	MaxOutputTokens int `json:"maxOutputTokens,omitempty"`
	// OverBudget says why the turn was not begun: what is left of the budget does not pay for it.
	OverBudget string `json:"overBudget,omitempty"`
	// Structured is the output of a turn without calls, or StructuredRef if it is larger than InlineStructured. Issues say
	// where it does not fit.
	Structured    json.RawMessage `json:"structured,omitempty"`
	StructuredRef *blob.Ref       `json:"structuredRef,omitempty"`
	Issues        []tool.Issue    `json:"issues,omitempty"`
}

// Spent is what an agent has used up so far.
type Spent struct {
	Usage         model.Usage `json:"usage"`
	CostUSD       float64     `json:"costUSD"`
	UnpricedTurns int         `json:"unpricedTurns,omitempty"`
	LostUSD       float64     `json:"lostUSD,omitempty"`
	BelowUSD      float64     `json:"belowUSD,omitempty"`
	Compactions   int         `json:"compactions,omitempty"`
}

// Add counts an answer of Generate.
func (s *Spent) Add(r GenerateResponse) {
	s.Usage, s.CostUSD, s.LostUSD = s.Usage.Add(r.Usage), s.CostUSD+Dollars(r.CostUSD), s.LostUSD+Dollars(r.LostUSD)
	if r.Unpriced {
		s.UnpricedTurns++
	}
	if r.Compacted != nil {
		s.Compactions++
	}
}

// Compacted counts what a summary replaces for the model. The transcript keeps it.
type Compacted struct {
	Turns    int `json:"turns"`
	Messages int `json:"messages"`
}

// DecideRequest asks for the decision on one call. It is the input of a local activity and never in history.
type DecideRequest struct {
	CallID  string    `json:"callId"`
	Tool    ToolFacts `json:"tool"`
	Subject Subject   `json:"subject"`
	Guards  []string  `json:"guards,omitempty"`
	Store   string    `json:"store,omitempty"`
	// Input or InputRef is what the call asks for.
	Input    json.RawMessage `json:"input,omitempty"`
	InputRef *blob.Ref       `json:"inputRef,omitempty"`
	// Unencoded says that a codec failed to encode the arguments, and how: the call is denied.
	Unencoded string `json:"unencoded,omitempty"`
	// Room bounds the recorded answer in bytes, below MaxDecision, when many calls are decided in one workflow task.
	Room int `json:"room,omitempty"`
	// Under is what history has said of the run: ResolveResponse.Under, with the run that ContinueResponse names. Nil where it
	// says nothing.
	Under *Under `json:"under,omitempty"`
}

// DecideResponse is the recorded decision: it says everything that history must show about a call before it runs.
type DecideResponse struct {
	CallID string `json:"callId"`
	Tool   string `json:"tool"`
	// RunID is the run that decided, as the server told the local activity. Without it run and policy are those of
	// DecideRequest.Under; see Whole.
	RunID string `json:"runId,omitempty"`
	// Decision leaves Input empty unless it was modified.
	Decision permission.Decision `json:"decision"`
	// InputRef holds a modified input that is too large for history.
	InputRef    *blob.Ref `json:"inputRef,omitempty"`
	InputDigest string    `json:"inputDigest,omitempty"`
	// ContentKey is what the key of the question is made of; set when the verdict is ask.
	ContentKey string `json:"contentKey,omitempty"`
	// Approval says how to ask; set when the verdict is ask.
	Approval *permission.ApprovalPolicy `json:"approval,omitempty"`
	// Approver says that a worker can answer the question by a registered approver.
	Approver bool `json:"approver,omitempty"`
	// Slow asks for the same decision by a normal activity.
	Slow bool `json:"slow,omitempty"`
	// Drift says that this worker cannot serve the frozen tool.
	Drift string `json:"drift,omitempty"`
	// Attributes is as in ResolveResponse; absent says nothing. It goes with a question, which is shown by them.
	Attributes *bool `json:"attributes,omitempty"`
}

// Brief leaves out what history has said.
func (d DecideResponse) Brief(u *Under) DecideResponse {
	if u != nil && u.RunID != "" && u.PolicyDigest != "" && *u == (Under{d.RunID, d.Decision.PolicyDigest}) {
		d.RunID, d.Decision.PolicyDigest = "", ""
	}
	return d
}

// Whole fills in what Brief has left out.
func (d DecideResponse) Whole(u *Under) DecideResponse {
	if u != nil && d.RunID == "" && d.Decision.PolicyDigest == "" {
		d.RunID, d.Decision.PolicyDigest = u.RunID, u.PolicyDigest
	}
	return d
}

// AdmitRequest asks whether an answer takes effect.
type AdmitRequest struct {
	// Question leaves Input empty where it is that of Decide: both together may be too large for a payload.
	Question   approval.Approval   `json:"question"`
	Resolution approval.Resolution `json:"resolution"`
	// Via is how the answer came, as in approval.Vote.
	Via    string        `json:"via"`
	Decide DecideRequest `json:"decide"`
	// Final points to the input that was asked about when it is too large for the question.
	Final *blob.Ref `json:"final,omitempty"`
	// Now is the time of the server, by which an allow is good or not; a worker's own clock may be wrong. The zero time is the worker's.
	Now time.Time `json:"now,omitzero"`
}

// AdmitResponse is the recorded effect of an answer.
type AdmitResponse struct {
	Key   string       `json:"key"`
	RunID string       `json:"runId"`
	How   approval.How `json:"how"`
	By    string       `json:"by,omitempty"`
	// Signed says that By is proved by a signature.
	Signed bool `json:"signed,omitempty"`
	// Reason says why, for people and for the model.
	Reason string `json:"reason,omitempty"`
	// DecidedBy is the layer that kept a person's allow from taking effect; empty when the answer stands.
	DecidedBy permission.Decider `json:"decidedBy,omitempty"`
	// Refuser names the guard or the listener's plugin, if DecidedBy is one.
	Refuser string `json:"refuser,omitempty"`
	// Invalid says why edited arguments do not fit the tool's schema.
	Invalid []tool.Issue `json:"invalid,omitempty"`
	// Input is the final input when the answer changed it; InputRef when it is too large.
	Input        json.RawMessage `json:"input,omitempty"`
	InputRef     *blob.Ref       `json:"inputRef,omitempty"`
	InputDigest  string          `json:"inputDigest,omitempty"`
	PolicyDigest string          `json:"policyDigest,omitempty"`
	// Expires is the last Unix second at which the call may start; 0 means no bound.
	Expires int64 `json:"expires,omitempty"`
	// Vetted is the line that the answer adds for the rest of the run; NotVetted says why an `always` adds none.
	Vetted    *permission.Vetted `json:"vetted,omitempty"`
	NotVetted string             `json:"notVetted,omitempty"`
	// Slow asks for the same by a normal activity.
	Slow bool `json:"slow,omitempty"`
	// Attributes is as in DecideResponse.
	Attributes *bool `json:"attributes,omitempty"`
}

// Occasion is why an approver is asked.
type Occasion string

// The occasions.
const (
	OccasionAsked     Occasion = "asked"
	OccasionReminded  Occasion = "reminded"
	OccasionEscalated Occasion = "escalated"
)

// ApproverRequest puts a question to the approver that is registered on a worker.
type ApproverRequest struct {
	// Question leaves Input empty: it is that of Call.
	Question approval.Approval `json:"question"`
	Occasion Occasion          `json:"occasion"`
	Call     tool.Call         `json:"call"`
	Risk     tool.Risk         `json:"risk,omitempty"`
	Dir      string            `json:"dir,omitempty"`
}

// ApproverResponse is what it says.
type ApproverResponse struct {
	// Unavailable leaves the question to people.
	Unavailable bool            `json:"unavailable,omitempty"`
	Decision    approval.Choice `json:"decision,omitempty"`
	By          string          `json:"by,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// AttributesResponse says whether the namespace has our search attributes now.
type AttributesResponse struct {
	Attributes bool `json:"attributes"`
}

// ReceiveRequest brings the outcome of a call that ran on a worker of somebody else to one of the agent's own. If Result
// is OK, the value is the second argument of the activity, as it came.
type ReceiveRequest struct {
	Call tool.Call `json:"call"`
	Tool ToolFacts `json:"tool"`
	// RunID is the run that permitted the call.
	RunID  string      `json:"runId"`
	Result tool.Result `json:"result"`
	// Dispatched says that the call may have begun.
	Dispatched bool `json:"dispatched,omitempty"`
	// Child is the workflow that was called, if its agents may have spent LentUSD at most.
	Child   string  `json:"child,omitempty"`
	LentUSD float64 `json:"lentUSD,omitempty"`
}

// ReceiveResponse is the result as the model gets it, and what the agents of the workflow that was called have spent.
type ReceiveResponse struct {
	tool.Result
	SpentUSD float64 `json:"spentUSD,omitempty"`
}

// ObserveRequest tells observers of a call that never ran.
type ObserveRequest struct {
	Call   tool.Call   `json:"call"`
	Result tool.Result `json:"result"`
}
