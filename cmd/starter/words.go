package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

const (
	// mostLine bounds one line of a listing, mostShown the arguments that a person is to judge, in bytes.
	mostLine    = 160
	mostCompact = 100
	mostShown   = 16 << 10
)

// callText shows a call on one line, for listings: a command as it would be typed, else its arguments as JSON.
func callText(input json.RawMessage, ref *blob.Ref) string {
	if len(input) == 0 {
		if ref != nil {
			return fmt.Sprintf("(%d bytes, blob %.12s)", ref.Size, ref.SHA256)
		}
		return ""
	}
	if command, ok := commandOf(input); ok {
		return oneLine(command, mostLine)
	}
	return oneLine(string(input), mostLine)
}

// commandOf returns the command line of a call whose arguments say nothing else.
func commandOf(input json.RawMessage) (string, bool) {
	var members map[string]json.RawMessage
	var command string
	if json.Unmarshal(input, &members) != nil || len(members) != 1 || json.Unmarshal(members["command"], &command) != nil {
		return "", false
	}
	return command, command != ""
}

// argumentLines shows what a person is asked about, whole: a plain command as it would be typed, short arguments as
// JSON on one line, else indented JSON.
func argumentLines(input json.RawMessage) []string {
	if command, ok := commandOf(input); ok && plainLine(command) {
		return []string{command}
	}
	var short bytes.Buffer
	if json.Compact(&short, input) == nil && short.Len() <= mostCompact && plainLine(short.String()) {
		return []string{short.String()}
	}
	return strings.Split(approval.Show(input, mostShown), "\n")
}

// sameJSON reports whether two values differ in blanks at most.
func sameJSON(a, b json.RawMessage) bool {
	var one, two bytes.Buffer
	return json.Compact(&one, a) == nil && json.Compact(&two, b) == nil && bytes.Equal(one.Bytes(), two.Bytes())
}

// plainLine reports text that one line shows as it is.
func plainLine(s string) bool {
	return len(s) <= mostShown && strings.IndexFunc(s, func(r rune) bool { return !approval.Visible(r) }) < 0
}

// oneLine makes foreign text fit on one line of a terminal: nothing in it moves the cursor or hides.
func oneLine(s string, most int) string {
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= most {
			fmt.Fprintf(&b, "… (%d bytes more)", len(s)-i)
			break
		}
		switch {
		case approval.Visible(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// paragraphs makes foreign text of several lines safe to print, line by line.
func paragraphs(s string, most int) []string {
	cut := ""
	if len(s) > most {
		cut, s = fmt.Sprintf("… (%d bytes more)", len(s)-most), strings.ToValidUTF8(s[:most], "")
	}
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(s), "\n") {
		out = append(out, oneLine(strings.ReplaceAll(line, "\t", "    "), most))
	}
	if cut != "" {
		out = append(out, cut)
	}
	return out
}

// said is what a model said, as history has it: more than fits ends with an ellipsis there.
func said(text string) []string {
	lines := paragraphs(text, protocol.InlineText+len("…"))
	if len(text) > protocol.InlineText {
		lines = append(lines, "(cut here; starter show ID --transcript has more)")
	}
	return lines
}

// because is the reason of a decision, on one line.
func because(d permission.Decision) string { return oneLine(d.Because(), 400) }

// resultText shows a result on one line.
func resultText(r *tool.Result) string {
	if r == nil {
		return ""
	}
	text := valueText(r)
	if n := len(r.Images); n > 0 {
		text += fmt.Sprintf(" (%s)", count(n, "image"))
	}
	return text
}

func valueText(r *tool.Result) string {
	switch {
	case r.Failure != nil:
		return oneLine(r.Failure.Message, mostLine)
	case len(r.Value) > 0:
		return oneLine(string(r.Value), mostLine)
	case r.ValueRef != nil:
		return fmt.Sprintf("%s (%d bytes)", oneLine(r.Preview, mostLine), r.ValueRef.Size)
	}
	return ""
}

// span is a length of time for people, for example 42s, 3m, 2h5m, 3d.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		h, m := int(d.Hours()), int(d.Minutes())%60
		if m == 0 {
			return fmt.Sprintf("%dh", h)
		}
		return fmt.Sprintf("%dh%dm", h, m)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// pad puts coloured text into a column; colour has no width.
func pad(plain, shown string, width int) string {
	return shown + strings.Repeat(" ", max(width-utf8.RuneCountInString(plain), 0))
}

// times is how often something happened.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// vettedLine is a vetted line as a policy file takes it.
func vettedLine(v permission.Vetted) string {
	tools := make([]string, len(v.Tool.Values))
	for i, name := range v.Tool.Values {
		tools[i] = yamlName(name)
	}
	patterns := make([]string, len(v.Argv.Values))
	for i, p := range v.Argv.Values {
		raw, _ := json.Marshal(p) // a string; in JSON's quotes YAML reads the same
		patterns[i] = string(raw)
	}
	return oneLine(fmt.Sprintf("- {tool: [%s], argv: [%s]}", strings.Join(tools, ", "), strings.Join(patterns, ", ")), 4000)
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// costText is what turns cost, of which some may have no known price and some attempts no answer.
func costText(usd float64, turns, unpriced int, lost float64) string {
	text := dollars(usd)
	switch {
	case unpriced > 0 && unpriced >= turns && usd == 0:
		text = "cost unknown"
	case unpriced > 0:
		text += fmt.Sprintf(" and %s of unknown cost", count(unpriced, "turn"))
	}
	if lost > 0 {
		text += fmt.Sprintf(", and up to %s that no answer accounts for", dollars(lost))
	}
	return text
}

// resultCost is what an agent cost, with the agents of the workflows that it called.
func resultCost(r *protocol.AgentResult) string {
	text := costText(r.CostUSD, r.Turns+r.Compactions, r.UnpricedTurns, r.LostUSD)
	if r.BelowUSD > 0 {
		text += fmt.Sprintf(", and %s by agents below", dollars(r.BelowUSD))
	}
	return text
}
