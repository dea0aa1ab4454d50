package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// present is the id of the run in which the agent is now, and whether that has ended.
func (w *world) present() (run string, closed bool) {
	w.t.Helper()
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
	require.NoError(w.t, err)
	i := d.RawResponse.GetWorkflowExecutionInfo()
	return i.GetExecution().GetRunId(), i.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// goesOn makes the history of an agent that waits so long that it continues as new, and returns the next run. It is empty if
// the agent has ended instead.
func (w *world) goesOn() string {
	w.t.Helper()
	before, _ := w.present()
	var run string
	var closed bool
	require.Eventually(w.t, func() bool {
		if run, closed = w.present(); closed || run != before {
			return true
		}
		_ = w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, "nonsense")
		return false
	}, patience, tick)
	if run == before {
		return ""
	}
	// It has taken over when it can be asked.
	require.Eventually(w.t, func() bool { _, err := w.list(); return err == nil }, patience, tick)
	return run
}

// soon is s for an agent that continues as new soon.
func soon(s setup) setup {
	s.ContinueAfter = 50
	return s
}

// An agent in three runs: one vote before the first continuation, signed answers after it, the last one after another.
func TestShapesOfAContinuedAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := soon(answering(`
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: run, args: {text: b}}, {tool: note, args: {text: c}}, {tool: run, args: {text: d}}, {tool: run, args: {text: e}}]
  - calls: [{tool: note, args: {text: f}}]
  - say: done
`, twoOfOps()))
	w.work(s)
	w.start(protocol.AgentInput{RequestedBy: "dave"})
	q := w.pending(3)
	w.send(asJSON(t, by(q[0], "bob")))
	early := signed(t, q[1], approval.Resolution{Decision: approval.Allow})
	w.waits(func(l approval.List) bool { return len(l.Pending) == 3 && len(l.Pending[0].Votes) == 1 })
	w.goesOn()
	w.sameStory(protocol.QueryApprovals)
	w.sign(w.pending(3)[0], approval.Resolution{Decision: approval.Allow})
	require.NoError(t, w.c.SignalWorkflow(t.Context(), w.id, "", protocol.SignalApproval, early))
	w.waits(func(l approval.List) bool {
		return len(l.Pending) == 2 && len(l.Pending[0].Votes) == 1 && len(l.Granted) == 0
	})
	w.goesOn()
	w.sameStory(protocol.QueryApprovals)
	w.send(asJSON(t, by(q[1], "bob")))
	w.answer(q[2].Key, approval.Deny)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK", "OK", "OK", "OK", "DENIED/person", "OK"}, w.codes(res))
	require.ElementsMatch(t, []string{"look a", "run b", "note c", "run d", "note f"}, w.ran())

	all, err := verify.Fetch(t.Context(), w.c, w.id, "")
	require.NoError(t, err)
	require.Len(t, all, 3)
	reports := verify.Chain(all, verify.Options{})
	calls, decided := 0, 0
	for i, r := range reports {
		require.Empty(t, r.Findings)
		require.False(t, r.Trusted)
		require.Equal(t, i > 0, r.ContinuedFrom != "")
		calls, decided = calls+len(r.Calls), decided+r.Decided
	}
	require.Equal(t, []int{5, 6}, []int{calls, decided})
	require.Equal(t, "bob, alice", reports[1].Calls[0].By)
	require.Equal(t, "alice, bob", reports[2].Calls[0].By)
	for i, run := range all {
		h := &historypb.History{Events: run.Events}
		replaytest.Replay(t, h)
		alone := verify.History(run.Events, verify.Options{})
		require.Empty(t, alone.Findings)
		require.Equal(t, i > 0, alone.Trusted)
		if *record {
			b, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(h)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join("..", "..", "workflows", "testdata", "histories", fmt.Sprintf("continued-%d.json", i+1)), append(b, '\n'), 0o644))
		}
	}
}

// A question that is withdrawn after the continuation is withdrawn, and an allow that was given after it is taken back.
func TestRevokeAfterAContinuation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(soon(askingWith(`
turns:
  - calls: [{tool: run, args: {text: a}}, {tool: hold, args: {text: b}}]
  - say: done
`)))
	w.start(protocol.AgentInput{})
	q := w.pending(2)
	w.goesOn()
	w.answer(q[0].Key, approval.Revoke)
	w.answer(q[1].Key, approval.Allow)
	require.Eventually(t, func() bool { return slices.Equal(w.ran(), []string{"hold b"}) }, patience, tick)
	require.NoError(t, w.update(approval.Resolution{Key: q[1].Key, Decision: approval.Revoke, By: "bob"}))
	require.Equal(t, []string{"DENIED/revoked", "ABORTED/revoked"}, w.codes(w.result()))
	require.Equal(t, []string{"hold b"}, w.ran())
}

// A deadline goes on from when the question was asked.
func TestADeadlineAfterAContinuation(t *testing.T) {
	t.Parallel()
	for deadline := 5 * time.Second; ; deadline *= 2 {
		w := newWorld(t)
		s := soon(askingWith(oneAsk))
		s.Deadline = deadline
		w.work(s)
		w.start(protocol.AgentInput{})
		q := w.pending(1)[0]
		if w.goesOn() == "" {
			// The machine is too busy.
			continue
		}
		require.Equal(t, []string{"DENIED/expired"}, w.codes(w.result()))
		require.True(t, q.Deadline.Equal(q.AskedAt.Add(deadline)))
		require.Empty(t, w.ran())
		return
	}
}

// A line that an answer has added holds in the runs after it, and not in one that a reset begins.
func TestAVettedLineAfterAContinuation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := soon(setup{Repo: newRepo(t), Root: filepath.Join(t.TempDir(), "trees"), Preset: permission.Standard, Keys: true, Script: `
turns:
  - calls: [{tool: shell, args: {command: "echo hi"}}, {tool: run, args: {text: a}}]
  - calls: [{tool: shell, args: {command: "echo hi"}}, {tool: run, args: {text: b}}]
  - say: done
`})
	w.work(s)
	w.start(protocol.AgentInput{})
	q := w.pending(2)
	w.send(`{"key":"` + q[0].Key + `","decision":"allow","by":"alice","always":true}`)
	l := w.waits(func(l approval.List) bool { return len(l.Pending) == 1 && len(l.Closed) == 1 && len(l.Granted) == 0 })
	require.NotNil(t, l.Closed[0].Vetted)
	second := w.goesOn()
	w.answer(q[1].Key, approval.Allow)
	// The same command is not asked about again.
	last := w.waits(func(l approval.List) bool { return len(l.Pending) == 1 && len(l.Closed) == 2 }).Pending[0]
	require.Equal(t, "run", last.Tool)
	w.answer(last.Key, approval.Allow)
	require.Equal(t, []string{"OK", "OK", "OK", "OK"}, w.codes(w.result()))

	// Its tree was that of the run before the reset, so it starts again: both turns are decided, and there is no line any more.
	w.reset(second, w.finishedTasks()[0])
	require.False(t, w.settles(""))
	w.allowTilItEnds()
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	asked := 0
	// It goes on in another run once more, sooner or later.
	for _, e := range slices.Concat(w.chain()[1:]...) {
		for _, d := range decidedAt(t, e) {
			if d.Tool == "shell" {
				require.Equal(t, permission.Ask, d.Decision.Verdict)
				asked++
			}
		}
	}
	require.Equal(t, 2, asked)
}

// decidedAt are the decisions that an event records.
func decidedAt(t *testing.T, e *historypb.HistoryEvent) []protocol.DecideResponse {
	v := witness{decided: map[string][]protocol.DecideResponse{}, admitted: map[string][]protocol.AdmitResponse{}}
	d := e.GetMarkerRecordedEventAttributes().GetDetails()
	for _, kind := range []string{protocol.ActivityDecide, protocol.ActivityDecideTurn} {
		if len(d["result"].GetPayloads()) > 0 && strings.Contains(string(d["data"].GetPayloads()[0].GetData()), `"`+kind+`"`) {
			v.note(t, kind, d["result"].GetPayloads()[0].GetData())
		}
	}
	var out []protocol.DecideResponse
	for _, id := range slices.Sorted(maps.Keys(v.decided)) {
		out = append(out, v.decided[id]...)
	}
	return out
}

// allowTilItEnds allows whatever is asked until the agent has ended.
func (w *world) allowTilItEnds() {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		if _, closed := w.present(); closed {
			return true
		}
		if l, err := w.list(); err == nil {
			for _, q := range l.Pending {
				w.answer(q.Key, approval.Allow)
			}
		}
		return false
	}, patience, tick)
}

// A reset of the second run, to whatever task: what was answered before it opens nothing, not even where the question was
// asked by the first run.
func TestResetOfARunThatContinued(t *testing.T) {
	t.Parallel()
	for _, via := range []string{"signal", "update"} {
		t.Run(via, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(soon(askingWith(oneAsk)))
			w.start(protocol.AgentInput{})
			q := w.pending(1)[0]
			second := w.goesOn()
			if via == "signal" {
				w.answer(q.Key, approval.Allow)
			} else {
				require.NoError(t, w.update(approval.Resolution{Key: q.Key, Decision: approval.Allow}))
			}
			require.Equal(t, []string{"OK"}, w.codes(w.result()))
			require.Len(t, w.ran(), 1)
			asked, ran := 0, 1
			for _, event := range w.finishedTasks() {
				w.reset(second, event)
				if w.settles("") {
					require.Contains(t, []string{"OK", "EFFECT_UNKNOWN"}, w.codes(w.result())[0], "reset to %d", event)
					require.Len(t, w.ran(), ran, "reset to %d", event)
					continue
				}
				asked++
				require.Len(t, w.ran(), ran, "reset to %d: nothing ran on an answer of before", event)
				// The first answer tells the workflow that the question is of another run: it is put again under a new key.
				open := w.pending(1)[0]
				if open.Key == q.Key {
					w.answer(open.Key, approval.Allow)
					open = w.waits(func(l approval.List) bool { return len(l.Pending) == 1 && l.Pending[0].Key != q.Key }).Pending[0]
				}
				require.Equal(t, q.Key+".2", open.Key)
				require.Len(t, w.ran(), ran)
				w.answer(open.Key, approval.Allow)
				require.Equal(t, []string{"OK"}, w.codes(w.result()), "reset to %d", event)
				ran++
				require.Len(t, w.ran(), ran)
			}
			require.Positive(t, asked)
			t.Logf("asked again %d times", asked)
		})
	}
}

// A reset of the first run, while the second one waits: the question is of before the reset again.
func TestResetOfTheRunBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(soon(askingWith(oneAsk)))
	first := w.start(protocol.AgentInput{}).GetRunID()
	q := w.pending(1)[0]
	// The question is asked in what the reset keeps.
	w.send(`"nonsense"`)
	w.waits(func(l approval.List) bool { return len(l.Ignored) == 1 })
	tasks := w.finishedTasks()
	w.goesOn()
	w.reset(first, tasks[len(tasks)-1])
	require.False(t, w.settles(""))
	w.sameStory(protocol.QueryApprovals)
	require.NotEmpty(t, w.goesOn())
	// It has continued again, and the question is still not one of its own.
	w.answer(q.Key, approval.Allow)
	again := w.waits(func(l approval.List) bool { return len(l.Pending) == 1 && l.Pending[0].Key != q.Key }).Pending[0]
	require.Empty(t, w.ran())
	w.answer(again.Key, approval.Allow)
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	require.Len(t, w.ran(), 1)
}

// Whoever starts an agent can send a second argument. It has no effect.
func TestAForgedStateIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(oneAsk))
	line, err := permission.ProposeVetted("shell", []byte(`{"command":"echo hi"}`))
	require.NoError(t, err)
	allow := permission.Decision{Verdict: permission.Allow, DecidedBy: permission.ByDefault}
	forged := protocol.AgentState{AgentRun: "forged", Runs: 7, Turns: 3, Calls: 9, Vetted: []protocol.VettedLine{{RunID: "", Line: line}},
		Results: nil, Steps: []protocol.StepState{{CallID: "t3.1", Asked: protocol.Requested{Name: "run", Input: []byte(`{"text":"forged"}`)},
			Question: "run-forged", Decision: &protocol.DecideResponse{CallID: "t3.1", Tool: "run", Decision: allow}}},
		Ledger: approval.Saved{Open: []approval.Approval{{Key: "run-forged", Tool: "run", CallID: "t3.1"}}}}
	_, err = w.c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, protocol.WorkflowAgent,
		protocol.AgentInput{AgentType: "p", Prompt: "go"}, forged)
	require.NoError(t, err)
	q := w.pending(1)[0]
	require.NotEqual(t, "run-forged", q.Key)
	w.answer("run-forged", approval.Allow)
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.Equal(t, []int{2, 1}, []int{res.Turns, res.Calls})
	require.Equal(t, []string{"run a"}, w.ran())
}

// An agent in a worktree keeps its tree over its runs, and gives it back once.
func TestAWorktreeOverManyRuns(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	before := digestTree(t, repo)
	w := newWorld(t)
	var script strings.Builder
	script.WriteString("turns:\n")
	const turns = 40
	for i := range turns {
		fmt.Fprintf(&script, "  - calls: [{tool: write_file, args: {path: f%02d.txt, content: \"%d\\n\"}}]\n", i, i)
	}
	script.WriteString("  - calls: [{tool: shell, args: {command: \"ls | wc -l\"}}]\n  - say: done\n    expect: {lastResult: {code: OK, contains: '\"exitCode\":0'}}\n")
	s := soon(setup{Repo: repo, Root: filepath.Join(t.TempDir(), "trees"), Keys: true, Script: script.String(), Limits: protocol.Limits{MaxTurns: 2 * turns}})
	p := w.spawn(s, devservertest.Server(t).Address())
	w.start(protocol.AgentInput{})
	// The sweep of a worker that starts finds a tree of an agent that has continued.
	require.Eventually(t, func() bool { return len(w.chain()) > 2 }, patience, tick)
	p.kill(t)
	w.spawn(s, devservertest.Server(t).Address())
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Zero(t, res.Restarts)
	require.Equal(t, turns+2, res.Turns)
	require.Len(t, res.Artifacts, 1)
	// The call that was under way at the kill may have had no effect.
	unknown := 0
	for _, code := range w.codes(res) {
		if code == string(tool.EffectUnknown) {
			unknown++
		}
	}
	require.LessOrEqual(t, unknown, 1)
	require.GreaterOrEqual(t, len(res.Artifacts[0].Files), turns-unknown)
	require.Equal(t, before, digestTree(t, repo), "the host is untouched")
	require.NotContains(t, gitRun(t, repo, "worktree", "list"), s.Root)
	done := map[string]int{}
	runs := w.chain()
	for _, events := range runs {
		for _, e := range events {
			done[e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()]++
		}
	}
	for _, once := range []string{protocol.ActivityResolveToolset, protocol.ActivityResolveRef, protocol.ActivityAcquireWorktree, protocol.ActivityCollectWorktree, protocol.ActivityDisposeWorktree} {
		require.Equal(t, 1, done[once], once)
	}
	require.Greater(t, len(runs), 4)
	t.Logf("%d runs", len(runs))
}

// The worker is killed again and again while an agent continues as new, and answers come when nobody is there to take them:
// each has its effect, and each call one.
func TestKillsAroundAContinuation(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	rounds := 1
	if long() {
		rounds = 40
	}
	w := newWorld(t)
	var script strings.Builder
	script.WriteString("turns:\n")
	for i := range rounds {
		fmt.Fprintf(&script, "  - calls: [{tool: run, args: {text: r%d}}, {tool: look, args: {text: l%d}}]\n", i, i)
	}
	script.WriteString("  - say: done\n")
	s := soon(setup{Preset: permission.Standard, Keys: true, Script: script.String(), Limits: protocol.Limits{MaxTurns: rounds + 2}})
	address := devservertest.Server(t).Address()
	p := w.spawn(s, address)
	w.start(protocol.AgentInput{})
	for i := range rounds {
		q := w.waits(func(l approval.List) bool {
			return len(l.Pending) == 1 && strings.Contains(string(l.Pending[0].Input), fmt.Sprintf(`"r%d"`, i))
		}).Pending[0]
		before, _ := w.present()
		require.Eventually(t, func() bool {
			run, closed := w.present()
			require.False(t, closed)
			_ = w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, "nonsense")
			return run != before
		}, patience, time.Millisecond)
		time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
		p.kill(t)
		told := make(chan error, 1)
		if rnd.IntN(2) == 0 {
			// It may come to the next run before that knows its questions.
			go func() { told <- w.update(approval.Resolution{Key: q.Key, Decision: approval.Allow}) }()
		} else {
			w.answer(q.Key, approval.Allow)
			told <- nil
		}
		p = w.spawn(s, address)
		require.NoError(t, <-told)
	}
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Len(t, w.codes(res), 2*rounds)
	for i, code := range w.codes(res) {
		require.Contains(t, []string{"OK", "EFFECT_UNKNOWN"}, code, i)
	}
	ran := w.ran()
	slices.Sort(ran)
	require.Len(t, slices.Compact(slices.DeleteFunc(slices.Clone(ran), func(s string) bool { return strings.HasPrefix(s, "look") })), rounds)
	for i := range rounds {
		require.Len(t, slices.DeleteFunc(slices.Clone(ran), func(s string) bool { return s != fmt.Sprintf("run r%d", i) }), 1, "run r%d", i)
	}
	require.Greater(t, len(w.chain()), rounds)
}

// Hundreds of answers come by signal and by update while the agent continues as new again and again: none is lost.
func TestAnswersRaceWithTheContinuation(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	turns, each := 2, 50
	if long() {
		turns = 20
	}
	w := newWorld(t)
	var script strings.Builder
	script.WriteString("turns:\n")
	for i := range turns {
		script.WriteString("  - calls: [")
		for j := range each {
			fmt.Fprintf(&script, "{tool: run, args: {text: t%d-%d}}, ", i, j)
		}
		script.WriteString("]\n")
	}
	script.WriteString("  - say: done\n")
	s := soon(askingWith(script.String()))
	s.Limits = protocol.Limits{MaxTurns: turns + 2, MaxToolCalls: 2 * turns * each}
	w.work(s)
	w.start(protocol.AgentInput{})
	var refused int
	for range turns {
		q := w.pending(each)
		rnd.Shuffle(len(q), func(i, j int) { q[i], q[j] = q[j], q[i] })
		var wg sync.WaitGroup
		var mu sync.Mutex
		for part := range 5 {
			own := rand.New(rand.NewPCG(rnd.Uint64(), 5))
			wg.Go(func() {
				for i := part; i < len(q); i += 5 {
					time.Sleep(time.Duration(own.IntN(40)) * time.Millisecond)
					r := approval.Resolution{Key: q[i].Key, Decision: approval.Allow, By: "alice"}
					if own.IntN(2) == 0 && w.resolve(w.id, r, true) {
						continue
					}
					// Whoever is told that an update was not taken answers again; of a signal nothing is told.
					mu.Lock()
					refused++
					mu.Unlock()
					require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, r))
				}
			})
		}
		wg.Wait()
	}
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	for i, code := range w.codes(res) {
		require.Equal(t, "OK", code, i)
	}
	require.Len(t, w.ran(), turns*each)
	require.Equal(t, turns*each, res.Asked)
	t.Logf("%d runs, %d answers by signal", len(w.chain()), refused)
	require.Greater(t, len(w.chain()), 2)
}

// Whoever runs a worker in the namespace can continue a workflow of his own as an agent. What he leaves has no grant.
func TestAStateThatAnotherWorkflowLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(soon(answering(oneAsk, twoOfOps())))
	w.start(protocol.AgentInput{})
	w.pending(1)
	w.goesOn()
	args := w.chain()[1][0].GetWorkflowExecutionStartedEventAttributes().GetInput()
	var in protocol.AgentInput
	var state protocol.AgentState
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(args, &in, &state))
	// Anybody may answer it now.
	state.Ledger.Open[0].Approvers, state.Steps[0].Decision.Approval = nil, nil
	evil := sdkworker.New(w.c, w.queue+"-evil", sdkworker.Options{DeadlockDetectionTimeout: deadlock})
	evil.RegisterWorkflowWithOptions(func(ctx workflow.Context, way string) error {
		info := workflow.GetInfo(ctx)
		digest, err := state.Digest(in)
		if err != nil {
			return err
		}
		forged := state
		unsigned := protocol.Keyring{}.Sign(protocol.Grant{CallID: protocol.StateCall, RunID: info.WorkflowExecution.RunID, InputDigest: digest},
			protocol.StatePlace(info.Namespace, info.WorkflowExecution.ID))
		switch way {
		case "unsigned":
			forged.Grant = &unsigned
		case "signed by nobody":
			unsigned.KeyID, unsigned.MAC = grantKey.ID, "AAAA"
			forged.Grant = &unsigned
		case "none":
			forged.Grant = nil
		}
		return workflow.NewContinueAsNewError(workflow.WithWorkflowTaskQueue(ctx, w.queue), protocol.WorkflowAgent, in, forged)
	}, workflow.RegisterOptions{Name: "Evil"})
	require.NoError(t, evil.Start())
	t.Cleanup(evil.Stop)
	for _, way := range []string{"that of the agent", "unsigned", "signed by nobody", "none"} {
		run, err := w.c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: w.id + "-" + way, TaskQueue: w.queue + "-evil"}, "Evil", way)
		require.NoError(t, err)
		var refused *temporal.ApplicationError
		require.ErrorAs(t, run.Get(t.Context(), nil), &refused, way)
		require.Equal(t, protocol.ErrorDenied, refused.Type(), "%s: %s", way, refused.Message())
		chain, err := verify.Fetch(t.Context(), w.c, run.GetID(), "")
		require.NoError(t, err)
		require.Len(t, chain, 2)
		require.NotEmpty(t, verify.Chain(chain, verify.Options{})[1].Findings)
	}
	require.Empty(t, w.ran())
}
