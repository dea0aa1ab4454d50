package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// many is how many questions are open at once.
func many() int {
	if long() {
		return 1000
	}
	return 300
}

// cost is what a run has cost the server.
type cost struct{ events, bytes, memo, largestMemo int }

// cost reads and prints it. Nothing of it may come near what a server refuses.
func (w *world) cost(what string) cost {
	w.t.Helper()
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
	require.NoError(w.t, err)
	info := d.RawResponse.GetWorkflowExecutionInfo()
	c := cost{events: int(info.GetHistoryLength()), bytes: int(info.GetHistorySizeBytes())}
	kinds := map[string]int{}
	for _, e := range w.history() {
		kinds[e.GetEventType().String()]++
		n := len(e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo().GetFields()[protocol.MemoPending].GetData())
		c.memo, c.largestMemo = c.memo+n, max(c.largestMemo, n)
	}
	w.t.Logf("%s: %d events, %d bytes of history, of which %d are memo; %v", what, c.events, c.bytes, c.memo, kinds)
	require.Less(w.t, c.largestMemo, 8<<10)
	require.Less(w.t, c.bytes, 20<<20, "a server warns at 10 MiB and ends a run at 50")
	require.Less(w.t, c.events, 20_000, "a server warns at 10,240 and ends a run at 51,200")
	require.Empty(w.t, w.failedTasks())
	return c
}

// manyOrders are as many calls at once, with arguments that somebody would want to read.
func manyOrders(n int) shipping {
	s := shipping{Parallel: true}
	for i := range n {
		s.Orders = append(s.Orders, order{Service: fmt.Sprintf("service-%04d", i), Token: strings.Repeat("arguments ", 20)})
	}
	return s
}

// open waits until n questions are, however long a busy machine takes.
func (m *team) open(n int) []approval.Approval {
	m.t.Helper()
	var l approval.List
	require.Eventually(m.t, func() bool {
		var err error
		l, err = m.list()
		return err == nil && len(l.Pending) == n
	}, 5*patience, tick)
	return l.Pending
}

// Very many questions in one guarded workflow: what people are shown stays within the server's limits, and one word denies
// them all.
func TestVeryManyQuestionsDeniedAtOnce(t *testing.T) {
	m := newTeam(t)
	m.work()
	n := many()
	m.begin("Ship", manyOrders(n))
	q := m.open(n)
	asked := m.cost("asked")
	require.Less(t, asked.events, 2*n, "one decision each")

	require.Less(t, len(asJSON(t, q)), 1<<20+1<<19, "the answer to the query")
	d := m.details()
	require.Less(t, len(d), 128<<10)
	require.Contains(t, d, q[0].Key)
	described, err := m.c.DescribeWorkflow(context.Background(), m.id, "")
	require.NoError(t, err)
	require.Contains(t, string(described.RawResponse.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()[protocol.AttrStatus].GetData()), "waiting")
	var inMemo []protocol.MemoQuestion
	require.NoError(t, described.GetMemoValue(protocol.MemoPending, &inMemo))
	require.Len(t, inMemo, 10)
	require.Equal(t, q[0].Key, inMemo[0].Key)

	m.send(`"deny"`)
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	var out []string
	require.NoError(t, m.c.GetWorkflow(ctx, m.id, "").Get(ctx, &out))
	require.Len(t, out, n)
	for _, s := range out {
		require.Equal(t, "DENIED/person", s)
	}
	require.Empty(t, m.ran())
	denied := m.cost("denied")
	require.Less(t, denied.events-asked.events, 2*n, "one admission each")
	described, err = m.c.DescribeWorkflow(context.Background(), m.id, "")
	require.NoError(t, err)
	require.Nil(t, described.Memo.GetFields()[protocol.MemoPending], "the server drops what is empty")
}

// Very many questions answered one by one, by signal and by update, allowed and denied: each gets its own answer.
func TestVeryManyQuestionsAnsweredOneByOne(t *testing.T) {
	m := newTeam(t)
	m.work()
	n := many()
	m.begin("Ship", manyOrders(n))
	q := m.open(n)
	asked := m.cost("asked")
	want := map[string]string{}
	out := m.outsider()
	for i, p := range q {
		var o order
		require.NoError(t, json.Unmarshal(p.Input, &o))
		r := resolution(p.Key, approval.Allow, "")
		if want[o.Service] = "deployed " + o.Service; i%2 == 1 {
			r.Decision, want[o.Service] = approval.Deny, "DENIED/person"
		}
		if i%10 == 0 {
			require.NoError(t, m.resolve(out, r))
			continue
		}
		require.NoError(t, out.SignalWorkflow(context.Background(), m.id, "", protocol.GuardSignalApproval, plainly(asJSON(t, r))))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	var got []string
	require.NoError(t, m.c.GetWorkflow(ctx, m.id, "").Get(ctx, &got))
	for i, o := range manyOrders(n).Orders {
		require.Equal(t, want[o.Service], got[i])
	}
	require.Len(t, m.ran(), n/2)
	answered := m.cost("answered")
	require.Less(t, answered.memo-asked.memo, (answered.bytes-asked.bytes)/2, "the memo is not what answers cost")
}

// Turns of an agent with as many calls as a turn may have, all asked: denied with one word, answered one by one, denied
// again. History grows with the calls and not with their square.
func TestTurnsFullOfQuestions(t *testing.T) {
	const n = protocol.MaxCallsPerTurn
	w := newWorld(t)
	var turn turns
	for i := range 3 {
		var calls []model.ToolCall
		for j := range n {
			calls = append(calls, model.ToolCall{ID: fmt.Sprintf("%d.%d", i, j), Name: "run", Input: json.RawMessage(fmt.Sprintf(`{"text":"%d.%d"}`, i, j))})
		}
		turn = append(turn, model.Response{Calls: calls, Stop: model.StopToolUse})
	}
	s := asking
	s.Limits = protocol.Limits{MaxToolCalls: 4 * n}
	w.workLike(s, func(c *worker.Config, p *config.Profile) { c.Models["other"], p.Models = turn, []string{"other:x"} })
	w.start(protocol.AgentInput{})
	first := map[string]bool{}
	for _, q := range w.pending(n) {
		first[q.Key] = true
	}
	one := w.cost("first turn asked")
	require.Less(t, len(w.details()), 128<<10)
	w.send(`"deny"`)
	var second []approval.Approval
	require.Eventually(t, func() bool {
		l, err := w.list()
		second = l.Pending
		return err == nil && len(second) == n && !first[second[0].Key]
	}, 2*patience, tick)
	for i, q := range second {
		choice := approval.Deny
		if i%4 == 0 {
			choice = approval.Allow
		}
		w.answer(q.Key, choice)
		if sent := i + 1; sent%64 == 0 && sent < n {
			// The server fails a task during which more than a hundred signals come.
			require.Eventually(t, func() bool {
				l, err := w.list()
				return err == nil && len(l.Pending) <= n-sent
			}, 2*patience, tick)
		}
	}
	require.Eventually(t, func() bool {
		l, err := w.list()
		return err == nil && len(l.Pending) == n && l.Pending[0].CallID == "t3.1"
	}, 2*patience, tick)
	w.send(`"deny"`)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 3*n, res.Asked)
	require.Len(t, w.ran(), n/4)
	all := w.cost("ended")
	require.Less(t, all.bytes, 16*one.bytes)
	require.Zero(t, count(w.history(), enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
	w.sound()
}
