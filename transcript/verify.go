package transcript

import (
	"context"
	"slices"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
)

// Verify reads the whole conversation up to ref and reports anything that the engine would not have written: bytes that do
// not have their hash, a call without its result or a result without its call, a summary of what is not there.
func Verify(ctx context.Context, store blob.Store, ref *blob.Ref) ([]Entry, error) {
	entries, err := Entries(ctx, store, ref)
	if err != nil {
		return nil, err
	}
	before := map[blob.Ref]int{}
	var open []model.ToolCall
	number, turns := 0, 0
	for i, e := range entries {
		if c := e.Node.Compaction; c != nil {
			at, ok := before[c.Through]
			s := *e.Node.Messages[0].Summary
			switch number++; {
			case !ok || entries[at].Node.Compaction != nil || !c.First.Same(entries[0].Ref):
				return nil, broken(e.Ref, "it summarises what is not before it")
			case s.Number != number:
				return nil, broken(e.Ref, "it is summary %d and says %d", number, s.Number)
			}
			// A later summary stands for more.
			t, m := Count(entries[:at+1])
			if s.Turns != t || s.Messages != m || t <= turns {
				return nil, broken(e.Ref, "it says that it stands for %d turns and %d messages; they are %d and %d", s.Turns, s.Messages, t, m)
			}
			turns = t
			continue
		}
		before[e.Ref] = i
		for _, m := range e.Node.Messages {
			if open, err = next(e.Ref, open, m); err != nil {
				return nil, err
			}
		}
		if err := turn(e, i == 0, i == len(entries)-1); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// turn checks that a node is one turn: what the model is told, and then what it says. Only the last may have no more than the
// results of the turn before.
func turn(e Entry, first, last bool) error {
	messages := e.Node.Messages
	said := slices.IndexFunc(messages, func(m model.Message) bool { return m.Role == model.Assistant })
	switch {
	case first && messages[0].Role != model.User:
		return broken(e.Ref, "the conversation begins with a message of %s", messages[0].Role)
	case said < 0 && !last, said >= 0 && said != len(messages)-1:
		return broken(e.Ref, "it is not one turn: the model's message is not its last")
	case said == 0:
		return broken(e.Ref, "the model is told nothing before it speaks")
	}
	return nil
}

// Count is the number of turns and of messages in entries, summaries left out.
func Count(entries []Entry) (turns, messages int) {
	for _, m := range said(nil, entries) {
		messages++
		if m.Role == model.Assistant {
			turns++
		}
	}
	return turns, messages
}

// next checks a message after one with open calls, and returns those that it leaves open.
func next(ref blob.Ref, open []model.ToolCall, m model.Message) ([]model.ToolCall, error) {
	if (m.Role == model.Tool) != (len(open) > 0) {
		return nil, broken(ref, "a message of %s after %d calls", m.Role, len(open))
	}
	if m.Summary != nil {
		return nil, broken(ref, "a summary in the middle of a turn")
	}
	if len(m.Results) != len(open) || (m.Role != model.Assistant && len(m.Calls) > 0) {
		return nil, broken(ref, "%d results for %d calls", len(m.Results), len(open))
	}
	for i, r := range m.Results {
		if r.CallID != open[i].ID || r.Name != open[i].Name {
			return nil, broken(ref, "result %d is of another call", i+1)
		}
	}
	return m.Calls, nil
}
