package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
)

// keyPrefix begins a public key; 32 bytes in standard base64 follow.
const keyPrefix = "ed25519:"

// engine reads the section `engine`.
func (f *File) engine(v value) {
	v.fields(append(layerFields(&f.Engine),
		field{"groups", func(v value) {
			f.Groups = map[string][]string{}
			v.entries("a mapping of groups", func(name string, _ place, member value) { f.Groups[name] = member.names() })
		}},
		field{"keys", func(v value) {
			f.Keys = map[string]ed25519.PublicKey{}
			v.entries("a mapping of keys", func(name string, _ place, member value) { f.Keys[name] = member.publicKey() })
		}})...)
	if v.r.err == nil {
		v.r.checkLayer("engine", &f.Engine)
	}
	var bad *fault.ConfigError
	if err := (approval.Directory{Groups: f.Groups, Keys: f.Keys}).Check(); v.r.err == nil && errors.As(err, &bad) {
		v.r.fail(v.r.errorAt(v.r.nearest("engine.keys"), "engine.keys", bad.Msg))
	}
}

func (v value) publicKey() ed25519.PublicKey {
	text := v.text()
	encoded, ok := strings.CutPrefix(text, keyPrefix)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != ed25519.PublicKeySize {
		v.fail("bad public key, want %s and 32 bytes in base64", keyPrefix)
	}
	return raw
}

// layerFields are the members that engine and permissions share.
func layerFields(l *permission.Layer) []field {
	return []field{
		{"deny", func(v value) { l.Deny = v.rules() }},
		{"ask", func(v value) { l.Ask = v.rules() }},
		{"vetted", func(v value) { l.Vetted = v.vetted() }},
		{"strictApprovals", func(v value) { l.StrictApprovals = v.boolean() }},
		{"approval", func(v value) { l.Approval = v.approval() }},
	}
}

func (v value) rules() []permission.Rule {
	out := []permission.Rule{}
	v.list("a list of rules", func(e value) {
		var r permission.Rule
		before := len(v.r.errs)
		e.fields(
			field{"tool", func(v value) { r.Tool = v.oneOrMany() }},
			field{"risk", func(v value) { r.Risk = v.oneOrMany() }},
			field{"argv", func(v value) { r.Argv = v.oneOrMany() }},
			field{"domains", func(v value) { r.Domains = v.oneOrMany() }},
			field{"approval", func(v value) { r.Approval = v.approval() }},
			field{"tests", func(v value) { r.Tests = v.tests() }},
			field{"reason", func(v value) { r.Reason = v.name() }},
		)
		if len(v.r.errs) > before {
			r = anyRule
		}
		out = append(out, r)
	})
	return out
}

func (v value) tests() *permission.RuleTests {
	t := &permission.RuleTests{}
	v.fields(
		field{"match", func(v value) { t.Match = v.oneOrMany() }},
		field{"notMatch", func(v value) { t.NotMatch = v.oneOrMany() }},
	)
	return t
}

func (v value) vetted() []permission.Vetted {
	out := []permission.Vetted{}
	v.list("a list of vetted lines", func(e value) {
		var line permission.Vetted
		before := len(v.r.errs)
		e.fields(
			field{"tool", func(v value) { line.Tool = v.oneOrMany() }},
			field{"argv", func(v value) { line.Argv = v.oneOrMany() }},
		)
		if len(v.r.errs) > before {
			line = anyLine
		}
		out = append(out, line)
	})
	return out
}

func (v value) approval() *permission.ApprovalPolicy {
	p := &permission.ApprovalPolicy{}
	into := func(d *time.Duration) func(value) { return func(v value) { *d = v.duration() } }
	v.fields(
		field{"deadline", into(&p.Deadline)},
		field{"remind", into(&p.Remind)},
		field{"escalate", func(v value) {
			p.Escalate = &permission.Escalation{}
			v.fields(
				field{"after", into(&p.Escalate.After)},
				field{"groups", func(v value) { p.Escalate.Groups = v.names() }},
			)
		}},
		field{"approvers", func(v value) {
			p.Approvers = &permission.Approvers{}
			v.fields(
				field{"groups", func(v value) { p.Approvers.Groups = v.names() }},
				field{"min", func(v value) { p.Approvers.Min = v.integer(1) }},
			)
		}},
	)
	return p
}

// checkGroups makes sure that every question can be answered by somebody. It runs last, when all groups are known.
func (r *reader) checkGroups(f *File) {
	check := func(key string, p *permission.ApprovalPolicy) {
		if p == nil || r.err != nil {
			return
		}
		if p.Escalate != nil {
			r.knownGroups(f, key+".escalate.groups", p.Escalate.Groups)
		}
		if a := p.Approvers; a != nil {
			if r.knownGroups(f, key+".approvers.groups", a.Groups) {
				r.enough(f, key+".approvers.min", p)
			}
		}
	}
	layer := func(key string, l permission.Layer) {
		check(key+".approval", l.Approval)
		for i, rule := range l.Ask {
			check(fmt.Sprintf("%s.ask[%d].approval", key, i), rule.Approval)
		}
	}
	layer("engine", f.Engine)
	for _, name := range slices.Sorted(maps.Keys(f.Profiles)) {
		layer("profiles."+name+".permissions", f.Profiles[name].Permissions)
	}
}

func (r *reader) knownGroups(f *File, key string, groups []string) bool {
	all := true
	for i, g := range groups {
		if _, ok := f.Groups[g]; !ok {
			key := fmt.Sprintf("%s[%d]", key, i)
			e := r.errorAt(r.nearest(key), key, fmt.Sprintf("unknown group %q", g))
			e.Key, e.Allowed = "", slices.Sorted(maps.Keys(f.Groups))
			if len(e.Allowed) == 0 {
				e.Msg += "; engine.groups names none"
			}
			r.fail(e)
			all = false
		}
	}
	return all
}

// enough refuses a quorum that the groups cannot make, which would wait for ever.
func (r *reader) enough(f *File, key string, p *permission.ApprovalPolicy) {
	if short := (approval.Directory{Groups: f.Groups}).Short(*p); short > 0 {
		least := max(p.Approvers.Min, 1)
		r.fail(r.errorAt(r.nearest(key), key, fmt.Sprintf("the groups have %d members, %d must answer", least-short, least)))
	}
}
