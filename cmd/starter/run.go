package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

// runFlags are the flags of run.
type runFlags struct {
	profile, task, taskFile, repo, ref, id, label, requestedBy string
	models                                                     []string
	noWait, private                                            bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --profile P (--task T | --task-file F)",
		Short: "Start an agent and show what it does",
		Long: `Start an agent of a profile on a task, and show what it does until it ends.

When a call needs an approval, the ways to answer are printed and the agent waits, for days if need be. Ctrl-C ends the
watching, not the agent (exit code 130). With --no-wait the ID is printed and nothing is waited for. Otherwise the exit
code is the agent's: 0 ok, 1 error or cancelled, 2 the profile or the input cannot be used, 4 limit or escalated.`,
		Example: "  starter run --profile fixer --task 'make the tests pass' --repo main\n  starter run --profile fixer --task-file task.md --id fix-1 --no-wait",
		GroupID: groupAgents,
		Args:    workerproc.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "", "profile of the agent (needed)")
	flags.StringVar(&f.task, "task", "", "what to do")
	flags.StringVar(&f.taskFile, "task-file", "", "file that says what to do; - is standard input")
	flags.StringVar(&f.repo, "repo", "", "name of a repository of the worker; the agent gets a worktree of it")
	flags.StringVar(&f.ref, "ref", "", "git revision of the worktree (default the repository's HEAD)")
	flags.BoolVar(&f.private, "private", false, "give the worktree a git directory of its own, so that the agent's git does not reach the repository")
	flags.StringVar(&f.id, "id", "", "ID of the agent (default made of the profile)")
	flags.StringVar(&f.label, "label", "", "label that tools and people see")
	flags.StringVar(&f.requestedBy, "requested-by", "", "who asks for the run (default $USER; self-asserted); where a question names its approvers, that is none of them")
	flags.StringSliceVar(&f.models, "model", nil, "provider:name instead of the profile's; more are fallbacks")
	flags.BoolVar(&f.noWait, "no-wait", false, "print the ID and return")
	a.serverFlags(cmd)
	return cmd
}

func (a *app) run(ctx context.Context, f runFlags) error {
	in, err := a.agentInput(f)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	id := f.id
	if id == "" {
		id = newID(f.profile)
	}
	started, err := a.start(ctx, s, id, in)
	if err != nil {
		return err
	}
	if f.noWait {
		if a.json() {
			return a.printJSON(struct {
				WorkflowID string `json:"workflowId"`
				RunID      string `json:"runId"`
			}{started.GetID(), started.GetRunID()})
		}
		a.printf("%s\n", id)
		return nil
	}
	return a.watch(ctx, a.printer(s, id), true)
}

// agentInput makes the input of the flags and refuses what the server need not be asked about.
func (a *app) agentInput(f runFlags) (protocol.AgentInput, error) {
	const hint = "see: starter run --help"
	var in protocol.AgentInput
	switch {
	case f.profile == "":
		return in, exit.Usagef(hint, "--profile is missing")
	case f.task != "" && f.taskFile != "":
		return in, exit.Usagef(hint, "--task and --task-file exclude each other")
	case f.task == "" && f.taskFile == "":
		return in, exit.Usagef(hint, "--task or --task-file is missing")
	case f.ref != "" && f.repo == "":
		return in, exit.Usagef(hint, "--ref needs --repo")
	case f.private && f.repo == "":
		return in, exit.Usagef(hint, "--private needs --repo")
	case strings.ContainsFunc(f.id, func(r rune) bool { return r < ' ' || r > '~' }):
		// gRPC carries the ID in a header, too.
		return in, exit.Usagef(hint, "--id %+q: only printable ASCII characters can be in an ID", f.id)
	}
	task, err := a.taskText(f)
	if err != nil {
		return in, err
	}
	if !utf8.ValidString(task) {
		return in, exit.Usagef("put binary material into a file that the agent reads", "the task is not UTF-8 text")
	}
	in = protocol.AgentInput{Prompt: task, AgentType: f.profile, Label: f.label, RequestedBy: f.requestedBy, Models: f.models}
	if in.RequestedBy == "" {
		in.RequestedBy = whoami()
	}
	if f.repo != "" {
		in.Isolation = &worktree.Isolation{Kind: worktree.Tree, Repo: f.repo, Ref: f.ref, Private: f.private}
	}
	return in, in.Validate()
}

// taskText reads the task. One byte more than fits is enough to say that it does not: not every file knows its size.
func (a *app) taskText(f runFlags) (string, error) {
	if f.taskFile == "" {
		return f.task, nil
	}
	from, name := a.in, "standard input"
	if f.taskFile != "-" {
		file, err := os.Open(f.taskFile)
		if err != nil {
			return "", &exit.Error{Code: exit.Usage, Err: fmt.Errorf("read task: %w", err)}
		}
		defer func() { _ = file.Close() }()
		if info, err := file.Stat(); err == nil && info.Size() > protocol.MaxPrompt {
			return "", fault.Configf("prompt", "%s has %.1f MiB, at most %.1f MiB fit; put long material into a file that the agent reads",
				f.taskFile, float64(info.Size())/(1<<20), float64(protocol.MaxPrompt)/(1<<20))
		}
		from, name = file, f.taskFile
	}
	data, err := io.ReadAll(io.LimitReader(from, protocol.MaxPrompt+1))
	if err != nil {
		return "", &exit.Error{Code: exit.Usage, Err: fmt.Errorf("read task: %w", err)}
	}
	if len(data) > protocol.MaxPrompt {
		return "", fault.Configf("prompt", "%s has more than %.1f MiB; put long material into a file that the agent reads",
			name, float64(protocol.MaxPrompt)/(1<<20))
	}
	return string(data), nil
}

// newID is a name that can be typed.
func newID(profile string) string {
	var b [4]byte
	rand.Read(b[:])
	return profile + "-" + hex.EncodeToString(b[:])
}

// start starts an agent. An id that is at work already is an error, never a second agent.
func (a *app) start(ctx context.Context, s *connect.Server, id string, in protocol.AgentInput) (client.WorkflowRun, error) {
	started, err := s.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: a.queue, WorkflowExecutionErrorWhenAlreadyStarted: true},
		protocol.WorkflowAgent, in)
	var running *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &running) {
		return nil, exit.Usagef("follow it with: "+again(s, "watch", id), "agent %q is already at work", id)
	}
	if err != nil {
		return nil, fmt.Errorf("start agent %q: %w", id, err)
	}
	return started, nil
}
