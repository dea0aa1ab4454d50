package workflows_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// requireOneResultEach checks that each call of the transcript is answered once, in order.
func (b *bench) requireOneResultEach(res protocol.AgentResult) {
	b.t.Helper()
	msgs, err := activities.ReadTranscript(context.Background(), b.blob, res.Transcript)
	require.NoError(b.t, err)
	for i, m := range msgs {
		if len(m.Calls) == 0 || i == len(msgs)-1 {
			continue
		}
		require.Len(b.t, msgs[i+1].Results, len(m.Calls))
		for j, c := range m.Calls {
			require.Equal(b.t, c.ID, msgs[i+1].Results[j].CallID)
			require.Equal(b.t, c.Name, msgs[i+1].Results[j].Name)
		}
	}
}

// Each call has the decision that stands in its place and is about it, or none: then it is denied.
func TestDecisionsOfATurnAreHeldAgainstTheirCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		change func([]protocol.DecideResponse) []protocol.DecideResponse
		want   []string
	}{
		"as they are": {func(d []protocol.DecideResponse) []protocol.DecideResponse { return d }, []string{"OK", "OK", "OK"}},
		"the first two changed places": {func(d []protocol.DecideResponse) []protocol.DecideResponse {
			return []protocol.DecideResponse{d[1], d[0], d[2]}
		}, []string{"DENIED/failure", "DENIED/failure", "OK"}},
		"one twice": {func(d []protocol.DecideResponse) []protocol.DecideResponse {
			return []protocol.DecideResponse{d[0], d[0], d[0]}
		}, []string{"OK", "DENIED/failure", "DENIED/failure"}},
		"one less": {func(d []protocol.DecideResponse) []protocol.DecideResponse { return d[:2] }, []string{"DENIED/failure", "DENIED/failure", "DENIED/failure"}},
		"none":     {func([]protocol.DecideResponse) []protocol.DecideResponse { return nil }, []string{"DENIED/failure", "DENIED/failure", "DENIED/failure"}},
		"one more": {func(d []protocol.DecideResponse) []protocol.DecideResponse { return append(d, d[0]) }, []string{"DENIED/failure", "DENIED/failure", "DENIED/failure"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: look, args: {path: b}}, {tool: look, args: {path: c}}]
  - say: done
`, decideTurn: func(ctx context.Context, req protocol.DecideTurnRequest) (protocol.DecideTurnResponse, error) {
				resp, err := activities.AssentDecideTurn(ctx, req)
				resp.Decisions = tc.change(resp.Decisions)
				return resp, err
			}})
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, tc.want, b.codes(res))
		})
	}
}

// Calls that cannot be judged are answered, and nobody is asked about them.
func TestBadCallsAreAnsweredWithoutAsking(t *testing.T) {
	b := newBench(t, asking(`
turns:
  - calls:
      - {tool: nothing, args: {path: a}}
      - {tool: run, args: {path: 7, x: 1}}
      - {tool: run, raw: '{"path": '}
      - {tool: run, raw: '["a"]'}
      - {tool: run, raw: '{"path":"a","path":"b"}'}
      - {tool: look, args: {path: b}}
  - say: done
`))
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"UNKNOWN_TOOL", "INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "OK"}, b.codes(res))
	require.Equal(t, map[string][]string{"look": {"b"}}, b.ran)
	require.Zero(t, res.Asked)
	require.Empty(t, b.list().Closed)
	issues := b.results(res)[1].Result.Failure.Issues
	require.Len(t, issues, 2, "every place is named: %+v", issues)
	require.Contains(t, b.results(res)[2].Result.Failure.Issues[0].Message, `{"path": `)
	b.requireOneResultEach(res)
}

// A refused call leaves one tool_result for each tool_use, in the model's order.
func TestEveryCallHasItsResult(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: change, args: {path: a}}, {tool: run, args: {path: b}}, {tool: look, args: {path: c}}, {tool: run, args: {path: d}}]
  - say: done
`, profile: config.Profile{Permissions: permission.Layer{Preset: permission.Standard, Deny: []permission.Rule{{Tool: permission.One("change")}}}}})
	b.answer(time.Hour, 1, approval.Allow)
	b.answer(2*time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/rule", "DENIED/person", "OK", "OK"}, b.codes(res))
	require.Equal(t, []string{"look c", "run d"}, b.order)
	b.requireOneResultEach(res)
}

// In a mixed batch only the asked call waits.
func TestOnlyTheAskedCallWaits(t *testing.T) {
	b := newBench(t, asking(`
turns:
  - calls: [{tool: run, args: {path: a}}, {tool: change, args: {path: b}}, {tool: look, args: {path: c}}]
  - say: done
`))
	b.env.RegisterDelayedCallback(func() {
		require.Len(t, b.list().Pending, 1)
		require.Equal(t, []string{"change b", "look c"}, b.order)
	}, time.Hour)
	b.answer(2*time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK", "OK", "OK"}, b.codes(res))
	require.Equal(t, []string{"change b", "look c", "run a"}, b.order)
}

func TestExclusiveCallsRunOneByOneInOrder(t *testing.T) {
	var mu sync.Mutex
	running := 0
	alone := tool.MustNew("alone", "Runs alone.", func(_ context.Context, _ *tool.Context, in pathIn) (int, error) {
		mu.Lock()
		running++
		n := running
		mu.Unlock()
		defer func() { mu.Lock(); running--; mu.Unlock() }()
		return n, nil
	}, tool.Write)
	b := newBench(t, setup{tools: []*tool.Def{alone}, script: `
turns:
  - calls: [{tool: alone, args: {path: a}}, {tool: change, args: {path: b}}, {tool: alone, args: {path: c}}, {tool: change, args: {path: d}}]
  - say: done
`})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK", "OK", "OK", "OK"}, b.codes(res))
	require.Equal(t, []string{"change b", "change d"}, b.order)
	for _, i := range []int{0, 2} {
		require.Equal(t, "1", string(b.results(res)[i].Result.Value))
	}
}

// Each of two reads waits until the other one has begun: only overlapping ones come to an end.
func TestReadsOverlap(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	meet := tool.MustNew("meet", "Waits for the other one.", func(context.Context, *tool.Context, pathIn) (string, error) {
		both.Done()
		both.Wait()
		return "met", nil
	}, tool.Read)
	b := newBench(t, setup{tools: []*tool.Def{meet}, script: `
turns:
  - calls: [{tool: meet, args: {path: a}}, {tool: meet, args: {path: b}}, {tool: change, args: {path: c}}]
  - say: done
`})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK", "OK", "OK"}, b.codes(res))
}

func many(n int, call string) string {
	return "turns:\n  - calls:\n" + strings.Repeat("      - "+call+"\n", n) + "  - say: done\n"
}

func TestTwentyCallsOfOneTurn(t *testing.T) {
	b := newBench(t, setup{script: many(20, "{tool: change, args: {path: a}}")})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Len(t, b.order, 20)
	b.requireOneResultEach(res)
}

// Two hundred questions of one turn are bounded too: what is over the bound is skipped, and said.
func TestTwoHundredCallsOfOneTurn(t *testing.T) {
	b := newBench(t, setup{script: many(200, "{tool: look, args: {path: a}}")})
	res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxToolCalls: 2000}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	codes := b.codes(res)
	require.Len(t, codes, 200)
	require.Equal(t, "OK", codes[127])
	require.Equal(t, "SKIPPED", codes[128])
	require.Equal(t, "SKIPPED", codes[199])
	require.Len(t, b.order, 128)
	require.Equal(t, 128, res.Calls)
	b.requireOneResultEach(res)
}

// payload is what the server refuses for ever when it is too large.
const payload = 2 << 20

// sizes records the largest input and result of any activity.
func (b *bench) sizes() *int {
	largest := new(int)
	b.env.SetOnActivityCompletedListener(func(_ *activity.Info, result converter.EncodedValue, _ error) {
		var raw json.RawMessage
		if result != nil && result.HasValue() && result.Get(&raw) == nil {
			*largest = max(*largest, len(raw))
		}
	})
	b.env.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) {
		var raw json.RawMessage
		if args.HasValues() && args.Get(&raw) == nil {
			*largest = max(*largest, len(raw))
		}
	})
	return largest
}

func TestALargeResultGoesByReference(t *testing.T) {
	big := tool.MustNew("big", "Is big.", func(context.Context, *tool.Context, pathIn) (string, error) {
		return strings.Repeat("<", 3<<20), nil
	}, tool.Read)
	b := newBench(t, setup{tools: []*tool.Def{big}, script: `
turns:
  - calls: [{tool: big, args: {path: a}}]
  - say: done
`})
	largest := b.sizes()
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	got := b.results(res)[0].Result
	require.Empty(t, got.Value)
	require.Greater(t, got.ValueRef.Size, int64(3<<20))
	require.NotEmpty(t, got.Preview)
	require.Less(t, *largest, 64<<10)
	text, err := json.Marshal(res)
	require.NoError(t, err)
	require.Less(t, len(text), 4<<10)
}

// However much each call of a turn brings back, the next request fits into a payload.
func TestATurnOfLargeFailuresFits(t *testing.T) {
	loud := tool.MustNew("loud", "Fails at length.", func(context.Context, *tool.Context, pathIn) (string, error) {
		return "", tool.ModelRetry{Message: strings.Repeat("<", 20<<10), Data: strings.Repeat(">", 2<<10)}
	}, tool.Read)
	b := newBench(t, setup{tools: []*tool.Def{loud}, script: many(30, "{tool: loud, args: {path: a}}")})
	largest := b.sizes()
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Greater(t, *largest, payload/5, "the test is of the right size")
	require.Less(t, *largest, payload/2)
	b.requireOneResultEach(res)
}

// From the third time in a row on, a tool that asks for another try is told to be left alone.
func TestModelRetriesAreExhausted(t *testing.T) {
	again := tool.MustNew("again", "Asks for another try.", func(_ context.Context, _ *tool.Context, in pathIn) (string, error) {
		if in.Path == "good" {
			return "fine", nil
		}
		return "", tool.ModelRetry{Message: "not this one"}
	}, tool.Read)
	b := newBench(t, setup{tools: []*tool.Def{again}, script: `
turns:
  - calls: [{tool: again, args: {path: a}}, {tool: again, args: {path: b}}, {tool: again, args: {path: good}}]
  - calls: [{tool: again, args: {path: c}}, {tool: again, args: {path: d}}]
  - calls: [{tool: look, args: {path: x}}, {tool: again, args: {path: e}}]
  - say: done
    expect: {lastResult: {code: TOOL_ERROR, contains: retries are exhausted}}
`})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	var retry []bool
	for _, r := range b.results(res) {
		if r.Name == "again" {
			retry = append(retry, r.Result.Failure != nil && r.Result.Failure.Retry)
		}
	}
	require.Equal(t, []bool{true, true, false, true, true, false}, retry, "a success begins the count again")
}

// broken is a model whose calls and provider data are not JSON.
type broken struct{}

func (broken) Generate(_ context.Context, r model.Request) (model.Response, error) {
	if len(r.Messages) > 1 {
		return model.Response{Text: "done", Stop: model.StopEnd}, nil
	}
	return model.Response{Stop: model.StopToolUse, Opaque: json.RawMessage(`{"half`), Text: "bad \xff text", Calls: []model.ToolCall{
		{ID: "1", Name: "look", Input: json.RawMessage(`{"path":`)},
		{ID: "2", Name: "look", Input: json.RawMessage("{\"path\":\"\xff\"}")},
		{ID: "3", Name: "look", Raw: "\xfe"},
		{ID: "4", Name: "look"},
		{ID: "5", Name: "look\xff", Input: json.RawMessage(`{}`)},
		{ID: "6", Name: "look", Input: json.RawMessage(` { "path" : "<a>" } `)},
	}}, nil
}

func TestWhatAModelWritesNeverFailsARun(t *testing.T) {
	b := newBench(t, setup{model: broken{}})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "UNKNOWN_TOOL", "OK"}, b.codes(res))
	require.Equal(t, map[string][]string{"look": {"<a>"}}, b.ran)
	b.requireOneResultEach(res)
}

// garrulous says more than history keeps, and calls a tool with it.
type garrulous struct{}

func (garrulous) Generate(_ context.Context, r model.Request) (model.Response, error) {
	said := strings.Repeat("<é>", 75<<10)
	if len(r.Messages) > 1 {
		return model.Response{Text: said, Stop: model.StopEnd}, nil
	}
	return model.Response{Text: said, Stop: model.StopToolUse, Calls: []model.ToolCall{{ID: "1", Name: "look", Input: json.RawMessage(`{"path":"a"}`)}}}, nil
}

// 300 KB of text are whole in the transcript, and in history as far as people read.
func TestAModelThatSaysVeryMuch(t *testing.T) {
	b := newBench(t, setup{model: garrulous{}})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK"}, b.codes(res))
	require.LessOrEqual(t, len(res.Output), protocol.InlineText+len("…"))
	require.True(t, utf8.ValidString(res.Output))
	msgs, err := activities.ReadTranscript(context.Background(), b.blob, res.Transcript)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("<é>", 75<<10), msgs[len(msgs)-1].Text)
}
