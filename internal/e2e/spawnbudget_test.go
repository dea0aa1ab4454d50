package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/workflows"
)

// spending costs a tenth of a dollar in each of ten turns.
const (
	turnUSD  = 0.1
	spending = `turns:
  - {calls: [{tool: look, args: {text: "1"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "2"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "3"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "4"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "5"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "6"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "7"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "8"}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: look, args: {text: "9"}}], usage: {outputTokens: 1000}}
  - {say: done, usage: {outputTokens: 1000}}
`
)

func pricing(names ...string) func(*worker.Config) {
	return func(cfg *worker.Config) {
		cfg.Prices = model.Prices{}
		for _, n := range names {
			cfg.Prices["scripted:"+n] = model.Price{Rates: model.Rates{Input: 0.001, Output: 100}}
		}
	}
}

// pooled spawns agents that share a budget.
func pooled(ctx workflow.Context, pool float64, inputs []protocol.AgentInput) ([]protocol.AgentResult, error) {
	ctx = workflows.WithBudget(ctx, pool)
	children := make([]*workflows.Child, len(inputs))
	for i, in := range inputs {
		children[i] = workflows.Spawn(ctx, in)
	}
	results := make([]protocol.AgentResult, len(inputs))
	for i, c := range children {
		var err error
		if results[i], err = c.Get(ctx); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// A child that trips its budget ends by it and hangs nobody, and all together spend no more than the pool and one turn for
// each that was at work.
func TestChildrenWithinABudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: speaks}, map[string]string{"spender": spending}, map[string]any{"Pooled": pooled}, pricing("spender"))
	of := func(prompt string, usd float64) protocol.AgentInput {
		in := task("spender", prompt)
		if usd > 0 {
			in.BudgetUSD = &usd
		}
		return in
	}
	var res []protocol.AgentResult
	w.got(w.plans(w.id, "Pooled", 0.7, []protocol.AgentInput{of("a", 0.3), of("b", 0.3), of("c", 0.3), of("d", 0)}), &res)
	sum := 0.0
	for _, r := range res {
		require.Equal(t, protocol.LimitHit, r.Status, r.Error)
		sum += r.CostUSD
	}
	require.Greater(t, sum, 0.5)
	require.LessOrEqual(t, sum, 0.7+3*turnUSD)
	require.Contains(t, res[0].Error, "budget")
}

// unpriced plays a script and does not say that it is free.
type unpriced struct{ model.Model }

// Without prices a budget holds nothing, and is refused.
func TestBudgetOverChildrenWithoutAPrice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: speaks}, nil, map[string]any{"Pooled": pooled}, func(cfg *worker.Config) {
		cfg.Models["unpriced"] = unpriced{cfg.Models["scripted"]}
	})
	in := task("p", "a")
	in.Models = []string{"unpriced:s"}
	err := w.plans(w.id, "Pooled", 0.7, []protocol.AgentInput{in}).Get(t.Context(), nil)
	require.ErrorContains(t, err, "no price is known")
}

// What a workflow that is a tool spends on agents is the money of the agent that called it, and bounded by what that has left,
// also if the agent goes on in another run.
func TestBudgetOfAnAgentOverItsPlanner(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 50} {
		t.Run(fmt.Sprint("continues after ", after), func(t *testing.T) {
			t.Parallel()
			overPlanner(t, after)
		})
	}
}

func overPlanner(t *testing.T, after int) {
	w := newWorld(t)
	boss := `turns:
  - {calls: [{tool: delegate, args: {prompt: x}}], usage: {outputTokens: 1000}}
  - {calls: [{tool: delegate, args: {prompt: "y"}}], usage: {outputTokens: 1000}}
  - {say: done, usage: {outputTokens: 1000}}
`
	w.planning(setup{Script: speaks}, map[string]string{"spender": spending, "boss": boss}, map[string]any{
		"Delegate": func(ctx workflow.Context, in map[string]string) (protocol.Status, error) {
			res, err := workflows.Spawn(ctx, task("spender", in["prompt"])).Get(ctx)
			return res.Status, err
		}}, pricing("spender", "boss"), w.delegating("Delegate"), func(cfg *worker.Config) { cfg.ContinueAfter = after })
	in, usd := task("boss", "go"), 1.5
	in.BudgetUSD = &usd
	var res protocol.AgentResult
	w.got(w.plans(w.id, protocol.WorkflowAgent, in), &res)
	require.Equal(t, protocol.LimitHit, res.Status, res.Error)
	// Ten turns of the first, and what was left for the second.
	require.InDelta(t, 1.3, res.BelowUSD, turnUSD+0.05)
	require.InDelta(t, 2*turnUSD, res.CostUSD, 0.01)
	require.LessOrEqual(t, res.CostUSD+res.BelowUSD, 1.5+turnUSD)
	require.Contains(t, res.Error, "by agents below")
	if after == 0 {
		w.replays(w.id)
	}
}

// delegates calls a workflow that spawns a spender.
const delegates = `turns:
  - {calls: [{tool: delegate, args: {agentType: spender, prompt: x}}], usage: {outputTokens: 1000}}
  - {say: done, usage: {outputTokens: 1000}}
`

// delegating gives the agent boss a workflow as its one tool.
func (w *world) delegating(workflowType string, more ...tool.Option) func(*worker.Config) {
	return func(cfg *worker.Config) {
		d, err := tool.FromWorkflow("delegate", "Plans.", json.RawMessage(`{"type":"object","properties":{"agentType":{"type":"string"},"prompt":{"type":"string"}}}`),
			workflowType, w.queue, append([]tool.Option{tool.Read}, more...)...)
		require.NoError(w.t, err)
		cfg.Tools = append(cfg.Tools, d)
		p := cfg.Profiles["boss"]
		p.Tools = []string{"delegate"}
		cfg.Profiles["boss"] = p
	}
}

// A workflow that is a tool and is tried again has the money once: what a try before has spent on agents is gone, and counted.
func TestBudgetOfAPlannerThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.planning(setup{Script: speaks}, map[string]string{"spender": spending, "boss": delegates}, nil, pricing("spender", "boss"),
		w.delegating("Tried", tool.Retry{MaximumAttempts: 3, InitialInterval: 10 * time.Millisecond}))
	in, usd := task("boss", "go"), 1.5
	in.BudgetUSD = &usd
	var res protocol.AgentResult
	w.got(w.plans(w.id, protocol.WorkflowAgent, in), &res)
	w.replays(w.id)
	for _, e := range w.history() {
		if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil {
			w.replays(a.GetWorkflowId())
			all, err := verify.Fetch(t.Context(), w.c, a.GetWorkflowId(), "")
			require.NoError(t, err)
			for _, r := range verify.Chain(all, verify.Options{}) {
				require.Empty(t, r.Findings)
			}
		}
	}
	// Ten turns of the first, and what was left for the second.
	require.InDelta(t, 1.4, res.BelowUSD, turnUSD+0.05)
}

// stumbles spawns an agent in each try, and panics in the first.
func stumbles(ctx workflow.Context, in protocol.AgentInput) (string, error) {
	n := workflow.GetInfo(ctx).Attempt
	in.Label = fmt.Sprint("try ", n)
	if _, err := workflows.Spawn(ctx, in).Get(ctx); err != nil {
		return "", err
	}
	if n == 1 {
		panic("a fault")
	}
	return "planned", nil
}

// Where a worker fails workflows that panic, what the agents of such a run have cost is counted as well.
func TestBudgetOfAPlannerThatPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onPanic = sdkworker.FailWorkflow
	w.planning(setup{Script: speaks}, map[string]string{"spender": "turns: [{say: done, usage: {outputTokens: 3000}}]", "boss": delegates},
		map[string]any{"Stumbles": stumbles}, pricing("spender", "boss"),
		w.delegating("Stumbles", tool.Retry{MaximumAttempts: 2, InitialInterval: 10 * time.Millisecond}))
	in, usd := task("boss", "go"), 5.0
	in.BudgetUSD = &usd
	var res protocol.AgentResult
	w.got(w.plans(w.id, protocol.WorkflowAgent, in), &res)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.InDelta(t, 2*3*turnUSD, res.BelowUSD, 0.01)
}

// Of a workflow that is a tool and does not come to its own end, all that was lent is gone if it has started an agent, and nothing if not.
func TestBudgetOfAPlannerThatIsCutOff(t *testing.T) {
	t.Parallel()
	agent := func(ctx workflow.Context, in protocol.AgentInput) error {
		_, err := workflows.Spawn(ctx, in).Get(ctx)
		return err
	}
	for name, tc := range map[string]struct {
		flow  func(workflow.Context, protocol.AgentInput) (string, error)
		below float64
	}{
		"panics beside its own stack": {func(ctx workflow.Context, in protocol.AgentInput) (string, error) {
			if err := agent(ctx, in); err != nil {
				return "", err
			}
			workflow.Go(ctx, func(workflow.Context) { panic("a fault") })
			return "", workflow.Sleep(ctx, time.Hour)
		}, 4.9},
		"panics there and goes on of another run": {func(ctx workflow.Context, in protocol.AgentInput) (string, error) {
			if err := agent(ctx, in); err != nil {
				return "", err
			}
			if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
				return "", workflow.NewContinueAsNewError(ctx, "CutOff", in)
			}
			workflow.Go(ctx, func(workflow.Context) { panic("a fault") })
			return "", workflow.Sleep(ctx, time.Hour)
		}, 4.9},
		"timed out": {func(ctx workflow.Context, in protocol.AgentInput) (string, error) {
			if err := agent(ctx, in); err != nil {
				return "", err
			}
			return "", workflow.Sleep(ctx, time.Hour)
		}, 4.9},
		"timed out before an agent": {func(ctx workflow.Context, _ protocol.AgentInput) (string, error) {
			return "", workflow.Sleep(ctx, time.Hour)
		}, 0},
		"timed out in the second try, before an agent": {func(ctx workflow.Context, in protocol.AgentInput) (string, error) {
			if workflow.GetInfo(ctx).Attempt > 1 {
				return "", workflow.Sleep(ctx, time.Hour)
			}
			if err := agent(ctx, in); err != nil {
				return "", err
			}
			return "", errors.New("not yet")
		}, 3 * turnUSD},
		"fails before an agent, and after one": {func(ctx workflow.Context, in protocol.AgentInput) (string, error) {
			if workflow.GetInfo(ctx).Attempt > 1 {
				if err := agent(ctx, in); err != nil {
					return "", err
				}
			}
			return "", errors.New("not yet")
		}, 3 * turnUSD},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.onPanic = sdkworker.FailWorkflow
			tries, most := 1, 30*time.Second
			if strings.Contains(name, "try") || strings.HasPrefix(name, "fails") {
				tries = 2
			}
			if name == "timed out before an agent" {
				most = 3 * time.Second
			}
			w.planning(setup{Script: speaks}, map[string]string{"spender": "turns: [{say: done, usage: {outputTokens: 3000}}]", "boss": delegates},
				map[string]any{"CutOff": tc.flow}, pricing("spender", "boss"), w.delegating("CutOff",
					tool.Retry{MaximumAttempts: tries, InitialInterval: 10 * time.Millisecond}, tool.Timeouts{StartToClose: most}))
			in, usd := task("boss", "go"), 5.0
			in.BudgetUSD = &usd
			var res protocol.AgentResult
			w.got(w.plans(w.id, protocol.WorkflowAgent, in), &res)
			require.InDelta(t, tc.below, res.BelowUSD, 0.01, res.Error)
			w.replays(w.id)
		})
	}
}
