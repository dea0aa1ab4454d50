package garbage

import (
	"context"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/storage"
)

// plain are the encodings in which a hash is there to be seen.
var plain = map[string]bool{
	converter.MetadataEncodingJSON: true, converter.MetadataEncodingProtoJSON: true, converter.MetadataEncodingProto: true,
	converter.MetadataEncodingBinary: true, converter.MetadataEncodingNil: true,
}

// EncodingError reports a payload that a codec has made unreadable.
type EncodingError struct {
	EventID  int64
	Encoding string
}

func (e *EncodingError) Error() string {
	return fmt.Sprintf("event %d has a payload of encoding %q", e.EventID, e.Encoding)
}

// read adds the hashes that an event has, in its offloaded payloads too, and those of the blobs that hold them.
func (o Options) read(ctx context.Context, e *historypb.HistoryEvent, found map[string]bool) error {
	whole, err := storage.Restore(ctx, e, o.Drivers...)
	if err != nil {
		return err
	}
	err = storage.Payloads(whole, func(p *commonpb.Payload) error {
		p, err := o.decoded(p)
		if err != nil {
			return fmt.Errorf("decode a payload of event %d: %w", e.GetEventId(), err)
		}
		if encoding := string(p.GetMetadata()[converter.MetadataEncoding]); len(p.GetData()) > 0 && !plain[encoding] {
			return &EncodingError{EventID: e.GetEventId(), Encoding: encoding}
		}
		hashes(p.GetData(), found)
		return nil
	})
	if err != nil {
		return err
	}
	// As it is: that is where the blobs of offloaded payloads are named.
	data, err := proto.Marshal(e)
	hashes(data, found)
	return err
}

// decoded takes the codecs off; what they leave as it is was not encoded by them.
func (o Options) decoded(p *commonpb.Payload) (*commonpb.Payload, error) {
	for _, c := range o.Codecs {
		out, err := c.Decode([]*commonpb.Payload{p})
		if err != nil {
			return nil, err
		}
		if len(out) != 1 || out[0] == nil {
			return nil, fmt.Errorf("a codec made %d payloads of one", len(out))
		}
		p = out[0]
	}
	return p, nil
}

// length is that of a hash in hex digits.
const length = 64

// mostHex bounds the runs of hex digits in which a hash is looked for: longer ones are other data.
const mostHex = 512

// hashes adds every 64 lower-case hex digits in a row. More of them in a row may hold one: in protobuf the byte before or
// after a text can look like a digit.
func hashes(data []byte, found map[string]bool) {
	n := 0
	for i := 0; i <= len(data); i++ {
		if i < len(data) && (data[i] >= '0' && data[i] <= '9' || data[i] >= 'a' && data[i] <= 'f') {
			n++
			continue
		}
		for at := i - n; n <= mostHex && at+length <= i; at++ {
			found[string(data[at:at+length])] = true
		}
		n = 0
	}
}
