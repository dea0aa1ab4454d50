package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

func local(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
}

func payLocal(ctx workflow.Context) error {
	return workflow.ExecuteLocalActivity(local(ctx), "pay", &payment{"bob", 5}).Get(ctx, nil)
}

// A local activity passes the same gate.
func TestGuardLocalActivities(t *testing.T) {
	t.Run("allowed", func(t *testing.T) {
		b := newTeams(t, permission.Layer{})
		require.NoError(t, b.run(payLocal))
		require.Equal(t, []payment{{"bob", 5}}, b.paid)
	})
	t.Run("denied", func(t *testing.T) {
		b := newTeams(t, permission.Layer{Deny: []permission.Rule{{Tool: permission.One("pay"), Reason: "not today"}}})
		require.Equal(t, tool.ByRule, requireDenied(t, b.run(payLocal)).Failure.Reason)
		require.Empty(t, b.paid)
	})
	t.Run("asked and allowed", func(t *testing.T) {
		b := newTeams(t, askPay)
		b.answer(time.Hour, approval.Resolution{Decision: approval.Allow})
		require.NoError(t, b.run(payLocal))
		require.Equal(t, []payment{{"bob", 5}}, b.paid)
	})
	t.Run("asked and denied", func(t *testing.T) {
		b := newTeams(t, askPay)
		b.answer(time.Hour, approval.Resolution{Decision: approval.Deny})
		require.Equal(t, tool.ByPerson, requireDenied(t, b.run(payLocal)).Failure.Reason)
		require.Empty(t, b.paid)
	})
	t.Run("changed while a person reads", func(t *testing.T) {
		b := newTeams(t, askPay)
		b.answer(time.Hour, approval.Resolution{Decision: approval.Allow})
		err := b.run(func(ctx workflow.Context) error {
			p := &payment{"bob", 5}
			f := workflow.ExecuteLocalActivity(local(ctx), "pay", p)
			p.Amount = 5000
			return f.Get(ctx, nil)
		})
		require.Contains(t, requireDenied(t, err).Failure.Message, "was changed after the call was judged")
		require.Empty(t, b.paid)
	})
}

// What is not JSON is judged by its hash, and arrives as it was sent.
func TestGuardJudgesBytesByTheirHash(t *testing.T) {
	b := newTeams(t, permission.Layer{Ask: []permission.Rule{{Tool: permission.One("lookup")}}})
	var got []byte
	b.env.RegisterActivityWithOptions(func(_ context.Context, data []byte, n int) error { got = data; return nil },
		activity.RegisterOptions{Name: "lookup", DisableAlreadyRegisteredCheck: true})
	b.env.RegisterDelayedCallback(func() {
		require.JSONEq(t, `{"args":[{"$binary":{"encoding":"binary/plain","bytes":2,"sha256":"437cb43a30226e639b33d84533cfc3ddd970a40055b9c8c0bf7e3795cf184eb6"}},7]}`,
			string(b.list().Pending[0].Input))
	}, time.Minute)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow})
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, "lookup", []byte{0xff, 0x01}, 7).Get(ctx, nil)
	}))
	require.Equal(t, []byte{0xff, 0x01}, got)
}

// A hook that waits for another system is asked again, by a normal activity, when an answer is admitted.
func TestAnAnswerIsAdmittedSlowlyToo(t *testing.T) {
	asked := 0
	slow := permission.Hook{Name: "slow", Slow: true, Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		asked++
		return permission.Answer{}, nil
	}}
	b := newTeams(t, permission.Layer{Hooks: []permission.Hook{slow}, Ask: askPay.Ask})
	var ran []string
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		ran = append(ran, info.ActivityType.Name)
	})
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow})
	require.NoError(t, b.run(pay))
	require.Equal(t, []string{protocol.ActivityDecideSlow, protocol.ActivityAdmitSlow, "pay"}, ran)
	require.Equal(t, 2, asked)
}
