package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// printer shows the events of one agent as they happen.
type printer struct {
	*app
	server *connect.Server
	view   *view
	// web returns the page of a run in the web UI; nil when there is none that we know of.
	web func(workflowID, runID string) string
	// apply is the command that applies the patch; empty means the one that fetches it too.
	apply string
	// quiet leaves the questions to somebody else, who asks for an answer.
	quiet bool
	// children print the agents that this one has started, by workflow id; nil leaves them out. last is whose event was shown.
	children map[string]*printer
	last     string
	// speaking is the turn that is being shown while the model speaks.
	speaking *speaking
}

func (a *app) printer(s *connect.Server, id string) *printer {
	return &printer{app: a, server: s, view: newView(id)}
}

// print shows one event.
func (p *printer) print(e follow.Event) error {
	if p.children != nil && !p.json() && e.WorkflowID != p.last {
		if p.last != "" {
			p.printf("%s\n", p.style.dim("── "+oneLine(e.WorkflowID, mostLine)))
		}
		p.last = e.WorkflowID
	}
	if e.WorkflowID != p.view.id && p.children != nil {
		c := p.children[e.WorkflowID]
		if c == nil {
			c = p.app.printer(p.server, e.WorkflowID)
			c.web, c.quiet = p.web, p.quiet
			p.children[e.WorkflowID] = c
		}
		return c.print(e)
	}
	shown := p.view.start != nil
	p.view.add(e)
	if p.json() {
		return p.printJSON(e)
	}
	switch e.Kind {
	case follow.AgentStart:
		if shown && e.Start.ContinuedFrom != "" {
			p.printf("%s\n", p.style.dim("the agent goes on in a new run"))
			return nil
		}
		p.started(e)
	case follow.Said:
		p.saying(*e.Said)
	case follow.Turn:
		p.turn(*e.Turn)
	case follow.Decision:
		p.decided(*e.Decision)
	case follow.ApprovalPending:
		p.pending(e)
	case follow.Answer, follow.ApprovalClosed, follow.ApprovalVote, follow.ApprovalReminder, follow.ApprovalEscalated,
		follow.ApprovalIgnored, follow.ApprovalRevoked:
		p.answer(e)
	case follow.ToolStart:
		p.edited(*e.Tool)
	case follow.ToolEnd:
		p.ran(*e.Tool)
	case follow.Worktree:
		p.tree(*e.Worktree)
	case follow.AgentRestart:
		p.restart(*e.Restart)
	case follow.ChildStart:
		p.printf("%s %s\n", p.style.dim("starts agent"), oneLine(e.Child.WorkflowID, mostLine))
	case follow.ChildEnd:
		how := e.Child.Closed
		if e.Child.Result != nil {
			how = string(e.Child.Result.Status)
		}
		p.printf("%s %s: %s\n", p.style.dim("agent"), oneLine(e.Child.WorkflowID, mostLine), how)
	case follow.CancelRequested:
		p.printf("%s\n", p.style.yellow("cancellation was requested"))
	case follow.Reset:
		p.printf("%s %s\n", p.style.yellow("the run was reset and goes on from an earlier point:"), oneLine(e.Note, 400))
	case follow.Problem:
		p.printf("%s %s\n", p.style.red("problem"), oneLine(e.Note, 2000))
	case follow.AgentEnd:
		p.ended(*e.End)
	}
	return nil
}

func (p *printer) started(e follow.Event) {
	what := e.Start.WorkflowType
	if e.Start.AgentType != "" {
		what = e.Start.AgentType
	}
	p.printf("%s   %s on queue %s\n", p.style.bold(oneLine(e.WorkflowID, mostLine)), oneLine(what, mostLine), oneLine(e.Start.TaskQueue, mostLine))
	if e.Start.Prompt != "" {
		p.printf("  task    %s\n", oneLine(e.Start.Prompt, mostLine))
	}
	if e.Start.RequestedBy != "" {
		p.printf("  for     %s\n", oneLine(e.Start.RequestedBy, mostLine))
	}
}

func (p *printer) turn(t follow.TurnOf) {
	lines, spoken := p.unsaid(t)
	if spoken && t.Error == "" && t.OverBudget == "" {
		for _, line := range lines {
			p.printf("  %s\n", line)
		}
		lines = nil
	}
	p.printf("%s", p.style.bold(fmt.Sprintf("turn %d", t.Number)))
	if c := t.Compacted; c != nil {
		p.printf("  %s %d turns so far, by %s · %s\n", p.style.yellow("compacted"), c.Turns, oneLine(t.Model, mostLine),
			costText(t.CostUSD, 1, unpriced(t), 0))
		return
	}
	if t.OverBudget != "" {
		p.printf("  %s %s\n", p.style.yellow("not begun"), oneLine(t.OverBudget, 2000))
		return
	}
	if t.Error != "" {
		p.printf("  %s %s\n", p.style.red("failed"), oneLine(t.Error, 2000))
		return
	}
	p.printf("  %s\n", p.style.dim(fmt.Sprintf("%s · %d tokens in, %d out · %s", t.Model, t.Usage.InputTokens, t.Usage.OutputTokens, costText(t.CostUSD, 1, unpriced(t), 0))))
	if t.Text != "" {
		for _, line := range lines {
			p.printf("  %s\n", line)
		}
	}
	for _, c := range t.Calls {
		p.unjudged(c)
	}
	if t.Dropped > 0 {
		p.printf("  %s\n", p.style.yellow(count(t.Dropped, "more call")+" in one turn were not looked at"))
	}
}

// unjudged shows a call that no policy is asked about, because there is no such tool or its arguments are no JSON. The
// model reads of it; history has no event of its own for it.
func (p *printer) unjudged(c protocol.Requested) {
	code, text := tool.InvalidArguments, c.Raw
	if p.view.ready != nil && !slices.Contains(p.view.ready.Tools, c.Name) {
		code, text = tool.UnknownTool, callText(c.Input, c.InputRef)
	} else if c.Raw == "" {
		return
	}
	p.printf("  %s  %s  %s\n", p.style.red(string(code)), p.style.bold(oneLine(c.Name, mostLine)), p.style.dim(oneLine(text, mostLine)))
}

// decided shows a call with its verdict. A question has a block of its own.
func (p *printer) decided(d follow.Decided) {
	if d.Drift != "" {
		p.printf("  %s   %s: %s\n", p.style.yellow("waits"), oneLine(d.Tool, mostLine), oneLine(d.Drift, 400))
		return
	}
	if d.Decision.Verdict == permission.Ask {
		return
	}
	p.printf("  %s  %s  %s", p.verdict(d.Decision.Verdict), p.style.bold(oneLine(d.Tool, mostLine)), callText(d.Input, d.InputRef))
	if d.Decision.Modified {
		p.printf("\n         %s  %s", p.style.yellow("changed to"), callText(d.Decision.Input, nil))
	}
	p.printf("  %s\n", p.style.dim(because(d.Decision)))
}

func (p *printer) pending(e follow.Event) {
	if p.quiet {
		return
	}
	web := ""
	if p.web != nil {
		web = p.web(e.WorkflowID, e.RunID)
	}
	p.block(p.server, e.WorkflowID, p.view.workflowType(), web, *e.Question)
}

// workflowType is the type as the history's first event says.
func (v *view) workflowType() string {
	if v.start == nil {
		return protocol.WorkflowAgent
	}
	return v.start.WorkflowType
}

// edited shows what runs when a person changed the arguments.
func (p *printer) edited(c follow.Call) {
	i, ok := p.view.byID[c.CallID]
	if !ok || c.Approved == nil || len(c.Input) == 0 {
		return
	}
	asked := p.view.calls[i].decided
	if before := asked.Input; !asked.Decision.Modified && len(before) > 0 && !sameJSON(before, c.Input) {
		p.printf("  %s  %s  %s\n", p.style.yellow("edited"), p.style.bold(oneLine(c.Tool, mostLine)), callText(c.Input, c.InputRef))
	}
}

// ran shows the end of a call.
func (p *printer) ran(c follow.Call) {
	mark, text := p.style.red("lost"), oneLine(c.Error, 400)
	if c.Result != nil {
		word := string(c.Result.Code)
		if mark, text = p.style.red(word), resultText(c.Result); c.Result.Code == tool.OK {
			mark = pad(word, p.style.green(word), 5)
		}
	}
	p.printf("  %s  %s  %s\n", mark, p.style.bold(oneLine(c.Tool, mostLine)), p.style.dim(strings.TrimSpace(text+"  "+took(c))))
	if r := c.Revoked; r != nil {
		p.printf("  %s  %s: %s\n", p.style.red("revoked"), r.Key, cameOf(r.Revocation))
	}
}

// unpriced counts a turn whose cost is unknown.
func unpriced(t follow.TurnOf) int {
	if t.Unpriced {
		return 1
	}
	return 0
}

// took is how long a call ran, if that is worth a word.
func took(c follow.Call) string {
	if c.Took < time.Second {
		return ""
	}
	return "after " + span(c.Took)
}

func (p *printer) tree(t follow.Tree) {
	switch {
	case t.Error != "":
		p.printf("  tree    %s %s: %s\n", t.Phase, p.style.red("failed"), oneLine(t.Error, 2000))
	case t.Phase == follow.Acquired && t.Resolved != nil:
		p.printf("  tree    %s at %.12s of %s (%s)\n", oneLine(t.Dir, 400), t.Resolved.Commit, oneLine(t.Resolved.Repo, mostLine), oneLine(t.Resolved.Ref, mostLine))
	case t.Retained != "":
		p.printf("  tree    kept at %s\n", oneLine(t.Retained, 400))
	}
}

// restart says that what was done so far is lost.
func (p *printer) restart(r follow.Restart) {
	p.printf("%s %d: %s\n", p.style.yellow("the agent starts again in a new worktree, restart"), r.Number, oneLine(r.Lost, 2000))
}

// ended shows how a run ended, what it made and how to get it.
func (p *printer) ended(end follow.Ended) {
	status := p.view.status()
	mark := p.style.red(status)
	if code(&end) == 0 {
		mark = p.style.green(status)
	}
	p.printf("%s", mark)
	if r := end.Result; r != nil {
		p.printf("   %s · %s · %s · %s", count(r.Turns, "turn"), count(r.Calls, "call"), count(r.Asked, "approval"), resultCost(r))
	}
	p.printf("\n")
	if end.Error != "" {
		p.printf("  error   %s\n", oneLine(end.Error, 2000))
	}
	if end.Result != nil && len(end.Result.Escalation) > 0 {
		p.printf("  report  %s\n", oneLine(string(end.Result.Escalation), 2000))
	}
	if end.Result != nil && len(end.Result.Progress) > 0 {
		p.printf("  report  %s\n", oneLine(string(end.Result.Progress), 2000))
	}
	for _, art := range p.view.artifacts() {
		p.artifact(art)
	}
}

// artifact shows what an agent made.
func (p *printer) artifact(art protocol.Artifact) {
	if end := p.view.end; art.Error != "" && (end == nil || !strings.Contains(end.Error, art.Error)) {
		p.printf("  %s  %s\n", p.style.red("danger"), oneLine(art.Error, 2000))
	}
	if len(art.Files) == 0 {
		p.printf("  patch   empty: nothing was changed\n")
	} else {
		added, removed := 0, 0
		for _, f := range art.Files {
			added, removed = added+f.Insertions, removed+f.Deletions
		}
		apply := p.apply
		if apply == "" {
			apply = again(p.server, "patch", p.view.id) + " | git apply"
		}
		p.printf("  patch   %s, +%d −%d   %s\n", count(len(art.Files), "file"), added, removed, apply)
	}
	const most = 20
	for i, f := range art.Files {
		if i == most {
			p.printf("    … and %s\n", count(len(art.Files)-most, "more file"))
			break
		}
		p.printf("    %s  %s\n", f.Status, oneLine(f.Path, mostLine))
	}
	for _, w := range art.Warnings {
		p.printf("  %s %s\n", p.style.yellow("warning"), oneLine(w, 400))
	}
	for _, h := range art.HostChanges {
		mark := "note   "
		if h.Dangerous {
			mark = p.style.red("danger ")
		}
		p.printf("  %s the repository itself changed: %s %s\n", mark, oneLine(h.Key, mostLine), oneLine(h.Change, mostLine))
	}
	if art.Retained != "" {
		p.printf("  tree    kept at %s\n", oneLine(art.Retained, 400))
	}
	if len(art.Ignored) > 0 {
		p.printf("  ignored %s\n", oneLine(strings.Join(art.Ignored, ", "), 400))
	}
}
