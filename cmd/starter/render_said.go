package main

import (
	"fmt"
	"strings"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/protocol"
)

// speaking is what was shown of a turn that goes on.
type speaking struct {
	number, attempt, request int
	// heard is the text so far, of which shown bytes are on the screen.
	heard string
	shown int
	// calls counts the calls that were named.
	calls int
	// lossy says that a part of the text was not seen.
	lossy bool
}

// softLine is the length in bytes from which an unfinished line is shown, up to its last space.
const softLine = 160

// saying shows what a model says as it comes, line by line.
func (p *printer) saying(s follow.Saying) {
	if s.Summary || s.Text == nil && len(s.Calls) == 0 {
		return
	}
	now := p.speaking
	if now == nil || now.number != s.Number || now.attempt != s.Attempt || now.request != s.Request {
		head := fmt.Sprintf("turn %d", s.Number)
		if now != nil && now.number == s.Number {
			p.printf("  %s\n", p.style.yellow("asked again: what it said so far counts for nothing"))
		}
		p.printf("%s  %s\n", p.style.bold(head), p.style.dim(oneLine(s.Model, mostLine)+" is speaking"))
		now = &speaking{number: s.Number, attempt: s.Attempt, request: s.Request}
		p.speaking = now
	}
	if t := s.Text; t != nil {
		if t.At > int64(len(now.heard)) {
			p.heard(now, len(now.heard))
			p.printf("  %s\n", p.style.dim(fmt.Sprintf("… (%d bytes)", t.At-int64(len(now.heard)))))
			now.lossy, now.heard = true, now.heard+strings.Repeat(" ", int(min(t.At-int64(len(now.heard)), protocol.InlineText)))
			now.shown = len(now.heard)
		}
		now.heard += t.Text
		p.heard(now, showable(now.heard, now.shown))
	}
	for ; now.calls < len(s.Calls); now.calls++ {
		name := s.Calls[now.calls].Name
		if name == "" && now.calls == len(s.Calls)-1 {
			return // the name may come
		}
		if name != "" {
			p.heard(now, len(now.heard))
			p.printf("  %s\n", p.style.dim("writes a call of "+oneLine(name, mostLine)))
		}
	}
}

// showable is how far a text can be shown: to the end of a line, or of a word of a long one.
func showable(text string, shown int) int {
	if i := strings.LastIndexByte(text[shown:], '\n'); i >= 0 {
		shown += i + 1
	}
	if rest := text[shown:]; len(rest) > softLine {
		if i := strings.LastIndexByte(rest, ' '); i > 0 {
			shown += i + 1
		}
	}
	return shown
}

// heard shows the text up to a place.
func (p *printer) heard(s *speaking, to int) {
	if to <= s.shown {
		return
	}
	text := s.heard[s.shown:to]
	if s.shown == 0 {
		text = strings.TrimLeft(text, " \t\r\n")
	}
	s.shown = to
	if text = strings.TrimRight(text, " \t\r\n"); text == "" {
		return
	}
	for _, line := range paragraphs(text, len(text)) {
		p.printf("  %s\n", line)
	}
}

// unsaid is what is left to show of a turn's text, and whether its beginning is on the screen.
func (p *printer) unsaid(t follow.TurnOf) (lines []string, spoken bool) {
	s := p.speaking
	p.speaking = nil
	if s == nil || s.number != t.Number {
		return said(t.Text), false
	}
	whole := strings.TrimSuffix(t.Text, "…")
	n := min(s.shown, len(whole))
	switch {
	case s.lossy && t.Text != "":
		p.printf("  %s\n", p.style.dim("all of it:"))
		return said(t.Text), true
	case whole[:n] != s.heard[:n]:
		p.printf("  %s\n", p.style.yellow("asked again: what it said so far counts for nothing"))
		return said(t.Text), true
	case strings.TrimSpace(t.Text[n:]) == "" || n < s.shown:
		return nil, true
	}
	return said(t.Text[n:]), true
}
