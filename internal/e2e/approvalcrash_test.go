package e2e

import (
	"context"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// hasty is a team's plugin that stops workers without delay.
type hasty struct{ sdkworker.PluginBase }

func (hasty) Name() string { return "hasty" }

func (hasty) ConfigureWorker(_ context.Context, o sdkworker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.WorkerStopTimeout = time.Millisecond
	return nil
}

// pauses starts a worker in this process on which a hook of local activities waits for the file with .go at the end of its
// name.
func (w *world) pauses() sdkworker.Worker {
	w.t.Helper()
	cfg, done, err := engine(askingWith(oneAsk), w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	h := ponder(w.effects)
	h.Slow = false
	cfg.Permissions.Hooks, cfg.HookTimeout = append(cfg.Permissions.Hooks, h), time.Minute
	p, err := worker.New(cfg)
	require.NoError(w.t, err)
	o := options(p)
	// Our plugin gives decisions time to end; one that comes after it may think otherwise.
	o.Plugins = append(o.Plugins, hasty{})
	wk := sdkworker.New(w.c, w.queue, o)
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
	return wk
}

// A worker that stops while it decides on a call, or admits an answer, has judged nothing: another one does. It is no reason
// to deny.
func TestAWorkerThatStopsWhileItJudges(t *testing.T) {
	t.Parallel()
	t.Run("decision", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		wk := w.pauses()
		w.start(protocol.AgentInput{})
		w.pondered(1)
		wk.Stop()
		require.NoError(t, appendLine(w.effects+".go", "go"))
		w.pauses()
		l := w.waits(func(l approval.List) bool { return len(l.Pending) == 1 || w.ended() })
		require.Len(t, l.Pending, 1, "it asks")
		w.answer(l.Pending[0].Key, approval.Allow)
		require.Equal(t, []string{"OK"}, w.codes(w.result()))
		w.sound()
	})
	t.Run("admission", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, appendLine(w.effects+".go", "go"))
		wk := w.pauses()
		w.start(protocol.AgentInput{})
		key := w.pending(1)[0].Key
		require.NoError(t, os.Remove(w.effects+".go"))
		w.answer(key, approval.Allow)
		w.pondered(2)
		wk.Stop()
		require.NoError(t, appendLine(w.effects+".go", "go"))
		w.pauses()
		require.Equal(t, []string{"OK"}, w.codes(w.result()))
		w.closedAlike(approval.Allowed)
		w.sound()
	})
}

// ended reports whether the run has completed.
func (w *world) ended() bool {
	return count(w.history(), enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED) > 0
}

// A worker is killed while the first of several answers is admitted: the next one takes each once, in their order.
func TestAnswersThatWaitBehindAnAdmissionThatIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := answering(oneAsk, twoOfOps())
	s.Build = &build{Ponder: true}
	p := w.spawn(s, devservertest.Server(t).Address())
	w.start(protocol.AgentInput{})
	require.NoError(t, appendLine(w.effects+".go", "go"))
	q := w.pending(1)[0]
	require.NoError(t, os.Remove(w.effects+".go"))
	w.send(`{"key":"` + q.Key + `","decision":"allow","by":"bob"}`)
	w.pondered(2)
	for _, who := range []string{"eve", "bob"} {
		w.send(`{"key":"` + q.Key + `","decision":"allow","by":"` + who + `"}`)
	}
	w.sign(q, approval.Resolution{Decision: approval.Allow})
	w.send(`{"key":"` + q.Key + `","decision":"deny","by":"late"}`)
	p.kill(t)
	require.NoError(t, appendLine(w.effects+".go", "go"))
	w.spawn(s, devservertest.Server(t).Address())
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	w.closedAlike(approval.Allowed)
	l := w.lists()
	require.Equal(t, "bob, alice", l.Closed[0].By)
	var ignored []string
	for _, i := range l.Ignored {
		ignored = append(ignored, i.By)
	}
	require.Equal(t, []string{"eve", "bob", "late"}, ignored)
	require.Equal(t, []string{"run a"}, w.ran())
	w.sound()
}

// An allow is revoked while the worker on which its call runs is dead: the call is not made again, and nobody says that it
// never began.
func TestARevokeAfterTheWorkerWasKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := askingWith("\nturns:\n  - calls: [{tool: hold, args: {text: a}}]\n  - say: done\n")
	p := w.spawn(s, devservertest.Server(t).Address())
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	w.answer(key, approval.Allow)
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	p.kill(t)
	w.answer(key, approval.Revoke)
	w.spawn(s, devservertest.Server(t).Address())
	codes := w.codes(w.result())
	require.Len(t, codes, 1)
	require.Contains(t, []string{"EFFECT_UNKNOWN", "ABORTED/revoked"}, codes[0])
	require.Equal(t, []string{"hold a"}, w.ran())
	c := w.lists().Closed[0]
	require.Equal(t, approval.Allowed, c.How)
	require.NotNil(t, c.Revoked)
	require.True(t, c.Revoked.Dispatched)
	w.sound()
}

// Uncached workers replay the whole history at every task: what becomes of a question is the same, in every shape of an answer.
func TestAnswersWithoutACache(t *testing.T) {
	t.Parallel()
	always := answering("\nturns:\n  - calls: [{tool: run, args: {text: a}}, {tool: run, args: {text: b}}]\n  - calls: [{tool: run, args: {text: c}}]\n  - say: done\n",
		permission.ApprovalPolicy{Remind: time.Second, Deadline: time.Minute, Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}})
	several := map[string]shape{
		"expired": {setup{Script: oneAsk, Preset: permission.Standard, Deadline: time.Second}, func(w *world) {
			require.Equal(w.t, []string{"DENIED/expired"}, w.codes(w.result()))
		}},
		"revoked in the task of the allow": {askingWith(oneAsk), func(w *world) {
			key := w.pending(1)[0].Key
			w.answer(key, approval.Allow)
			w.answer(key, approval.Revoke)
			require.Len(w.t, w.codes(w.result()), 1)
			require.LessOrEqual(w.t, len(w.ran()), 1)
		}},
		"many answers, several questions": {always, func(w *world) {
			for _, n := range []int{2, 1} {
				for _, q := range w.pending(n) {
					for _, who := range []string{"eve", "bob", "bob", "alice"} {
						w.send(`{"key":"` + q.Key + `","decision":"allow","by":"` + who + `","always":true}`)
					}
					w.sign(q, approval.Resolution{Decision: approval.Allow})
					w.send(`{"key":"` + q.Key + `","decision":"deny","by":"late"}`)
				}
			}
			require.Equal(w.t, []string{"OK", "OK", "OK"}, w.codes(w.result()))
			require.Len(w.t, w.ran(), 3)
		}},
	}
	maps.Copy(several, approvalShapes)
	for name, s := range several {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s.setup.Uncached = true
			w.spawn(s.setup, devservertest.Server(t).Address())
			w.start(protocol.AgentInput{})
			s.play(w)
			w.sound()
		})
	}
}
