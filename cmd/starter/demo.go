package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/demo"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

// demoFlags are the flags of demo.
type demoFlags struct {
	plan       demo.Plan
	yes, crash bool
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show an agent at work, with a server, a worker and a repository of its own",
		Long: `Show an agent at work: it reads a small repository, asks before it runs the tests, mends the code, and hands back a
patch. The model is played from a script. Server, worker and repository are the demo's own; it reads no TEMPORAL_*
variable and no profile, touches nothing that you have, and ends what it started.

At a question, type a, A, d, e, w or q and Enter; after d you may say why. A allows and vets the command for the rest of
the run; e opens $VISUAL or $EDITOR on the arguments, or takes them from the line: e {"command":"go vet ./..."}. Every other way
to answer works too: they are printed. q, the end of standard input, and Ctrl-C leave the agent waiting, and ` + "`starter watch ID`" + ` brings it back with its
server and worker. Lines are read from standard input whether it is a terminal or not.

With --repo and --script it is the same on a repository of yours, in a worktree beside it: the patch is printed, never
applied, and nothing in the repository is changed.

With --model a real model does the work instead of the script, on the sample or on --repo with --task; it costs what the
provider takes for it. The key is read from ANTHROPIC_API_KEY or OPENAI_API_KEY, or from the variable that --key-env names,
and is written nowhere. --base-url asks another server, such as Ollama at http://127.0.0.1:11434/v1, with a key only if
--key-env names one.

What is left afterwards is the patch and the sample that it fits; the last lines say where. --keep leaves everything.

Exit codes: 0 ok; 1 error or cancelled; 2 usage or configuration; 3 left waiting; 4 limit or escalated; 130 Ctrl-C.`,
		Example: "  starter demo\n  starter demo --yes --crash\n  starter demo --repo . --script fix.yaml --task 'make the tests pass'\n  starter demo --model anthropic:claude-opus-5",
		GroupID: groupAgents,
		Args:    workerproc.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.yes, "yes", false, "answer every question with allow, through the same signal")
	flags.BoolVar(&f.crash, "crash", false, "kill the worker process during the first question and start it again")
	flags.StringVar(&f.plan.Repo, "repo", "", "path of a repository of yours instead of the sample")
	flags.StringVar(&f.plan.Ref, "ref", "", "git revision of --repo (default HEAD)")
	flags.StringVar(&f.plan.Script, "script", "", "file that says what the agent does")
	flags.StringVar(&f.plan.Task, "task", "", "what the agent is asked to do")
	flags.StringVar(&f.plan.Model, "model", "", "ask a real model, provider:name of anthropic or openai (default the script)")
	flags.StringVar(&f.plan.BaseURL, "base-url", "", "address of a server or gateway that speaks the API of --model's provider")
	flags.StringVar(&f.plan.KeyEnv, "key-env", "", "environment variable that holds the key for --model")
	flags.BoolVar(&f.plan.Keep, "keep", false, "leave server data, worker configuration and logs in place")
	flags.StringVar(&f.plan.Address, "address", "", "use this Temporal server (host:port) and none of the demo's own")
	flags.StringVar(&f.plan.Namespace, "namespace", "", "namespace of --address")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) demo(ctx context.Context, f demoFlags) error {
	ctx, stop := withHangup(ctx)
	defer stop()
	d, err := demo.New(ctx, f.plan)
	if err != nil {
		return interrupted(ctx, err)
	}
	a.note("starting a server and a worker")
	r, err := d.Up(ctx, a.err)
	if err != nil {
		return interrupted(ctx, errors.Join(explained(err), d.Remove()))
	}
	a.introduce(r)
	a.queue = r.Queue
	if _, err := a.start(ctx, r.Server, r.ID, r.Input()); err != nil {
		return interrupted(ctx, errors.Join(err, r.Down(), d.Remove()))
	}
	return a.attend(ctx, r, f, true)
}

// withHangup ends ctx too when the terminal goes away.
func withHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// interrupted replaces an error that only says that somebody pressed Ctrl-C.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return exit.Code(exit.Interrupted)
	}
	return err
}

// resumeDemo brings a demo back by its id and attends to it. It reports false for an id that is no demo's, or of a
// demo that another process has up: then the settings are those of its server.
func (a *app) resumeDemo(ctx context.Context, id string, wait bool) (bool, error) {
	d, err := demo.Open(id)
	if errors.Is(err, demo.ErrNone) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	ctx, stop := withHangup(ctx)
	defer stop()
	a.note("bringing back the server and the worker of %s", id)
	r, err := d.Up(ctx, a.err)
	switch {
	case errors.Is(err, demo.ErrRunning):
		a.note("another process has it up; this one only watches")
		a.settings = connect.Settings{Address: d.Address, Namespace: d.Namespace}
		if d.Address == "" {
			a.settings = connect.Settings{Address: d.OwnAddress(), Namespace: d.Namespace, Alone: true}
		}
		return false, nil
	case err != nil:
		return true, interrupted(ctx, explained(err))
	}
	a.introduce(r)
	return true, a.attend(ctx, r, demoFlags{}, wait)
}

// introduce says what was started, on standard error: standard output shows the agent.
func (a *app) introduce(r *demo.Running) {
	if r.Address == "" {
		a.note("server  %s   %s", r.Server.Address, r.Program)
		a.note("web UI  %s", r.UIURL)
	} else {
		a.note("server  %s   namespace %s, queue %s", r.Server.Address, r.Server.Namespace, r.Queue)
	}
	a.note("worker  process %d", r.WorkerPID())
	if m := r.Model; m != (demo.Asked{}) {
		a.note("model   %s; what the agent reads is sent to %s", m.Full(), m.Where())
	}
	if r.Sample {
		a.note("repo    %s, made just for this", r.Repo)
	} else {
		a.note("repo    %s", r.Repo)
	}
}

// explained adds what to do about a server that cannot be had.
func explained(err error) error {
	if hint := demo.Hint(err); hint != "" {
		return exit.WithHint(err, hint)
	}
	return err
}

// webOf returns the page of a run in the demo's web UI.
func webOf(r *demo.Running) func(workflowID, runID string) string {
	if r.UIURL == "" {
		return nil
	}
	return func(workflowID, runID string) string {
		return fmt.Sprintf("%s/namespaces/%s/workflows/%s/%s", r.UIURL, r.Server.Namespace, workflowID, runID)
	}
}
