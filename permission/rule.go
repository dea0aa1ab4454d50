package permission

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/assent-dev/assent/fault"
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
func Many(s ...string) Strings {
	if s == nil {
		s = []string{}
	}
	return Strings{Values: s}
}

// IsZero reports whether nothing was written. An empty list is something: it is refused when a chain is compiled.
func (s Strings) IsZero() bool { return s.Values == nil && !s.Single }

// String writes the value in YAML flow style: x or [x, y].
func (s Strings) String() string {
	quoted := make([]string, len(s.Values))
	for i, v := range s.Values {
		quoted[i] = quoteFlow(v)
	}
	if s.Single && len(quoted) == 1 {
		return quoted[0]
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quoteFlow leaves alone what YAML reads as the same plain string in every position of a flow mapping.
func quoteFlow(s string) string {
	plain := s != ""
	for _, r := range s {
		if r != '_' && r != '.' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			plain = false
		}
	}
	if plain {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// MarshalJSON writes a string or a list. It leaves &, < and > alone, which encoding/json would escape for good before an
// encoder that must not could see them.
func (s Strings) MarshalJSON() ([]byte, error) {
	var v any = s.Values
	if s.Single && len(s.Values) == 1 {
		v = s.Values[0]
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// UnmarshalJSON accepts a string or a list of strings, and nothing else: no null, neither alone nor in the list.
func (s *Strings) UnmarshalJSON(b []byte) error {
	*s = Strings{}
	var one *string
	if json.Unmarshal(b, &one) == nil && one != nil {
		*s = One(*one)
		return nil
	}
	var many []*string
	if err := json.Unmarshal(b, &many); err != nil || many == nil {
		return fault.Configf("", "want a string or a list of strings")
	}
	values := make([]string, len(many))
	for i, v := range many {
		if v == nil {
			return fault.Configf("", "want a string or a list of strings")
		}
		values[i] = *v
	}
	*s = Many(values...)
	return nil
}

// Rule is one line of a deny or ask table. Its match part has exactly one form: {tool}, {risk}, {tool, argv}
// or {tool, domains}. Decoding refuses unknown keys, repeated keys and null with a *fault.ConfigError; what the
// values say is checked when a chain is compiled.
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

// UnmarshalJSON decodes strictly.
func (r *Rule) UnmarshalJSON(b []byte) error {
	type plain Rule
	return decodeStrict(b, "rule", (*plain)(r), "tool", "risk", "argv", "domains", "approval", "tests", "reason")
}

// String writes the match part in YAML flow style, for example {tool: shell, argv: "rm **"}.
func (r Rule) String() string {
	var parts []string
	for _, p := range []struct {
		key   string
		value Strings
	}{{"tool", r.Tool}, {"risk", r.Risk}, {"argv", r.Argv}, {"domains", r.Domains}} {
		if !p.value.IsZero() {
			parts = append(parts, p.key+": "+p.value.String())
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// RuleTests are inline cases that are checked whenever the rule is. A case is of the kind the rule matches by: a
// command for argv, a URL or host for domains, a risk for risk, a tool name for tool alone.
type RuleTests struct {
	Match    Strings `json:"match,omitzero"`
	NotMatch Strings `json:"notMatch,omitzero"`
}

// UnmarshalJSON decodes strictly.
func (t *RuleTests) UnmarshalJSON(b []byte) error {
	type plain RuleTests
	return decodeStrict(b, "tests", (*plain)(t), "match", "notMatch")
}

// ApprovalPolicy says how a question is put. The zero value asks anybody and waits for ever.
type ApprovalPolicy struct {
	// Deadline, Remind and Escalate.After are measured from the moment the question opens; zero is none.
	Deadline  time.Duration `json:"deadlineNs,omitempty"`
	Remind    time.Duration `json:"remindNs,omitempty"`
	Escalate  *Escalation   `json:"escalate,omitempty"`
	Approvers *Approvers    `json:"approvers,omitempty"`
}

// UnmarshalJSON decodes strictly.
func (p *ApprovalPolicy) UnmarshalJSON(b []byte) error {
	type plain ApprovalPolicy
	return decodeStrict(b, "approval", (*plain)(p), "deadlineNs", "remindNs", "escalate", "approvers")
}

// Escalation widens the group that may answer.
type Escalation struct {
	After  time.Duration `json:"afterNs"`
	Groups []string      `json:"groups"`
}

// UnmarshalJSON decodes strictly.
func (e *Escalation) UnmarshalJSON(b []byte) error {
	type plain Escalation
	return decodeStrict(b, "escalate", (*plain)(e), "afterNs", "groups")
}

// Approvers says who may answer and how many distinct principals must.
type Approvers struct {
	// Groups may answer; none means anybody.
	Groups []string `json:"groups,omitempty"`
	// Min is the number of principals; zero counts as one.
	Min int `json:"min"`
}

// UnmarshalJSON decodes strictly.
func (a *Approvers) UnmarshalJSON(b []byte) error {
	type plain Approvers
	return decodeStrict(b, "approvers", (*plain)(a), "groups", "min")
}

// Vetted is a line of commands nobody needs to be asked about; see the package argv for its patterns.
type Vetted struct {
	Tool Strings `json:"tool"`
	Argv Strings `json:"argv"`
}

// UnmarshalJSON decodes strictly.
func (v *Vetted) UnmarshalJSON(b []byte) error {
	type plain Vetted
	return decodeStrict(b, "vetted", (*plain)(v), "tool", "argv")
}
