package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// fragile is a codec of a team's own that takes for granted what a nonce is long.
type fragile struct{}

const fragileEncoding = "binary/fragile"

func fragilePayload(data string) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(fragileEncoding)}, Data: []byte(data)}
}

func (fragile) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) { return in, nil }

func (fragile) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range in {
		if string(p.GetMetadata()[converter.MetadataEncoding]) == fragileEncoding {
			_ = p.GetData()[:12]
		}
	}
	return in, nil
}

// What a stranger sends to a codec that panics of it is noted, and fails no workflow task.
func TestAnAnswerOfWhichACodecPanics(t *testing.T) {
	s := asking(oneAsk)
	s.codec = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), fragile{})
	b := newBench(t, s)
	b.signal(time.Hour, converter.NewRawValue(fragilePayload("x")))
	b.env.RegisterDelayedCallback(func() {
		l := b.list()
		require.Len(t, l.Pending, 1)
		require.Len(t, l.Ignored, 1)
		require.Contains(t, l.Ignored[0].Why, "panicked")
	}, 2*time.Hour)
	b.answer(3*time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK"}, b.codes(res))
}

// outage is a converter of a team's own whose key service does not answer.
type outage struct{}

func (outage) Encoding() string { return "json/away" }

func (a outage) ToPayload(any) (*commonpb.Payload, error) {
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(a.Encoding())}}, nil
}

func (outage) FromPayload(*commonpb.Payload, any) error {
	return converter.NewWorkflowTaskFailureError(errors.New("the key service does not answer"))
}

func (outage) ToString(*commonpb.Payload) string { return "" }

// An update that cannot be decoded now is refused, and its sender sees nothing of the worker.
func TestAnUpdateThatCannotBeDecodedNow(t *testing.T) {
	s := asking(oneAsk)
	s.codec = converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(), converter.NewByteSlicePayloadConverter(),
		converter.NewJSONPayloadConverter(), outage{})
	b := newBench(t, s)
	var out outcome
	b.env.RegisterDelayedCallback(func() {
		p, err := outage{}.ToPayload(nil)
		require.NoError(t, err)
		b.env.UpdateWorkflow(protocol.UpdateResolve, "", &out, converter.NewRawValue(p))
	}, time.Hour)
	b.answer(3*time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.ErrorContains(t, out.rejected, "it cannot be decoded now")
	require.NotContains(t, out.rejected.Error(), "panic")
}
