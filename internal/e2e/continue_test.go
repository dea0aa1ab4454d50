package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// chain are the histories of an agent's runs, the first one first.
func (w *world) chain() [][]*historypb.HistoryEvent {
	w.t.Helper()
	var out [][]*historypb.HistoryEvent
	for run := w.c.GetWorkflow(context.Background(), w.id, "").GetRunID(); run != ""; {
		var events []*historypb.HistoryEvent
		for e, err := range history.Read(context.Background(), w.c, w.id, run) {
			require.NoError(w.t, err)
			events = append(events, e)
		}
		out = append(out, events)
		run = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
	}
	slices.Reverse(out)
	return out
}

// A thousand and five hundred calls, some of them asked: each runs once, the model gets one result for each in its order,
// and no history is longer than the server wants it.
func TestALongRunContinuesAsNew(t *testing.T) {
	const turns, each = 150, 10
	var script strings.Builder
	script.WriteString("turns:\n")
	for i := range turns {
		script.WriteString("  - calls: [")
		for j := range each {
			tool := "look"
			switch {
			case i%25 == 3 && j == 4:
				tool = "run"
			case j == 7:
				tool = "note"
			}
			fmt.Fprintf(&script, "{tool: %s, args: {text: t%d-%d}}, ", tool, i, j)
		}
		script.WriteString("]\n    usage: {inputTokens: 7, outputTokens: 3}\n")
	}
	script.WriteString("  - say: done\n")
	w := newWorld(t)
	w.work(setup{Script: script.String(), Preset: permission.Standard, Keys: true, Limits: protocol.Limits{MaxTurns: 200, MaxToolCalls: 2000}})
	run := w.start(protocol.AgentInput{})
	stop := make(chan struct{})
	answered := make(chan map[string]bool)
	go func() {
		keys := map[string]bool{}
		for {
			select {
			case <-stop:
				answered <- keys
				return
			default:
			}
			l, err := w.list()
			if err != nil {
				continue
			}
			for _, q := range l.Pending {
				keys[q.Key] = true
				_ = w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, protocol.Resolution{Key: q.Key, Decision: approval.Allow})
			}
		}
	}()
	var res protocol.AgentResult
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	err := run.Get(ctx, &res)
	close(stop)
	keys := <-answered
	require.NoError(t, err)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, turns+1, res.Turns)
	require.Equal(t, turns*each, res.Calls)
	require.Equal(t, turns/25, res.Asked)
	require.Len(t, keys, turns/25)
	require.EqualValues(t, 7*turns, res.Usage.InputTokens)
	require.Len(t, w.ran(), turns*each)
	seen := map[string]bool{}
	for _, line := range w.ran() {
		require.False(t, seen[line], "%s ran twice", line)
		seen[line] = true
	}
	results := w.results(res)
	require.Len(t, results, turns*each)
	for n, r := range results {
		require.Contains(t, string(r.Result.Value), fmt.Sprintf(`"t%d-%d"`, n/each, n%each))
	}
	runs := w.chain()
	require.Greater(t, len(runs), 1)
	for i, events := range runs {
		t.Logf("run %d: %d events", i+1, len(events))
		require.Less(t, len(events), 6000)
	}
}

// A run that waits continues as well: questions keep their keys, what operators see stays, and no answer is lost.
func TestAParkedRunContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Preset: permission.Standard, Keys: true, ContinueAfter: 50, Script: `
turns:
  - calls: [{tool: run, args: {text: a}}, {tool: look, args: {text: b}}, {tool: run, args: {text: a}}, {tool: run, args: {text: c}}]
  - say: done
`})
	w.start(protocol.AgentInput{})
	before := w.pending(3)
	for i := range 60 {
		w.send(fmt.Sprintf(`{"key":"nobody-%d","decision":"allow"}`, i))
		if i%20 == 10 {
			require.Eventually(t, func() bool { l, err := w.list(); return err == nil && len(l.Ignored) > 0 }, patience, tick)
		}
	}
	require.Eventually(t, func() bool { return len(w.chain()) > 1 }, patience, tick)
	after := w.pending(3)
	for i := range before {
		require.Equal(t, before[i].Key, after[i].Key)
		require.True(t, before[i].AskedAt.Equal(after[i].AskedAt))
		require.Equal(t, before[i].Seal, after[i].Seal)
		require.NotEqual(t, before[i].StandsIn(), after[i].StandsIn())
	}
	d, err := w.c.DescribeWorkflow(t.Context(), w.id, "")
	require.NoError(t, err)
	fields := d.RawResponse.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()
	require.Equal(t, `"waiting"`, string(fields[protocol.AttrStatus].GetData()))
	require.Contains(t, string(d.RawResponse.GetWorkflowExecutionInfo().GetMemo().GetFields()[protocol.MemoPending].GetData()), before[0].Key)

	w.answer(before[1].Key, approval.Allow)
	w.answer(before[0].Key, approval.Deny)
	w.answer(before[2].Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"DENIED/person", "OK", "OK", "OK"}, w.codes(res))
	require.ElementsMatch(t, []string{"look b", "run a", "run c"}, w.ran())
	require.Equal(t, 3, res.Asked)
	require.Equal(t, 4, res.Calls)
}
