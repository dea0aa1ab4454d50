package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

var (
	profileName = regexp.MustCompile(`\A[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}\z`)
	sha256Hex   = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
)

// file reads the whole document.
func (r *reader) file(f *File, root value) {
	r.nodes[""] = placeOfNode(root.node)
	f.Worker.Worktrees.PinCap = DefaultPinCap
	f.Worker.Shell.Engine = ShellInterp
	root.fields(
		field{"engine", f.engine},
		field{"profiles", f.profiles},
		field{"models", f.models},
		field{"mcp", f.mcp},
		field{"worker", f.worker},
	)
	if r.err == nil {
		r.checkGroups(f)
	}
	if r.err == nil {
		r.checkNames(f)
	}
}

func (f *File) profiles(v value) {
	f.Profiles = map[string]Profile{}
	v.entries("a mapping of profiles", func(name string, at place, member value) {
		if !profileName.MatchString(name) {
			v.r.fail(v.r.errorAt(at, v.key, fmt.Sprintf("%q cannot be the name of a profile", name)))
			return
		}
		f.Profiles[name] = member.profile(name)
	})
}

func (v value) profile(name string) Profile {
	p := Profile{Name: name}
	v.fields(
		field{"description", func(v value) { p.Description = v.name() }},
		field{"system", func(v value) { p.System = v.name() }},
		field{"model", func(v value) { p.Models = v.models() }},
		field{"tools", func(v value) { p.Tools = v.names() }},
		field{"permissions", func(v value) { v.permissions(&p) }},
		field{"isolation", func(v value) { p.Isolation = v.isolation() }},
		field{"limits", func(v value) { p.Limits = v.limits() }},
		field{"budgetUSD", func(v value) { d := v.dollars(); p.BudgetUSD = &d }},
		field{"output", func(v value) { p.Output = v.output() }},
	)
	if v.r.err == nil {
		v.r.locate(p.Limits.Validate(v.key + ".limits"))
		v.r.checkLayer(v.key+".permissions", &p.Permissions)
	}
	p.Limits = p.Limits.Over(protocol.DefaultLimits())
	return p
}

// models reads one `provider:name` or a list of them.
func (v value) models() []string {
	if _, ok := stringOf(v.node); ok {
		return []string{v.model()}
	}
	out := []string{}
	v.list("a model or a list of models", func(e value) { out = append(out, e.model()) })
	if len(out) == 0 && v.r.err == nil {
		v.fail("is empty")
	}
	return out
}

func (v value) model() string {
	s := v.text()
	provider, name, ok := strings.Cut(s, ":")
	if v.r.err == nil && (!ok || provider == "" || name == "" || strings.ContainsAny(s, " \n")) {
		v.fail("bad model %q, want provider:model such as openai:gpt-5.2", s)
	}
	return s
}

func (v value) permissions(p *Profile) {
	l := &p.Permissions
	v.fields(append(layerFields(l),
		field{"preset", func(v value) {
			l.Preset = permission.Preset(v.choice("preset", string(permission.Strict), string(permission.Standard), string(permission.Open)))
		}},
		field{"inheritPermissions", func(v value) { l.InheritPermissions = v.boolean() }},
		field{"guards", func(v value) { p.Guards = v.names() }},
		field{"attestation", func(v value) { p.Attestation = v.attestation() }})...)
}

// attestation reads what a toolset's Attest wrote.
func (v value) attestation() *tool.Attestation {
	a := &tool.Attestation{Tools: map[string]tool.Attested{}}
	v.fields(
		field{"toolsetHash", func(v value) { a.ToolsetHash = v.hash() }},
		field{"authorityHash", func(v value) { a.AuthorityHash = v.hash() }},
		field{"tools", func(v value) {
			v.entries("a mapping of tools", func(name string, _ place, member value) {
				var t tool.Attested
				member.fields(
					field{"contract", func(v value) { t.Contract = v.hash() }},
					field{"authority", func(v value) { t.Authority = v.hash() }},
				)
				member.require("contract", t.Contract)
				member.require("authority", t.Authority)
				a.Tools[name] = t
			})
		}},
	)
	v.require("toolsetHash", a.ToolsetHash)
	v.require("authorityHash", a.AuthorityHash)
	return a
}

func (v value) require(name, got string) {
	if got == "" && v.r.err == nil {
		v.fail("%s is missing", name)
	}
}

func (v value) hash() string {
	s := v.text()
	if !sha256Hex.MatchString(s) && v.r.err == nil {
		v.fail("bad hash, want the 64 lower-case hex digits of a sha256")
	}
	return s
}

// isolation reads a kind alone, or kind, repo, ref and private.
func (v value) isolation() worktree.Isolation {
	var iso worktree.Isolation
	kind := func(v value) {
		iso.Kind = worktree.Kind(v.choice("isolation kind", string(worktree.None), string(worktree.Readonly), string(worktree.Tree)))
	}
	if _, ok := stringOf(v.node); ok {
		kind(v)
		return iso
	}
	v.fields(
		field{"kind", kind},
		field{"repo", func(v value) { iso.Repo = v.name() }},
		field{"ref", func(v value) { iso.Ref = v.name() }},
		field{"private", func(v value) { iso.Private = v.boolean() }},
	)
	switch {
	case v.r.err != nil:
	case iso.Kind == "":
		v.fail("kind is missing")
	case iso.Kind != worktree.Tree && (iso.Repo != "" || iso.Ref != "" || iso.Private):
		v.fail("repo, ref and private need kind %s", worktree.Tree)
	case strings.HasPrefix(iso.Ref, "-"):
		v.fail("%q is no git revision", iso.Ref)
	}
	return iso
}

func (v value) limits() Limits {
	var l Limits
	into := func(n *int) func(value) { return func(v value) { *n = v.integer(1) } }
	v.fields(
		field{"maxTurns", into(&l.MaxTurns)},
		field{"maxToolCalls", into(&l.MaxToolCalls)},
		field{"maxOutputTokens", into(&l.MaxOutputTokens)},
		field{"wallClock", func(v value) {
			if s, _ := stringOf(v.node); s != "none" {
				l.WallClock = v.duration()
			}
		}},
		field{"maxIdleTurns", into(&l.MaxIdleTurns)},
	)
	return l
}

// checkNames follows the names that one section uses of another. A policy file has no worker and no models, and its
// names are checked where both are known.
func (r *reader) checkNames(f *File) {
	for _, name := range slices.Sorted(maps.Keys(f.Profiles)) {
		p, key := f.Profiles[name], "profiles."+name
		if repo := p.Isolation.Repo; repo != "" && f.Worker.Worktrees.Repos != nil {
			if _, ok := f.Worker.Worktrees.Repos[repo]; !ok {
				e := r.errorAt(r.nearest(key+".isolation.repo"), "", fmt.Sprintf("unknown repository %q", repo))
				e.Allowed = slices.Sorted(maps.Keys(f.Worker.Worktrees.Repos))
				r.fail(e)
			}
		}
		for i, m := range p.Models {
			script, ok := strings.CutPrefix(m, "scripted:")
			if _, known := f.Models.Scripted[script]; ok && !known && f.Models.Scripted != nil {
				e := r.errorAt(r.nearest(fmt.Sprintf("%s.model[%d]", key, i)), "", fmt.Sprintf("unknown script %q", script))
				e.Allowed = slices.Sorted(maps.Keys(f.Models.Scripted))
				r.fail(e)
			}
		}
	}
}
