package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/transcript"
)

// shownTranscript is a conversation as `show --transcript -o json` prints it.
type shownTranscript struct {
	WorkflowID string   `json:"workflowId"`
	RunID      string   `json:"runId"`
	Store      string   `json:"store"`
	Transcript blob.Ref `json:"transcript"`
	// Lives are the conversations of the agent, oldest first: each but the last ended when its environment was lost.
	Lives [][]shownNode `json:"lives"`
}

// shownNode is what one turn added, or a summary of the turns before.
type shownNode struct {
	Ref        blob.Ref               `json:"ref"`
	Compaction *transcript.Compaction `json:"compaction,omitempty"`
	Messages   []model.Message        `json:"messages"`
}

// mostOfResult bounds what is shown of one result or text, in bytes.
const mostOfResult = 2000

func (a *app) transcript(ctx context.Context, id string, f storeFlags) error {
	dir, err := f.dir()
	if err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := load(ctx, s, id)
	if err != nil {
		return err
	}
	last := v.transcript()
	if last == nil {
		return exit.Failf("see: "+again(s, "show", id), "%q has no transcript: its model has not said anything yet, or it is no agent", id)
	}
	store, err := openStore(dir)
	if err != nil {
		return err
	}
	out := shownTranscript{WorkflowID: v.id, RunID: v.runID, Store: store.ID(), Transcript: *last}
	if out.Lives, err = lives(ctx, store, last); err != nil {
		return inStore(err, dir, store.ID(), v.store())
	}
	if a.json() {
		return a.printJSON(out)
	}
	a.conversation(out)
	return nil
}

// transcript is the last node of the agent's conversation, or nil.
func (v *view) transcript() *blob.Ref {
	if v.end != nil && v.end.Result != nil && v.end.Result.Transcript != nil {
		return v.end.Result.Transcript
	}
	var last *blob.Ref
	for _, t := range v.turns {
		if t.Transcript.SHA256 != "" {
			last = &t.Transcript
		}
	}
	return last
}

// lives reads and verifies the conversation up to ref and those before its restarts, oldest first, with the values of stored
// results.
func lives(ctx context.Context, store blob.Store, ref *blob.Ref) ([][]shownNode, error) {
	var out [][]shownNode
	for ref != nil {
		entries, err := transcript.Verify(ctx, store, ref)
		if err != nil {
			return nil, err
		}
		nodes := make([]shownNode, len(entries))
		for i, e := range entries {
			nodes[i] = shownNode{Ref: e.Ref, Compaction: e.Node.Compaction, Messages: e.Node.Messages}
			for _, m := range e.Node.Messages {
				for j := range m.Results {
					m.Results[j].Result = valueOf(ctx, store, m.Results[j].Result)
				}
			}
		}
		out = append([][]shownNode{nodes}, out...)
		ref = entries[0].Node.Earlier
	}
	return out, nil
}

// valueOf puts a stored value into its result, or says in its preview why it cannot.
func valueOf(ctx context.Context, store blob.Store, r tool.Result) tool.Result {
	if r.ValueRef == nil {
		return r
	}
	raw, err := store.Get(ctx, *r.ValueRef)
	switch {
	case err != nil:
		r.Preview = fmt.Sprintf("[cannot be read: %v]", err)
	case !json.Valid(raw):
		r.Preview = "[is not JSON]"
	default:
		r.Value = raw
	}
	return r
}

func (a *app) conversation(t shownTranscript) {
	turns, messages := 0, 0
	for _, nodes := range t.Lives {
		for _, n := range nodes {
			if n.Compaction != nil {
				continue
			}
			for _, m := range n.Messages {
				messages++
				if m.Role == model.Assistant {
					turns++
				}
			}
		}
	}
	a.printf("%s   %s in %s   verified up to %.12s in store %.12s\n", a.style.bold(oneLine(t.WorkflowID, mostLine)),
		count(messages, "message"), count(turns, "turn"), t.Transcript.SHA256, t.Store)
	for i, nodes := range t.Lives {
		if i > 0 {
			a.printf("%s\n", a.style.yellow("the environment was lost here, and the agent began anew"))
		}
		for _, n := range nodes {
			for _, m := range n.Messages {
				a.message(m)
			}
		}
	}
}

func (a *app) message(m model.Message) {
	if s := m.Summary; s != nil {
		a.printf("%s\n", a.style.yellow(fmt.Sprintf("compacted: from here on this stands for %s (%s) to the model, and the latest turns above follow it",
			count(s.Turns, "turn"), count(s.Messages, "message"))))
		a.text(m.Text)
		return
	}
	a.printf("%s\n", a.style.bold(string(m.Role)))
	a.text(m.Text)
	for _, c := range m.Calls {
		a.printf("  calls %s  %s\n", a.style.bold(oneLine(c.Name, mostLine)), oneLine(string(c.Input)+c.Raw, mostOfResult))
	}
	for _, r := range m.Results {
		text := string(r.Result.Value)
		switch {
		case r.Result.Failure != nil:
			text = failureText(*r.Result.Failure)
		case r.Result.ValueRef != nil && text == "":
			text = fmt.Sprintf("%s (%d bytes, blob %.12s)", r.Result.Preview, r.Result.ValueRef.Size, r.Result.ValueRef.SHA256)
		}
		a.printf("  %s  %s  %s\n", oneLine(r.Name, mostLine), r.Result.Code, oneLine(text, mostOfResult))
	}
}

func failureText(f tool.Failure) string {
	parts := []string{f.Message}
	for _, i := range f.Issues {
		parts = append(parts, strings.TrimPrefix(i.Pointer+": "+i.Message, ": "))
	}
	return strings.Join(parts, "; ")
}

func (a *app) text(s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	for _, line := range paragraphs(s, protocol.InlineText) {
		a.printf("  %s\n", line)
	}
	if len(s) > protocol.InlineText {
		a.printf("  (-o json shows it whole)\n")
	}
}
