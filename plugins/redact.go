package plugins

import (
	"context"
	"encoding/json"
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
// It sees what listeners mounted after it made of a result, and has the last word over them; mount it first. Failures are
// redacted in stage 3 already, where their data can be kept. What a tool logs by itself, a panic among it, never passes here:
// give the engine a logger with Redactor.Handler. Arguments are not results: they are in history before a tool runs.
func Redact(config RedactConfig) (pipeline.Plugin, error) {
	r, err := NewRedactor(config)
	if err != nil {
		return nil, err
	}
	return r.Plugin(), nil
}

// Plugin returns Redact with this Redactor.
func (r *Redactor) Plugin() pipeline.Plugin {
	return pipeline.PluginFunc("redact", func(s *pipeline.Scope) error {
		if err := s.Wrap(r.wrap); err != nil {
			return err
		}
		return s.Post(r.post)
	})
}

// wrap redacts failures, and the preview that stage 4 cannot replace.
func (r *Redactor) wrap(ctx context.Context, _ pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
	return r.searched(next(ctx)), nil
}

// searched returns the result without the secrets of its preview and its failure. A panic, whose text may be a secret, is
// not passed on.
func (r *Redactor) searched(result tool.Result) (out tool.Result) {
	defer func() {
		if recover() != nil {
			out = tool.Fail(tool.Blocked, withheldUnsearched)
		}
	}()
	result.Preview = r.Text(result.Preview)
	if result.Failure == nil {
		return result
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
			data = json.RawMessage("null")
		}
		f.Data = data
	}
	result.Failure = &f
	return result
}

func (r *Redactor) post(ctx context.Context, _ pipeline.Call, result tool.Result, next func(context.Context) pipeline.PostAnswer) (answer pipeline.PostAnswer, err error) {
	defer func() {
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
	if value, replaced := inner.Replacement(); replaced {
		return r.replaced(inner, value), nil
	}
	if !result.IsOK() {
		return r.failed(inner, result), nil
	}
	if result.ValueRef != nil {
		return pipeline.Block(withheldStored), nil
	}
	if r.Text(result.Preview) != result.Preview {
		// No replacement reaches it.
		return pipeline.Block(withheldUnsearched), nil
	}
	return r.replaced(inner, result.Value), nil
}

// replaced keeps inner when value has no secret.
func (r *Redactor) replaced(inner pipeline.PostAnswer, value json.RawMessage) pipeline.PostAnswer {
	clean, err := r.JSON(value)
	switch {
	case err != nil:
		return pipeline.Block(withheldUnsearched)
	case string(clean) == string(value):
		return inner
	}
	return pipeline.Replace(clean)
}

// failed is for what stage 3 has not redacted: failures that wrappers outside made, or that came from elsewhere.
func (r *Redactor) failed(inner pipeline.PostAnswer, result tool.Result) pipeline.PostAnswer {
	clean := r.searched(result)
	if clean.Code == tool.Blocked && result.Code != tool.Blocked {
		return pipeline.Block(withheldUnsearched)
	}
	f, c := result.Failure, clean.Failure
	same := f.Message == c.Message && string(f.Data) == string(c.Data) && slices.Equal(f.Issues, c.Issues)
	switch {
	case f.By != c.By:
		return pipeline.Block(withheldUnsearched)
	case same:
		return inner
	}
	return pipeline.Replace(c.Message)
}
