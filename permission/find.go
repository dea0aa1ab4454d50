package permission

import (
	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// fetchTool is the first-party tool whose domain rules the chain enforces.
const fetchTool = "fetch"

// none is the index of no rule.
const none = -1

// finding is what the tables say about one input.
type finding struct {
	// known is false until the tables were asked.
	known     bool
	deny, ask int // the first matching rule of each table, or none
	// unsure says why some rule could not be judged, which asks; empty if all could.
	unsure     string
	segments   []argv.Segment
	advisories []Advisory
	in         input
}

// soft reports an ask that must not shield the call from a canUseTool that would deny it: by a rule of the agent's
// input, or because the input cannot be read. So adding a rule never weakens. The policy's own ask rules have been
// seen to by then.
func (f *finding) soft() bool { return f.ask != none || f.unsure != "" }

// find asks both tables about the present input, once.
func (j *judging) find() *finding {
	if !j.found.known {
		j.found = finding{known: true, deny: j.chain.deny.plain(j.call.Tool), ask: j.chain.ask.plain(j.call.Tool)}
		if j.plan != nil {
			j.found.read(j.chain, j.plan, j.call)
		}
	}
	return &j.found
}

// read judges by the rules that read the input.
func (f *finding) read(c *Chain, p *plan, call Call) {
	f.in = readInput(call.Input)
	if p.deny.table.Len()+p.ask.table.Len() > 0 {
		f.judgeCommands(p)
	}
	if !p.domains.empty() {
		f.judgeHosts(c, p, call.Tool.Name == fetchTool)
	}
}

// plain returns the first rule that names the tool or its risk, or none.
func (t *table) plain(info tool.Info) int {
	found := t.byRisk[riskClass(info.Risk)]
	if i, ok := t.byTool[info.Name]; ok {
		found = first(found, i)
	}
	return found
}

const riskClasses = 6

// riskClass numbers the risks from 0. A word that is none of them is no declaration.
func riskClass(r tool.Risk) int {
	switch r {
	case tool.Read:
		return 1
	case tool.Write:
		return 2
	case tool.Network:
		return 3
	case tool.Execute:
		return 4
	case tool.Destructive:
		return 5
	}
	return 0
}

// first returns the earlier of two rules.
func first(a, b int) int {
	if a == none || b == none {
		return max(a, b)
	}
	return min(a, b)
}

func (f *finding) judgeCommands(p *plan) {
	f.unsure = f.in.noCommand
	for _, command := range f.in.commands {
		r := command.Chain(p.deny.table, p.ask.table)
		f.segments = append(f.segments, r.Segments...)
		switch {
		case r.Outcome == argv.Deny:
			f.deny = first(f.deny, p.deny.earliest(r))
		case r.Outcome == argv.Ask && r.Table == argv.TableAsk:
			f.ask = first(f.ask, p.ask.earliest(r))
		case r.Outcome == argv.Ask:
			f.unsure = unsure(r)
		}
	}
}

// earliest returns the first rule of the table that a segment with the outcome of the whole command names.
func (p *patterns) earliest(r argv.Result) int {
	found := p.owner[r.Index]
	for _, s := range r.Segments {
		if i, ok := p.rule[s.Pattern]; ok && s.Verdict == r.Outcome.String() && s.Table == r.Table {
			found = first(found, i)
		}
	}
	return found
}

func unsure(r argv.Result) string {
	why := "the command cannot be judged"
	if r.Construct != "" {
		why += ": " + r.Construct
	}
	for _, s := range r.Segments {
		if s.Verdict == argv.TableAsk && s.Table == argv.TableDeny {
			return why + ": it may become what " + quoteFlow(s.Pattern) + " denies"
		}
	}
	return why
}

// judgeHosts decides by the domain rules of the fetch tool, and lists those of any other tool as advisories.
func (f *finding) judgeHosts(c *Chain, p *plan, enforced bool) {
	if enforced && f.unsure == "" {
		f.unsure = f.in.noHost
	}
	for _, host := range f.in.hosts {
		for _, d := range p.domains.matching(host) {
			switch {
			case !enforced:
				f.advisories = append(f.advisories, Advisory{Table: d.table, Rule: c.side(d.table).rules[d.index].rule, Host: host})
			case d.table == argv.TableDeny:
				f.deny = first(f.deny, d.index)
			default:
				f.ask = first(f.ask, d.index)
			}
		}
	}
}

func (c *Chain) side(name string) *table {
	if name == argv.TableDeny {
		return &c.deny
	}
	return &c.ask
}

// vetted allows a command that the vetted lines cover and no rule on commands stops; it is the last hook.
func (j *judging) vetted() (Decision, bool) {
	j.layer = ByHook
	p := j.plan
	if p == nil || p.vetted.Len() == 0 {
		return Decision{}, false
	}
	f := j.find()
	if f.deny != none || f.in.noCommand != "" || len(f.in.commands) != 1 {
		return Decision{}, false
	}
	r := f.in.commands[0].Match(argv.Tables{Allow: p.vetted, Ask: p.ask.table, Deny: p.deny.table})
	if r.Outcome != argv.Allow {
		return Decision{}, false
	}
	d := j.decide(Allow, ByHook, "vetted "+quoteFlow(r.Segments[0].Pattern))
	d.Segments = r.Segments
	return d, true
}

func (t *table) copyOf(i int) *Rule {
	r := t.rules[i].rule
	return &r
}
