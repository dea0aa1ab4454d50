package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// No worker runs while deadline and answer come, so both are read in one workflow task. What counts is which came first.
func TestAnswersAroundTheDeadline(t *testing.T) {
	t.Parallel()
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		w := unattended(t, func(w *world, key string) bool {
			if !w.sends(allowOfAlice(key)) {
				return false
			}
			w.rings()
			return w.hasInOrder(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, enumspb.EVENT_TYPE_TIMER_FIRED)
		})
		require.Equal(t, []string{"OK"}, w.codes(w.result()))
		require.Equal(t, []string{"run a"}, w.ran())
		require.Equal(t, approval.Allowed, w.lists().Closed[0].How)
	})
	t.Run("too late", func(t *testing.T) {
		t.Parallel()
		w := unattended(t, func(w *world, key string) bool {
			w.rings()
			return w.sends(allowOfAlice(key))
		})
		require.Equal(t, []string{"DENIED/expired"}, w.codes(w.result()))
		require.Empty(t, w.ran())
		l := w.lists()
		require.Equal(t, approval.Expired, l.Closed[0].How)
		require.Len(t, l.Ignored, 1)
		require.Contains(t, l.Ignored[0].Why, "its deadline has passed")
		require.Equal(t, "alice", l.Ignored[0].By)
	})
}

// unattended plays on an agent whose worker has gone before the deadline of its question, and starts a worker again. On a
// machine that is too busy for that, which play may report too, it begins anew with a longer deadline.
func unattended(t *testing.T, play func(w *world, key string) bool) *world {
	t.Helper()
	for deadline := 3 * time.Second; ; deadline *= 2 {
		s := setup{Script: oneAsk, Preset: "standard", Deadline: deadline, Keys: true}
		w := newWorld(t)
		wk := w.work(s)
		w.start(protocol.AgentInput{})
		l := w.waits(func(l approval.List) bool { return len(l.Pending)+len(l.Closed) > 0 })
		wk.Stop()
		if len(l.Pending) > 0 && !w.has(enumspb.EVENT_TYPE_TIMER_FIRED) && play(w, l.Pending[0].Key) {
			w.work(s)
			return w
		}
	}
}

// rings waits until a timer has fired.
func (w *world) rings() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.has(enumspb.EVENT_TYPE_TIMER_FIRED) }, patience, tick)
}

// hasInOrder reports whether the first event of a type is before the first of another.
func (w *world) hasInOrder(one, other enumspb.EventType) bool {
	w.t.Helper()
	var order []enumspb.EventType
	for _, e := range w.history() {
		if typ := e.GetEventType(); (typ == one || typ == other) && !slices.Contains(order, typ) {
			order = append(order, typ)
		}
	}
	return slices.Equal(order, []enumspb.EventType{one, other})
}
