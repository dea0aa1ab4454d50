package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// The forms of Anthropic's Messages API, as far as the driver uses them.
type (
	messagesRequest struct {
		Model     string         `json:"model"`
		MaxTokens int64          `json:"max_tokens"`
		Stream    bool           `json:"stream"`
		System    []messageBlock `json:"system"`
		Messages  []struct {
			Role    string         `json:"role"`
			Content []messageBlock `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name         string          `json:"name"`
			Description  string          `json:"description"`
			InputSchema  json.RawMessage `json:"input_schema"`
			CacheControl *cacheControl   `json:"cache_control"`
		} `json:"tools"`
		ToolChoice *struct {
			Type string `json:"type"`
		} `json:"tool_choice"`
		Thinking *struct {
			Type string `json:"type"`
		} `json:"thinking"`
		OutputConfig *struct {
			Effort string `json:"effort"`
			Format *struct {
				Type   string          `json:"type"`
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	messageBlock struct {
		Type         string          `json:"type"`
		Text         string          `json:"text"`
		ID           string          `json:"id"`
		Name         string          `json:"name"`
		Input        json.RawMessage `json:"input"`
		ToolUseID    string          `json:"tool_use_id"`
		Content      []messageBlock  `json:"content"`
		IsError      bool            `json:"is_error"`
		Thinking     *string         `json:"thinking"`
		Signature    string          `json:"signature"`
		CacheControl *cacheControl   `json:"cache_control"`
		Source       *struct {
			Type      string `json:"type"`
			MediaType string `json:"media_type"`
			Data      []byte `json:"data"`
		} `json:"source"`
	}
	cacheControl struct {
		Type string `json:"type"`
		TTL  string `json:"ttl"`
	}
)

func (req *request) readMessages(body []byte) error {
	var in messagesRequest
	if err := strictly(body, &in); err != nil {
		return err
	}
	req.Model, req.MaxOutputTokens = in.Model, int(in.MaxTokens)
	req.thinking = in.Thinking != nil && in.Thinking.Type == "adaptive"
	marks := 0
	count := func(c *cacheControl) {
		if c != nil {
			marks++
		}
	}
	for _, b := range in.System {
		req.System += b.Text
		count(b.CacheControl)
	}
	none := in.ToolChoice != nil && in.ToolChoice.Type == "none"
	for _, t := range in.Tools {
		count(t.CacheControl)
		if !none {
			req.Tools = append(req.Tools, model.Spec{Name: t.Name, Description: t.Description, Parameters: t.InputSchema})
		}
	}
	if in.OutputConfig != nil && in.OutputConfig.Format != nil {
		req.OutputSchema = in.OutputConfig.Format.Schema
	}
	role := "assistant"
	for i, m := range in.Messages {
		if m.Role == role || len(m.Content) == 0 {
			return fmt.Errorf("messages.%d: the roles do not speak in turn, or one says nothing", i)
		}
		role = m.Role
		for _, b := range m.Content {
			count(b.CacheControl)
		}
		var err error
		if m.Role == "assistant" {
			err = req.assistant(m.Content, len(in.Tools) > 0)
		} else {
			err = req.user(m.Content)
		}
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	switch {
	case !in.Stream, in.MaxTokens <= 0, in.Model == "":
		return errors.New("stream, max_tokens and model are wanted")
	case marks > 4:
		return fmt.Errorf("%d blocks have cache_control, at most 4 may", marks)
	}
	return nil
}

// assistant reads what the assistant said.
func (r *request) assistant(content []messageBlock, tools bool) error {
	m := model.Message{Role: model.Assistant}
	thoughts := 0
	for i, b := range content {
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return errors.New("text content blocks must be non-empty")
			}
			m.Text += b.Text
		case "tool_use":
			if !tools {
				return errors.New("tool_use without tools")
			}
			m.Calls = append(m.Calls, model.ToolCall{ID: b.ID, Name: b.Name, Input: b.Input})
		case "thinking":
			thoughts++
			if i != 0 || b.Thinking == nil || *b.Thinking != thought(r.turns) || b.Signature != signed(r.turns) {
				return errors.New("invalid `signature` in `thinking` block")
			}
		default:
			return fmt.Errorf("an assistant's block %q", b.Type)
		}
	}
	if r.lacks(thoughts) {
		return fmt.Errorf("turn %d came back with %d blocks of thinking", r.turns, thoughts)
	}
	r.turns++
	r.Messages = append(r.Messages, m)
	return nil
}

// user reads results and what the user says after them.
func (r *request) user(content []messageBlock) error {
	results := model.Message{Role: model.Tool}
	var texts []model.Message
	for _, b := range content {
		switch {
		case b.Type == "tool_result" && len(texts) > 0:
			return errors.New("tool_result blocks come first")
		case b.Type == "tool_result":
			text := ""
			var images []tool.Image
			for _, inner := range b.Content {
				if s := inner.Source; inner.Type == "image" && s != nil && s.Type == "base64" {
					images = append(images, tool.Image{MediaType: s.MediaType, Data: s.Data})
					continue
				}
				if inner.Type != "text" || strings.TrimSpace(inner.Text) == "" {
					return errors.New("text content blocks must be non-empty")
				}
				text += inner.Text
			}
			res := result(b.ToolUseID, text)
			res.Result.Images = images
			if b.IsError == res.Result.IsOK() {
				return fmt.Errorf("is_error of %s is %v", text, b.IsError)
			}
			results.Results = append(results.Results, res)
		case b.Type == "text" && strings.TrimSpace(b.Text) != "":
			texts = append(texts, model.Message{Role: model.User, Text: b.Text})
		default:
			return fmt.Errorf("a user's block %q", b.Type)
		}
	}
	if len(results.Results) > 0 {
		r.Messages = append(r.Messages, results)
	}
	r.Messages = append(r.Messages, texts...)
	return nil
}

type object = map[string]any

// messagesEvents is a turn in the events of the API.
func messagesEvents(req request, resp model.Response) []Event {
	u := resp.Usage
	usage := object{"input_tokens": u.InputTokens - u.CachedInputTokens - u.CacheWriteTokens, "cache_read_input_tokens": u.CachedInputTokens,
		"cache_creation_input_tokens": u.CacheWriteTokens, "output_tokens": 1, "service_tier": "standard"}
	out := []Event{{"message_start", object{"type": "message_start", "message": object{"id": "msg_1", "type": "message", "role": "assistant",
		"model": req.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}}}, {"ping", object{"type": "ping"}}}
	index := 0
	block := func(start object, deltas ...object) {
		out = append(out, Event{"content_block_start", object{"type": "content_block_start", "index": index, "content_block": start}})
		for _, d := range deltas {
			out = append(out, Event{"content_block_delta", object{"type": "content_block_delta", "index": index, "delta": d}})
		}
		out = append(out, Event{"content_block_stop", object{"type": "content_block_stop", "index": index}})
		index++
	}
	if req.thinking {
		var deltas []object
		for _, p := range pieces(thought(req.turns)) {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": p})
		}
		block(object{"type": "thinking", "thinking": "", "signature": ""}, append(deltas, object{"type": "signature_delta", "signature": signed(req.turns)})...)
	}
	if resp.Text != "" {
		var deltas []object
		for _, p := range pieces(resp.Text) {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range resp.Calls {
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		for _, p := range pieces(rawArguments(c)) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
		}
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, deltas...)
	}
	stop := map[model.Stop]string{model.StopEnd: "end_turn", model.StopToolUse: "tool_use", model.StopMaxTokens: "max_tokens", model.StopRefusal: "refusal"}[resp.Stop]
	return append(out, Event{"message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": object{"output_tokens": u.OutputTokens}}}, Event{"message_stop", object{"type": "message_stop"}})
}
