package model

import (
	"bytes"
	"encoding/json"

	"github.com/assent-dev/assent/tool"
)

// Told is the text of a result for a model, and whether it is a failure. A value that is a JSON string is told as its text,
// any other value as JSON. A failure is a JSON object with code and message. If something else ran than what the model had
// asked for, both are objects that say what.
func Told(r tool.Result) (text string, failed bool) {
	if !r.IsOK() {
		return failure(r), true
	}
	value := r.Value
	if len(bytes.TrimSpace(value)) == 0 {
		value = json.RawMessage("null")
	}
	if len(r.FinalInput) > 0 {
		return encoded(struct {
			Note      string          `json:"note"`
			Arguments json.RawMessage `json:"arguments"`
			Result    json.RawMessage `json:"result"`
		}{"The call ran with these arguments, which are not yours.", r.FinalInput, value}), false
	}
	var s string
	if json.Unmarshal(value, &s) == nil && string(bytes.TrimSpace(value)) != "null" {
		return s, false
	}
	return string(value), false
}

func failure(r tool.Result) string {
	f := r.Failure
	if f == nil {
		f = &tool.Failure{Message: "the call did not succeed"}
	}
	return encoded(struct {
		Code      tool.Code       `json:"code"`
		Message   string          `json:"message"`
		Reason    tool.Reason     `json:"reason,omitempty"`
		Issues    []tool.Issue    `json:"issues,omitempty"`
		Data      json.RawMessage `json:"data,omitempty"`
		Retry     bool            `json:"retry,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}{r.Code, f.Message, f.Reason, f.Issues, f.Data, f.Retry, r.FinalInput})
}

// encoded is the JSON of v with <, > and & as they are: a model reads it. JSON that is none is left out as a whole.
func encoded(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return `{"code":"NON_SERIALIZABLE","message":"the result cannot be shown"}`
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
