package permission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// Finding is a part of a policy that can be used as it is and is probably not meant.
type Finding struct {
	// Key is the place, for example engine.deny[0].argv[1].
	Key string `json:"key"`
	// Kind is one of the closed list of kinds.
	Kind FindingKind `json:"kind"`
	// Message says what is the matter and what would be better, without a final stop.
	Message string `json:"message"`
}

// FindingKind is what a Finding is about.
type FindingKind string

// The closed list of kinds.
const (
	// FindShadowed is a rule, or a part of one, that others leave nothing to decide.
	FindShadowed FindingKind = "shadowed"
	// FindDead is a vetted line that never allows, or a pattern that matches no command.
	FindDead FindingKind = "dead"
	// FindRunsPrograms is a vetted pattern that lets any program run.
	FindRunsPrograms FindingKind = "runs-programs"
	// FindLiteral is a pattern that another spelling of the same command gets round.
	FindLiteral FindingKind = "literal"
	// FindPattern is a pattern that says something else than it seems to.
	FindPattern FindingKind = "pattern"
	// FindAdvisory is a domain rule that is listed in decisions and not enforced.
	FindAdvisory FindingKind = "advisory"
	// FindTool is the name of a tool that is misspelt, is no tool's, or does not have what the rule reads.
	FindTool FindingKind = "tool"
	// FindOpen is a profile that lets more run than its words suggest.
	FindOpen FindingKind = "open"
	// FindReadonly is a tool that readonly isolation always denies, or does not bind.
	FindReadonly FindingKind = "readonly"
	// FindLimit says that the policy is too large for a part of the search.
	FindLimit FindingKind = "limit"
)

// LintPolicy is a policy with what is known of the tools it is about. Its layers have passed [Layer.Check].
type LintPolicy struct {
	Engine   Layer
	Profiles []LintProfile
	// Tools are those whose risk and arguments are known.
	Tools []tool.Info
	// Sets are the names that stand for several tools in a profile's list.
	Sets map[string][]string
	// Servers are names that stand for tools which nobody knows without asking, each with what their names begin with.
	Servers map[string]string
}

// LintProfile is one profile of a LintPolicy.
type LintProfile struct {
	// Key is the profile's place, for example profiles.fixer; its layer is at Key.permissions.
	Key   string
	Layer Layer
	// Tools are the names of tools and sets as written.
	Tools    []string
	Readonly bool
}

// Bounds of the search, whose time grows with the square of the first: the words of one chain's rules, and those of all
// chains.
const (
	maxLintWords = 10_000
	maxLintTotal = 400_000
)

// Lint returns what a reviewer would ask about: the engine's layer first, then each profile on top of it, in the order
// given. It runs nothing, and the same policy gives the same findings. A finding about a layer holds in every chain that
// has the layer: no profile can make it wrong. A policy of more than 10,000 words in one chain gets one finding that says so.
func Lint(p LintPolicy) []Finding {
	engine := countWords(p.Engine)
	most, total := engine, engine
	for _, profile := range p.Profiles {
		n := engine + countWords(profile.Layer) + len(profile.Tools) + 1
		most, total = max(most, n), total+n
	}
	if most > maxLintWords || total > maxLintTotal {
		return []Finding{{Key: "engine", Kind: FindLimit, Message: "the rules are too many to be compared with each other"}}
	}
	l := &linter{policy: p, tools: map[string]tool.Info{}, names: map[string]bool{}, said: map[Finding]bool{}, vetted: map[string]bool{},
		commands: map[string][]argv.Command{}, longest: p.measure()}
	for _, info := range p.Tools {
		l.tools[info.Name], l.names[info.Name] = info, true
	}
	for _, profile := range p.Profiles {
		for _, name := range profile.Tools {
			l.names[name] = true
		}
	}
	l.vets(p.Engine)
	for _, profile := range p.Profiles {
		l.vets(profile.Layer)
	}
	l.layer(l.engine(), "engine", p.Engine)
	for _, profile := range p.Profiles {
		c := l.profile(profile)
		l.layer(c, profile.Key+".permissions", profile.Layer)
		l.profileWords(c, profile)
	}
	return l.findings
}

// countWords counts what is compared: tools, risks and domains, and the words of patterns once for each tool.
func countWords(layer Layer) int {
	n := 0
	add := func(tools, patterns Strings) {
		words := 1
		for _, text := range patterns.Values {
			words += 1 + len(strings.Fields(text))
		}
		n += 1 + len(tools.Values)*words
	}
	for _, r := range slices.Concat(layer.Deny, layer.Ask) {
		add(r.Tool, r.Argv)
		n += len(r.Risk.Values) + len(r.Tool.Values)*len(r.Domains.Values)
	}
	for _, v := range layer.Vetted {
		add(v.Tool, v.Argv)
	}
	return n
}

type linter struct {
	policy   LintPolicy
	tools    map[string]tool.Info
	names    map[string]bool // of tools that are known or that profiles list
	findings []Finding
	said     map[Finding]bool
	vetted   map[string]bool // tools with a vetted line in any layer
	// commands are the examples of patterns; longest bounds their words.
	commands map[string][]argv.Command
	longest  int
}

func (l *linter) vets(layer Layer) {
	for _, v := range layer.Vetted {
		for _, name := range v.Tool.Values {
			l.vetted[name] = true
		}
	}
}

func (l *linter) find(key string, kind FindingKind, format string, args ...any) {
	f := Finding{Key: key, Kind: kind, Message: fmt.Sprintf(format, args...)}
	if !l.said[f] {
		l.said[f] = true
		l.findings = append(l.findings, f)
	}
}

// lintRule is a rule in its table; place is its key, or the words for one that no file holds.
type lintRule struct {
	place string
	rule  Rule
	own   bool // of the layer that is looked at
}

// lintChain is the policy of one chain in the order in which it decides.
type lintChain struct {
	deny, ask []lintRule
	vetted    []lintVetted
	// compiled holds the patterns of each table and tool, made when they are first asked for.
	compiled map[[2]string]*lintTable
}

type lintVetted struct {
	place string
	line  Vetted
	own   bool
}

func (l *linter) engine() *lintChain {
	c := &lintChain{compiled: map[[2]string]*lintTable{}}
	c.add("engine", l.policy.Engine, true)
	return c
}

func (l *linter) profile(p LintProfile) *lintChain {
	c := &lintChain{compiled: map[[2]string]*lintTable{}}
	c.add("engine", l.policy.Engine, false)
	c.add(p.Key+".permissions", p.Layer, true)
	deny, ask, _ := CompilePreset(p.Layer.Preset) // checked by the caller
	preset := "preset " + string(p.Layer.Preset)
	for _, r := range deny {
		c.deny = append(c.deny, lintRule{place: preset, rule: r})
	}
	for _, r := range ask {
		c.ask = append(c.ask, lintRule{place: preset, rule: r})
	}
	if p.Readonly {
		c.deny = append(c.deny, lintRule{place: "readonly isolation", rule: Rule{Risk: Many("write", "destructive")}})
	}
	return c
}

func (c *lintChain) add(key string, layer Layer, own bool) {
	for i, r := range layer.Deny {
		c.deny = append(c.deny, lintRule{fmt.Sprintf("%s.deny[%d]", key, i), r, own})
	}
	for i, r := range layer.Ask {
		c.ask = append(c.ask, lintRule{fmt.Sprintf("%s.ask[%d]", key, i), r, own})
	}
	for i, v := range layer.Vetted {
		c.vetted = append(c.vetted, lintVetted{fmt.Sprintf("%s.vetted[%d]", key, i), v, own})
	}
}

// layer looks at the chain's own rules.
func (l *linter) layer(c *lintChain, key string, layer Layer) {
	for i := range layer.Vetted {
		l.vettedLine(c, c.ownVetted(i))
	}
	for _, t := range []struct {
		name  string
		rules []lintRule
	}{{argv.TableDeny, c.deny}, {argv.TableAsk, c.ask}} {
		for i, r := range t.rules {
			for j := range r.rule.Argv.Values {
				l.literal(c, t.name, r, j)
			}
			if !r.own {
				continue
			}
			l.toolNames(r.place, r.rule.Tool, !r.rule.Argv.IsZero())
			l.advisory(r)
			for j, text := range r.rule.Argv.Values {
				l.pattern(element(r.place+".argv", r.rule.Argv, j), text)
				l.dead(element(r.place+".argv", r.rule.Argv, j), text)
			}
			l.shadowed(c, t.name, i, r)
		}
	}
	// What inherits permissions may be covered by a parent.
	if layer.Preset == Open && !layer.InheritPermissions && !c.covers(tool.Undeclared) {
		l.find(key+".preset", FindOpen, "under preset open a tool that declares no risk runs unasked; {risk: undeclared} in ask or deny covers it")
	}
}

// ownVetted is the place in c.vetted of line i of the layer that is looked at.
func (c *lintChain) ownVetted(i int) int {
	return i + slices.IndexFunc(c.vetted, func(v lintVetted) bool { return v.own })
}

// covers reports whether some rule of the chain is about a risk.
func (c *lintChain) covers(risk tool.Risk) bool {
	return slices.ContainsFunc(slices.Concat(c.deny, c.ask), func(r lintRule) bool { return r.rule.names("", risk) })
}

// names reports whether a rule without argv and domains names the tool or the risk.
func (r Rule) names(name string, risk tool.Risk) bool {
	if !r.Argv.IsZero() || !r.Domains.IsZero() {
		return false
	}
	word := string(risk)
	if risk == tool.Undeclared {
		word = undeclared
	}
	return slices.Contains(r.Tool.Values, name) || slices.Contains(r.Risk.Values, word)
}

// toolNames looks at the tools that a rule or a vetted line names.
func (l *linter) toolNames(place string, names Strings, command bool) {
	for i, name := range names.Values {
		key := element(place+".tool", names, i)
		info, known := l.tools[name]
		set := l.policy.Sets[name]
		prefix, isServer := l.policy.Servers[name]
		switch {
		case known && command && !readsCommand(info):
			l.find(key, FindTool, "%s has no command: an argv rule makes every call of it ask", name)
		case isServer:
			l.find(key, FindTool, "%s is a server, and rules name tools: those of it begin with %s", name, cmp.Or(prefix, "nothing of their own"))
		case set != nil:
			l.find(key, FindTool, "%s is a set of tools, and rules name tools: %s", name, strings.Join(set, ", "))
		case !l.names[name]:
			if near := l.near(name); near != "" {
				l.find(key, FindTool, "no tool is known as %s, did you mean %s", name, near)
			}
		}
	}
}

// readsCommand reports whether a tool has what argv rules read.
func readsCommand(info tool.Info) bool {
	has := false
	_ = members(info.Parameters, func(key string, value json.RawMessage) error {
		if key != "properties" {
			return nil
		}
		return members(value, func(name string, _ json.RawMessage) error {
			has = has || name == "command" || name == "argv"
			return nil
		})
	})
	return has || len(info.Parameters) == 0
}

// near returns the known tool that a slip of the pen makes of name, or nothing. What may be the tool of a server is no slip.
func (l *linter) near(name string) string {
	for _, prefix := range l.policy.Servers {
		if strings.HasPrefix(name, prefix) {
			return ""
		}
	}
	for _, info := range l.policy.Tools {
		if name != info.Name && slip(strings.ToLower(name), strings.ToLower(info.Name)) {
			return info.Name
		}
	}
	return ""
}

// slip reports one letter too many, too few or wrong, or two that changed places. A digit is no slip: shell2 is a name.
func slip(a, b string) bool {
	a, b = strings.ReplaceAll(a, "-", "_"), strings.ReplaceAll(b, "-", "_")
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if strings.ContainsAny(a+b, "0123456789") {
		return false
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

func (l *linter) advisory(r lintRule) {
	if r.rule.Domains.IsZero() {
		return
	}
	for i, name := range r.rule.Tool.Values {
		if name != fetchTool {
			l.find(element(r.place+".tool", r.rule.Tool, i), FindAdvisory,
				"a domain rule is enforced for %s alone; for %s it is a note in the decision, and stops nothing", fetchTool, name)
		}
	}
}

// profileWords looks at what a profile says beside its rules.
func (l *linter) profileWords(c *lintChain, p LintProfile) {
	for i, name := range p.Tools {
		key := fmt.Sprintf("%s.tools[%d]", p.Key, i)
		_, known := l.tools[name]
		set, isSet := l.policy.Sets[name]
		_, server := l.policy.Servers[name]
		if !known && !isSet && !server {
			if near := l.near(name); near != "" {
				l.find(key, FindTool, "no tool is known as %s, did you mean %s", name, near)
			}
		}
		if !p.Readonly {
			continue
		}
		if server && !p.Layer.InheritPermissions && !c.covers(tool.Undeclared) {
			l.find(key, FindReadonly, "readonly isolation does not bind tools of %s that declare no risk: {risk: undeclared} in ask or deny covers them", name)
		}
		var denied []string
		for _, member := range append([]string{name}, set...) {
			info, known := l.tools[member]
			switch {
			case known && (info.Risk == tool.Write || info.Risk == tool.Destructive):
				denied = append(denied, member)
			case known && info.Risk == tool.Execute && !p.Layer.InheritPermissions && c.free(info):
				l.find(key, FindReadonly, "readonly isolation does not bind %s, which can write whatever it says: ask for it or deny it", member)
			}
		}
		if denied != nil {
			l.find(key, FindReadonly, "readonly isolation always denies %s, which the model is offered all the same", strings.Join(denied, ", "))
		}
	}
}

// free reports whether no rule without argv and domains stops a tool.
func (c *lintChain) free(info tool.Info) bool {
	return !info.NeedsApproval && !slices.ContainsFunc(slices.Concat(c.deny, c.ask), func(r lintRule) bool { return r.rule.names(info.Name, info.Risk) })
}
