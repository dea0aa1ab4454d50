package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/workflows"
)

type payment struct {
	To     string
	Amount int
}

// teams is a workflow of a team that has activities of its own, some of which are guarded.
type teams struct {
	t    *testing.T
	env  *testsuite.TestWorkflowEnvironment
	mu   sync.Mutex
	paid []payment
}

func newTeams(t *testing.T, layer permission.Layer, plugins ...pipeline.Plugin) *teams {
	t.Helper()
	b := &teams{t: t}
	var suite testsuite.WorkflowTestSuite
	b.env = suite.NewTestWorkflowEnvironment()
	b.env.SetTestTimeout(10 * time.Minute)
	pipe := pipeline.New(pipeline.Config{})
	for _, p := range plugins {
		_, err := pipe.Mount(p)
		require.NoError(t, err)
	}
	guarded := map[string]protocol.ToolFacts{
		"pay":    {Name: "pay", Risk: tool.Destructive, ActivityType: "pay"},
		"lookup": {Name: "lookup", Risk: tool.Read, ActivityType: "lookup"},
	}
	engine, err := activities.New(activities.Config{Pipeline: pipe, Permissions: layer, Words: protocol.AllWords, Blobs: blob.NewMemory("memory"), Guarded: guarded})
	require.NoError(t, err)
	gate, err := workflows.NewInterceptor(workflows.Config{Words: protocol.AllWords, Decide: activities.AssentDecide, DecideTurn: activities.AssentDecideTurn, Admit: activities.AssentAdmit,
		DecideTimeout: 2 * time.Minute, Guarded: guarded, Attributes: activities.AssentAttributes})
	require.NoError(t, err)
	b.env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute,
		Interceptors: []interceptor.WorkerInterceptor{gate, activities.NewInterceptor(engine)}})
	b.env.RegisterActivityWithOptions(func(_ context.Context, p *payment) (string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.paid = append(b.paid, *p)
		return "paid " + p.To, nil
	}, activity.RegisterOptions{Name: "pay"})
	b.env.RegisterActivityWithOptions(func(_ context.Context, name string, n int) (string, error) {
		return name, nil
	}, activity.RegisterOptions{Name: "lookup"})
	b.env.RegisterActivityWithOptions(func(context.Context) (string, error) { return "free", nil }, activity.RegisterOptions{Name: "free"})
	b.env.RegisterActivityWithOptions(activities.AssentDecideSlow, activity.RegisterOptions{Name: protocol.ActivityDecideSlow})
	b.env.RegisterActivityWithOptions(activities.AssentAdmitSlow, activity.RegisterOptions{Name: protocol.ActivityAdmitSlow})
	return b
}

// run executes fn as the team's workflow and returns its error.
func (b *teams) run(fn func(workflow.Context) error) error {
	b.t.Helper()
	b.env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute,
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
		return fn(ctx)
	})
	require.True(b.t, b.env.IsWorkflowCompleted())
	return b.env.GetWorkflowError()
}

func (b *teams) list() approval.List {
	b.t.Helper()
	v, err := b.env.QueryWorkflow(protocol.GuardQueryApprovals)
	require.NoError(b.t, err)
	var l approval.List
	require.NoError(b.t, v.Get(&l))
	return l
}

func (b *teams) answer(after time.Duration, r approval.Resolution) {
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.NotEmpty(b.t, p)
		r.Key = p[0].Key
		b.env.SignalWorkflow(protocol.GuardSignalApproval, r)
	}, after)
}

var askPay = permission.Layer{Ask: []permission.Rule{{Tool: permission.One("pay")}}}

func pay(ctx workflow.Context) error {
	return workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5}).Get(ctx, nil)
}

// requireDenied checks that a call was refused for good, and returns the result in the error's details.
func requireDenied(t *testing.T, err error) tool.Result {
	t.Helper()
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app), "%v", err)
	require.Equal(t, protocol.ErrorDenied, app.Type())
	require.True(t, app.NonRetryable())
	var r tool.Result
	require.NoError(t, app.Details(&r))
	require.Equal(t, tool.Denied, r.Code)
	return r
}

func TestGuardAllows(t *testing.T) {
	b := newTeams(t, permission.Layer{})
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		var name, free string
		if err := workflow.ExecuteActivity(ctx, "lookup", "bob", 7).Get(ctx, &name); err != nil {
			return err
		}
		require.Equal(t, "bob", name)
		if err := workflow.ExecuteActivity(ctx, "free").Get(ctx, &free); err != nil {
			return err
		}
		return pay(ctx)
	}))
	require.Equal(t, []payment{{"bob", 5}}, b.paid)
}

func TestGuardDeniesByRule(t *testing.T) {
	b := newTeams(t, permission.Layer{Deny: []permission.Rule{{Risk: permission.One("destructive"), Reason: "no money moves"}}})
	r := requireDenied(t, b.run(pay))
	require.Equal(t, tool.ByRule, r.Failure.Reason)
	require.Contains(t, r.Failure.Message, "no money moves")
	require.Empty(t, b.paid)
}

func TestGuardAsks(t *testing.T) {
	for choice, reason := range map[approval.Choice]tool.Reason{approval.Allow: "", approval.Deny: tool.ByPerson, approval.Revoke: tool.ByRevoke} {
		b := newTeams(t, askPay)
		b.env.RegisterDelayedCallback(func() {
			q := b.list().Pending[0]
			require.JSONEq(t, `{"To":"bob","Amount":5}`, string(q.Input))
			require.Empty(t, b.paid)
		}, time.Hour)
		b.answer(72*time.Hour, approval.Resolution{Decision: choice, By: "alice"})
		err := b.run(pay)
		if reason == "" {
			require.NoError(t, err)
			require.Equal(t, []payment{{"bob", 5}}, b.paid)
			continue
		}
		require.Equal(t, reason, requireDenied(t, err).Failure.Reason)
		require.Empty(t, b.paid)
	}
}

// Several arguments are judged as {"args": [...]}; asks of parallel calls are open at once.
func TestGuardAsksInParallel(t *testing.T) {
	b := newTeams(t, permission.Layer{Ask: []permission.Rule{{Tool: permission.Many("lookup", "pay")}}})
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.Len(t, p, 2)
		inputs := []string{string(p[0].Input), string(p[1].Input)}
		require.ElementsMatch(t, []string{`{"args":["bob",7]}`, `{"To":"bob","Amount":5}`}, inputs)
		b.env.SignalWorkflow(protocol.GuardSignalApproval, approval.Resolution{Key: p[1].Key, Decision: approval.Allow})
		b.env.SignalWorkflow(protocol.GuardSignalApproval, approval.Resolution{Key: p[0].Key, Decision: approval.Allow})
	}, time.Hour)
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		one := workflow.ExecuteActivity(ctx, "lookup", "bob", 7)
		two := workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5})
		if err := one.Get(ctx, nil); err != nil {
			return err
		}
		return two.Get(ctx, nil)
	}))
	require.Len(t, b.paid, 1)
}

// What was asked about is what runs, although the caller holds a pointer to its arguments.
func TestGuardFreezesArguments(t *testing.T) {
	b := newTeams(t, askPay)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow})
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		p := &payment{"bob", 5}
		f := workflow.ExecuteActivity(ctx, "pay", p)
		p.To, p.Amount = "mallory", 5000
		return f.Get(ctx, nil)
	}))
	require.Equal(t, []payment{{"bob", 5}}, b.paid)
}

// Typed arguments cannot be rewritten: a changed call is denied, by a hook's change and by a person's.
func TestGuardDeniesChangedArguments(t *testing.T) {
	b := newTeams(t, permission.Layer{Hooks: []permission.Hook{{Name: "h", Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerModify(json.RawMessage(`{"To":"charity"}`)), nil
	}}}})
	require.Contains(t, requireDenied(t, b.run(pay)).Failure.Message, "cannot be changed")
	require.Empty(t, b.paid)

	b = newTeams(t, askPay)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow, Input: json.RawMessage(`{"To":"charity"}`)})
	require.Contains(t, requireDenied(t, b.run(pay)).Failure.Message, "cannot be changed")
	require.Empty(t, b.paid)

	b = newTeams(t, askPay)
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow, Input: json.RawMessage(`{"Amount":5,"To":"bob"}`)})
	require.NoError(t, b.run(pay), "sent back as it was is no change")
}

// Guards run again where the activity runs.
func TestGuardRunsGuardsOnTheWorker(t *testing.T) {
	n := 0
	second := pipeline.PluginFunc("second", func(s *pipeline.Scope) error {
		return s.Guard("second", func(context.Context, pipeline.Call) error {
			if n++; n > 1 {
				return errors.New("not any more")
			}
			return nil
		})
	})
	b := newTeams(t, permission.Layer{}, second)
	require.Contains(t, requireDenied(t, b.run(pay)).Failure.Message, "not any more")
	require.Empty(t, b.paid)
}

func TestGuardOfAnActivityWithAnIDOfItsOwn(t *testing.T) {
	b := newTeams(t, permission.Layer{})
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		for _, id := range []string{"mine", "mine~2", "~"} {
			if err := pay(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{ActivityID: id, StartToCloseTimeout: time.Minute})); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Len(t, b.paid, 3)
}

// A slow hook is asked on the workflow's own queue, wherever the guarded activity goes.
func TestGuardWithASlowHook(t *testing.T) {
	b := newTeams(t, permission.Layer{Hooks: []permission.Hook{{Name: "slow", Slow: true, Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerAllow(), nil
	}}}})
	var queues []string
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		queues = append(queues, info.ActivityType.Name+" "+info.TaskQueue)
	})
	require.NoError(t, b.run(func(ctx workflow.Context) error { return pay(workflow.WithTaskQueue(ctx, "elsewhere")) }))
	require.Equal(t, []string{protocol.ActivityDecideSlow + " default-test-taskqueue", "pay elsewhere"}, queues)
}

// A tool's own activity type is ours alone.
func TestGuardRefusesWaysRound(t *testing.T) {
	for _, name := range []string{"tool.run", protocol.ActivityCallTool} {
		b := newTeams(t, permission.Layer{})
		err := b.run(func(ctx workflow.Context) error {
			return workflow.ExecuteLocalActivity(local(ctx), name).Get(ctx, nil)
		})
		require.ErrorContains(t, err, "past the gate")
	}
}

// A handler under a reserved name would silently replace ours.
func TestGuardRefusesReservedNames(t *testing.T) {
	query := func() (string, error) { return "", nil }
	update := func(workflow.Context) error { return nil }
	for name, fn := range map[string]func(workflow.Context) error{
		"query": func(ctx workflow.Context) error {
			return workflow.SetQueryHandler(ctx, protocol.GuardQueryApprovals, query)
		},
		"another query": func(ctx workflow.Context) error { return workflow.SetQueryHandler(ctx, "assent_mine", query) },
		"query with options": func(ctx workflow.Context) error {
			return workflow.SetQueryHandlerWithOptions(ctx, protocol.GuardQueryApprovals, query, workflow.QueryHandlerOptions{})
		},
		"update": func(ctx workflow.Context) error {
			return workflow.SetUpdateHandler(ctx, protocol.GuardUpdateResolve, update)
		},
	} {
		b := newTeams(t, permission.Layer{})
		require.ErrorContains(t, b.run(fn), "is reserved", name)
	}
	b := newTeams(t, permission.Layer{})
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		if err := workflow.SetQueryHandler(ctx, "approvals", query); err != nil {
			return err
		}
		return workflow.SetUpdateHandler(ctx, "resolve", update)
	}), "an agent's names are free here")
}

// Every other signal goes on untouched; a question that is left open is closed with its workflow.
func TestGuardLeavesTheRestAlone(t *testing.T) {
	b := newTeams(t, askPay)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow("approval", "mine") }, time.Hour)
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5})
		var got string
		workflow.GetSignalChannel(ctx, "approval").Receive(ctx, &got)
		require.Equal(t, "mine", got)
		return nil
	}))
	require.Empty(t, b.paid)
	l := b.list()
	require.Empty(t, l.Pending)
	require.Equal(t, approval.Abandoned, l.Closed[0].How)
	require.Contains(t, l.Closed[0].Reason, "the workflow ended")
}

func TestGuardCancelled(t *testing.T) {
	b := newTeams(t, askPay)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
	require.Equal(t, tool.ByCancel, requireDenied(t, b.run(pay)).Failure.Reason)
	require.Empty(t, b.paid)
}

// A call in a context that is cancelled already, or while it is asked about, is cancelled as any other would be.
func TestGuardedCallsAreCancelled(t *testing.T) {
	for name, asked := range map[string]bool{"before": false, "while it is asked about": true} {
		t.Run(name, func(t *testing.T) {
			b := newTeams(t, askPay)
			err := b.run(func(ctx workflow.Context) error {
				ctx, cancel := workflow.WithCancel(ctx)
				if !asked {
					cancel()
				}
				f := workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5})
				if err := workflow.Sleep(ctx, time.Hour); asked != (err == nil) {
					return errors.New("the context is not as it should be")
				}
				cancel()
				err := f.Get(ctx, nil)
				require.Equal(t, tool.ByCancel, requireDenied(t, err).Failure.Reason)
				return err
			})
			require.True(t, temporal.IsCanceledError(err), "%v", err)
			require.Empty(t, b.paid)
		})
	}
}

// Arguments that cannot be frozen do not run.
func TestGuardRefusesWhatItCannotRead(t *testing.T) {
	for name, arg := range map[string]any{"a channel": make(chan int), "too much": strings.Repeat("x", 2<<20)} {
		b := newTeams(t, permission.Layer{})
		err := b.run(func(ctx workflow.Context) error { return workflow.ExecuteActivity(ctx, "pay", arg).Get(ctx, nil) })
		require.ErrorContains(t, err, "arguments of pay", name)
		require.Empty(t, b.paid)
	}
}

// An activity id of the team's own that the gate could give to a call would fail the workflow task for ever.
func TestGuardReservesItsActivityIDs(t *testing.T) {
	b := newTeams(t, permission.Layer{})
	err := b.run(func(ctx workflow.Context) error {
		taken := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, ActivityID: "assent-1"})
		free := workflow.ExecuteActivity(taken, "free")
		if err := pay(ctx); err != nil {
			return err
		}
		return free.Get(ctx, nil)
	})
	require.ErrorContains(t, err, "reserved")
	require.Equal(t, []payment{{"bob", 5}}, b.paid)
}
