package follow

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
)

// A run keeps of the calls of those before what it took over, and no more: an agent may go on for a thousand runs.
func TestARunForgetsTheCallsOfThoseBefore(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join("testdata", "histories", "continued-2.json"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	require.NoError(t, err)
	first := h.GetEvents()[0]
	started := func(change func(*historypb.WorkflowExecutionStartedEventAttributes)) *Reader {
		r := NewReader("w", "", nil)
		for _, id := range []string{"t0.1", "t1.1"} {
			r.decided[id], r.foreign[id] = Decided{CallID: id, Tool: "told"}, &foreign{}
		}
		a := first.GetWorkflowExecutionStartedEventAttributes()
		change(a)
		r.Read(first)
		return r
	}
	r := started(func(*historypb.WorkflowExecutionStartedEventAttributes) {})
	require.NotContains(t, r.decided, "t0.1")
	require.NotContains(t, r.foreign, "t0.1")
	require.Equal(t, "told", r.decided["t1.1"].Tool)
	require.Contains(t, r.foreign, "t1.1")
	// One that took over nothing numbers its calls from the start.
	r = started(func(a *historypb.WorkflowExecutionStartedEventAttributes) { a.Input.Payloads = a.Input.Payloads[:1] })
	require.Empty(t, r.decided)
	require.Empty(t, r.foreign)
	// Nor does a guarded workflow take over any.
	r = started(func(a *historypb.WorkflowExecutionStartedEventAttributes) { a.WorkflowType.Name = "Plan" })
	require.Empty(t, r.decided)
}
