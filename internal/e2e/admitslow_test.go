package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// admitting spawns a worker whose hook is slow, answers its question and waits until the hook is asked about the answer.
func (w *world) admitting() (setup, *process) {
	w.t.Helper()
	s := askingWith(oneAsk)
	s.Build = &build{Ponder: true}
	p := w.spawn(s, devservertest.Server(w.t).Address())
	w.start(protocol.AgentInput{})
	require.NoError(w.t, appendLine(w.effects+".go", "go"))
	key := w.pending(1)[0].Key
	require.NoError(w.t, os.Remove(w.effects+".go"))
	w.answer(key, approval.Allow)
	w.pondered(2)
	return s, p
}

// pondered waits until the slow hook was asked n times.
func (w *world) pondered(n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		b, err := os.ReadFile(w.effects + ".asked")
		return err == nil && strings.Count(string(b), "\n") == n
	}, patience, tick)
}

// followed are the ends of questions as they are read from the history.
func (w *world) followed() (out []approval.Closed) {
	w.t.Helper()
	for e, err := range follow.Follow(context.Background(), w.c, w.id, "", follow.Options{}) {
		require.NoError(w.t, err)
		if e.Kind == follow.ApprovalClosed {
			out = append(out, *e.Closed)
		}
	}
	return out
}

// closedAlike holds the ends of questions in history against those that the run tells.
func (w *world) closedAlike(how approval.How) {
	w.t.Helper()
	l := w.lists()
	require.Len(w.t, l.Closed, 1)
	require.Equal(w.t, how, l.Closed[0].How)
	closed := w.followed()
	require.Len(w.t, closed, 1)
	require.Equal(w.t, how, closed[0].How)
	require.Equal(w.t, l.Closed[0].Key, closed[0].Key)
}

// An admission that is lost with its worker, or cut short because the worker stops, is made by the next one. A second
// answer meanwhile changes nothing.
func TestAnAdmissionThatIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*process, testing.TB){"killed": (*process).kill, "stopped": (*process).term} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, p := w.admitting()
			l := w.lists()
			require.Empty(t, l.Pending)
			w.send(`{"decision":"deny"}`)
			stop(p, t)
			require.NoError(t, appendLine(w.effects+".go", "go"))
			w.spawn(s, devservertest.Server(t).Address())
			res := w.result()
			require.Equal(t, []string{"OK"}, w.codes(res))
			require.Len(t, w.ran(), 1)
			l = w.lists()
			require.Len(t, l.Ignored, 1)
			w.closedAlike(approval.Allowed)
			w.sound()
		})
	}
}

// A run that is cancelled while an answer is admitted closes the question as cancelled, whatever the hook says later.
func TestACancelDuringASlowAdmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.admitting()
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	require.Eventually(t, func() bool {
		l, err := w.list()
		return err == nil && len(l.Closed) == 1
	}, patience, tick)
	require.NoError(t, appendLine(w.effects+".go", "go"))
	_ = w.c.GetWorkflow(context.Background(), w.id, "").Get(context.Background(), nil)
	require.Empty(t, w.ran())
	w.closedAlike(approval.Cancelled)
	w.sound()
}

// A run that is reset while an answer is admitted asks again under another key.
func TestAResetDuringASlowAdmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.admitting()
	l := w.lists()
	require.Empty(t, l.Pending)
	run := w.c.GetWorkflow(context.Background(), w.id, "").GetRunID()
	tasks := w.finishedTasks()
	w.reset(run, tasks[len(tasks)-1])
	require.NoError(t, appendLine(w.effects+".go", "go"))
	q := w.pending(1)[0]
	require.Empty(t, w.ran())
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, []string{string(tool.OK)}, w.codes(res))
	require.Len(t, w.ran(), 1)
	replaytest.Replay(t, &historypb.History{Events: w.history()})
}
