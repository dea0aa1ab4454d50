package protocol

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/worktree"
)

// Resolution is the argument of the approval signal and of the resolve update.
type Resolution = approval.Resolution

// Accepted is the result of the resolve update: the answer was taken and will be admitted.
type Accepted struct {
	Key      string          `json:"key"`
	Decision approval.Choice `json:"decision"`
	// Dispatched says of a revoke that the call was on its way already: it is asked to stop, and may have had its effect.
	Dispatched bool `json:"dispatched,omitempty"`
}

// Approvals is the result of the approvals query.
type Approvals = approval.List

// Started is a child of a run that has not ended.
type Started = approval.Started

// MaxPrompt is the largest prompt in bytes; larger material belongs in a file that the agent reads.
const MaxPrompt = 1 << 20

// MaxInput is the largest AgentInput in bytes of JSON as Go writes it, which escapes <, > and &. The workflow sends it
// on to its activities, and what the server refuses there would be tried for ever.
const MaxInput = 3 << 19

// MaxOutputSchema is the largest schema of an output in bytes.
const MaxOutputSchema = 128 << 10

// MaxName is the largest agent type, label or key in bytes: they go with every call.
const MaxName = 256

// AgentInput starts an agent.
type AgentInput struct {
	Prompt string `json:"prompt"`
	// AgentType is the name of a profile.
	AgentType string `json:"agentType"`
	Label     string `json:"label,omitempty"`
	// RequestedBy is who asks for the run, as its starter says. Where a question names its approvers, that principal is none
	// of them.
	RequestedBy string `json:"requestedBy,omitempty"`
	// Models replaces the profile's list, each `provider:name`; the first one that works is used.
	Models []string `json:"models,omitempty"`
	// Tools replaces the profile's list; an explicit empty list removes all.
	Tools *[]string `json:"tools,omitempty"`
	// Permissions tightens the profile's; it can never loosen.
	Permissions *Tighten            `json:"permissions,omitempty"`
	Isolation   *worktree.Isolation `json:"isolation,omitempty"`
	// Limits replaces the profile's where a member is set.
	Limits *Limits `json:"limits,omitempty"`
	// BudgetUSD bounds what the models may cost. The profile's holds too: the smaller one counts.
	BudgetUSD *float64 `json:"budgetUSD,omitempty"`
	// OutputSchema asks for structured output and replaces the profile's: a JSON Schema of an object.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Key          string          `json:"key,omitempty"`
}

// MaxTighten is the largest Tighten in bytes of JSON. It travels with every call.
const MaxTighten = 32 << 10

// Tighten holds the deny and ask rules that one agent adds to its profile's.
type Tighten struct {
	Deny []permission.Rule `json:"deny,omitempty"`
	Ask  []permission.Rule `json:"ask,omitempty"`
}

// Limits bounds an agent; a zero member means the default.
type Limits struct {
	MaxTurns     int `json:"maxTurns,omitempty"`
	MaxToolCalls int `json:"maxToolCalls,omitempty"`
	// MaxOutputTokens is for each turn.
	MaxOutputTokens int `json:"maxOutputTokens,omitempty"`
	// WallClock bounds the whole agent, waiting included; zero means none.
	WallClock time.Duration `json:"wallClockNs,omitempty"`
	// MaxIdleTurns bounds consecutive turns without a new (tool, input, result): one that is none of the latest 128.
	MaxIdleTurns int `json:"maxIdleTurns,omitempty"`
}

// DefaultLimits are the limits of an agent that sets none.
func DefaultLimits() Limits {
	return Limits{MaxTurns: 32, MaxToolCalls: 128, MaxOutputTokens: 8192, MaxIdleTurns: 3}
}

// Over returns l with every zero member taken from base.
func (l Limits) Over(base Limits) Limits {
	pick := func(a, b int) int {
		if a != 0 {
			return a
		}
		return b
	}
	out := Limits{
		MaxTurns:        pick(l.MaxTurns, base.MaxTurns),
		MaxToolCalls:    pick(l.MaxToolCalls, base.MaxToolCalls),
		MaxOutputTokens: pick(l.MaxOutputTokens, base.MaxOutputTokens),
		MaxIdleTurns:    pick(l.MaxIdleTurns, base.MaxIdleTurns),
		WallClock:       l.WallClock,
	}
	if out.WallClock == 0 {
		out.WallClock = base.WallClock
	}
	return out
}

// The ceilings of limits: a run must fit into one history.
const (
	MostTurns     = 1000
	MostToolCalls = 2000
)

// Validate reports limits that cannot be used as *fault.ConfigError.
func (l Limits) Validate(key string) error {
	for _, m := range []struct {
		name      string
		got, most int
	}{{"maxTurns", l.MaxTurns, MostTurns}, {"maxToolCalls", l.MaxToolCalls, MostToolCalls},
		{"maxOutputTokens", l.MaxOutputTokens, 1 << 20}, {"maxIdleTurns", l.MaxIdleTurns, MostTurns}} {
		if m.got < 0 || m.got > m.most {
			return fault.Configf(key+"."+m.name, "%d is out of range; 1 to %d, or 0 for the default", m.got, m.most)
		}
	}
	if l.WallClock < 0 {
		return fault.Configf(key+".wallClock", "must not be negative")
	}
	return nil
}

// Validate reports input that can be refused without looking at the worker's configuration.
func (in AgentInput) Validate() error {
	switch {
	case in.AgentType == "":
		return fault.Configf("agentType", "is missing; it names a profile")
	case in.Prompt == "":
		return fault.Configf("prompt", "is empty")
	case len(in.Prompt) > MaxPrompt:
		return fault.Configf("prompt", "has %s, at most %s fit; put long material into a file that the agent reads",
			mib(len(in.Prompt)), mib(MaxPrompt))
	case len(in.OutputSchema) > MaxOutputSchema:
		return fault.Configf("outputSchema", "has %d bytes, at most %d fit", len(in.OutputSchema), MaxOutputSchema)
	}
	if err := CheckBudget("budgetUSD", in.BudgetUSD); err != nil {
		return err
	}
	if raw, err := json.Marshal(in); err != nil {
		return &fault.ConfigError{Key: "input", Msg: "is not JSON", Cause: err}
	} else if len(raw) > MaxInput {
		return fault.Configf("input", "has %s as JSON, at most %s fit; put long material into a file that the agent reads",
			mib(len(raw)), mib(MaxInput))
	}
	if len(in.AgentType) > MaxName || len(in.Label) > MaxName || len(in.Key) > MaxName || len(in.RequestedBy) > MaxName {
		return fault.Configf("agentType, label, key, requestedBy", "have %d, %d, %d and %d bytes, at most %d fit in each",
			len(in.AgentType), len(in.Label), len(in.Key), len(in.RequestedBy), MaxName)
	}
	if in.Isolation != nil {
		switch in.Isolation.Kind {
		case "", worktree.None, worktree.Readonly, worktree.Tree:
		default:
			return &fault.ConfigError{Key: "isolation.kind", Msg: fmt.Sprintf("unknown kind %q", in.Isolation.Kind),
				Allowed: []string{string(worktree.None), string(worktree.Readonly), string(worktree.Tree)}}
		}
		if in.Isolation.Private && in.Isolation.Kind != worktree.Tree {
			return fault.Configf("isolation.private", "goes with kind %s only", worktree.Tree)
		}
	}
	if in.Limits != nil {
		return in.Limits.Validate("limits")
	}
	return nil
}

// MostBudget is the largest budget in USD; more is a slip.
const MostBudget = 1e6

// Dollars is an amount that counts: an operator can end an activity with any value, and none gives money back or makes a sum that
// is no number.
func Dollars(usd float64) float64 {
	if !(usd > 0) {
		return 0
	}
	return min(usd, MostBudget)
}

// CheckBudget reports a budget that cannot be one; nil is none.
func CheckBudget(key string, usd *float64) error {
	// The negation refuses NaN too.
	if usd != nil && !(*usd > 0 && *usd <= MostBudget) {
		return fault.Configf(key, "%v is out of range; more than 0 and at most %v USD, or leave it out for no budget", *usd, float64(MostBudget))
	}
	return nil
}

func mib(n int) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Status is how an agent ended.
type Status string

// The statuses of an AgentResult.
const (
	OK        Status = "ok"
	Failed    Status = "error"
	LimitHit  Status = "limit"
	Cancelled Status = "cancelled"
	Escalated Status = "escalated"
)

// AgentResult is what an agent returns.
type AgentResult struct {
	Status Status `json:"status"`
	// Output is the model's last text, shortened to 16 KiB; the transcript has it whole.
	Output string `json:"output"`
	// Error says what went wrong when Status is not ok.
	Error string `json:"error,omitempty"`
	// Structured is the output that was asked for by a schema, or StructuredRef if it is larger than 16 KiB.
	Structured    json.RawMessage `json:"structured,omitempty"`
	StructuredRef *blob.Ref       `json:"structuredRef,omitempty"`
	// Usage counts compactions too, and so does CostUSD.
	Usage   model.Usage `json:"usage"`
	CostUSD float64     `json:"costUSD"`
	// UnpricedTurns are those whose cost is unknown and not in CostUSD.
	UnpricedTurns int `json:"unpricedTurns,omitempty"`
	// LostUSD bounds what may have been paid that no answer accounts for: it was lost, or does not say what it used. The
	// budget counts it and CostUSD does not.
	LostUSD float64 `json:"lostUSD,omitempty"`
	// BelowUSD is what agents cost that workflows have spawned which the agent called as tools. It is known where the agent has
	// a budget, which counts it; CostUSD does not.
	BelowUSD float64 `json:"belowUSD,omitempty"`
	Turns    int     `json:"turns"`
	// Compactions is how often older turns were summarised.
	Compactions int `json:"compactions,omitempty"`
	Calls       int `json:"calls"`
	Asked       int `json:"asked"`
	Restarts    int `json:"restarts"`
	// Transcript points to the last node of the hash chain of messages.
	Transcript  *blob.Ref  `json:"transcript,omitempty"`
	Store       string     `json:"store,omitempty"`
	ToolsetHash string     `json:"toolsetHash"`
	Artifacts   []Artifact `json:"artifacts"`
	// Escalation is the report of an agent that ended by escalate.
	Escalation json.RawMessage `json:"escalation,omitempty"`
	// Progress is the last report_progress of an agent that did not end ok.
	Progress json.RawMessage `json:"progress,omitempty"`
}

// ArtifactPatch is the kind of a collected patch.
const ArtifactPatch = "patch"

// Large says where the files are that have no room in a patch.
type Large struct {
	// Ref is a blob of JSON, a list of LargeFile.
	Ref blob.Ref `json:"ref"`
	// Files counts them and Bytes is the size of all.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// LargeFile is one of them: its path, git's mode, its size in bytes and the object id of its blob.
type LargeFile struct {
	Path string `json:"path"`
	// Name has the bytes of a path that is no UTF-8, which Path cannot hold.
	Name []byte `json:"name,omitempty"`
	Mode string `json:"mode"`
	Size int64  `json:"size"`
	ID   string `json:"id"`
	// Parts are the blobs whose bytes, one after the other, are the content.
	Parts []blob.Ref `json:"parts"`
}

// Artifact is something an agent hands back. Nobody applies it for its user.
type Artifact struct {
	Kind        string                `json:"kind"`
	Ref         blob.Ref              `json:"ref"`
	Files       []worktree.File       `json:"files"`
	Large       *Large                `json:"large,omitempty"`
	Base        string                `json:"base"`
	Tree        string                `json:"tree"`
	Warnings    []string              `json:"warnings,omitempty"`
	Ignored     []string              `json:"ignored,omitempty"`
	HostChanges []worktree.HostChange `json:"hostChanges,omitempty"`
	// Error says that the agent made the shared repository run programs, and how: it goes before everything else that is
	// said of the artifact.
	Error string `json:"error,omitempty"`
	// Retained is the path of a failed agent's tree that was kept for inspection.
	Retained string `json:"retained,omitempty"`
}
