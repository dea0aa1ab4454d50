package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assent-dev/assent/model"
)

// The forms of OpenAI's Chat Completions API, as far as the driver uses them, and what other servers added for reasoning.
type (
	chatRequest struct {
		Model         string        `json:"model"`
		Messages      []chatMessage `json:"messages"`
		Stream        bool          `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		MaxTokens           int64  `json:"max_tokens"`
		MaxCompletionTokens int64  `json:"max_completion_tokens"`
		ReasoningEffort     string `json:"reasoning_effort"`
		Tools               []struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		ResponseFormat *struct {
			Type       string `json:"type"`
			JSONSchema struct {
				Name   string          `json:"name"`
				Schema json.RawMessage `json:"schema"`
				Strict bool            `json:"strict"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	chatMessage struct {
		Role       string     `json:"role"`
		Content    *string    `json:"content"`
		ToolCalls  []chatCall `json:"tool_calls"`
		ToolCallID string     `json:"tool_call_id"`
		Reasoning  *string    `json:"reasoning_content"`
	}
	chatCall struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
)

func (req *request) readChat(body []byte) error {
	var in chatRequest
	if err := strictly(body, &in); err != nil {
		return err
	}
	req.Model, req.MaxOutputTokens, req.thinking = in.Model, int(max(in.MaxTokens, in.MaxCompletionTokens)), true
	switch {
	case !in.Stream, !in.StreamOptions.IncludeUsage, in.Model == "":
		return errors.New("stream, usage and model are wanted")
	case in.MaxTokens > 0 && in.MaxCompletionTokens > 0:
		return errors.New("max_tokens and max_completion_tokens at the same time")
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, model.Spec{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	if in.ResponseFormat != nil {
		req.OutputSchema = in.ResponseFormat.JSONSchema.Schema
	}
	for i, m := range in.Messages {
		if err := req.chat(i, m); err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	return nil
}

func (r *request) chat(i int, m chatMessage) error {
	text := ""
	if m.Content != nil {
		text = *m.Content
	}
	switch m.Role {
	case "system":
		if i != 0 {
			return errors.New("the system speaks first")
		}
		r.System = text
	case "user":
		r.Messages = append(r.Messages, model.Message{Role: model.User, Text: text})
	case "tool":
		n := len(r.Messages)
		if n == 0 || r.Messages[n-1].Role != model.Tool {
			r.Messages = append(r.Messages, model.Message{Role: model.Tool})
			n++
		}
		r.Messages[n-1].Results = append(r.Messages[n-1].Results, result(m.ToolCallID, text))
	case "assistant":
		out := model.Message{Role: model.Assistant, Text: text}
		for _, c := range m.ToolCalls {
			if c.Type != "function" {
				return fmt.Errorf("a call of type %q", c.Type)
			}
			out.Calls = append(out.Calls, model.ToolCall{ID: c.ID, Name: c.Function.Name, Input: json.RawMessage(c.Function.Arguments)})
		}
		thoughts := 0
		if m.Reasoning != nil {
			thoughts = 1
		}
		if len(out.Calls) > 0 && (r.lacks(thoughts) || thoughts == 1 && *m.Reasoning != thought(r.turns)) {
			return errors.New("the reasoning_content in the thinking mode must be passed back")
		}
		r.turns++
		r.Messages = append(r.Messages, out)
	default:
		return fmt.Errorf("the role %q", m.Role)
	}
	return nil
}

// chatEvents is a turn in the events of the API.
func chatEvents(req request, resp model.Response) []Event {
	var out []Event
	chunk := func(delta object, finish any) {
		out = append(out, Event{"", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764583200, "model": req.Model,
			"choices": []any{object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, "usage": nil}})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(thought(req.turns)) {
		chunk(object{"reasoning_content": p, "content": nil}, nil)
	}
	for _, p := range pieces(resp.Text) {
		chunk(object{"content": p}, nil)
	}
	for i, c := range resp.Calls {
		chunk(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, p := range pieces(rawArguments(c)) {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	chunk(object{}, map[model.Stop]string{model.StopEnd: "stop", model.StopToolUse: "tool_calls", model.StopMaxTokens: "length", model.StopRefusal: "content_filter"}[resp.Stop])
	u := resp.Usage
	out = append(out, Event{"", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764583200, "model": req.Model, "choices": []any{},
		"usage": object{"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
			"prompt_tokens_details": object{"cached_tokens": u.CachedInputTokens, "cache_write_tokens": u.CacheWriteTokens}}}})
	return append(out, Event{"", "[DONE]"})
}
