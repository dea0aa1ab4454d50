package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
)

// Node is one link of a transcript. JSON is its storage form.
type Node struct {
	// Prev is the node before; nil is the first.
	Prev *blob.Ref `json:"prev,omitempty"`
	// Earlier is the last node of the agent's life before a restart. It goes with a nil Prev: that conversation was lost
	// with its environment, and is not continued.
	Earlier *blob.Ref `json:"earlier,omitempty"`
	// Compaction is set on a node that is no turn: its one message is a summary.
	Compaction *Compaction     `json:"compaction,omitempty"`
	Messages   []model.Message `json:"messages"`
}

// Compaction says what a summary stands for: everything from the first node through Through, and the results that the next
// node begins with, because they answer calls of it. First has the prompt, which a model is shown as it was.
type Compaction struct {
	First   blob.Ref `json:"first"`
	Through blob.Ref `json:"through"`
}

// Refs are what a node needs beside itself: the nodes around it and the values of results.
func (n Node) Refs() []blob.Ref {
	var out []blob.Ref
	for _, r := range []*blob.Ref{n.Prev, n.Earlier} {
		if r != nil {
			out = append(out, *r)
		}
	}
	for _, m := range n.Messages {
		for _, r := range m.Results {
			if r.Result.ValueRef != nil {
				out = append(out, *r.Result.ValueRef)
			}
			for _, i := range r.Result.Images {
				if i.Ref != nil {
					out = append(out, *i.Ref)
				}
			}
		}
	}
	return out
}

// BrokenError reports stored bytes that are no transcript. Trying again cannot help.
type BrokenError struct {
	Ref blob.Ref
	Why string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("transcript node %s is broken: %s", e.Ref.SHA256, e.Why)
}

func broken(ref blob.Ref, format string, args ...any) error {
	return &BrokenError{Ref: ref, Why: fmt.Sprintf(format, args...)}
}

// Append stores a node and returns its reference, which names the whole transcript from now on.
func Append(ctx context.Context, store blob.Store, n Node) (blob.Ref, error) {
	if err := n.check(blob.Ref{}); err != nil {
		return blob.Ref{}, err
	}
	raw, err := json.Marshal(n)
	if err != nil {
		return blob.Ref{}, fmt.Errorf("append to transcript: %w", err)
	}
	return store.Put(ctx, raw)
}

// Load returns one node. The error is a *BrokenError or that of the store; a store that returns other bytes than it was
// asked for is found out.
func Load(ctx context.Context, store blob.Store, ref blob.Ref) (Node, error) {
	raw, err := store.Get(ctx, ref)
	if err != nil {
		return Node{}, err
	}
	if got := blob.RefOf(raw); !got.Same(ref) {
		return Node{}, &blob.CorruptError{Store: store.ID(), Ref: ref, Got: got}
	}
	return parse(ref, raw)
}

func parse(ref blob.Ref, raw []byte) (Node, error) {
	var n Node
	if err := json.Unmarshal(raw, &n); err != nil {
		if first := new(json.RawMessage); json.NewDecoder(bytes.NewReader(raw)).Decode(first) == nil && !json.Valid(raw) {
			return Node{}, broken(ref, "there is more than one JSON text")
		}
		return Node{}, broken(ref, "%v", err)
	}
	return n, n.check(ref)
}

// check reports a node that no Append has written.
func (n Node) check(ref blob.Ref) error {
	switch {
	case len(n.Messages) == 0:
		return broken(ref, "it has no messages")
	case n.Prev != nil && n.Earlier != nil:
		return broken(ref, "it is the first of a life and has a node before it")
	case n.Compaction == nil:
	case n.Prev == nil:
		return broken(ref, "it summarises nothing")
	case len(n.Messages) != 1 || n.Messages[0].Role != model.User || n.Messages[0].Summary == nil:
		return broken(ref, "its message is no summary")
	}
	for _, m := range n.Messages {
		switch m.Role {
		case model.User, model.Assistant, model.Tool:
		default:
			return broken(ref, "unknown role %q", m.Role)
		}
	}
	return nil
}
