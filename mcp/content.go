package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assent-dev/assent/tool"
)

// answer is the result of a call as a server gives it.
type answer struct {
	Content    elements        `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	// Inputs are what a server of the newest protocol asks for instead of answering.
	Inputs elements `json:"inputRequests"`
}

// block is one part of an answer.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
	// URI, Name and Description are those of a link.
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Resource    *struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     []byte  `json:"blob"`
	} `json:"resource"`
}

const (
	// maxBlocks bounds the parts of one answer.
	maxBlocks = 1000
	// maxInputs bounds the questions of one that are looked at.
	maxInputs = 16
)

// result is the value of a call: the structured content if there is some, else the text. An answer that says it is an error
// is one, with its text.
func (s *Server) result(call *tool.Context, raw json.RawMessage, asked string) (any, error) {
	a := answer{Content: elements{open: '[', most: maxBlocks}, Inputs: elements{open: '{', most: maxInputs}}
	err := json.Unmarshal(raw, &a)
	if err == nil && isNull(raw) {
		err = errNull
	}
	if err != nil {
		return nil, fmt.Errorf("mcp server %q: the answer cannot be read: %s; the tool has run", s.cfg.Name, quoted(err.Error()))
	}
	if len(a.Inputs.list) > 0 {
		return nil, fmt.Errorf("mcp server %q: it asks for %s before it runs the tool, which it is not offered", s.cfg.Name, a.inputs())
	}
	texts, notes := a.read(call)
	if a.IsError {
		text := strings.Join(append(texts, notes...), "\n")
		if strings.TrimSpace(text) == "" {
			text = fmt.Sprintf("mcp server %q says that the tool failed, and not why", s.cfg.Name)
		}
		return nil, afterAsking(errors.New(s.bounded(s.hidden(text))), asked)
	}
	structured := bytes.TrimSpace(a.Structured)
	if len(structured) == 0 || isNull(structured) {
		return s.bounded(strings.Join(append(texts, notes...), "\n")), nil
	}
	if len(notes) == 0 && len(structured) <= s.cfg.MaxResult {
		return json.RawMessage(structured), nil
	}
	// There is no place in it for what else there is to say.
	return s.bounded(strings.Join(append([]string{string(structured)}, notes...), "\n")), nil
}

func (a *answer) inputs() string {
	var methods []string
	for _, raw := range a.Inputs.list {
		var in struct {
			Method string `json:"method"`
		}
		_ = json.Unmarshal(raw, &in) // a question of another shape has no name
		methods = append(methods, quoted(cut(in.Method, 64)))
	}
	slices.Sort(methods)
	return strings.Join(slices.Compact(methods)[:min(len(slices.Compact(methods)), 4)], ", ")
}

// bounded cuts a text to what a result may have and says so.
func (s *Server) bounded(text string) string {
	if len(text) <= s.cfg.MaxResult {
		return text
	}
	return fmt.Sprintf("%s\n[cut: %d of %d bytes are shown]", cut(text, s.cfg.MaxResult), s.cfg.MaxResult, len(text))
}

// read returns the text of an answer and, apart, what there is to say of parts that are no text. Images go to the call.
func (a *answer) read(call *tool.Context) (texts, notes []string) {
	images := 0
	for _, raw := range a.Content.list {
		var b block
		if err := json.Unmarshal(raw, &b); err != nil {
			notes = append(notes, fmt.Sprintf("[a part that cannot be read: %s]", quoted(err.Error())))
			continue
		}
		text, note := b.read(call, !a.IsError)
		switch {
		case note != "":
			notes = append(notes, "["+note+"]")
		case text != nil:
			texts = append(texts, *text)
		default:
			images++
		}
	}
	if a.Content.more {
		notes = append(notes, fmt.Sprintf("[only the first %d parts are shown]", maxBlocks))
	}
	if images > 0 && len(texts)+len(notes) == 0 {
		texts = []string{fmt.Sprintf("[images: %d]", images)}
	}
	return texts, notes
}

// read returns the text of a part, or what there is to say of it. Neither is there for an image that the call has taken.
func (b *block) read(call *tool.Context, images bool) (text *string, note string) {
	switch r := b.Resource; {
	case b.Type == "text":
		return &b.Text, ""
	case b.Type == "image" && images:
		if err := call.AddImage(b.MIMEType, b.Data); err != nil {
			return nil, fmt.Sprintf("an image that cannot be shown: %s", quoted(err.Error()))
		}
		return nil, ""
	case b.Type == "image", b.Type == "audio":
		return nil, fmt.Sprintf("%s that cannot be shown here: %s, %d bytes", map[string]string{"image": "an image", "audio": "audio"}[b.Type], quoted(b.MIMEType), len(b.Data))
	case b.Type == "resource" && r != nil && r.Text != nil:
		resource := fmt.Sprintf("%s:\n%s", quoted(r.URI), *r.Text)
		return &resource, ""
	case b.Type == "resource" && r != nil && images && slices.Contains(tool.ImageTypes, r.MIMEType) && call.AddImage(r.MIMEType, r.Blob) == nil:
		return nil, ""
	case b.Type == "resource" && r != nil:
		return nil, fmt.Sprintf("a resource that is no text: %s, %s, %d bytes", quoted(r.URI), quoted(r.MIMEType), len(r.Blob))
	case b.Type == "resource_link":
		link := strings.TrimSpace(fmt.Sprintf("%s %s %s", quoted(b.URI), quoted(b.Name), quoted(b.Description)))
		return &link, ""
	}
	return nil, fmt.Sprintf("a part of the unknown type %q", quoted(cut(b.Type, 64)))
}
