package workflows

import (
	"fmt"
	"math"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
)

// family is what a run knows of its children.
type family struct {
	// pool is what they may spend together.
	pool *pool
	// spawned counts those of one content, by the stem of their ids; total counts all.
	spawned map[string]int
	total   int
	// home is the run's own id, with which those of its children begin.
	home string
	// waiting counts those that have not ended, started or not; active those that have their turn.
	waiting, active int
	// started are those that run, in the order in which they started.
	started []protocol.Started
	// starting weighs the inputs of those that are being started: those of one workflow task go in one message.
	starting workflow.Semaphore
	// forwarding counts the answers on their way to children, forwarded those that ever were.
	forwarding, forwarded int
}

// family is made when it is first needed.
func (g *gate) family() *family {
	if g.kin == nil {
		g.kin = &family{pool: unbounded(), spawned: map[string]int{}}
		if g.board.lineage != nil && g.board.lineage.BudgetUSD != nil {
			g.kin.pool.cap = *g.board.lineage.BudgetUSD
		}
	}
	return g.kin
}

// ordinal is the number of one more agent of a content.
func (f *family) ordinal(stem string) int {
	f.spawned[stem]++
	return f.spawned[stem]
}

// named returns the run's own id. It is recorded, because a replay need not know it: one of a history that was exported
// does not.
func (f *family) named(ctx workflow.Context) (string, error) {
	if f.home == "" {
		id := workflow.SideEffect(ctx, func(ctx workflow.Context) any { return short(workflow.GetInfo(ctx).WorkflowExecution.ID, mostParentID) })
		if err := id.Get(&f.home); err != nil {
			return "", err
		}
	}
	return f.home, nil
}

// count counts an agent in, or says which bound is reached.
func (f *family) count(b protocol.Bounds, depth int) (why string) {
	switch {
	case depth > b.Depth:
		return fmt.Sprintf("the agent was not started: %d agents stand under one another already, which is the bound", b.Depth)
	case f.total >= b.Total:
		return fmt.Sprintf("the agent was not started: this run has spawned %d agents, which is the bound", b.Total)
	}
	f.total++
	return ""
}

func (f *family) has(c protocol.Started)  { f.started = append(f.started, c) }
func (f *family) lost(c protocol.Started) { f.started = remove(f.started, c) }

func remove[T comparable](list []T, one T) []T {
	if i := slices.Index(list, one); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// children are those that run, for the list of questions.
func (g *gate) children() []protocol.Started {
	if g.kin == nil {
		return nil
	}
	return slices.Clone(g.kin.started)
}

// orphans says what keeps a run from continuing as new: its agents would have nobody to return to.
func (g *gate) orphans() string {
	if g.kin == nil || g.kin.waiting == 0 {
		return ""
	}
	return fmt.Sprintf("the workflow continues as new while %d of its agents are at work; what they return would be lost: Get or Cancel and Get them first", g.kin.waiting)
}

// mostCarried bounds the contents whose numbers a next run gets. Without its number an agent still gets an id of its own.
const mostCarried = 500

// carryFamily adds what the next run has to know of children.
func (g *gate) carryFamily(c *protocol.Carry) {
	if g.kin == nil {
		return
	}
	c.SpentUSD = g.kin.pool.spent
	if len(g.kin.spawned) > 0 && len(g.kin.spawned) <= mostCarried {
		c.Spawned = g.kin.spawned
	}
}

func (g *gate) restoreFamily(c protocol.Carry) {
	f := g.family()
	if c.SpentUSD > 0 && !math.IsInf(c.SpentUSD, 1) {
		f.pool.spent = c.SpentUSD
	}
	if len(c.Spawned) <= mostCarried && c.Spawned != nil {
		f.spawned = c.Spawned
	}
}
