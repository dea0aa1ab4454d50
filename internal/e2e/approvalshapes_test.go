package e2e

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// robot is an approver in the worker that says always the same.
func robot(says string) pipeline.Plugin {
	return pipeline.PluginFunc("robot", func(s *pipeline.Scope) error {
		return s.Approver(func(ctx context.Context, _ pipeline.Call, _ permission.Decision) (pipeline.Answer, error) {
			switch says {
			case "allow":
				return pipeline.Allow(), nil
			case "unavailable":
				return pipeline.Answer{}, pipeline.ErrUnavailable
			case "panic":
				panic("robot")
			case "hang":
				<-ctx.Done()
				return pipeline.Answer{}, ctx.Err()
			case "deny":
				return pipeline.Deny("the robot says no"), nil
			}
			return pipeline.Answer{}, errors.New("unknown robot " + says)
		})
	})
}

// aliceKey is the key with which alice signs.
var aliceKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))

var staff = approval.Directory{
	Groups: map[string][]string{"ops": {"alice", "bob"}, "leads": {"carol"}},
	Keys:   map[string]ed25519.PublicKey{"alice": aliceKey.Public().(ed25519.PublicKey)},
}

// answering asks before execute-risk tools in the way that p says.
func answering(script string, p permission.ApprovalPolicy) setup {
	s := askingWith(script)
	s.Approval, s.Approvers = &p, staff
	return s
}

// sign gives an answer of alice to a question.
func (w *world) sign(q approval.Approval, r approval.Resolution) {
	w.t.Helper()
	r, err := approval.Sign(q, r, "alice", aliceKey)
	require.NoError(w.t, err)
	require.NoError(w.t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, r))
}

// waits returns once the list of questions is as it should be.
func (w *world) waits(until func(approval.List) bool) approval.List {
	w.t.Helper()
	var l approval.List
	require.Eventually(w.t, func() bool {
		var err error
		l, err = w.list()
		return err == nil && until(l)
	}, patience, tick)
	return l
}

// The shapes of answers, beside a plain allow and deny.
var approvalShapes = map[string]shape{
	"quorum": {answering(oneAsk, permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}), func(w *world) {
		q := w.pending(1)[0]
		w.send(`{"key":"` + q.Key + `","decision":"allow","by":"eve"}`)
		w.send(`{"key":"` + q.Key + `","decision":"allow","by":"bob"}`)
		w.waits(func(l approval.List) bool { return len(l.Pending) == 1 && len(l.Pending[0].Votes) == 1 })
		w.sign(q, approval.Resolution{Decision: approval.Allow, Reason: "read it"})
		require.Equal(w.t, protocol.OK, w.result().Status)
		require.Equal(w.t, []string{"run a"}, w.ran())
		require.Equal(w.t, "bob, alice", w.lists().Closed[0].By)
	}},
	"reminded-and-escalated": {answering(oneAsk, permission.ApprovalPolicy{Remind: time.Second, Approvers: &permission.Approvers{Groups: []string{"ops"}},
		Escalate: &permission.Escalation{After: 1500 * time.Millisecond, Groups: []string{"leads"}}}), func(w *world) {
		w.waits(func(l approval.List) bool {
			return len(l.Pending) == 1 && l.Pending[0].Reminded > 1 && l.Pending[0].Escalated != nil
		})
		w.send(`{"key":"` + w.pending(1)[0].Key + `","decision":"allow","by":"carol"}`)
		require.Equal(w.t, protocol.OK, w.result().Status)
		require.Equal(w.t, []string{"run a"}, w.ran())
	}},
	"revoked-before-the-answer": {askingWith(oneAsk), func(w *world) {
		w.answer(w.pending(1)[0].Key, approval.Revoke)
		require.Equal(w.t, []string{"DENIED/revoked"}, w.codes(w.result()))
		require.Empty(w.t, w.ran())
	}},
	"revoked-while-it-runs": {askingWith(`
turns:
  - calls: [{tool: hold, args: {text: a}}]
  - say: done
`), func(w *world) {
		key := w.pending(1)[0].Key
		w.answer(key, approval.Allow)
		require.Eventually(w.t, func() bool { return len(w.ran()) == 1 }, patience, tick)
		w.answer(key, approval.Revoke)
		require.Equal(w.t, []string{"ABORTED/revoked"}, w.codes(w.result()))
		require.Equal(w.t, tool.Aborted, w.lists().Closed[0].Revoked.Outcome)
	}},
	"approver": {robotic("allow"), func(w *world) {
		require.Equal(w.t, []string{"OK"}, w.codes(w.result()))
		require.Equal(w.t, "robot", w.lists().Closed[0].By)
	}},
	"approver-unavailable": {robotic("unavailable"), func(w *world) {
		w.answer(w.pending(1)[0].Key, approval.Allow)
		require.Equal(w.t, []string{"OK"}, w.codes(w.result()))
	}},
}

func robotic(says string) setup {
	s := askingWith(oneAsk)
	s.Robot = says
	return s
}
