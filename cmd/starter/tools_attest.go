package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/tool"
)

func (a *app) toolsAttestCommand() *cobra.Command {
	var f toolsFlags
	var write bool
	cmd := &cobra.Command{
		Use:   "attest --profile P [--write]",
		Short: "Print the attestation of a profile's tools, or write it into the file",
		Long: `Print the hashes of what a profile's tools promise and may do, MCP servers' tools included, as a worker of this version with
this file serves them now.

They belong under profiles.P.permissions, where --write puts them, in place of old ones; all else in the file stays as it is
written. From then on an agent of the profile starts on exactly these tools, and otherwise says what drifted. Tools of a worker
of your own are attested by tool.Attest in Go.`,
		Example: "  starter tools attest --profile fixer\n  starter tools attest --config assent.yaml --profile fixer --write",
		Args:    workerproc.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.attest(cmd.Context(), f, write) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&write, "write", false, "write it into the file, and say what drifted against the old one")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) attest(ctx context.Context, f toolsFlags, write bool) error {
	if f.profile == "" {
		return exit.Usagef("see: starter tools attest --help", "--profile is missing")
	}
	file, profiles, err := f.load()
	if err != nil {
		return err
	}
	b, err := a.openBench(ctx, file, profiles, "")
	if err != nil {
		return err
	}
	p := b.of(profiles[0], "")
	if err := b.close(); err != nil {
		return err
	}
	for _, r := range p.Refused {
		if r.From != "" && r.From != r.Name && !r.LeftOut {
			a.note("note: %s of %s is refused and not attested: %s", oneLine(r.Name, mostLine), r.From, oneLine(r.Why, mostLine))
		}
	}
	var drift *tool.DriftError
	if p.err != nil && !errors.As(p.err, &drift) {
		return p.err
	}
	attestation := tool.Attest(p.set)
	if write {
		return a.writeAttestation(f, profiles[0], attestation, drift)
	}
	if a.json() {
		return a.printJSON(attestation)
	}
	a.printf("attestation:\n  %s\n", strings.Join(config.AttestationLines(attestation), "\n  "))
	return nil
}

// written is what --write says, as JSON.
type attestWritten struct {
	File    string `json:"file"`
	Profile string `json:"profile"`
	Tools   int    `json:"tools"`
	Changed bool   `json:"changed"`
	Drift   string `json:"drift,omitempty"`
}

func (a *app) writeAttestation(f toolsFlags, p config.Profile, attestation tool.Attestation, drift *tool.DriftError) error {
	said := attestWritten{File: f.config, Profile: p.Name, Tools: len(attestation.Tools), Changed: p.Attestation == nil || drift != nil}
	if drift != nil {
		said.Drift = drift.Error()
	}
	if said.Changed {
		if err := replaceInFile(f.config, p.Name, attestation); err != nil {
			return err
		}
	}
	switch {
	case a.json():
		return a.printJSON(said)
	case !said.Changed:
		a.printf("%s: the attestation of %s holds; nothing is written\n", f.config, p.Name)
	case drift != nil:
		a.printf("%s: %s is attested anew, %s; %s\n", f.config, p.Name, count(said.Tools, "tool"), oneLine(drift.Changes(), mostShown))
	default:
		a.printf("%s: %s is attested, %s\n", f.config, p.Name, count(said.Tools, "tool"))
	}
	return nil
}

// replaceInFile writes the attestation, or leaves the file as it is.
func replaceInFile(path, profile string, attestation tool.Attestation) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	was, err := os.ReadFile(real)
	if err != nil {
		return err
	}
	is, err := config.WithAttestation(was, profile, attestation)
	if err != nil {
		return exit.Failf("starter tools attest without --write prints it", "%s: %w", path, err)
	}
	beside, err := os.CreateTemp(filepath.Dir(real), ".assent-*.yaml")
	if err != nil {
		return err
	}
	_, err = beside.Write(is)
	err = errors.Join(err, beside.Chmod(info.Mode().Perm()), beside.Close())
	if err == nil {
		err = os.Rename(beside.Name(), real)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(beside.Name()))
	}
	return nil
}

func (a *app) toolsCheckCommand() *cobra.Command {
	var f toolsFlags
	cmd := &cobra.Command{
		Use:   "check [--profile P]",
		Short: "Compare the tools of profiles with their attestations, for CI",
		Long: `Compare the tools that agents would get now with what was attested, for one profile or for all that have an attestation, and
name what drifted. MCP servers are started for it and ended again.

Exit codes: 0 all hold, 1 one drifted or a server does not answer, 2 the file cannot be used or has no attestation.`,
		Example: "  starter tools check --config assent.yaml",
		Args:    workerproc.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.checkTools(cmd.Context(), f) },
	}
	f.add(cmd)
	a.outputFlag(cmd)
	return cmd
}

// attestChecked is what check says of a profile, as JSON.
type attestChecked struct {
	Profile string `json:"profile"`
	OK      bool   `json:"ok"`
	Tools   int    `json:"tools"`
	Why     string `json:"why,omitempty"`
}

func (a *app) checkTools(ctx context.Context, f toolsFlags) error {
	file, profiles, err := f.load()
	if err != nil {
		return err
	}
	var pinned []config.Profile
	for _, p := range profiles {
		if p.Attestation != nil {
			pinned = append(pinned, p)
		}
	}
	if len(pinned) == 0 {
		return exit.Usagef("make one: starter tools attest --profile P --write", "%s has no attestation to compare with", f.config)
	}
	b, err := a.openBench(ctx, file, pinned, "")
	if err != nil {
		return err
	}
	code := exit.OK
	for _, p := range pinned {
		got := b.of(p, "")
		said := attestChecked{Profile: p.Name, OK: got.err == nil, Tools: len(got.Tools)}
		if got.err != nil {
			code, said.Why = exit.Failed, got.err.Error()
		}
		switch {
		case a.json():
			err = errors.Join(err, a.printJSON(said))
		case said.OK:
			a.printf("%s: holds, %s\n", p.Name, count(said.Tools, "tool"))
		default:
			a.printf("%s: %s\n", p.Name, oneLine(said.Why, mostShown))
		}
	}
	return errors.Join(err, b.close(), exit.Code(code))
}

// movedAttestCommand says where `starter policy attest` went.
func (a *app) movedAttestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attest", Hidden: true, DisableFlagParsing: true,
		Short: "Moved to starter tools attest",
		RunE: func(*cobra.Command, []string) error {
			return exit.Usagef("starter tools attest --config FILE --profile P", "starter policy attest has become starter tools attest, which knows MCP servers too")
		},
	}
}
