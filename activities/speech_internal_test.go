package activities

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

func TestSpeechKeepsTheEndOfWhatWasSaid(t *testing.T) {
	var s speech
	require.Nil(t, s.said())
	s.begin("a:m", false)
	require.Nil(t, s.said(), "a model that says nothing costs no heartbeat")
	require.False(t, s.take())
	s.hear(model.Delta{Text: strings.Repeat("ä", protocol.SpeechTail)})
	s.hear(model.Delta{Text: "end"})
	s.hear(model.Delta{Thinking: "hm \xff"})
	s.hear(model.Delta{Call: &model.CallDelta{Index: 1, Name: "run"}})
	s.hear(model.Delta{Call: &model.CallDelta{Index: 1, Name: "other", Input: "{}"}})
	for _, wild := range []int{-1, protocol.MaxCallsPerTurn, 1 << 40} {
		s.hear(model.Delta{Call: &model.CallDelta{Index: wild, Input: "x"}})
	}
	require.True(t, s.take())
	require.False(t, s.take())
	got := s.said()
	require.EqualValues(t, 2*protocol.SpeechTail+3, got.Text.Bytes)
	require.True(t, utf8.ValidString(got.Text.Tail))
	require.LessOrEqual(t, len(got.Text.Tail), protocol.SpeechTail)
	require.Greater(t, len(got.Text.Tail), protocol.SpeechTail-utf8.UTFMax)
	require.True(t, strings.HasSuffix(got.Text.Tail, "äend"))
	require.Equal(t, &protocol.SpeechText{Bytes: 6, Tail: "hm \ufffd"}, got.Thinking)
	require.Equal(t, []protocol.SpeechCall{{}, {Name: "run", Bytes: 2}}, got.Calls)

	kept := *got.Text
	s.hear(model.Delta{Text: "more"})
	require.Equal(t, kept, *got.Text, "what was handed out does not change")
	s.begin("b:m", true)
	require.True(t, s.take(), "that it begins anew is news")
	require.Equal(t, &protocol.Speech{Request: 2, Model: "b:m", Summary: true}, s.said())
}

func TestUsageOfManyTurnsDoesNotOverflow(t *testing.T) {
	const most = 1<<63 - 1
	var sum model.Usage
	for range 1000 {
		sum = sum.Add(sane(model.Response{Usage: model.Usage{InputTokens: most, CachedInputTokens: most, CacheWriteTokens: most, OutputTokens: most}}).Usage)
		require.Positive(t, sum.InputTokens)
		require.Positive(t, sum.OutputTokens)
	}
}

func FuzzSpeech(f *testing.F) {
	f.Add("ab", "\xe4", 5000)
	f.Fuzz(func(t *testing.T, a, b string, n int) {
		var s speech
		for range n % 40 {
			s.hear(model.Delta{Text: a})
			s.hear(model.Delta{Text: b, Thinking: a})
		}
		got := s.said()
		if got == nil || got.Text == nil {
			return
		}
		require.LessOrEqual(t, len(got.Text.Tail), protocol.SpeechTail)
		require.True(t, utf8.ValidString(got.Text.Tail))
		require.GreaterOrEqual(t, got.Text.Bytes, int64(len(got.Text.Tail)))
		whole := strings.Repeat(strings.ToValidUTF8(a, "\ufffd")+strings.ToValidUTF8(b, "\ufffd"), n%40)
		require.EqualValues(t, len(whole), got.Text.Bytes)
		require.True(t, strings.HasSuffix(whole, got.Text.Tail))
	})
}
