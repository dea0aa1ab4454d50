package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/transcript"
	"github.com/assent-dev/assent/worker"
)

// chatter calls an unknown tool for so many turns, and costs a cent for each. Its first attempt is lost after it was asked.
type chatter struct {
	turns int
	lose  sync.Once
}

func (m *chatter) Generate(_ context.Context, r model.Request) (model.Response, error) {
	m.lose.Do(func() { panic("the worker is gone before the answer came") })
	usage := model.Usage{InputTokens: 100, OutputTokens: 10}
	if r.Summary != nil {
		return model.Response{Text: "We chatted.", Stop: model.StopEnd, Usage: usage}, nil
	}
	n := 1
	for _, msg := range r.Messages {
		if msg.Role == model.Assistant {
			n++
		}
		if msg.Summary != nil {
			n += msg.Summary.Turns
		}
	}
	if n > m.turns {
		return model.Response{Text: "done", Stop: model.StopEnd, Usage: usage}, nil
	}
	return model.Response{Stop: model.StopToolUse, Usage: usage,
		Calls: []model.ToolCall{{ID: "c", Name: "nothing", Input: json.RawMessage(fmt.Sprintf(`{"n":%d,"pad":%q}`, 1000+n, strings.Repeat("x", 600)))}}}, nil
}

// Forty turns of a conversation that does not fit into its window, from a prompt and a system prompt of 100 KB, over several
// runs: what a turn adds to history stays the same, every cent is counted, and what was lost is told apart.
func TestALongConversationHasAFlatHistory(t *testing.T) {
	t.Parallel()
	const turns = 40
	w := newWorld(t)
	p, err := worker.New(worker.Config{
		Models: map[string]model.Model{"m": &chatter{turns: turns}}, Blobs: w.blobs, Dir: t.TempDir(), Log: logger(), ContinueAfter: 120,
		Prices:   model.Prices{"m:x": {Rates: model.Rates{Input: 0.001, Output: 1000}, ContextWindow: 80_000}},
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"m:x"}, System: strings.Repeat("Be kind. ", 11_000)}},
	})
	require.NoError(t, err)
	w.workWith(p)
	budget := 20.0
	w.start(protocol.AgentInput{Prompt: strings.Repeat("Chat on. ", 8_000), BudgetUSD: &budget, Limits: &protocol.Limits{MaxTurns: 100, MaxIdleTurns: 100, MaxOutputTokens: 1000}})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, turns+1, res.Turns)
	require.Positive(t, res.Compactions)
	require.InDelta(t, 0.01*float64(res.Turns+res.Compactions), res.CostUSD, 1e-4)
	require.InDelta(t, 1, res.LostUSD, 0.01, "the most that the lost attempt can have cost: a thousand tokens of output")
	entries, err := transcript.Verify(context.Background(), w.blobs, res.Transcript)
	require.NoError(t, err)
	said, _ := transcript.Count(entries)
	require.Equal(t, turns+1, said)

	sizes := map[int]int{}
	largest, smallest := 0, 1<<30
	for _, e := range w.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == protocol.ActivityGenerate {
			n := proto.Size(e)
			sizes[len(sizes)] = n
			largest, smallest = max(largest, n), min(smallest, n)
		}
	}
	require.NotEmpty(t, sizes)
	require.Less(t, largest-smallest, 400, "%v", sizes)
	require.Less(t, largest, 4<<10, "neither prompt travels with a turn")
}

// spendthrift says in one of its turns that it wrote more than it was allowed to.
type spendthrift struct{ turn int }

func (m spendthrift) Generate(_ context.Context, r model.Request) (model.Response, error) {
	usage := model.Usage{InputTokens: 1, OutputTokens: 1}
	if len(r.Messages) == 2*m.turn-1 {
		usage.OutputTokens = 9000
	}
	call := model.ToolCall{ID: "c", Name: "nothing", Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, len(r.Messages)))}
	return model.Response{Calls: []model.ToolCall{call, call}, Stop: model.StopToolUse, Usage: usage}, nil
}

// A turn spends more than is left, and the run goes on in another one before the agent ends, if it is this turn that makes it
// long enough: what was skipped is no call there.
func TestABudgetIsSpentBeforeTheRunContinues(t *testing.T) {
	continued := 0
	for turn := 5; turn <= 9 && continued == 0; turn++ {
		t.Run(fmt.Sprint("turn ", turn), func(t *testing.T) {
			w := newWorld(t)
			p, err := worker.New(worker.Config{
				Models: map[string]model.Model{"m": spendthrift{turn}}, Blobs: w.blobs, Dir: t.TempDir(), Log: logger(), ContinueAfter: 50,
				Prices:   model.Prices{"m:x": {Rates: model.Rates{Input: 0.001, Output: 1000}}},
				Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"m:x"}}},
			})
			require.NoError(t, err)
			w.workWith(p)
			budget := 4.0
			w.start(protocol.AgentInput{Prompt: "go", BudgetUSD: &budget})
			res := w.result()
			require.Equal(t, protocol.LimitHit, res.Status, res.Error)
			require.Equal(t, turn, res.Turns)
			require.Equal(t, 2*(turn-1), res.Calls)
			entries, err := transcript.Verify(context.Background(), w.blobs, res.Transcript)
			require.NoError(t, err)
			require.Len(t, entries[len(entries)-1].Node.Messages[0].Results, 2)
			if runs := w.chain(); len(runs) == 2 && len(runs[1]) < 20 {
				continued++
			}
		})
	}
	require.Positive(t, continued)
}

// slow speaks until it is not wanted any more.
type slow struct{ asked chan struct{} }

func (m slow) Generate(ctx context.Context, _ model.Request) (model.Response, error) {
	m.asked <- struct{}{}
	<-ctx.Done()
	return model.Response{}, context.Cause(ctx)
}

// A run that is cancelled while the model speaks ends with what the turn may have cost.
func TestACancelledTurnIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := slow{make(chan struct{}, 1)}
	p, err := worker.New(worker.Config{
		Models: map[string]model.Model{"m": m}, Blobs: w.blobs, Dir: t.TempDir(), Log: logger(),
		Prices:   model.Prices{"m:x": {Rates: model.Rates{Input: 0.001, Output: 1000}}},
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"m:x"}}},
	})
	require.NoError(t, err)
	w.workWith(p)
	budget := 20.0
	w.start(protocol.AgentInput{Prompt: "go", BudgetUSD: &budget, Limits: &protocol.Limits{MaxOutputTokens: 1000}})
	<-m.asked
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	res := w.result()
	require.Equal(t, protocol.Cancelled, res.Status, res.Error)
	require.InDelta(t, 1, res.LostUSD, 0.01, "a thousand tokens of output")
}
