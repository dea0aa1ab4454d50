package workflows_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// notes returns what the engine told the model in its own name.
func (b *bench) notes(res protocol.AgentResult) []string {
	b.t.Helper()
	msgs, err := activities.ReadTranscript(context.Background(), b.blob, res.Transcript)
	require.NoError(b.t, err)
	var out []string
	for i, m := range msgs {
		if i > 0 && m.Role == model.User {
			out = append(out, m.Text)
		}
	}
	return out
}

func TestMaxTurns(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}]
  - calls: [{tool: look, args: {path: b}}]
  - say: this is what I have
    calls: [{tool: look, args: {path: c}}]
`})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxTurns: 2}})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Equal(t, "maxTurns (2) was reached", res.Error)
	require.Equal(t, "this is what I have", res.Output)
	require.Equal(t, 3, res.Turns)
	require.Equal(t, []string{"a", "b"}, b.ran["look"], "the last turn has no tools")
	require.Len(t, b.notes(res), 1)
	require.Contains(t, b.notes(res)[0], "this is the last turn")
}

// An agent that uses exactly its calls and is then done has not hit the limit.
func TestExactlyMaxToolCalls(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: look, args: {path: b}}]
  - say: done
`})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxToolCalls: 2}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, "done", res.Output)
}

func TestMaxToolCalls(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: nothing, args: {}}, {tool: look, args: {path: c}}, {tool: look, raw: '{'}]
  - say: enough
`})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxToolCalls: 2}})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Equal(t, "maxToolCalls (2) was reached", res.Error)
	require.Equal(t, "enough", res.Output)
	require.Equal(t, []string{"OK", "UNKNOWN_TOOL", "SKIPPED", "SKIPPED"}, b.codes(res))
	require.Equal(t, 2, res.Calls)
	b.requireOneResultEach(res)
}

func TestMaxIdleTurns(t *testing.T) {
	same := "  - calls: [{tool: look, args: {path: a}}]\n"
	b := newBench(t, setup{script: "turns:\n" + strings.Repeat(same, 3) + "  - say: stuck\n"})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxIdleTurns: 2}})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Contains(t, res.Error, "maxIdleTurns (2) was reached")
	require.Equal(t, "stuck", res.Output)
}

// Another input, another result and a report are progress.
func TestProgressIsNotIdle(t *testing.T) {
	n := 0
	count := tool.MustNew("count", "Counts.", func(context.Context, *tool.Context, pathIn) (int, error) { n++; return n, nil }, tool.Write)
	for name, script := range map[string]string{
		"another result": strings.Repeat("  - calls: [{tool: count, args: {path: a}}]\n", 4),
		"another input":  "  - calls: [{tool: look, args: {path: a}}]\n  - calls: [{tool: look, args: {path: b}}]\n  - calls: [{tool: look, args: {path: c}}]\n",
		"a report":       strings.Repeat("  - calls: [{tool: report_progress, args: {path: a}}]\n", 4),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{tools: []*tool.Def{count, noop("report_progress", tool.Read)}, script: "turns:\n" + script + "  - say: done\n"})
			res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxIdleTurns: 1}})
			require.Equal(t, protocol.OK, res.Status, res.Error)
		})
	}
}

func noop(name string, risk tool.Risk) *tool.Def {
	return tool.MustNew(name, "Does nothing.", func(context.Context, *tool.Context, pathIn) (string, error) { return "ok", nil }, risk)
}

// The wall clock closes an open question as abandoned; that is nobody's deny.
func TestWallClockWithAQuestionOpen(t *testing.T) {
	b := newBench(t, asking(`
turns:
  - calls: [{tool: run, args: {path: a}}, {tool: report_progress, args: {path: half}}]
  - say: out of time
    expect: {lastResult: {code: OK}}
`).with(noop("report_progress", tool.Read)))
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{WallClock: 24 * time.Hour}})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Equal(t, "the wall-clock limit was reached", res.Error)
	require.Equal(t, "out of time", res.Output)
	require.Equal(t, []string{"DENIED/abandoned", "OK"}, b.codes(res))
	require.JSONEq(t, `{"path":"half"}`, string(res.Progress))
	require.Equal(t, approval.Abandoned, b.list().Closed[0].How)
	require.Empty(t, b.ran)
}

func (s setup) with(tools ...*tool.Def) setup {
	s.tools = append(s.tools, tools...)
	return s
}

func TestWallClockStopsARunningTool(t *testing.T) {
	var running atomic.Bool
	wait := setup{tools: []*tool.Def{tool.MustNew("wait", "Waits.", func(ctx context.Context, _ *tool.Context, _ pathIn) (string, error) {
		running.Store(true)
		<-ctx.Done()
		return "", ctx.Err()
	}, tool.Write)}, script: `
turns:
  - calls: [{tool: wait, args: {path: a}}, {tool: change, args: {path: b}}]
  - say: out of time
`}
	var b *bench
	var res protocol.AgentResult
	// Real time passes while an activity runs, and a machine that is busy may need more of it until the tool begins.
	for limit := 2 * time.Second; !running.Load() && limit < 10*time.Minute; limit *= 4 {
		b = newBench(t, wait)
		res = b.run(protocol.AgentInput{Limits: &protocol.Limits{WallClock: limit}})
	}
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Equal(t, []string{"ABORTED", "DENIED/cancelled"}, b.codes(res))
	require.Empty(t, b.ran)
}

func TestEscalate(t *testing.T) {
	for name, input := range map[string]string{"small": "blocked", "large": strings.Repeat("blocked ", 8<<10)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{tools: []*tool.Def{noop("escalate", tool.Read)}, script: `
turns:
  - calls: [{tool: escalate, args: {path: ` + input + `}}]
  - say: never said
`})
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.Escalated, res.Status, res.Error)
			require.True(t, json.Valid(res.Escalation))
			require.Less(t, len(res.Escalation), 1<<10)
			require.Equal(t, 1, res.Turns)
		})
	}
}

// A denied escalation ends nothing; progress is told only when a run did not end well.
func TestOnlyWhatRanCounts(t *testing.T) {
	s := asking(`
turns:
  - calls: [{tool: escalate, args: {path: a}}, {tool: report_progress, args: {path: p}}]
  - say: done
`).with(noop("escalate", tool.Execute), noop("report_progress", tool.Read))
	b := newBench(t, s)
	b.answer(time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Empty(t, res.Escalation)
	require.Empty(t, res.Progress)
}

func TestHowAModelEnds(t *testing.T) {
	for stop, want := range map[string]protocol.AgentResult{
		"end":        {Status: protocol.OK},
		"refusal":    {Status: protocol.Failed, Error: "the model refused"},
		"max_tokens": {Status: protocol.LimitHit, Error: "the model's output was cut at maxOutputTokens"},
	} {
		b := newBench(t, setup{script: "turns: [{say: x, stop: " + stop + ", usage: {inputTokens: 3, outputTokens: 2}}]"})
		res := b.run(protocol.AgentInput{})
		require.Equal(t, want.Status, res.Status)
		require.Equal(t, want.Error, res.Error)
		require.Equal(t, model.Usage{InputTokens: 3, OutputTokens: 2}, res.Usage)
		require.Equal(t, []protocol.Artifact{}, res.Artifacts)
		require.NotEmpty(t, res.ToolsetHash)
	}
}

func TestAScriptThatEndsEarly(t *testing.T) {
	b := newBench(t, setup{script: "turns: [{calls: [{tool: look, args: {path: a}}]}]"})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "script")
	require.Equal(t, []string{"a"}, b.ran["look"])
}

// A last turn that fails does not hide the limit.
func TestALastTurnThatFails(t *testing.T) {
	b := newBench(t, setup{script: "turns: [{calls: [{tool: look, args: {path: a}}]}]"})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxTurns: 1}})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Contains(t, res.Error, "maxTurns (1) was reached; the last turn failed: ")
	require.Contains(t, res.Error, "script")
}
