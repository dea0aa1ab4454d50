package follow_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

var update = flag.Bool("update", false, "write the golden events of the recorded histories")

// history reads one of testdata/histories.
func history(t testing.TB, name string) []*historypb.HistoryEvent {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "histories", name+".json"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h.GetEvents()
}

func names(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "histories", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	return files
}

// read returns what a whole history means.
func read(t testing.TB, name string) []follow.Event {
	t.Helper()
	r := follow.NewReader(name, "", nil)
	var out []follow.Event
	for _, e := range history(t, name) {
		out = append(out, r.Read(e)...)
	}
	return append(out, r.Flush()...)
}

func of(events []follow.Event, kind follow.Kind) []follow.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e follow.Event) bool { return e.Kind != kind })
}

func kinds(events []follow.Event) []follow.Kind {
	var out []follow.Kind
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

// The JSON of an event is read by other programs, so every byte of it is held.
func TestEventsOfRecordedHistories(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			for _, e := range read(t, name) {
				require.NoError(t, enc.Encode(e))
			}
			golden := filepath.Join("testdata", "events", name+".jsonl")
			if *update {
				require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
		})
	}
}

// The keys of questions are not in history before their answers; the memo that the workflow writes when it is
// suspended is the witness that the reader issues the same ones.
func TestKeysAreThoseOfTheWorkflow(t *testing.T) {
	seen := 0
	for _, name := range names(t) {
		r := follow.NewReader(name, "", nil)
		for _, e := range history(t, name) {
			r.Read(e)
			fields := e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo().GetFields()
			if fields[protocol.MemoPending] == nil {
				continue
			}
			var memo []protocol.MemoQuestion
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(fields[protocol.MemoPending], &memo))
			var want, got []string
			for _, q := range memo {
				want = append(want, q.Key)
				seen++
			}
			for _, q := range r.Pending() {
				got = append(got, q.Key)
			}
			if len(want) > 0 { // an empty one says only that the run is no longer suspended
				require.Equal(t, want, got, "%s, event %d", name, e.GetEventId())
			}
		}
	}
	require.Positive(t, seen)
}

// Every question that opens closes once, unless the history is not over.
func TestEveryQuestionClosesOnce(t *testing.T) {
	for _, name := range names(t) {
		open := map[string]bool{}
		events := read(t, name)
		for _, e := range events {
			switch e.Kind {
			case follow.ApprovalPending:
				require.False(t, open[e.Question.Key], "%s: %s opens twice", name, e.Question.Key)
				open[e.Question.Key] = true
			case follow.ApprovalClosed:
				require.True(t, open[e.Closed.Key], "%s: %s closes and was not open", name, e.Closed.Key)
				delete(open, e.Closed.Key)
			}
		}
		if events[len(events)-1].Kind == follow.AgentEnd {
			require.Empty(t, open, name)
		}
	}
}

func TestAnApprovedCall(t *testing.T) {
	events := read(t, "asked-and-allowed")
	got := kinds(events)
	require.Equal(t, follow.AgentStart, got[0])
	require.Equal(t, follow.AgentEnd, got[len(got)-1])
	order := []follow.Kind{follow.Turn, follow.Decision, follow.ApprovalPending, follow.Answer, follow.ApprovalClosed, follow.ToolStart, follow.ToolEnd, follow.Turn}
	at := 0
	for _, k := range got {
		if at < len(order) && k == order[at] {
			at++
		}
	}
	require.Equal(t, len(order), at, "%v", got)

	q := of(events, follow.ApprovalPending)[0].Question
	require.NotEmpty(t, q.Input)
	require.Equal(t, permission.Ask, q.Decision.Verdict)
	closed := of(events, follow.ApprovalClosed)[0].Closed
	require.Equal(t, q.Key, closed.Key)
	require.Equal(t, approval.Allowed, closed.How)
	call := of(events, follow.ToolEnd)[0].Tool
	require.Equal(t, q.CallID, call.CallID)
	require.Equal(t, permission.Ask, call.Verdict)
	require.Equal(t, q.Key, call.Approved.Key)
	require.Equal(t, tool.OK, call.Result.Code)
	require.Equal(t, protocol.OK, events[len(events)-1].End.Result.Status)
}

func TestWhyAQuestionCloses(t *testing.T) {
	for name, want := range map[string]approval.How{
		"denied-by-a-person": approval.Denied, "expired": approval.Expired, "cancelled-while-waiting": approval.Cancelled, "edited": approval.Allowed,
	} {
		closed := of(read(t, name), follow.ApprovalClosed)
		require.Len(t, closed, 1, name)
		require.Equal(t, want, closed[0].Closed.How, name)
	}
}

// A reset delivers old answers again; one that comes before its question changes nothing.
func TestAResetHistory(t *testing.T) {
	events := read(t, "reset")
	require.Len(t, of(events, follow.Reset), 1)
	answers := of(events, follow.Answer)
	require.Len(t, answers, 2)
	require.NotEmpty(t, answers[0].Answer.Ignored)
	require.Empty(t, answers[1].Answer.Ignored)
	require.Equal(t, approval.Allowed, of(events, follow.ApprovalClosed)[0].Closed.How)
}

// Only members count, each once; the answer that makes the number closes.
func TestAQuorum(t *testing.T) {
	events := read(t, "quorum")
	ignored := of(events, follow.ApprovalIgnored)
	require.Len(t, ignored, 1)
	require.Equal(t, "eve", ignored[0].Ignored.By)
	votes := of(events, follow.ApprovalVote)
	require.Len(t, votes, 1)
	require.Equal(t, "bob", votes[0].Progress.Vote.By)
	require.Equal(t, 2, votes[0].Progress.Needs)
	closed := of(events, follow.ApprovalClosed)
	require.Len(t, closed, 1)
	require.Equal(t, "bob, alice", closed[0].Closed.By)
	require.False(t, closed[0].Closed.Signed, "bob is not proved")
	require.True(t, closed[0].Closed.Votes[1].Signed)
}

func TestAQuestionThatNobodyAnswers(t *testing.T) {
	events := read(t, "reminded-and-escalated")
	require.Equal(t, 1, of(events, follow.ApprovalReminder)[0].Progress.Reminded)
	escalated := of(events, follow.ApprovalEscalated)[0].Progress
	require.Equal(t, []string{"ops", "leads"}, escalated.Approvers.Groups)
	require.NotNil(t, escalated.Escalated)
	require.Equal(t, "carol", of(events, follow.ApprovalClosed)[0].Closed.By)
}

func TestAnApproverInTheWorker(t *testing.T) {
	answers := of(read(t, "approver"), follow.Answer)
	require.Len(t, answers, 1)
	require.Equal(t, "approver", answers[0].Answer.Via)
	answers = of(read(t, "approver-unavailable"), follow.Answer)
	require.Len(t, answers, 1, "one that is unavailable gives none")
	require.Equal(t, "signal", answers[0].Answer.Via)
}

// A revocation says whether the call was on its way, and its end what came of it.
func TestARevocation(t *testing.T) {
	events := read(t, "revoked-while-it-runs")
	require.True(t, of(events, follow.ApprovalRevoked)[0].Revoked.Dispatched)
	require.Equal(t, tool.Aborted, of(events, follow.ToolEnd)[0].Tool.Revoked.Outcome)
	events = read(t, "revoked-before-the-answer")
	require.Equal(t, approval.Revoked, of(events, follow.ApprovalClosed)[0].Closed.How)
	require.Empty(t, of(events, follow.ToolStart))
}

// A run that continues another takes over its keys, so that the same content gets another one.
func TestAContinuedRunGoesOnCountingKeys(t *testing.T) {
	require.Regexp(t, `\.2$`, of(read(t, "guarded-continued"), follow.ApprovalPending)[0].Question.Key)
}

// Decisions of one turn are told in the model's order, whatever order their local activities ended in.
func TestParallelQuestions(t *testing.T) {
	events := read(t, "parallel-questions")
	var ids []string
	for _, e := range of(events, follow.Decision) {
		ids = append(ids, e.Decision.CallID)
	}
	require.True(t, slices.IsSorted(ids), "%v", ids)
	ignored := slices.ContainsFunc(of(events, follow.Answer), func(e follow.Event) bool { return e.Answer.Ignored != "" })
	require.True(t, ignored, "the answer to a nonsense key is told as ignored")
}

func TestAWorktree(t *testing.T) {
	var phases []string
	for _, e := range of(read(t, "worktree"), follow.Worktree) {
		require.Empty(t, e.Worktree.Error)
		phases = append(phases, e.Worktree.Phase)
	}
	require.Equal(t, []string{follow.Pinned, follow.Acquired, follow.Collected, follow.Disposed}, phases)
}

// A workflow that is not an agent has decisions, questions and calls, and no turns.
func TestAGuardedWorkflow(t *testing.T) {
	events := read(t, "guarded-workflow")
	require.NotEmpty(t, of(events, follow.Decision))
	require.NotEmpty(t, of(events, follow.ToolEnd))
	require.Empty(t, of(events, follow.Turn))
	for _, e := range of(events, follow.ToolEnd) {
		require.NotContains(t, e.Tool.Tool, protocol.ToolPrefix)
	}
}

// A history may be cut anywhere, and what cannot be decoded must not stop the reader.
func FuzzReader(f *testing.F) {
	f.Add(0, []byte(`{}`))
	f.Add(7, []byte(`"allow"`))
	f.Add(12, []byte{0xff})
	events := history(f, "parallel-questions")
	f.Fuzz(func(_ *testing.T, at int, data []byte) {
		r := follow.NewReader("w", "", nil)
		for i, e := range events {
			if i == int(uint(at)%uint(len(events))) {
				e = damaged(proto.Clone(e).(*historypb.HistoryEvent), data)
			}
			r.Read(e)
		}
		r.Flush()
	})
}

// damaged puts other bytes into the first payload of an event.
func damaged(e *historypb.HistoryEvent, data []byte) *historypb.HistoryEvent {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		for _, p := range e.GetMarkerRecordedEventAttributes().GetDetails() {
			for _, q := range p.GetPayloads() {
				q.Data = data
			}
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		for _, p := range e.GetWorkflowExecutionSignaledEventAttributes().GetInput().GetPayloads() {
			p.Data = data
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		for _, p := range e.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads() {
			p.Data = data
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		for _, p := range e.GetActivityTaskScheduledEventAttributes().GetInput().GetPayloads() {
			p.Data = data
		}
	}
	return e
}
