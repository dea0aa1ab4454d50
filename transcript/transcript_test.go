package transcript_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/transcript"
)

func user(text string) model.Message { return model.Message{Role: model.User, Text: text} }

func calling(ids ...string) model.Message {
	m := model.Message{Role: model.Assistant}
	for _, id := range ids {
		m.Calls = append(m.Calls, model.ToolCall{ID: id, Name: "look", Input: json.RawMessage(`{}`)})
	}
	return m
}

func answering(ids ...string) model.Message {
	m := model.Message{Role: model.Tool}
	for _, id := range ids {
		m.Results = append(m.Results, model.ToolResult{CallID: id, Name: "look", Result: tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}})
	}
	return m
}

func summary(number, turns, messages int) model.Message {
	return model.Message{Role: model.User, Text: fmt.Sprint("summary ", number), Summary: &model.Summary{Number: number, Turns: turns, Messages: messages}}
}

// chain appends nodes of a conversation of so many turns, and returns their references.
func chain(t *testing.T, store blob.Store, turns int) []blob.Ref {
	t.Helper()
	var refs []blob.Ref
	for i := range turns {
		n := transcript.Node{Messages: []model.Message{user("task"), calling("c0")}}
		if i > 0 {
			n = transcript.Node{Prev: &refs[i-1], Messages: []model.Message{answering(fmt.Sprint("c", i-1)), calling(fmt.Sprint("c", i))}}
		}
		refs = append(refs, add(t, store, n))
	}
	return refs
}

func add(t *testing.T, store blob.Store, n transcript.Node) blob.Ref {
	t.Helper()
	ref, err := transcript.Append(context.Background(), store, n)
	require.NoError(t, err)
	return ref
}

func roles(messages []model.Message) (out []string) {
	for _, m := range messages {
		switch {
		case m.Summary != nil:
			out = append(out, m.Text)
		case len(m.Calls) > 0:
			out = append(out, "call "+m.Calls[0].ID)
		case len(m.Results) > 0:
			out = append(out, "result "+m.Results[0].CallID)
		default:
			out = append(out, m.Text)
		}
	}
	return out
}

func TestNothingIsAnEmptyConversation(t *testing.T) {
	store := blob.NewMemory("m")
	messages, err := transcript.Read(t.Context(), store, nil)
	require.NoError(t, err)
	require.Empty(t, messages)
	v, err := transcript.Live(t.Context(), store, nil)
	require.NoError(t, err)
	require.Empty(t, v.Messages())
	entries, err := transcript.Verify(t.Context(), store, nil)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Two compactions: the model is shown the task, the last summary and what it kept; the chain has every message once.
func TestCompaction(t *testing.T) {
	store := blob.NewMemory("m")
	refs := chain(t, store, 4)
	first := add(t, store, transcript.Node{Prev: &refs[3], Compaction: &transcript.Compaction{First: refs[0], Through: refs[1]},
		Messages: []model.Message{summary(1, 2, 4)}})
	v, err := transcript.Live(t.Context(), store, &first)
	require.NoError(t, err)
	require.Equal(t, []string{"task", "summary 1", "call c2", "result c2", "call c3"}, roles(v.Messages()))
	require.Equal(t, 1, v.Dropped)

	next := add(t, store, transcript.Node{Prev: &first, Messages: []model.Message{answering("c3"), calling("c4")}})
	second := add(t, store, transcript.Node{Prev: &next, Compaction: &transcript.Compaction{First: refs[0], Through: refs[2]},
		Messages: []model.Message{summary(2, 3, 6)}})
	last := add(t, store, transcript.Node{Prev: &second, Messages: []model.Message{answering("c4"), {Role: model.Assistant, Text: "done"}}})
	v, err = transcript.Live(t.Context(), store, &last)
	require.NoError(t, err)
	require.Equal(t, []string{"task", "summary 2", "call c3", "result c3", "call c4", "result c4", "done"}, roles(v.Messages()))
	require.Equal(t, refs[0], v.First)

	entries, err := transcript.Verify(t.Context(), store, &last)
	require.NoError(t, err)
	require.Len(t, entries, 8)
	messages, err := transcript.Read(t.Context(), store, &last)
	require.NoError(t, err)
	require.Equal(t, []string{"task", "call c0", "result c0", "call c1", "result c1", "call c2", "result c2", "call c3", "result c3", "call c4", "result c4", "done"}, roles(messages))
}

func TestVerifyFindsWhatIsBroken(t *testing.T) {
	store := blob.NewMemory("m")
	refs := chain(t, store, 4)
	about := func(first, through blob.Ref, s model.Message) transcript.Node {
		return transcript.Node{Prev: &refs[3], Compaction: &transcript.Compaction{First: first, Through: through}, Messages: []model.Message{s}}
	}
	elsewhere := add(t, store, transcript.Node{Messages: []model.Message{user("another")}})
	ended := add(t, store, transcript.Node{Prev: &refs[3], Messages: []model.Message{answering("c3"), {Role: model.Assistant, Text: "done"}}})
	for name, tc := range map[string]struct {
		node transcript.Node
		want string
	}{
		"no result":        {transcript.Node{Prev: &refs[3], Messages: []model.Message{user("x")}}, "after 1 calls"},
		"too many results": {transcript.Node{Prev: &refs[3], Messages: []model.Message{answering("c3", "c4")}}, "2 results for 1 calls"},
		"another result":   {transcript.Node{Prev: &refs[3], Messages: []model.Message{answering("c9")}}, "result 1 is of another call"},
		"a user that calls": {transcript.Node{Prev: &refs[3], Messages: []model.Message{answering("c3"), {Role: model.User, Calls: calling("x").Calls}}},
			"0 results for 0 calls"},
		"a summary in a turn":                {transcript.Node{Prev: &refs[3], Messages: []model.Message{answering("c3"), summary(1, 1, 1)}}, "a summary in the middle"},
		"a turn after nothing":               {transcript.Node{Prev: &ended, Messages: []model.Message{{Role: model.Assistant, Text: "x"}}}, "told nothing"},
		"two turns":                          {transcript.Node{Prev: &ended, Messages: []model.Message{user("x"), {Role: model.Assistant}, user("y"), {Role: model.Assistant}}}, "not one turn"},
		"words after a turn":                 {transcript.Node{Prev: &ended, Messages: []model.Message{user("x"), {Role: model.Assistant}, user("y")}}, "not one turn"},
		"a first turn that nobody asked for": {transcript.Node{Messages: []model.Message{{Role: model.Assistant, Text: "x"}}}, "begins with a message of assistant"},
		"of another chain":                   {about(refs[0], elsewhere, summary(1, 1, 1)), "summarises what is not before it"},
		"another first":                      {about(refs[1], refs[1], summary(1, 2, 4)), "summarises what is not before it"},
		"another number":                     {about(refs[0], refs[1], summary(2, 2, 4)), "it is summary 1 and says 2"},
		"other turns":                        {about(refs[0], refs[1], summary(1, 3, 4)), "they are 2 and 4"},
		"other messages":                     {about(refs[0], refs[1], summary(1, 2, 5)), "they are 2 and 4"},
	} {
		t.Run(name, func(t *testing.T) {
			ref := add(t, store, tc.node)
			_, err := transcript.Verify(t.Context(), store, &ref)
			var broken *transcript.BrokenError
			require.ErrorAs(t, err, &broken)
			require.Equal(t, ref, broken.Ref)
			require.ErrorContains(t, err, tc.want)
		})
	}
	// A turn that was never taken cannot be gone on from.
	middle := add(t, store, transcript.Node{Prev: &ended, Messages: []model.Message{user("x")}})
	_, err := transcript.Verify(t.Context(), store, &middle)
	require.NoError(t, err)
	after := add(t, store, transcript.Node{Prev: &middle, Messages: []model.Message{user("y"), {Role: model.Assistant}}})
	_, err = transcript.Verify(t.Context(), store, &after)
	require.ErrorContains(t, err, "not one turn")
	raw, err := store.Get(t.Context(), after)
	require.NoError(t, err)
	twice, err := store.Put(t.Context(), append(raw, '}'))
	require.NoError(t, err)
	_, err = transcript.Load(t.Context(), store, twice)
	require.ErrorContains(t, err, "more than one JSON text")

	bad := add(t, store, about(refs[0], elsewhere, summary(1, 1, 1)))
	_, err = transcript.Live(t.Context(), store, &bad)
	require.ErrorContains(t, err, "a later summary stands for")
	_, err = transcript.Verify(t.Context(), store, &refs[3])
	require.NoError(t, err, "a last turn whose calls nobody has answered is whole")
}

func TestNodesThatAreNone(t *testing.T) {
	store := blob.NewMemory("m")
	ref := chain(t, store, 1)[0]
	for name, n := range map[string]transcript.Node{
		"empty":             {},
		"two pasts":         {Prev: &ref, Earlier: &ref, Messages: []model.Message{user("x")}},
		"summary of none":   {Compaction: &transcript.Compaction{}, Messages: []model.Message{summary(1, 1, 1)}},
		"no summary":        {Prev: &ref, Compaction: &transcript.Compaction{}, Messages: []model.Message{user("x")}},
		"two summaries":     {Prev: &ref, Compaction: &transcript.Compaction{}, Messages: []model.Message{summary(1, 1, 1), summary(2, 1, 1)}},
		"role":              {Messages: []model.Message{{Role: "system", Text: "x"}}},
		"assistant summary": {Prev: &ref, Compaction: &transcript.Compaction{}, Messages: []model.Message{{Role: model.Assistant, Summary: &model.Summary{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := transcript.Append(t.Context(), store, n)
			var broken *transcript.BrokenError
			require.ErrorAs(t, err, &broken)
			raw, err := json.Marshal(n)
			require.NoError(t, err)
			stored, err := store.Put(t.Context(), raw)
			require.NoError(t, err)
			_, err = transcript.Load(t.Context(), store, stored)
			require.ErrorAs(t, err, &broken)
		})
	}
}

// liar returns other bytes than it was asked for.
type liar struct{ blob.Store }

func (l liar) Get(context.Context, blob.Ref) ([]byte, error) {
	return []byte(`{"messages":[{"role":"user","text":"x"}]}`), nil
}

func TestAStoreThatLiesIsFoundOut(t *testing.T) {
	store := blob.NewMemory("m")
	ref := chain(t, store, 1)[0]
	_, err := transcript.Read(t.Context(), liar{store}, &ref)
	var corrupt *blob.CorruptError
	require.ErrorAs(t, err, &corrupt)
	missing := blob.RefOf([]byte("gone"))
	for _, read := range []func() error{
		func() error { _, err := transcript.Read(t.Context(), store, &missing); return err },
		func() error { _, err := transcript.Live(t.Context(), store, &missing); return err },
		func() error { _, err := transcript.Verify(t.Context(), store, &missing); return err },
	} {
		var not *blob.NotFoundError
		require.ErrorAs(t, read(), &not)
	}
}

func TestRefs(t *testing.T) {
	a, b, c := blob.RefOf([]byte("a")), blob.RefOf([]byte("b")), blob.RefOf([]byte("c"))
	m := answering("1", "2")
	m.Results[1].Result.ValueRef = &c
	require.Equal(t, []blob.Ref{a, c}, transcript.Node{Prev: &a, Messages: []model.Message{m}}.Refs())
	require.Equal(t, []blob.Ref{b}, transcript.Node{Earlier: &b, Messages: []model.Message{user("x")}}.Refs())
}

// Whatever bytes a store holds, reading them ends with messages or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","text":"x"}]}`))
	f.Add([]byte(`{"prev":{"sha256":"","size":1},"messages":[{"role":"tool","results":[{"callId":"1"}]}]}`))
	f.Add([]byte(`{"compaction":{"first":{},"through":{}},"messages":[{"role":"user","summary":{"number":1}}]}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`[]{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		store := blob.NewMemory("m")
		first := chain(t, store, 1)[0]
		for _, text := range [][]byte{raw, []byte(fmt.Sprintf(`{"prev":{"sha256":%q,"size":%d},%s`, first.SHA256, first.Size, trimmed(raw)))} {
			ref, err := store.Put(t.Context(), text)
			require.NoError(t, err)
			entries, err := transcript.Verify(t.Context(), store, &ref)
			if err != nil {
				continue
			}
			require.NotEmpty(t, entries)
			_, err = transcript.Read(t.Context(), store, &ref)
			require.NoError(t, err, "what is verified can be read")
		}
	})
}

func trimmed(raw []byte) []byte {
	if len(raw) > 0 {
		return raw[1:]
	}
	return raw
}
