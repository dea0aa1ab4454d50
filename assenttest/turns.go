package assenttest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/model"
)

// Turn is what the model says in one turn.
type Turn struct {
	Say   string
	Calls []Call
	// Usage is what the turn is said to have used.
	Usage model.Usage
	// Check, if not nil, looks at what the model is asked; an error ends the agent with it.
	Check func(model.Request) error
}

// Call is one tool call of a turn. Args is anything that has a JSON form; nil is an empty object. A json.RawMessage goes out as it
// is, also if it is no JSON.
type Call struct {
	Tool string
	Args any
}

// Kinds of the errors of Turns.
const (
	// KindEnded says that there are fewer turns than were asked for.
	KindEnded = "turns_ended"
	// KindCheck says that a Check was not content.
	KindCheck = "check_failed"
)

// Turns is a model that says one turn after the other. Which one is counted from the conversation, so that a retry gets the same.
// A request for a summary, or for a turn without tools, is answered with text alone.
type Turns []Turn

var (
	_ model.Model  = Turns{}
	_ model.Priced = Turns{}
)

// Price says that the turns cost nothing.
func (Turns) Price(string) model.Price { return model.Price{Free: true} }

// Generate says the next turn.
func (ts Turns) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	if r.Summary != nil {
		return model.Response{Text: fmt.Sprintf("a summary of %d turns", r.Summary.Turns), Stop: model.StopEnd}, nil
	}
	n := 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			n++
		}
		if m.Summary != nil {
			n += m.Summary.Turns
		}
	}
	if n >= len(ts) {
		return model.Response{}, &model.Error{Kind: KindEnded, Msg: fmt.Sprintf("the test has %d turns and turn %d was asked for", len(ts), n+1)}
	}
	t := ts[n]
	if t.Check != nil {
		if err := t.Check(r); err != nil {
			return model.Response{}, &model.Error{Kind: KindCheck, Msg: fmt.Sprintf("turn %d", n+1), Cause: err}
		}
	}
	resp := model.Response{Text: t.Say, Usage: t.Usage, Stop: model.StopEnd}
	if len(r.Tools) == 0 {
		return resp, nil
	}
	for i, c := range t.Calls {
		call, err := c.call(fmt.Sprintf("call_%d_%d", n+1, i+1))
		if err != nil {
			return model.Response{}, &model.Error{Kind: KindCheck, Msg: fmt.Sprintf("turn %d: arguments of %s", n+1, c.Tool), Cause: err}
		}
		resp.Calls, resp.Stop = append(resp.Calls, call), model.StopToolUse
	}
	return resp, nil
}

func (c Call) call(id string) (model.ToolCall, error) {
	out := model.ToolCall{ID: id, Name: c.Tool}
	switch args := c.Args.(type) {
	case nil:
		out.Input = json.RawMessage(`{}`)
	case json.RawMessage:
		if out.Input = args; !json.Valid(args) {
			out.Input, out.Raw = nil, string(args)
		}
	default:
		raw, err := json.Marshal(args)
		if err != nil {
			return out, err
		}
		out.Input = raw
	}
	return out, nil
}
