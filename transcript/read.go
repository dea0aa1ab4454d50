package transcript

import (
	"context"
	"fmt"
	"slices"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
)

// Entry is a node and its reference.
type Entry struct {
	Ref  blob.Ref
	Node Node
}

// Entries returns the nodes up to and including the one behind ref, oldest first; nil has none. It does not go on to the
// life before a restart, which the first node names.
func Entries(ctx context.Context, store blob.Store, ref *blob.Ref) ([]Entry, error) {
	var out []Entry
	for ref != nil {
		n, err := Load(ctx, store, *ref)
		if err != nil {
			return nil, err
		}
		out, ref = append(out, Entry{*ref, n}), n.Prev
	}
	slices.Reverse(out)
	return out, nil
}

// Read returns all messages of the conversation up to ref, oldest first, without the summaries that stand for some of them.
func Read(ctx context.Context, store blob.Store, ref *blob.Ref) ([]model.Message, error) {
	entries, err := Entries(ctx, store, ref)
	if err != nil {
		return nil, err
	}
	return said(nil, entries), nil
}

// said appends the messages of turns.
func said(out []model.Message, entries []Entry) []model.Message {
	n := 0
	for _, e := range entries {
		n += len(e.Node.Messages)
	}
	out = slices.Grow(out, n)
	for _, e := range entries {
		if e.Node.Compaction == nil {
			out = append(out, e.Node.Messages...)
		}
	}
	return out
}

// View is the part of a transcript that a model is shown.
type View struct {
	// First is the first node of the conversation.
	First blob.Ref
	// Task is the prompt, and Summary what stands for the turns after it; both are nil before the first compaction.
	Task, Summary *model.Message
	// Recent are the nodes that are shown as they are, oldest first. After a compaction the first of them begins without the
	// results that belong to what was replaced.
	Recent []Entry
	// Dropped counts those messages.
	Dropped int
}

// Messages are those of the view, oldest first.
func (v View) Messages() []model.Message {
	var out []model.Message
	for _, m := range []*model.Message{v.Task, v.Summary} {
		if m != nil {
			out = append(out, *m)
		}
	}
	return said(out, v.Recent)
}

// Live reads what a model is shown: everything, or from the last compaction on the prompt, its summary and the nodes that
// it kept. It reads no more nodes than that.
func Live(ctx context.Context, store blob.Store, ref *blob.Ref) (View, error) {
	var v View
	var last *Compaction
	for ref != nil {
		if last != nil && *ref == last.Through {
			break
		}
		n, err := Load(ctx, store, *ref)
		if err != nil {
			return v, err
		}
		switch {
		case n.Compaction == nil:
			v.Recent = append(v.Recent, Entry{*ref, n})
		case last == nil:
			last, v.Summary = n.Compaction, &n.Messages[0]
			// An older one stands for less than the last: it says nothing any more.
		}
		if v.First, ref = *ref, n.Prev; ref == nil && last != nil {
			return v, broken(v.First, "a later summary stands for node %s, which is not before it", last.Through.SHA256)
		}
	}
	slices.Reverse(v.Recent)
	if last == nil {
		return v, nil
	}
	v.First = last.First
	first, err := Load(ctx, store, v.First)
	if err != nil {
		return v, err
	}
	v.Task = &first.Messages[0]
	return v, v.unanswer()
}

// unanswer drops the results that answer calls which the summary stands for.
func (v *View) unanswer() error {
	if len(v.Recent) == 0 {
		return fmt.Errorf("read transcript: a summary leaves no turn as it was")
	}
	n := &v.Recent[0].Node
	v.Dropped = len(Leading(n.Messages))
	n.Messages = n.Messages[v.Dropped:]
	return nil
}

// Leading returns the results that a node begins with: they answer the node before.
func Leading(messages []model.Message) []model.Message {
	n := 0
	for n < len(messages) && messages[n].Role == model.Tool {
		n++
	}
	return messages[:n]
}
