package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worktree"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	policy, profile, parent, tool string
	input, inputFile              string
	risk                          string
	needsApproval                 bool
	// given says which flags were written.
	given func(string) bool
}

func (a *app) explainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain --policy FILE --profile P --tool T --input JSON",
		Short: "Say what the policy makes of a call, without running anything",
		Long: `Say what the policy makes of a call, without running anything and without a server.

The policy is an assent.yaml, or a file with its sections engine and profiles alone. First-party tools are known,
and of tools of MCP servers what the file says; any other tool is described by --risk and --needs-approval. A profile that
inherits permissions is judged under those of --parent too. The exit code is 0 whatever the verdict.`,
		Example: `  starter explain --policy policy.yaml --profile fixer --tool shell --input '{"command":"git push --force origin"}' -o json
  starter explain --policy policy.yaml --profile helper --parent fixer --tool write_file --input-file call.json`,
		GroupID: groupPolicy,
		Args:    workerproc.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.given = cmd.Flags().Changed
			return a.explain(f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "policy file (needed)")
	flags.StringVar(&f.profile, "profile", "", "profile; without one the engine's layer alone decides")
	flags.StringVar(&f.parent, "parent", "", "profile of the agent that spawned this one")
	flags.StringVar(&f.tool, "tool", "", "name of the tool (needed)")
	flags.StringVar(&f.input, "input", "{}", "arguments as JSON; - reads standard input")
	flags.StringVar(&f.inputFile, "input-file", "", "file that holds the arguments; - is standard input")
	flags.StringVar(&f.risk, "risk", "", "declared risk of the tool: "+strings.Join(permission.RiskNames(), ", "))
	flags.BoolVar(&f.needsApproval, "needs-approval", false, "the tool declares that it needs approval")
	a.outputFlag(cmd)
	return cmd
}

// question is a call with the policy that judges it.
type question struct {
	file    *config.File
	profile config.Profile
	spec    permission.Spec
	info    tool.Info
	input   json.RawMessage
	// def is nil if the tool is not a first-party one; server is the MCP server that it is of, if any.
	def    *tool.Def
	server string
}

func (a *app) explain(f explainFlags) error {
	const hint = "see: starter explain --help"
	switch {
	case f.policy == "":
		return exit.Usagef(hint, "--policy is missing")
	case f.tool == "":
		return exit.Usagef(hint, "--tool is missing")
	case f.given("input") && f.given("input-file"):
		return exit.Usagef(hint, "--input and --input-file exclude each other")
	case f.parent != "" && f.profile == "":
		return exit.Usagef(hint, "--parent needs --profile")
	}
	q, err := f.policyOf()
	if err != nil {
		return err
	}
	if q.input, err = a.explainInput(f); err != nil {
		return err
	}
	if q.info, q.def, q.server, err = describe(f, q.file); err != nil {
		return err
	}
	chain, err := permission.Compile(q.spec)
	if err != nil {
		return err
	}
	d := permission.Explain(chain, q.info, q.input)
	notes := q.notes(f)
	if a.json() {
		for _, n := range notes {
			a.note("note: %s", n)
		}
		return a.printJSON(d)
	}
	a.explained(q, d, notes)
	return nil
}

// policyOf loads the file and puts the layers together.
func (f explainFlags) policyOf() (question, error) {
	var q question
	var err error
	if q.file, err = config.Load(f.policy); err != nil {
		return q, err
	}
	if f.profile != "" {
		if q.profile, err = q.file.Profile(f.profile); err != nil {
			return q, err
		}
	}
	q.spec = permission.Spec{Engine: q.file.Engine, Profile: q.profile.Permissions,
		Readonly: q.profile.Isolation.Kind == worktree.Readonly}
	if f.parent != "" {
		parent, err := q.file.Profile(f.parent)
		if err != nil {
			return q, err
		}
		q.spec.Parent = &parent.Permissions
	}
	return q, nil
}

func (a *app) explainInput(f explainFlags) (json.RawMessage, error) {
	input, flag, err := []byte(f.input), "--input", error(nil)
	switch {
	case f.given("input-file"):
		flag = "--input-file"
		input, err = a.readAll(f.inputFile, flag)
	case f.input == "-":
		input, err = a.readAll("-", flag)
	}
	if err != nil {
		return nil, err
	}
	var value json.RawMessage
	if err := json.Unmarshal(input, &value); err != nil {
		hint := "quote it for the shell: --input '{\"command\":\"ls\"}'"
		return nil, exit.Usagef(hint, "%s is not JSON: %s", flag, notJSON(input, err))
	}
	return value, nil
}

// notJSON says what is wrong with a text, and where.
func notJSON(input []byte, err error) string {
	var at *json.SyntaxError
	switch {
	case len(input) == 0:
		return "it is empty"
	case errors.As(err, &at):
		return fmt.Sprintf("byte %d: %s", at.Offset, oneLine(at.Error(), mostLine))
	}
	return oneLine(err.Error(), mostLine)
}

// describe says what rules may know of a tool: what a first-party tool declares or the file says of one of an MCP server,
// and what the flags say instead.
func describe(f explainFlags, file *config.File) (info tool.Info, def *tool.Def, server string, err error) {
	info = tool.Info{Name: f.tool}
	defs, err := toolbox.All(toolbox.Config{})
	if err != nil {
		return info, nil, "", err
	}
	if of, risk, approval, ok := file.Describes(f.tool); ok {
		server, info.Risk, info.NeedsApproval = of, risk, approval
	}
	for _, d := range defs {
		if d.Name() == f.tool {
			info, def, server = d.Info(), d, ""
		}
	}
	if f.given("needs-approval") {
		info.NeedsApproval = f.needsApproval
	}
	switch {
	case f.risk == "":
	case f.risk == "undeclared":
		info.Risk = tool.Undeclared
	case slices.Contains(tool.Risks(), tool.Risk(f.risk)):
		info.Risk = tool.Risk(f.risk)
	default:
		return info, nil, "", exit.Usagef("", "unknown risk %q; one of %s", f.risk, strings.Join(permission.RiskNames(), ", "))
	}
	return info, def, server, nil
}

// notes are what a verdict alone does not say.
func (q question) notes(f explainFlags) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if err := (permission.Layer{Deny: []permission.Rule{{Tool: permission.One(f.tool)}}}).Check(""); err != nil {
		say("no tool can have this name: a call of it is UNKNOWN_TOOL")
	} else if q.outside(f.tool) {
		say("profile %s has no tool %s: a call of it is UNKNOWN_TOOL", f.profile, f.tool)
	}
	if q.server != "" && f.risk == "" {
		say("risk %s is what the file says; the MCP server %s may call the tool destructive: starter tools --server %s asks it",
			riskWord(q.info.Risk), q.server, q.server)
	}
	if q.def != nil && (q.info.Risk != q.def.Info().Risk || q.info.NeedsApproval != q.def.Info().NeedsApproval) {
		say("this is not the tool %s of a worker, which declares risk %s", f.tool, q.def.Info().Risk)
	}
	if f.given("input") || f.given("input-file") {
		if why := q.refused(); why != "" {
			say("such a call never comes this far, it is INVALID_ARGUMENTS: %s", why)
		}
	}
	inherits := q.profile.Permissions.InheritPermissions
	switch {
	case inherits && f.parent == "":
		say("profile %s inherits the permissions of the agent that spawns it; --parent says whose", f.profile)
	case !inherits && f.parent != "":
		say("profile %s does not inherit permissions: --parent changes nothing", f.profile)
	}
	if q.file.Worker.Shell.Engine == config.ShellSh && f.tool == "shell" {
		say("worker.shell.engine is sh: a real shell runs the command, and nothing is enforced at run time")
	}
	if guards := q.profile.Guards; len(guards) > 0 {
		say("guards that can still refuse, on the worker: %s", strings.Join(guards, ", "))
	}
	return out
}

// outside reports a tool that the profile's list leaves out, for sure: all of the list is known.
func (q question) outside(name string) bool {
	infos, sets, err := knownTools()
	if err != nil || q.profile.Tools == nil {
		return false
	}
	for _, listed := range q.profile.Tools {
		if s, ok := q.file.MCP[listed]; ok && !strings.HasPrefix(name, s.PrefixOf(listed)) {
			continue
		}
		known := slices.ContainsFunc(infos, func(i tool.Info) bool { return i.Name == listed })
		if listed == name || slices.Contains(sets[listed], name) || !known && sets[listed] == nil {
			return false
		}
	}
	return true
}

// refused says why the input cannot be the arguments of a call.
func (q question) refused() string {
	if q.def == nil {
		if err := canonjson.Object(q.input); err != nil {
			return err.Error()
		}
		return ""
	}
	var all []string
	for _, issue := range q.def.Validate(q.input) {
		all = append(all, strings.TrimPrefix(issue.Pointer+": "+issue.Message, ": "))
	}
	return strings.Join(all, "; ")
}

// vet returns the lines that would let a call that asks run unasked; nil if no lines do.
func (q question) vet(d permission.Decision) []string {
	command, ok := commandText(q.input)
	if !ok || d.Verdict != permission.Ask || q.outside(q.info.Name) {
		return nil
	}
	var t permission.Tables
	layers := []permission.Layer{q.spec.Engine, q.spec.Profile}
	if q.spec.Parent != nil && q.spec.Profile.InheritPermissions {
		layers = append(layers, *q.spec.Parent)
	}
	for _, l := range layers {
		for _, v := range l.Vetted {
			if slices.Contains(v.Tool.Values, q.info.Name) {
				t.Allow = append(t.Allow, v.Argv.Values...)
			}
		}
	}
	match, err := permission.MatchShellCommand(command, t)
	if err != nil {
		return nil
	}
	lines := suggestions(match.Segments)
	if len(lines) == 0 {
		return nil
	}
	spec := q.spec
	spec.Profile.Vetted = append(slices.Clip(spec.Profile.Vetted),
		permission.Vetted{Tool: permission.One(q.info.Name), Argv: permission.Many(lines...)})
	chain, err := permission.Compile(spec)
	if err != nil || permission.Explain(chain, q.info, q.input).Verdict != permission.Allow {
		return nil
	}
	return lines
}

// commandText returns the shell text of a call: its command, or its argument list quoted.
func commandText(input json.RawMessage) (string, bool) {
	var in struct {
		Command *string  `json:"command"`
		Argv    []string `json:"argv"`
	}
	if json.Unmarshal(input, &in) != nil {
		return "", false
	}
	if in.Command != nil {
		return *in.Command, true
	}
	quoted := make([]string, len(in.Argv))
	for i, arg := range in.Argv {
		quoted[i] = shellQuote(arg)
	}
	return strings.Join(quoted, " "), len(quoted) > 0
}

func (a *app) explained(q question, d permission.Decision, notes []string) {
	a.printf("%s   %s   %s\n", a.verdict(d.Verdict), oneLine(q.info.Name, mostLine), callText(q.input, nil))
	a.printf("  why     %s\n", because(d))
	if d.Modified {
		a.printf("  runs    %s\n", callText(d.Input, nil))
	}
	a.parts(d.Segments)
	for _, v := range d.Advisories {
		a.printf("  note    %s\n", advisoryText(v))
	}
	for _, n := range notes {
		a.printf("  note    %s\n", oneLine(n, mostShown))
	}
	if lines := q.vet(d); lines != nil {
		line := permission.Rule{Tool: permission.One(q.info.Name), Argv: permission.Many(lines...)}
		a.printf("  hint    vetted: [%s] would let it run unasked\n", line)
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

func advisoryText(v permission.Advisory) string {
	return oneLine(fmt.Sprintf("%s %s matches host %s; it is not enforced for this tool", v.Table, v.Rule, v.Host), mostShown)
}
