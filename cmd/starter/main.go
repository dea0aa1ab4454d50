// Command starter is the operator's and developer's command: it starts agents, shows what they do and what they ask,
// and answers them. It talks to the Temporal server only, and needs no worker but for what a worker alone knows.
//
// Messages begin with `error:` or `hint:` and go to standard error. Exit codes: 0 ok; 1 error, or the agent failed or
// was cancelled; 2 usage, configuration, or a key that means several questions; 3 the agent was left waiting for an
// answer; 4 the agent ended at a limit or escalated; 130 interrupted, while the agent goes on.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the usual meaning is back, so that a second one ends what hangs.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command; it is testable in process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &written{to: stdout}
	a := &app{in: stdin, out: out, screen: stdout, err: stderr, style: styleFor(stdout), errStyle: styleFor(stderr)}
	cmd := a.root()
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("standard output cannot be written: %w", out.err)
	}
	return exit.Report(stderr, err)
}

// written remembers that something was not written, so that a verdict which nobody got is no success.
type written struct {
	to  io.Writer
	err error
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

const description = `Start agents, see what they do and what they ask, and answer them.

Every command that talks to a server takes --address, --namespace and the TEMPORAL_* variables; flags win.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:     "starter",
		Short:   "Start agents, see what they do and what they ask, and answer them",
		Long:    description,
		Example: "  starter run --profile fixer --task 'make the tests pass' --repo main\n  starter approvals\n  starter approve shell-3f9a1c07",
		Args:    unknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SilenceErrors: true, SilenceUsage: true, SuggestionsMinimumDistance: 2,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(workerproc.FlagError)
	root.AddGroup(&cobra.Group{ID: groupAgents, Title: "Agents:"}, &cobra.Group{ID: groupApprovals, Title: "Approvals:"},
		&cobra.Group{ID: groupPolicy, Title: "Policy:"})
	root.SetHelpCommand(a.helpCommand())
	worker := workerproc.Command("worker")
	worker.Hidden = true
	root.AddCommand(a.demoCommand(), a.runCommand(), a.watchCommand(), a.showCommand(), a.listCommand(), a.modelsCommand(), a.patchCommand(), a.worktreesCommand(), a.blobsCommand(), a.verifyCommand(),
		a.approvalsCommand(), a.approveCommand(), a.denyCommand(), a.revokeCommand(), a.keygenCommand(), a.explainCommand(), a.matchCommand(),
		a.policyCommand(), a.toolsCommand(), worker)
	return root
}

// The groups under which commands stand in the help.
const (
	groupAgents    = "agents"
	groupApprovals = "approvals"
	groupPolicy    = "policy"
)

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see: starter --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean: starter " + near[0]
	}
	return exit.Usagef(hint, "unknown command %q", args[0])
}

// helpCommand is cobra's, but for a command that does not exist: that is an error here as everywhere.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(cmd.Root(), rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
