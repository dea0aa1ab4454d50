package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/workerproc"
)

func (a *app) approvalsCommand() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List every question of the namespace that waits for an answer",
		Long: `List every question of the namespace that waits for an answer: key, tool, arguments, why, who may allow it, who has, age and
deadline. Below them stand the allowed calls that have not ended, which starter revoke can stop.

With -o json each line is one question, with the state pending, or one such call, with the state allowed.

Each run is asked by a query. Where no worker answers, its history is read instead.`,
		Example: "  starter approvals\n  starter approvals --root plan-7\n  starter approvals -o json",
		GroupID: groupApprovals,
		Args:    workerproc.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.approvals(cmd.Context(), root) },
	}
	cmd.Flags().StringVar(&root, "root", "", "only of this workflow and of what was spawned below it")
	a.serverFlags(cmd)
	return cmd
}

// The states of a line of `approvals -o json`.
const (
	statePending = "pending"
	stateAllowed = "allowed"
)

// listed is one question as `approvals -o json` prints it.
type listed struct {
	State        string `json:"state"`
	WorkflowID   string `json:"workflowId"`
	RunID        string `json:"runId"`
	WorkflowType string `json:"workflowType"`
	// Source is query; where no worker answers it is history, or memo, which has no arguments.
	Source source `json:"source"`
	approval.Approval
}

// listedGrant is one allowed call that has not ended.
type listedGrant struct {
	State        string `json:"state"`
	WorkflowID   string `json:"workflowId"`
	RunID        string `json:"runId"`
	WorkflowType string `json:"workflowType"`
	Source       source `json:"source"`
	approval.Granted
}

func (a *app) approvals(ctx context.Context, root string) error {
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	fd := newFinder(s)
	found, left, err := []asking(nil), 0, error(nil)
	if root != "" {
		found, err = fd.asked(ctx, root)
	} else {
		found, left, err = fd.all(ctx)
	}
	if err != nil {
		return err
	}
	n := 0
	for _, run := range found {
		for _, q := range run.pending {
			if n++; a.json() {
				if err := a.printJSON(listed{statePending, run.id, run.runID, run.workflowType, run.source, q}); err != nil {
					return err
				}
				continue
			}
			if n > 1 {
				a.printf("\n")
			}
			a.listed(s, run, q)
		}
		if run.more > 0 {
			a.note("%s of %s will be listed when some of these are answered", count(run.more, "more question"), oneLine(run.id, mostLine))
		}
	}
	switch {
	case a.json():
		for _, run := range found {
			for _, g := range run.granted {
				if err := a.printJSON(listedGrant{stateAllowed, run.id, run.runID, run.workflowType, run.source, g}); err != nil {
					return err
				}
			}
		}
	case n == 0:
		a.printf("no approvals wait in namespace %q at %s\n", s.Namespace, s.Address)
	}
	if !a.json() {
		a.grantedList(s, found)
	}
	if left > 0 {
		a.note("%s more were not asked; narrow it down with: starter show ID", count(left, "running agent"))
	}
	return nil
}

// listed prints one question.
func (a *app) listed(s *connect.Server, run asking, q approval.Approval) {
	a.printf("%s   %s", a.style.bold(q.Key), oneLine(run.id, mostLine))
	if q.Agent != "" {
		a.printf(" (%s)", oneLine(q.Agent, mostLine))
	}
	if !q.AskedAt.IsZero() {
		a.printf("   asked %s ago", span(time.Since(q.AskedAt)))
	}
	if q.Deadline != nil {
		a.printf("   %s", deadline(*q.Deadline))
	}
	a.printf("\n")
	if len(q.Input) == 0 {
		a.arguments(q.Tool, []string{"(a worker knows the arguments, and none answers)"})
	} else {
		a.arguments(q.Tool, argumentLines(q.Input))
	}
	a.printf("  why     %s\n", oneLine(q.Why, 400))
	a.needs(q)
	if run.source != fromQuery {
		a.printf("  note    no worker answers on queue %s; an answer takes effect when one does\n", oneLine(run.queue, mostLine))
	}
	a.printf("  cli     %s\n", again(s, "approve", q.Key, "-w", run.id))
}

// deadline says how long a question can still be answered.
func deadline(at time.Time) string {
	if left := time.Until(at); left > 0 {
		return "expires in " + span(left)
	}
	return "deadline passed"
}

// arguments prints what a person is asked about, whole.
func (a *app) arguments(tool string, lines []string) {
	for i, line := range lines {
		if i == 0 {
			a.printf("  %s   %s\n", a.style.bold(oneLine(tool, mostLine)), line)
			continue
		}
		a.printf("    %s\n", line)
	}
}

// needs tells whose allow a question needs, who has given one, and how long it has been waiting in vain.
func (a *app) needs(q approval.Approval) {
	if p := q.Approvers; p != nil {
		who := "anybody"
		if len(p.Groups) > 0 {
			who = strings.Join(p.Groups, ", ")
		}
		a.printf("  who     %d of %s", q.Needs(), oneLine(who, 400))
		if q.RequestedBy != "" {
			a.printf("; not %s, who asked for the run", oneLine(q.RequestedBy, mostLine))
		}
		a.printf("\n")
	}
	if len(q.Votes) > 0 {
		a.printf("  so far  %d of %d: %s\n", len(q.Votes), q.Needs(), voters(q.Votes))
	}
	if q.Reminded > 0 {
		a.printf("  waits   reminded %s\n", times(q.Reminded))
	}
	if q.Escalated != nil {
		to := ""
		if len(q.EscalatedTo) > 0 {
			to = " to " + oneLine(strings.Join(q.EscalatedTo, ", "), 400)
		}
		a.printf("  waits   escalated%s at %s\n", to, q.Escalated.UTC().Format(time.RFC3339))
	}
}

// voters names those whose allow counts, and says whose name is proved.
func voters(votes []approval.Vote) string {
	names := make([]string, len(votes))
	for i, v := range votes {
		names[i] = oneLine(v.By, mostLine) + proof(v.Signed, v.Via)
	}
	return strings.Join(names, ", ")
}

// proof says what proves the name of who gave an answer.
func proof(signed bool, via string) string {
	switch {
	case signed:
		return " (signed)"
	case via == "approver":
		return " (approver in the worker)"
	}
	return " (self-asserted)"
}

// block is the question as watch and run show it, with every way to answer.
func (a *app) block(s *connect.Server, workflowID, workflowType, web string, q follow.Question) {
	a.printf("%s   %s", a.style.yellow("⏸ approval needed"), a.style.bold(q.Key))
	if q.Deadline != nil {
		// The block also stands in the story of a run that is over, so it says when and not how long.
		a.printf("   until %s", q.Deadline.UTC().Format(time.RFC3339))
	}
	a.printf("\n")
	switch {
	case len(q.Input) > 0:
		a.arguments(q.Tool, argumentLines(q.Input))
	case q.InputRef != nil:
		a.arguments(q.Tool, []string{callText(nil, q.InputRef)})
	default:
		a.arguments(q.Tool, []string{"(its arguments are shown by: " + again(s, "approvals") + ")"})
	}
	a.printf("  why     %s\n", because(q.Decision))
	a.needs(q.Approval())
	if web != "" {
		a.printf("  web     %s\n", web)
	}
	a.printf("  cli     %s\n", again(s, "approve", q.Key, "-w", workflowID))
	a.printf("  or      %s\n", signalLine(s, workflowID, workflowType, q.Key))
}

// signalLine answers with nothing but the Temporal command.
func signalLine(s *connect.Server, workflowID, workflowType, key string) string {
	line := "temporal workflow signal --address " + shellQuote(s.Address)
	if s.Namespace != connect.DefaultNamespace {
		line += " --namespace " + shellQuote(s.Namespace)
	}
	return line + " -w " + shellQuote(workflowID) + " --name " + handlers(workflowType).signal +
		` --input '{"key":"` + key + `","decision":"allow"}'`
}
