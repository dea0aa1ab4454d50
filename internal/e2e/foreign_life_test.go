package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

func TestForeignWorkflowAsTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Keys: true, Script: script(oneRefund, "{tool: refund, args: {orderId: b}}")}, nil, b.child(t, "refund", "RefundFlow", tool.NeedsApproval()))
	run := w.start(protocol.AgentInput{}).GetRunID()
	for _, q := range w.pending(2) {
		w.answer(q.Key, approval.Allow)
	}
	res := w.result()
	require.Equal(t, []string{"OK", "OK"}, w.codes(res))
	require.JSONEq(t, `{"receipt":"r-a"}`, string(w.results(res)[0].Result.Value))
	require.ElementsMatch(t, []string{"refund a 1", "refund b 0"}, b.notes())
	w.sound()
	children := w.children()
	require.Len(t, children, 2)
	for _, c := range children {
		require.Contains(t, c.GetHeader().GetFields(), protocol.HeaderGrant)
		require.Equal(t, enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL, c.GetParentClosePolicy())
	}
	ids := []string{children[0].GetWorkflowId(), children[1].GetWorkflowId()}
	require.ElementsMatch(t, []string{run + "_t1.1", run + "_t1.2"}, ids)
}

func (w *world) children() []*historypb.StartChildWorkflowExecutionInitiatedEventAttributes {
	var out []*historypb.StartChildWorkflowExecutionInitiatedEventAttributes
	for _, e := range w.history() {
		if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil {
			out = append(out, a)
		}
	}
	return out
}

// The id of an agent may be used again; its calls are others then.
func TestForeignWorkflowOfAnAgentWithAUsedID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Script: script(oneRefund)}, nil, b.child(t, "refund", "RefundFlow"))
	require.Equal(t, tool.OK, w.one().Code)
	require.Equal(t, tool.OK, w.one().Code)
	require.Equal(t, []string{"refund a 1", "refund a 1"}, b.notes())
}

func TestForeignWorkflowThatDoesNotEndWell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ  string
		opts []tool.Option
		meet func(w *world, child string)
		code tool.Code
		says string
	}{
		"terminated": {"Wait", nil, func(w *world, child string) {
			require.NoError(w.t, w.c.TerminateWorkflow(context.Background(), child, "", "by hand"))
		}, tool.EffectUnknown, "was terminated"},
		"cancelled by somebody": {"Wait", nil, func(w *world, child string) {
			require.NoError(w.t, w.c.CancelWorkflow(context.Background(), child, ""))
		}, tool.Aborted, "was cancelled"},
		"out of time":             {"Wait", []tool.Option{tool.Timeout(time.Second)}, nil, tool.EffectUnknown, "did not end in 1s"},
		"reading out of time":     {"Wait", []tool.Option{tool.Read, tool.Timeout(time.Second)}, nil, tool.ToolTimeout, "did not end in 1s"},
		"a type that nobody has":  {"Nothing", []tool.Option{tool.Timeout(2 * time.Second)}, nil, tool.EffectUnknown, "did not end in 2s"},
		"all attempts in no time": {"Wait", []tool.Option{tool.Timeouts{StartToClose: time.Hour, ScheduleToClose: time.Second}}, nil, tool.EffectUnknown, "in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.billing()
			w.workForeign(setup{Script: script("{tool: x, args: {orderId: a}}")}, nil, b.child(t, "x", c.typ, c.opts...))
			w.start(protocol.AgentInput{})
			if c.meet != nil {
				require.Eventually(t, func() bool { return len(b.notes()) == 1 }, patience, tick)
				c.meet(w, w.children()[0].GetWorkflowId())
			}
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			r := w.results(res)[0].Result
			require.Equal(t, c.code, r.Code, "%+v", r.Failure)
			require.Contains(t, r.Failure.Message, c.says)
			w.sound()
		})
	}
}

// A cancelled agent waits for what can hear of it, and not for what cannot.
func TestForeignCallIsCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		def   func(b *billing) *tool.Def
		began string
		code  tool.Code
		notes []string
	}{
		"an activity with heartbeats": {func(b *billing) *tool.Def { return b.act(t, "x", "Slow", tool.Timeouts{Heartbeat: time.Minute}) },
			"slow", tool.Aborted, []string{"slow", "stopped"}},
		"an activity without": {func(b *billing) *tool.Def { return b.act(t, "x", "Deaf") }, "deaf", tool.Aborted, []string{"deaf"}},
		"a workflow":          {func(b *billing) *tool.Def { return b.child(t, "x", "Wait") }, "waiting", tool.Aborted, []string{"waiting"}},
		"one that never began": {func(b *billing) *tool.Def { return (&billing{queue: b.queue + "-nobody"}).act(t, "x", "Slow") },
			"", tool.Denied, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.billing()
			w.workForeign(setup{Script: script("{tool: x, args: {orderId: a}}")}, nil, c.def(b))
			w.start(protocol.AgentInput{})
			require.Eventually(t, func() bool {
				return c.began != "" && len(b.notes()) == 1 || c.began == "" && len(w.scheduledAs("Slow")) == 1
			}, patience, tick)
			require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
			res := w.result()
			require.Equal(t, protocol.Cancelled, res.Status, res.Error)
			require.Equal(t, c.notes, append([]string(nil), b.notes()...))
			require.Equal(t, c.code, w.received().Code)
			w.sound()
		})
	}
}

// received is what the agent's own worker made of the one foreign call.
func (w *world) received() tool.Result {
	w.t.Helper()
	ids := map[int64]bool{}
	var r tool.Result
	for _, e := range w.history() {
		if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == protocol.ActivityReceiveResult {
			ids[e.GetEventId()] = true
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); ids[a.GetScheduledEventId()] {
			require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(a.GetResult(), &r))
		}
	}
	require.Len(w.t, ids, 1)
	return r
}

// A large value comes through, and many at once, whatever their way costs: none of them stops the agent.
func TestForeignResultsAreLarge(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		w := newWorld(t)
		b := w.billing()
		w.workForeign(setup{Script: script("{tool: huge, args: {bytes: 1900000}}")}, nil, b.act(t, "huge", "Big", tool.Write))
		r := w.one()
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
		require.NotNil(t, r.ValueRef)
		require.EqualValues(t, 1900002, r.ValueRef.Size)
	})
	t.Run("escaped", func(t *testing.T) {
		w := newWorld(t)
		b := w.billing()
		// Go's encoder writes six bytes for each of these.
		w.workForeign(setup{Script: script("{tool: huge, args: {bytes: 320000}}")}, nil, b.act(t, "huge", "Markup", tool.Write))
		r := w.one()
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
		require.NotNil(t, r.ValueRef)
	})
	t.Run("too large to be passed on", func(t *testing.T) {
		w := newWorld(t)
		b := w.billing()
		w.workForeign(setup{Script: script("{tool: huge, args: {bytes: 2050000}}")}, nil, b.act(t, "huge", "Big", tool.Write))
		r := w.one()
		require.Equal(t, tool.ToolError, r.Code)
		require.Contains(t, r.Failure.Message, "the call ran and ended with OK")
		require.True(t, r.Failure.Started)
	})
	t.Run("many at once", func(t *testing.T) {
		w := newWorld(t)
		// Nine results on their way to the server are more than a machine that starves sends within the SDK's ten seconds: then all of
		// them are lost, and nobody hears of it before the activities time out.
		b := w.billingWith(sdkworker.Options{DeadlockDetectionTimeout: deadlock, MaxConcurrentActivityExecutionSize: 3})
		var calls []string
		for range 16 {
			calls = append(calls, "{tool: huge, args: {bytes: 1900000}}")
		}
		w.workForeign(setup{Script: script(calls...)}, nil, b.act(t, "huge", "Big", tool.Read))
		w.start(protocol.AgentInput{})
		res := w.result()
		require.Equal(t, protocol.OK, res.Status, res.Error)
		ok, skipped := 0, 0
		for _, c := range w.codes(res) {
			switch c {
			case "OK":
				ok++
			case "SKIPPED":
				skipped++
			}
		}
		t.Logf("%d ok, %d skipped", ok, skipped)
		require.Equal(t, 16, ok+skipped)
		require.GreaterOrEqual(t, ok, 9)
		require.Positive(t, skipped, "the history would not hold all of them")
		replaytest.Replay(t, &historypb.History{Events: w.history()})
	})
}

// resetsOf resets the run to each of its workflow tasks and lets each new run end.
func (w *world) resetsOf(run string, each func(event int64, res protocol.AgentResult)) {
	w.t.Helper()
	for _, event := range w.finishedTasks() {
		next := w.reset(run, event)
		if !w.settles(next) {
			w.answer(w.pending(1)[0].Key, approval.Allow)
		}
		res := w.result()
		require.Equal(w.t, protocol.OK, res.Status, "event %d: %s", event, res.Error)
		each(event, res)
		replaytest.Replay(w.t, &historypb.History{Events: w.history()})
	}
}

// Whatever task an agent goes back to, an effect that cannot be repeated happens again only if a person allows it again.
func TestForeignCallAndReset(t *testing.T) {
	t.Parallel()
	for kind, def := range map[string]func(b *billing) *tool.Def{
		"activity": func(b *billing) *tool.Def { return b.act(t, "refund", "Refund", tool.Write, tool.NeedsApproval()) },
		"workflow": func(b *billing) *tool.Def {
			return b.child(t, "refund", "RefundFlow", tool.Write, tool.NeedsApproval())
		},
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			b := w.billing()
			w.workForeign(setup{Script: script(oneRefund)}, nil, def(b))
			run := w.start(protocol.AgentInput{}).GetRunID()
			w.answer(w.pending(1)[0].Key, approval.Allow)
			require.Equal(t, protocol.OK, w.result().Status)
			before := len(b.notes())
			require.Equal(t, 1, before)
			w.resetsOf(run, func(event int64, res protocol.AgentResult) {
				l := w.lists()
				allowed := 0
				for _, c := range l.Closed {
					if c.How == approval.Allowed {
						allowed++
					}
				}
				t.Logf("event %d: %v, allowed %d times, %d effects", event, w.codes(res), allowed, len(b.notes())-before)
				require.LessOrEqual(t, len(b.notes())-before, allowed)
				before = len(b.notes())
			})
		})
	}
}

// A call that nobody was asked about has been decided in the run before; it does not run on that.
func TestForeignCallThatWasDecidedBeforeAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Script: script("{tool: note, args: {text: first}}", oneRefund)}, nil, b.act(t, "refund", "Refund", tool.Write))
	run := w.start(protocol.AgentInput{}).GetRunID()
	require.Equal(t, protocol.OK, w.result().Status)
	require.Equal(t, []string{"refund a 1"}, b.notes())
	again := 0
	for _, event := range w.finishedTasks() {
		w.reset(run, event)
		res := w.result()
		require.Equal(t, protocol.OK, res.Status, "event %d: %s", event, res.Error)
		codes := w.codes(res)
		t.Logf("event %d: %v, %d effects", event, codes, len(b.notes()))
		if codes[1] == "EFFECT_UNKNOWN" {
			again++
		}
	}
	require.Positive(t, again, "both calls are decided in one task, and the second runs in another")
}

// A reset while the activity runs makes the server dispatch it again, and nobody on its worker knows. The model is not told
// that it ran once.
func TestResetWhileAForeignCallRuns(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		def  func(b *billing) *tool.Def
		want []string
	}{
		"an effect": {func(b *billing) *tool.Def { return b.act(t, "x", "Slow", tool.Timeouts{Heartbeat: time.Minute}) }, []string{"EFFECT_UNKNOWN"}},
		"idempotent": {func(b *billing) *tool.Def {
			return b.act(t, "x", "Slow", tool.Idempotent(), tool.Timeouts{Heartbeat: time.Minute})
		}, []string{"OK"}},
		"a workflow": {func(b *billing) *tool.Def { return b.child(t, "x", "Wait") }, []string{"EFFECT_UNKNOWN"}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.billing()
			w.workForeign(setup{Script: script("{tool: x, args: {orderId: a}}")}, nil, c.def(b))
			run := w.start(protocol.AgentInput{}).GetRunID()
			require.Eventually(t, func() bool { return len(b.notes()) == 1 }, patience, tick)
			w.send(`{"key":"none","decision":"allow"}`)
			var event int64
			require.Eventually(t, func() bool { event = w.taskAfterASignal(); return event > 0 }, patience, tick)
			w.reset(run, event)
			if kind == "a workflow" {
				child := w.children()[0].GetWorkflowId()
				require.NoError(t, w.c.SignalWorkflow(context.Background(), child, "", "go", "done"))
			} else {
				require.Eventually(t, func() bool { return len(b.notes()) >= 2 }, patience, tick)
				b.letGo()
			}
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, c.want, w.codes(res), fmt.Sprint(w.results(res)[0].Result.Failure))
		})
	}
}

// taskAfterASignal is the workflow task that a signal made, once it has ended.
func (w *world) taskAfterASignal() int64 {
	signaled := false
	for _, e := range w.history() {
		signaled = signaled || e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
		if signaled && e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return e.EventId
		}
	}
	return 0
}

// Without a task queue the activity is one of the agent's own worker, beside the engine.
func TestForeignActivityOnTheAgentsQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := &billing{}
	p, err := worker.New(w.foreignConfig(setup{Keys: true, Script: script(oneRefund)}, nil, b.act(t, "refund", "Refund", tool.Write)))
	require.NoError(t, err)
	wk := sdkworker.New(w.c, w.queue, options(p))
	wk.RegisterActivityWithOptions(b.activities()["Refund"], activity.RegisterOptions{Name: "Refund"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	r := w.one()
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	require.Equal(t, []string{"refund a 1"}, b.notes())
	require.Equal(t, w.queue, w.scheduledAs("Refund")[0].GetTaskQueue().GetName())
}

// The agent's worker may go while another team's runs; what that did is known when one of the agent's is back.
func TestForeignCallOutlivesTheAgentsWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	cfg := w.foreignConfig(setup{Keys: true, Script: script("{tool: x, args: {orderId: a}}")}, nil, b.act(t, "x", "Slow", tool.Write, tool.Timeouts{Heartbeat: 30 * time.Second}))
	first, err := worker.New(cfg)
	require.NoError(t, err)
	wk := sdkworker.New(w.c, w.queue, options(first))
	require.NoError(t, wk.Start())
	w.start(protocol.AgentInput{})
	require.Eventually(t, func() bool { return len(b.notes()) == 1 }, patience, tick)
	wk.Stop()
	b.letGo()
	second, err := worker.New(cfg)
	require.NoError(t, err)
	w.workWith(second)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.Equal(t, []string{"slow"}, b.notes())
	w.sound()
}

// A call that a worker has failed once and none takes again is not one that never began.
func TestForeignRetryThatNobodyTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.billing()
	w.workForeign(setup{Script: script("{tool: x, args: {orderId: a}}")}, nil, b.act(t, "x", "Fail",
		tool.Write, tool.Retry{MaximumAttempts: 2, InitialInterval: 10 * time.Second}, tool.Timeouts{ScheduleToStart: 10 * time.Second}))
	w.start(protocol.AgentInput{})
	require.Eventually(t, func() bool { return len(b.notes()) == 1 }, patience, tick)
	b.stop()
	res := w.result()
	r := w.results(res)[0].Result
	require.Equal(t, tool.EffectUnknown, r.Code, "%+v", r.Failure)
	require.Contains(t, r.Failure.Message, "no worker took another attempt")
	w.sound()
}

// foreignShape has a call that is edited and runs, one that fails, and one that nobody takes.
func foreignShape(w *world, kind string) {
	b := w.billing()
	opts := []tool.Option{tool.Write, tool.NeedsApproval()}
	refund, fail := b.act(w.t, "refund", "Refund", opts...), b.act(w.t, "fail", "Fail", tool.Read)
	if kind == "workflow" {
		refund = b.child(w.t, "refund", "RefundFlow", opts...)
	}
	lost := (&billing{queue: b.queue + "-nobody"}).act(w.t, "lost", "Refund", tool.Timeouts{ScheduleToStart: time.Second})
	w.workForeign(setup{Keys: true, Script: script(oneRefund, "{tool: fail, args: {orderId: a}}", "{tool: lost, args: {orderId: a}}")}, nil, refund, fail, lost)
	w.start(protocol.AgentInput{})
	w.send(`{"key":"` + w.pending(1)[0].Key + `","decision":"allow","input":{"orderId":"b","amount":2}}`)
	res := w.result()
	require.Equal(w.t, []string{"OK", "TOOL_ERROR", "TOOL_ERROR"}, w.codes(res))
	require.Contains(w.t, b.notes(), "refund b 2")
}
