package permission

import (
	"slices"
	"strings"

	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// anyWord stands for any one word where a pattern is tried on a command of its own.
const anyWord = "any-word-at-all"

// lintTable holds the patterns of one table and tool in the order in which they decide.
type lintTable struct {
	table    argv.Table
	patterns []argv.Pattern
	keys     []string
	rules    []int          // the rule or vetted line of each, by its place in the chain
	spare    map[int]string // see redundantAllowed
}

func (t *lintTable) add(key string, list Strings, rule int) {
	for i, text := range list.Values {
		p, _ := argv.Compile(text) // checked by the caller
		t.patterns = append(t.patterns, p)
		t.keys, t.rules = append(t.keys, element(key+".argv", list, i)), append(t.rules, rule)
	}
}

// said is the key and the text of a pattern.
func (t *lintTable) said(i int) string { return t.keys[i] + " " + quoteFlow(t.patterns[i].String()) }

// table compiles the argv patterns for a tool in the deny, ask or allow table; the last are the vetted ones.
func (c *lintChain) table(name, toolName string) *lintTable {
	key := [2]string{name, toolName}
	if t := c.compiled[key]; t != nil {
		return t
	}
	t := &lintTable{}
	for i, v := range c.vetted {
		if name == argv.TableAllow && slices.Contains(v.line.Tool.Values, toolName) {
			t.add(v.place, v.line.Argv, i)
		}
	}
	for i, r := range c.rules(name) {
		if slices.Contains(r.rule.Tool.Values, toolName) {
			t.add(r.place, r.rule.Argv, i)
		}
	}
	t.table = argv.NewTable(t.patterns...)
	c.compiled[key] = t
	return t
}

func (c *lintChain) rules(table string) []lintRule {
	switch table {
	case argv.TableDeny:
		return c.deny
	case argv.TableAsk:
		return c.ask
	}
	return nil
}

// examples returns commands that stand for all that a pattern matches: with each number of words in the place of a **
// up to some, and with more than any pattern of the policy has.
func (l *linter) examples(text string) []argv.Command {
	if known := l.commands[text]; known != nil {
		return known
	}
	p, _ := argv.Compile(text) // checked by the caller
	words := p.Words()
	for i, w := range words {
		if w == "*" {
			words[i] = anyWord
		}
	}
	extra := []int{0}
	if last := len(words) - 1; words[last] == "**" {
		words, extra = words[:last], []int{0, 1, 2, 3, l.longest + 1}
	}
	var out []argv.Command
	for _, n := range extra {
		if command := strings.TrimSpace(strings.Join(words, " ") + strings.Repeat(" "+anyWord, n)); command != "" {
			out = append(out, argv.Lex(command))
		}
	}
	l.commands[text] = out
	return out
}

// measure returns the words of the longest pattern that is looked at, within reason.
func (p LintPolicy) measure() int {
	longest := 0
	layers := []Layer{p.Engine}
	for _, profile := range p.Profiles {
		layers = append(layers, profile.Layer)
	}
	for _, layer := range layers {
		var lists []Strings
		for _, r := range slices.Concat(layer.Deny, layer.Ask) {
			lists = append(lists, r.Argv)
		}
		for _, v := range layer.Vetted {
			lists = append(lists, v.Argv)
		}
		for _, list := range lists {
			for _, text := range list.Values {
				longest = max(longest, len(strings.Fields(text)))
			}
		}
	}
	return min(longest, 256)
}

// stopped returns the place of the pattern that denies or asks about every command that text matches, and whether it is
// one of the deny table; nothing if some command is met by none. Of the ask table only the rules before upTo count.
func (l *linter) stopped(c *lintChain, text, toolName string, upTo int) (place string, denies bool) {
	deny, ask := c.table(argv.TableDeny, toolName), c.table(argv.TableAsk, toolName)
	for _, command := range l.examples(text) {
		r := command.Chain(deny.table, ask.table)
		switch {
		case r.Outcome == argv.Deny:
			place, denies = deny.said(r.Index), true
		case r.Outcome == argv.Ask && r.Table == argv.TableAsk && ask.rules[r.Index] < upTo:
			place, denies = ask.said(r.Index), false
		default:
			return "", false
		}
	}
	return place, denies
}

// deniedBefore returns the place of the pattern that denies, before rule upTo, every command that text matches.
func (l *linter) deniedBefore(c *lintChain, text, toolName string, upTo int) string {
	deny, place := c.table(argv.TableDeny, toolName), ""
	for _, command := range l.examples(text) {
		r := command.Chain(deny.table, argv.Table{})
		if r.Outcome != argv.Deny || deny.rules[r.Index] >= upTo {
			return ""
		}
		place = deny.said(r.Index)
	}
	return place
}

// plain returns the place of the first rule before upTo that is about every call of the tool, or about the risk alone
// if name is empty.
func (l *linter) plain(rules []lintRule, upTo int, name string, risk tool.Risk) string {
	info, known := l.tools[name]
	if known {
		risk = info.Risk
	}
	left := RiskNames()
	for _, r := range rules[:upTo] {
		switch {
		case name != "" && r.rule.names(name, "none"), (known || name == "") && r.rule.names("", risk):
			return r.place + " " + r.rule.String()
		case name != "":
			// Rules about all risks are about every tool.
			left = slices.DeleteFunc(left, func(word string) bool { return slices.Contains(r.rule.Risk.Values, word) })
			if len(left) == 0 {
				return r.place + " " + r.rule.String()
			}
		}
	}
	return ""
}

// redundant returns, for each pattern that others of the same table take in whole, what they are. The order of the table
// does not matter for it.
func (l *linter) redundant(t *lintTable, first func(argv.Command, argv.Table) int) map[int]string {
	reversed := slices.Clone(t.patterns)
	slices.Reverse(reversed)
	backwards := argv.NewTable(reversed...)
	out := map[int]string{}
	for _, forward := range []bool{true, false} {
		for j, p := range t.patterns {
			by := -1
			for _, command := range l.examples(p.String()) {
				if by = first(command, t.table); !forward && by == j {
					if by = len(t.patterns) - 1 - first(command, backwards); out[by] != "" {
						by = j // it is redundant itself
					}
				}
				if by < 0 || by >= len(t.patterns) || by == j {
					by = -1
					break
				}
			}
			if by >= 0 && out[j] == "" {
				out[j] = t.said(by)
			}
		}
	}
	return out
}

func firstDenied(command argv.Command, t argv.Table) int {
	if r := command.Chain(t, argv.Table{}); r.Outcome == argv.Deny {
		return r.Index
	}
	return -1
}

func firstAllowed(command argv.Command, t argv.Table) int {
	if r := command.Match(argv.Tables{Allow: t}); r.Outcome == argv.Allow {
		return r.Index
	}
	return -1
}

// part is one tool, risk, pattern or domain of a rule with the place of what decides before it.
type part struct{ key, by, word string }

// shadowed finds what earlier rules leave nothing to decide: a whole rule, or parts of it.
func (l *linter) shadowed(c *lintChain, table string, index int, r lintRule) {
	var parts []part
	free := false
	look := func(key, by, word string) {
		parts = append(parts, part{key, by, word})
		free = free || by == ""
	}
	switch {
	case !r.rule.Argv.IsZero():
		for j, text := range r.rule.Argv.Values {
			by, word := l.everyTool(r.rule.Tool, func(name string) (string, string) { return l.argvBefore(c, table, index, name, text) })
			look(element(r.place+".argv", r.rule.Argv, j), by, word)
		}
	case !r.rule.Domains.IsZero():
		for j, text := range r.rule.Domains.Values {
			by, word := l.everyTool(r.rule.Tool, func(name string) (string, string) { return l.domainBefore(c, table, index, name, text) })
			look(element(r.place+".domains", r.rule.Domains, j), by, word)
		}
	case !r.rule.Risk.IsZero():
		for j, word := range r.rule.Risk.Values {
			risk := tool.Risk(word)
			if word == undeclared {
				risk = tool.Undeclared
			}
			by, word := l.plainBefore(c, table, index, "", risk)
			look(element(r.place+".risk", r.rule.Risk, j), by, word)
		}
	default:
		for j, name := range r.rule.Tool.Values {
			by, word := l.plainBefore(c, table, index, name, "")
			look(element(r.place+".tool", r.rule.Tool, j), by, word)
		}
	}
	if len(r.rule.Argv.Values) > 1 {
		t := &lintTable{}
		t.add(r.place, r.rule.Argv, index)
		t.table = argv.NewTable(t.patterns...)
		for j, by := range l.redundant(t, firstDenied) {
			if parts[j].by == "" {
				parts[j].by, parts[j].word = by, "takes it in"
			}
		}
	}
	if len(parts) > 0 && !free {
		l.find(r.place, FindShadowed, "never decides: %s %s", parts[0].by, parts[0].word)
		return
	}
	for _, p := range parts {
		if p.by != "" {
			l.find(p.key, FindShadowed, "never decides: %s %s", p.by, p.word)
		}
	}
}

// everyTool returns what decides before a pattern or domain if something does for each tool of the rule.
func (l *linter) everyTool(names Strings, before func(name string) (by, word string)) (by, word string) {
	for _, name := range names.Values {
		if by, word = before(name); by == "" {
			return "", ""
		}
	}
	return by, word
}

const (
	deniesFirst = "denies first"
	asksFirst   = "asks first"
)

// plainBefore returns what decides, before rule index of the table, every call of a tool or of a risk.
func (l *linter) plainBefore(c *lintChain, table string, index int, name string, risk tool.Risk) (by, word string) {
	if table == argv.TableDeny {
		return l.plain(c.deny, index, name, risk), deniesFirst
	}
	if by := l.plain(c.deny, len(c.deny), name, risk); by != "" {
		return by, deniesFirst
	}
	return l.plain(c.ask, index, name, risk), asksFirst
}

func (l *linter) argvBefore(c *lintChain, table string, index int, name, text string) (by, word string) {
	upTo := len(c.deny)
	if table == argv.TableDeny {
		upTo = index
	}
	if by := l.plain(c.deny, upTo, name, ""); by != "" {
		return by, deniesFirst
	}
	if by := l.deniedBefore(c, text, name, upTo); by != "" {
		return by, deniesFirst
	}
	if table == argv.TableDeny {
		return "", ""
	}
	// An ask rule for the whole tool leaves an ask rule for a command its say over vetted lines, of whatever layer.
	if !l.vetted[name] {
		if by := l.plain(c.ask, index, name, ""); by != "" {
			return by, asksFirst
		}
	}
	if by, denies := l.stopped(c, text, name, index); by != "" && !denies {
		return by, asksFirst
	}
	return "", ""
}

// domainBefore is about fetch, the only tool whose domain rules decide. An ask rule for all of fetch does not cover one
// for a host, which is refused in redirects.
func (l *linter) domainBefore(c *lintChain, table string, index int, name, text string) (by, word string) {
	if name != fetchTool {
		return "", ""
	}
	upTo := len(c.deny)
	if table == argv.TableDeny {
		upTo = index
	}
	if by := l.plain(c.deny, upTo, name, ""); by != "" {
		return by, deniesFirst
	}
	if by := domainIn(c.deny, upTo, name, text); by != "" {
		return by, deniesFirst
	}
	if table == argv.TableDeny {
		return "", ""
	}
	return domainIn(c.ask, index, name, text), asksFirst
}

// domainIn returns the first rule before upTo with a domain that takes in all of text.
func domainIn(rules []lintRule, upTo int, name, text string) string {
	inner, _ := parseDomain(text) // checked by the caller
	for _, r := range rules[:upTo] {
		if !slices.Contains(r.rule.Tool.Values, name) {
			continue
		}
		for j, other := range r.rule.Domains.Values {
			outer, _ := parseDomain(other)
			below := outer.wild && strings.HasSuffix(inner.host, "."+outer.host)
			if inner == outer || below {
				return element(r.place+".domains", r.rule.Domains, j) + " " + quoteFlow(other)
			}
		}
	}
	return ""
}
