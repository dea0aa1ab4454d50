package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// While a run's workflow tasks fail, the server shows one that it has not written, under ids that it then gives to what comes
// first: somebody who watches sees that too.
func TestFollowedWhileTasksFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := setup{Script: oneAsk, Preset: permission.Standard}
	wk := w.work(s)
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	wk.Stop()
	sdkworker.PurgeStickyWorkflowCache()
	// This one knows no workflow: each task fails.
	other := sdkworker.New(w.c, w.queue, sdkworker.Options{})
	require.NoError(t, other.Start())
	w.send(`{"key":"nobody","decision":"allow"}`)
	unwritten := func() (n int) {
		it := w.c.GetWorkflowHistory(context.Background(), w.id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			e, err := it.Next()
			require.NoError(t, err)
			if !history.Written(e) {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return unwritten() > 0 }, patience, tick)

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	feed, err := follow.Start(ctx, w.c, w.id, "", follow.Options{Wait: true})
	require.NoError(t, err)
	var seen []follow.Event
	for e := range feed.Events {
		seen = append(seen, e)
		// It was read with the tasks that are shown. The problem is told only if no worker that stops let the first task time out.
		if e.Kind == follow.Answer {
			break
		}
	}
	w.answer(key, approval.Allow)
	other.Stop()
	w.work(s)
	for e := range feed.Events {
		seen = append(seen, e)
	}
	_, err = feed.Wait()
	require.NoError(t, err)
	var later []follow.Event
	for e, err := range follow.Follow(context.Background(), w.c, w.id, "", follow.Options{}) {
		require.NoError(t, err)
		later = append(later, e)
	}
	require.Equal(t, later, seen)
}
