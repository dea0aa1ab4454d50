package openai

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

func (m *Model) askChat(ctx context.Context, r model.Request, progress func(model.Delta)) (model.Response, error) {
	params, err := m.chatParams(r)
	if err != nil {
		return model.Response{}, err
	}
	stream := m.chat.Completions.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	t := chatTurn{model: r.Model, progress: progress, at: map[int64]int{}}
	for stream.Next() {
		t.add(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return model.Response{}, m.failed(ctx, err)
	}
	return t.response()
}

// chatParams is the request on the wire.
func (m *Model) chatParams(r model.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{Model: r.Model, ReasoningEffort: shared.ReasoningEffort(m.cfg.Effort)}
	p.StreamOptions.IncludeUsage = sdk.Bool(true)
	switch {
	case r.MaxOutputTokens <= 0:
	case m.full():
		p.MaxCompletionTokens = sdk.Int(int64(r.MaxOutputTokens))
	default:
		p.MaxTokens = sdk.Int(int64(r.MaxOutputTokens))
	}
	system := m.system(r)
	if len(r.OutputSchema) > 0 && m.full() {
		_, strict := model.Strict(r.OutputSchema)
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: outputName, Schema: r.OutputSchema, Strict: sdk.Bool(strict)}}
	}
	if system != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(system))
	}
	some := len(p.Messages)
	for _, msg := range model.Paired(r.Messages) {
		p.Messages = append(p.Messages, chatMessages(r.Model, msg)...)
	}
	if len(p.Messages) == some {
		return p, &model.Error{Kind: endpoint.KindBadRequest, Msg: "there is nothing to answer"}
	}
	for _, t := range r.Tools {
		raw, err := json.Marshal(struct {
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters"`
		}{t.Name, t.Description, t.Parameters})
		if err != nil {
			return p, &model.Error{Kind: endpoint.KindBadRequest, Msg: "the schema of tool " + t.Name + " is no JSON"}
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(param.Override[shared.FunctionDefinitionParam](json.RawMessage(raw))))
	}
	return p, nil
}

// outputName is what the provider calls the schema of an output; it wants a name.
const outputName = "output"

// system is the system prompt, with the schema of the output if there is no better way to ask for it.
func (m *Model) system(r model.Request) string {
	if len(r.OutputSchema) == 0 || m.full() {
		return r.System
	}
	return strings.TrimSpace(r.System + "\n\n" + model.AskedFor(r.OutputSchema))
}

// chatKept is the form of model.Message.Opaque: reasoning that a server showed, under the name that it has for it. Some
// servers want it back while a model works with tools.
type chatKept struct {
	API       string `json:"api"`
	Model     string `json:"model"`
	Field     string `json:"field"`
	Reasoning string `json:"reasoning"`
}

// chatMessages is what one message of a conversation is on the wire: one for each result.
func chatMessages(name string, msg model.Message) []sdk.ChatCompletionMessageParamUnion {
	switch msg.Role {
	case model.Tool:
		out := make([]sdk.ChatCompletionMessageParamUnion, len(msg.Results))
		for i, r := range msg.Results {
			text, _ := model.Told(r.Result)
			if images := model.Unshown(r.Result); images != "" {
				// Here a result is text alone.
				text = strings.TrimPrefix(text+"\n"+images, "\n")
			}
			out[i] = sdk.ToolMessage(text, r.CallID)
		}
		return out
	case model.Assistant:
		if msg.Text == "" && len(msg.Calls) == 0 {
			return nil
		}
		a := &sdk.ChatCompletionAssistantMessageParam{}
		if msg.Text != "" {
			a.Content.OfString = sdk.String(msg.Text)
		}
		for _, c := range msg.Calls {
			a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Input)}}})
		}
		var k chatKept
		if json.Unmarshal(msg.Opaque, &k) == nil && k.API == Chat && k.Model == name && k.Field != "" && len(msg.Calls) > 0 {
			a.SetExtraFields(map[string]any{k.Field: k.Reasoning})
		}
		return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: a}}
	}
	if strings.TrimSpace(msg.Text) == "" {
		return nil
	}
	return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(msg.Text)}
}

// chatTurn is a turn as it comes.
type chatTurn struct {
	model    string
	progress func(model.Delta)

	text, refusal, reasoning strings.Builder
	// field is the name that the server has for reasoning.
	field string
	calls []*chatCall
	// at is the latest call of each number.
	at     map[int64]int
	finish string
	usage  sdk.CompletionUsage
}

type chatCall struct {
	id, name string
	input    strings.Builder
}

// reasoningFields are the names that servers have for reasoning.
var reasoningFields = []string{"reasoning_content", "reasoning"}

func (t *chatTurn) add(c sdk.ChatCompletionChunk) {
	if c.JSON.Usage.Valid() {
		t.usage = c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one was asked for
		}
		if choice.FinishReason != "" {
			t.finish = choice.FinishReason
		}
		d := choice.Delta
		if d.Content != "" {
			t.text.WriteString(d.Content)
			t.progress(model.Delta{Text: d.Content})
		}
		t.refusal.WriteString(d.Refusal)
		for _, field := range reasoningFields {
			var text string
			if extra, ok := d.JSON.ExtraFields[field]; ok && json.Unmarshal([]byte(extra.Raw()), &text) == nil && text != "" {
				t.field = field
				t.reasoning.WriteString(text)
				t.progress(model.Delta{Thinking: text})
				break
			}
		}
		for _, call := range d.ToolCalls {
			t.piece(call)
		}
	}
}

// piece adds to the call it belongs to. Some servers number all calls of a turn 0 and tell them apart by their ids.
func (t *chatTurn) piece(d sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	n, ok := t.at[d.Index]
	if !ok || d.ID != "" && t.calls[n].id != "" && t.calls[n].id != d.ID {
		n = len(t.calls)
		t.calls = append(t.calls, &chatCall{})
		t.at[d.Index] = n
	}
	c := t.calls[n]
	if c.id == "" {
		c.id = d.ID
	}
	begins := c.name == "" && d.Function.Name != ""
	if begins {
		c.name = d.Function.Name
	}
	c.input.WriteString(d.Function.Arguments)
	if begins || d.Function.Arguments != "" {
		t.progress(model.Delta{Call: &model.CallDelta{Index: n, Name: c.name, Input: d.Function.Arguments}})
	}
}

// response is the turn once it has ended.
func (t *chatTurn) response() (model.Response, error) {
	r := model.Response{Text: t.text.String(), Usage: model.Usage{InputTokens: t.usage.PromptTokens, OutputTokens: t.usage.CompletionTokens,
		CachedInputTokens: t.usage.PromptTokensDetails.CachedTokens, CacheWriteTokens: t.usage.PromptTokensDetails.CacheWriteTokens}}
	for i, c := range t.calls {
		call := model.ToolCall{ID: c.id, Name: c.name}
		arguments(&call, c.input.String(), t.finish == "length" && i == len(t.calls)-1)
		r.Calls = append(r.Calls, call)
	}
	switch {
	case t.finish == "":
		return model.Response{}, endpoint.Cut()
	case t.finish == "length":
		r.Stop = model.StopMaxTokens
	case t.finish == "content_filter", t.refusal.Len() > 0:
		r.Stop = model.StopRefusal
	case len(r.Calls) > 0:
		r.Stop = model.StopToolUse // some servers call it stop
	default:
		r.Stop = model.StopEnd
	}
	if r.Text == "" {
		r.Text = t.refusal.String()
	}
	if t.field != "" && len(r.Calls) > 0 {
		r.Opaque, _ = json.Marshal(chatKept{API: Chat, Model: t.model, Field: t.field, Reasoning: t.reasoning.String()}) // text has a JSON form
	}
	return r, nil
}
