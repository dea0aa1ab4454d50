package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/model"
)

// What an agent said is shown from the store, whole and checked, with the places where it was compacted.
func TestShowTheTranscript(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 400)
	w := newWorld(t, `
turns:
  - say: First I look.
    calls: [{tool: shell, args: {command: "printf %5000s end"}}]
  - calls: [{tool: shell, args: {command: "echo `+long+`"}}]
  - calls: [{tool: shell, args: {command: "echo `+long+`2"}}, {tool: nothing, args: {}}]
  - calls: [{tool: shell, args: {command: "echo `+long+`3"}}]
  - say: All looked at.
summaries: [{say: I looked at one thing.}, {say: I looked at two.}, {say: I looked at three.}, {say: I looked at four.}]
`, "    limits: {maxOutputTokens: 400}\n")
	file, err := os.ReadFile(w.path("assent.yaml"))
	require.NoError(t, err)
	w.write("assent.yaml", strings.NewReplacer("preset: standard", "preset: open", "s: script.yaml}}", "s: script.yaml}}, prices: {'scripted:s': {contextWindow: 4000}}").Replace(string(file)))
	w.work()
	id := unique(t)
	w.ok(w.starter("run", "--profile", "p", "--task", "look around", "--id", id))

	text := w.ok(w.starter("show", id, "--transcript", "--blobs", w.path("blobs"))).out.String()
	require.Regexp(t, `^`+id+`   10 messages in 5 turns   verified up to [0-9a-f]{12} in store [0-9a-f]{12}\n`, text)
	for _, want := range []string{"user\n  look around\n", "assistant\n  First I look.\n  calls shell  ", "tool\n  shell  OK  ",
		"nothing  UNKNOWN_TOOL  there is no tool", "compacted: from here on this stands for ", "I looked at one thing.", "  All looked at.\n", " bytes more)"} {
		require.Contains(t, text, want)
	}
	require.Less(t, strings.Index(text, "look around"), strings.Index(text, "All looked at."))

	var got shownTranscript
	require.NoError(t, json.Unmarshal([]byte(w.ok(w.starter("show", id, "--transcript", "-o", "json", "--config", w.path("assent.yaml"))).out.String()), &got))
	require.Len(t, got.Lives, 1)
	compacted := 0
	var large model.ToolResult
	for _, n := range got.Lives[0] {
		if n.Compaction != nil {
			compacted++
		}
		for _, m := range n.Messages {
			for _, r := range m.Results {
				if r.Result.ValueRef != nil {
					large = r
				}
			}
		}
	}
	require.Positive(t, compacted)
	require.Contains(t, string(large.Result.Value), strings.Repeat(" ", 4000), "a stored result is resolved")

	// Another store, a store without the blob, and an altered one are three things to say.
	w.otherStore("other")
	other := w.exits(w.starter("show", id, "--transcript", "--blobs", w.path("other")), exit.Failed)
	require.Contains(t, other.err.String(), "the agent used")
	object := w.path("blobs/objects/" + got.Transcript.SHA256[:2] + "/" + got.Transcript.SHA256[2:])
	require.NoError(t, os.Chmod(object, 0o600))
	require.NoError(t, os.WriteFile(object, []byte(`{"messages":[{"role":"user","text":"never said"}]}`), 0o600))
	altered := w.exits(w.starter("show", id, "--transcript", "--blobs", w.path("blobs")), exit.Failed)
	require.Contains(t, altered.err.String(), "is altered")
	require.Empty(t, altered.out.String(), "nothing is shown of what cannot be checked")
	require.NoError(t, os.Remove(object))
	gone := w.exits(w.starter("show", id, "--transcript", "--blobs", w.path("blobs")), exit.Failed)
	require.Contains(t, gone.err.String(), "is not in store")

	w.exits(w.starter("show", id, "--blobs", w.path("blobs")), exit.Usage)
}
