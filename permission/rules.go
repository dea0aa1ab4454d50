package permission

import (
	"fmt"

	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// Rules returns the policy of the chain for one tool while it runs: for a shell that checks what it really executes, and
// for a client that checks every connection it makes, redirects included.
func (c *Chain) Rules(toolName string) tool.Rules { return rules{chain: c, tool: toolName} }

type rules struct {
	chain *Chain
	tool  string
}

// RuleError says that a rule refused something while a tool ran. It is a tool.Refused.
type RuleError struct {
	// Table is deny or ask.
	Table string
	// Rule is the rule that matched, nil if Subject could not be judged.
	Rule *Rule
	// Subject is the host, or the program with its arguments.
	Subject string
	// Cause is set if the rules themselves could not be had.
	Cause error
}

func (e *RuleError) Error() string {
	switch {
	case e.Cause != nil:
		return fmt.Sprintf("%q cannot be judged: %v", e.Subject, e.Cause)
	case e.Rule == nil:
		return fmt.Sprintf("%q is no host name or address", e.Subject)
	case e.Rule.Reason != "":
		return fmt.Sprintf("%s: %s", e.RefusedBy(), e.Rule.Reason)
	}
	return e.RefusedBy()
}

func (e *RuleError) Unwrap() error { return e.Cause }

// RefusedBy names the table and the rule.
func (e *RuleError) RefusedBy() string {
	if e.Rule == nil {
		return e.Table + "-rule"
	}
	return e.Table + "-rule " + e.Rule.String()
}

// Argv refuses what a deny rule names, for certain: what might be meant was judged, and asked about, as text.
func (r rules) Argv(args []string) error {
	p := r.chain.plans[r.tool]
	if p == nil || p.deny.table.Len() == 0 {
		return nil
	}
	result := argv.LexExecuted(args).Chain(p.deny.table, argv.Table{})
	if result.Outcome != argv.Deny {
		return nil
	}
	return &RuleError{Table: argv.TableDeny, Rule: r.chain.deny.copyOf(p.deny.earliest(result)), Subject: result.Segments[0].Segment}
}

// Host refuses what a deny rule names, and what an ask rule names unless it was asked about. Text that is no host is
// refused.
func (r rules) Host(host string, asked bool) error {
	normal, ok := NormalHost(host)
	if !ok {
		return &RuleError{Table: argv.TableDeny, Subject: host}
	}
	p := r.chain.plans[r.tool]
	if p == nil {
		return nil
	}
	f := finding{deny: none, ask: none}
	f.in.hosts = []string{normal}
	f.judgeHosts(r.chain, p, true)
	switch {
	case f.deny != none:
		return &RuleError{Table: argv.TableDeny, Rule: r.chain.deny.copyOf(f.deny), Subject: normal}
	case f.ask != none && !asked:
		return &RuleError{Table: argv.TableAsk, Rule: r.chain.ask.copyOf(f.ask), Subject: normal}
	}
	return nil
}
