package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// elsewhere sends the guarded activity to a queue of its own.
func elsewhere(ctx workflow.Context, queue string, o order) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: queue, StartToCloseTimeout: time.Minute})
	var out string
	return out, workflow.ExecuteActivity(ctx, "Deploy", o).Get(ctx, &out)
}

// A queue that nobody polls makes work wait, and nothing else: a call that was allowed runs when a worker comes, and so
// does an agent that was started before there was one.
func TestQueuesThatNobodyPolls(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.register = func(wk sdkworker.Worker) { wk.RegisterWorkflowWithOptions(elsewhere, workflowNamed("Elsewhere")) }
	m.work()
	queue := m.queue + "-elsewhere"
	m.begin("Elsewhere", queue, order{Service: "api"})
	m.allow(m.pending(1)[0].Key)
	require.Eventually(t, func() bool {
		d, err := m.c.DescribeWorkflow(context.Background(), m.id, "")
		return err == nil && len(d.RawResponse.GetPendingActivities()) == 1
	}, patience, tick)
	agent := newWorld(t)
	agent.queue = queue
	agent.start(protocol.AgentInput{})

	g, err := worker.NewGuard(m.guard)
	require.NoError(t, err)
	wk := sdkworker.New(m.c, queue, sdkworker.Options{DeadlockDetectionTimeout: deadlock, Plugins: []sdkworker.Plugin{g}})
	wk.RegisterActivityWithOptions(m.deploy, activity.RegisterOptions{Name: "Deploy"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	var out string
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, m.c.GetWorkflow(ctx, m.id, "").Get(ctx, &out))
	require.Equal(t, "deployed api", out)
	require.Equal(t, []string{"deploy api "}, m.ran())

	wk.Stop()
	agent.work(setup{Script: "turns: [{say: done}]"})
	require.Equal(t, protocol.OK, agent.result().Status)
}
