package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// Frozen is what every turn of an agent needs and none carries. It is stored once, when the agent starts, so that a turn
// costs as much history late in a run as early.
type Frozen struct {
	System string       `json:"system,omitempty"`
	Tools  []model.Spec `json:"tools"`
	// Prices are those of the agent's models that are known.
	Prices model.Prices `json:"prices,omitempty"`
	// Output is the schema of the answer. Checked says that the profile's worker knows more about it than the schema says.
	Output  json.RawMessage `json:"output,omitempty"`
	Checked bool            `json:"checked,omitempty"`
}

func (e *Engine) freeze(ctx context.Context, f Frozen) (blob.Ref, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return blob.Ref{}, err
	}
	return e.cfg.Blobs.Put(ctx, raw)
}

// thaw reads it back; nil is nothing.
func (e *Engine) thaw(ctx context.Context, ref *blob.Ref) (Frozen, error) {
	var f Frozen
	if ref == nil {
		return f, nil
	}
	raw, err := e.cfg.Blobs.Get(ctx, *ref)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, fmt.Errorf("read what was frozen for the agent: %w", err)
	}
	return f, nil
}

// prompt stores a long one, so that history has it once.
func (e *Engine) prompt(ctx context.Context, text string) (*blob.Ref, error) {
	if len(text) <= protocol.InlinePrompt {
		return nil, nil
	}
	ref, err := e.cfg.Blobs.Put(ctx, []byte(text))
	return &ref, err
}
