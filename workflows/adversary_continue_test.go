package workflows_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// parked runs an agent that waits until it continues as new, and makes the environment of the next run.
func parked(t *testing.T, s setup) (*bench, left) {
	t.Helper()
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, 30*time.Minute)
	b.signal(40*time.Minute, "nonsense")
	l := b.begin(protocol.AgentInput{})
	b.goOn()
	b.env.SetStartTime(l.state.Started.Add(time.Hour))
	return b, l
}

// Reminders alone fill a history in the end, and so do signals that are nobody's: a run that only waits continues as new
// for them too, in its second life as in its first.
func TestAParkedRunContinuesForWhateverFillsItsHistory(t *testing.T) {
	for name, fill := range map[string]func(*bench){
		"reminders": func(*bench) {},
		"signals": func(b *bench) {
			b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow("nobody's", 1) }, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := asking(oneAsk)
			s.profile.Permissions.Approval = &permission.ApprovalPolicy{Deadline: 1000 * time.Hour}
			if name == "reminders" {
				s.profile.Permissions.Approval.Remind = 2 * time.Hour
			}
			b, l := parked(t, s)
			b.env.SetContinueAsNewSuggested(true)
			fill(b)
			b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 500*time.Hour)
			b.env.ExecuteWorkflow(protocol.WorkflowAgent, l.in, l.state)
			require.Len(t, b.left().state.Steps, 1)
		})
	}
}

// A workflow of a team's may continue as an agent: the server then says that the run continues another one, and there is no
// state. Its answers are heard.
func TestAnAgentThatContinuesAnotherWorkflowHears(t *testing.T) {
	b := newBench(t, asking(oneAsk))
	b.env.SetContinuedExecutionRunID(testRun)
	b.signal(0, "early")
	b.signal(time.Hour, "allow")
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 5*time.Hour)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK"}, b.codes(res))
	require.Len(t, b.list().Ignored, 1)
}

// swelling is a codec that makes three bytes of two.
type swelling struct{}

func (swelling) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		out[i] = &commonpb.Payload{Metadata: p.GetMetadata(), Data: append(bytes.Clone(p.GetData()), bytes.Repeat([]byte(" "), len(p.GetData())/2)...)}
	}
	return out, nil
}

func (swelling) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) { return in, nil }

// What the server is left is measured as it is sent, and a run whose state is too large then goes on in its own history.
func TestAStateIsMeasuredAsItIsSent(t *testing.T) {
	for name, codec := range map[string]converter.DataConverter{
		"plain": nil, "swollen": converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), swelling{}),
	} {
		t.Run(name, func(t *testing.T) {
			s := asking(oneAsk)
			s.tools, s.codec = idle(t, 9000), codec
			b := newBench(t, s)
			b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, time.Hour)
			b.signal(2*time.Hour, "nonsense")
			b.signal(3*time.Hour, "allow")
			b.env.ExecuteWorkflow(protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: "go"})
			if codec == nil {
				require.Len(t, b.left().state.Steps, 1)
				return
			}
			require.NoError(t, b.env.GetWorkflowError())
			require.Equal(t, []string{"a"}, b.ran["run"])
		})
	}
}

// An approver that is asked anew after a void answer is not taken for the one before, which then ends: the run does not
// continue while it is asked, and its answer counts.
func TestAnApproverIsNotMistakenForTheOneBefore(t *testing.T) {
	s := asking(oneAsk)
	s.profile.Permissions.Approval = &permission.ApprovalPolicy{Remind: 4 * time.Hour}
	s.plugins = []pipeline.Plugin{approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
		return pipeline.Answer{}, pipeline.ErrUnavailable
	})}
	b := newBench(t, s)
	quick := protocol.ApproverResponse{Unavailable: true}
	b.env.OnActivity(protocol.ActivityAskApprover, mock.Anything, mock.Anything).Return(quick, nil)
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, 30*time.Minute)
	l := b.begin(protocol.AgentInput{})
	l.state.Ledger.Open[0].Seal.RunID = "before a reset"
	l.leave(t)

	b.goOn()
	b.env.SetStartTime(l.state.Started.Add(time.Hour))
	b.env.OnActivity(protocol.ActivityAskApprover, mock.Anything, mock.MatchedBy(func(r protocol.ApproverRequest) bool {
		return r.Occasion == protocol.OccasionReminded
	})).After(5*time.Hour).Return(quick, nil).Maybe()
	b.env.OnActivity(protocol.ActivityAskApprover, mock.Anything, mock.MatchedBy(func(r protocol.ApproverRequest) bool {
		return r.Occasion == protocol.OccasionAsked
	})).After(2*time.Hour).Return(protocol.ApproverResponse{Decision: approval.Allow}, nil)
	b.env.RegisterDelayedCallback(func() {
		b.env.SetContinueAsNewSuggested(true)
		b.env.SignalWorkflow(protocol.SignalApproval, protocol.Resolution{Key: l.state.Ledger.Open[0].Key, Decision: approval.Allow})
	}, 4*time.Hour)
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, l.in, l.state)
	l = b.left()
	require.Empty(t, l.state.Steps, "an approver is asked")
	require.Equal(t, []string{"a"}, b.ran["run"])
}

// When the last question of a turn is refused, the run goes on, and operators see that.
func TestARefusedRunIsNotShownAsWaiting(t *testing.T) {
	for name, say := range map[string]approval.Choice{"denied": approval.Deny, "revoked": approval.Revoke, "allowed": approval.Allow} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, asking("turns:\n  - calls: [{tool: run, args: {path: a}}]\n  - calls: [{tool: look, args: {path: b}}]\n  - say: done\n"))
			b.answer(time.Hour, 0, say)
			b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
				b.env.SetContinueAsNewSuggested(info.ActivityType.Name == protocol.ToolPrefix+"look")
			})
			l := b.begin(protocol.AgentInput{})
			require.Equal(t, 2, l.state.Turns)
			require.Equal(t, protocol.StatusRunning, l.state.Board.Status)
			require.Empty(t, l.state.Board.Shown)
		})
	}
}

// An environment that is lost after a continuation, in the midst of the turn that was left, starts the agent again: what else
// waits is dropped, and is asked anew.
func TestAnEnvironmentIsLostAfterAContinuation(t *testing.T) {
	s, p := inTree(1, "turns:\n  - calls: [{tool: run, args: {path: a}}, {tool: run, args: {path: b}}]\n  - say: done\n")
	b, l := parked(t, s)
	require.NotNil(t, l.state.Lease)
	b.answer(time.Hour, 0, approval.Allow)
	b.answer(2*time.Hour, 0, approval.Allow)
	b.answer(3*time.Hour, 0, approval.Allow)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 50*time.Hour)
	res := b.finish(l)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 1, res.Restarts)
	require.Equal(t, map[string][]string{"run": {"a", "b"}}, b.ran)
	require.Equal(t, []string{"OK", "OK"}, b.codes(res))
	require.Len(t, p.acquired, 2)
	require.Equal(t, []string{"/trees/0", "/trees/1"}, p.disposed, "of the lost one the repository keeps nothing")
	require.Equal(t, 4, res.Asked)
}

// The wall clock, a cancellation, an answer and a deadline that are all there when a continued run begins: nothing runs.
func TestWhatIsThereWhenAContinuedRunBegins(t *testing.T) {
	for name, come := range map[string]func(*bench, left){
		"cancelled": func(b *bench, _ left) { b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 0) },
		"too late":  func(b *bench, l left) { b.env.SetStartTime(l.state.Started.Add(100 * time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := asking(oneAsk)
			s.profile.Limits.WallClock = 50 * time.Hour
			b, l := parked(t, s)
			come(b, l)
			b.env.RegisterDelayedCallback(func() {
				b.env.SignalWorkflow(protocol.SignalApproval, protocol.Resolution{Key: l.state.Ledger.Open[0].Key, Decision: approval.Allow})
			}, 0)
			res := b.finish(l)
			require.NotEqual(t, protocol.OK, res.Status)
			require.Empty(t, b.ran)
		})
	}
}

// Patience of days does not fill the history with tries.
func TestLongPatienceTriesSeldom(t *testing.T) {
	s := setup{patience: 30 * 24 * time.Hour, script: "turns:\n  - calls: [{tool: change, args: {path: a}}]\n  - say: done\n"}
	b := newBench(t, s)
	tries := 0
	b.env.OnActivity(protocol.ToolPrefix+"change", mock.Anything, mock.Anything).Return(func(context.Context, tool.Call) (tool.Result, error) {
		tries++
		return tool.Fail(tool.ContractDrift, "another contract"), nil
	})
	began := b.env.Now()
	require.Equal(t, []string{"CONTRACT_DRIFT"}, b.codes(b.run(protocol.AgentInput{})))
	require.InDelta(t, 200, tries, 10)
	require.GreaterOrEqual(t, b.env.Now().Sub(began), s.patience)
}
