package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worktree"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	policy, profile, tool, input, risk string
	needsApproval                      bool
}

func (a *app) explainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain --policy FILE --profile P --tool T --input JSON",
		Short: "Say what the policy makes of a call, without running anything",
		Long: `Say what the policy makes of a call, without running anything and without a server.

The policy is an assent.yaml, or a file with its sections engine and profiles alone. First-party tools are known; for
any other tool --risk and --needs-approval describe it. The exit code is 0 whatever the verdict.`,
		Example: `  starter explain --policy policy.yaml --profile fixer --tool shell --input '{"command":"git push --force origin"}' -o json`,
		GroupID: groupPolicy,
		Args:    workerproc.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.explain(f, cmd.Flags().Changed("needs-approval"))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "policy file (needed)")
	flags.StringVar(&f.profile, "profile", "", "profile; without one the engine's layer alone decides")
	flags.StringVar(&f.tool, "tool", "", "name of the tool (needed)")
	flags.StringVar(&f.input, "input", "{}", "arguments as JSON")
	flags.StringVar(&f.risk, "risk", "", "declared risk of the tool: "+strings.Join(permission.RiskNames(), ", "))
	flags.BoolVar(&f.needsApproval, "needs-approval", false, "the tool declares that it needs approval")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) explain(f explainFlags, needsApprovalSet bool) error {
	const hint = "see: starter explain --help"
	switch {
	case f.policy == "":
		return exit.Usagef(hint, "--policy is missing")
	case f.tool == "":
		return exit.Usagef(hint, "--tool is missing")
	case !json.Valid([]byte(f.input)):
		return exit.Usagef("quote it for the shell: --input '{\"command\":\"ls\"}'", "--input is not JSON")
	}
	file, err := config.Load(f.policy)
	if err != nil {
		return err
	}
	var profile config.Profile
	if f.profile != "" {
		if profile, err = file.Profile(f.profile); err != nil {
			return err
		}
	}
	chain, err := permission.Compile(permission.Spec{Engine: file.Engine, Profile: profile.Permissions,
		Readonly: profile.Isolation.Kind == worktree.Readonly})
	if err != nil {
		return err
	}
	info, err := describe(f, needsApprovalSet)
	if err != nil {
		return err
	}
	d := permission.Explain(chain, info, json.RawMessage(f.input))
	if a.json() {
		return a.printJSON(d)
	}
	a.explained(f, d, profile.Guards)
	return nil
}

// describe says what rules may know of a tool: what a first-party tool declares, and what the flags say instead.
func describe(f explainFlags, needsApprovalSet bool) (tool.Info, error) {
	info := tool.Info{Name: f.tool}
	defs, err := toolbox.All(toolbox.Config{})
	if err != nil {
		return info, err
	}
	for _, d := range defs {
		if d.Name() == f.tool {
			info = d.Info()
		}
	}
	if needsApprovalSet {
		info.NeedsApproval = f.needsApproval
	}
	if f.risk == "" {
		return info, nil
	}
	if f.risk == "undeclared" {
		info.Risk = tool.Undeclared
		return info, nil
	}
	for _, r := range tool.Risks() {
		if string(r) == f.risk {
			info.Risk = r
			return info, nil
		}
	}
	return info, exit.Usagef("", "unknown risk %q; one of %s", f.risk, strings.Join(permission.RiskNames(), ", "))
}

func (a *app) explained(f explainFlags, d permission.Decision, guards []string) {
	a.printf("%s   %s   %s\n", a.verdict(d.Verdict), f.tool, callText(json.RawMessage(f.input), nil))
	a.printf("  why     %s\n", because(d))
	if d.Modified {
		a.printf("  runs    %s\n", callText(d.Input, nil))
	}
	for _, s := range d.Segments {
		a.printf("  part    %-5s  %s", s.Verdict, oneLine(s.Segment, mostLine))
		if s.Pattern != "" {
			a.printf("   %s: %s", s.Table, s.Pattern)
		}
		if s.Construct != "" {
			a.printf("   (%s)", s.Construct)
		}
		a.printf("\n")
	}
	for _, v := range d.Advisories {
		a.printf("  note    %s %s matches host %s; it is not enforced for this tool\n", v.Table, v.Rule, oneLine(v.Host, mostLine))
	}
	if len(guards) > 0 {
		a.printf("  guards  %s are asked on the worker\n", strings.Join(guards, ", "))
	}
	a.printf("  policy  %.12s\n", d.PolicyDigest)
}

// verdict is the word in its colour, in a column.
func (a *app) verdict(v permission.Verdict) string {
	const width = 5
	word := v.String()
	switch v {
	case permission.Allow:
		return pad(word, a.style.green(word), width)
	case permission.Ask:
		return pad(word, a.style.yellow(word), width)
	}
	return pad(word, a.style.red(word), width)
}
