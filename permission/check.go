package permission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// undeclared is the word of rules for tools without a risk.
const undeclared = "undeclared"

var toolName = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)

// RiskNames lists the risks that a rule can name.
func RiskNames() []string {
	names := make([]string, 0, 6)
	for _, r := range tool.Risks() {
		names = append(names, string(r))
	}
	return append(names, undeclared)
}

// Check returns the first thing wrong with the words of a layer, as a *fault.ConfigError whose Key is the place
// below key, for example engine.deny[0].risk[1]; inline tests are run. Loaders call it to report early; Compile
// calls it again.
func (l Layer) Check(key string) error {
	for _, t := range []struct {
		name  string
		rules []Rule
	}{{"deny", l.Deny}, {"ask", l.Ask}} {
		if err := checkRules(at(key, t.name), t.name, t.rules); err != nil {
			return err
		}
	}
	for i, v := range l.Vetted {
		if err := v.check(fmt.Sprintf("%s[%d]", at(key, "vetted"), i)); err != nil {
			return err
		}
	}
	if _, _, err := CompilePreset(l.Preset); err != nil {
		return placed(err, at(key, "preset"))
	}
	if l.Approval != nil {
		if err := l.Approval.check(at(key, "approval")); err != nil {
			return err
		}
	}
	for i, h := range l.Hooks {
		if h.Judge == nil {
			return fault.Configf(fmt.Sprintf("%s[%d]", at(key, "hooks"), i), "hook %q has no function", h.Name)
		}
	}
	return nil
}

func at(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// placed puts a key on a ConfigError made where the place was not known.
func placed(err error, key string) error {
	var c *fault.ConfigError
	if errors.As(err, &c) {
		c.Key = key
	}
	return err
}

func checkRules(key, table string, rules []Rule) error {
	for i, r := range rules {
		if err := r.check(fmt.Sprintf("%s[%d]", key, i), table); err != nil {
			return err
		}
	}
	return nil
}

func (r Rule) check(key, table string) error {
	if err := r.checkForm(key); err != nil {
		return err
	}
	if err := checkEach(at(key, "tool"), r.Tool, checkTool); err != nil {
		return err
	}
	if err := checkEach(at(key, "risk"), r.Risk, checkRisk); err != nil {
		return err
	}
	if err := checkEach(at(key, "argv"), r.Argv, checkPattern); err != nil {
		return err
	}
	if err := checkEach(at(key, "domains"), r.Domains, checkDomain); err != nil {
		return err
	}
	if r.Approval != nil {
		if table != "ask" {
			return fault.Configf(at(key, "approval"), "only ask rules put questions")
		}
		if err := r.Approval.check(at(key, "approval")); err != nil {
			return err
		}
	}
	if r.Tests != nil {
		return r.checkTests(at(key, "tests"))
	}
	return nil
}

// checkForm accepts exactly {tool}, {risk}, {tool, argv} and {tool, domains}.
func (r Rule) checkForm(key string) error {
	switch {
	case !r.Tool.IsZero() && !r.Risk.IsZero():
		return fault.Configf(key, "a rule names tools or risks, not both")
	case !r.Argv.IsZero() && !r.Domains.IsZero():
		return fault.Configf(key, "a rule has argv or domains, not both")
	case !r.Argv.IsZero() && r.Tool.IsZero():
		return fault.Configf(at(key, "argv"), "argv needs tool beside it")
	case !r.Domains.IsZero() && r.Tool.IsZero():
		return fault.Configf(at(key, "domains"), "domains needs tool beside it")
	case r.Tool.IsZero() && r.Risk.IsZero():
		return fault.Configf(key, "a rule needs tool or risk")
	}
	return nil
}

// checkEach checks a value that was written, one string at a time. The key of a list's element has its index.
func checkEach(key string, s Strings, check func(string) *fault.ConfigError) error {
	if s.IsZero() {
		return nil
	}
	if len(s.Values) == 0 {
		return fault.Configf(key, "is empty")
	}
	for i, v := range s.Values {
		if e := check(v); e != nil {
			e.Key = element(key, s, i)
			return e
		}
	}
	return nil
}

func element(key string, s Strings, i int) string {
	if s.Single {
		return key
	}
	return fmt.Sprintf("%s[%d]", key, i)
}

func checkTool(name string) *fault.ConfigError {
	if toolName.MatchString(name) {
		return nil
	}
	return fault.Configf("", "no tool can be named %q: want 1 to 64 of a-z, A-Z, 0-9, _ and -", name)
}

func checkRisk(risk string) *fault.ConfigError {
	if slices.Contains(RiskNames(), risk) {
		return nil
	}
	e := fault.Configf("", "unknown risk %q", risk)
	e.Allowed = RiskNames()
	return e
}

func checkPattern(text string) *fault.ConfigError {
	if _, err := argv.Compile(text); err != nil {
		e := fault.Configf("", "bad argv pattern")
		e.Cause = err
		return e
	}
	return nil
}

func checkDomain(text string) *fault.ConfigError {
	if _, ok := parseDomain(text); ok {
		return nil
	}
	return fault.Configf("", "bad domain %q: want a host name, an IP address or *.host", text)
}

func (v Vetted) check(key string) error {
	for _, part := range []struct {
		name  string
		value Strings
		check func(string) *fault.ConfigError
	}{{"tool", v.Tool, checkTool}, {"argv", v.Argv, checkPattern}} {
		if part.value.IsZero() {
			return fault.Configf(key, "a vetted line needs tool and argv")
		}
		if err := checkEach(at(key, part.name), part.value, part.check); err != nil {
			return err
		}
	}
	return nil
}

func (p *ApprovalPolicy) check(key string) error {
	switch {
	case p.Deadline < 0:
		return fault.Configf(at(key, "deadline"), "is negative")
	case p.Remind < 0:
		return fault.Configf(at(key, "remind"), "is negative")
	case p.Deadline > 0 && p.Remind >= p.Deadline:
		return fault.Configf(at(key, "remind"), "is not before the deadline")
	}
	if e := p.Escalate; e != nil {
		switch {
		case e.After <= 0:
			return fault.Configf(at(key, "escalate.after"), "must be more than zero")
		case p.Deadline > 0 && e.After >= p.Deadline:
			return fault.Configf(at(key, "escalate.after"), "is not before the deadline")
		case len(e.Groups) == 0:
			return fault.Configf(at(key, "escalate.groups"), "is empty")
		}
		if err := checkGroups(at(key, "escalate.groups"), e.Groups); err != nil {
			return err
		}
	}
	if a := p.Approvers; a != nil {
		switch {
		case a.Min < 0:
			return fault.Configf(at(key, "approvers.min"), "is negative")
		case len(a.Groups) == 0 && a.Min == 0:
			return fault.Configf(at(key, "approvers"), "needs groups or min")
		}
		return checkGroups(at(key, "approvers.groups"), a.Groups)
	}
	return nil
}

func checkGroups(key string, groups []string) error {
	for i, g := range groups {
		if g == "" {
			return fault.Configf(fmt.Sprintf("%s[%d]", key, i), "is empty")
		}
	}
	return nil
}

// checkTests runs the inline tests of a rule that is otherwise sound.
func (r Rule) checkTests(key string) error {
	matches := r.matcher()
	for _, side := range []struct {
		name  string
		cases Strings
		want  bool
	}{{"match", r.Tests.Match, true}, {"notMatch", r.Tests.NotMatch, false}} {
		for i, text := range side.cases.Values {
			if matches(text) == side.want {
				continue
			}
			word := "does not match"
			if !side.want {
				word = "matches"
			}
			return fault.Configf(element(at(key, side.name), side.cases, i), "%q %s %s", text, word, r)
		}
	}
	return nil
}

func (r Rule) matcher() func(string) bool {
	switch {
	case !r.Argv.IsZero():
		patterns := argv.NewTable(compilePatterns(r.Argv)...)
		return func(command string) bool { return argv.Lex(command).Chain(patterns, argv.Table{}).Outcome == argv.Deny }
	case !r.Domains.IsZero():
		var domains domainIndex
		domains.add("", 0, parseDomains(r.Domains))
		return func(text string) bool {
			host, ok := hostOf(text)
			if !ok {
				host, ok = NormalHost(text)
			}
			return ok && len(domains.matching(host)) > 0
		}
	case !r.Risk.IsZero():
		return func(risk string) bool { return slices.Contains(r.Risk.Values, risk) }
	}
	return func(name string) bool { return slices.Contains(r.Tool.Values, name) }
}

// compilePatterns compiles patterns that were checked.
func compilePatterns(s Strings) []argv.Pattern {
	out := make([]argv.Pattern, len(s.Values))
	for i, text := range s.Values {
		out[i], _ = argv.Compile(text)
	}
	return out
}
