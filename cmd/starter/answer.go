package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
)

// answerFlags are the flags of approve and deny.
type answerFlags struct{ workflow, reason, by string }

func (a *app) approveCommand() *cobra.Command {
	return a.answerCommand(approval.Allow, "approve KEY", "Allow the call that a question is about",
		"  starter approve shell-3f9a1c07\n  starter approve shell-3f9a1c07 -w fix-1 --reason 'read the script'")
}

func (a *app) denyCommand() *cobra.Command {
	return a.answerCommand(approval.Deny, "deny KEY --reason TEXT", "Deny the call that a question is about",
		"  starter deny shell-3f9a1c07 --reason 'not on a Friday'")
}

func (a *app) answerCommand(choice approval.Choice, use, short, example string) *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long: short + `.

The answer goes as an update, which is checked at once; where no worker answers it goes as a signal, which takes effect
when one does. The name of who answers is self-asserted: it is $USER unless --by says otherwise, and nobody checks it.
The same key can be open in several agents: -w names one.`,
		Example: example,
		GroupID: groupApprovals,
		Args:    oneArg("the KEY of a question"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if choice == approval.Deny && strings.TrimSpace(f.reason) == "" {
				return exit.Usagef("the agent reads it: --reason 'use the staging database'", "--reason is missing")
			}
			return a.answer(cmd.Context(), args[0], choice, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.workflow, "workflow", "w", "", "ID of the agent, when the key alone means several")
	flags.StringVar(&f.reason, "reason", "", "why; the agent reads it")
	flags.StringVar(&f.by, "by", "", "who answers (self-asserted; default $USER)")
	a.serverFlags(cmd)
	return cmd
}

// whoami is the name an answer is given under. Nothing proves it.
func whoami() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func (a *app) answer(ctx context.Context, key string, choice approval.Choice, f answerFlags) error {
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	fd := newFinder(s)
	run, err := a.locate(ctx, fd, key, choice, f.workflow)
	if err != nil {
		return err
	}
	r := approval.Resolution{Key: key, Decision: choice, Reason: f.reason, By: f.by}
	if r.By == "" {
		r.By = whoami()
	}
	got, err := send(ctx, fd, run, r)
	if err != nil {
		return err
	}
	return a.answered(s, run, r, got)
}

// locate finds the one run in which a key is pending.
func (a *app) locate(ctx context.Context, fd *finder, key string, choice approval.Choice, id string) (asking, error) {
	var runs []asking
	if id != "" {
		run, err := fd.byID(ctx, id)
		if err != nil {
			return asking{}, err
		}
		runs = []asking{run}
	} else {
		var err error
		if runs, _, err = fd.all(ctx); err != nil {
			return asking{}, err
		}
	}
	var hits []asking
	for _, run := range runs {
		for _, q := range run.pending {
			if q.Key == key {
				hits = append(hits, run)
			}
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return asking{}, ambiguous(fd.server, key, choice, hits)
	}
	return asking{}, notPending(fd.server, key, id, runs)
}

// word is the command that gives an answer.
func word(choice approval.Choice) string {
	if choice == approval.Allow {
		return "approve"
	}
	return "deny"
}

func ambiguous(s *connect.Server, key string, choice approval.Choice, hits []asking) error {
	var b strings.Builder
	for _, run := range hits {
		fmt.Fprintf(&b, "\n%s", oneLine(run.id, mostLine))
		for _, q := range run.pending {
			if q.Key == key {
				fmt.Fprintf(&b, "   %s   %s", q.Tool, callText(q.Input, nil))
			}
		}
	}
	return exit.Usagef("name one: "+again(s, word(choice), key, "-w", hits[0].id), "approval %q waits in %s:%s", key, count(len(hits), "agent"), b.String())
}

// notPending lists what could have been meant.
func notPending(s *connect.Server, key, id string, runs []asking) error {
	where := fmt.Sprintf("in namespace %q at %s", s.Namespace, s.Address)
	if id != "" {
		where = fmt.Sprintf("in agent %q", id)
	}
	var b strings.Builder
	const most = 20
	n := 0
	for _, run := range runs {
		for _, q := range run.pending {
			if n++; n <= most {
				fmt.Fprintf(&b, "\n%s   %s   %s   %s", q.Key, oneLine(run.id, mostLine), q.Tool, callText(q.Input, nil))
			}
		}
	}
	if n == 0 {
		return exit.Failf("", "no approval %q waits %s; none does", key, where)
	}
	if n > most {
		fmt.Fprintf(&b, "\n… and %d more", n-most)
	}
	return exit.Failf("", "no approval %q waits %s; these do:%s", key, where, b.String())
}

// ended says that an agent can no longer be answered.
func ended(s *connect.Server, id, status string) error {
	return exit.Failf("see how: "+again(s, "show", id), "agent %q has ended (%s) and takes no answers", id, status)
}

// outcome is what became of an answer.
type outcome struct {
	// Via is update or signal.
	Via string `json:"via"`
	// Closed is how the question closed, if that is known.
	Closed *approval.Closed `json:"closed,omitempty"`
	// Note says why the answer went as a signal.
	Note string `json:"note,omitempty"`
}

const (
	// updateWithin is how long a worker may take to look at an update.
	updateWithin = 5 * time.Second
	// admitWithin is how long the outcome is waited for; the answer is safe by then.
	admitWithin = 3 * time.Second
)

// send gives the answer by update, or by signal where no worker takes the update.
func send(ctx context.Context, fd *finder, run asking, r approval.Resolution) (outcome, error) {
	note := fmt.Sprintf("no worker polls queue %q", run.queue)
	if run.err != nil {
		note = "no worker answered in time"
	}
	if run.source == fromQuery {
		err := update(ctx, fd.server, run, r)
		if err == nil {
			return outcome{Via: "update", Closed: fd.closed(ctx, run, r.Key)}, nil
		}
		var refused *temporal.ApplicationError
		var gone *serviceerror.NotFound
		switch {
		case ctx.Err() != nil:
			return outcome{}, ctx.Err()
		case errors.As(err, &refused):
			return outcome{}, exit.Failf("see what waits: "+again(fd.server, "approvals"), "agent %q refuses the answer: %s", run.id, refused.Message())
		case errors.As(err, &gone):
			return outcome{}, ended(fd.server, run.id, "just now")
		}
		note = "no worker took the update: " + err.Error()
	}
	err := fd.server.SignalWorkflow(ctx, run.id, run.runID, handlers(run.workflowType).signal, r)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return outcome{}, ended(fd.server, run.id, "just now")
	}
	if err != nil {
		return outcome{}, fmt.Errorf("signal agent %q: %w", run.id, err)
	}
	return outcome{Via: "signal", Note: note}, nil
}

func update(ctx context.Context, s *connect.Server, run asking, r approval.Resolution) error {
	ctx, cancel := context.WithTimeout(ctx, updateWithin)
	defer cancel()
	h, err := s.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: run.id, RunID: run.runID,
		UpdateName: handlers(run.workflowType).update, Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// closed waits a moment for the question to close: an answer takes effect when the worker has judged it again.
func (f *finder) closed(ctx context.Context, run asking, key string) *approval.Closed {
	ctx, cancel := context.WithTimeout(ctx, admitWithin)
	defer cancel()
	for {
		list, err := f.query(ctx, run)
		if err != nil {
			return nil
		}
		for _, c := range list.Closed {
			if c.Key == key {
				return &c
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// answered reports an answer that was given.
func (a *app) answered(s *connect.Server, run asking, r approval.Resolution, got outcome) error {
	contrary := got.Closed != nil && r.Decision == approval.Allow && got.Closed.How != approval.Allowed
	if a.json() {
		err := a.printJSON(struct {
			Key        string          `json:"key"`
			Decision   approval.Choice `json:"decision"`
			WorkflowID string          `json:"workflowId"`
			By         string          `json:"by,omitempty"`
			outcome
		}{r.Key, r.Decision, run.id, r.By, got})
		if contrary && err == nil {
			err = exit.Code(exit.Failed)
		}
		return err
	}
	if contrary {
		return exit.Failf("", "the answer did not take effect: %s was %s: %s", r.Key, got.Closed.How, oneLine(got.Closed.Reason, 400))
	}
	done := map[approval.Choice]string{approval.Allow: a.style.green("allowed"), approval.Deny: a.style.red("denied")}[r.Decision]
	by := ""
	if r.By != "" {
		by = fmt.Sprintf(" as %s (self-asserted)", oneLine(r.By, mostLine))
	}
	switch {
	case got.Via == "update" && got.Closed == nil:
		a.printf("gave %s for %s to %s%s\n", r.Decision, r.Key, oneLine(run.id, mostLine), by)
		a.note("the worker took the answer and has not said what came of it; see: %s", again(s, "watch", run.id))
		return nil
	case got.Via == "update":
		a.printf("%s %s in %s%s\n", done, r.Key, oneLine(run.id, mostLine), by)
		return nil
	}
	a.printf("sent %s of %s to %s%s by signal\n", r.Decision, r.Key, oneLine(run.id, mostLine), by)
	a.note("%s; the answer takes effect when one runs. See: %s", got.Note, again(s, "watch", run.id))
	return nil
}
