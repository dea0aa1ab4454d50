package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

func TestFit(t *testing.T) {
	long := strings.Repeat("<", 16<<10)
	quoted := json.RawMessage(`"` + long + `"`)
	issues := make([]tool.Issue, 10)
	for i := range issues {
		issues[i] = tool.Issue{Pointer: long[:500], Message: long[:500]}
	}
	heavy := tool.Result{Code: tool.ToolError, FinalInput: quoted, Preview: long[:1<<10],
		Failure: &tool.Failure{Message: long, Data: quoted, Issues: issues, Retry: true, Reason: tool.ByRule}}
	results := make([]model.ToolResult, protocol.MaxCallsPerTurn)
	for i := range results {
		results[i] = model.ToolResult{CallID: "c", Name: "n", Result: heavy}
	}
	fit(results)
	require.Less(t, weight(results), 3<<19)
	require.Equal(t, heavy, results[0].Result, "what has room stays whole")
	last := results[len(results)-1].Result
	require.Equal(t, tool.ToolError, last.Code)
	require.True(t, last.Failure.Retry)
	require.Equal(t, tool.ByRule, last.Failure.Reason)
	require.Len(t, last.Failure.Issues, 3)
	require.True(t, json.Valid(last.FinalInput), "the model is still told that its arguments were changed")
	require.Len(t, heavy.Failure.Issues, 10, "the original is not touched")
}

func TestFitLeavesValues(t *testing.T) {
	value := json.RawMessage(`"` + strings.Repeat("v", protocol.InlineResult-2) + `"`)
	results := make([]model.ToolResult, protocol.MaxCallsPerTurn)
	for i := range results {
		results[i].Result = tool.Result{Code: tool.OK, Value: value}
	}
	fit(results)
	for _, r := range results {
		require.Equal(t, value, r.Result.Value)
	}
}

// Of more questions than a query can list the oldest are, and it says how many more there are.
func TestFitListOfTooMany(t *testing.T) {
	var l approval.List
	for i := range 10_000 {
		l.Pending = append(l.Pending, approval.Approval{Key: fmt.Sprintf("pay-%08x", i), Input: json.RawMessage(`{"n":1}`), Why: strings.Repeat("w", 4<<10)})
	}
	got := fitList(l)
	require.Less(t, weight(got), 2<<20)
	require.Greater(t, len(got.Pending), 1000)
	require.Equal(t, 10_000, len(got.Pending)+got.More)
	require.Equal(t, "pay-00000000", got.Pending[0].Key)
}

// Whatever waits, the query can be answered and names every question.
func TestFitList(t *testing.T) {
	few := approval.List{Pending: []approval.Approval{{Key: "a-1", Input: json.RawMessage(`{"x":1}`)}}}
	require.Equal(t, few, fitList(few))

	var many approval.List
	for range 200 {
		many.Pending = append(many.Pending, approval.Approval{Key: "a-1", Input: json.RawMessage(`"` + strings.Repeat("<", 30<<10) + `"`), Why: strings.Repeat("w", 4<<10)})
		many.Closed = append(many.Closed, approval.Closed{Key: "b-1", Reason: strings.Repeat("<", 2000)})
	}
	got := fitList(many)
	require.LessOrEqual(t, weight(got), 3<<19)
	require.Len(t, got.Pending, 200)
	require.Len(t, got.Pending[0].Input, 30<<10+2, "the first ones are whole")
	require.Contains(t, string(got.Pending[199].Input), "30722 bytes")
}
