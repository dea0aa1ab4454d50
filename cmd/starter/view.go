package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// view is what a history says of an agent up to now.
type view struct {
	id, runID string
	began     time.Time
	// runs counts the runs that were read, before those that the server no longer has.
	runs, before int
	start        *follow.Started
	ready        *follow.Ready
	turns        []follow.TurnOf
	calls        []callView
	byID         map[string]int
	questions    []follow.Question
	// granted are the allowed calls that have not ended, closed and ignored the answers of before.
	granted []approval.Granted
	closed  []approval.Closed
	ignored []approval.Ignored
	trees   []follow.Tree
	// restarts are the new lives after an environment was lost.
	restarts []follow.Restart
	problem  string
	end      *follow.Ended
	ended    time.Time
}

// callView is one call and what became of it.
type callView struct {
	decided follow.Decided
	// state is running, waiting or the result's code; empty before the call is dispatched.
	state string
	run   *follow.Call
}

func newView(id string) *view { return &view{id: id, byID: map[string]int{}} }

// add takes the next event.
func (v *view) add(e follow.Event) {
	v.runID = e.RunID
	switch e.Kind {
	case follow.AgentStart:
		if v.runs++; v.start == nil {
			v.start, v.began, v.before = e.Start, e.Time, e.Start.RunsBefore
		}
	case follow.AgentReady:
		v.ready = e.Ready
	case follow.Turn:
		v.turns, v.problem, v.granted = append(v.turns, *e.Turn), "", nil
	case follow.Decision:
		v.decided(*e.Decision)
	case follow.ToolStart:
		v.state(e.Tool.CallID, "running")
		v.sent(e.Tool.CallID)
	case follow.ToolEnd:
		v.returned(*e.Tool)
	case follow.AgentRestart:
		v.restarts = append(v.restarts, *e.Restart)
	case follow.Worktree:
		v.trees = append(v.trees, *e.Worktree)
	case follow.Problem:
		v.problem = e.Note
	case follow.AgentEnd:
		v.end, v.ended, v.granted = e.End, e.Time, nil
	default:
		v.answers(e)
	}
}

// decided takes the decision on a call; a second one, after drift, replaces the first.
func (v *view) decided(d follow.Decided) {
	c := callView{decided: d}
	if d.Decision.Verdict == permission.Deny {
		c.state = "denied"
	}
	if i, ok := v.byID[d.CallID]; ok {
		v.calls[i] = c
		return
	}
	v.byID[d.CallID] = len(v.calls)
	v.calls = append(v.calls, c)
}

func (v *view) state(callID, state string) {
	if i, ok := v.byID[callID]; ok {
		v.calls[i].state = state
	}
}

// status is the agent's state in one word: how it ended, or running, or waiting.
func (v *view) status() string {
	switch {
	case v.end != nil && v.end.Result != nil:
		return string(v.end.Result.Status)
	case v.end != nil:
		return v.end.Closed
	case v.suspended():
		return string(protocol.StatusWaiting)
	}
	return string(protocol.StatusRunning)
}

// suspended reports that nothing goes on but waiting for answers.
func (v *view) suspended() bool {
	if v.end != nil || len(v.questions) == 0 {
		return false
	}
	for _, c := range v.calls {
		if c.state == "running" {
			return false
		}
	}
	return true
}

// turnCount is how many turns there were, in runs of before as well.
func (v *view) turnCount() int {
	n := len(v.turns)
	if n == 0 || v.turns[n-1].Number == 0 {
		return n
	}
	last := v.turns[n-1]
	if last.Compacted != nil || last.OverBudget != "" {
		// The turn of this number has not come, or never does.
		return last.Number - 1
	}
	return last.Number
}

// load reads what the histories of an agent say now, those of all its runs.
func load(ctx context.Context, s *connect.Server, id string) (*view, error) {
	return read(ctx, s, id, follow.Options{FromFirst: true})
}

// read is load with the options to read with; without any it reads the present run alone.
func read(ctx context.Context, s *connect.Server, id string, o follow.Options) (*view, error) {
	v := newView(id)
	for e, err := range follow.Follow(ctx, s, id, "", o) {
		if err != nil {
			return nil, unknownAgent(s, id, err)
		}
		v.add(e)
	}
	return v, nil
}

// unavailable reports an error of a server that may come back.
func unavailable(err error) bool {
	var gone *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &gone) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}

// unknownAgent says in words that there is no such workflow, or no server any more.
func unknownAgent(s *connect.Server, id string, err error) error {
	var gone *serviceerror.NotFound
	switch {
	case unavailable(err):
		return exit.WithHint(&connect.NoServerError{Address: s.Address, Cause: err}, "the agent is not lost; come back with: "+again(s, "watch", id))
	case errors.As(err, &gone):
		return exit.Failf("see those there are with: "+again(s, "list"), "no agent %q in namespace %q at %s", id, s.Namespace, s.Address)
	}
	return fmt.Errorf("read agent %q: %w", id, err)
}

// code is the exit code that an agent's end stands for.
func code(end *follow.Ended) int {
	switch {
	case end == nil:
		return exit.OK
	case end.Result == nil && end.ErrorType == protocol.ErrorConfig:
		return exit.Usage
	case end.Result == nil && end.Closed == "completed":
		return exit.OK // a workflow that is no agent
	case end.Result == nil:
		return exit.Failed
	}
	switch end.Result.Status {
	case protocol.OK:
		return exit.OK
	case protocol.LimitHit, protocol.Escalated:
		return exit.Limited
	}
	return exit.Failed
}

// closedWord is the state of a closed workflow in one word.
func closedWord(s enumspb.WorkflowExecutionStatus) string {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return "running"
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return "completed"
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		return "failed"
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return "cancelled"
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return "terminated"
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return "timed-out"
	case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return "continued"
	}
	return "unknown"
}
