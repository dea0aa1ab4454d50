package plugins

import (
	"bytes"
	"context"
	"slices"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

const (
	withheldUnsearched = "result withheld: it could not be searched for secrets"
	withheldStored     = "result withheld: it is stored elsewhere and could not be searched for secrets"
)

// Redact returns the plugin that takes secrets out of what tools return: values, and the messages, issues and data of
// failures. Stage 4 runs where the tool ran, so a secret never reaches history, the model or an observer. What cannot
// be searched is BLOCKED.
//
// It sees what listeners mounted after it made of a result, and has the last word over them; mount it first. What a
// tool logs by itself, or puts into its heartbeats, never passes here: give the engine a logger with Redactor.Handler.
// Arguments are not results: they are in history before a tool runs.
func Redact(config RedactConfig) (pipeline.Plugin, error) {
	r, err := NewRedactor(config)
	if err != nil {
		return nil, err
	}
	return r.Plugin(), nil
}

// Plugin returns Redact with this Redactor.
func (r *Redactor) Plugin() pipeline.Plugin {
	return pipeline.PluginFunc("redact", func(s *pipeline.Scope) error { return s.Post(r.post) })
}

func (r *Redactor) post(ctx context.Context, _ pipeline.Call, result tool.Result, next func(context.Context) pipeline.PostAnswer) (answer pipeline.PostAnswer, err error) {
	defer func() {
		// The text of a panic may be what it was about to hide.
		if recover() != nil {
			answer, err = pipeline.Block(withheldUnsearched), nil
		}
	}()
	inner := next(ctx)
	if feedback, blocked := inner.Blocked(); blocked {
		if clean := r.Text(feedback); clean != feedback {
			return pipeline.Block(clean), nil
		}
		return inner, nil
	}
	made, ok := inner.Apply(result)
	switch {
	case !ok:
		return pipeline.Block(withheldUnsearched), nil
	case made.ValueRef != nil:
		return pipeline.Block(withheldStored), nil
	}
	clean, err := r.result(made)
	switch {
	case err != nil:
		return pipeline.Block(withheldUnsearched), nil
	case same(clean, made):
		return inner, nil
	}
	return pipeline.ReplaceResult(clean), nil
}

// result returns a result without the secrets in it. An error says that it cannot be searched.
func (r *Redactor) result(result tool.Result) (tool.Result, error) {
	result.Preview = r.Text(result.Preview)
	if len(result.Value) > 0 {
		value, err := r.JSON(result.Value)
		if err != nil {
			return result, err
		}
		result.Value = value
	}
	if result.Failure == nil {
		return result, nil
	}
	f := *result.Failure
	f.Message, f.By = r.Text(f.Message), r.Text(f.By)
	f.Issues = slices.Clone(f.Issues)
	for n, i := range f.Issues {
		f.Issues[n] = tool.Issue{Pointer: r.Text(i.Pointer), Message: r.Text(i.Message)}
	}
	if len(f.Data) > 0 {
		data, err := r.JSON(f.Data)
		if err != nil {
			data = nil
		}
		f.Data = data
	}
	result.Failure = &f
	return result, nil
}

// same reports whether a redaction left everything as it was.
func same(a, b tool.Result) bool {
	if a.Preview != b.Preview || !bytes.Equal(a.Value, b.Value) || a.Failure == nil || b.Failure == nil {
		return a.Preview == b.Preview && bytes.Equal(a.Value, b.Value) && a.Failure == b.Failure
	}
	f, g := a.Failure, b.Failure
	return f.Message == g.Message && f.By == g.By && bytes.Equal(f.Data, g.Data) && slices.Equal(f.Issues, g.Issues)
}
