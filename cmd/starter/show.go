package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

func (a *app) showCommand() *cobra.Command {
	var transcript bool
	var f storeFlags
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show what became of an agent so far: status, questions, calls, results",
		Long:    "Show what became of an agent so far: status, open questions, turns, calls with their verdicts, artifacts, result.\n\nEverything comes from the workflow's history, so it needs no worker.\n\nWith --transcript, show the conversation instead, oldest first. It comes from the blob store of the worker, which must be\nreachable from here: the default folder, the one that --config names, or --blobs. Every message is checked against the\nreference that the history has.",
		Example: "  starter show fix-1\n  starter show fix-1 -o json | jq .result\n  starter show fix-1 --transcript --config assent.yaml",
		GroupID: groupAgents,
		Args:    oneArg("the ID of an agent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if transcript {
				return a.transcript(cmd.Context(), args[0], f)
			}
			if f != (storeFlags{}) {
				return exit.Usagef("see: starter show --help", "--config and --blobs go with --transcript")
			}
			return a.show(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&transcript, "transcript", false, "show the conversation")
	f.add(cmd)
	a.serverFlags(cmd)
	return cmd
}

// shown is an agent as `show -o json` prints it.
type shown struct {
	WorkflowID   string            `json:"workflowId"`
	RunID        string            `json:"runId"`
	WorkflowType string            `json:"workflowType"`
	Status       string            `json:"status"`
	AgentType    string            `json:"agentType,omitempty"`
	RequestedBy  string            `json:"requestedBy,omitempty"`
	StartedAt    time.Time         `json:"startedAt"`
	EndedAt      *time.Time        `json:"endedAt,omitempty"`
	Prompt       string            `json:"prompt,omitempty"`
	Questions    []follow.Question `json:"questions"`
	// Granted are the allowed calls that have not ended, Answers the questions that are closed, Ignored the answers that
	// changed nothing.
	Granted []approval.Granted `json:"granted"`
	Answers []approval.Closed  `json:"answers"`
	Ignored []approval.Ignored `json:"ignored"`
	// Runs counts the runs of an agent that continued as new; what is below is of all of them, but for Gone of them, which the
	// server no longer has.
	Runs      int                   `json:"runs"`
	Gone      int                   `json:"gone,omitempty"`
	Turns     int                   `json:"turns"`
	Calls     []shownCall           `json:"calls"`
	Restarts  []follow.Restart      `json:"restarts,omitempty"`
	Artifacts []protocol.Artifact   `json:"artifacts"`
	Result    *protocol.AgentResult `json:"result,omitempty"`
	Error     string                `json:"error,omitempty"`
	Problem   string                `json:"problem,omitempty"`
}

// shownCall is one call of it.
type shownCall struct {
	CallID    string             `json:"callId"`
	Tool      string             `json:"tool"`
	Input     json.RawMessage    `json:"input,omitempty"`
	Verdict   permission.Verdict `json:"verdict"`
	DecidedBy permission.Decider `json:"decidedBy"`
	Reason    string             `json:"reason,omitempty"`
	// State is running, waiting, how its question closed, or the code of its result.
	State string       `json:"state,omitempty"`
	Run   *follow.Call `json:"run,omitempty"`
}

func (v *view) shown() shown {
	out := shown{WorkflowID: v.id, RunID: v.runID, WorkflowType: v.workflowType(), Status: v.status(), StartedAt: v.began, Questions: append([]follow.Question{}, v.questions...),
		Granted: append([]approval.Granted{}, v.granted...), Answers: append([]approval.Closed{}, v.closed...),
		Ignored: append([]approval.Ignored{}, v.ignored...), Runs: v.before + v.runs, Gone: v.before, Turns: v.turnCount(), Calls: []shownCall{}, Restarts: v.restarts, Artifacts: v.artifacts(), Problem: v.problem}
	if v.start != nil {
		out.AgentType, out.Prompt, out.RequestedBy = v.start.AgentType, v.start.Prompt, v.start.RequestedBy
	}
	if v.end != nil {
		out.EndedAt, out.Result, out.Error = &v.ended, v.end.Result, v.end.Error
	}
	if out.Artifacts == nil {
		out.Artifacts = []protocol.Artifact{}
	}
	for _, c := range v.calls {
		d := c.decided
		out.Calls = append(out.Calls, shownCall{CallID: d.CallID, Tool: d.Tool, Input: d.Input, Verdict: d.Decision.Verdict,
			DecidedBy: d.Decision.DecidedBy, Reason: d.Decision.Reason, State: c.state, Run: c.run})
	}
	return out
}

func (a *app) show(ctx context.Context, id string) error {
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := load(ctx, s, id)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(v.shown())
	}
	p := &printer{app: a, server: s, view: v}
	p.head()
	for _, q := range v.questions {
		a.block(s, v.id, v.workflowType(), "", q)
	}
	p.calls()
	p.story()
	if v.end != nil {
		p.ended(*v.end)
		if r := v.end.Result; r != nil && r.Output != "" {
			for _, line := range said(r.Output) {
				a.printf("  %s\n", line)
			}
		}
		return nil
	}
	for _, art := range v.artifacts() {
		p.artifact(art)
	}
	return nil
}

func (p *printer) head() {
	v := p.view
	p.printf("%s   %s   %s   started %s ago   run %s\n", p.style.bold(oneLine(v.id, mostLine)), v.status(), oneLine(v.shown().AgentType, mostLine),
		span(time.Since(v.began)), v.runID)
	if v.start != nil && v.start.Prompt != "" {
		p.printf("  task    %s\n", oneLine(v.start.Prompt, mostLine))
	}
	if v.start != nil && v.start.RequestedBy != "" {
		p.printf("  for     %s\n", oneLine(v.start.RequestedBy, mostLine))
	}
	for _, t := range v.trees {
		if t.Phase == follow.Acquired {
			p.tree(t)
		}
	}
	in, out, cost, unknown := int64(0), int64(0), 0.0, 0
	for _, t := range v.turns {
		in, out, cost, unknown = in+t.Usage.InputTokens, out+t.Usage.OutputTokens, cost+t.CostUSD, unknown+unpriced(t)
	}
	for _, r := range v.restarts {
		p.restart(r)
	}
	if runs := v.before + v.runs; runs > 1 {
		gone := ""
		if v.before > 0 {
			gone = fmt.Sprintf(", of which the server no longer has %d: calls and costs are of the others", v.before)
		}
		p.printf("  runs    %d%s\n", runs, gone)
	}
	p.printf("  so far  %s · %s · %d tokens in, %d out · %s\n", count(v.turnCount(), "turn"), count(len(v.calls), "call"), in, out,
		costText(cost, len(v.turns), unknown, 0))
	if v.problem != "" {
		p.printf("  %s %s\n", p.style.red("problem"), oneLine(v.problem, 2000))
	}
}

func (p *printer) calls() {
	for _, c := range p.view.calls {
		d := c.decided
		state := c.state
		if state == "" {
			state = "-"
		}
		p.printf("  %-6s  %s  %-10s  %s  %s\n", d.CallID, p.verdict(d.Decision.Verdict), state, p.style.bold(oneLine(d.Tool, mostLine)), callText(d.Input, d.InputRef))
	}
}
