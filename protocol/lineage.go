package protocol

import (
	"crypto/hmac"
	"encoding/json"
	"slices"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/worktree"
)

// HeaderLineage is the header in which a spawned agent, and a workflow that an agent runs as a tool, learns where in a
// tree of agents it stands: a Lineage as json/plain.
const HeaderLineage = "assent-lineage"

// Lineage is what a run knows of those above it. Whoever starts a workflow can send any header, so it counts only in a
// child, and only if Parent is what the server says of the child's parent.
type Lineage struct {
	// Root is the workflow id of the first of the tree: an agent or a workflow that spawns. Parent is the one that wrote
	// this.
	Root   string `json:"root"`
	Parent string `json:"parent"`
	// Depth counts the agents on the way from the root to here, this one included.
	Depth int `json:"depth"`
	// Bounds hold for everything below and can only be lowered there.
	Bounds Bounds `json:"bounds"`
	// BudgetUSD is what a workflow that is no agent may spend on agents; nil is no bound. Agents have theirs in their input.
	BudgetUSD *float64 `json:"budgetUSD,omitempty"`
	// Parents are the agents above whose policy a profile with inheritPermissions takes, outermost first.
	Parents []Above `json:"parents,omitempty"`
	KeyID   string  `json:"kid,omitempty"`
	// MAC is unpadded URL base64 of HMAC-SHA256 over Material; empty without a key. Only Parents need it: whoever inherits
	// from them may do what they may.
	MAC string `json:"mac,omitempty"`
}

// Material is what the MAC is over: the canonical JSON of {"lineage": l without its mac, "namespace", "run"}, where run is
// the parent's, as the server tells the child.
func (l Lineage) Material(namespace, run string) ([]byte, error) {
	l.MAC = ""
	b, err := json.Marshal(map[string]any{"lineage": l, "namespace": namespace, "run": run})
	if err != nil {
		return nil, err
	}
	return canonjson.Canonical(b)
}

// SignLineage returns l with key id and MAC, or l unchanged when the ring is empty.
func (r Keyring) SignLineage(l Lineage, namespace, run string) (Lineage, error) {
	l.KeyID, l.MAC = "", ""
	if r.Empty() {
		return l, nil
	}
	l.KeyID = r.keys[0].ID
	material, err := l.Material(namespace, run)
	l.MAC = mac(r.keys[0].Secret, material)
	return l, err
}

// VerifyLineage reports whether a worker that shares a key has written l for a child of that run. Without a key every
// lineage is taken for true, as a grant is.
func (r Keyring) VerifyLineage(l Lineage, namespace, run string) bool {
	if r.Empty() {
		return true
	}
	material, err := l.Material(namespace, run)
	if err != nil {
		return false
	}
	for _, k := range r.keys {
		if k.ID == l.KeyID {
			return hmac.Equal([]byte(mac(k.Secret, material)), []byte(l.MAC))
		}
	}
	return false
}

// Above is a Parent as the header has it, which nobody encrypts: its rules are sealed by the team's converter.
type Above struct {
	Profile string `json:"profile"`
	// Digest is the hex SHA-256 of the canonical JSON of the rules, Rules their payload as protobuf; empty without rules.
	Digest string `json:"digest,omitempty"`
	Rules  []byte `json:"rules,omitempty"`
}

// Parent is the policy of an agent above: its profile, and the rules that its own input brought.
type Parent struct {
	Profile string   `json:"profile"`
	Tighten *Tighten `json:"tighten,omitempty"`
}

// Bounds are those of a tree of agents. Zero members are the defaults.
type Bounds struct {
	// Depth is how many agents may stand under one another.
	Depth int `json:"depth,omitempty"`
	// Concurrent is how many agents one run may have at work at once; the next ones wait. Total is how many it may spawn
	// in all.
	Concurrent int `json:"concurrent,omitempty"`
	Total      int `json:"total,omitempty"`
}

// DefaultBounds are those of a run that says nothing.
func DefaultBounds() Bounds { return Bounds{Depth: 4, Concurrent: 16, Total: 256} }

// The ceilings of bounds: the children of one run must fit into its history.
const (
	MostDepth      = 16
	MostConcurrent = 256
	MostTotal      = 2000
)

// Over returns b with every zero member taken from base.
func (b Bounds) Over(base Bounds) Bounds {
	if b.Depth == 0 {
		b.Depth = base.Depth
	}
	if b.Concurrent == 0 {
		b.Concurrent = base.Concurrent
	}
	if b.Total == 0 {
		b.Total = base.Total
	}
	return b
}

// Within returns the smaller of both, member by member.
func (b Bounds) Within(outer Bounds) Bounds {
	return Bounds{min(b.Depth, outer.Depth), min(b.Concurrent, outer.Concurrent), min(b.Total, outer.Total)}
}

// Validate reports bounds that cannot be used as *fault.ConfigError.
func (b Bounds) Validate(key string) error {
	for _, m := range []struct {
		name      string
		got, most int
	}{{"depth", b.Depth, MostDepth}, {"concurrent", b.Concurrent, MostConcurrent}, {"total", b.Total, MostTotal}} {
		if m.got < 0 || m.got > m.most {
			return fault.Configf(key+"."+m.name, "%d is out of range; 1 to %d, or 0 for the default", m.got, m.most)
		}
	}
	return nil
}

// content is what decides what an agent does, as far as it is known before it is started. What a profile says is not: a
// changed profile is another agent under the same name. The budget is not, because it is what is left at the moment.
type content struct {
	AgentType    string              `json:"agentType"`
	Prompt       string              `json:"prompt,omitempty"`
	Key          string              `json:"key,omitempty"`
	RequestedBy  string              `json:"requestedBy,omitempty"`
	Models       []string            `json:"models,omitempty"`
	Tools        *[]string           `json:"tools"`
	Permissions  *Tighten            `json:"permissions,omitempty"`
	Isolation    *worktree.Isolation `json:"isolation,omitempty"`
	Limits       *Limits             `json:"limits,omitempty"`
	OutputSchema json.RawMessage     `json:"outputSchema,omitempty"`
	Parents      []Above             `json:"parents,omitempty"`
}

// ContentHash is the hex SHA-256 of what decides what an agent does: two of one hash are asked for the same. A Key stands
// for the prompt. parents are those whose policy the agent may inherit.
func (in AgentInput) ContentHash(parents []Above) (string, error) {
	parents = slices.Clone(parents)
	for i := range parents {
		// Sealed anew they are other bytes.
		parents[i].Rules = nil
	}
	c := content{AgentType: in.AgentType, Prompt: in.Prompt, Key: in.Key, RequestedBy: in.RequestedBy, Models: in.Models, Tools: in.Tools,
		Permissions: in.Permissions, Isolation: in.Isolation, Limits: in.Limits, OutputSchema: in.OutputSchema, Parents: parents}
	if in.Key != "" {
		c.Prompt = ""
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return "", &fault.ConfigError{Key: "input", Msg: "is not JSON", Cause: err}
	}
	canonical, err := canonjson.Canonical(raw)
	if err != nil {
		return "", &fault.ConfigError{Key: "input", Msg: "has no canonical form", Cause: err}
	}
	return canonjson.SHA256(canonical), nil
}

// Digest is the hex SHA-256 of the canonical JSON of the rules.
func (t Tighten) Digest() (string, error) {
	canonical, err := canonjson.Marshal(t)
	if err != nil {
		return "", err
	}
	return canonjson.SHA256(canonical), nil
}

// JoinRequest asks for the result of an agent that runs or ran under an id, if it was asked for the same.
type JoinRequest struct {
	WorkflowID  string `json:"workflowId"`
	ContentHash string `json:"contentHash"`
	TaskQueue   string `json:"taskQueue"`
}

// JoinResponse is that result, or says why there is none that could be taken.
type JoinResponse struct {
	Result *AgentResult `json:"result,omitempty"`
	Why    string       `json:"why,omitempty"`
	// Foreign says that the id belongs to something else, which may still run.
	Foreign bool `json:"foreign,omitempty"`
}

// ForwardRequest takes an answer that was sent to a run to the one of its children, or of theirs, whose question it
// answers. Its key may name the child: KEY@WORKFLOW.
type ForwardRequest struct {
	Answer   Resolution `json:"answer"`
	Children []Started  `json:"children"`
}

// ForwardResponse says who took the answer, or why nobody did.
type ForwardResponse struct {
	WorkflowID string `json:"workflowId,omitempty"`
	// Accepted is set where the child said so; a signal says nothing.
	Accepted *Accepted `json:"accepted,omitempty"`
	Refused  string    `json:"refused,omitempty"`
	// Bad says that the answer is refused for what it says.
	Bad bool `json:"bad,omitempty"`
}
