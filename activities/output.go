package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// mostOutput bounds a structured output in bytes.
const mostOutput = 1 << 20

// freezeOutput freezes the schema of the answer: the input's, else the profile's.
func (e *Engine) freezeOutput(f *Frozen, in protocol.AgentInput, p config.Profile) error {
	if len(in.OutputSchema) > 0 && !bytes.Equal(bytes.TrimSpace(in.OutputSchema), []byte("null")) {
		v, err := e.outputOf(in.OutputSchema)
		if err != nil {
			return &fault.ConfigError{Key: "outputSchema", Msg: "cannot be used", Cause: err}
		}
		f.Output = v.Schema()
		return nil
	}
	if p.Output != nil {
		f.Output, f.Checked = p.Output.Schema(), p.Output.Checked()
	}
	return nil
}

// mostOutputs bounds the compiled schemas that are kept; agents bring their own.
const mostOutputs = 64

// outputOf compiles a schema, once.
func (e *Engine) outputOf(schema json.RawMessage) (*tool.Validator, error) {
	key := canonjson.SHA256(schema)
	e.mu.Lock()
	defer e.mu.Unlock()
	if v, ok := e.outputs[key]; ok {
		return v, nil
	}
	v, err := tool.OutputFromSchema(schema)
	if err != nil {
		return nil, err
	}
	if len(e.outputs) >= mostOutputs {
		clear(e.outputs)
	}
	e.outputs[key] = v
	return v, nil
}

// accepts returns what the answer is checked by. If the profile knows more than the frozen schema, it has to be the same
// profile: another worker's check would be of something else.
func (g *generation) accepts() (*tool.Validator, error) {
	if !g.frozen.Checked {
		return g.outputOf(g.frozen.Output)
	}
	v := g.cfg.Profiles[g.req.Profile].Output
	if v == nil || !v.Checked() || !bytes.Equal(v.Schema(), g.frozen.Output) {
		return nil, fault.Configf("profiles."+g.req.Profile+".output", "is not the one that the agent started with; this worker cannot check its answer")
	}
	return v, nil
}

// output checks the text of a turn that ends the agent, if an output was asked for. What a model answers is never an error
// here: it is told what does not fit.
func (g *generation) output(ctx context.Context, turn answer, resp *protocol.GenerateResponse) error {
	if len(g.frozen.Output) == 0 || turn.Stop == model.StopMaxTokens || turn.Stop == model.StopRefusal {
		return nil
	}
	v, err := g.accepts()
	if err != nil {
		return err
	}
	raw, issues := unwrapped(turn.Text)
	if issues == nil {
		raw, issues = v.Accept(raw)
	}
	if issues == nil && len(raw) > mostOutput {
		issues = []tool.Issue{{Message: fmt.Sprintf("the answer has %d bytes, at most %d are taken", len(raw), mostOutput)}}
	}
	if issues != nil {
		resp.Issues = fewer(issues)
		return nil
	}
	if size(raw) <= protocol.InlineStructured {
		resp.Structured = raw
		return nil
	}
	ref, err := g.cfg.Blobs.Put(ctx, raw)
	resp.StructuredRef = &ref
	return err
}

// unwrapped finds the JSON in an answer: the whole text, or what its only Markdown code fence holds.
func unwrapped(text string) (json.RawMessage, []tool.Issue) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, []tool.Issue{{Message: "the answer is empty; it must be one JSON text"}}
	}
	if len(text) > 2*mostOutput {
		return nil, []tool.Issue{{Message: fmt.Sprintf("the answer has %d bytes, at most %d are taken", len(text), mostOutput)}}
	}
	if text[0] == '{' {
		return json.RawMessage(text), nil
	}
	parts := strings.Split(text, "```")
	if len(parts) == 3 {
		// The rest of the line is the name of a language.
		if _, inner, ok := strings.Cut(parts[1], "\n"); ok {
			return json.RawMessage(strings.TrimSpace(inner)), nil
		}
	}
	return json.RawMessage(text), nil
}

// mostIssues bounds the text of the issues of one answer, which go to the model and into history.
const mostIssues = 8 << 10

// fewer shortens a list of issues to what fits.
func fewer(issues []tool.Issue) []tool.Issue {
	total := 0
	for i := range issues {
		issues[i].Pointer, issues[i].Message = cut(issues[i].Pointer, 500), cut(issues[i].Message, 1000)
		if total += len(issues[i].Pointer) + len(issues[i].Message) + 32; total > mostIssues {
			return append(issues[:i], tool.Issue{Message: fmt.Sprintf("and %d more", len(issues)-i)})
		}
	}
	return issues
}
