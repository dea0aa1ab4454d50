package e2e

import (
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
	s := setup{Script: oneAsk, Preset: "standard", Deadline: 3 * time.Second, Keys: true}
	rings := func(w *world) func() bool {
		return func() bool {
			for _, e := range w.history() {
				if e.EventType == enumspb.EVENT_TYPE_TIMER_FIRED {
					return true
				}
			}
			return false
		}
	}
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		wk := w.work(s)
		w.start(protocol.AgentInput{})
		key := w.pending(1)[0].Key
		wk.Stop()
		w.answer(key, approval.Allow)
		require.Eventually(t, rings(w), patience, tick)
		w.work(s)
		require.Equal(t, []string{"OK"}, w.codes(w.result()))
		require.Equal(t, []string{"run a"}, w.ran())
		require.Equal(t, approval.Allowed, w.lists().Closed[0].How)
	})
	t.Run("too late", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		wk := w.work(s)
		w.start(protocol.AgentInput{})
		key := w.pending(1)[0].Key
		wk.Stop()
		require.Eventually(t, rings(w), patience, tick)
		w.answer(key, approval.Allow)
		w.work(s)
		require.Equal(t, []string{"DENIED/expired"}, w.codes(w.result()))
		require.Empty(t, w.ran())
		l := w.lists()
		require.Equal(t, approval.Expired, l.Closed[0].How)
		require.Len(t, l.Ignored, 1)
		require.Contains(t, l.Ignored[0].Why, "its deadline has passed")
		require.Equal(t, "alice", l.Ignored[0].By)
	})
}
