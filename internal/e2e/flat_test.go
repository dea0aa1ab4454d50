package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/protocol"
)

// price is what one turn costs in history.
type price struct{ events, bytes int }

// prices are those of all turns that a run has finished, from one request of the model to the next, and what the runs
// themselves cost: their first and last events.
func prices(runs [][]*historypb.HistoryEvent) (turns, handovers []price) {
	for _, events := range runs {
		var open *price
		for i, e := range events {
			if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == protocol.ActivityGenerate {
				if open != nil {
					turns = append(turns, *open)
				}
				open = &price{}
			}
			if open != nil {
				open.events++
				open.bytes += e.Size()
			}
			if i == len(events)-1 && e.GetWorkflowExecutionContinuedAsNewEventAttributes() != nil {
				handovers = append(handovers, price{1, e.Size()})
				// The turn before the end has no request after it.
				open = nil
			}
		}
	}
	return turns, handovers
}

// around is the middle of the turns next to the nth.
func around(turns []price, n int) price {
	near := turns[max(0, n-5):min(len(turns), n+5)]
	events, bytes := []int{}, []int{}
	for _, p := range near {
		events, bytes = append(events, p.events), append(bytes, p.bytes)
	}
	slices.Sort(events)
	slices.Sort(bytes)
	return price{events[len(events)/2], bytes[len(bytes)/2]}
}

// A call costs history the same at the end of a long run as at its beginning, over all the runs that it goes on in, and so
// does what each run leaves to the next.
func TestHistoryPerCallIsFlat(t *testing.T) {
	n, after := 250, 500
	if long() {
		n, after = 999, 0
	} else {
		t.Parallel()
	}
	var script strings.Builder
	script.WriteString("turns:\n")
	for i := range n {
		fmt.Fprintf(&script, "  - calls: [{tool: look, args: {text: call %04d}}]\n", i)
	}
	script.WriteString("  - say: done\n")
	w := newWorld(t)
	w.work(setup{Keys: true, Script: script.String(), ContinueAfter: after,
		Limits: protocol.Limits{MaxTurns: protocol.MostTurns, MaxToolCalls: protocol.MostToolCalls}})
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, n, res.Calls)

	runs := w.chain()
	turns, handovers := prices(runs)
	require.Greater(t, len(runs), 2)
	require.Greater(t, len(turns), n*9/10)
	first, last := around(turns, 10), around(turns, len(turns)-6)
	t.Logf("%d calls in %d runs: a turn with one call costs %d events and %d bytes at call 10, %d events and %d bytes at call %d; handing over costs %v",
		n, len(runs), first.events, first.bytes, last.events, last.bytes, n, handovers)
	require.Equal(t, first.events, last.events)
	// Longer numbers, of events, of turns, of calls; and a run after the first names itself in its grants, in 46 bytes. One byte
	// more with each call would be twice as much.
	require.InDelta(t, first.bytes, last.bytes, 120)
	require.InDelta(t, handovers[len(handovers)-2].bytes, handovers[len(handovers)-1].bytes, 64)
}
