package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// What a model says is shown as it comes, and its turn adds what is missing.
func TestWhatIsSaidIsShownOnce(t *testing.T) {
	said := func(attempt int, at int64, text string, calls ...protocol.SpeechCall) follow.Event {
		s := &follow.Saying{Number: 1, Attempt: attempt, Request: 1, Model: "a:m", Calls: calls}
		if text != "" {
			s.Text = &follow.Piece{At: at, Text: text}
		}
		return follow.Event{Kind: follow.Said, WorkflowID: "w", Said: s}
	}
	turn := func(text string) follow.Event {
		return follow.Event{Kind: follow.Turn, WorkflowID: "w", Turn: &follow.TurnOf{Number: 1, Model: "a:m", Text: text, Stop: model.StopEnd}}
	}
	const begins, ends = "turn 1  a:m is speaking\n", "turn 1  a:m · 0 tokens in, 0 out · $0.00\n"
	long := strings.Repeat("word ", 40)
	for name, c := range map[string]struct {
		events []follow.Event
		want   string
	}{
		"nothing before the turn": {[]follow.Event{turn("one\ntwo")}, ends + "  one\n  two\n"},
		"in lines":                {[]follow.Event{said(1, 0, "one\ntw"), said(1, 6, "o\nthree"), turn("one\ntwo\nthree")}, begins + "  one\n  two\n  three\n" + ends},
		"less than a line":        {[]follow.Event{said(1, 0, "on"), turn("one")}, begins + "  one\n" + ends},
		"all of it":               {[]follow.Event{said(1, 0, "one\n"), turn("one")}, begins + "  one\n" + ends},
		"a long line":             {[]follow.Event{said(1, 0, long+"en"), turn(long + "end")}, begins + "  " + strings.TrimSpace(long) + "\n  end\n" + ends},
		"a call": {[]follow.Event{said(1, 0, "one"), said(1, 0, "", protocol.SpeechCall{Name: "run\x1b[2J"}), turn("one")},
			begins + "  one\n  writes a call of run" + oneLine("\x1b[2J", mostLine) + "\n" + ends},
		"a call whose name comes late": {[]follow.Event{said(1, 0, "one\n"), said(1, 0, "", protocol.SpeechCall{Bytes: 1}),
			said(1, 0, "", protocol.SpeechCall{Name: "run", Bytes: 1}), said(1, 0, "", protocol.SpeechCall{Name: "run", Bytes: 1}, protocol.SpeechCall{}, protocol.SpeechCall{Name: "see"}), turn("one")},
			begins + "  one\n  writes a call of run\n  writes a call of see\n" + ends},
		"begun anew": {[]follow.Event{said(1, 0, "half\n"), said(2, 0, "who"), turn("whole")},
			begins + "  half\n  asked again: what it said so far counts for nothing\n" + begins + "  whole\n" + ends},
		"begun anew unseen": {[]follow.Event{said(1, 0, "half\n"), turn("whole")},
			begins + "  half\n  asked again: what it said so far counts for nothing\n  whole\n" + ends},
		"seen from the middle": {[]follow.Event{said(1, 9, "end\n"), turn("beginning end")},
			begins + "  … (9 bytes)\n  end\n  all of it:\n  beginning end\n" + ends},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := &app{out: &out, err: io.Discard}
			p := a.printer(&connect.Server{Address: connect.DefaultAddress, Namespace: connect.DefaultNamespace}, "w")
			for _, e := range c.events {
				require.NoError(t, p.print(e))
			}
			require.Equal(t, c.want, out.String())
		})
	}
}
