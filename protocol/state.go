package protocol

import (
	"encoding/json"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// AgentState is the second argument of an agent that continues as new: everything that its next run takes over. A run
// that did not continue another one ignores it, so that nobody can start an agent in the midst of one.
type AgentState struct {
	// AgentRun is the run id by which the agent is known to tools: that of its first run.
	AgentRun string `json:"agentRun"`
	// Runs counts the runs before.
	Runs    int             `json:"runs"`
	Started time.Time       `json:"started"`
	Frozen  ResolveResponse `json:"frozen"`

	// Transcript is the last node of the conversation, Earlier that of the life before a restart.
	Transcript *blob.Ref `json:"transcript,omitempty"`
	Earlier    *blob.Ref `json:"earlier,omitempty"`
	Output     string    `json:"output,omitempty"`
	Spent      Spent     `json:"spent"`
	// Turns counts the turns of the agent, LifeTurns those since its environment was last lost.
	Turns     int             `json:"turns"`
	LifeTurns int             `json:"lifeTurns"`
	Calls     int             `json:"calls"`
	Asked     int             `json:"asked"`
	Restarts  int             `json:"restarts"`
	Idle      int             `json:"idle"`
	OverCalls bool            `json:"overCalls,omitempty"`
	Seen      []string        `json:"seen,omitempty"`
	Retries   map[string]int  `json:"retries,omitempty"`
	Escalated json.RawMessage `json:"escalated,omitempty"`
	Progress  json.RawMessage `json:"progress,omitempty"`

	// HostQueue and Lease are those of the agent's worktree.
	HostQueue string          `json:"hostQueue,omitempty"`
	Lease     *worktree.Lease `json:"lease,omitempty"`

	Ledger approval.Saved `json:"ledger"`
	Vetted []VettedLine   `json:"vetted,omitempty"`
	Board  BoardState     `json:"board"`
	// Results answer the calls of the turn before. Steps are those of a turn that has not ended: then there are no Results.
	Results []model.ToolResult `json:"results,omitempty"`
	Steps   []StepState        `json:"steps,omitempty"`
	// Grant says that a gate with the key has left this state: whoever runs a workflow of any type can continue it as an
	// agent. Its call is StateCall, its run the one that left the state, its input digest that of Digest.
	Grant *Grant `json:"grant,omitempty"`
}

// StateCall is the call, and in its place the activity id, that the grant of a state names.
const StateCall = "continue"

// StatePlace is what the grant of a state is bound to.
func StatePlace(namespace, workflowID string) Place {
	return Place{Namespace: namespace, WorkflowID: workflowID, ActivityType: WorkflowAgent, ActivityID: StateCall}
}

// Digest is the hex SHA-256 of an agent's input and the state that goes with it, but for its grant.
func (s AgentState) Digest(in AgentInput) (string, error) {
	s.Grant = nil
	b, err := json.Marshal([]any{in, s})
	if err != nil {
		return "", err
	}
	// No arguments of a call begin like this.
	return canonjson.SHA256(append([]byte("assent.state/1\n"), b...)), nil
}

// BoardState is what operators were shown of the run before; the server copies search attributes and memo.
type BoardState struct {
	Status RunStatus `json:"status"`
	// Shown are the keys that are shown, Memo those of them that are in the memo.
	Shown []string `json:"shown,omitempty"`
	Memo  []string `json:"memo,omitempty"`
}

// StepState is one call of a turn that has not ended: its result, or the question that waits.
type StepState struct {
	// CallID is the engine's id of the call.
	CallID string    `json:"callId"`
	Asked  Requested `json:"asked"`

	Result *tool.Result `json:"result,omitempty"`
	// Ran says that the call was permitted, Observed that observers have seen it, Final is the input of a permitted call of
	// the engine's own tools.
	Ran      bool            `json:"ran,omitempty"`
	Observed bool            `json:"observed,omitempty"`
	Final    json.RawMessage `json:"final,omitempty"`

	// Question is the key of an open question, Decision what was decided when it was asked.
	Question string          `json:"question,omitempty"`
	Decision *DecideResponse `json:"decision,omitempty"`
	// Reminded is when people were last told of the question.
	Reminded time.Time `json:"reminded,omitzero"`
}

// ContinueRequest asks for the run that continues, and whether what it takes over was left by a gate. It is the input of a
// local activity and never in history.
type ContinueRequest struct {
	// Before is the run that the server says was continued, Digest that of the state, Grant the one in it.
	Before string `json:"before"`
	Digest string `json:"digest"`
	Grant  *Grant `json:"grant,omitempty"`
}

// ContinueResponse is the run that a local activity saw.
type ContinueResponse struct {
	RunID string `json:"runId"`
	// Refused says why the state may not be taken over.
	Refused string `json:"refused,omitempty"`
	// Attributes is as in DecideResponse.
	Attributes *bool `json:"attributes,omitempty"`
}

// SpentRequest asks what the agents have cost of a workflow that was called as a tool and is tried again, until the run Before ended,
// or what the attempts of the turn may have that waits. It is the input of a local activity and never in history.
type SpentRequest struct {
	Before  string  `json:"before,omitempty"`
	LentUSD float64 `json:"lentUSD,omitempty"`
	Turn    bool    `json:"turn,omitempty"`
}

// SpentResponse is the answer.
type SpentResponse struct {
	SpentUSD float64 `json:"spentUSD"`
}
