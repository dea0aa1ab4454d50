package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

// defaultOutput bounds a turn if nobody else does; the API wants a bound.
const defaultOutput = 8192

// params is the request on the wire.
func (m *Model) params(r model.Request) (sdk.MessageNewParams, error) {
	p := sdk.MessageNewParams{Model: r.Model, MaxTokens: int64(r.MaxOutputTokens)}
	if p.MaxTokens <= 0 {
		p.MaxTokens = defaultOutput
	}
	switch m.cfg.Thinking {
	case ThinkingAdaptive:
		p.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{}
	case ThinkingDisabled:
		p.Thinking.OfDisabled = &sdk.ThinkingConfigDisabledParam{}
	}
	p.OutputConfig.Effort = sdk.OutputConfigEffort(m.cfg.Effort)
	system := r.System
	if len(r.OutputSchema) > 0 {
		if schema, ok := native(r.OutputSchema); ok {
			p.OutputConfig.Format.Schema = schema
		} else {
			system = strings.TrimSpace(system + "\n\n" + model.AskedFor(r.OutputSchema))
		}
	}
	if system != "" {
		p.System = []sdk.TextBlockParam{{Text: system}}
	}
	messages := model.Paired(r.Messages)
	for _, msg := range messages {
		m.add(&p, r.Model, msg)
	}
	if len(p.Messages) == 0 {
		return p, &model.Error{Kind: endpoint.KindBadRequest, Msg: "there is nothing to answer"}
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, toolParam(t.Name, t.Description, t.Parameters))
	}
	if len(r.Tools) == 0 {
		stand(&p, messages)
	}
	if m.cfg.Cache != CacheOff {
		cache(&p, sdk.CacheControlEphemeralParam{TTL: sdk.CacheControlEphemeralTTL(m.cfg.Cache)})
	}
	return p, nil
}

// native is a schema that the provider can hold a model to.
func native(raw json.RawMessage) (map[string]any, bool) {
	if closed, _ := model.Strict(raw); !closed {
		return nil, false
	}
	var schema map[string]any
	return schema, json.Unmarshal(raw, &schema) == nil
}

// add appends a message. Results and what the user says after them are one message: each role speaks in turn.
func (m *Model) add(p *sdk.MessageNewParams, name string, msg model.Message) {
	var blocks []sdk.ContentBlockParamUnion
	switch msg.Role {
	case model.Assistant:
		if blocks = said(name, msg); len(blocks) > 0 {
			p.Messages = append(p.Messages, sdk.NewAssistantMessage(blocks...))
		}
		return
	case model.Tool:
		for _, r := range msg.Results {
			blocks = append(blocks, returned(r))
		}
	default:
		if strings.TrimSpace(msg.Text) != "" {
			blocks = append(blocks, sdk.NewTextBlock(msg.Text))
		}
	}
	if len(blocks) == 0 {
		return
	}
	if n := len(p.Messages); n > 0 && p.Messages[n-1].OfUser != nil {
		last := p.Messages[n-1].OfUser
		last.Content = append(last.Content, blocks...)
		return
	}
	p.Messages = append(p.Messages, sdk.NewUserMessage(blocks...))
}

// returned is a result: its text, then its images.
func returned(r model.ToolResult) sdk.ContentBlockParamUnion {
	text, failed := model.Told(r.Result)
	b := sdk.NewToolResultBlock(r.CallID, text, failed)
	content := b.OfToolResult.Content
	if strings.TrimSpace(text) == "" {
		content = nil
	}
	images, others := model.Shown(r.Result)
	if others != "" {
		content = append(content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: others}})
	}
	for _, i := range images {
		image := sdk.NewImageBlockBase64(i.MediaType, base64.StdEncoding.EncodeToString(i.Data))
		content = append(content, sdk.ToolResultBlockParamContentUnion{OfImage: image.OfImage})
	}
	b.OfToolResult.Content = content
	return b
}

// said is what the assistant said: its own blocks if the same model is asked again, else its text and its calls.
func said(name string, msg model.Message) []sdk.ContentBlockParamUnion {
	if blocks := verbatim(name, msg); blocks != nil {
		return blocks
	}
	var blocks []sdk.ContentBlockParamUnion
	if strings.TrimSpace(msg.Text) != "" {
		blocks = append(blocks, sdk.NewTextBlock(msg.Text))
	}
	for _, c := range msg.Calls {
		blocks = append(blocks, sdk.NewToolUseBlock(c.ID, c.Input, c.Name))
	}
	return blocks
}

// api marks what only this driver reads.
const api = "messages"

// kept is the form of model.Message.Opaque: the blocks of a turn in their order. Calls stand elsewhere; a block refers to
// one by its index.
type kept struct {
	API    string      `json:"api"`
	Model  string      `json:"model"`
	Blocks []keptBlock `json:"blocks"`
}

type keptBlock struct {
	Call *int            `json:"call,omitempty"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// verbatim returns the kept blocks, or nil if they are not of this model or do not fit the calls.
func verbatim(name string, msg model.Message) []sdk.ContentBlockParamUnion {
	var k kept
	if json.Unmarshal(msg.Opaque, &k) != nil || k.API != api || k.Model != name {
		return nil
	}
	var blocks []sdk.ContentBlockParamUnion
	calls := 0
	for _, b := range k.Blocks {
		switch {
		case b.Call == nil:
			blocks = append(blocks, param.Override[sdk.ContentBlockParamUnion](b.Raw))
		case *b.Call != calls || calls >= len(msg.Calls):
			return nil
		default:
			c := msg.Calls[calls]
			blocks = append(blocks, sdk.NewToolUseBlock(c.ID, c.Input, c.Name))
			calls++
		}
	}
	if calls != len(msg.Calls) {
		return nil
	}
	return blocks
}

func toolParam(name, description string, schema json.RawMessage) sdk.ToolUnionParam {
	t := &sdk.ToolParam{Name: name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
	if description != "" {
		t.Description = sdk.String(description)
	}
	return sdk.ToolUnionParam{OfTool: t}
}

// stand gives a request without tools the names that its conversation mentions, and forbids to call them: the API refuses
// blocks of tools that it was not told of.
func stand(p *sdk.MessageNewParams, messages []model.Message) {
	var names []string
	for _, m := range messages {
		for _, c := range m.Calls {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		p.Tools = append(p.Tools, toolParam(name, "Not available any more.", json.RawMessage(`{"type":"object"}`)))
	}
	if len(names) > 0 {
		p.ToolChoice.OfNone = &sdk.ToolChoiceNoneParam{}
	}
}

// cache marks where the parts of a prompt end that stay the same: tools, system prompt, the conversation so far and the one
// before this turn. Four marks are the most that the API takes.
func cache(p *sdk.MessageNewParams, mark sdk.CacheControlEphemeralParam) {
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = mark
	}
	left := 2
	for _, msg := range slices.Backward(p.Messages) {
		if msg.OfUser == nil || left == 0 {
			continue
		}
		left--
		last := msg.OfUser.Content[len(msg.OfUser.Content)-1]
		switch {
		case last.OfText != nil:
			last.OfText.CacheControl = mark
		case last.OfToolResult != nil:
			last.OfToolResult.CacheControl = mark
		}
	}
}
