package workflows_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// holding is a tool that runs until it is cancelled, or for a day.
func holding() *tool.Def {
	return tool.MustNew("hold", "Holds.", func(ctx context.Context, _ *tool.Context, in pathIn) (pathIn, error) {
		select {
		case <-ctx.Done():
			return in, ctx.Err()
		case <-time.After(3 * time.Minute):
			return in, nil
		}
	}, tool.Execute)
}

const revokeIt = `{"key":"{key}","decision":"revoke","by":"bob","reason":"wrong host"}`

// The second call waits for the first, which a person has not answered. Until then it is allowed and not on its way: a
// revoke means that it never runs.
func TestRevokeBeforeTheCallStarts(t *testing.T) {
	for via, revoke := range map[string]func(b *bench, key string) *outcome{
		"signal": func(b *bench, key string) *outcome {
			b.env.SignalWorkflow(protocol.SignalApproval, json.RawMessage(strings.ReplaceAll(revokeIt, "{key}", key)))
			return nil
		},
		"update": func(b *bench, key string) *outcome {
			var out outcome
			b.env.UpdateWorkflow(protocol.UpdateResolve, "", &out, json.RawMessage(strings.ReplaceAll(revokeIt, "{key}", key)))
			return &out
		},
	} {
		t.Run(via, func(t *testing.T) {
			// No worker serves the first call for a while.
			s := asking(`
turns:
  - calls: [{tool: wait, args: {path: x}}, {tool: run, args: {path: a}}]
  - say: done
`)
			var served atomic.Bool
			s.tools = []*tool.Def{tool.MustNew("wait", "Waits.", func(_ context.Context, _ *tool.Context, in pathIn) (pathIn, error) { return in, nil },
				tool.Write, tool.Idempotent())}
			b := newBench(t, s)
			b.env.OnActivity(protocol.ToolPrefix+"wait", mock.Anything, mock.Anything).Return(func(context.Context, tool.Call) (tool.Result, error) {
				if !served.Load() {
					return tool.Fail(tool.ContractDrift, "not here"), nil
				}
				return tool.Result{Code: tool.OK, Value: json.RawMessage("1")}, nil
			})
			var out *outcome
			b.said(time.Minute, allowBy("alice"))
			b.env.RegisterDelayedCallback(func() {
				l := b.list()
				require.Len(t, l.Granted, 1)
				require.False(t, l.Granted[0].Dispatched)
				require.Contains(t, b.details(), "**Allowed, and not ended.**")
				out = revoke(b, l.Granted[0].Key)
				revoke(b, l.Granted[0].Key)
				served.Store(true)
			}, 2*time.Minute)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, []string{"OK", "DENIED/revoked"}, b.codes(res))
			require.Empty(t, b.ran["run"])
			f := b.results(res)[1].Result.Failure
			require.Equal(t, "bob", f.By)
			require.Equal(t, "the approval was revoked before the call started: wrong host", f.Message)
			c := b.list().Closed[0]
			require.Equal(t, approval.Allowed, c.How)
			require.Equal(t, tool.Denied, c.Revoked.Outcome)
			require.Equal(t, "bob", c.Revoked.By)
			require.False(t, c.Revoked.Dispatched)
			require.Contains(t, b.details(), ", it never ran")
			if via == "signal" {
				require.Len(t, b.list().Ignored, 1, "one revoke is enough")
			} else {
				require.NoError(t, out.rejected)
				require.Empty(t, b.list().Ignored)
			}
		})
	}
}

// A call that runs is asked to stop, and its result says that and why.
func TestRevokeWhileTheCallRuns(t *testing.T) {
	s := asking(`
turns:
  - calls: [{tool: hold, args: {path: a}}]
  - say: done
`)
	s.tools = []*tool.Def{holding()}
	b := newBench(t, s)
	b.said(time.Hour, allowBy("alice"))
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "tool.hold" {
			b.env.RegisterDelayedCallback(func() {
				g := b.list().Granted[0]
				require.True(t, g.Dispatched)
				for _, text := range []string{`{"key":"` + g.Key + `"}`, `{"key":"` + g.Key + `","decision":"deny","by":"eve"}`,
					strings.ReplaceAll(revokeIt, "{key}", g.Key)} {
					b.env.SignalWorkflow(protocol.SignalApproval, json.RawMessage(text))
				}
			}, 0)
		}
	})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"ABORTED/revoked"}, b.codes(res))
	f := b.results(res)[0].Result.Failure
	require.Equal(t, "the approval was revoked while the call ran: wrong host", f.Message)
	require.True(t, f.Started)
	l := b.list()
	require.Empty(t, l.Granted)
	require.True(t, l.Closed[0].Revoked.Dispatched)
	require.Equal(t, tool.Aborted, l.Closed[0].Revoked.Outcome)
	require.Len(t, l.Ignored, 2, "a late deny is no revoke: %v", l.Ignored)
}

// What has ended cannot be taken back, and whoever tries is told so.
func TestRevokeTooLate(t *testing.T) {
	b := newBench(t, asking(`
turns:
  - calls: [{tool: run, args: {path: a}}]
  - calls: [{tool: run, args: {path: b}}]
  - say: done
`))
	b.said(time.Hour, allowBy("alice"))
	var out outcome
	b.env.RegisterDelayedCallback(func() {
		key := b.list().Closed[0].Key
		b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: key, Decision: approval.Revoke})
		b.env.UpdateWorkflow(protocol.UpdateResolve, "", &out, approval.Resolution{Key: key, Decision: approval.Revoke})
	}, 2*time.Hour)
	b.said(3*time.Hour, `"deny"`)
	require.Equal(t, []string{"OK", "DENIED/person"}, b.codes(b.run(protocol.AgentInput{})))
	require.ErrorContains(t, out.rejected, "already allowed")
	require.Len(t, b.list().Ignored, 1)
	require.Nil(t, b.list().Closed[0].Revoked)
}

// A call of a team's own workflow that was allowed hands its value over as always.
func TestStandingCallsOfATeam(t *testing.T) {
	b := newTeams(t, askPay)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow, By: "alice"})
	var value string
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5}).Get(ctx, &value)
	}))
	require.Equal(t, "paid bob", value)
	require.Empty(t, b.list().Granted)
}
