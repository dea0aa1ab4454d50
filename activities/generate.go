package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// node is one link of a transcript: the messages that one turn added, and the hash of everything before them.
type node struct {
	Prev     *blob.Ref       `json:"prev,omitempty"`
	Messages []model.Message `json:"messages"`
}

// Generate asks the model for one turn and appends it to the transcript. A retried attempt asks again: a turn
// counts when history has it.
func (e *Engine) Generate(ctx context.Context, req protocol.GenerateRequest) (protocol.GenerateResponse, error) {
	resp, err := e.generate(ctx, req)
	return resp, wire(err)
}

func (e *Engine) generate(ctx context.Context, req protocol.GenerateRequest) (protocol.GenerateResponse, error) {
	if err := e.sameStore(req.Store); err != nil {
		return protocol.GenerateResponse{}, err
	}
	defer heartbeats(ctx)()
	before, err := e.Transcript(ctx, req.Transcript)
	if err != nil {
		return protocol.GenerateResponse{}, err
	}
	if req.PromptRef != nil {
		raw, err := e.cfg.Blobs.Get(ctx, *req.PromptRef)
		if err != nil {
			return protocol.GenerateResponse{}, err
		}
		req.Prompt = string(raw)
	}
	added := addedMessages(req, before)
	frozen, err := e.thaw(ctx, req.Frozen)
	if err != nil {
		return protocol.GenerateResponse{}, err
	}
	request := model.Request{System: frozen.System, MaxOutputTokens: req.MaxOutputTokens}
	if !req.NoTools {
		request.Tools = frozen.Tools
	}
	if request.Messages, err = e.resolved(ctx, append(before, added...)); err != nil {
		return protocol.GenerateResponse{}, err
	}
	turn, used, err := e.ask(ctx, req.Models, request)
	if err != nil {
		return protocol.GenerateResponse{}, err
	}
	turn = sane(turn)
	return e.keep(ctx, req, added, turn, used)
}

// sane makes a turn that can be stored and sent back: arguments that are not JSON in UTF-8 become raw text, and
// provider data that is not JSON is dropped. What a model writes never fails a run.
func sane(r model.Response) model.Response {
	r.Calls = slices.Clone(r.Calls)
	for i, c := range r.Calls {
		if len(c.Input) > 0 && !(json.Valid(c.Input) && utf8.Valid(c.Input) && !deep(c.Input)) {
			c.Raw, c.Input = c.Raw+string(c.Input), nil
		}
		c.Raw = strings.ToValidUTF8(c.Raw, "\ufffd")
		r.Calls[i] = c
	}
	if len(r.Opaque) > 0 && !json.Valid(r.Opaque) {
		r.Opaque = nil
	}
	return r
}

// deep reports arguments that no canonical form takes. Near encoding/json's own limit they could be stored and never
// read again.
func deep(raw json.RawMessage) bool {
	_, err := canonjson.Canonical(raw)
	return errors.Is(err, canonjson.ErrTooDeep)
}

// ask tries the models in order and returns the first answer. If all fail, the error says whether trying again
// can help with any of them.
func (e *Engine) ask(ctx context.Context, names []string, r model.Request) (model.Response, string, error) {
	var errs []error
	for _, full := range names {
		m, name, err := e.model(full)
		if err != nil {
			return model.Response{}, "", err
		}
		r.Model = name
		resp, err := m.Generate(ctx, r)
		if err == nil {
			return resp, full, nil
		}
		if ctx.Err() != nil {
			return model.Response{}, "", ctx.Err()
		}
		e.log.Warn("assent: model failed", "model", full, "error", err)
		errs = append(errs, err)
	}
	// A failure that can pass is the one to report: the activity is then tried again with all models.
	slices.SortStableFunc(errs, func(a, b error) int { return rank(a) - rank(b) })
	return model.Response{}, "", errs[0]
}

func rank(err error) int {
	var m *model.Error
	if errors.As(err, &m) && m.Retry {
		return 0
	}
	return 1
}

// addedMessages are those that this turn adds before the model speaks: the prompt, or one result for each call of
// the turn before, whatever happened to it, and a note of the engine.
func addedMessages(req protocol.GenerateRequest, before []model.Message) []model.Message {
	var added []model.Message
	if len(before) == 0 {
		added = append(added, model.Message{Role: model.User, Text: req.Prompt})
	} else if calls := before[len(before)-1].Calls; len(calls) > 0 {
		results := make([]model.ToolResult, len(calls))
		for i, c := range calls {
			results[i] = model.ToolResult{CallID: c.ID, Name: c.Name,
				Result: tool.Fail(tool.Skipped, "the call was not looked at: there were too many in one turn")}
			if i < len(req.Results) {
				results[i].Result = req.Results[i].Result
			}
		}
		added = append(added, model.Message{Role: model.Tool, Results: results})
	}
	if req.Note != "" {
		added = append(added, model.Message{Role: model.User, Text: req.Note})
	}
	return added
}

// mostResult bounds what a model is shown of one stored result, in bytes.
const mostResult = 256 << 10

// resolved replaces stored results by their text for the driver. The transcript keeps the references.
func (e *Engine) resolved(ctx context.Context, messages []model.Message) ([]model.Message, error) {
	out := slices.Clone(messages)
	for i, m := range out {
		out[i].Results = slices.Clone(m.Results)
		for j, r := range m.Results {
			ref := r.Result.ValueRef
			if ref == nil {
				continue
			}
			raw, err := e.cfg.Blobs.Get(ctx, *ref)
			if err != nil {
				return nil, err
			}
			if len(raw) > mostResult {
				raw, err = json.Marshal(cut(string(raw), mostResult) +
					fmt.Sprintf(" [the result has %d bytes, %d are shown]", len(raw), mostResult))
				if err != nil {
					return nil, err
				}
			}
			out[i].Results[j].Result.Value, out[i].Results[j].Result.ValueRef = raw, nil
			out[i].Results[j].Result.Preview = ""
		}
	}
	return out, nil
}

// Transcript returns the messages up to and including the node behind ref, oldest first.
func (e *Engine) Transcript(ctx context.Context, ref *blob.Ref) ([]model.Message, error) {
	return ReadTranscript(ctx, e.cfg.Blobs, ref)
}

// ReadTranscript returns the messages up to and including the node behind ref, oldest first; nil has none.
func ReadTranscript(ctx context.Context, store blob.Store, ref *blob.Ref) ([]model.Message, error) {
	var parts [][]model.Message
	for ref != nil {
		raw, err := store.Get(ctx, *ref)
		if err != nil {
			return nil, err
		}
		var n node
		if err := json.Unmarshal(raw, &n); err != nil {
			return nil, fmt.Errorf("read transcript node %s: %w", ref.SHA256, err)
		}
		parts, ref = append(parts, n.Messages), n.Prev
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), nil
}

// keep stores the turn and returns what history keeps of it.
func (e *Engine) keep(ctx context.Context, req protocol.GenerateRequest, added []model.Message, turn model.Response, used string) (protocol.GenerateResponse, error) {
	resp := protocol.GenerateResponse{Model: used, Text: cut(turn.Text, protocol.InlineText), Stop: turn.Stop, Usage: turn.Usage}
	said := model.Message{Role: model.Assistant, Text: turn.Text, Calls: turn.Calls, Opaque: turn.Opaque}
	total := 0
	for i, c := range turn.Calls {
		if i == protocol.MaxCallsPerTurn {
			resp.Dropped = len(turn.Calls) - i
			break
		}
		r, err := e.requested(ctx, c, &total)
		if err != nil {
			return resp, err
		}
		resp.Calls = append(resp.Calls, r)
	}
	raw, err := json.Marshal(node{Prev: req.Transcript, Messages: append(added, said)})
	if err != nil {
		return resp, err
	}
	resp.Transcript, err = e.cfg.Blobs.Put(ctx, raw)
	return resp, err
}

// requested is what history keeps of one call. Arguments that do not fit are stored; those that are not JSON are
// shown in part, so that the model is told.
func (e *Engine) requested(ctx context.Context, c model.ToolCall, total *int) (protocol.Requested, error) {
	const mostName, mostRaw = 200, 1 << 10
	// The transcript has the whole id and name; these are for people.
	r := protocol.Requested{ModelID: cut(c.ID, mostName), Name: cut(c.Name, mostName)}
	if c.Raw != "" || len(c.Input) == 0 {
		r.Raw = cut(c.Raw+string(c.Input), mostRaw)
		return r, nil
	}
	// Compact and escaped as history will have it, so that what is measured is what is sent.
	var err error
	if r.Input, err = json.Marshal(c.Input); err != nil {
		return r, err
	}
	if *total += len(r.Input); len(r.Input) <= protocol.InlineInput && *total <= protocol.InlineTurn {
		return r, nil
	}
	*total -= len(r.Input)
	ref, err := e.cfg.Blobs.Put(ctx, r.Input)
	r.Input, r.InputRef = nil, &ref
	return r, err
}
