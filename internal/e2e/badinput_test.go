package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// configError waits for the run to fail as bad input does: once, typed, not to be retried.
func (w *world) configError() error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := w.c.GetWorkflow(ctx, w.id, "").Get(ctx, nil)
	var app *temporal.ApplicationError
	require.True(w.t, errors.As(err, &app), "%v", err)
	require.Equal(w.t, protocol.ErrorConfig, app.Type())
	require.True(w.t, app.NonRetryable())
	for _, e := range w.history() {
		require.NotEqual(w.t, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, e.EventType)
	}
	return err
}

func TestBadAgentInput(t *testing.T) {
	t.Parallel()
	none := []string{"nothing"}
	zero := 0.0
	for name, tc := range map[string]struct {
		in   protocol.AgentInput
		says string
	}{
		"unknown profile":  {protocol.AgentInput{AgentType: "q"}, `unknown profile "q"; one of p`},
		"unknown tool":     {protocol.AgentInput{Tools: &none}, `unknown tool or toolset "nothing"; one of big, hold`},
		"unknown provider": {protocol.AgentInput{Models: []string{"openai:x"}}, `unknown provider "openai" in "openai:x"; one of scripted`},
		"unknown script":   {protocol.AgentInput{Models: []string{"scripted:x"}}, `one of s`},
		"bad rule":         {protocol.AgentInput{Permissions: &protocol.Tighten{Deny: []permission.Rule{{}}}}, "rule"},
		"large prompt":     {protocol.AgentInput{Prompt: strings.Repeat("x", protocol.MaxPrompt+1)}, "at most 1.0 MiB"},
		"bad limit":        {protocol.AgentInput{Limits: &protocol.Limits{MaxTurns: -1}}, "limits.maxTurns"},
		"no budget at all": {protocol.AgentInput{BudgetUSD: &zero}, "budgetUSD: 0 is out of range"},
		"absurd limit":     {protocol.AgentInput{Limits: &protocol.Limits{MaxToolCalls: 1 << 40}}, "limits.maxToolCalls"},
		"no time at all":   {protocol.AgentInput{Limits: &protocol.Limits{WallClock: -1}}, "limits.wallClock"},
		"output schema":    {protocol.AgentInput{OutputSchema: json.RawMessage(`{"type":"array"}`)}, "outputSchema: cannot be used: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.work(askingWith(oneAsk))
			w.start(tc.in)
			require.ErrorContains(t, w.configError(), tc.says)
		})
	}
}

// The server itself refuses a prompt that no history could hold; nothing starts.
func TestPromptOfFiveMegabytes(t *testing.T) {
	w := newWorld(t)
	_, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue},
		protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: strings.Repeat("x", 5<<20)})
	require.Error(t, err)
}

func TestScriptThatEndsEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Script: "turns: [{calls: [{tool: look, args: {text: a}}]}]"})
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "script")
	require.Equal(t, []string{"look a"}, w.ran())
}

// Large results and large arguments travel by reference, whole; history stays small.
func TestLargeValuesGoByReference(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("y", 600<<10)
	w.work(setup{Keys: true, Script: `
turns:
  - calls: [{tool: big, args: {bytes: 3145728}}]
  - calls: [{tool: note, args: {text: "` + large + `"}}]
  - say: done
`})
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK", "OK"}, w.codes(res))
	ref := w.results(res)[0].Result.ValueRef
	require.NotNil(t, ref)
	raw, err := w.blobs.Get(context.Background(), *ref)
	require.NoError(t, err)
	require.Len(t, raw, 3145728+2)
	require.Equal(t, []string{"note " + large}, w.ran())
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
	require.NoError(t, err)
	require.Less(t, d.RawResponse.WorkflowExecutionInfo.HistorySizeBytes, int64(64<<10))
}

// A call that asks with arguments too large for history is still approved and run with exactly those.
func TestLargeArgumentsAreAsked(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("z", 200<<10)
	w.work(askingWith(`
turns:
  - calls: [{tool: run, args: {text: "` + large + `"}}]
  - say: done
`))
	w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	require.Contains(t, string(q.Input), "sha256")
	w.answer(q.Key, "allow")
	require.Equal(t, protocol.OK, w.result().Status)
	require.Equal(t, []string{"run " + large}, w.ran())
}

// Nobody is asked about a call that cannot run, and the model is told what to mend.
func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(`
turns:
  - calls:
      - {tool: run, args: {text: 3}}
      - {tool: run, args: {}}
      - {tool: run, raw: '{"text":'}
      - {tool: nothing, args: {}}
  - say: done
`))
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, []string{"INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "UNKNOWN_TOOL"}, w.codes(res))
	require.Equal(t, "/text", w.results(res)[0].Result.Failure.Issues[0].Pointer)
	require.Zero(t, res.Asked)
	require.Empty(t, w.ran())
}

// A tool's timeout may be as long as there is; the time around it does not make it none.
func TestTheLongestTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.workForeign(setup{Keys: true, Script: script("{tool: wait, args: {text: a}}")}, nil, tool.MustNew("wait", "Waits.",
		func(context.Context, *tool.Context, noteIn) (string, error) { return "done", nil }, tool.Write, tool.Timeout(math.MaxInt64)))
	r := w.one()
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
}
