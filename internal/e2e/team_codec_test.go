package e2e

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// sealer is a payload codec as teams write them: AES-GCM over the whole payload.
type sealer struct {
	aead cipher.AEAD
	// strict refuses to decode what it did not encode.
	strict bool
	// bound binds payloads to the workflow they are for, as the SDK tells it.
	bound bool
	// place is the workflow that this copy is for.
	place string
	// fail is asked before each call, unless it is nil.
	fail *failing
}

const sealedEncoding = "binary/sealedEncoding"

func newSealer() *sealer {
	block, err := aes.NewCipher([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &sealer{aead: aead}
}

// converter encrypts what the SDK's default one encodes.
func (s *sealer) converter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), s)
}

func (s *sealer) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		if err := s.fail.check("encode", p); err != nil {
			return nil, err
		}
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, s.aead.NonceSize())
		rand.Read(nonce)
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(sealedEncoding)},
			Data: s.aead.Seal(nonce, nonce, plain, []byte(s.place))}
	}
	return out, nil
}

func (s *sealer) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		if err := s.fail.check("decode", p); err != nil {
			return nil, err
		}
		if string(p.GetMetadata()[converter.MetadataEncoding]) != sealedEncoding {
			if s.strict {
				return nil, errors.New("the payload is not encrypted")
			}
			out[i] = p
			continue
		}
		n := s.aead.NonceSize()
		if len(p.Data) < n {
			return nil, errors.New("the payload is too short")
		}
		plain, err := s.aead.Open(nil, p.Data[:n], p.Data[n:], []byte(s.place))
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// WithSerializationContext binds a copy to the workflow that the SDK names.
func (s *sealer) WithSerializationContext(sc converter.SerializationContext) converter.PayloadCodec {
	if !s.bound {
		return s
	}
	c := *s
	switch v := sc.(type) {
	case converter.WorkflowSerializationContext:
		c.place = v.Namespace + "/" + v.WorkflowID
	case converter.ActivitySerializationContext:
		c.place = v.Namespace + "/" + v.WorkflowID
	}
	return &c
}

// failing makes a codec fail.
type failing struct {
	mu sync.Mutex
	// when says for which calls, op being encode or decode.
	when func(op string, n int64, p *commonpb.Payload) bool
	// retry asks the SDK to try the workflow task again, as a codec should that is away for a while. Without it the SDK
	// fails a run whose input cannot be decoded when it is replayed.
	retry bool
	// calls and failed count.
	calls, failed atomic.Int64
}

var errCodec = errors.New("the key service does not answer")

func (f *failing) check(op string, p *commonpb.Payload) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.calls.Add(1)
	if f.when == nil || !f.when(op, n, p) {
		return nil
	}
	f.failed.Add(1)
	if f.retry {
		return converter.NewWorkflowTaskFailureError(errCodec)
	}
	return errCodec
}

// set changes when the codec fails; nil means never.
func (f *failing) set(when func(op string, n int64, p *commonpb.Payload) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.when = when
}

// reversed is a JSON converter that writes members in another order than Go does, and with white space.
type reversed struct {
	*converter.JSONPayloadConverter
}

func (r reversed) ToPayload(v any) (*commonpb.Payload, error) {
	p, err := r.JSONPayloadConverter.ToPayload(v)
	if err != nil || len(p.GetData()) == 0 || p.Data[0] != '{' {
		return p, err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(p.Data, &members); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("{ ")
	names := slices.Sorted(maps.Keys(members))
	slices.Reverse(names)
	for i, name := range names {
		if i > 0 {
			b.WriteString(" ,\n\t")
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteString(" :  ")
		b.Write(members[name])
	}
	b.WriteString(" }")
	return &commonpb.Payload{Metadata: p.Metadata, Data: b.Bytes()}, nil
}

// otherOrder is the SDK's default converter with that JSON.
func otherOrder() converter.DataConverter {
	return converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(), converter.NewByteSlicePayloadConverter(),
		converter.NewProtoJSONPayloadConverter(), converter.NewProtoPayloadConverter(), reversed{converter.NewJSONPayloadConverter()})
}

// renaming is a converter of a team's own: JSON with other names of members, under an encoding of its own.
type renaming struct{}

func (renaming) Encoding() string { return "json/renamed" }

func (r renaming) ToPayload(v any) (*commonpb.Payload, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	text, err = renamed(text, func(name string) string { return "_" + name })
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(r.Encoding())}, Data: text}, err
}

func (renaming) FromPayload(p *commonpb.Payload, v any) error {
	text, err := renamed(p.GetData(), func(name string) string { return strings.TrimPrefix(name, "_") })
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

func (renaming) ToString(p *commonpb.Payload) string { return string(p.GetData()) }

// renamed gives all members of a JSON text other names.
func renamed(text []byte, name func(string) string) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var all any
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, one := range v {
				out[name(k)] = walk(one)
			}
			return out
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	return json.Marshal(walk(all))
}

func renamingConverter() converter.DataConverter {
	return converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(), converter.NewByteSlicePayloadConverter(),
		converter.NewProtoJSONPayloadConverter(), renaming{})
}

// packing is a converter of a team's own whose payloads are short and whose values are not: it writes a run of zeros as one character.
type packing struct{}

var zeros = bytes.Repeat([]byte("0"), 3<<20)

func (packing) Encoding() string { return "json/packed" }

func (c packing) ToPayload(v any) (*commonpb.Payload, error) {
	text, err := json.Marshal(v)
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(c.Encoding())},
		Data: bytes.ReplaceAll(text, zeros, []byte("@"))}, err
}

func (packing) FromPayload(p *commonpb.Payload, v any) error {
	return json.Unmarshal(bytes.ReplaceAll(p.GetData(), []byte("@"), zeros), v)
}

func (packing) ToString(p *commonpb.Payload) string { return string(p.GetData()) }
