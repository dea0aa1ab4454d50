package permission

import (
	"fmt"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

const (
	defaultHookTimeout = 5 * time.Second
	slowFactor         = 60
)

// Chain is a compiled policy. It is immutable and safe for concurrent use. Callers keep it: compiling costs far more
// than deciding.
type Chain struct {
	hooks      []Hook
	canUseTool CanUseTool
	deny, ask  table
	// plans holds the rules that read the input, by tool name.
	plans    map[string]*plan
	strict   bool
	readonly bool
	approval ApprovalPolicy
	timeout  time.Duration
	digest   string
}

// table is the deny or the ask rules of all layers in order.
type table struct {
	rules  []entry
	byTool map[string]int   // the first {tool} rule of a name
	byRisk [riskClasses]int // the first {risk} rule of a class, or none
}

type entry struct {
	rule Rule
	// why is the reason of a decision by this rule.
	why string
	// agent is true for the rules of one agent's input.
	agent bool
}

// plan is what the chain must know of a tool whose input some rule reads.
type plan struct {
	deny, ask patterns
	domains   domainIndex
	vetted    argv.Table
}

// patterns are the argv patterns of one table with the rule each came from.
type patterns struct {
	list  []argv.Pattern // while the chain is compiled
	table argv.Table
	owner []int          // the rule of each
	rule  map[string]int // pattern text to the first rule that holds it
}

// source is one layer on its way into a chain, with the key that errors name and the word that reasons use.
type source struct {
	key, origin string
	layer       Layer
	agent       bool
}

// Compile checks a policy and builds its chain. Everything wrong is a *fault.ConfigError whose Key starts with
// engine, parent, profile, agent or run.
func Compile(s Spec) (*Chain, error) {
	if s.HookTimeout < 0 {
		return nil, fault.Configf("hookTimeout", "is negative")
	}
	sources := []source{{key: "engine", origin: "engine", layer: s.Engine}}
	if s.Profile.InheritPermissions && s.Parent != nil {
		sources = append(sources, source{key: "parent", origin: "parent", layer: *s.Parent})
	}
	sources = append(sources, source{key: "profile", origin: "profile", layer: s.Profile})
	if s.Readonly {
		sources = append(sources, source{origin: "readonly isolation", layer: Layer{Deny: []Rule{{Risk: Many("write", "destructive")}}}})
	}
	sources = append(sources, source{key: "agent", origin: "agent input", agent: true, layer: Layer{Deny: s.AgentDeny, Ask: s.AgentAsk}},
		source{key: "run", origin: "run", layer: Layer{Vetted: s.RunVetted}})

	c := &Chain{readonly: s.Readonly, timeout: s.HookTimeout, plans: map[string]*plan{}}
	if c.timeout == 0 {
		c.timeout = defaultHookTimeout
	}
	var approval *ApprovalPolicy
	var vetted []Vetted
	for _, src := range sources {
		if err := c.add(src); err != nil {
			return nil, err
		}
		approval = overlay(approval, src.layer.Approval)
		vetted = append(vetted, src.layer.Vetted...)
	}
	if approval != nil {
		c.approval = *approval
	}
	c.deny.index()
	c.ask.index()
	c.plan(vetted)
	c.digest = c.computeDigest(vetted)
	return c, nil
}

func (c *Chain) add(src source) error {
	l := src.layer
	if err := l.Check(src.key); err != nil {
		return err
	}
	for i, r := range l.Ask {
		if src.agent && r.Approval != nil {
			return fault.Configf(fmt.Sprintf("agent.ask[%d].approval", i), "the rules of one agent's input cannot say who may answer")
		}
	}
	for i, h := range l.Hooks {
		if h.Name == "" {
			h.Name = fmt.Sprintf("%s %d", src.origin, i+1)
		}
		c.hooks = append(c.hooks, h)
	}
	if l.CanUseTool != nil {
		c.canUseTool = l.CanUseTool
	}
	c.strict = c.strict || l.StrictApprovals
	deny, ask, _ := CompilePreset(l.Preset) // checked above
	preset := "preset " + string(l.Preset)
	c.deny.add(l.Deny, src.origin, src.agent)
	c.deny.add(deny, preset, false)
	c.ask.add(l.Ask, src.origin, src.agent)
	c.ask.add(ask, preset, false)
	return nil
}

func (t *table) add(rules []Rule, origin string, agent bool) {
	for _, r := range rules {
		why := r.String() + " (" + origin + ")"
		if r.Reason != "" {
			why += ": " + r.Reason
		}
		t.rules = append(t.rules, entry{rule: r, why: why, agent: agent})
	}
}

func (t *table) index() {
	t.byTool = map[string]int{}
	for class := range t.byRisk {
		t.byRisk[class] = none
	}
	for i, e := range t.rules {
		if !e.rule.Argv.IsZero() || !e.rule.Domains.IsZero() {
			continue
		}
		for _, name := range e.rule.Tool.Values {
			if _, ok := t.byTool[name]; !ok {
				t.byTool[name] = i
			}
		}
		for _, name := range e.rule.Risk.Values {
			class := riskClass(tool.Risk(name))
			t.byRisk[class] = first(t.byRisk[class], i)
		}
	}
}

// plan prepares the rules that read the input, tool by tool.
func (c *Chain) plan(vetted []Vetted) {
	for _, t := range []struct {
		name string
		*table
	}{{argv.TableDeny, &c.deny}, {argv.TableAsk, &c.ask}} {
		for i, e := range t.rules {
			for _, name := range e.rule.Tool.Values {
				switch {
				case !e.rule.Argv.IsZero():
					c.planFor(name).side(t.name).add(compilePatterns(e.rule.Argv), i)
				case !e.rule.Domains.IsZero():
					c.planFor(name).domains.add(t.name, i, parseDomains(e.rule.Domains))
				}
			}
		}
	}
	lines := map[string][]argv.Pattern{}
	for _, v := range vetted {
		for _, name := range v.Tool.Values {
			lines[name] = append(lines[name], compilePatterns(v.Argv)...)
		}
	}
	for name, list := range lines {
		c.planFor(name).vetted = argv.NewTable(list...)
	}
	for _, p := range c.plans {
		p.deny.index()
		p.ask.index()
	}
}

func (c *Chain) planFor(name string) *plan {
	p := c.plans[name]
	if p == nil {
		p = &plan{}
		c.plans[name] = p
	}
	return p
}

func (p *plan) side(name string) *patterns {
	if name == argv.TableDeny {
		return &p.deny
	}
	return &p.ask
}

func (p *patterns) add(list []argv.Pattern, rule int) {
	if p.rule == nil {
		p.rule = map[string]int{}
	}
	for _, pattern := range list {
		p.list, p.owner = append(p.list, pattern), append(p.owner, rule)
		if _, ok := p.rule[pattern.String()]; !ok {
			p.rule[pattern.String()] = rule
		}
	}
}

func (p *patterns) index() { p.table, p.list = argv.NewTable(p.list...), nil }

// computeDigest hashes what decides: the tables as compiled, without inline tests, and the names of the code.
func (c *Chain) computeDigest(vetted []Vetted) string {
	policy := struct {
		Deny, Ask       []digestRule
		Vetted          []Vetted
		Hooks           []string
		CanUseTool      bool
		StrictApprovals bool
		Readonly        bool
		Approval        ApprovalPolicy
	}{
		Deny: c.deny.digest(), Ask: c.ask.digest(), Vetted: vetted, CanUseTool: c.canUseTool != nil,
		StrictApprovals: c.strict, Readonly: c.readonly, Approval: c.approval,
	}
	for _, h := range c.hooks {
		policy.Hooks = append(policy.Hooks, h.Name)
	}
	b, _ := canonjson.Marshal(policy) // plain data: it always encodes
	return canonjson.SHA256(b)
}

type digestRule struct {
	Rule  Rule
	Agent bool
}

func (t *table) digest() []digestRule {
	out := make([]digestRule, len(t.rules))
	for i, e := range t.rules {
		e.rule.Tests = nil
		out[i] = digestRule{Rule: e.rule, Agent: e.agent}
	}
	return out
}

// Digest returns the sha256 in hex of the declarative policy and the names of its hooks. It is the same for the same
// policy on every worker.
func (c *Chain) Digest() string { return c.digest }

// HasSlow reports whether a hook of the chain is slow.
func (c *Chain) HasSlow() bool {
	for _, h := range c.hooks {
		if h.Slow {
			return true
		}
	}
	return false
}

// ApprovalFor says how the question of a decision is put: the rule's policy over the profile's over the engine's,
// part by part.
func (c *Chain) ApprovalFor(d Decision) ApprovalPolicy {
	if d.Rule == nil {
		return c.approval
	}
	return *overlay(&c.approval, d.Rule.Approval)
}
