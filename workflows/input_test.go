package workflows_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
	"github.com/assent-dev/assent/worktree"
)

// Bad input fails the workflow at once, with an error that no retry can mend.
func TestBadInputFailsTheWorkflow(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*protocol.AgentInput)
		says   string
	}{
		"empty prompt":       {func(in *protocol.AgentInput) { in.Prompt = "" }, "prompt: is empty"},
		"no agent type":      {func(in *protocol.AgentInput) { in.AgentType = "" }, "agentType: is missing"},
		"unknown profile":    {func(in *protocol.AgentInput) { in.AgentType = "q" }, `agentType: unknown profile "q"; one of p`},
		"unknown tool":       {func(in *protocol.AgentInput) { in.Tools = &[]string{"look", "fly"} }, `unknown tool or toolset "fly"; one of change, look, run`},
		"tool twice":         {func(in *protocol.AgentInput) { in.Tools = &[]string{"look", "look"} }, "look"},
		"unknown provider":   {func(in *protocol.AgentInput) { in.Models = []string{"acme:x"} }, `unknown provider "acme"`},
		"unknown model":      {func(in *protocol.AgentInput) { in.Models = []string{"scripted:other"} }, "other"},
		"no provider":        {func(in *protocol.AgentInput) { in.Models = []string{"x"} }, "provider:name"},
		"budget":             {func(in *protocol.AgentInput) { in.BudgetUSD = usd(-1) }, "budgetUSD: -1 is out of range"},
		"no budget at all":   {func(in *protocol.AgentInput) { in.BudgetUSD = usd(0) }, "budgetUSD: 0 is out of range"},
		"output schema":      {func(in *protocol.AgentInput) { in.OutputSchema = json.RawMessage(`{}`) }, "outputSchema"},
		"limits":             {func(in *protocol.AgentInput) { in.Limits = &protocol.Limits{MaxTurns: -1} }, "limits.maxTurns"},
		"worktrees":          {func(in *protocol.AgentInput) { in.Isolation = &worktree.Isolation{Kind: worktree.Tree, Repo: "r"} }, "no repositories"},
		"a repo and no tree": {func(in *protocol.AgentInput) { in.Isolation = &worktree.Isolation{Kind: worktree.None, Repo: "r"} }, "isolation.repo"},
		"a rule of no form": {func(in *protocol.AgentInput) {
			in.Permissions = &protocol.Tighten{Deny: []permission.Rule{{Reason: "x"}}}
		}, "agent.deny[0]"},
		"an unknown risk": {func(in *protocol.AgentInput) {
			in.Permissions = &protocol.Tighten{Ask: []permission.Rule{{Risk: permission.One("nuclear")}}}
		}, "agent.ask[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{script: "turns: [{say: never}]"})
			in := protocol.AgentInput{Prompt: "go", AgentType: "p"}
			tc.change(&in)
			b.env.ExecuteWorkflow(protocol.WorkflowAgent, in)
			err := b.env.GetWorkflowError()
			var app *temporal.ApplicationError
			require.True(t, errors.As(err, &app), "%v", err)
			require.Equal(t, protocol.ErrorConfig, app.Type())
			require.True(t, app.NonRetryable())
			require.Contains(t, app.Message(), tc.says)
		})
	}
}

func TestAnExplicitEmptyListRemovesAllTools(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}]
  - say: done
`})
	res := b.run(protocol.AgentInput{Tools: &[]string{}})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	// Without tools the scripted model gives its text alone, as a real one does.
	require.Empty(t, b.codes(res))
	require.Empty(t, b.ran)
}

// An agent on a worker without the gate runs nothing.
func TestNoAgentWithoutTheGate(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	patient(env)
	env.RegisterWorkflowWithOptions(workflows.Agent, workflow.RegisterOptions{Name: protocol.WorkflowAgent})
	env.ExecuteWorkflow(protocol.WorkflowAgent, protocol.AgentInput{Prompt: "go", AgentType: "p"})
	require.ErrorContains(t, env.GetWorkflowError(), "without Assent's plugin")
}

func TestNewInterceptorNeedsItsActivities(t *testing.T) {
	_, err := workflows.NewInterceptor(workflows.Config{})
	require.ErrorContains(t, err, "Decide, DecideTurn and Admit are needed")
}
