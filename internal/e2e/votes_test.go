package e2e

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// crew has one more member of ops than two of them need, and one who signs.
var crew = approval.Directory{Groups: map[string][]string{"ops": {"alice", "bob", "dave"}, "leads": {"carol"}}, Keys: staff.Keys}

// voted are runs with n open questions, each of which two of ops have to allow; dave has asked for the agent.
var voted = map[string]func(t *testing.T, n int) *asker{
	"agent": func(t *testing.T, n int) *asker {
		w := newWorld(t)
		w.workLike(answering("", twoOfOps()), func(c *worker.Config, p *config.Profile) {
			c.Models["other"], p.Models, c.Approvers = callsOf(numbered(n)...), []string{"other:x"}, crew
		})
		w.start(protocol.AgentInput{RequestedBy: "dave"})
		return &asker{world: w, signal: protocol.SignalApproval, update: protocol.UpdateResolve, query: protocol.QueryApprovals,
			codes: func() []string { return w.codes(w.result()) }}
	},
	"guarded workflow": func(t *testing.T, n int) *asker {
		m := newTeam(t)
		p := twoOfOps()
		m.guard.Permissions.Approval, m.guard.Approvers = &p, crew
		m.work()
		m.begin("Ship", manyOrders(n))
		return &asker{world: m.world, signal: protocol.GuardSignalApproval, update: protocol.GuardUpdateResolve, query: protocol.GuardQueryApprovals,
			codes: m.shipped}
	},
}

func twoOfOps() permission.ApprovalPolicy {
	return permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}
}

// by is an allow of somebody who does not sign.
func by(q approval.Approval, who string) approval.Resolution {
	return approval.Resolution{Key: q.Key, Decision: approval.Allow, By: who}
}

// ballots are what is said about one question, and what becomes of it.
var ballots = map[string]struct {
	// answers are sent in this order.
	answers func(t *testing.T, q, another approval.Approval) []approval.Resolution
	how     approval.How
	// by is who closed it; why is a part of the reason, ignored are the answers that change nothing.
	by, why string
	ignored []string
}{
	"two of three": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		return []approval.Resolution{by(q, "bob"), signed(t, q, approval.Resolution{Decision: approval.Allow})}
	}, approval.Allowed, "bob, alice", "", nil},
	"whoever cannot vote": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		return []approval.Resolution{by(q, "bob"), by(q, "bob"), by(q, "eve"), by(q, "carol"), by(q, ""), by(q, "alice"), by(q, "Bob"),
			signed(t, q, approval.Resolution{Decision: approval.Allow})}
	}, approval.Allowed, "bob, alice", "", []string{`"bob" has allowed it before`, `"eve" is in none of the groups ops`, `"carol" is in none of the groups`,
		"does not say who gives it", `"alice" signs answers, and this one is not signed`, `"Bob" is in none of the groups`}},
	"a veto": {func(_ *testing.T, q, _ approval.Approval) []approval.Resolution {
		return []approval.Resolution{by(q, "bob"), {Key: q.Key, Decision: approval.Deny, By: "eve", Reason: "not today"}}
	}, approval.Denied, "eve", "not today", nil},
	"withdrawn": {func(_ *testing.T, q, _ approval.Approval) []approval.Resolution {
		return []approval.Resolution{by(q, "bob"), {Key: q.Key, Decision: approval.Revoke, By: "bob"}}
	}, approval.Revoked, "bob", "", nil},
	"a vote given twice": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		alice := signed(t, q, approval.Resolution{Decision: approval.Allow})
		return []approval.Resolution{alice, alice, by(q, "bob")}
	}, approval.Allowed, "alice, bob", "", []string{`"alice" has allowed it before`}},
	"an unknown key": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		r, err := approval.Sign(q, approval.Resolution{Decision: approval.Allow}, "mallory", ed25519.NewKeyFromSeed([]byte(strings.Repeat("m", ed25519.SeedSize))))
		require.NoError(t, err)
		return []approval.Resolution{by(q, "bob"), r}
	}, approval.Denied, "mallory", `the key "mallory" is not known here`, nil},
	"another's key under a known name": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		r, err := approval.Sign(q, approval.Resolution{Decision: approval.Allow}, "alice", ed25519.NewKeyFromSeed([]byte(strings.Repeat("m", ed25519.SeedSize))))
		require.NoError(t, err)
		return []approval.Resolution{by(q, "bob"), r}
	}, approval.Denied, "alice", "not over this answer", nil},
	"over another question": {func(t *testing.T, q, another approval.Approval) []approval.Resolution {
		r := signed(t, another, approval.Resolution{Decision: approval.Allow})
		r.Key = q.Key
		return []approval.Resolution{by(q, "bob"), r}
	}, approval.Denied, "alice", "not over this answer to this question", nil},
	"tampered": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		r := signed(t, q, approval.Resolution{Decision: approval.Deny})
		r.Decision = approval.Allow
		return []approval.Resolution{by(q, "bob"), r}
	}, approval.Denied, "alice", "not over this answer to this question", nil},
	"signed until a moment that has passed": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		past := q.AskedAt.AddDate(-1, 0, 0)
		return []approval.Resolution{by(q, "bob"), signed(t, q, approval.Resolution{Decision: approval.Allow, ExpiresAt: &past})}
	}, approval.Expired, "alice", "", nil},
	"an edit": {func(t *testing.T, q, _ approval.Approval) []approval.Resolution {
		edit := by(q, "bob")
		edit.Input = []byte(`{"text":"else"}`)
		return []approval.Resolution{edit, by(q, "bob"), signed(t, q, approval.Resolution{Decision: approval.Allow})}
	}, approval.Allowed, "bob, alice", "", []string{"cannot be edited"}},
}

func signed(t *testing.T, q approval.Approval, r approval.Resolution) approval.Resolution {
	t.Helper()
	r, err := approval.Sign(q, r, "alice", aliceKey)
	require.NoError(t, err)
	return r
}

// Two distinct members of a group allow, and prove it if they can; whoever cannot give an allow is named with the reason;
// a forged signature denies, and so does anybody's veto. It is so in agents and in guarded workflows.
func TestVotes(t *testing.T) {
	t.Parallel()
	for kind, start := range voted {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := start(t, len(ballots)+1)
			q := a.open(len(ballots) + 1)
			byUpdate := q[0]
			i, names, allowed := 1, map[string]string{}, 1
			for name, v := range ballots {
				names[q[i].Key] = name
				for _, r := range v.answers(t, q[i], byUpdate) {
					a.say(asJSON(t, r))
				}
				if i++; v.how == approval.Allowed {
					allowed++
				}
			}
			if kind == "agent" {
				a.say(asJSON(t, by(byUpdate, "dave")))
			}
			l := a.until(func(l approval.List) bool {
				return len(l.Closed) == len(ballots) && len(l.Pending) == 1 && len(l.Granted) == 0
			})
			for _, c := range l.Closed {
				v, name := ballots[names[c.Key]], names[c.Key]
				require.Equal(t, v.how, c.How, "%s: %s", name, c.Reason)
				require.Equal(t, v.by, c.By, name)
				require.Contains(t, c.Reason, v.why, name)
				require.Equal(t, v.how == approval.Allowed, len(c.Votes) == 2, name)
				var ignored []string
				for _, i := range l.Ignored {
					if i.Key == c.Key {
						ignored = append(ignored, i.Why)
					}
				}
				require.Len(t, ignored, len(v.ignored), "%s: %q", name, ignored)
				for i, why := range v.ignored {
					require.Contains(t, ignored[i], why, name)
				}
			}
			a.votedByUpdate(byUpdate, kind == "agent")
			codes := a.codes()
			require.Len(t, a.ran(), allowed, codes)
			require.Empty(t, a.failedTasks())
		})
	}
}

// votedByUpdate lets a question be allowed by updates. Those that do not count are told so at once.
func (a *asker) votedByUpdate(q approval.Approval, requested bool) {
	t := a.t
	if requested {
		a.until(func(l approval.List) bool {
			return slices.ContainsFunc(l.Ignored, func(i approval.Ignored) bool {
				return i.Key == q.Key && i.By == "dave" && strings.Contains(i.Why, `"dave" asked for the run`)
			})
		})
	}
	before := a.happened()
	forged := signed(t, q, approval.Resolution{Decision: approval.Deny})
	forged.Decision = approval.Allow
	for want, r := range map[string]approval.Resolution{
		"not over this answer": forged, "in none of the groups": by(q, "eve"), "does not say who": by(q, ""), "signs answers": by(q, "alice"),
	} {
		require.ErrorContains(t, a.resolve(r), want)
	}
	if requested {
		require.ErrorContains(t, a.resolve(by(q, "dave")), "asked for the run")
	}
	require.Equal(t, before, a.happened(), "a refused update costs no history")
	require.NoError(t, a.resolve(by(q, "bob")))
	a.until(func(l approval.List) bool { return len(l.Pending) == 1 && len(l.Pending[0].Votes) == 1 })
	require.ErrorContains(t, a.resolve(by(q, "bob")), "has allowed it before")
	require.NoError(t, a.resolve(signed(t, q, approval.Resolution{Decision: approval.Allow, Reason: "read it"})))
}

// A signature is good in the run that asked and in no run after a reset, although the question looks the same.
func TestASignatureOfTheRunBeforeAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := answering(oneAsk, permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}}})
	w.work(s)
	run := w.start(protocol.AgentInput{}).GetRunID()
	old := w.pending(1)[0]
	r := signed(t, old, approval.Resolution{Decision: approval.Allow})
	w.reset(run, w.finishedTasks()[1])
	require.False(t, w.settles(""), "it asks")
	q := w.pending(1)[0]
	require.Equal(t, old.Seal.InputDigest, q.Seal.InputDigest)
	require.NotEqual(t, old.Seal.RunID, q.Seal.RunID)
	r.Key = q.Key
	require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, r))
	require.Equal(t, []string{"DENIED/person"}, w.codes(w.result()))
	require.Contains(t, w.lists().Closed[0].Reason, "not over this answer to this question")
	require.Empty(t, w.ran())
}
