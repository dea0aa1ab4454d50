package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// turnTasks are the workflow tasks that asked the model for each turn of a run.
func (w *world) turnTasks(run string) []int64 {
	w.t.Helper()
	var out []int64
	for e, err := range history.Read(context.Background(), w.c, w.id, run) {
		require.NoError(w.t, err)
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == protocol.ActivityGenerate {
			out = append(out, a.GetWorkflowTaskCompletedEventId())
		}
	}
	return out
}

// allowAll allows whatever the run asks, one question at a time, until it ends, and returns how often it asked.
func (w *world) allowAll(run string) (asked int) {
	w.t.Helper()
	for !w.settles(run) {
		q := w.pending(1)[0]
		if asked++; asked%2 == 0 {
			require.NoError(w.t, w.update(protocol.Resolution{Key: q.Key, Decision: approval.Allow, By: "alice"}))
		} else {
			w.answer(q.Key, approval.Allow)
		}
		require.Eventually(w.t, func() bool {
			l, err := w.list()
			return err == nil && (len(l.Pending) == 0 || l.Pending[0].Key != q.Key)
		}, patience, tick)
	}
	return asked
}

// A run of ten turns is reset to each of them. What people allowed after it is void, so every later question is put again;
// what came before it is kept and does not run again; and the end is that of a run that was never reset.
func TestResetToAnyTurnOfTen(t *testing.T) {
	t.Parallel()
	const turns = 10
	var script strings.Builder
	script.WriteString("turns:\n")
	for i := 1; i < turns; i++ {
		tool := "look"
		if i%2 == 0 {
			tool = "run"
		}
		fmt.Fprintf(&script, "  - calls: [{tool: %s, args: {text: turn-%d}}, {tool: nothing, args: {}}]\n    usage: {inputTokens: 5, outputTokens: 2}\n", tool, i)
	}
	script.WriteString("  - say: done\n    usage: {inputTokens: 5, outputTokens: 2}\n")
	w := newWorld(t)
	w.work(setup{Script: script.String(), Preset: permission.Standard, Keys: true})
	first := w.start(protocol.AgentInput{}).GetRunID()
	require.Equal(t, 4, w.allowAll(first))
	clean := w.result()
	require.Equal(t, protocol.OK, clean.Status, clean.Error)
	require.Equal(t, turns, clean.Turns)
	require.Len(t, w.ran(), turns-1)
	tasks := w.turnTasks(first)
	require.Len(t, tasks, turns)
	for i, task := range tasks {
		if i%3 != 0 && !long() {
			continue // of the first, the last and two between them
		}
		turn, before := i+1, len(w.ran())
		run := w.reset(first, task)
		// Turns 2, 4, 6 and 8 ask; the call of a turn that ended before the one that is gone back to is kept.
		asked := 0
		for n := turn; n < turns; n++ {
			if n%2 == 0 {
				asked++
			}
		}
		require.Equal(t, asked, w.allowAll(run), "turn %d", turn)
		res := w.result()
		require.Equal(t, clean, res, "turn %d", turn)
		require.Equal(t, w.results(clean), w.results(res), "turn %d", turn)
		var again []string
		for n := turn; n < turns; n++ {
			again = append(again, fmt.Sprintf("%s turn-%d", []string{"run", "look"}[n%2], n))
		}
		require.Equal(t, again, append([]string(nil), w.ran()[before:]...), "turn %d", turn)
	}
}
