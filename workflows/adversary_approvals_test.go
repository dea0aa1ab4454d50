package workflows_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// A revoke holds from the moment it arrives, also while the allow before it is being admitted.
func TestRevokeWhileTheAllowIsAdmitted(t *testing.T) {
	b := newBench(t, asking(oneAsk))
	b.said(time.Hour, allowBy("alice"), revokeIt)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/revoked"}, b.codes(res))
	require.Empty(t, b.ran)
	l := b.list()
	require.Equal(t, approval.Allowed, l.Closed[0].How)
	require.Equal(t, "bob", l.Closed[0].Revoked.By)
	require.Equal(t, tool.Denied, l.Closed[0].Revoked.Outcome)
	require.Empty(t, l.Ignored)
	require.Empty(t, l.Granted)
}

// In a workflow of a team's own as well, and by an update: its sender is not told to wait.
func TestRevokeDuringASlowAdmission(t *testing.T) {
	slow := permission.Hook{Name: "slow", Slow: true, Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.Answer{}, nil
	}}
	b := newTeams(t, permission.Layer{Hooks: []permission.Hook{slow}, Ask: askPay.Ask})
	b.env.OnActivity(protocol.ActivityAdmitSlow, mock.Anything, mock.Anything).After(5 * time.Minute).Return(activities.AssentAdmitSlow)
	var out outcome
	b.env.RegisterDelayedCallback(func() {
		key := b.list().Pending[0].Key
		b.env.SignalWorkflow(protocol.GuardSignalApproval, approval.Resolution{Key: key, Decision: approval.Allow})
		b.env.RegisterDelayedCallback(func() {
			b.env.UpdateWorkflow(protocol.GuardUpdateResolve, "", &out, approval.Resolution{Key: key, Decision: approval.Revoke, By: "bob"})
		}, time.Minute)
	}, time.Hour)
	r := requireDenied(t, b.run(pay))
	require.NoError(t, out.rejected)
	require.Equal(t, tool.Denied, b.list().Closed[0].Revoked.Outcome)
	require.Equal(t, tool.ByRevoke, r.Failure.Reason)
	require.Empty(t, b.paid)
}

// An encrypted revoke reaches a call that runs while nothing else is asked.
func TestAnEncryptedRevoke(t *testing.T) {
	b := newTeams(t, askPay)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow})
	b.env.OnActivity("pay", mock.Anything, mock.Anything).After(2*time.Hour).Return("", nil)
	b.env.RegisterDelayedCallback(func() {
		b.env.SignalWorkflow(protocol.GuardSignalApproval, converter.NewRawValue(&commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/encrypted")},
			Data:     []byte(strings.ReplaceAll(revokeIt, "{key}", b.list().Granted[0].Key))}))
	}, 2*time.Hour)
	var app *temporal.ApplicationError
	require.ErrorAs(t, b.run(pay), &app)
	require.Contains(t, app.Message(), "revoked")
	require.Equal(t, "bob", b.list().Closed[0].Revoked.By)
}

// A principal is one, however long its name is; who asked for a run does not become another one by a blank.
func TestNamesThatAreNotDistinct(t *testing.T) {
	long := strings.Repeat("x", 300)
	b := newBench(t, needing(permission.ApprovalPolicy{Approvers: &permission.Approvers{Min: 2}, Deadline: 3 * time.Hour}, oneAsk))
	b.said(time.Hour, allowBy(long), allowBy(long))
	require.Equal(t, []string{"DENIED/expired"}, b.codes(b.run(protocol.AgentInput{})))
	require.Empty(t, b.ran)

	b = newBench(t, needing(permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}}, Deadline: 3 * time.Hour}, oneAsk))
	b.said(time.Hour, allowBy("alice"))
	require.Equal(t, []string{"DENIED/expired"}, b.codes(b.run(protocol.AgentInput{RequestedBy: "alice "})))
	require.Empty(t, b.ran)
}

// What an activity of an approver returns can be written by whoever may complete activities. It proves no name.
func TestAnApproverBorrowsNoSignedName(t *testing.T) {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))
	s := needing(permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}}, Deadline: time.Hour}, oneAsk)
	s.approvers.Keys = map[string]ed25519.PublicKey{"alice": key.Public().(ed25519.PublicKey)}
	s.plugins = []pipeline.Plugin{approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
		return pipeline.Answer{}, pipeline.ErrUnavailable
	})}
	b := newBench(t, s)
	b.env.OnActivity(protocol.ActivityAskApprover, mock.Anything, mock.Anything).Return(
		protocol.ApproverResponse{Decision: approval.Allow, By: "alice"}, nil)
	require.Equal(t, []string{"DENIED/expired"}, b.codes(b.run(protocol.AgentInput{})))
	require.Empty(t, b.ran)
}

// The deadline of a question runs from the moment it is asked, also while a later call of the turn is still judged.
func TestTheDeadlineRunsWhileOthersAreJudged(t *testing.T) {
	s := asking(`
turns:
  - calls: [{tool: run, args: {path: a}}, {tool: look, args: {path: b}}]
  - say: done
`)
	s.profile.Permissions.Approval = &permission.ApprovalPolicy{Deadline: time.Minute}
	s.profile.Permissions.Hooks = []permission.Hook{{Name: "h", Slow: true, Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.Answer{}, nil
	}}}
	b := newBench(t, s)
	b.env.OnActivity(protocol.ActivityDecideSlow, mock.Anything, mock.MatchedBy(func(r protocol.DecideRequest) bool { return r.Tool.Name == "look" })).
		After(5 * time.Minute).Return(activities.AssentDecideSlow)
	b.env.OnActivity(protocol.ActivityDecideSlow, mock.Anything, mock.Anything).Return(activities.AssentDecideSlow)
	b.said(3*time.Minute, allowBy("alice"))
	require.Equal(t, []string{"DENIED/expired", "OK"}, b.codes(b.run(protocol.AgentInput{})))
}

// A line that somebody added is taken back with the allow that added it, and does not outlive the allow's own last moment.
func TestAlwaysEndsWithItsAllow(t *testing.T) {
	once := func(s setup) *bench {
		s.tools = []*tool.Def{tool.MustNew("sh", "Runs a command.", func(ctx context.Context, _ *tool.Context, in shellIn) (shellIn, error) {
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Minute):
			}
			return in, ctx.Err()
		}, tool.Execute)}
		return newBench(t, s)
	}
	const again = `
turns:
  - calls: [{tool: sh, args: {command: ls -l}}]
  - calls: [{tool: sh, args: {command: ls -l}}]
  - say: done
`
	b := once(asking(again))
	b.said(time.Hour, `{"key":"{key}","decision":"allow","by":"alice","always":true}`)
	started := 0
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name != "tool.sh" {
			return
		}
		if started++; started == 1 {
			b.env.RegisterDelayedCallback(func() {
				b.env.SignalWorkflow(protocol.SignalApproval, json.RawMessage(strings.ReplaceAll(revokeIt, "{key}", b.list().Granted[0].Key)))
			}, 0)
		}
	})
	b.said(3*time.Hour, `"deny"`)
	require.Equal(t, []string{"ABORTED/revoked", "DENIED/person"}, b.codes(b.run(protocol.AgentInput{})))

	s := asking(again)
	s.tools = []*tool.Def{shellTool()}
	b = newBench(t, s)
	b.said(time.Hour, `{"key":"{key}","decision":"allow","by":"alice","always":true,"expiresAt":"`+time.Now().Add(24*time.Hour).Format(time.RFC3339)+`"}`)
	b.said(3*time.Hour, `"deny"`)
	require.Equal(t, []string{"OK", "DENIED/person"}, b.codes(b.run(protocol.AgentInput{})))
}

// Nothing that goes to the server with a question weighs more than it takes.
func TestQuestionsFitIntoAPayload(t *testing.T) {
	slow := permission.Hook{Name: "slow", Slow: true, Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.Answer{}, nil
	}}
	b := newTeams(t, permission.Layer{Hooks: []permission.Hook{slow}, Ask: askPay.Ask},
		approver(func(_ context.Context, c pipeline.Call, d permission.Decision) (pipeline.Answer, error) {
			require.Contains(t, string(c.Input), "xxx")
			require.Contains(t, string(d.Input), "xxx")
			return pipeline.Allow(), nil
		}))
	b.env.RegisterActivityWithOptions(activities.AssentAskApprover, activity.RegisterOptions{Name: protocol.ActivityAskApprover})
	sizes := map[string]int{}
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		var raw converter.RawValue
		require.NoError(t, args.Get(&raw))
		sizes[info.ActivityType.Name] = len(raw.Payload().GetData())
	})
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, "pay", payment{strings.Repeat("x", 1<<20-100), 5}).Get(ctx, nil)
	}))
	require.Len(t, b.paid, 1)
	require.Len(t, sizes, 4, "%v", sizes)
	for name, n := range sizes {
		require.Less(t, n, 2<<20-128<<10, name)
	}
}

// A workflow that ends leaves no call behind that its list calls standing.
func TestNothingStandsAfterTheEnd(t *testing.T) {
	b := newTeams(t, askPay)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow})
	b.env.OnActivity("pay", mock.Anything, mock.Anything).After(2*time.Hour).Return("", nil)
	b.env.RegisterDelayedCallback(func() { require.Len(t, b.list().Granted, 1) }, 80*time.Minute)
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5})
		return workflow.Sleep(ctx, 90*time.Minute)
	}))
	require.Empty(t, b.list().Granted)
}

// An answer cannot change a guarded call, so it adds no line for what it wanted.
func TestAnEditOfAGuardedCallDenies(t *testing.T) {
	b := newTeams(t, askPay)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow, Input: json.RawMessage(`{"To":"eve","Amount":5}`)})
	requireDenied(t, b.run(pay))
	require.Empty(t, b.paid)
	require.Equal(t, approval.Denied, b.list().Closed[0].How)
}

// A check that panics refuses the update as any other does, and its sender is told nothing of the worker's insides. The
// question stays open.
func TestACheckOfAnAnswerThatPanics(t *testing.T) {
	s := asking(oneAsk)
	s.checkAnswer = func(approval.Approval, approval.Resolution, time.Time) error { panic("out of order") }
	b := newBench(t, s)
	var out outcome
	b.env.RegisterDelayedCallback(func() {
		b.env.UpdateWorkflow(protocol.UpdateResolve, "", &out, approval.Resolution{Key: b.list().Pending[0].Key, Decision: approval.Allow})
		b.env.RegisterDelayedCallback(func() {
			require.Len(t, b.list().Pending, 1)
			b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: b.list().Pending[0].Key, Decision: approval.Allow, By: "alice"})
		}, time.Minute)
	}, time.Hour)
	require.Equal(t, []string{"OK"}, b.codes(b.run(protocol.AgentInput{})))
	var refused *temporal.ApplicationError
	require.ErrorAs(t, out.rejected, &refused)
	require.Equal(t, protocol.ErrorBadAnswer, refused.Type())
	require.Equal(t, "answer refused: it could not be checked", refused.Message())
}
