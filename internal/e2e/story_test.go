package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// sameStory waits until what the query of a run says of its questions is what its history says to somebody who has no
// worker.
func (w *world) sameStory(query string) {
	w.t.Helper()
	var said, told approval.List
	same := func() bool {
		before := w.history()
		list, err := w.listOf(w.id, query)
		if err != nil || !settledAt(before[len(before)-1]) || len(w.history()) != len(before) {
			return false
		}
		r := follow.NewReader(w.id, "", nil)
		for _, e := range before {
			r.Read(e)
		}
		r.Flush()
		said, told = list, r.List()
		return assert.ObjectsAreEqual(timeless(said), timeless(told))
	}
	// Not require.Eventually: what was compared last is looked at when time is over.
	for deadline := time.Now().Add(patience); !same(); time.Sleep(tick) {
		if time.Now().After(deadline) {
			w.t.Logf("the query says of ignored answers %+v\nhistory tells %+v", said.Ignored, told.Ignored)
			require.Equal(w.t, timeless(said), timeless(told), "what the query says, and what history tells")
			require.Fail(w.t, "the run did not come to rest")
		}
	}
}

// settledAt reports that no workflow task waits to be done behind an event.
func settledAt(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		return false
	}
	return true
}

// timeless leaves out times, which are those of a task in one and of an event in the other, the arguments of calls that are
// not in history, and in what words an answer is ignored.
func timeless(l approval.List) approval.List {
	none := time.Time{}
	l.Pending, l.Granted, l.Closed, l.Ignored = slices.Clone(l.Pending), slices.Clone(l.Granted), slices.Clone(l.Closed), slices.Clone(l.Ignored)
	for i := range l.Pending {
		q := &l.Pending[i]
		q.AskedAt, q.Votes = none, votes(q.Votes)
		if q.Agent != "p" {
			q.Input = nil
		}
		if q.Deadline != nil {
			q.Deadline = &none
		}
		if q.Escalated != nil {
			q.Escalated = &none
		}
	}
	for i := range l.Granted {
		l.Granted[i].At = none
	}
	for i := range l.Closed {
		c := &l.Closed[i]
		c.At, c.Votes = none, votes(c.Votes)
		if c.Revoked != nil {
			r := *c.Revoked
			r.At = none
			c.Revoked = &r
			if r.Outcome != tool.Denied && r.Outcome != tool.Aborted {
				// It came with the end of its call, which the workflow may have taken first.
				c.Revoked = nil
			}
		}
	}
	for i := range l.Ignored {
		l.Ignored[i].At, l.Ignored[i].Why = none, ""
	}
	// Those of one task are noted in any order.
	slices.SortFunc(l.Ignored, func(a, b approval.Ignored) int { return strings.Compare(a.Key+a.By+a.Via, b.Key+b.By+b.Via) })
	return l
}

func votes(of []approval.Vote) []approval.Vote {
	of = slices.Clone(of)
	for i := range of {
		of[i].At = time.Time{}
	}
	return of
}

// Whatever is sent, in whatever order, by signal and by update, the query and the history say the same of it.
func TestHistoryTellsWhatTheQuerySays(t *testing.T) {
	t.Parallel()
	ops := approval.Directory{Groups: map[string][]string{"ops": {"alice", "bob"}, "leads": {"erin"}}}
	for name, s := range map[string]setup{
		"anybody": {},
		"two":     {Approvers: ops, Approval: &permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}},
		"in time": {Approvers: ops, Approval: &permission.ApprovalPolicy{Deadline: 4 * time.Second, Remind: time.Second,
			Escalate: &permission.Escalation{After: 2 * time.Second, Groups: []string{"leads"}}, Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}},
		"robot": {Robot: "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			w := newWorld(t)
			s.Preset = permission.Standard
			s.Script = "turns:\n  - calls: ["
			for i := range 10 {
				s.Script += fmt.Sprintf("{tool: run, args: {text: %q}}, ", string(rune('a'+i)))
			}
			s.Script += "{tool: hold, args: {text: x}}]\n  - say: done\n"
			w.work(s)
			w.start(protocol.AgentInput{})
			// Not all of them need be open still on a busy machine.
			l := w.waits(func(l approval.List) bool { return len(l.Pending)+len(l.Closed) == 11 })
			var keys []string
			for _, q := range l.Pending {
				keys = append(keys, q.Key)
			}
			for _, c := range l.Closed {
				keys = append(keys, c.Key)
			}
			w.storm(rand.New(rand.NewPCG(seed, 0)), keys)
			require.NoError(t, appendLine(w.effects+".go", "go"))
			w.sameStory(protocol.QueryApprovals)
			w.sends(`"deny"`)
			w.result()
			w.sameStory(protocol.QueryApprovals)
		})
	}
}

// storm sends answers of every kind in bursts, and compares after each, until the run has ended.
func (w *world) storm(r *rand.Rand, keys []string) {
	w.t.Helper()
	by := []string{"alice", "bob", "erin", "eve", ""}
	for range 4 {
		for range 6 {
			if !w.sends(oddAnswer(r, keys[r.IntN(len(keys))], by[r.IntN(len(by))])) {
				return
			}
			// A refused update leaves nothing in history, and is as good.
			h, err := w.c.UpdateWorkflow(context.Background(), client.UpdateWorkflowOptions{WorkflowID: w.id, UpdateName: protocol.UpdateResolve,
				Args:         []any{protocol.Resolution{Key: keys[r.IntN(len(keys))], Decision: approval.Allow, By: by[r.IntN(len(by))]}},
				WaitForStage: client.WorkflowUpdateStageAccepted})
			if err == nil {
				_ = h.Get(context.Background(), nil)
			}
		}
		w.sameStory(protocol.QueryApprovals)
	}
}

// oddAnswer is one of the kinds of answers.
func oddAnswer(r *rand.Rand, key, who string) string {
	object := func(decision, more string) string {
		return fmt.Sprintf(`{"key":%q,"decision":%q,"by":%q%s}`, key, decision, who, more)
	}
	switch r.IntN(9) {
	case 0:
		return object("deny", "")
	case 1, 2:
		return object("revoke", "")
	case 3:
		return object("maybe", "")
	case 4:
		return `{"key":"nonsense","decision":"allow"}`
	case 5:
		return object("allow", `,"input":{"text":"edited"}`)
	}
	return object("allow", "")
}

// sends signals an answer, and reports false when the run has ended.
func (w *world) sends(raw string) bool {
	w.t.Helper()
	payload := converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(raw)})
	err := w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, payload)
	if gone := new(serviceerror.NotFound); errors.As(err, &gone) {
		return false
	}
	require.NoError(w.t, err)
	return true
}
