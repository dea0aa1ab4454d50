package follow_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"

	"github.com/assent-dev/assent/follow"
)

// What the SDK has offloaded to a storage that nobody knows here is not shown as if it were what it stands for: it is told
// where it is, once, and the rest is shown.
func TestAPayloadThatIsElsewhere(t *testing.T) {
	events := history(t, "asked-and-allowed")
	claim := &commonpb.Payload{Data: []byte(`{"driverName":"bucket","claimData":{"key":"allow"}}`), Metadata: map[string][]byte{
		"encoding": []byte("json/protobuf"), "messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference")}}
	r := follow.NewReader("w", "", nil)
	var out []follow.Event
	for _, e := range events {
		if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
			a.GetInput().GetPayloads()[0] = claim
		}
		if a := e.GetWorkflowExecutionCompletedEventAttributes(); a != nil {
			a.GetResult().GetPayloads()[0] = claim
		}
		out = append(out, r.Read(e)...)
	}
	out = append(out, r.Flush()...)
	problems := of(out, follow.Problem)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Note, `event 1 has a payload in the external storage "bucket", for which there is no driver here`)
	require.Empty(t, of(out, follow.AgentStart)[0].Start.Prompt)
	require.Nil(t, of(out, follow.AgentEnd)[0].End.Result)
	require.Equal(t, len(of(read(t, "asked-and-allowed"), follow.Decision)), len(of(out, follow.Decision)))
}
