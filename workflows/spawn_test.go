package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// nursery is a workflow that spawns, with agents that are played.
type nursery struct {
	*teams
	mu   sync.Mutex
	born []protocol.AgentInput
	ids  []string
	// now and most count the agents at work.
	now, most int
}

func newNursery(t *testing.T, play func(workflow.Context, protocol.AgentInput) (protocol.AgentResult, error)) *nursery {
	n := &nursery{teams: newTeams(t, permission.Layer{})}
	n.plays(play)
	return n
}

// plays has agents played.
func (n *nursery) plays(play func(workflow.Context, protocol.AgentInput) (protocol.AgentResult, error)) {
	n.env.RegisterWorkflowWithOptions(workflows.Agent, workflow.RegisterOptions{Name: protocol.WorkflowAgent})
	n.env.OnWorkflow(protocol.WorkflowAgent, mock.Anything, mock.Anything, mock.Anything).Return(func(ctx workflow.Context, in protocol.AgentInput, _ *protocol.AgentState) (*protocol.AgentResult, error) {
		n.mu.Lock()
		n.born = append(n.born, in)
		n.ids = append(n.ids, workflow.GetInfo(ctx).WorkflowExecution.ID)
		n.now++
		n.most = max(n.most, n.now)
		n.mu.Unlock()
		defer func() { n.mu.Lock(); n.now--; n.mu.Unlock() }()
		res, err := play(ctx, in)
		return &res, err
	})
}

func ok(cost float64) protocol.AgentResult {
	return protocol.AgentResult{Status: protocol.OK, CostUSD: cost}
}

// worked takes an hour.
func worked(ctx workflow.Context, _ protocol.AgentInput) (protocol.AgentResult, error) {
	return ok(0.25), workflow.Sleep(ctx, time.Hour)
}

func ask(prompt string) protocol.AgentInput {
	return protocol.AgentInput{AgentType: "fixer", Prompt: prompt}
}

func usd(x float64) *float64 { return &x }

func TestSpawnedAgentsWorkAtOnceAndHaveIdsOfTheirContent(t *testing.T) {
	n := newNursery(t, worked)
	var ids []string
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		children := []*workflows.Child{workflows.Spawn(ctx, ask("a")), workflows.Spawn(ctx, ask("b")), workflows.Spawn(ctx, ask("a"))}
		for _, c := range children {
			res, err := c.Get(ctx)
			if err != nil || res.Status != protocol.OK {
				return fmt.Errorf("%v %v", res, err)
			}
			ids = append(ids, c.ID())
		}
		if got := workflows.Spent(ctx); got != 0.75 {
			return fmt.Errorf("spent %v", got)
		}
		return nil
	}))
	require.Equal(t, 3, n.most)
	slices.Sort(n.ids)
	require.Equal(t, n.ids, slices.Sorted(slices.Values(ids)))
	require.Regexp(t, `^default-test-workflow-id/fixer-[0-9a-f]{8}$`, ids[0])
	require.Equal(t, ids[0]+".2", ids[2])
	require.NotEqual(t, ids[0], ids[1])
}

// The key of an input stands for its prompt; what changes an agent's work changes its id.
func TestContentOfAnAgent(t *testing.T) {
	hash := func(in protocol.AgentInput, above ...protocol.Above) string {
		h, err := in.ContentHash(above)
		require.NoError(t, err)
		return h
	}
	base := ask("a")
	keyed, keyedToo := ask("a"), ask("b")
	keyed.Key, keyedToo.Key = "k", "k"
	require.Equal(t, hash(keyed), hash(keyedToo))
	labelled := base
	labelled.Label, labelled.BudgetUSD = "x", usd(1)
	require.Equal(t, hash(base), hash(labelled), "a name and a budget do not change the work")
	seen := map[string]bool{hash(base): true, hash(keyed): true}
	for i, change := range []func(*protocol.AgentInput){
		func(in *protocol.AgentInput) { in.AgentType = "other" }, func(in *protocol.AgentInput) { in.Models = []string{"s:x"} },
		func(in *protocol.AgentInput) { in.Tools = &[]string{} }, func(in *protocol.AgentInput) { in.RequestedBy = "bob" },
		func(in *protocol.AgentInput) { in.Limits = &protocol.Limits{MaxTurns: 2} },
		func(in *protocol.AgentInput) { in.OutputSchema = []byte(`{"type":"object"}`) },
		func(in *protocol.AgentInput) {
			in.Permissions = &protocol.Tighten{Deny: []permission.Rule{{Tool: permission.One("x")}}}
		},
	} {
		in := base
		change(&in)
		require.False(t, seen[hash(in)], "change %d", i)
		seen[hash(in)] = true
	}
	require.False(t, seen[hash(base, protocol.Above{Profile: "p"})])
}

func TestNoMoreAgentsAtOnceThanTheBound(t *testing.T) {
	n := newNursery(t, worked)
	statuses := map[protocol.Status]int{}
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		ctx = workflows.WithBounds(ctx, protocol.Bounds{Concurrent: 3, Total: 10})
		var children []*workflows.Child
		for i := range 1000 {
			children = append(children, workflows.Spawn(ctx, ask(fmt.Sprint(i))))
		}
		for _, c := range children {
			res, err := c.Get(ctx)
			if err != nil {
				return err
			}
			statuses[res.Status]++
		}
		return nil
	}))
	require.Equal(t, 3, n.most)
	require.Equal(t, map[protocol.Status]int{protocol.OK: 10, protocol.LimitHit: 990}, statuses)
	require.Len(t, n.born, 10)
}

// Three agents that have no budget of their own take turns, and the pool never promises more than it has.
func TestAgentsShareABudget(t *testing.T) {
	n := newNursery(t, worked)
	var statuses []protocol.Status
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		ctx = workflows.WithBudget(ctx, 0.6)
		var children []*workflows.Child
		for i := range 5 {
			children = append(children, workflows.Spawn(ctx, ask(fmt.Sprint(i))))
		}
		for _, c := range children {
			res, err := c.Get(ctx)
			if err != nil {
				return err
			}
			statuses = append(statuses, res.Status)
		}
		return nil
	}))
	require.Equal(t, []protocol.Status{protocol.OK, protocol.OK, protocol.OK, protocol.LimitHit, protocol.LimitHit}, statuses)
	require.Equal(t, 1, n.most)
	require.InDelta(t, 0.6, *n.born[0].BudgetUSD, 1e-9)
	require.InDelta(t, 0.35, *n.born[1].BudgetUSD, 1e-9)
	require.InDelta(t, 0.1, *n.born[2].BudgetUSD, 1e-9)
}

func TestAgentsWithPartsOfABudgetWorkAtOnce(t *testing.T) {
	n := newNursery(t, worked)
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		ctx = workflows.WithBudget(ctx, 1)
		var children []*workflows.Child
		for i := range 3 {
			in := ask(fmt.Sprint(i))
			in.BudgetUSD = usd(0.4)
			children = append(children, workflows.Spawn(ctx, in))
		}
		for _, c := range children {
			if _, err := c.Get(ctx); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, 3, n.most)
	parts := []float64{*n.born[0].BudgetUSD, *n.born[1].BudgetUSD, *n.born[2].BudgetUSD}
	slices.Sort(parts)
	require.InDeltaSlice(t, []float64{0.2, 0.4, 0.4}, parts, 1e-9, "the last one gets what is left")
}

// A result that is there already costs nothing: it is looked for when no money is left, too.
func TestReuseWithoutMoney(t *testing.T) {
	for name, c := range map[string]struct {
		found protocol.JoinResponse
		want  protocol.Status
	}{
		"there":     {protocol.JoinResponse{Result: &protocol.AgentResult{Status: protocol.OK, CostUSD: 7}}, protocol.OK},
		"not there": {protocol.JoinResponse{Why: "the server has forgotten it"}, protocol.LimitHit},
		"a foreign": {protocol.JoinResponse{Why: "it was asked for something else", Foreign: true}, protocol.LimitHit},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNursery(t, func(workflow.Context, protocol.AgentInput) (protocol.AgentResult, error) { return ok(1), nil })
			n.env.RegisterActivityWithOptions(func(context.Context, protocol.JoinRequest) (protocol.JoinResponse, error) {
				return c.found, nil
			}, activity.RegisterOptions{Name: protocol.ActivityJoinAgent})
			require.NoError(t, n.run(func(ctx workflow.Context) error {
				ctx = workflows.WithBudget(ctx, 1)
				if _, err := workflows.Spawn(ctx, ask("a")).Get(ctx); err != nil {
					return err
				}
				res, err := workflows.Spawn(ctx, ask("b"), workflows.Reuse()).Get(ctx)
				if err != nil || res.Status != c.want || workflows.Spent(ctx) != 1 {
					return fmt.Errorf("%v %v, %v spent", res, err, workflows.Spent(ctx))
				}
				return nil
			}))
			require.Len(t, n.born, 1)
		})
	}
}

// Whatever an agent says that it cost, sums stay numbers and later agents start.
func TestAnAgentOfAbsurdCost(t *testing.T) {
	n := newNursery(t, func(workflow.Context, protocol.AgentInput) (protocol.AgentResult, error) {
		return protocol.AgentResult{Status: protocol.OK, CostUSD: math.MaxFloat64, LostUSD: math.MaxFloat64}, nil
	})
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		for range 3 {
			in := ask("a")
			in.BudgetUSD = usd(1)
			if res, err := workflows.Spawn(ctx, in).Get(ctx); err != nil || res.Status != protocol.OK {
				return fmt.Errorf("%v %v", res, err)
			}
		}
		return nil
	}))
	require.Len(t, n.born, 3)
}

// A child that is lost counts for all that it had.
func TestALostAgentCountsForItsWholePart(t *testing.T) {
	n := newNursery(t, func(workflow.Context, protocol.AgentInput) (protocol.AgentResult, error) {
		return protocol.AgentResult{}, errors.New("lost")
	})
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		ctx = workflows.WithBudget(ctx, 1)
		if _, err := workflows.Spawn(ctx, ask("a")).Get(ctx); err == nil {
			return errors.New("no error")
		}
		res, err := workflows.Spawn(ctx, ask("b")).Get(ctx)
		if err != nil || res.Status != protocol.LimitHit {
			return fmt.Errorf("%v %v", res, err)
		}
		return nil
	}))
	require.Len(t, n.born, 1)
}

func TestAChildThatIsCancelledBeforeItBegins(t *testing.T) {
	stopped := func(ctx workflow.Context, _ protocol.AgentInput) (protocol.AgentResult, error) {
		if workflow.Sleep(ctx, time.Hour) != nil {
			return protocol.AgentResult{Status: protocol.Cancelled, CostUSD: 0.1}, nil
		}
		return ok(1), nil
	}
	n := newNursery(t, stopped)
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		ctx = workflows.WithBounds(ctx, protocol.Bounds{Concurrent: 1})
		first, second := workflows.Spawn(ctx, ask("a")), workflows.Spawn(ctx, ask("b"))
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		// The environment of this test does not cancel a child that runs; a server does.
		second.Cancel()
		if a, err := first.Get(ctx); err != nil || a.Status != protocol.OK {
			return fmt.Errorf("first: %v %v", a, err)
		}
		b, err := second.Get(ctx)
		if err != nil || b.Status != protocol.Cancelled || b.CostUSD != 0 {
			return fmt.Errorf("second: %v %v", b, err)
		}
		return nil
	}))
	require.Len(t, n.born, 1, "the second never began")
}

func TestBadInputOfSpawn(t *testing.T) {
	long := ask("a")
	long.Key = strings.Repeat("k", 300)
	huge := ask(strings.Repeat("p", 1<<20+1))
	negative, nan, inf, zero := ask("a"), ask("a"), ask("a"), ask("a")
	negative.BudgetUSD, nan.BudgetUSD, inf.BudgetUSD, zero.BudgetUSD = usd(-1), usd(math.NaN()), usd(math.Inf(1)), usd(0)
	odd := ask("a")
	odd.AgentType = "\xff/../\x00" + strings.Repeat("ä", 100)
	same := func(ctx workflow.Context) workflow.Context { return ctx }
	for name, c := range map[string]struct {
		in   protocol.AgentInput
		with func(workflow.Context) workflow.Context
		opt  []workflows.SpawnOption
		want string
	}{
		"no type": {protocol.AgentInput{Prompt: "x"}, same, nil, "agentType"}, "no prompt": {protocol.AgentInput{AgentType: "x"}, same, nil, "prompt"},
		"long key": {long, same, nil, "300"}, "huge prompt": {huge, same, nil, "prompt"},
		"negative": {negative, same, nil, "budgetUSD"}, "nan": {nan, same, nil, "budgetUSD"}, "inf": {inf, same, nil, "budgetUSD"}, "zero": {zero, same, nil, "budgetUSD"},
		"nan pool":      {ask("a"), func(ctx workflow.Context) workflow.Context { return workflows.WithBudget(ctx, math.NaN()) }, nil, "budget"},
		"huge pool":     {ask("a"), func(ctx workflow.Context) workflow.Context { return workflows.WithBudget(ctx, 1e9) }, nil, "budget"},
		"negative pool": {ask("a"), func(ctx workflow.Context) workflow.Context { return workflows.WithBudget(ctx, -1) }, nil, "budget"},
		"bounds": {ask("a"), func(ctx workflow.Context) workflow.Context {
			return workflows.WithBounds(ctx, protocol.Bounds{Depth: -1})
		}, nil, "bounds.depth"},
		"too many": {ask("a"), func(ctx workflow.Context) workflow.Context {
			return workflows.WithBounds(ctx, protocol.Bounds{Total: 1e6})
		}, nil, "bounds.total"},
		"queue":      {ask("a"), same, []workflows.SpawnOption{workflows.OnTaskQueue("\xff")}, "taskQueue"},
		"long queue": {ask("a"), same, []workflows.SpawnOption{workflows.OnTaskQueue(strings.Repeat("q", 300))}, "taskQueue"},
		"parent":     {ask("a"), same, []workflows.SpawnOption{workflows.ParentProfile("")}, "parentProfile"},
		"schema":     {protocol.AgentInput{AgentType: "x", Prompt: "x", OutputSchema: []byte(`{"a":1,"a":2}`)}, same, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNursery(t, worked)
			require.NoError(t, n.run(func(ctx workflow.Context) error {
				_, err := workflows.Spawn(c.with(ctx), c.in, c.opt...).Get(ctx)
				var app *temporal.ApplicationError
				if !errors.As(err, &app) || app.Type() != protocol.ErrorConfig || !strings.Contains(err.Error(), c.want) {
					return fmt.Errorf("got %v", err)
				}
				return nil
			}))
			require.Empty(t, n.born)
		})
	}
	n := newNursery(t, worked)
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		_, err := workflows.Spawn(ctx, odd).Get(ctx)
		return err
	}))
	require.Regexp(t, `^default-test-workflow-id/[_0-9a-zA-Z-]+$`, n.ids[0])
}

func TestSpawnWithoutThePlugin(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	patient(env)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflows.WithBudget(ctx, 1)
		_, err := workflows.Spawn(ctx, ask("a")).Get(ctx)
		return err
	})
	var app *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &app)
	require.Equal(t, protocol.ErrorConfig, app.Type())
}

// What agents return may not be lost: who continues as new waits for them first.
func TestContinueAsNewWithAgentsAtWork(t *testing.T) {
	n := newNursery(t, worked)
	again := func(ctx workflow.Context) error { return workflow.NewContinueAsNewError(ctx, "again") }
	err := n.run(func(ctx workflow.Context) error {
		workflows.Spawn(ctx, ask("a"))
		_ = workflow.Sleep(ctx, time.Minute)
		return again(ctx)
	})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, protocol.ErrorConfig, app.Type())
	require.Contains(t, app.Message(), "1 of its agents are at work")

	n = newNursery(t, worked)
	err = n.run(func(ctx workflow.Context) error {
		c := workflows.Spawn(ctx, ask("a"))
		if _, err := c.Get(ctx); err != nil {
			return err
		}
		return again(ctx)
	})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, err, &next)
	require.Contains(t, string(next.Header.GetFields()[protocol.HeaderCarry].GetData()), `"spentUSD":0.25`)
}

func TestAgentStartedPastSpawn(t *testing.T) {
	n := newNursery(t, worked)
	raw := func(ctx workflow.Context) error {
		ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "raw"})
		return workflow.ExecuteChildWorkflow(ctx, protocol.WorkflowAgent, ask("a")).Get(ctx, nil)
	}
	require.NoError(t, n.run(func(ctx workflow.Context) error {
		if err := raw(workflows.WithBudget(ctx, 1)); err == nil {
			return errors.New("it ran past the budget")
		}
		return raw(ctx)
	}))
	require.Len(t, n.born, 1)
}
