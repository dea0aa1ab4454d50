package tool

import (
	"encoding/json"
	"log/slog"

	"github.com/assent-dev/assent/blob"
)

// Call is one request to run a tool, as it travels to the worker that runs it. The grant beside it binds
// every byte of Input.
type Call struct {
	// ID is unique in the run and is the activity id; it and Name are on the wire only where no activity of ours says them.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	// Input is the final argument object. It is empty when InputRef is set.
	Input json.RawMessage `json:"input,omitempty"`
	// InputRef points to an input that is too large for history.
	InputRef *blob.Ref `json:"inputRef,omitempty"`
	// ContractHash is the frozen contract; a worker whose tool differs returns drift and runs nothing.
	ContractHash string `json:"contractHash"`
	// IdempotencyKey is the same for every attempt of this call and for no other call anywhere: original run id, call
	// id and the digest of the arguments. A worker of ours makes it of these.
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
	// Agent describes who calls; nil in workflows that are not agents.
	Agent *Agent `json:"agent,omitempty"`
	// Dir is the working directory of the agent's tools.
	Dir string `json:"dir,omitempty"`
	// Isolation is none, readonly or worktree.
	Isolation string `json:"isolation,omitempty"`
	// Lease is the opaque lease of the worktree that Dir belongs to, if any.
	Lease json.RawMessage `json:"lease,omitempty"`
	// Approved says how an asked call was approved; nil for calls nobody was asked about.
	Approved *Approved `json:"approved,omitempty"`
	// Store names the blob store of the agent; a worker with another one returns drift and runs nothing.
	Store string `json:"store,omitempty"`
	// Guards names the guards that must be mounted on the worker that runs the call.
	Guards []string `json:"guards,omitempty"`
	// Modified is true when Input is not what the model sent.
	Modified bool `json:"modified,omitempty"`
	// Tighten holds the deny and ask rules of the agent's own input as JSON, for what is enforced while the tool runs.
	Tighten json.RawMessage `json:"tighten,omitempty"`
	// Parents are the agents above whose policy the agent has inherited, as JSON, for the same.
	Parents json.RawMessage `json:"parents,omitempty"`
	// Source names the Source that the tool comes from; empty for a tool that is mounted.
	Source string `json:"source,omitempty"`
	// Risk and NeedsApproval are those under which a call of a tool of a Source was decided: one that has become stricter
	// meanwhile is not the tool that was let through. They are empty for a tool that is mounted.
	Risk          Risk `json:"risk,omitempty"`
	NeedsApproval bool `json:"needsApproval,omitempty"`
}

// Agent says which agent calls.
type Agent struct {
	RunID string `json:"runId"`
	Type  string `json:"type"`
	Label string `json:"label,omitempty"`
}

// Approved says who allowed a call and why.
type Approved struct {
	Key string `json:"key"`
	// By is self-asserted unless Signed. Where several had to allow the call, it names them all, separated by ", ".
	By     string `json:"by,omitempty"`
	Signed bool   `json:"signed,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Context is what a running tool may know about its call. It offers no way to spawn: tools are leaves.
// Cancellation, deadlines and budget stops arrive through the context.Context beside it.
type Context struct {
	// RunID is the workflow run; SpanID is the call within it.
	RunID, SpanID string
	Agent         Agent
	// Dir is the absolute working directory; Isolation is none, readonly or worktree.
	Dir, Isolation string
	// Attempt counts from 1.
	Attempt int
	CallID  string
	// IdempotencyKey is stable over attempts and safe to send to other systems.
	IdempotencyKey string
	// Log never writes history.
	Log *slog.Logger
	// Approved is nil unless somebody was asked.
	Approved *Approved
	// Rules is the policy under which the call runs; nil outside engines and pipelines that have one.
	Rules Rules

	images []Image
}
