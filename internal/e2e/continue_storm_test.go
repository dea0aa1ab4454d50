package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// closings are the types of the events that ended the runs of a chain, the first run first.
func (w *world) closings() []enumspb.EventType {
	w.t.Helper()
	var out []enumspb.EventType
	for _, events := range w.chain() {
		out = append(out, events[len(events)-1].EventType)
	}
	return out
}

// A schedule begins an agent anew as long as it stands: a run that would continue as new, and be the last one, does not.
func TestAScheduledAgentKeepsItsSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Keys: true, ContinueAfter: 50, Script: "turns:\n" + strings.Repeat("  - calls: [{tool: look, args: {text: a}}, {tool: look, args: {text: b}}, {tool: note, args: {text: c}}]\n", 3) + "  - say: done\n"})
	_, err := w.c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue, CronSchedule: "@every 1s"},
		protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: "go", Limits: &protocol.Limits{MaxIdleTurns: 10}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(w.chain()) > 2 }, patience, tick)
	require.NoError(t, w.c.TerminateWorkflow(context.Background(), w.id, "", "the test is over"))
	for _, events := range w.chain()[:2] {
		end := events[len(events)-1]
		require.NotEmpty(t, end.GetWorkflowExecutionCompletedEventAttributes().GetNewExecutionRunId(), "%v", end.EventType)
		require.Greater(t, len(events), 50, "it was long enough to continue")
	}
}

// An agent that has continued and is then tried again begins with its whole input.
func TestAContinuedAgentIsTriedAgainWithItsPrompt(t *testing.T) {
	if !long() {
		t.Skip("waits for a run to time out; ASSENT_LONG=1 runs it")
	}
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Preset: permission.Standard, Keys: true, ContinueAfter: 50, Script: "turns:\n  - calls: [{tool: run, args: {text: a}}]\n  - say: done\n"})
	_, err := w.c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue, WorkflowRunTimeout: 5 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 2}},
		protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: strings.Repeat("long ", 20000)})
	require.NoError(t, err)
	w.pending(1)
	for i := 0; len(w.chain()) < 2; i++ {
		w.send(fmt.Sprintf(`{"key":"nobody-%d","decision":"allow"}`, i))
	}
	require.Eventually(t, func() bool {
		runs := w.closings()
		return slices.Contains(runs, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT) && len(w.chain()[len(runs)-1]) > 5
	}, patience, tick)
	last := w.chain()
	require.EqualValues(t, 2, last[len(last)-1][0].GetWorkflowExecutionStartedEventAttributes().GetAttempt())
	q := w.pending(1)[0]
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK"}, w.codes(res))
}

// crowded is what people said of each question.
type crowded struct {
	mu   sync.Mutex
	keys map[string]map[approval.Choice]bool
	// calls are the questions' calls.
	calls map[string]string
}

func (s *crowded) add(q approval.Approval, c approval.Choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[q.Key] == nil {
		s.keys[q.Key] = map[approval.Choice]bool{}
	}
	s.keys[q.Key][c], s.calls[q.CallID] = true, q.Key
}

// crowd answers questions at random, until stop is called.
func (w *world) crowd(rnd *rand.Rand, people int) (s *crowded, stop func()) {
	s = &crowded{keys: map[string]map[approval.Choice]bool{}, calls: map[string]string{}}
	quit := make(chan struct{})
	var all sync.WaitGroup
	for range people {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 5))
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				select {
				case <-quit:
					return
				case <-time.After(time.Duration(own.Int64N(int64(tick)))):
				}
				l, err := w.list()
				if err != nil || len(l.Pending) == 0 {
					continue
				}
				for range 1 + own.IntN(8) {
					q := l.Pending[own.IntN(len(l.Pending))]
					choice := []approval.Choice{approval.Allow, approval.Allow, approval.Allow, approval.Deny, approval.Revoke}[own.IntN(5)]
					if own.IntN(6) == 0 {
						w.resolve(w.id, approval.Resolution{Key: "nobody", Decision: choice}, false)
					}
					s.add(q, choice)
					w.resolve(w.id, approval.Resolution{Key: q.Key, Decision: choice, By: "alice"}, own.IntN(2) == 0)
				}
			}
		}()
	}
	var once sync.Once
	stop = func() { once.Do(func() { close(quit) }); all.Wait() }
	w.t.Cleanup(stop)
	return s, stop
}

// Turns of many asked calls in runs that continue as soon as they may, answered by several people at once, in any order, by
// signal and update, with rivals and revokes, on workers that are killed and on such as remember nothing: each call has one
// result, in its place, and it is one that somebody gave; what did not end well did not run.
func TestAStormOfAnswersAndContinuations(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	turns, each, kills := 2, 16, 0
	if long() {
		turns, each, kills = 4, 128, 6
	}
	w := newWorld(t)
	var script strings.Builder
	script.WriteString("turns:\n")
	for i := range turns {
		script.WriteString("  - calls: [")
		for j := range each {
			name := "run"
			if rnd.IntN(8) == 0 {
				name = []string{"look", "note"}[rnd.IntN(2)]
			}
			fmt.Fprintf(&script, "{tool: %s, args: {text: c%d-%d}}, ", name, i+1, j+1)
		}
		script.WriteString("]\n")
	}
	script.WriteString("  - say: done\n")
	s := setup{Script: script.String(), Preset: permission.Standard, Keys: true, ContinueAfter: 50, Uncached: rnd.IntN(2) == 0,
		Limits: protocol.Limits{MaxToolCalls: 1000}}
	address := devservertest.Server(t).Address()
	worker := w.spawn(s, address)
	w.start(protocol.AgentInput{})
	all, stop := w.crowd(rnd, 3)
	for range kills {
		time.Sleep(time.Duration(1+rnd.IntN(4)) * time.Second)
		worker.kill(t)
		s.Uncached = rnd.IntN(2) == 0
		worker = w.spawn(s, address)
	}
	res := w.result()
	stop()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, turns*each, res.Calls)
	effects := map[string]int{}
	for _, line := range w.ran() {
		effects[line]++
	}
	results := w.results(res)
	require.Len(t, results, turns*each)
	told := map[string]int{}
	for n, r := range results {
		id := fmt.Sprintf("%d-%d", 1+n/each, 1+n%each)
		code := string(r.Result.Code)
		if f := r.Result.Failure; f != nil && f.Reason != "" {
			code += "/" + string(f.Reason)
		}
		told[code]++
		ran := effects[r.Name+" c"+id]
		require.LessOrEqual(t, ran, 1, "%s ran more than once", id)
		choices := all.keys[all.calls["t"+strings.ReplaceAll(id, "-", ".")]]
		switch code {
		case "OK":
			require.Equal(t, 1, ran, id)
			require.Contains(t, string(r.Result.Value), `"c`+id+`"`)
			require.True(t, r.Name != "run" || choices[approval.Allow], "%s: %v", id, choices)
		case "DENIED/person":
			require.Zero(t, ran, id)
			require.True(t, choices[approval.Deny], "%s: %v", id, choices)
		case "DENIED/revoked":
			require.Zero(t, ran, id)
			require.True(t, choices[approval.Revoke], "%s: %v", id, choices)
		case "ABORTED/revoked":
			require.True(t, choices[approval.Revoke] && choices[approval.Allow], "%s: %v", id, choices)
		case "EFFECT_UNKNOWN":
		default:
			require.Fail(t, "what is it", "%s: %s %v", id, code, r.Result)
		}
	}
	runs := w.chain()
	t.Logf("%d runs, told %v", len(runs), told)
	require.Greater(t, len(runs), 1)
	w.over()
}

// over holds what is left of a chain that has ended: each history replays, and operators are shown that it is done.
func (w *world) over() {
	w.t.Helper()
	for _, events := range w.chain() {
		replaytest.Replay(w.t, &historypb.History{Events: events})
	}
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
	require.NoError(w.t, err)
	require.Equal(w.t, `"done"`, string(d.RawResponse.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()[protocol.AttrStatus].GetData()))
}

// allows allows whatever is asked until the last run of the chain has ended, and returns the calls of the questions by key.
func (w *world) allows() (keys map[string]string) {
	w.t.Helper()
	keys = map[string]string{}
	for {
		d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
		require.NoError(w.t, err)
		if st := d.RawResponse.WorkflowExecutionInfo.Status; st != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && st != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			return keys
		}
		l, err := w.list()
		if err != nil {
			continue
		}
		for _, q := range l.Pending {
			if keys[q.Key] == "" {
				_ = w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, protocol.Resolution{Key: q.Key, Decision: approval.Allow, By: "alice"})
			}
			keys[q.Key] = q.CallID
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A chain of runs is reset to each task of each of them, with calls of other teams among the asked ones, in plain text and
// under a strict codec: every run comes to its end, and no effect happens that nobody has allowed once more.
func TestResetToEveryTaskOfAChain(t *testing.T) {
	if !long() {
		t.Skip("resets some 50 times; ASSENT_LONG=1 runs it")
	}
	t.Parallel()
	for _, mode := range []string{"plain", "sealed"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := newSealer()
			var dc converter.DataConverter = converter.GetDefaultDataConverter()
			if mode != "plain" {
				dc = s.converter()
				var err error
				w.c, err = client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, DataConverter: dc, Logger: sdklog.NewStructuredLogger(logger())})
				require.NoError(t, err)
				t.Cleanup(w.c.Close)
				w.converter = dc
			}
			b := w.billing()
			s.strict = true
			cfg := w.foreignConfig(setup{Preset: permission.Standard, Keys: true, ContinueAfter: 50, Script: `
turns:
  - calls: [{tool: run, args: {text: a}}, {tool: look, args: {text: b}}, {tool: refund, args: {orderId: c, amount: 1}}, {tool: run, args: {text: a}}, {tool: flow, args: {orderId: d, amount: 2}}]
  - calls: [{tool: run, args: {text: e}}]
  - say: done
`}, nil, b.act(t, "refund", "Refund", tool.Write, tool.NeedsApproval()), b.child(t, "flow", "RefundFlow", tool.Write, tool.NeedsApproval()))
			if mode != "plain" {
				cfg.DataConverter = dc
			}
			plug, err := worker.New(cfg)
			require.NoError(t, err)
			w.workWith(plug)
			w.start(protocol.AgentInput{})
			first := w.pending(4)
			for i := 0; len(w.chain()) < 2; i++ {
				require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, protocol.Resolution{Key: fmt.Sprint("nobody", i), Decision: approval.Allow}))
			}
			keys := w.allows()
			require.Len(t, keys, 5)
			// Answers that were sent one after the other are judged side by side, so any may close its question first.
			require.Contains(t, closedKeys(w.lists()), first[0].Key)
			clean := w.result()
			require.Equal(t, "OK OK OK OK OK OK", strings.Join(w.codes(clean), " "))
			run := w.c.GetWorkflow(context.Background(), w.id, "").GetRunID()
			chain := w.chain()
			slices.Reverse(chain)
			for _, events := range chain {
				for _, e := range events {
					if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
						w.resetAndAllow(run, e.EventId, b)
					}
				}
				run = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
			}
		})
	}
}

func closedKeys(l approval.List) (keys []string) {
	for _, c := range l.Closed {
		keys = append(keys, c.Key)
	}
	return keys
}

// resetAndAllow resets a run, and holds the effects after it against what was allowed after it; look is the one call that
// nobody is asked about.
func (w *world) resetAndAllow(run string, event int64, b *billing) {
	w.t.Helper()
	before := len(w.ran()) + len(b.notes())
	w.reset(run, event)
	keys := w.allows()
	res := w.result()
	require.Equal(w.t, protocol.OK, res.Status, "run %s, event %d: %s", run, event, res.Error)
	require.Len(w.t, w.codes(res), 6)
	require.LessOrEqual(w.t, len(w.ran())+len(b.notes())-before, len(keys)+1, "run %s, event %d: %v", run, event, w.codes(res))
	for _, f := range w.failedTasks() {
		require.Equal(w.t, "ResetWorkflow: test", f)
	}
}
