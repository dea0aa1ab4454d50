package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/transcript"
	"github.com/assent-dev/assent/worktree"
)

// trees is a provider whose trees are lost so many times.
type trees struct {
	losses int
	// resolveErr, acquireErr and collectErr are what those methods return.
	resolveErr, acquireErr, collectErr error
	acquired                           []worktree.Identity
	disposed                           []string
	retained                           []string
}

func (p *trees) Resolve(_ context.Context, iso worktree.Isolation) (worktree.Resolved, error) {
	return worktree.Resolved{Repo: iso.Repo, Ref: "HEAD", Commit: "c", Tree: "t"}, p.resolveErr
}

func (p *trees) Acquire(_ context.Context, id worktree.Identity, at worktree.Resolved) (worktree.Lease, error) {
	p.acquired = append(p.acquired, id)
	return worktree.Lease{ID: fmt.Sprint(id.Attempt), Dir: fmt.Sprintf("/trees/%d", id.Attempt), Resolved: at}, p.acquireErr
}

func (p *trees) Check(_ context.Context, l worktree.Lease) error {
	if len(p.acquired) <= p.losses {
		return &worktree.GoneError{ID: l.ID, Why: "the host was replaced"}
	}
	return nil
}

func (p *trees) Collect(context.Context, worktree.Lease) (worktree.Patch, error) {
	return worktree.Patch{Bytes: []byte("diff"), Base: "c", Tree: "t2"}, p.collectErr
}

func (p *trees) Dispose(_ context.Context, l worktree.Lease, _ bool) error {
	p.disposed = append(p.disposed, l.Dir)
	return nil
}

func (p *trees) Retain(_ context.Context, l worktree.Lease, _ string) (bool, error) {
	p.retained = append(p.retained, l.Dir)
	return true, nil
}

func inTree(losses int, script string) (setup, *trees) {
	p := &trees{losses: losses}
	return setup{trees: p, script: script, profile: config.Profile{
		Isolation:   worktree.Isolation{Kind: worktree.Tree, Repo: "r"},
		Permissions: permission.Layer{Preset: permission.Standard}}}, p
}

func TestAnAgentInATree(t *testing.T) {
	s, p := inTree(0, `
turns:
  - calls: [{tool: change, args: {path: a}}]
  - say: done
`)
	b := newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Len(t, res.Artifacts, 1)
	require.Equal(t, "t2", res.Artifacts[0].Tree)
	require.Equal(t, []string{"/trees/0"}, p.disposed)
	require.Zero(t, res.Restarts)
}

// losing is a provider whose first tree is lost after one call.
type losing struct {
	*trees
	checks int
}

func (p *losing) Check(ctx context.Context, l worktree.Lease) error {
	if p.checks++; p.checks == 1 {
		return nil
	}
	return p.trees.Check(ctx, l)
}

// What a life that was lost has asked for goes with it: the next one may not need it.
func TestAnEscalationOfALostLifeIsNone(t *testing.T) {
	s, p := inTree(1, "")
	s.trees, s.tools = &losing{trees: p}, []*tool.Def{noop("escalate", tool.Write)}
	m := 0
	s.model = modelFunc(func(r model.Request) (model.Response, error) {
		switch m++; {
		case m == 1:
			return model.Response{Stop: model.StopToolUse, Calls: []model.ToolCall{
				{ID: "1", Name: "escalate", Input: json.RawMessage(`{"path":"x"}`)}, {ID: "2", Name: "change", Input: json.RawMessage(`{"path":"a"}`)}}}, nil
		case m == 2:
			return model.Response{Stop: model.StopToolUse, Calls: []model.ToolCall{{ID: "3", Name: "change", Input: json.RawMessage(`{"path":"a"}`)}}}, nil
		}
		return model.Response{Text: "done", Stop: model.StopEnd}, nil
	})
	b := newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, 1, res.Restarts)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Empty(t, res.Escalation)
	require.Equal(t, "done", res.Output)
}

// A lost environment starts the agent again, in another tree and from its prompt; its open questions are dropped.
func TestALostEnvironmentStartsTheAgentAgain(t *testing.T) {
	s, p := inTree(2, `
turns:
  - calls: [{tool: run, args: {path: asked}}, {tool: change, args: {path: a}}]
  - say: done
`)
	b := newBench(t, s)
	b.answer(time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 2, res.Restarts)
	require.Equal(t, []string{"a"}, b.ran["change"])
	require.Equal(t, []string{"asked"}, b.ran["run"])
	require.Equal(t, []string{"OK", "OK"}, b.codes(res), "the conversation is the last one's alone")
	entries, err := transcript.Verify(context.Background(), b.blob, res.Transcript)
	require.NoError(t, err)
	before, err := transcript.Verify(context.Background(), b.blob, entries[0].Node.Earlier)
	require.NoError(t, err, "the lives before are linked")
	require.NotEmpty(t, before)
	require.Equal(t, 4, res.Turns, "what was spent is kept")
	attempts := []int{}
	for _, id := range p.acquired {
		attempts = append(attempts, id.Attempt)
	}
	require.Equal(t, []int{0, 1, 2}, attempts)
	require.Equal(t, []string{"/trees/0", "/trees/1", "/trees/2"}, p.disposed, "of those that were lost the repository keeps nothing")
	closed := b.list().Closed
	require.Equal(t, []approval.How{approval.Abandoned, approval.Abandoned, approval.Allowed}, []approval.How{closed[0].How, closed[1].How, closed[2].How})
}

func TestAnEnvironmentIsLostAtMostThreeTimes(t *testing.T) {
	s, p := inTree(100, `
turns:
  - calls: [{tool: change, args: {path: a}}]
  - say: done
`)
	b := newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "the agent's environment was lost")
	require.Equal(t, 3, res.Restarts)
	require.Len(t, p.acquired, 4)
	require.Empty(t, b.ran)
}

// Cancelling an agent still collects and gives back its tree.
func TestACancelledAgentGivesItsTreeBack(t *testing.T) {
	s, p := inTree(0, oneAsk)
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Cancelled, res.Status)
	require.Len(t, res.Artifacts, 1)
	require.Equal(t, []string{"/trees/0"}, p.disposed)
	require.Equal(t, approval.Cancelled, b.list().Closed[0].How)
}

// After a restart a user's cancellation is a cancellation, whatever ended the life before.
func TestCancelledAfterARestart(t *testing.T) {
	s, _ := inTree(1, `
turns:
  - calls: [{tool: run, args: {path: asked}}, {tool: change, args: {path: a}}]
  - say: done
`)
	s.profile.Limits.WallClock = 1000 * time.Hour
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Cancelled, res.Status)
	closed := b.list().Closed
	require.Len(t, closed, 2)
	require.Equal(t, approval.Abandoned, closed[0].How)
	require.Equal(t, approval.Cancelled, closed[1].How)
}

func TestATreeThatCannotBeHad(t *testing.T) {
	s, p := inTree(0, oneAsk)
	p.resolveErr = fault.Configf("isolation.ref", "no such revision")
	b := newBench(t, s)
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, protocol.AgentInput{Prompt: "go", AgentType: "p"})
	var app *temporal.ApplicationError
	require.ErrorAs(t, b.env.GetWorkflowError(), &app)
	require.Equal(t, protocol.ErrorConfig, app.Type())
	require.True(t, app.NonRetryable())

	s, p = inTree(0, oneAsk)
	p.acquireErr = &worktree.GoneError{ID: "x", Why: "removed by hand"}
	b = newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "removed by hand")
	require.Equal(t, 3, res.Restarts, "a tree that is gone is made anew in the next life")
}

// Work that cannot be collected is an error that says where it still is; nothing is disposed.
func TestATreeThatCannotBeCollected(t *testing.T) {
	s, p := inTree(0, "turns: [{say: done}]")
	p.collectErr = temporal.NewNonRetryableApplicationError("disk full", "Disk", nil)
	b := newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "disk full")
	require.Contains(t, res.Error, "/trees/0")
	require.Empty(t, p.disposed)
	require.Equal(t, "done", res.Output)
}

// A clean-up that fails does not hide why the run failed.
func TestTheRunsOwnErrorComesFirst(t *testing.T) {
	s, p := inTree(0, "turns: [{say: no, stop: refusal}]")
	p.collectErr = temporal.NewNonRetryableApplicationError("disk full", "Disk", nil)
	b := newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, "the model refused; collect worktree: disk full; the tree is kept at /trees/0", res.Error)
}

// A configuration that turns bad while an agent runs is a status, so that its work is reported.
func TestAConfigurationThatTurnsBad(t *testing.T) {
	s, p := inTree(0, "turns: [{say: done}]")
	p.collectErr = fault.Configf("worktrees", "the repository is not configured any more")
	b := newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "not configured any more")
	require.Contains(t, res.Error, "/trees/0")
	require.NotNil(t, res.Transcript)
}
