package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// The forms of OpenAI's Responses API, as far as the driver uses them.
type (
	responsesRequest struct {
		Model           string         `json:"model"`
		Instructions    string         `json:"instructions"`
		Input           []responseItem `json:"input"`
		Stream          bool           `json:"stream"`
		Store           *bool          `json:"store"`
		Include         []string       `json:"include"`
		MaxOutputTokens int64          `json:"max_output_tokens"`
		Reasoning       *struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
		Tools []struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      *bool           `json:"strict"`
		} `json:"tools"`
		Text *struct {
			Format struct {
				Type   string          `json:"type"`
				Name   string          `json:"name"`
				Schema json.RawMessage `json:"schema"`
				Strict bool            `json:"strict"`
			} `json:"format"`
		} `json:"text"`
	}
	responseItem struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		Status    string          `json:"status"`
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Output    json.RawMessage `json:"output"`
		Summary   []any           `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}
)

func (req *request) readResponses(body []byte) error {
	var in responsesRequest
	if err := strictly(body, &in); err != nil {
		return err
	}
	req.Model, req.System, req.MaxOutputTokens = in.Model, in.Instructions, int(in.MaxOutputTokens)
	req.thinking = slices.Contains(in.Include, "reasoning.encrypted_content")
	if !in.Stream || in.Store == nil || *in.Store || in.Model == "" {
		return errors.New("stream, store: false and model are wanted")
	}
	for _, t := range in.Tools {
		if t.Type != "function" || t.Strict == nil {
			return fmt.Errorf("the tool %s has no type or strict", t.Name)
		}
		req.Tools = append(req.Tools, model.Spec{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	if in.Text != nil {
		req.OutputSchema = in.Text.Format.Schema
	}
	t := transcript{request: req}
	for i, item := range in.Input {
		if err := t.add(item); err != nil {
			return fmt.Errorf("input.%d: %w", i, err)
		}
	}
	return t.flush()
}

// transcript makes messages of items. What the assistant said comes in several; the turn ends with what others say.
type transcript struct {
	*request
	said     *model.Message
	thoughts int
}

func (t *transcript) add(item responseItem) error {
	if item.Type == "reasoning" || item.Type == "function_call" || item.Role == "assistant" {
		if t.said == nil {
			t.said, t.thoughts = &model.Message{Role: model.Assistant}, 0
		}
		return t.assistant(item)
	}
	if err := t.flush(); err != nil {
		return err
	}
	switch n := len(t.Messages); {
	case item.Type == "function_call_output":
		if n == 0 || t.Messages[n-1].Role != model.Tool {
			t.Messages = append(t.Messages, model.Message{Role: model.Tool})
			n++
		}
		res, err := item.returned()
		if err != nil {
			return err
		}
		t.Messages[n-1].Results = append(t.Messages[n-1].Results, res)
	case item.Role == "user":
		var text string
		if err := json.Unmarshal(item.Content, &text); err != nil {
			return err
		}
		t.Messages = append(t.Messages, model.Message{Role: model.User, Text: text})
	default:
		return fmt.Errorf("an item %q of %q", item.Type, item.Role)
	}
	return nil
}

// returned reads a result: text, or a list of text and images.
func (item responseItem) returned() (model.ToolResult, error) {
	var text string
	if json.Unmarshal(item.Output, &text) == nil {
		return result(item.CallID, text), nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL string `json:"image_url"`
	}
	if err := strictly(item.Output, &parts); err != nil {
		return model.ToolResult{}, err
	}
	var images []tool.Image
	for _, p := range parts {
		kind, data, ok := strings.Cut(strings.TrimPrefix(p.ImageURL, "data:"), ";base64,")
		raw, err := base64.StdEncoding.DecodeString(data)
		switch {
		case p.Type == "input_text" && p.Text != "":
			text += p.Text
		case p.Type == "input_image" && ok && err == nil:
			images = append(images, tool.Image{MediaType: kind, Data: raw})
		default:
			return model.ToolResult{}, fmt.Errorf("a part %q of a result", p.Type)
		}
	}
	res := result(item.CallID, text)
	res.Result.Images = images
	return res, nil
}

func (t *transcript) assistant(item responseItem) error {
	switch item.Type {
	case "reasoning":
		t.thoughts++
		if item.Encrypted != signed(t.turns) || len(t.said.Calls) > 0 || t.said.Text != "" {
			return errors.New("the encrypted content could not be verified")
		}
	case "function_call":
		t.said.Calls = append(t.said.Calls, model.ToolCall{ID: item.CallID, Name: item.Name, Input: json.RawMessage(item.Arguments)})
	default:
		var text string
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(item.Content, &text) == nil {
			t.said.Text += text
			return nil
		}
		if err := json.Unmarshal(item.Content, &parts); err != nil {
			return err
		}
		for _, p := range parts {
			if p.Type != "output_text" || item.ID == "" || item.Status == "" {
				return errors.New("what the assistant said is no output message")
			}
			t.said.Text += p.Text
		}
	}
	return nil
}

func (t *transcript) flush() error {
	if t.said == nil {
		return nil
	}
	if t.lacks(t.thoughts) {
		return fmt.Errorf("turn %d came back with %d items of reasoning", t.turns, t.thoughts)
	}
	t.Messages = append(t.Messages, *t.said)
	t.turns++
	t.said = nil
	return nil
}

// responsesEvents is a turn in the events of the API.
func responsesEvents(req request, resp model.Response) []Event {
	var out []Event
	send := func(kind string, more object) {
		more["type"], more["sequence_number"] = kind, len(out)
		out = append(out, Event{kind, more})
	}
	whole := func(status string, output []any, more object) object {
		r := object{"id": "resp_1", "object": "response", "created_at": 1764583200, "status": status, "error": nil, "incomplete_details": nil,
			"model": req.Model, "output": output, "parallel_tool_calls": true, "store": false, "usage": nil}
		for k, v := range more {
			r[k] = v
		}
		return r
	}
	send("response.created", object{"response": whole("in_progress", []any{}, nil)})
	var output []any
	item := func(began, done object, deltas func(at int)) {
		at := len(output)
		send("response.output_item.added", object{"output_index": at, "item": began})
		deltas(at)
		send("response.output_item.done", object{"output_index": at, "item": done})
		output = append(output, done)
	}
	if req.thinking {
		r := object{"type": "reasoning", "id": "rs_1", "summary": []any{object{"type": "summary_text", "text": thought(req.turns)}}, "encrypted_content": signed(req.turns)}
		item(object{"type": "reasoning", "id": "rs_1", "summary": []any{}}, r, func(at int) {
			for _, p := range pieces(thought(req.turns)) {
				send("response.reasoning_summary_text.delta", object{"item_id": "rs_1", "output_index": at, "summary_index": 0, "delta": p})
			}
		})
	}
	status, reason := "completed", any(nil)
	switch resp.Stop {
	case model.StopMaxTokens:
		status, reason = "incomplete", object{"reason": "max_output_tokens"}
	case model.StopRefusal:
		status, reason = "incomplete", object{"reason": "content_filter"}
	}
	if resp.Text != "" {
		message := func(status string, content ...any) object {
			return object{"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": append([]any{}, content...)}
		}
		item(message("in_progress"), message(status, object{"type": "output_text", "text": resp.Text, "annotations": []any{}}), func(at int) {
			for _, p := range pieces(resp.Text) {
				send("response.output_text.delta", object{"item_id": "msg_1", "output_index": at, "content_index": 0, "delta": p, "logprobs": []any{}})
			}
		})
	}
	for i, c := range resp.Calls {
		id := fmt.Sprintf("fc_%d", i+1)
		call := func(status, arguments string) object {
			return object{"type": "function_call", "id": id, "call_id": c.ID, "name": c.Name, "arguments": arguments, "status": status}
		}
		item(call("in_progress", ""), call(status, rawArguments(c)), func(at int) {
			for _, p := range pieces(rawArguments(c)) {
				send("response.function_call_arguments.delta", object{"item_id": id, "output_index": at, "delta": p})
			}
			send("response.function_call_arguments.done", object{"item_id": id, "output_index": at, "name": c.Name, "arguments": rawArguments(c)})
		})
	}
	u := resp.Usage
	send("response."+status, object{"response": whole(status, output, object{"incomplete_details": reason, "usage": object{
		"input_tokens": u.InputTokens, "input_tokens_details": object{"cached_tokens": u.CachedInputTokens, "cache_write_tokens": u.CacheWriteTokens},
		"output_tokens": u.OutputTokens, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": u.InputTokens + u.OutputTokens}})})
	return out
}
