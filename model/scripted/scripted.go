package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// The kinds of *model.Error that this driver returns. Neither is worth a retry.
const (
	// KindEnded says that the conversation is longer than the script.
	KindEnded = "script_ended"
	// KindExpectation says that the last tool result is not the one the script expects.
	KindExpectation = "script_expectation"
)

// Model plays a script. It is immutable and safe for concurrent use; Parse and Load make one.
type Model struct {
	name             string
	turns, summaries []played
	// replies go before turns.
	replies []played
}

var _ model.Model = (*Model)(nil)

// played is one turn in its final form.
type played struct {
	text  string
	calls []model.ToolCall
	usage model.Usage
	stop  model.Stop
	want  *lastResult
	// contains is what the last message must hold.
	contains string
	// when is set for a reply.
	when *when
}

// Turns returns the number of turns in the script.
func (m *Model) Turns() int { return len(m.turns) }

// Generate returns the first reply that is for the request. If none is, it returns the turn whose index is the number of turns in r, those that a summary stands for included. A request
// without tools gets the turn's text without its calls, as from a model that is told to finish. A request for a summary gets
// the script's next one, or one that only says how much it stands for if the script has none.
func (m *Model) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	if r.Summary != nil {
		return m.summary(r)
	}
	index := 0
	for _, msg := range r.Messages {
		if msg.Role == model.Assistant {
			index++
		}
		if msg.Summary != nil {
			index += msg.Summary.Turns
		}
	}
	if i := slices.IndexFunc(m.replies, func(p played) bool { return p.when.holds(r.Messages, index) }); i >= 0 {
		return m.say(m.replies[i], r, fmt.Sprintf("reply %d", i+1))
	}
	if index >= len(m.turns) {
		return model.Response{}, &model.Error{
			Kind: KindEnded,
			Msg:  fmt.Sprintf("script %q has %d turns and turn %d was asked for", m.name, len(m.turns), index+1),
		}
	}
	return m.say(m.turns[index], r, fmt.Sprintf("turn %d", index+1))
}

// say plays a turn, which errors call name.
func (m *Model) say(t played, r model.Request, name string) (model.Response, error) {
	problem := t.missing(r.Messages)
	if t.want != nil && problem == "" {
		problem = t.want.check(r.Messages)
	}
	if problem != "" {
		return model.Response{}, &model.Error{Kind: KindExpectation, Msg: fmt.Sprintf("script %q %s: %s", m.name, name, problem)}
	}
	calls := t.calls
	if len(r.Tools) == 0 {
		calls = nil
	}
	return model.Response{Text: t.text, Calls: slices.Clone(calls), Stop: t.stopFor(calls), Usage: t.usage}, nil
}

// summary plays the summary that is asked for.
func (m *Model) summary(r model.Request) (model.Response, error) {
	n := r.Summary.Number
	if len(m.summaries) == 0 {
		return model.Response{Text: fmt.Sprintf("Summary %d of %d turns.", n, r.Summary.Turns), Stop: model.StopEnd}, nil
	}
	if n < 1 || n > len(m.summaries) {
		return model.Response{}, &model.Error{Kind: KindEnded,
			Msg: fmt.Sprintf("script %q has %d summaries and summary %d was asked for", m.name, len(m.summaries), n)}
	}
	s := m.summaries[n-1]
	if problem := s.missing(r.Messages); problem != "" {
		return model.Response{}, &model.Error{Kind: KindExpectation, Msg: fmt.Sprintf("script %q summary %d: %s", m.name, n, problem)}
	}
	return model.Response{Text: s.text, Stop: s.stopFor(nil), Usage: s.usage}, nil
}

// holds reports whether a reply is for a conversation of so many turns.
func (w *when) holds(messages []model.Message, turns int) bool {
	if len(messages) == 0 || w.Turn != 0 && w.Turn != turns+1 {
		return false
	}
	last := messages[len(messages)-1]
	if !strings.Contains(messages[0].Text, w.Prompt) || !strings.Contains(last.Text, w.Contains) {
		return false
	}
	// What was returned before the last message is old.
	return w.LastResult == nil || w.LastResult.check([]model.Message{last}) == ""
}

// missing says that the last message does not hold what it must, or nothing.
func (t played) missing(messages []model.Message) string {
	if t.contains == "" {
		return ""
	}
	last := ""
	if n := len(messages); n > 0 {
		last = messages[n-1].Text
	}
	if strings.Contains(last, t.contains) {
		return ""
	}
	return fmt.Sprintf("expected a last message containing %q, found %q", t.contains, clip(last))
}

// stopFor returns the reason that fits the calls which are really sent.
func (t played) stopFor(calls []model.ToolCall) model.Stop {
	switch {
	case t.stop == model.StopToolUse && len(calls) == 0, t.stop == "" && len(calls) == 0:
		return model.StopEnd
	case t.stop == "":
		return model.StopToolUse
	}
	return t.stop
}

// check says what differs from the expectation, or nothing.
func (w *lastResult) check(messages []model.Message) string {
	last := lastOf(messages)
	if last == nil {
		return fmt.Sprintf("expected a last result %s, found no tool result", w.describe())
	}
	text := resultText(last.Result)
	if (w.Tool == "" || w.Tool == last.Name) && (w.Code == "" || w.Code == string(last.Result.Code)) && strings.Contains(text, w.Contains) {
		return ""
	}
	return fmt.Sprintf("expected a last result %s, found %s from %s: %s", w.describe(), last.Result.Code, last.Name, clip(text))
}

func (w *lastResult) describe() string {
	var parts []string
	if w.Tool != "" {
		parts = append(parts, "from "+w.Tool)
	}
	if w.Code != "" {
		parts = append(parts, "with code "+w.Code)
	}
	if w.Contains != "" {
		parts = append(parts, fmt.Sprintf("containing %q", w.Contains))
	}
	return strings.Join(parts, " and ")
}

// lastOf returns the last tool result of the transcript.
func lastOf(messages []model.Message) *model.ToolResult {
	for _, msg := range slices.Backward(messages) {
		if n := len(msg.Results); n > 0 {
			return &msg.Results[n-1]
		}
	}
	return nil
}

// resultText is what "contains" looks at: the failure message if there is one, and the value both as JSON and, where
// it is a string, as the text it stands for.
func resultText(r tool.Result) string {
	var parts []string
	if r.Failure != nil {
		parts = append(parts, r.Failure.Message)
		for _, issue := range r.Failure.Issues {
			parts = append(parts, issue.Pointer+": "+issue.Message)
		}
		if len(r.Failure.Data) > 0 {
			parts = append(parts, string(r.Failure.Data))
		}
	}
	if len(r.Value) > 0 {
		parts = append(parts, string(r.Value))
		var s string
		if json.Unmarshal(r.Value, &s) == nil {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n")
}

// clip keeps error messages readable.
func clip(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes more)", len(s)-most)
}
