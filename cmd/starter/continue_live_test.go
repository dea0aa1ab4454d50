package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/temporalproto"

	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/protocol"
)

// An agent that waits continues as new, twice. Every command is about the agent and not about its runs: watch tells each thing
// once, show and list count it once, and answers find it.
func TestAnAgentThatContinuedAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `
turns:
  - calls: [{tool: shell, args: {command: "echo one > one.txt"}}]
    usage: {inputTokens: 100, outputTokens: 20}
  - calls: [{tool: shell, args: {command: "echo two > two.txt"}}]
    usage: {inputTokens: 100, outputTokens: 20}
  - calls: [{tool: shell, args: {command: "echo three"}}]
    usage: {inputTokens: 100, outputTokens: 20}
  - say: Done with it.
`, inTree)
	p, err := workerproc.Start(context.Background(), workerproc.Options{Config: w.path("assent.yaml"), Queue: w.queue, DeadlockDetection: 20 * time.Second,
		ContinueAfter: 50, Connect: connect.Settings{Address: devservertest.Server(t).Address(), Alone: true}})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	s, id := w.server(), unique(t)
	present := func() string {
		d, err := s.DescribeWorkflow(context.Background(), id, "")
		require.NoError(t, err)
		return d.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	}
	goesOn := func() {
		before := present()
		require.Eventually(t, func() bool {
			if present() != before {
				return true
			}
			_ = s.SignalWorkflow(context.Background(), id, "", protocol.SignalApproval, "nonsense")
			return false
		}, patience, tick)
	}
	running := w.begin("run", "--profile", "p", "--task", "three things", "--id", id)
	first := w.pending(id, 1)[0]
	goesOn()
	same := w.pending(id, 1)[0]
	require.Equal(t, first.Key, same.Key)
	require.NotEqual(t, first.RunID, same.RunID)

	// What was found before the agent continued is answered in the run that goes on.
	fd := newFinder(s)
	stale, err := fd.byID(context.Background(), id)
	require.NoError(t, err)
	goesOn()
	got, err := send(context.Background(), fd, stale, approval.Resolution{Key: first.Key, Decision: approval.Allow, By: "alice"})
	require.NoError(t, err)
	require.NotNil(t, got.Closed)
	require.Equal(t, approval.Allowed, got.Closed.How)

	second := func() listed {
		var q listed
		require.Eventually(t, func() bool { q = w.pending(id, 1)[0]; return q.Key != first.Key }, patience, tick)
		return q
	}()
	goesOn()
	text := w.ok(w.starter("show", id)).out.String()
	require.Contains(t, text, "  runs    4\n")
	require.Contains(t, text, "so far  2 turns · 2 calls · 200 tokens in, 40 out")
	require.Contains(t, text, second.Key)
	require.Contains(t, text, "  task    three things\n")
	agents := lines[shown](t, w.ok(w.starter("show", id, "-o", "json")).out.String())[0]
	require.Equal(t, []int{4, 0, 2, 2, 1}, []int{agents.Runs, agents.Gone, agents.Turns, len(agents.Calls), len(agents.Questions)})
	rows := 0
	require.Eventually(t, func() bool {
		rows = 0
		for _, r := range lines[row](t, w.ok(w.starter("list", "--limit", "1000", "-o", "json")).out.String()) {
			if r.WorkflowID == id {
				rows++
				require.Equal(t, string(protocol.StatusWaiting), r.Status)
			}
		}
		return rows == 1
	}, patience, tick)
	w.ok(w.starter("deny", second.Key, "-w", id, "--reason", "not that"))
	third := func() listed {
		var q listed
		require.Eventually(t, func() bool { q = w.pending(id, 1)[0]; return q.Key != second.Key }, patience, tick)
		return q
	}()
	goesOn()
	w.ok(w.starter("revoke", third.Key))
	w.ok(running)

	seen := map[string]bool{}
	starts := 0
	for _, e := range lines[follow.Event](t, w.ok(w.starter("watch", id, "-o", "json")).out.String()) {
		switch e.Kind {
		case follow.ApprovalPending:
			require.False(t, seen[e.Question.Key], "it is asked once")
			seen[e.Question.Key] = true
		case follow.AgentStart:
			require.Equal(t, starts, e.Start.RunsBefore)
			starts++
		}
	}
	require.Len(t, seen, 3)
	require.Equal(t, 5, starts)
	require.Equal(t, running.out.String(), w.ok(w.starter("watch", id)).out.String())
	require.Contains(t, w.ok(w.starter("patch", id, "--config", w.path("assent.yaml"))).out.String(), "+one")

	// The whole chain is verified; one run alone is trusted in what it took over.
	text = w.ok(w.starter("verify", id, "--grant-key", w.path("key"))).out.String()
	require.Contains(t, text, "ok: 1 call of 5 runs, each permitted\n")
	require.NotContains(t, text, "trust")
	reports := lines[verify.Report](t, w.ok(w.starter("verify", id, "-o", "json")).out.String())
	require.Len(t, reports, 5)
	for i, r := range reports {
		require.False(t, r.Trusted)
		if i > 0 {
			require.Equal(t, reports[i-1].RunID, r.ContinuedFrom)
		}
	}
	one := lines[verify.Report](t, w.ok(w.starter("verify", id, "--run", reports[3].RunID, "-o", "json")).out.String())[0]
	require.True(t, one.Trusted)
	alone, err := verify.FetchOne(context.Background(), s, id, reports[2].RunID)
	require.NoError(t, err)
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(&historypb.History{Events: alone.Events})
	require.NoError(t, err)
	w.write("one.json", string(raw))
	require.Contains(t, w.ok(w.starter("verify", w.path("one.json"))).out.String(),
		fmt.Sprintf("not checked   what it took over from run %s, which was not looked at: it is taken on trust\n", reports[1].RunID))

	w.write("new.yaml", "engine:\n  deny: [{tool: shell, argv: [\"echo **\"], reason: be quiet}]\nprofiles:\n  p: {tools: [shell], permissions: {preset: standard}}\n")
	require.Contains(t, w.ok(w.starter("policy", "replay", w.path("new.yaml"), id)).out.String(), "3 calls of 5 runs: 3 verdicts change (3 ask → deny)\n")
}
