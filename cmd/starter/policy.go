package main

import (
	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Check policy files, replay recorded calls",
		Example: "  starter policy check policy.yaml",
		GroupID: groupPolicy,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exit.Usagef("see: starter policy --help", "unknown command %q of starter policy", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyCheckCommand(), a.movedAttestCommand(), a.policyReplayCommand())
	return cmd
}

func (a *app) policyCheckCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Load policy files strictly, run their inline tests, and lint them",
		Long: `Load policy files strictly, run their inline tests, and lint them, without a server and without running anything.

Errors go to standard error with their place, up to 20 of a file, and make the exit code 2. What a reviewer would ask about
is printed as FILE:LINE:COLUMN: warning: and leaves the exit code 0; with --strict it is 1.`,
		Example: "  starter policy check policy.yaml\n  starter policy check --strict policies/*.yaml -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("see: starter policy check --help", "the FILE is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, files []string) error { return a.checkPolicies(files, strict) },
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 if there are warnings")
	a.outputFlag(cmd)
	return cmd
}

// checked is what policy check says of one file, as JSON.
type checked struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	*config.Size
	Errors   []checkError     `json:"errors"`
	Warnings []config.Warning `json:"warnings"`
}

// checkError is one error; Line is 0 if it is about the file as a whole.
type checkError struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

func (a *app) checkPolicies(files []string, strict bool) error {
	tools, sets, err := knownTools()
	if err != nil {
		return err
	}
	code := exit.OK
	for _, path := range files {
		c := checked{File: path, Errors: []checkError{}, Warnings: []config.Warning{}}
		f, errs := config.Check(path)
		for _, e := range errs {
			code = exit.Usage
			if !a.json() {
				exit.Report(a.err, e)
				continue
			}
			said := *e
			said.File = ""
			c.Errors = append(c.Errors, checkError{Line: e.Line, Column: e.Column, Message: said.Error()})
		}
		if f != nil {
			size := f.Size()
			c.OK, c.Size = true, &size
			c.Warnings = append(c.Warnings, f.Lint(tools, sets)...)
		}
		if strict && len(c.Warnings) > 0 {
			code = max(code, exit.Failed)
		}
		if a.json() {
			if err := a.printJSON(c); err != nil {
				return err
			}
			continue
		}
		a.checkedText(c)
	}
	return exit.Code(code)
}

func (a *app) checkedText(c checked) {
	for _, w := range c.Warnings {
		a.printf("%s\n", oneLine(w.String(), mostShown))
	}
	if !c.OK {
		return
	}
	a.printf("%s: ok: %s, %s, %s, %s passed", oneLine(c.File, mostShown), count(c.Profiles, "profile"), count(c.Rules, "rule"),
		count(c.Vetted, "vetted line"), count(c.Tests, "inline test"))
	if n := len(c.Warnings); n > 0 {
		a.printf(", %s", count(n, "warning"))
	}
	a.printf("\n")
}

// knownTools are the first-party tools, and the names that stand for several of them.
func knownTools() (infos []tool.Info, sets map[string][]string, err error) {
	defs, err := toolbox.All(toolbox.Config{})
	if err != nil {
		return nil, nil, err
	}
	for _, d := range defs {
		infos = append(infos, d.Info())
	}
	var files []string
	for _, d := range toolbox.Files() {
		files = append(files, d.Name())
	}
	return infos, map[string][]string{toolbox.FilesSet: files}, nil
}
