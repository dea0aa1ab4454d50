package permission

import (
	"bytes"
	"encoding/json"
	"time"
)

// Strings is one string or a list of strings; it is written back in the form in which it was read.
type Strings struct {
	Values []string
	// Single is true when the value was written as a bare string.
	Single bool
}

// One returns the bare form.
func One(s string) Strings { return Strings{Values: []string{s}, Single: true} }

// Many returns the list form.
func Many(s ...string) Strings { return Strings{Values: s} }

// IsZero reports whether nothing was written.
func (s Strings) IsZero() bool { return s.Values == nil && !s.Single }

// MarshalJSON writes a string or a list.
func (s Strings) MarshalJSON() ([]byte, error) {
	if s.Single && len(s.Values) == 1 {
		return json.Marshal(s.Values[0])
	}
	return json.Marshal(s.Values)
}

// UnmarshalJSON accepts a string or a list of strings.
func (s *Strings) UnmarshalJSON(b []byte) error {
	*s = Strings{}
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		var one string
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		*s = One(one)
		return nil
	}
	return json.Unmarshal(b, &s.Values)
}

// Rule is one line of a deny or ask table. Its match part has exactly one form: {tool}, {risk}, {tool, argv}
// or {tool, domains}.
type Rule struct {
	Tool    Strings `json:"tool,omitzero"`
	Risk    Strings `json:"risk,omitzero"`
	Argv    Strings `json:"argv,omitzero"`
	Domains Strings `json:"domains,omitzero"`

	// Approval says who may answer and until when; ask rules only.
	Approval *ApprovalPolicy `json:"approval,omitempty"`
	Tests    *RuleTests      `json:"tests,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// RuleTests are inline cases checked when a policy is loaded.
type RuleTests struct {
	Match    Strings `json:"match,omitzero"`
	NotMatch Strings `json:"notMatch,omitzero"`
}

// ApprovalPolicy says how a question is put.
type ApprovalPolicy struct {
	// Deadline, Remind and Escalate.After are measured from the moment the question opens; zero is none.
	Deadline  time.Duration `json:"deadlineNs,omitempty"`
	Remind    time.Duration `json:"remindNs,omitempty"`
	Escalate  *Escalation   `json:"escalate,omitempty"`
	Approvers *Approvers    `json:"approvers,omitempty"`
}

// Escalation widens the group that may answer.
type Escalation struct {
	After  time.Duration `json:"afterNs"`
	Groups []string      `json:"groups"`
}

// Approvers says who may answer and how many distinct principals must.
type Approvers struct {
	Groups []string `json:"groups"`
	Min    int      `json:"min"`
}

// Preset names a built-in set of rules.
type Preset string

// The presets. The empty preset is none, which is the chain without a preset.
const (
	Strict   Preset = "strict"
	Standard Preset = "standard"
	Open     Preset = "open"
)

// Vetted is a line of commands nobody needs to be asked about; see the package argv for its patterns.
type Vetted struct {
	Tool Strings `json:"tool"`
	Argv Strings `json:"argv"`
}
