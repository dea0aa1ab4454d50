package follow_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/follow"
)

// marking is a codec of a team's own that decodes what it has marked. Of anything else it panics if there is no data.
type marking struct{}

func (marking) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range in {
		p.Metadata["marked"] = []byte("yes")
	}
	return in, nil
}

func (marking) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range in {
		if p.GetMetadata()["marked"] == nil {
			_ = p.GetData()[0]
			return nil, errors.New("it was not encoded here")
		}
	}
	return in, nil
}

// An answer in plain JSON is read past a codec that refuses it, and one of which the codec panics is told as one that is empty: the
// workflow does the same.
func TestAnswersPastACodec(t *testing.T) {
	const name = "asked-and-allowed"
	want := read(t, name)
	events := history(t, name)
	signaled := slices.IndexFunc(events, func(e *historypb.HistoryEvent) bool {
		return e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
	})
	for i, e := range events {
		if i == signaled {
			continue
		}
		require.NoError(t, proxy.VisitPayloads(t.Context(), e, proxy.VisitPayloadsOptions{SkipSearchAttributes: true,
			Visitor: func(_ *proxy.VisitPayloadsContext, in []*commonpb.Payload) ([]*commonpb.Payload, error) {
				return marking{}.Encode(in)
			}}))
	}
	through := func() (out []follow.Event) {
		r := follow.NewReader(name, "", converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), marking{}))
		for _, e := range events {
			out = append(out, r.Read(e)...)
		}
		return append(out, r.Flush()...)
	}
	require.Equal(t, want, through())

	bad := proto.Clone(events[signaled]).(*historypb.HistoryEvent)
	bad.GetWorkflowExecutionSignaledEventAttributes().Input = &commonpb.Payloads{Payloads: []*commonpb.Payload{
		{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/strange")}}}}
	events = slices.Insert(events, signaled, bad)
	answers := of(through(), follow.Answer)
	require.Len(t, answers, 2)
	require.NotEmpty(t, answers[0].Answer.Ignored)
	require.Empty(t, answers[1].Answer.Ignored)
}
