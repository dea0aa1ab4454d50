package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/assent-dev/assent/tool"
)

// callID is what every provider takes as the id of a call.
var callID = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)

// goOn is what the user says when a model is asked to speak twice in a row; providers refuse a conversation that ends with
// the model's own words.
const goOn = "Continue."

// Paired returns a conversation as every provider's API wants it: each assistant message with calls is followed by one tool
// message with exactly one result for each call, in the order of the calls and under ids that no other call has. A call
// without a result gets one that says so, a result without a call is dropped, and the last word is not the assistant's. A
// call has a name that can be one, and an object as Input; what it was instead stands in there. What it changes it copies.
// Drivers call it before they write a request.
func Paired(messages []Message) []Message {
	p := pairing{seen: map[string]bool{}}
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		switch {
		case m.Role == Tool:
			// Its call is not before it.
		case m.Role == Assistant && len(m.Calls) > 0:
			var results []ToolResult
			for i+1 < len(messages) && messages[i+1].Role == Tool {
				i++
				results = append(results, messages[i].Results...)
			}
			p.exchange(m, results)
		default:
			p.out = append(p.out, m)
		}
	}
	if n := len(p.out); n > 0 && p.out[n-1].Role == Assistant {
		p.out = append(p.out, Message{Role: User, Text: goOn})
	}
	return p.out
}

type pairing struct {
	out  []Message
	seen map[string]bool
}

// exchange adds calls and their results.
func (p *pairing) exchange(m Message, results []ToolResult) {
	m.Calls = slices.Clone(m.Calls)
	paired := make([]ToolResult, len(m.Calls))
	for n, c := range m.Calls {
		paired[n] = resultOf(c, n, len(m.Calls), results)
		m.Calls[n] = ToolCall{ID: p.id(c.ID, n), Name: toolName(c.Name), Input: object(c)}
		paired[n].CallID, paired[n].Name = m.Calls[n].ID, m.Calls[n].Name
	}
	p.out = append(p.out, m, Message{Role: Tool, Results: paired})
}

// resultOf finds the result of call n of so many. The engine keeps the order; ids need not be unique.
func resultOf(c ToolCall, n, of int, results []ToolResult) ToolResult {
	if len(results) == of && results[n].CallID == c.ID {
		return results[n]
	}
	for _, r := range results {
		if r.CallID == c.ID {
			return r
		}
	}
	return ToolResult{Result: tool.Fail(tool.EffectUnknown, "there is no result of this call")}
}

// mostName bounds the name of a tool in bytes.
const mostName = 64

// toolName is a name that providers take. What a model calls a tool need not be one.
func toolName(name string) string {
	if name == "" {
		return "unknown"
	}
	ok := func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
	}
	out := []byte(name[:min(len(name), mostName)])
	for i, c := range out {
		if !ok(c) {
			out[i] = '_'
		}
	}
	return string(out)
}

// object is the arguments of a call as a JSON object.
func object(c ToolCall) json.RawMessage {
	in := bytes.TrimSpace(c.Input)
	if c.Raw == "" && len(in) > 0 && in[0] == '{' && json.Valid(in) {
		return in
	}
	return json.RawMessage(encoded(struct {
		Invalid string `json:"invalid_arguments"`
	}{c.Raw + string(c.Input)}))
}

// id returns the id of call n of the next message, or another one if it cannot be used.
func (p *pairing) id(id string, n int) string {
	for try := 0; p.seen[id] || !callID.MatchString(id); try++ {
		id = fmt.Sprintf("call_%d_%d", len(p.out)+try, n+1)
	}
	p.seen[id] = true
	return id
}

// Forgetting returns r without what was kept for a provider: a driver asks so when the provider does not take its own data
// back.
func Forgetting(r Request) Request {
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		r.Messages[i].Opaque = nil
	}
	return r
}
