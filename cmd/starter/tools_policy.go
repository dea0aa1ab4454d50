package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// outlook is what a policy says to a tool before anybody has seen arguments.
type outlook struct {
	// Policy is allow, ask, deny or depends.
	Policy string `json:"policy"`
	Why    string `json:"why"`
}

// depends is the Policy of a tool about which rules want to see arguments.
const depends = "depends"

// policyFor is the policy of a profile's agents. What it inherits is known when an agent starts.
func policyFor(f *config.File, p config.Profile) permission.Spec {
	return permission.Spec{Engine: f.Engine, Profile: p.Permissions, Readonly: p.Isolation.Kind == worktree.Readonly}
}

// outlookOf asks the policy without the lines that read arguments, and then for which verdicts there are such lines.
func outlookOf(spec permission.Spec, info tool.Info) outlook {
	var denies, asks, vets bool
	bare := spec
	for _, l := range []*permission.Layer{&bare.Engine, &bare.Profile} {
		deny, d := withoutArguments(l.Deny, info.Name)
		ask, a := withoutArguments(l.Ask, info.Name)
		v := slices.ContainsFunc(l.Vetted, func(v permission.Vetted) bool { return slices.Contains(v.Tool.Values, info.Name) })
		denies, asks, vets = denies || d, asks || a, vets || v
		l.Deny, l.Ask, l.Vetted = deny, ask, nil
	}
	chain, err := permission.Compile(bare)
	if err != nil {
		return outlook{permission.Deny.String(), err.Error()}
	}
	d := permission.Explain(chain, info, []byte("{}"))
	out := outlook{d.Verdict.String(), because(d)}
	var may []string
	switch d.Verdict {
	case permission.Deny: // nothing beats it
	case permission.Ask:
		if denies {
			may = append(may, permission.Deny.String())
		}
		if vets {
			may = append(may, permission.Allow.String())
		}
	case permission.Allow:
		if denies {
			may = append(may, permission.Deny.String())
		}
		if asks {
			may = append(may, permission.Ask.String())
		}
	}
	if may != nil {
		out = outlook{depends, d.Verdict.String() + " unless its arguments make it " + strings.Join(may, " or ") + "; " + cmp.Or(out.Why, "no rule")}
	}
	if spec.Profile.InheritPermissions && d.Verdict != permission.Deny {
		out.Why += "; what the agent above may not, it may not either"
	}
	return out
}

// withoutArguments leaves out the rules that read arguments, and says whether one of them is about a tool.
func withoutArguments(rules []permission.Rule, name string) (rest []permission.Rule, about bool) {
	for _, r := range rules {
		switch {
		case !r.Argv.IsZero():
			about = about || slices.Contains(r.Tool.Values, name)
		case !r.Domains.IsZero():
			// For other tools it is a note.
			about = about || name == "fetch" && slices.Contains(r.Tool.Values, name)
		default:
			rest = append(rest, r)
		}
	}
	return rest, about
}

// describeTool is a tool as it is shown. conf is nil for a first-party one.
func describeTool(listed, from string, d *tool.Def, conf *config.MCPServer, policy permission.Spec) offeredTool {
	info := d.Info()
	t := offeredTool{Name: info.Name, From: from, Listed: listed, Risk: riskWord(info.Risk), NeedsApproval: info.NeedsApproval,
		outlook: outlookOf(policy, info), Contract: d.ContractHash(), Authority: d.AuthorityHash(),
		Description: info.Description, Parameters: info.Parameters}
	if conf != nil {
		said := conf.Risk[strings.TrimPrefix(info.Name, conf.PrefixOf(listed))]
		if t.Raised = said != info.Risk; t.Raised {
			t.FileRisk = riskWord(said)
		}
	}
	return t
}

func riskWord(r tool.Risk) string { return cmp.Or(string(r), "undeclared") }
