package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/protocol"
)

func (a *attendant) reply(ctx context.Context, r approval.Resolution) error {
	a.sent[r.Key] = true
	r.By = whoami()
	if err := a.server.SignalWorkflow(ctx, a.run.ID, "", protocol.SignalApproval, r); err != nil {
		return fmt.Errorf("answer %q: %w", r.Key, err)
	}
	return nil
}

const choices = "[a]llow  [A]lways  [d]eny  [e]dit  [w]hy  [q]uit and leave it waiting"

// open is the first question that nobody has answered here.
func (a *attendant) open() (follow.Question, bool) {
	for _, q := range a.asked {
		if !a.sent[q.Key] {
			return q, true
		}
	}
	return follow.Question{}, false
}

// stillOpen puts a question again whose answer from here did not close it.
func (a *attendant) stillOpen(key string) {
	if a.sent[key] && slices.ContainsFunc(a.asked, func(q follow.Question) bool { return q.Key == key }) {
		delete(a.sent, key)
		a.prompt()
	}
}

// prompt asks about the first open question.
func (a *attendant) prompt() {
	q, ok := a.open()
	if !ok {
		return
	}
	text := choices
	if len(a.asked) > 1 {
		text = q.Key + "   " + text
	}
	w := a.out
	if a.json() {
		w = a.err
	}
	if a.prompted = a.tty; a.prompted {
		fmt.Fprintf(w, "  %s: ", text)
		return
	}
	fmt.Fprintf(w, "  %s\n", text)
}

// newline ends a prompt that was overtaken.
func (a *attendant) newline() {
	if a.prompted {
		a.say("")
		a.prompted = false
	}
}

// line takes what was typed; ok is false at the end of the input.
func (a *attendant) line(ctx context.Context, line string, ok bool) error {
	q, asked := a.open()
	if !ok {
		a.eof, a.lines, a.more = true, make(chan string), make(chan struct{}, 1) // which nothing is ever sent on
		if asked {
			return errLeft
		}
		return nil
	}
	if !asked {
		return nil
	}
	a.prompted = false
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	r := approval.Resolution{Key: q.Key, Decision: approval.Allow, Reason: strings.TrimSpace(rest)}
	if word == "A" {
		word = "always"
	}
	switch strings.ToLower(word) {
	case "a", "allow", "y", "yes":
		return a.reply(ctx, r)
	case "always":
		r.Always = true
		return a.reply(ctx, r)
	case "d", "deny", "n", "no":
		r.Decision = approval.Deny
		return a.reply(ctx, r)
	case "e", "edit":
		if r.Input, r.Reason = a.edit(ctx, q, r.Reason), ""; r.Input != nil {
			return a.reply(ctx, r)
		}
	case "w", "why":
		a.why(q)
	case "q", "quit":
		return errLeft
	case "":
	default:
		a.say("  %q is none of these", line)
	}
	a.prompt()
	return nil
}

// edit returns the arguments that are to run instead: those behind the word, or what comes out of the editor. nil means
// that the question stays as it is, and that it was said why.
func (a *attendant) edit(ctx context.Context, q follow.Question, typed string) json.RawMessage {
	asked := q.Approval()
	text, err := []byte(typed), error(nil)
	switch {
	case typed != "":
	case !a.tty || os.Getenv("VISUAL")+os.Getenv("EDITOR") == "":
		example, ok := commandExample(asked.Input)
		if !ok {
			example = "{…}"
		}
		a.say("  type the arguments that are to run behind it, for example: e %s", example)
		return nil
	default:
		text, err = a.inEditor(ctx, asked)
	}
	var input json.RawMessage
	if err == nil {
		input, err = object(text)
	}
	if err == nil {
		input, err = a.change(asked, input)
	}
	if err != nil {
		a.say("  not sent: %s", oneLine(err.Error(), 400))
		return nil
	}
	return input
}

// commandExample is what could be typed in place of a call's arguments.
func commandExample(input json.RawMessage) (string, bool) {
	if _, ok := commandOf(input); !ok {
		return "", false
	}
	return `{"command":"go vet ./..."}`, true
}

// why says everything that is known of the decision to ask.
func (a *attendant) why(q follow.Question) {
	d := q.Decision
	a.say("  decided by   %s", because(d))
	for _, s := range d.Segments {
		a.say("  part         %s", partText(s))
	}
	for _, v := range d.Advisories {
		a.say("  note         %s", advisoryText(v))
	}
	a.say("  policy       %s", d.PolicyDigest)
	a.say("  call         %s, asked %s", q.CallID, q.AskedAt.Local().Format(time.DateTime))
	a.say("  Nothing has run. Allow holds once, for exactly these arguments, and is judged again before it takes effect;")
	a.say("  always adds its commands to what needs no question in this run; edited arguments are judged like any others;")
	a.say("  after a deny the agent reads your reason and goes on.")
}

// errLeft says that the person at the terminal leaves the agent waiting.
var errLeft = errors.New("left waiting")
