package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/assent-dev/assent/tool"
)

// Shown are the images of a result that a model can be shown, those whose bytes are there, and a line of text about the others,
// empty if there are none. A driver whose API takes no images in results says that of all of them with Unshown.
func Shown(r tool.Result) (shown []tool.Image, others string) {
	for _, i := range r.Images {
		if i.Data != nil && i.Sound() {
			shown = append(shown, i)
		}
	}
	return shown, unshown(len(r.Images) - len(shown))
}

// Unshown is a line of text about the images of a result, empty if there are none.
func Unshown(r tool.Result) string { return unshown(len(r.Images)) }

// Blind returns r without the bytes of its images, which the model is then told of, and whether there were any: a driver asks so when
// the provider does not take one. What begins like an image need not be one, and not every model sees.
func Blind(r Request) (blind Request, were bool) {
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		results := slices.Clone(r.Messages[i].Results)
		for j := range results {
			images := slices.Clone(results[j].Result.Images)
			for k := range images {
				were = were || images[k].Data != nil
				images[k].Data = nil
			}
			results[j].Result.Images = images
		}
		r.Messages[i].Results = results
	}
	return r, were
}

func unshown(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "[an image of this result is not shown]"
	}
	return fmt.Sprintf("[%d images of this result are not shown]", n)
}

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
