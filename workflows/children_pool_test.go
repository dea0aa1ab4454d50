package workflows

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/protocol"
)

func dollars(x float64) *float64 { return &x }

func TestPoolGivesPartsAndTakesThemBack(t *testing.T) {
	p := &pool{outer: unbounded(), cap: 1}
	a, ok := p.take(dollars(0.4))
	require.True(t, ok)
	require.Equal(t, 0.4, *a)
	b, ok := p.take(nil)
	require.True(t, ok)
	require.InDelta(t, 0.6, *b, 1e-12, "without a budget of its own an agent gets all that is left")
	_, ok = p.take(dollars(0.1))
	require.False(t, ok)
	require.True(t, p.hopeful())
	p.settle(b, 0.1)
	require.InDelta(t, 0.5, p.left(), 1e-12)
	c, ok := p.take(dollars(2))
	require.True(t, ok)
	require.InDelta(t, 0.5, *c, 1e-12, "what is left is the most")
	p.settle(a, 0.5)
	p.settle(c, 0.5)
	require.InDelta(t, 1.1, p.spent, 1e-12, "an agent may go over by a turn, and that counts")
	_, ok = p.take(nil)
	require.False(t, ok)
	require.False(t, p.hopeful(), "nobody gives anything back any more")
}

func TestPoolWithoutACap(t *testing.T) {
	p := unbounded()
	part, ok := p.take(nil)
	require.True(t, ok)
	require.Nil(t, part)
	part, ok = p.take(dollars(3))
	require.True(t, ok)
	require.Equal(t, 3.0, *part)
	p.settle(part, 2)
	require.Equal(t, 2.0, p.spent)
	require.Zero(t, p.reserved)
	require.False(t, p.bounded())
}

func TestPoolInsideAnother(t *testing.T) {
	outer := &pool{cap: 1}
	inner := &pool{outer: outer, cap: 5}
	part, ok := inner.take(nil)
	require.True(t, ok)
	require.Equal(t, 1.0, *part)
	inner.settle(part, 1)
	require.Equal(t, 1.0, outer.spent)
	_, ok = inner.take(nil)
	require.False(t, ok)
	require.False(t, inner.hopeful(), "the outer one has spent everything, whatever the inner one has")
}

// Whatever happens, what is spent and promised together stays within the cap and one turn for each that is at work.
func FuzzPool(f *testing.F) {
	f.Add(uint64(1), 1.0)
	f.Add(uint64(7), 0.001)
	f.Fuzz(func(t *testing.T, seed uint64, limit float64) {
		if !(limit >= 0 && limit < 1e9) {
			t.Skip()
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		p := &pool{outer: unbounded(), cap: limit}
		const turn = 0.05
		type live struct{ part *float64 }
		var at []live
		overruns := 0.0
		for range 200 {
			if len(at) > 0 && rnd.IntN(2) == 0 {
				i := rnd.IntN(len(at))
				spent := *at[i].part * rnd.Float64() * 1.2
				if over := spent - *at[i].part; over > 0 {
					spent = *at[i].part + min(over, turn)
					overruns += min(over, turn)
				}
				p.settle(at[i].part, spent)
				at = append(at[:i], at[i+1:]...)
				continue
			}
			var want *float64
			if rnd.IntN(3) > 0 {
				want = dollars(limit * rnd.Float64())
			}
			if part, ok := p.take(want); ok {
				require.Greater(t, *part, 0.0)
				at = append(at, live{part})
			}
			require.LessOrEqual(t, p.spent+p.reserved, limit+overruns+1e-6)
		}
		for _, l := range at {
			p.settle(l.part, 0)
		}
		require.InDelta(t, 0, p.reserved, 1e-6+limit*1e-9)
		require.False(t, math.IsNaN(p.spent))
	})
}

func TestWhatAnAgentCost(t *testing.T) {
	part := dollars(2)
	require.Equal(t, 0.5, spentBy(protocol.AgentResult{CostUSD: 0.5}, nil, part))
	require.Zero(t, spentBy(protocol.AgentResult{CostUSD: -1}, nil, part))
	require.Zero(t, spentBy(protocol.AgentResult{}, errTaken, part))
	require.Zero(t, spentBy(protocol.AgentResult{}, configError(errTaken), part), "an agent refuses input before its first turn")
	require.Equal(t, 2.0, spentBy(protocol.AgentResult{}, errCancelled, part), "one that left no result may have spent all")
	require.Zero(t, spentBy(protocol.AgentResult{}, errCancelled, nil))
}

// Whatever a lineage says, the next agent has its turn within the bounds or is told that it has none.
func TestALineageIsTamed(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0, 1, 5000, math.MaxInt} {
		for _, usd := range []float64{math.Inf(-1), -1, 0, 1, 1e9, math.Inf(1), math.NaN()} {
			l := tame(protocol.Lineage{Depth: n, Bounds: protocol.Bounds{Depth: n, Concurrent: n, Total: n}, BudgetUSD: &usd})
			require.NoError(t, l.Bounds.Validate("bounds"))
			require.Positive(t, min(l.Bounds.Depth, l.Bounds.Concurrent, l.Bounds.Total))
			require.Positive(t, l.Depth+1)
			require.True(t, *l.BudgetUSD >= 0 && *l.BudgetUSD <= protocol.MostBudget)
		}
	}
}
