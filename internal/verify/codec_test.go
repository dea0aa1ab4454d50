package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/internal/verify"
)

// fragile is a codec of a team's own that takes for granted that there is data.
type fragile struct{}

func (fragile) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) { return in, nil }

func (fragile) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range in {
		if string(p.GetMetadata()[converter.MetadataEncoding]) == "binary/fragile" {
			_ = p.GetData()[0]
		}
	}
	return in, nil
}

// What a stranger sent to a codec that panics of it is no answer, and the rest of the history is read.
func TestAnAnswerOfWhichACodecPanics(t *testing.T) {
	p := record(t, "asked-and-allowed")
	strange := signal(`{}`)
	strange.GetWorkflowExecutionSignaledEventAttributes().Input = &commonpb.Payloads{Payloads: []*commonpb.Payload{
		{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/fragile")}}}}
	p.insert(p.at(0, signaled), strange)
	r := verify.History(p.whole(), verify.Options{Converter: converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), fragile{})})
	require.Empty(t, r.Findings)
	require.NotEmpty(t, r.Calls)
}
