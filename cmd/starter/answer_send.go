package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// outcome is what became of an answer.
type outcome struct {
	// Via is update or signal.
	Via string `json:"via"`
	// Closed is how the question closed, if it is known and did.
	Closed *approval.Closed `json:"closed,omitempty"`
	// Overruled says which layer denied an allowed call, and why edited arguments do not fit.
	Overruled *follow.Overruled `json:"overruled,omitempty"`
	// Progress is set where the allow counts and more are needed.
	Progress *follow.Progress `json:"progress,omitempty"`
	// Ignored is set where the answer was taken and changed nothing.
	Ignored *approval.Ignored `json:"ignored,omitempty"`
	// Revoked is set where an allow was taken back.
	Revoked *approval.Revocation `json:"revoked,omitempty"`
	// Note says why the answer went as a signal.
	Note string `json:"note,omitempty"`
}

func (o outcome) unknown() bool {
	return o.Closed == nil && o.Progress == nil && o.Ignored == nil && o.Revoked == nil
}

// failed reports that the answer had not the effect that was meant.
func (o outcome) failed(r approval.Resolution) bool {
	want := map[approval.Choice]approval.How{approval.Allow: approval.Allowed, approval.Deny: approval.Denied, approval.Revoke: approval.Revoked}[r.Decision]
	switch {
	case o.Ignored != nil:
		return true
	case o.Revoked != nil:
		return o.Revoked.Outcome != "" && o.Revoked.Outcome != tool.Denied && o.Revoked.Outcome != tool.Aborted
	}
	return o.Closed != nil && o.Closed.How != want
}

// why says what came of an answer that failed.
func (o outcome) why(r approval.Resolution) string {
	switch {
	case o.Ignored != nil:
		return fmt.Sprintf("the answer to %s changed nothing: %s", r.Key, oneLine(o.Ignored.Why, 400))
	case o.Revoked != nil:
		return fmt.Sprintf("%s had begun, and ended with %s before it heard of it: nothing was revoked", r.Key, o.Revoked.Outcome)
	case o.Closed == nil:
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the answer did not take effect: %s was %s: %s", r.Key, o.Closed.How, oneLine(o.Closed.Reason, 400))
	if o.Overruled != nil {
		for _, i := range o.Overruled.Invalid {
			fmt.Fprintf(&b, "\n  %s  %s", oneLine(pointer(i.Pointer), mostLine), oneLine(i.Message, 400))
		}
	}
	return b.String()
}

// pointer shows a JSON pointer; the empty one means the whole.
func pointer(p string) string {
	if p == "" {
		return "(the whole)"
	}
	return p
}

// became says in one line what an answer did; who says who gave it, or is empty.
func (a *app) became(run asking, r approval.Resolution, got outcome, who string) string {
	in := oneLine(run.id, mostLine)
	switch {
	case got.Via == "signal":
		return fmt.Sprintf("sent %s of %s to %s by signal%s", r.Decision, r.Key, in, who)
	case got.Revoked != nil:
		return fmt.Sprintf("%s %s in %s%s: %s", a.style.red("revoked"), r.Key, in, who, cameOf(*got.Revoked))
	case got.Progress != nil:
		return fmt.Sprintf("%s %s in %s%s: %d of %d", a.style.green("counted"), r.Key, in, who, len(got.Progress.Votes), got.Progress.Needs)
	case got.unknown():
		return fmt.Sprintf("gave %s for %s to %s%s", r.Decision, r.Key, in, who)
	}
	switch r.Decision {
	case approval.Allow:
		with := ""
		if got.Closed.Edited {
			with = " with other arguments"
		}
		return fmt.Sprintf("%s %s in %s%s%s", a.style.green("allowed"), r.Key, in, with, who)
	case approval.Revoke:
		return fmt.Sprintf("%s %s in %s%s: it never ran", a.style.red("withdrew"), r.Key, in, who)
	}
	return fmt.Sprintf("%s %s in %s%s", a.style.red("denied"), r.Key, in, who)
}

// cameOf says what became of a call whose allow was taken back.
func cameOf(r approval.Revocation) string {
	switch {
	case r.Outcome == tool.Denied:
		return "it never ran"
	case r.Outcome == tool.Aborted:
		return "it had begun and was asked to stop: " + string(r.Outcome)
	case r.Outcome != "":
		return "it had begun, and ended with " + string(r.Outcome)
	case r.Dispatched:
		return "it is on its way to a worker, or with one, and is asked to stop"
	}
	return "it never ran"
}

const (
	// updateWithin is how long a worker may take to look at an update.
	updateWithin = 10 * time.Second
	// admitWithin is how long the outcome is waited for; the answer is safe by then. A call that runs hears of its
	// revocation with its next heartbeat.
	admitWithin = 15 * time.Second
)

// send gives the answer by update, or by signal where no worker takes the update, and waits a moment for what comes of it.
func send(ctx context.Context, fd *finder, run asking, r approval.Resolution) (outcome, error) {
	w := fd.witness(ctx, run)
	got, err := give(ctx, fd.server, run, r)
	if err != nil || got.Via == "signal" {
		return got, err
	}
	ctx, cancel := context.WithTimeout(ctx, admitWithin)
	defer cancel()
	w.watch(ctx, []approval.Resolution{r}, func(_ approval.Resolution, o outcome) { got = o })
	got.Via = "update"
	return got, nil
}

// give sends an answer. One to a run that has continued as new goes to the run that it goes on in.
func give(ctx context.Context, s *connect.Server, run asking, r approval.Resolution) (outcome, error) {
	for {
		got, err := giveRun(ctx, s, run, r)
		gone := new(serviceerror.NotFound)
		if !errors.As(err, &gone) {
			return got, err
		}
		next, err := successor(ctx, s, run)
		switch {
		case errors.As(err, &gone):
			// The server has forgotten it.
		case err != nil:
			return outcome{}, fmt.Errorf("look where agent %q goes on: %w", run.id, err)
		}
		if next == "" {
			return outcome{}, over(ctx, s, run.id)
		}
		run.runID = next
	}
}

// over says why a run that has not continued takes no answer: a reset, too, ends one, and goes on in another.
func over(ctx context.Context, s *connect.Server, id string) error {
	latest, err := s.DescribeWorkflow(ctx, id, "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
	case err != nil:
		return fmt.Errorf("look whether agent %q goes on: %w", id, err)
	case latest.RawResponse.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return exit.Failf("see what waits: "+again(s, "approvals"), "the run that asked takes no answers any more, and agent %q runs (was it reset?)", id)
	}
	return ended(s, id, "just now")
}

// successor is the run as which a run has continued; empty if it has not.
func successor(ctx context.Context, s *connect.Server, run asking) (string, error) {
	it := s.GetWorkflowHistory(ctx, run.id, run.runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return "", err
		}
		if next := e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(); next != "" {
			return next, nil
		}
	}
	return "", nil
}

// giveRun sends an answer to one run; the error of one that has ended is a *serviceerror.NotFound.
func giveRun(ctx context.Context, s *connect.Server, run asking, r approval.Resolution) (outcome, error) {
	note := fmt.Sprintf("no worker polls queue %q", run.queue)
	if run.err != nil {
		note = "no worker answered in time"
	}
	if run.source == fromQuery {
		err := update(ctx, s, run, r)
		if err == nil {
			return outcome{Via: "update"}, nil
		}
		var refused *temporal.ApplicationError
		var gone *serviceerror.NotFound
		switch {
		case ctx.Err() != nil:
			return outcome{}, ctx.Err()
		case errors.As(err, &refused):
			return outcome{}, exit.Failf("see what waits: "+again(s, "approvals"), "agent %q refuses the answer: %s", run.id, refused.Message())
		case errors.As(err, &gone):
			return outcome{}, gone
		}
		note = "no worker took the update: " + err.Error()
	}
	err := s.SignalWorkflow(ctx, run.id, run.runID, handlers(run.workflowType).signal, r)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return outcome{}, gone
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
	var accepted protocol.Accepted
	return h.Get(ctx, &accepted)
}

// witness reads from history what becomes of answers. The approvals query forgets; history does not.
type witness struct {
	server *connect.Server
	run    asking
	// after is the last event before the answers.
	after int64
}

func (f *finder) witness(ctx context.Context, run asking) witness {
	w := witness{server: f.server, run: run}
	if resp, err := f.server.DescribeWorkflow(ctx, run.id, run.runID); err == nil {
		w.after = resp.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength()
	}
	return w
}

// watch tells what became of each answer, until it has told of all, the run has ended or ctx has.
func (w witness) watch(ctx context.Context, answers []approval.Resolution, tell func(approval.Resolution, outcome)) {
	open := map[string]approval.Resolution{}
	for _, r := range answers {
		open[r.Key] = r
	}
	// What a call that was on its way makes of a revocation comes with its end.
	stopping := map[string]outcome{}
	defer func() {
		for key, o := range stopping {
			if r, ok := open[key]; ok {
				tell(r, o)
			}
		}
	}()
	done := func(key string, o outcome) {
		if r, ok := open[key]; ok {
			delete(open, key)
			tell(r, o)
		}
	}
	for e, err := range follow.Follow(ctx, w.server, w.run.id, w.run.runID, follow.Options{Wait: true}) {
		if err != nil {
			return
		}
		if e.RunID == w.run.runID && e.EventID <= w.after {
			continue
		}
		key, o, ok := tells(e, open)
		switch {
		case !ok:
		case o.Revoked != nil && o.Revoked.Dispatched && o.Revoked.Outcome == "":
			stopping[key] = o
		default:
			done(key, o)
		}
		if len(open) == 0 {
			return
		}
	}
}

// tells is what an event says of an answer that was given.
func tells(e follow.Event, given map[string]approval.Resolution) (key string, o outcome, ok bool) {
	mine := func(key, by string) bool {
		r, ok := given[key]
		return ok && strings.TrimSpace(r.By) == strings.TrimSpace(by)
	}
	switch {
	case e.Kind == follow.ApprovalClosed:
		return e.Closed.Key, outcome{Closed: e.Closed, Overruled: e.Overruled}, given[e.Closed.Key].Decision != approval.Revoke || e.Closed.How != approval.Allowed
	case e.Kind == follow.ApprovalVote && mine(e.Progress.Key, e.Progress.Vote.By):
		return e.Progress.Key, outcome{Progress: e.Progress}, true
	case e.Kind == follow.ApprovalIgnored && e.Ignored.Via != "workflow" && mine(e.Ignored.Key, e.Ignored.By):
		return e.Ignored.Key, outcome{Ignored: e.Ignored}, true
	case e.Kind == follow.Answer && e.Answer.Ignored != "" && mine(e.Answer.Key, e.Answer.By):
		return e.Answer.Key, outcome{Ignored: &approval.Ignored{At: e.Time, Key: e.Answer.Key, By: e.Answer.By, Why: e.Answer.Ignored, Via: e.Answer.Via}}, true
	case e.Kind == follow.ApprovalRevoked:
		rev := e.Revoked.Revocation
		return e.Revoked.Key, outcome{Revoked: &rev}, true
	case e.Kind == follow.ToolEnd && e.Tool.Revoked != nil:
		return e.Tool.Revoked.Key, outcome{Revoked: &e.Tool.Revoked.Revocation}, true
	}
	return "", outcome{}, false
}
