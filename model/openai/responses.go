package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

func (m *Model) askResponses(ctx context.Context, r model.Request, progress func(model.Delta)) (model.Response, error) {
	params, err := m.responsesParams(r)
	if err != nil {
		return model.Response{}, err
	}
	stream := m.responses.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	t := responsesTurn{model: r.Model, progress: progress, items: map[int64]responses.ResponseOutputItemUnion{}, calls: map[int64]*model.CallDelta{}}
	for stream.Next() {
		t.add(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return model.Response{}, m.failed(ctx, err)
	}
	if t.failure != nil {
		return model.Response{}, m.told(*t.failure)
	}
	return t.response()
}

// plainModels are the vendor's that do not reason; they refuse to be asked for it.
var plainModels = []string{"gpt-4", "gpt-3.5", "chatgpt-4o"}

// leastOutput is the smallest bound that the API takes.
const leastOutput = 16

// responsesParams is the request on the wire.
func (m *Model) responsesParams(r model.Request) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{Model: r.Model, Store: sdk.Bool(false)}
	if r.MaxOutputTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(max(r.MaxOutputTokens, leastOutput)))
	}
	p.Reasoning.Effort = shared.ReasoningEffort(m.cfg.Effort)
	if m.full() && !slices.ContainsFunc(plainModels, func(prefix string) bool { return strings.HasPrefix(r.Model, prefix) }) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if system := m.system(r); system != "" {
		p.Instructions = sdk.String(system)
	}
	if len(r.OutputSchema) > 0 && m.full() {
		_, strict := model.Strict(r.OutputSchema)
		raw, err := json.Marshal(struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		}{"json_schema", outputName, r.OutputSchema, strict})
		if err != nil {
			return p, &model.Error{Kind: endpoint.KindBadRequest, Msg: "the schema of the output is no JSON"}
		}
		p.Text.Format = param.Override[responses.ResponseFormatTextConfigUnionParam](json.RawMessage(raw))
	}
	var items responses.ResponseInputParam
	for _, msg := range model.Paired(r.Messages) {
		items = append(items, inputItems(r.Model, msg, m.full())...)
	}
	if len(items) == 0 {
		return p, &model.Error{Kind: endpoint.KindBadRequest, Msg: "there is nothing to answer"}
	}
	p.Input.OfInputItemList = items
	for _, t := range r.Tools {
		raw, err := json.Marshal(struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      bool            `json:"strict"`
		}{"function", t.Name, t.Description, t.Parameters, false})
		if err != nil {
			return p, &model.Error{Kind: endpoint.KindBadRequest, Msg: "the schema of tool " + t.Name + " is no JSON"}
		}
		p.Tools = append(p.Tools, param.Override[responses.ToolUnionParam](json.RawMessage(raw)))
	}
	return p, nil
}

// kept is the form of model.Message.Opaque: the items of a turn in their order. Calls stand elsewhere; an item refers to
// one by its index.
type kept struct {
	API   string     `json:"api"`
	Model string     `json:"model"`
	Items []keptItem `json:"items"`
}

type keptItem struct {
	Call *int            `json:"call,omitempty"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// returned is a result: its text, then its images.
func returned(r model.ToolResult, illustrated bool) (out responses.ResponseInputItemFunctionCallOutputOutputUnionParam) {
	text, _ := model.Told(r.Result)
	images, others := model.Shown(r.Result)
	if !illustrated {
		images, others = nil, model.Unshown(r.Result)
	}
	if others != "" {
		text = strings.TrimPrefix(text+"\n"+others, "\n")
	}
	if len(images) == 0 {
		out.OfString = sdk.String(text)
		return out
	}
	if text != "" {
		out.OfResponseFunctionCallOutputItemArray = append(out.OfResponseFunctionCallOutputItemArray,
			responses.ResponseFunctionCallOutputItemUnionParam{OfInputText: &responses.ResponseInputTextContentParam{Text: text}})
	}
	for _, i := range images {
		url := "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
		out.OfResponseFunctionCallOutputItemArray = append(out.OfResponseFunctionCallOutputItemArray,
			responses.ResponseFunctionCallOutputItemUnionParam{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: sdk.String(url)}})
	}
	return out
}

// inputItems is what one message of a conversation is on the wire. Other servers than the vendor's take a result as text alone.
func inputItems(name string, msg model.Message, illustrated bool) []responses.ResponseInputItemUnionParam {
	var out []responses.ResponseInputItemUnionParam
	switch msg.Role {
	case model.Tool:
		for _, r := range msg.Results {
			item := &responses.ResponseInputItemFunctionCallOutputParam{CallID: sdk.String(r.CallID), Output: returned(r, illustrated)}
			out = append(out, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: item})
		}
	case model.Assistant:
		if items := verbatim(name, msg); items != nil {
			return items
		}
		if strings.TrimSpace(msg.Text) != "" {
			out = append(out, responses.ResponseInputItemParamOfMessage(msg.Text, responses.EasyInputMessageRoleAssistant))
		}
		for _, c := range msg.Calls {
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(string(c.Input), c.ID, c.Name))
		}
	default:
		if strings.TrimSpace(msg.Text) != "" {
			out = append(out, responses.ResponseInputItemParamOfMessage(msg.Text, responses.EasyInputMessageRoleUser))
		}
	}
	return out
}

// verbatim returns the kept items, or nil if they are not of this model or do not fit the calls.
func verbatim(name string, msg model.Message) []responses.ResponseInputItemUnionParam {
	var k kept
	if json.Unmarshal(msg.Opaque, &k) != nil || k.API != Responses || k.Model != name {
		return nil
	}
	var out []responses.ResponseInputItemUnionParam
	calls := 0
	for _, item := range k.Items {
		switch {
		case item.Call == nil:
			out = append(out, param.Override[responses.ResponseInputItemUnionParam](item.Raw))
		case *item.Call != calls || calls >= len(msg.Calls):
			return nil
		default:
			c := msg.Calls[calls]
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(string(c.Input), c.ID, c.Name))
			calls++
		}
	}
	if calls != len(msg.Calls) {
		return nil
	}
	return out
}
