package follow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/protocol"
)

// speaking is a server whose runs say something each, in a turn of the same activity.
type speaking struct {
	client.Client
	says map[string]string
}

func (s speaking) DescribeWorkflow(_ context.Context, _, runID string) (*client.WorkflowExecutionDescription, error) {
	p, err := converter.GetDefaultDataConverter().ToPayloads(1, spoken(s.says[runID]))
	if err != nil {
		return nil, err
	}
	return &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
		PendingActivities: []*workflowpb.PendingActivityInfo{{ActivityId: "t1", HeartbeatDetails: &commonpb.Payloads{Payloads: p.Payloads}}}}}, nil
}

// The turn of a run that goes on may be asked for by an event of the same id as that of the run before: it says something else.
func TestEveryRunSpeaksForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		f := &follower{client: speaking{says: map[string]string{"one": "a long first speech", "two": "short"}}, workflowID: "w",
			reader: NewReader("w", "one", nil), live: &live{}, yield: func(e Event) bool {
				told = append(told, e.RunID+": "+e.Said.Text.Text)
				return true
			}}
		f.reader.scheduled[5] = &scheduled{kind: protocol.ActivityGenerate, activityID: "t1"}
		for _, run := range []string{"one", "two"} {
			f.run = run
			hush := f.listen(t.Context())
			time.Sleep(glance + glance/2)
			hush()
		}
		require.Equal(t, []string{"one: a long first speech", "two: short"}, told)
	})
}
