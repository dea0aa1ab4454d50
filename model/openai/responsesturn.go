package openai

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

// responsesTurn is a turn as it comes.
type responsesTurn struct {
	model    string
	progress func(model.Delta)

	// items are those that are done, calls those that began, by their place.
	items map[int64]responses.ResponseOutputItemUnion
	calls map[int64]*model.CallDelta
	// last is the response as the last event told it, once the turn has ended.
	last *responses.Response
	// incomplete says that it ended before the model was done.
	incomplete bool
	failure    *endpoint.Failure
}

func (t *responsesTurn) add(e responses.ResponseStreamEventUnion) {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		t.progress(model.Delta{Text: e.Delta})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		t.progress(model.Delta{Thinking: e.Delta})
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			c := &model.CallDelta{Index: len(t.calls), Name: e.Item.Name}
			t.calls[e.OutputIndex] = c
			t.progress(model.Delta{Call: c})
		}
	case "response.function_call_arguments.delta":
		if c, ok := t.calls[e.OutputIndex]; ok && e.Delta != "" {
			t.progress(model.Delta{Call: &model.CallDelta{Index: c.Index, Name: c.Name, Input: e.Delta}})
		}
	case "response.output_item.done":
		t.items[e.OutputIndex] = e.Item
	case "response.completed", "response.incomplete":
		t.last, t.incomplete = &e.Response, e.Type == "response.incomplete" || e.Response.Status == responses.ResponseStatusIncomplete
	case "response.failed":
		code := string(e.Response.Error.Code)
		t.failure = &endpoint.Failure{Words: []string{code}, Message: cmp.Or(e.Response.Error.Message, code)}
	case "error":
		t.failure = &endpoint.Failure{Words: []string{e.Code}, Message: cmp.Or(e.Message, e.Code)}
	}
}

// response is the turn once it has ended.
func (t *responsesTurn) response() (model.Response, error) {
	if t.last == nil {
		return model.Response{}, endpoint.Cut()
	}
	u := t.last.Usage
	r := model.Response{Usage: model.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CachedInputTokens: u.InputTokensDetails.CachedTokens, CacheWriteTokens: u.InputTokensDetails.CacheWriteTokens}}
	refused := false
	switch reason := t.last.IncompleteDetails.Reason; {
	case reason == "content_filter":
		refused = true
	case reason != "" || t.incomplete:
		r.Stop = model.StopMaxTokens
	default:
		r.Stop = model.StopEnd
	}
	items := t.last.Output
	if len(items) == 0 {
		// Some servers leave them out of the last event.
		for _, at := range slices.Sorted(maps.Keys(t.items)) {
			items = append(items, t.items[at])
		}
	}
	if t.collect(&r, items) {
		refused = true
	}
	switch {
	case refused:
		r.Stop = model.StopRefusal
	case r.Stop == model.StopEnd && len(r.Calls) > 0:
		r.Stop = model.StopToolUse
	}
	return r, nil
}

// collect makes text and calls of the items, keeps them if text and calls alone would not give them again, and reports a
// refusal.
func (t *responsesTurn) collect(r *model.Response, items []responses.ResponseOutputItemUnion) (refused bool) {
	k := kept{API: Responses, Model: t.model}
	plain, messages := true, 0
	var all, refusal strings.Builder
	for i, item := range items {
		switch item.Type {
		case "function_call":
			n := len(r.Calls)
			call := model.ToolCall{ID: item.CallID, Name: item.Name}
			text := item.Arguments.OfString
			if raw := item.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") {
				text = raw // some servers send the object itself
			}
			arguments(&call, text, r.Stop == model.StopMaxTokens && i == len(items)-1)
			r.Calls = append(r.Calls, call)
			k.Items = append(k.Items, keptItem{Call: &n})
		case "message":
			before := all.Len()
			for _, c := range item.Content {
				all.WriteString(c.Text)
				refusal.WriteString(c.Refusal)
			}
			if all.Len() == before {
				continue
			}
			plain = plain && messages == 0 && len(r.Calls) == 0 && item.Phase == ""
			messages++
			k.Items = append(k.Items, keptItem{Raw: json.RawMessage(item.RawJSON())})
		case "reasoning":
			// Without its content it would be a reference to what is not stored.
			if item.EncryptedContent != "" {
				plain = false
				k.Items = append(k.Items, keptItem{Raw: json.RawMessage(item.RawJSON())})
			}
		}
	}
	if r.Text = all.String(); r.Text == "" {
		r.Text = refusal.String()
	}
	// A cut item is not sent back as if it were whole.
	if !plain && r.Stop != model.StopMaxTokens {
		r.Opaque, _ = json.Marshal(k) // it was JSON
	}
	return refusal.Len() > 0
}

// valid is the text of arguments as JSON, or as what it is.
func valid(text string) (input json.RawMessage, raw string) {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), ""
	}
	return nil, text
}
