package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/transcript"
)

// chaos is a model that says anything. It keeps what it was shown, and takes no more input than its window if it has one.
type chaos struct {
	rnd    *rand.Rand
	window int64
	shown  []model.Request
}

func (m *chaos) Generate(_ context.Context, r model.Request) (model.Response, error) {
	if m.window > 0 && r.InputTokens()*2/3 > m.window {
		return model.Response{}, &model.Error{Kind: model.KindTooLong, Msg: "too long"}
	}
	m.shown = append(m.shown, r)
	u := model.Usage{InputTokens: 1, OutputTokens: 1}
	if r.Summary != nil {
		return model.Response{Text: strings.Repeat("s", 1+m.rnd.IntN(40_000)), Calls: m.calls(m.rnd.IntN(2), r.MaxOutputTokens), Stop: model.StopEnd, Usage: u}, nil
	}
	switch m.rnd.IntN(10) {
	case 0:
		return model.Response{Usage: u, Text: []string{"", " \n", "", "\xff"}[m.rnd.IntN(4)], Stop: model.StopEnd}, nil
	case 1:
		u.OutputTokens = 0
		return model.Response{Usage: u, Text: strings.Repeat("long ", m.rnd.IntN(8000)), Calls: m.calls(1, r.MaxOutputTokens), Stop: model.StopToolUse}, nil
	default:
		return model.Response{Usage: u, Text: strings.Repeat("t", m.rnd.IntN(200)), Calls: m.calls(1+m.rnd.IntN(1+m.rnd.IntN(20)), r.MaxOutputTokens), Stop: model.StopToolUse}, nil
	}
}

// calls are so many, with arguments that a model can write in so many tokens.
func (m *chaos) calls(n, tokens int) (out []model.ToolCall) {
	for range n {
		size := m.rnd.IntN(50)
		if m.rnd.IntN(10) == 0 {
			size = m.rnd.IntN(tokens*2/n + 1)
		}
		c := model.ToolCall{ID: fmt.Sprint(m.rnd.IntN(3)), Name: []string{"look", "look", "nothing", "", "run\xff"}[m.rnd.IntN(5)],
			Input: json.RawMessage(fmt.Sprintf(`{"path":%q}`, strings.Repeat("p", size)))}
		if m.rnd.IntN(5) == 0 {
			c.Input = c.Input[:m.rnd.IntN(len(c.Input))]
		}
		out = append(out, c)
	}
	return out
}

// Whatever a model says, it is shown a conversation that a provider takes: it begins with the task, each turn's calls have
// one result each, in their order, and it fits into the window. The transcript is whole in the end.
func TestAModelThatSaysAnything(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &chaos{rnd: rand.New(rand.NewPCG(seed, 1))}
			s := setup{model: m}
			var most int64
			switch seed % 3 {
			case 0:
				most = []int64{8000, 16_000, 40_000}[m.rnd.IntN(3)]
				s.prices = window(most)
			case 1:
				m.window = 6000
			}
			b := newBench(t, s)
			res := b.run(protocol.AgentInput{Prompt: "the task", Limits: &protocol.Limits{MaxTurns: 1 + m.rnd.IntN(40), MaxToolCalls: 1000, MaxIdleTurns: 30, MaxOutputTokens: 1 + m.rnd.IntN(3000)}})
			t.Log(res.Status, res.Error, res.Turns, res.Compactions)
			require.NotEmpty(t, res.Status)
			require.NotContains(t, res.Error, "too long")
			require.NotContains(t, res.Error, "are shown")
			require.NotContains(t, res.Error, "context window")
			for _, r := range m.shown {
				if most > 0 {
					require.LessOrEqual(t, r.InputTokens()*2/3, most)
				}
				if r.Summary == nil {
					sound(t, r.Messages)
				}
			}
			_, err := transcript.Verify(context.Background(), b.blob, res.Transcript)
			require.NoError(t, err)
		})
	}
}

// sound requires messages that a provider takes.
func sound(t *testing.T, messages []model.Message) {
	t.Helper()
	require.Equal(t, "the task", messages[0].Text)
	require.NotEqual(t, model.Assistant, messages[len(messages)-1].Role)
	var open []model.ToolCall
	for i, msg := range messages {
		require.Equal(t, len(open) > 0, msg.Role == model.Tool)
		require.Len(t, msg.Results, len(open))
		for j, call := range open {
			require.Equal(t, call.ID, msg.Results[j].CallID)
			require.Equal(t, call.Name, msg.Results[j].Name)
			require.NotEmpty(t, msg.Results[j].Result.Code)
			require.Nil(t, msg.Results[j].Result.ValueRef)
		}
		require.True(t, msg.Summary == nil || i == 1)
		if i > 0 {
			require.False(t, msg.Role == model.Assistant && messages[i-1].Role == model.Assistant)
		}
		open = msg.Calls
	}
	require.Empty(t, open)
}
