package verify

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/storage"
)

// answer keeps what somebody answered, as the workflow would read it if the key that it names were pending.
func (r *record) answer(event int64, args *commonpb.Payloads, signal bool) {
	data := r.sent(args)
	key := named(data)
	resolutions, err := approval.Decode(data, []string{key}, nil)
	if err != nil {
		return
	}
	for _, res := range resolutions {
		r.answers[key] = append(r.answers[key], answer{Resolution: res, event: event, signal: signal})
	}
}

// sent is the JSON of an answer. People may send it in plain JSON although the team's codec encrypts, and takes nothing else.
func (r *record) sent(args *commonpb.Payloads) []byte {
	if len(args.GetPayloads()) == 0 {
		return nil
	}
	if _, _, elsewhere := storage.Claimed(args.GetPayloads()[0]); elsewhere {
		return nil
	}
	p := args.GetPayloads()[0]
	if plain(p) {
		return p.GetData()
	}
	return r.opened(args, r.value(p))
}

func plain(p *commonpb.Payload) bool {
	return protocol.PlainEncoding(string(p.GetMetadata()[converter.MetadataEncoding]))
}

// opened is the JSON of an answer without its codec. One in an encoding of the team's own is read by its converter.
func (r *record) opened(args *commonpb.Payloads, p *commonpb.Payload) []byte {
	var res approval.Resolution
	if p == nil || plain(p) || !r.decode(args, &res) {
		return p.GetData()
	}
	text, _ := json.Marshal(res) // nil if it fails
	return text
}

// named is the key that an answer names; empty for a bare word.
func named(data []byte) string {
	var text string
	if len(data) > approval.MaxAnswer {
		return ""
	}
	if json.Unmarshal(data, &text) == nil {
		data = []byte(text)
	}
	var members map[string]json.RawMessage
	var key string
	if json.Unmarshal(data, &members) != nil || json.Unmarshal(members["key"], &key) != nil {
		return ""
	}
	return key
}
