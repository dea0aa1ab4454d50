package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// This Markdown is rendered by the Temporal UI, which lets HTML through and replaces {namespace}, {workflowId} and
// {runId} wherever they stand. So foreign text stands in code spans and code blocks only, and as what it is: nothing in
// it is invisible, replaced, or so far to the right that nobody looks there.

const (
	// mostShown bounds the arguments of one question, in bytes.
	mostShown = 4 << 10
	// mostPending bounds all questions, in bytes of Markdown: the UI puts it into the address of a page.
	mostPending = 24 << 10
	// mostColumns fits into the UI's column on a small screen.
	mostColumns = 58
	mostWhy     = 1000
	mostSpan    = 300
)

// pending is the block of one question.
func pending(q approval.Approval, workflowID, namespace, signal string) string {
	var s strings.Builder
	at := placeOf(workflowID, namespace, signal)
	asks := "The workflow %s asks to run %s.\n\n"
	allowed, denied := "this runs, once", "it never runs; the workflow gets the error `"+protocol.ErrorDenied+"`, with your reason"
	if signal == protocol.SignalApproval {
		asks = "The agent %s asks to call the tool %s.\n\n"
		allowed, denied = "this one call runs, and the agent goes on", "it never runs; the agent is told so, with your reason, and goes on"
	}
	// The UI takes {#…} in a heading for markup, in a code span too.
	fmt.Fprintf(&s, "\n### Approval needed: %s\n\n", strings.ReplaceAll(span(q.Key), "{#", `\u007b#`))
	fmt.Fprintf(&s, asks, span(q.Agent), span(q.Tool))
	until := "there is no deadline; it waits"
	if q.Deadline != nil {
		until = moment(*q.Deadline) + "; after that it is denied"
	}
	fmt.Fprintf(&s, "- **why** %s\n- **asked** %s\n- **answer until** %s\n", code(q.Why, mostWhy), moment(q.AskedAt), until)
	answerable(&s, q)
	asking(&s, q.Segments)
	fmt.Fprintf(&s, "- **allow** %s, unless the rules have changed and deny it\n- **deny** %s\n\nWith these arguments:\n", allowed, denied)
	at.arguments(&s, q.Input)
	at.answers(&s, q.Key)
	return s.String()
}

// answerable tells whose allow counts, and who has given one.
func answerable(s *strings.Builder, q approval.Approval) {
	if a := q.Approvers; a != nil {
		who := "anybody"
		if len(a.Groups) > 0 {
			who = "the members of " + spans(a.Groups)
		}
		if q.RequestedBy != "" {
			who += ", but not " + span(q.RequestedBy) + ", who asked for the run"
		}
		fmt.Fprintf(s, "- **who may allow it** %s; %d of them must\n", who, q.Needs())
	}
	for _, v := range q.Votes {
		fmt.Fprintf(s, "- **allowed so far**%s%s, %s\n", by(v.By), proved(v.Signed), moment(v.At))
	}
	if q.Escalated != nil {
		fmt.Fprintf(s, "- **escalated** %s to %s\n", moment(*q.Escalated), spans(q.EscalatedTo))
	}
	if q.Reminded > 0 {
		fmt.Fprintf(s, "- **reminded** %d times\n", q.Reminded)
	}
}

func proved(signed bool) string {
	if signed {
		return " (signed)"
	}
	return ""
}

func spans(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = span(n)
	}
	return strings.Join(out, ", ")
}

// granted lists allowed calls that have not ended, and how to stop them.
func (p place) granted(s *strings.Builder, list []approval.Granted) {
	const most = 10
	for i, g := range list {
		if i == most {
			fmt.Fprintf(s, "- %d more\n", len(list)-i)
			break
		}
		if i == 0 {
			s.WriteString("**Allowed, and not ended.** A revoke keeps a call from starting, or asks it to stop:\n\n")
		}
		fmt.Fprintf(s, "- %s · %s%s; data `%s`\n", span(g.Key), span(g.Tool), by(g.By), answerJSON(approval.Resolution{Key: g.Key, Decision: approval.Revoke}))
	}
	if len(list) > 0 {
		s.WriteString("\n")
	}
}

// asking tells the parts of a command that ask, and what makes them.
func asking(s *strings.Builder, segments []argv.Segment) {
	const most = 5
	parts := 0
	for _, seg := range segments {
		if seg.Verdict != argv.Ask.String() {
			continue
		}
		if parts++; parts > most {
			continue
		}
		fmt.Fprintf(s, "- **asks for** %s", span(seg.Segment))
		if seg.Pattern != "" {
			fmt.Fprintf(s, ", %s pattern %s", seg.Table, span(seg.Pattern))
		}
		if seg.Construct != "" {
			fmt.Fprintf(s, ", %s", span(seg.Construct))
		}
		s.WriteString("\n")
	}
	if parts > most {
		fmt.Fprintf(s, "- **asks for** %d more parts of the command\n", parts-most)
	}
}

// unshown tells of questions for which there is no room.
func unshown(n int, workflowID, namespace, signal string) string {
	at := placeOf(workflowID, namespace, signal)
	return fmt.Sprintf("**%d more** are open. All of them are told by:\n%s\n", n, fence(at.temporal("query", "--type", at.query)))
}

// place is where a question can be read and answered.
type place struct{ namespace, workflow, signal, update, query string }

func placeOf(workflowID, namespace, signal string) place {
	if signal == protocol.SignalApproval {
		return place{namespace, workflowID, signal, protocol.UpdateResolve, protocol.QueryApprovals}
	}
	return place{namespace, workflowID, signal, protocol.GuardUpdateResolve, protocol.GuardQueryApprovals}
}

// answers are the ways to answer, to be pasted.
func (p place) answers(s *strings.Builder, key string) {
	allow := approval.Resolution{Key: key, Decision: approval.Allow}
	deny := approval.Resolution{Key: key, Decision: approval.Deny, Reason: "not now"}
	s.WriteString("\nTo **allow** it, paste:\n")
	s.WriteString(fence(p.temporal("signal", "--name", p.signal, "--input", answerJSON(allow))))
	s.WriteString("\nTo **deny** it, for a reason of yours:\n")
	s.WriteString(fence(p.temporal("signal", "--name", p.signal, "--input", answerJSON(deny))))
	fmt.Fprintf(s, "\nOther ways:\n\n- on this page: **More Actions**, **Send a Signal**, signal name `%s`, data `%s`\n", p.signal, answerJSON(allow))
	fmt.Fprintf(s, "- **Send an Update**, name `%s`, takes the same data and says at once whether it counted\n", p.update)
	fmt.Fprintf(s, "- `starter approve %s --workflow %s --namespace %s`\n", word(key), word(p.workflow), word(p.namespace))
	s.WriteString("- with `\"by\":\"…\"` in the data you are named in the list of answers\n\n")
}

// temporal is a command of Temporal's own tool, with one flag in each line.
func (p place) temporal(verb string, flags ...string) string {
	c := "temporal workflow " + verb
	for i, f := range append([]string{"--namespace", p.namespace, "--workflow-id", p.workflow}, flags...) {
		switch {
		case i%2 == 0:
			c += " \\\n  " + f
		case strings.HasSuffix(c, "--input") && len(f) > mostColumns-len("  --input ''"):
			// Between the members of an object both JSON and the shell allow a new line.
			c += " " + strings.ReplaceAll(word(f), `,"`, ",\n    \"")
		default:
			c += " " + word(f)
		}
	}
	return c
}

// arguments shows JSON, and once more as text what it holds in several lines.
func (p place) arguments(s *strings.Builder, input json.RawMessage) {
	const all = 1 << 30
	text := legible(approval.Show(input, all))
	if len(text) > mostShown {
		head := strings.ToValidUTF8(text[:mostShown], "")
		fmt.Fprintf(s, "%s\nThese are the first %d bytes of %d. All of it is told by:\n%s", block(head), len(head), len(text),
			fence(p.temporal("query", "--type", p.query)))
		return
	}
	s.WriteString(block(text))
	if bytes.HasPrefix(input, []byte(`{"$blob":`)) {
		s.WriteString("\nThey are too large for this page; the blob store has them under this hash.\n")
	}
	room := mostShown - len(text)
	for _, t := range texts(input) {
		if room -= len(t.text); room < 0 {
			return
		}
		fmt.Fprintf(s, "\n%s in it, as text:\n%s", span(t.name), block(t.text))
	}
}

// texts are the members of an object that are text of several lines, in their order.
func texts(input json.RawMessage) (out []namedText) {
	d := json.NewDecoder(bytes.NewReader(input))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		var text string
		if json.Unmarshal(value, &text) == nil && strings.Contains(text, "\n") {
			out = append(out, namedText{fmt.Sprint(name), text})
		}
	}
	return out
}

type namedText struct{ name, text string }

// answerJSON is an answer whose every character survives being shown and copied.
func answerJSON(r approval.Resolution) string {
	b, _ := json.Marshal(r)
	var s strings.Builder
	for _, r := range string(b) {
		switch {
		case r > 0xffff && !approval.Visible(r):
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&s, `\u%04x\u%04x`, high, low)
		case r == '`', r == '\'', !approval.Visible(r):
			fmt.Fprintf(&s, `\u%04x`, r)
		default:
			s.WriteRune(r)
		}
	}
	return untemplated(strings.ReplaceAll(s.String(), "  ", ` \u0020`), `\u007b`)
}

func closedList(s *strings.Builder, list approval.List) {
	const most = 10
	if n := len(list.Closed); n > 0 {
		s.WriteString("**Answered** (nothing proves a name that is not signed)\n\n")
		for _, c := range list.Closed[max(0, n-most):] {
			how := string(c.How)
			if c.Edited {
				how += " with other arguments"
			}
			fmt.Fprintf(s, "- %s · %s **%s**%s%s, %s%s\n", moment(c.At), span(c.Key), how, by(c.By), proved(c.Signed), via(c.Via), note(c.Reason))
			if r := c.Revoked; r != nil {
				fmt.Fprintf(s, "  - **revoked** %s%s%s%s\n", moment(r.At), by(r.By), cameOf(*r), note(r.Reason))
			}
			if c.Vetted != nil {
				line, _ := json.Marshal(c.Vetted)
				fmt.Fprintf(s, "  - not asked again in this run; for others, add to `vetted` of the policy: %s\n", code(string(line), mostWhy))
			}
		}
		s.WriteString("\n")
	}
	if n := len(list.Ignored); n > 0 {
		s.WriteString("**Ignored answers** (they changed nothing)\n\n")
		for _, c := range list.Ignored[max(0, n-most):] {
			fmt.Fprintf(s, "- %s%s · %s%s\n", moment(c.At), by(c.By), via(c.Via), note(c.Why))
		}
		s.WriteString("\n")
	}
}

// cameOf says what became of a revoked call.
func cameOf(r approval.Revocation) string {
	switch r.Outcome {
	case tool.Denied:
		return ", it never ran"
	case tool.Aborted:
		return ", it had begun and was stopped"
	case "":
		return ", the call is asked to stop"
	}
	return ", the call had ended with " + string(r.Outcome)
}

// via says how an answer came.
func via(how string) string {
	switch how {
	case viaSignal, viaUpdate:
		return "by " + how
	case viaApprover:
		return "by an approver in the worker"
	case viaTimer:
		return "at its deadline"
	}
	return "by the workflow itself"
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + span(who)
}

func note(why string) string {
	if why == "" {
		return ""
	}
	return ": " + span(why)
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// span is foreign text on one line.
func span(s string) string { return code(s, mostSpan) }

func code(s string, most int) string {
	s = strings.ReplaceAll(visible(short(s, most), false), "`", "'")
	if strings.TrimSpace(s) == "" {
		s = fmt.Sprintf("%q", s)
	}
	return "`" + s + "`"
}

// ordinary names look the same as text and as Markdown.
var ordinary = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?$`)

// label is foreign text in a summary, which the UI renders as Markdown, too.
func label(s string) string {
	if ordinary.MatchString(s) {
		return short(s, mostSummary)
	}
	return "`" + strings.ReplaceAll(short(visible(short(s, mostSummary), false), mostSummary), "`", "'") + "`"
}

// block is a code block of foreign text.
func block(s string) string { return fence(fold(visible(s, true))) }

// fence is a code block that its text cannot close.
func fence(s string) string {
	ticks := "```"
	for strings.Contains(s, ticks) {
		ticks += "`"
	}
	return "\n" + ticks + "\n" + s + "\n" + ticks + "\n"
}

// visible writes as an escape what could hide, be taken for the end of our part, or be replaced by the UI.
func visible(s string, lines bool) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case approval.Visible(r), lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return untemplated(strings.ReplaceAll(b.String(), "<!--", `\u003c!--`), `\u007b`)
}

// untemplated writes the brace of what the UI would replace in another way.
func untemplated(s, brace string) string {
	for _, name := range []string{"namespace", "workflowId", "runId"} {
		s = strings.ReplaceAll(s, "{"+name+"}", brace+name+"}")
	}
	return s
}

// legible undoes the escapes that Go's JSON writes for HTML's sake; the value stays the same.
func legible(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		if i+6 <= len(s) {
			if at := slices.Index([]string{`\u003c`, `\u003e`, `\u0026`}, strings.ToLower(s[i:i+6])); at >= 0 {
				b.WriteByte("<>&"[at])
				i += 5
				continue
			}
		}
		b.WriteString(s[i : i+2])
		i++
	}
	return b.String()
}

// fold continues long lines in the next one, behind a mark: a reader does not scroll to the right.
func fold(s string) string {
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		column := 0
		for _, r := range line {
			if column == mostColumns {
				b.WriteString("\n↳ ")
				column = 2
			}
			b.WriteRune(r)
			column++
		}
	}
	return b.String()
}

// word quotes for a shell; workflow ids are free text. What would not survive being shown and copied needs the quotes
// that bash, zsh and POSIX have for it.
func word(s string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./:@", r)
	}
	odd := func(r rune) bool { return !approval.Visible(r) || r == '`' || r == '<' }
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0:
		return s
	case strings.IndexFunc(s, odd) < 0 && !strings.Contains(s, "  ") && untemplated(s, "") == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	quoted := strings.NewReplacer(`\`, `\\`, "'", `\'`, "{", `\x7b`, "<", `\x3c`, "`", `\x60`, "  ", ` \x20`).Replace(s)
	return "$'" + visible(quoted, false) + "'"
}
