package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/protocol"
)

// The encodings are known by name where the SDK is not. Payloads of protobuf's binary form are no text, and what a codec made is none.
func TestThePlainEncodingsAreTheSDKs(t *testing.T) {
	for _, of := range []string{converter.MetadataEncodingJSON, converter.MetadataEncodingProtoJSON, converter.MetadataEncodingNil, converter.MetadataEncodingBinary} {
		require.True(t, protocol.PlainEncoding(of), of)
	}
	for _, of := range []string{converter.MetadataEncodingProto, "binary/encrypted", "", "JSON/PLAIN"} {
		require.False(t, protocol.PlainEncoding(of), of)
	}
}
