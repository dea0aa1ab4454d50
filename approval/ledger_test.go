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

func TestListHasNoNil(t *testing.T) {
	got := approval.NewLedger().List()
	require.Equal(t, approval.List{Pending: []approval.Approval{}, Closed: []approval.Closed{}, Ignored: []approval.Ignored{}}, got)
}

func TestTheLedgerKeepsALimitedPast(t *testing.T) {
	l := approval.NewLedger()
	for i := range 300 {
		key := open(l, "run", fmt.Sprintf("%064x", i))
		l.Close(approval.Closed{Key: key, How: approval.Denied})
		l.Ignore(at, "signal", key, fmt.Sprint(i))
	}
	got := l.List()
	require.Len(t, got.Closed, 200)
	require.Len(t, got.Ignored, 50)
	require.Equal(t, "299", got.Ignored[49].Why)
	require.Equal(t, got.Ignored[49].Key, got.Closed[199].Key, "the newest are kept")
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
