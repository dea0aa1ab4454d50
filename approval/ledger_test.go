package approval_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestTheFirstAnswerWins(t *testing.T) {
	l := approval.NewLedger()
	key := open(l, "run", strings.Repeat("a", 64))
	require.NoError(t, l.Check(key))
	require.NoError(t, l.Answer(key))

	var state *approval.StateError
	require.ErrorAs(t, l.Answer(key), &state)
	require.Equal(t, approval.How("answered"), state.How)
	require.Empty(t, l.Keys(), "an answered question takes no answer")
	require.Empty(t, l.Pending())

	l.Close(approval.Closed{Key: key, How: approval.Allowed, By: "alice", At: at, Via: "signal"})
	require.ErrorAs(t, l.Check(key), &state)
	require.EqualError(t, state, `approval "run-aaaaaaaa": already allowed`)
	l.Close(approval.Closed{Key: key, How: approval.Denied})
	require.Equal(t, []approval.Closed{{Key: key, Tool: "run", How: approval.Allowed, By: "alice", At: at, Via: "signal"}}, l.List().Closed)
	require.EqualError(t, l.Check("run-0"), `approval "run-0": no such question is pending`)
}

// A question that needs several allows stays open, changed in what may change, until it is closed.
func TestVotes(t *testing.T) {
	l := approval.NewLedger()
	key := open(l, "run", strings.Repeat("a", 64))
	q, ok := l.Question(key)
	require.True(t, ok)
	require.Equal(t, 1, q.Needs())
	q.Approvers = &permission.Approvers{Groups: []string{"ops"}}
	require.Equal(t, 1, q.Needs())
	q.Approvers = &permission.Approvers{Groups: []string{"ops"}, Min: 2}
	require.Equal(t, 2, q.Needs())

	require.False(t, l.Answered(key))
	require.NoError(t, l.Answer(key))
	require.True(t, l.Answered(key))
	require.Equal(t, []string{key}, l.Asked())
	require.Empty(t, l.Keys())
	q.Votes, q.Tool = []approval.Vote{{By: "alice"}}, "other"
	l.Update(q)
	l.Reopen(key)
	require.Equal(t, []string{key}, l.Keys())
	got := l.Pending()[0]
	require.Equal(t, q.Votes, got.Votes)
	require.Equal(t, 2, got.Needs())
	require.Equal(t, "run", got.Tool, "the rest never changes")

	l.Close(approval.Closed{Key: key, How: approval.Denied})
	for _, k := range []string{key, "unknown"} {
		l.Update(approval.Approval{Key: k})
		l.Reopen(k)
		require.False(t, l.Answered(k))
		_, ok = l.Question(k)
		require.False(t, ok)
	}
}

// An allow can be taken back until its call has ended, once.
func TestRevocation(t *testing.T) {
	l := approval.NewLedger()
	a, b := open(l, "run", strings.Repeat("a", 64)), open(l, "run", strings.Repeat("b", 64))
	require.False(t, l.Revoke(a, approval.Revocation{}), "a question that is open is withdrawn, not revoked")
	for _, key := range []string{a, b} {
		l.Close(approval.Closed{Key: key, How: approval.Allowed, By: "alice", At: at})
	}
	require.Equal(t, []string{a, b}, l.Standing())
	l.Dispatch(b)
	g, ok := l.Grant(b)
	require.True(t, ok)
	require.Equal(t, approval.Granted{Key: b, Tool: "run", By: "alice", At: at, Dispatched: true}, g)
	require.Equal(t, []approval.Granted{{Key: a, Tool: "run", By: "alice", At: at}, g}, l.List().Granted)

	require.True(t, l.Revoke(b, approval.Revocation{By: "bob", At: at, Via: "signal"}))
	require.False(t, l.Revoke(b, approval.Revocation{By: "eve"}))
	before := l.List()
	l.RevokedAt(b, at.Add(time.Second))
	require.Equal(t, at, before.Closed[1].Revoked.At, "a list that was given away stays")
	require.Equal(t, at.Add(time.Second), l.List().Closed[1].Revoked.At)
	l.RevokedAt(b, at)
	l.RevokedAt(a, at)
	l.End(a, tool.OK)
	l.End(b, tool.Aborted)
	got := l.List()
	require.Empty(t, got.Granted)
	require.Nil(t, got.Closed[0].Revoked)
	require.Equal(t, &approval.Revocation{By: "bob", At: at, Via: "signal", Dispatched: true, Outcome: tool.Aborted}, got.Closed[1].Revoked)
	require.Empty(t, before.Closed[1].Revoked.Outcome, "a list that was given away stays")
	require.False(t, l.Revoke(a, approval.Revocation{}), "it has ended")

	// A record that is no longer kept is no reason to refuse.
	c := open(l, "run", strings.Repeat("c", 64))
	l.Close(approval.Closed{Key: c, How: approval.Allowed})
	for i := range 200 {
		l.Close(approval.Closed{Key: open(l, "run", fmt.Sprintf("%064x", i)), How: approval.Denied})
	}
	require.True(t, l.Revoke(c, approval.Revocation{}))
	l.End(c, tool.OK)
	require.Empty(t, l.Standing())
}

func TestListHasNoNil(t *testing.T) {
	got := approval.NewLedger().List()
	require.Equal(t, approval.List{Pending: []approval.Approval{}, Granted: []approval.Granted{}, Closed: []approval.Closed{}, Ignored: []approval.Ignored{}}, got)
}

func TestTheLedgerKeepsALimitedPast(t *testing.T) {
	l := approval.NewLedger()
	for i := range 300 {
		key := open(l, "run", fmt.Sprintf("%064x", i))
		l.Close(approval.Closed{Key: key, How: approval.Denied})
		l.Ignore(approval.Ignored{At: at, Via: "signal", Key: key, Why: fmt.Sprint(i)})
	}
	got := l.List()
	require.Len(t, got.Closed, 200)
	require.Len(t, got.Ignored, 200)
	require.Equal(t, "299", got.Ignored[199].Why)
	require.Equal(t, got.Ignored[199].Key, got.Closed[199].Key, "the newest are kept")
	require.Error(t, l.Check("run-00000000"), "what is no longer listed is still closed")
}

// Whatever answers, deadlines and cancellations come in whatever order, a question is answered at most once,
// closed at most once, and never open again.
func TestLedgerUnderAnyInterleaving(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := approval.NewLedger()
		var keys []string
		answered, ended := map[string]int{}, map[string]approval.How{}
		for range 120 {
			if len(keys) == 0 || r.IntN(5) == 0 {
				k := open(l, "run", fmt.Sprintf("%064x", r.IntN(4)))
				require.NotContains(t, keys, k)
				keys = append(keys, k)
				continue
			}
			k := keys[r.IntN(len(keys))]
			if r.IntN(3) > 0 {
				open := l.Check(k) == nil
				require.Equal(t, open, slices.Contains(l.Keys(), k))
				require.Equal(t, ended[k], l.Ended(k))
				require.Equal(t, open, l.Answer(k) == nil)
				if open {
					answered[k]++
				}
				continue
			}
			how := []approval.How{approval.Denied, approval.Allowed, approval.Expired, approval.Cancelled}[r.IntN(4)]
			l.Close(approval.Closed{Key: k, How: how})
			if _, done := ended[k]; !done {
				ended[k] = how
			}
			require.Error(t, l.Answer(k))
		}
		for k, n := range answered {
			require.Equal(t, 1, n, k)
		}
		closed := l.List().Closed
		require.Len(t, closed, len(ended))
		for _, c := range closed {
			require.Equal(t, ended[c.Key], c.How, "the first close wins")
		}
	}
}
