package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// stretch is when one call was where, by the server's own word.
type stretch struct {
	scheduled, completed int64
	started, ended       time.Time
}

// stretches are those of all tool calls, by call id.
func stretches(events []*historypb.HistoryEvent) map[string]*stretch {
	out, at := map[string]*stretch{}, map[int64]*stretch{}
	for _, e := range events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil && len(a.GetActivityType().GetName()) > len(protocol.ToolPrefix) &&
			a.GetActivityType().GetName()[:len(protocol.ToolPrefix)] == protocol.ToolPrefix {
			at[e.EventId] = &stretch{scheduled: e.EventId}
			out[a.GetActivityId()] = at[e.EventId]
		} else if a := e.GetActivityTaskStartedEventAttributes(); a != nil && at[a.GetScheduledEventId()] != nil {
			at[a.GetScheduledEventId()].started = e.GetEventTime().AsTime()
		} else if a := e.GetActivityTaskCompletedEventAttributes(); a != nil && at[a.GetScheduledEventId()] != nil {
			at[a.GetScheduledEventId()].completed, at[a.GetScheduledEventId()].ended = e.EventId, e.GetEventTime().AsTime()
		}
	}
	return out
}

// Reads of one turn run at the same time, others one after another, and the model gets the results in its own order: all of
// it read from history. Each read waits until its partner has begun.
func TestReadsOverlapInHistoryAndOthersDoNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := map[string]chan struct{}{}
	for _, name := range []string{"a", "b", "e", "f"} {
		began[name] = make(chan struct{})
	}
	partner := map[string]string{"a": "b", "b": "a", "e": "f", "f": "e"}
	meet := tool.MustNew("meet", "Waits for the other one.", func(ctx context.Context, _ *tool.Context, in noteIn) (string, error) {
		close(began[in.Text])
		select {
		case <-began[partner[in.Text]]:
			return "met " + in.Text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, tool.Read, tool.Timeout(patience))
	cfg, done, err := engine(setup{Keys: true, Script: `
turns:
  - calls:
      - {tool: meet, args: {text: a}}
      - {tool: meet, args: {text: b}}
      - {tool: note, args: {text: c}}
      - {tool: note, args: {text: d}}
      - {tool: meet, args: {text: e}}
      - {tool: meet, args: {text: f}}
  - say: done
`}, w.c, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	p := cfg.Profiles["p"]
	p.Tools = append(p.Tools, "meet")
	cfg.Profiles["p"], cfg.Tools = p, append(cfg.Tools, meet)
	plugin, err := worker.New(cfg)
	require.NoError(t, err)
	w.workWith(plugin)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)

	results := w.results(res)
	require.Len(t, results, 6)
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		require.Equal(t, tool.OK, results[i].Result.Code)
		var text any
		require.NoError(t, json.Unmarshal(results[i].Result.Value, &text))
		if m, ok := text.(map[string]any); ok {
			text = m["noted"]
		} else {
			name = "met " + name
		}
		require.Equal(t, name, text)
	}
	require.Equal(t, []string{"note c", "note d"}, w.ran())

	at := stretches(w.history())
	call := func(n int) *stretch {
		s := at[callID(1, n)]
		require.NotNil(t, s, "call %d", n)
		require.NotZero(t, s.completed)
		return s
	}
	for _, pair := range [][2]int{{1, 2}, {5, 6}} {
		one, other := call(pair[0]), call(pair[1])
		require.True(t, one.started.Before(other.ended) && other.started.Before(one.ended), "%v overlap", pair)
		require.Less(t, max(one.scheduled, other.scheduled), min(one.completed, other.completed))
	}
	for _, alone := range [][2]int{{1, 3}, {2, 3}, {3, 4}, {4, 5}, {4, 6}} {
		require.Less(t, call(alone[0]).completed, call(alone[1]).scheduled, fmt.Sprint(alone))
	}
}
