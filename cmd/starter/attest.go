package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

func (a *app) policyAttestCommand() *cobra.Command {
	var path, name string
	cmd := &cobra.Command{
		Use:   "attest --policy FILE --profile P",
		Short: "Print the attestation of a profile's tools",
		Long: `Print the hashes of what a profile's tools promise and may do, as the stock worker of this version serves them.

Put them under profiles.P.permissions: from then on an agent of the profile starts on exactly these tools, and otherwise says
what drifted. Tools of a worker of your own are attested by tool.Attest in Go.`,
		Example: "  starter policy attest --policy assent.yaml --profile fixer",
		Args:    workerproc.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.attest(path, name) },
	}
	cmd.Flags().StringVar(&path, "policy", "", "policy file (needed)")
	cmd.Flags().StringVar(&name, "profile", "", "profile (needed)")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) attest(path, name string) error {
	const hint = "see: starter policy attest --help"
	switch {
	case path == "":
		return exit.Usagef(hint, "--policy is missing")
	case name == "":
		return exit.Usagef(hint, "--profile is missing")
	}
	file, err := config.Load(path)
	if err != nil {
		return err
	}
	profile, err := file.Profile(name)
	if err != nil {
		return err
	}
	set, err := stockToolset(file, profile.Tools)
	if err != nil {
		return err
	}
	attestation := tool.Attest(set)
	if a.json() {
		return a.printJSON(attestation)
	}
	a.printf("attestation:\n  toolsetHash: %s\n  authorityHash: %s\n  tools:\n", attestation.ToolsetHash, attestation.AuthorityHash)
	for _, t := range slices.Sorted(maps.Keys(attestation.Tools)) {
		// A name such as 1 or true would be no text in YAML.
		a.printf("    %q: {contract: %q, authority: %q}\n", t, attestation.Tools[t].Contract, attestation.Tools[t].Authority)
	}
	return nil
}

// stockToolset is the toolset of a list of names as the stock worker resolves it.
func stockToolset(f *config.File, names []string) (tool.Toolset, error) {
	defs, err := toolbox.All(toolbox.Config{Shell: toolbox.ShellConfig{Engine: f.Worker.Shell.Engine}})
	if err != nil {
		return tool.Toolset{}, err
	}
	known := map[string]*tool.Def{}
	for _, d := range defs {
		known[d.Name()] = d
	}
	_, sets, err := knownTools()
	if err != nil {
		return tool.Toolset{}, err
	}
	var listed []*tool.Def
	for _, name := range names {
		members, ok := sets[name]
		if !ok {
			members = []string{name}
		}
		for _, member := range members {
			def, ok := known[member]
			if !ok {
				return tool.Toolset{}, exit.Usagef("attest the tools of your own worker in Go, with tool.Attest", "the stock worker has no tool %q", member)
			}
			listed = append(listed, def)
		}
	}
	return tool.ToolsetOf(listed...)
}
