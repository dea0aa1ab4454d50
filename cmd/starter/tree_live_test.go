package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/workflows"
)

// The questions of agents that a workflow has spawned are listed and answered from the workflow.
func TestQuestionsOfATree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("echo "+unique(t)), "")
	w.work()
	s := w.server()
	guard, err := worker.NewGuard(worker.GuardConfig{DecideTimeout: 20 * time.Second, Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}}, Elsewhere: []string{"Deploy"}})
	require.NoError(t, err)
	team := sdkworker.New(s.Client, w.queue+"-team", sdkworker.Options{Plugins: []sdkworker.Plugin{guard}, DeadlockDetectionTimeout: 20 * time.Second})
	team.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		first := workflows.Spawn(ctx, protocol.AgentInput{AgentType: "p", Prompt: "one"}, workflows.OnTaskQueue(w.queue))
		second := workflows.Spawn(ctx, protocol.AgentInput{AgentType: "p", Prompt: "two"}, workflows.OnTaskQueue(w.queue))
		if _, err := first.Get(ctx); err != nil {
			return err
		}
		_, err := second.Get(ctx)
		return err
	}, workflow.RegisterOptions{Name: "Plan"})
	require.NoError(t, team.Start())
	t.Cleanup(team.Stop)
	id := unique(t)
	plan, err := s.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: w.queue + "-team"}, "Plan")
	require.NoError(t, err)
	var below []listed
	require.Eventually(t, func() bool {
		got := w.starter("approvals", "--root", id, "-o", "json")
		below = lines[listed](t, got.out.String())
		return len(below) == 2
	}, 2*time.Minute, 50*time.Millisecond)
	require.Equal(t, below[0].Key, below[1].Key, "both ask about the same")
	several := w.exits(w.starter("approve", below[0].Key, "-w", id), exit.Usage)
	require.Contains(t, several.err.String(), "waits in 2 agents")
	require.Contains(t, w.ok(w.starter("approvals", "--root", id)).out.String(), below[0].WorkflowID)
	w.ok(w.starter("approve", below[0].Key, "-w", below[0].WorkflowID))
	// Now there is one, and the workflow above it says where.
	got := w.ok(w.starter("approve", below[0].Key, "-w", id, "--by", "alice"))
	require.Equal(t, "allowed "+below[0].Key+" in "+below[1].WorkflowID+" as alice (self-asserted)\n", got.out.String())
	require.NoError(t, plan.Get(context.Background(), nil))
	require.Eventually(t, func() bool {
		rows := w.starter("list", "--root", id, "-o", "json")
		return len(lines[row](t, rows.out.String())) == 2
	}, 2*time.Minute, 50*time.Millisecond)
	w.exits(w.starter("approvals", "--root", id), exit.Failed)
}
