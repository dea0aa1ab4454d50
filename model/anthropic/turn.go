package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

// turn is a turn as it comes.
type turn struct {
	model    string
	progress func(model.Delta)

	blocks []*block
	calls  int
	stop   sdk.StopReason
	detail sdk.RefusalStopDetails
	usage  model.Usage
	// cached and written are the parts of the input that the cache had and got.
	uncached, cached, written int64
}

// block is one content block as it comes.
type block struct {
	kind     string
	raw      map[string]json.RawMessage
	id, name string
	call     int
	// text is what deltas said of its text or thinking, input of its arguments.
	text, signature, input strings.Builder
	citations              []json.RawMessage
}

// add takes one event. The SDK has dropped pings and made an error of errors.
func (t *turn) add(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		t.uncached, t.cached, t.written, t.usage.OutputTokens = u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens
	case "content_block_start":
		return t.start(e)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= int64(len(t.blocks)) {
			return malformed("a piece of block %d, of %d", e.Index, len(t.blocks))
		}
		t.delta(t.blocks[e.Index], e)
	case "message_delta":
		t.stop, t.detail = e.Delta.StopReason, e.Delta.StopDetails
		u := e.Usage
		// They are totals; those that do not apply are left out.
		t.usage.OutputTokens = u.OutputTokens
		if u.JSON.InputTokens.Valid() {
			t.uncached = u.InputTokens
		}
		if u.JSON.CacheReadInputTokens.Valid() {
			t.cached = u.CacheReadInputTokens
		}
		if u.JSON.CacheCreationInputTokens.Valid() {
			t.written = u.CacheCreationInputTokens
		}
	}
	return nil
}

func malformed(format string, args ...any) error {
	return &model.Error{Kind: endpoint.KindBadResponse, Msg: "malformed stream: " + fmt.Sprintf(format, args...), Retry: true}
}

func (t *turn) start(e sdk.MessageStreamEventUnion) error {
	if e.Index != int64(len(t.blocks)) {
		return malformed("block %d begins where %d should", e.Index, len(t.blocks))
	}
	b := &block{kind: e.ContentBlock.Type, id: e.ContentBlock.ID, name: e.ContentBlock.Name}
	if err := json.Unmarshal([]byte(e.ContentBlock.RawJSON()), &b.raw); err != nil {
		return malformed("block %d is no object", e.Index)
	}
	if b.kind == "" {
		// It could not be sent back.
		return malformed("block %d has no type", e.Index)
	}
	t.blocks = append(t.blocks, b)
	b.text.WriteString(e.ContentBlock.Text + e.ContentBlock.Thinking)
	b.signature.WriteString(e.ContentBlock.Signature)
	switch {
	case b.kind == "tool_use":
		b.call = t.calls
		t.calls++
		t.progress(model.Delta{Call: &model.CallDelta{Index: b.call, Name: b.name}})
	case e.ContentBlock.Text != "":
		t.progress(model.Delta{Text: e.ContentBlock.Text})
	}
	return nil
}

func (t *turn) delta(b *block, e sdk.MessageStreamEventUnion) {
	d := e.Delta
	switch d.Type {
	case "text_delta":
		b.text.WriteString(d.Text)
		t.progress(model.Delta{Text: d.Text})
	case "thinking_delta":
		b.text.WriteString(d.Thinking)
		t.progress(model.Delta{Thinking: d.Thinking})
	case "signature_delta":
		b.signature.WriteString(d.Signature)
	case "input_json_delta":
		if b.input.WriteString(d.PartialJSON); d.PartialJSON != "" && b.kind == "tool_use" {
			t.progress(model.Delta{Call: &model.CallDelta{Index: b.call, Name: b.name, Input: d.PartialJSON}})
		}
	case "citations_delta":
		b.citations = append(b.citations, json.RawMessage(d.Citation.RawJSON()))
	}
}

// mostTokens is beyond what a request can hold; sums of larger numbers would overflow.
const mostTokens = 1 << 40

// response is the turn once it has ended.
func (t *turn) response() (model.Response, error) {
	if t.stop == "" {
		return model.Response{}, endpoint.Cut()
	}
	r := model.Response{Usage: t.usage}
	for _, n := range []*int64{&t.uncached, &t.cached, &t.written} {
		*n = min(max(*n, 0), mostTokens)
	}
	r.Usage.InputTokens = t.uncached + t.cached + t.written
	r.Usage.CachedInputTokens, r.Usage.CacheWriteTokens = t.cached, t.written
	switch t.stop {
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence:
		r.Stop = model.StopEnd
	case sdk.StopReasonToolUse:
		r.Stop = model.StopToolUse
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		r.Stop = model.StopMaxTokens
	case sdk.StopReasonRefusal:
		r.Stop = model.StopRefusal
	default:
		return model.Response{}, &model.Error{Kind: endpoint.KindBadResponse, Msg: fmt.Sprintf("unknown stop reason %q", clip(string(t.stop)))}
	}
	t.collect(&r)
	if r.Stop == model.StopRefusal && strings.TrimSpace(r.Text) == "" {
		r.Text = t.detail.Explanation
	}
	return r, nil
}

// collect makes text and calls of the blocks, and keeps the blocks if text and calls alone would not give them again.
func (t *turn) collect(r *model.Response) {
	k := kept{API: api, Model: t.model}
	var all strings.Builder
	texts, plain := 0, true
	for i, b := range t.blocks {
		switch b.kind {
		case "text":
			text := b.text.String()
			if strings.TrimSpace(text) == "" {
				continue // it could not be sent back
			}
			plain = plain && texts == 0 && len(r.Calls) == 0 && len(b.citations) == 0
			texts++
			all.WriteString(text)
			k.Blocks = append(k.Blocks, keptBlock{Raw: b.verbatim()})
		case "tool_use":
			n := len(r.Calls)
			r.Calls = append(r.Calls, b.asCall(r.Stop == model.StopMaxTokens && i == len(t.blocks)-1))
			k.Blocks = append(k.Blocks, keptBlock{Call: &n})
		default:
			plain = false
			k.Blocks = append(k.Blocks, keptBlock{Raw: b.verbatim()})
		}
	}
	r.Text = all.String()
	if !plain {
		r.Opaque, _ = json.Marshal(k) // strings and JSON have a JSON form
	}
}

// asCall is the call; its arguments may be cut.
func (b *block) asCall(last bool) model.ToolCall {
	c := model.ToolCall{ID: b.id, Name: b.name}
	in := b.input.String()
	switch whole := string(b.raw["input"]); {
	case in == "" && last:
		// The turn ended before the first of its arguments: that is not a call without arguments.
		c.Raw = "{"
	case in == "" && whole != "" && whole != "null":
		c.Input = json.RawMessage(whole)
	case in == "":
		c.Input = json.RawMessage(`{}`)
	case json.Valid([]byte(in)):
		c.Input = json.RawMessage(in)
	default:
		c.Raw = in
	}
	return c
}

// verbatim is the block as the provider would have sent it at once.
func (b *block) verbatim() json.RawMessage {
	set := func(key string, v any) {
		if raw, err := json.Marshal(v); err == nil {
			b.raw[key] = raw
		}
	}
	switch b.kind {
	case "text":
		set("text", b.text.String())
		if len(b.citations) > 0 {
			set("citations", b.citations)
		}
	case "thinking":
		set("thinking", b.text.String())
		set("signature", b.signature.String())
	default:
		if in := b.input.String(); in != "" && json.Valid([]byte(in)) {
			b.raw["input"] = json.RawMessage(in)
		}
	}
	raw, _ := json.Marshal(b.raw) // it was JSON
	return raw
}

// clip bounds what a provider says in a word.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 100)], "") }
