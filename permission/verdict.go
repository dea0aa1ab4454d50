package permission

import (
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// Verdict is deny, ask or allow. The zero value denies, and the strictest of two is the smaller.
type Verdict uint8

// The verdicts, strictest first.
const (
	Deny Verdict = iota
	Ask
	Allow
)

var verdictNames = [...]string{"deny", "ask", "allow"}

// String returns deny, ask or allow; anything out of range is deny.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return verdictNames[Deny]
}

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText accepts exactly the three names; anything else is an error and leaves Deny.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Deny
	for i, n := range verdictNames {
		if string(b) == n {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("verdict %q: want deny, ask or allow", b)
}

// Strictest returns the stricter of two verdicts.
func Strictest(a, b Verdict) Verdict { return min(a, b) }

// Decider names the layer that decided.
type Decider string

// The closed list of deciders.
const (
	ByHook       Decider = "hook"
	ByDenyRule   Decider = "deny-rule"
	ByAskRule    Decider = "ask-rule"
	ByCanUseTool Decider = "canUseTool"
	ByDefault    Decider = "default"
	ByGuard      Decider = "guard"
	ByInvalid    Decider = "invalid"
	ByListener   Decider = "listener"
)

// Decision is the recorded outcome of judging one call.
type Decision struct {
	Verdict   Verdict `json:"verdict"`
	DecidedBy Decider `json:"decidedBy"`
	// By is the name of the guard, or of the listener's plugin, if DecidedBy is one of these.
	By string `json:"by,omitempty"`
	// Rule is the matching rule, echoed as written.
	Rule *Rule `json:"rule,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Input is the final argument value: what later layers judged, a person sees, and the tool gets.
	Input json.RawMessage `json:"input,omitempty"`
	// Modified is true when Input is not what was asked for.
	Modified bool `json:"modified,omitempty"`
	// Failed is true when the layer denied because it failed or was cut short, not because it was of that opinion.
	Failed bool `json:"failed,omitempty"`
	// Advisories are domain rules that matched without being enforced.
	Advisories []Advisory `json:"advisories,omitempty"`
	// Segments explains argv rules, one entry for each segment of the command.
	Segments     []argv.Segment `json:"segments,omitempty"`
	PolicyDigest string         `json:"policyDigest,omitempty"`
	// Invalid lists every place where the arguments do not fit the tool: the caller's if DecidedBy is invalid, else
	// those that a hook or canUseTool put in their place.
	Invalid []tool.Issue `json:"issues,omitempty"`
}

// Because says in one line who decided, and why. The reason of a rule begins with the rule.
func (d Decision) Because() string {
	switch {
	case d.Reason != "":
		return string(d.DecidedBy) + " " + d.Reason
	case d.Rule != nil:
		return string(d.DecidedBy) + " " + d.Rule.String()
	}
	return string(d.DecidedBy)
}

// Advisory is a domain rule that matched a call without being enforced in the chain.
type Advisory struct {
	// Table is deny or ask.
	Table string `json:"table"`
	Rule  Rule   `json:"rule"`
	Host  string `json:"host"`
}
