package permission

import (
	"context"
	"encoding/json"

	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// Explain judges a hypothetical call without running anything. Hooks and canUseTool are consulted; the input is not
// validated against the tool's schema.
func Explain(c *Chain, info tool.Info, input json.RawMessage) Decision {
	return c.Decide(context.Background(), Call{Tool: info, Input: input}, nil)
}

// Tables are the patterns MatchShellCommand judges by, as written.
type Tables struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// ShellDecision is what MatchShellCommand says of a command.
type ShellDecision struct {
	Verdict Verdict `json:"verdict"`
	// Segments has at least one entry.
	Segments []argv.Segment `json:"segments"`
}

// MatchShellCommand returns the strictest verdict over the segments of a shell command: deny over ask over allow. A
// segment that no pattern matches asks. It is for use inside a hook; the chain has no allow table. A pattern that
// cannot be compiled is a *fault.ConfigError, and the verdict is Deny.
func MatchShellCommand(command string, t Tables) (ShellDecision, error) {
	var compiled argv.Tables
	for _, table := range []struct {
		name string
		text []string
		into *argv.Table
	}{{"allow", t.Allow, &compiled.Allow}, {"ask", t.Ask, &compiled.Ask}, {"deny", t.Deny, &compiled.Deny}} {
		if len(table.text) == 0 {
			continue
		}
		if err := checkEach(table.name, Many(table.text...), checkPattern); err != nil {
			return ShellDecision{}, err
		}
		*table.into = argv.NewTable(compilePatterns(Many(table.text...))...)
	}
	r := argv.Lex(command).Match(compiled)
	verdict := map[argv.Outcome]Verdict{argv.Allow: Allow, argv.Ask: Ask}[r.Outcome] // else Deny, the zero Verdict
	return ShellDecision{Verdict: verdict, Segments: r.Segments}, nil
}
