package workflows_test

import (
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
