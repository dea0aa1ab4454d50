package follow

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/protocol"
)

// spoken is the speech of a text so far, as the worker tells it.
func spoken(text string) protocol.Speech {
	tail := text
	if over := len(tail) - protocol.SpeechTail; over > 0 {
		tail = tail[over:]
		for tail != "" && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return protocol.Speech{Turn: 1, Attempt: 1, Request: 1, Model: "a:m", Text: &protocol.SpeechText{Bytes: int64(len(text)), Tail: tail}}
}

func TestMoreIsToldOnce(t *testing.T) {
	var l live
	got := l.more(spoken("one"))
	require.Equal(t, &Saying{Number: 1, Attempt: 1, Request: 1, Model: "a:m", Text: &Piece{Text: "one"}}, got)
	require.Nil(t, l.more(spoken("one")), "the same")
	require.Nil(t, l.more(spoken("on")), "an older heartbeat that came later")
	require.Equal(t, &Piece{At: 3, Text: " two"}, l.more(spoken("one two")).Text)

	long := "one two" + strings.Repeat("ä", protocol.SpeechTail)
	got = l.more(spoken(long))
	require.Greater(t, got.Text.At, int64(7), "what lies between was not seen, and that is said")
	require.Equal(t, long[got.Text.At:], got.Text.Text)

	calls := spoken(long)
	calls.Calls = []protocol.SpeechCall{{Name: "run", Bytes: 3}}
	got = l.more(calls)
	require.Nil(t, got.Text)
	require.Equal(t, calls.Calls, got.Calls)

	again := spoken("anew")
	again.Request = 2
	require.Equal(t, &Piece{Text: "anew"}, l.more(again).Text)
	require.Nil(t, l.more(calls), "the request before")
	third := spoken("third")
	third.Attempt = 2
	require.Equal(t, &Piece{Text: "third"}, l.more(third).Text)
	require.Nil(t, l.more(again), "the attempt before")
}

// Whatever is seen of a text, and when, the pieces are parts of it at their places, and none comes twice.
func FuzzMore(f *testing.F) {
	f.Add("a text with ä", 3, 9000)
	f.Fuzz(func(t *testing.T, unit string, step, times int) {
		unit = strings.ToValidUTF8(unit, "?")
		if unit == "" || len(unit) > 1000 {
			return
		}
		text := strings.Repeat(unit, 1+times%50)
		runes := []rune(text)
		var l live
		end := int64(0)
		for at := 0; at <= len(runes); at += 1 + abs(step)%5000 {
			said := l.more(spoken(string(runes[:at])))
			if said == nil || said.Text == nil {
				continue
			}
			require.GreaterOrEqual(t, said.Text.At, end)
			end = said.Text.At + int64(len(said.Text.Text))
			require.Equal(t, text[said.Text.At:end], said.Text.Text)
			require.EqualValues(t, len(string(runes[:at])), end)
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}
