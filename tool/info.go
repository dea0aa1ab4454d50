package tool

import (
	"encoding/json"
	"time"
)

// Risk is the declared class of a tool's effect. It is policy input and never part of the contract.
type Risk string

// The closed list of risks. The zero value means that none was declared; rules call it "undeclared".
const (
	Undeclared  Risk = ""
	Read        Risk = "read"
	Write       Risk = "write"
	Network     Risk = "network"
	Execute     Risk = "execute"
	Destructive Risk = "destructive"
)

// Risks lists the declared risks from mildest to strictest.
func Risks() []Risk { return []Risk{Read, Write, Network, Execute, Destructive} }

// InProcess is the executor that every worker serves.
const InProcess = "inprocess"

// Info is everything about a tool except the code that runs: plain data, frozen for an agent's life.
type Info struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is the JSON Schema exactly as sent to the model.
	Parameters json.RawMessage `json:"parameters"`
	// Version is opaque; nil is absent, which differs from "".
	Version *string `json:"version,omitempty"`

	Risk          Risk   `json:"risk,omitempty"`
	NeedsApproval bool   `json:"needsApproval,omitempty"`
	Executor      string `json:"executor,omitempty"`
	// Timeout bounds one attempt; zero means none declared.
	Timeout time.Duration `json:"timeoutNs,omitempty"`
	// Idempotent tools may be retried after a lost attempt, with the same idempotency key.
	Idempotent bool `json:"idempotent,omitempty"`
	// Concurrent tools may overlap with other calls of the same turn. Read-risk tools are unless declared otherwise.
	Concurrent bool `json:"concurrent,omitempty"`
	// Remote is set when the tool is an activity or a workflow of the team's own, nil when its code is in this process.
	Remote *Remote `json:"remote,omitempty"`
}

// Repeatable reports whether a lost attempt may be run again without asking: read-risk or idempotent.
func (i Info) Repeatable() bool { return i.Idempotent || i.Risk == Read }
