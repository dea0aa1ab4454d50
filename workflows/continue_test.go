package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// testRun is the run id of every run in the SDK's environment.
const testRun = "default-test-run-id"

// left is what a run that continued as new leaves to the next.
type left struct {
	in    protocol.AgentInput
	state protocol.AgentState
}

// begin runs an agent until it continues as new.
func (b *bench) begin(in protocol.AgentInput) left {
	b.t.Helper()
	in.AgentType, in.Prompt = "p", "go"
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, in)
	return b.left()
}

func (b *bench) left() left {
	b.t.Helper()
	require.True(b.t, b.env.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(b.t, b.env.GetWorkflowError(), &next)
	require.Equal(b.t, protocol.WorkflowAgent, next.WorkflowType.Name)
	var l left
	require.NoError(b.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &l.in, &l.state))
	return l
}

// goOn makes the environment in which the next run will be.
func (b *bench) goOn() {
	b.renew()
	b.env.SetContinuedExecutionRunID(testRun)
}

// finish runs the next run to its end.
func (b *bench) finish(l left) protocol.AgentResult {
	b.t.Helper()
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, l.in, l.state)
	require.True(b.t, b.env.IsWorkflowCompleted())
	require.NoError(b.t, b.env.GetWorkflowError())
	var res protocol.AgentResult
	require.NoError(b.t, b.env.GetWorkflowResult(&res))
	return res
}

func TestContinuesBetweenTurns(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: nowhere, args: {}}]
    usage: {inputTokens: 10, outputTokens: 2}
  - calls: [{tool: report_progress, args: {facts: "x"}}, {tool: change, args: {path: b}}]
    usage: {inputTokens: 20, outputTokens: 3}
    expect: {lastResult: {code: UNKNOWN_TOOL}}
  - say: done
    usage: {inputTokens: 30, outputTokens: 4}
    expect: {lastResult: {code: OK, contains: b}}
`, tools: []*tool.Def{progressTool()}})
	b.env.SetContinueAsNewSuggested(true)
	l := b.begin(protocol.AgentInput{Label: "l"})
	require.Equal(t, 1, l.state.Turns)
	require.Len(t, l.state.Results, 2)
	require.Empty(t, l.state.Steps)
	require.Equal(t, "l", l.in.Label)

	b.goOn()
	b.env.SetContinueAsNewSuggested(true)
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, l.in, l.state)
	l = b.left()
	require.Equal(t, 2, l.state.Turns)
	require.Equal(t, 2, l.state.Runs)
	require.JSONEq(t, `{"facts":"x"}`, string(l.state.Progress))

	b.goOn()
	res := b.finish(l)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, "done", res.Output)
	require.Equal(t, []string{"OK", "UNKNOWN_TOOL", "OK", "OK"}, b.codes(res))
	require.Equal(t, 3, res.Turns)
	require.Equal(t, 4, res.Calls)
	require.EqualValues(t, 60, res.Usage.InputTokens)
	require.Equal(t, map[string][]string{"look": {"a"}, "change": {"b"}}, b.ran)
}

func progressTool() *tool.Def {
	type in struct {
		Facts string `json:"facts"`
	}
	return tool.MustNew("report_progress", "Reports.", func(context.Context, *tool.Context, in) (string, error) { return "noted", nil }, tool.Read)
}

// A turn in which everything waits is left in its midst, whatever has become of its other calls.
func TestContinuesWhileEveryCallWaits(t *testing.T) {
	s := asking(`
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: run, args: {path: b}}, {tool: nowhere, args: {}}, {tool: run, args: {path: b}}]
  - say: done
`)
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, "nonsense") }, time.Hour)
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	l := b.begin(protocol.AgentInput{})
	require.Equal(t, map[string][]string{"look": {"a"}}, b.ran)
	require.Len(t, l.state.Steps, 4)
	require.Len(t, l.state.Ledger.Open, 2)
	require.Equal(t, protocol.StatusWaiting, l.state.Board.Status)
	first, second := l.state.Ledger.Open[0], l.state.Ledger.Open[1]
	require.Equal(t, first.Key+".2", second.Key)
	require.Len(t, l.state.Ledger.Ignored, 1, "what the signal did not change was noted before")

	b.goOn()
	// Before the first task of the next run.
	b.env.RegisterDelayedCallback(func() {
		b.env.SignalWorkflow(protocol.SignalApproval, protocol.Resolution{Key: second.Key, Decision: approval.Allow})
	}, 0)
	b.env.RegisterDelayedCallback(func() {
		p := b.list()
		require.Len(t, p.Pending, 1)
		require.Equal(t, first.Key, p.Pending[0].Key)
		require.True(t, first.AskedAt.Equal(p.Pending[0].AskedAt), "age stays")
		require.Equal(t, testRun, p.Pending[0].StandsIn())
		require.Len(t, p.Ignored, 1)
		b.env.SignalWorkflow(protocol.SignalApproval, protocol.Resolution{Key: first.Key, Decision: approval.Deny, Reason: "no"})
	}, time.Hour)
	res := b.finish(l)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK", "DENIED/person", "UNKNOWN_TOOL", "OK"}, b.codes(res))
	require.Equal(t, map[string][]string{"look": {"a"}, "run": {"b"}}, b.ran)
	require.Equal(t, 2, res.Asked)
	require.Equal(t, 4, res.Calls)
}

// What was set when a question was asked goes on from there: deadline, reminders, votes.
func TestAQuestionKeepsItsAge(t *testing.T) {
	s := asking(oneAsk)
	s.profile.Permissions.Approval = &permission.ApprovalPolicy{Deadline: 10 * time.Hour, Remind: 4 * time.Hour}
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, 5*time.Hour)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, "nonsense") }, 6*time.Hour)
	l := b.begin(protocol.AgentInput{})
	q := l.state.Ledger.Open[0]
	require.Equal(t, 1, q.Reminded)
	require.True(t, l.state.Steps[0].Reminded.Equal(q.AskedAt.Add(4*time.Hour)))

	b.goOn()
	began := q.AskedAt.Add(6 * time.Hour)
	b.env.SetStartTime(began)
	b.env.RegisterDelayedCallback(func() { require.Equal(t, 1, b.list().Pending[0].Reminded) }, 2*time.Hour-time.Minute)
	b.env.RegisterDelayedCallback(func() { require.Equal(t, 2, b.list().Pending[0].Reminded) }, 2*time.Hour+time.Minute)
	res := b.finish(l)
	require.Equal(t, []string{"DENIED/expired"}, b.codes(res))
	require.WithinDuration(t, q.AskedAt.Add(10*time.Hour), b.env.Now(), time.Minute)
}

// The clock of an agent is that of its first run, and what its own tools said before is not forgotten.
func TestAnEscalationAndTheClockAreKept(t *testing.T) {
	type report struct {
		Summary string `json:"summary"`
	}
	escalate := tool.MustNew("escalate", "Ends.", func(context.Context, *tool.Context, report) (string, error) { return "noted", nil }, tool.Read)
	for name, tc := range map[string]struct {
		limits protocol.Limits
		answer bool
		status protocol.Status
	}{
		"escalated":  {protocol.Limits{}, true, protocol.Escalated},
		"wall clock": {protocol.Limits{WallClock: 10 * time.Hour}, false, protocol.Escalated},
	} {
		t.Run(name, func(t *testing.T) {
			s := asking("turns:\n  - calls: [{tool: escalate, args: {summary: big}}, {tool: run, args: {path: a}}]\n  - say: done\n")
			s.tools, s.profile.Limits = []*tool.Def{escalate}, tc.limits
			b := newBench(t, s)
			b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, 6*time.Hour)
			l := b.begin(protocol.AgentInput{})
			require.Len(t, l.state.Steps, 2)
			asked := l.state.Ledger.Open[0].AskedAt

			b.goOn()
			b.env.SetStartTime(asked.Add(6 * time.Hour))
			if tc.answer {
				b.answer(time.Hour, 0, approval.Deny)
			}
			res := b.finish(l)
			require.Equal(t, tc.status, res.Status, res.Error)
			require.JSONEq(t, `{"summary":"big"}`, string(res.Escalation))
			if !tc.answer {
				require.WithinDuration(t, asked.Add(10*time.Hour), b.env.Now(), time.Minute)
			}
		})
	}
}

// A starter cannot begin an agent in the midst of one: only a run that the server has continued has a state.
func TestAStateOfAStarterIsIgnored(t *testing.T) {
	b := newBench(t, setup{script: oneAsk})
	forged := protocol.AgentState{AgentRun: "x", Turns: 7, Output: "forged", Frozen: protocol.ResolveResponse{Models: []string{"scripted:s"}}}
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: "go"}, forged)
	var res protocol.AgentResult
	require.NoError(t, b.env.GetWorkflowResult(&res))
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 2, res.Turns)
	require.Equal(t, "done", res.Output)
}

// A run that has done nothing does not continue, however long the server finds it.
func TestARunThatHasDoneNothingGoesOn(t *testing.T) {
	b := newBench(t, asking(oneAsk))
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, time.Hour)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, "nonsense") }, 2*time.Hour)
	l := b.begin(protocol.AgentInput{})
	b.goOn()
	b.env.SetContinueAsNewSuggested(true)
	b.env.RegisterDelayedCallback(func() {
		require.Len(t, b.list().Pending, 1, "it is still the same run")
		b.env.SignalWorkflow(protocol.SignalApproval, "allow")
	}, time.Hour)
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, l.in, l.state)
	l = b.left()
	require.Len(t, l.state.Results, 1, "after the turn it does")
	require.Equal(t, []string{"a"}, b.ran["run"])
}

// leave makes a state one that a gate has left.
func (l *left) leave(t *testing.T) {
	t.Helper()
	digest, err := l.state.Digest(l.in)
	require.NoError(t, err)
	g := protocol.Keyring{}.Sign(protocol.Grant{CallID: protocol.StateCall, RunID: testRun, InputDigest: digest}, protocol.Place{})
	l.state.Grant = &g
}

// A state that was changed on its way, or that another run has left, ends the run.
func TestAStateThatNobodyHasLeft(t *testing.T) {
	for name, change := range map[string]func(*left){
		"no grant":      func(l *left) { l.state.Grant = nil },
		"another state": func(l *left) { l.state.Calls = 0 },
		"another input": func(l *left) { l.in.Label = "other" },
		"another run":   func(l *left) { l.state.Grant.RunID = "other" },
		"another call":  func(l *left) { l.state.Grant.CallID = "t1.1" },
	} {
		b := newBench(t, asking(oneAsk))
		b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, time.Hour)
		b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, "nonsense") }, 2*time.Hour)
		l := b.begin(protocol.AgentInput{})
		change(&l)
		b.goOn()
		b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, "allow") }, time.Hour)
		b.env.ExecuteWorkflow(protocol.WorkflowAgent, l.in, l.state)
		var refused *temporal.ApplicationError
		require.ErrorAs(t, b.env.GetWorkflowError(), &refused, name)
		require.Equal(t, protocol.ErrorDenied, refused.Type(), name)
		require.True(t, refused.NonRetryable())
		require.Empty(t, b.ran, name)
	}
}

// A state that is damaged never hangs a run or lets a call through.
func TestDamagedStates(t *testing.T) {
	fresh := func() (*bench, left) {
		b := newBench(t, asking(oneAsk))
		b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, time.Hour)
		b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, "nonsense") }, 2*time.Hour)
		return b, b.begin(protocol.AgentInput{})
	}
	for name, damage := range map[string]func(*protocol.AgentState){
		"no questions":    func(s *protocol.AgentState) { s.Ledger.Open = nil },
		"no decision":     func(s *protocol.AgentState) { s.Steps[0].Decision = nil },
		"no key":          func(s *protocol.AgentState) { s.Steps[0].Question = "" },
		"other arguments": func(s *protocol.AgentState) { s.Steps[0].Asked.Input = json.RawMessage(`{"path":"z"}`) },
		"other run":       func(s *protocol.AgentState) { s.Ledger.Open[0].Seal.RunID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			b, l := fresh()
			damage(&l.state)
			l.leave(t)
			b.goOn()
			b.env.RegisterDelayedCallback(func() {
				if p := b.list().Pending; len(p) > 0 {
					b.env.SignalWorkflow(protocol.SignalApproval, protocol.Resolution{Key: p[0].Key, Decision: approval.Allow})
				}
			}, time.Hour)
			b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 5*time.Hour)
			res := b.finish(l)
			require.Empty(t, b.ran, "%s: %v", name, b.codes(res))
		})
	}
}

// idle are tools that only have a name.
func idle(t *testing.T, n int) (out []*tool.Def) {
	t.Helper()
	noop := func(context.Context, *tool.Context, json.RawMessage) (any, error) { return nil, nil }
	for i := range n {
		d, err := tool.FromSchema(fmt.Sprintf("%s_%d", strings.Repeat("t", 50), i), "Does nothing.", json.RawMessage(`{"type":"object"}`), noop)
		require.NoError(t, err)
		out = append(out, d)
	}
	return out
}

// A turn that is too large for the next run's input waits in its own history, and the run continues after it.
func TestTooMuchToHandOver(t *testing.T) {
	s := asking("turns:\n  - calls: [" + strings.Repeat("{tool: run, args: {path: a}},", 100) + "]\n  - say: done\n")
	s.tools = idle(t, 9800)
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, time.Hour)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, "deny") }, 2*time.Hour)
	l := b.begin(protocol.AgentInput{})
	require.Empty(t, len(l.state.Steps), "it did not continue in the midst of the turn")
	require.Len(t, l.state.Results, 100)
}
