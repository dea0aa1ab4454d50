package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// A team tests its guarded workflow in the SDK's own test environment: three days of waiting pass in no time.
func TestInTheSDKsTestEnvironment(t *testing.T) {
	guard, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"pay": {Risk: tool.Execute}},
		Permissions: permission.Layer{Preset: permission.Standard}, DecideTimeout: time.Minute})
	require.NoError(t, err)
	for _, tc := range []struct{ answer, says string }{{"allow", ""}, {"deny", "a person denied this call"}} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(10 * time.Minute)
		env.SetWorkerOptions(sdkworker.Options{Plugins: []sdkworker.Plugin{guard}, DeadlockDetectionTimeout: time.Minute})
		paid := 0
		env.RegisterActivityWithOptions(func(_ context.Context, amount int) error { paid += amount; return nil }, activity.RegisterOptions{Name: "pay"})
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(protocol.GuardSignalApproval, tc.answer) }, 72*time.Hour)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
			return workflow.ExecuteActivity(ctx, "pay", 5).Get(ctx, nil)
		})
		if tc.says == "" {
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, 5, paid)
		} else {
			require.ErrorContains(t, env.GetWorkflowError(), tc.says)
			require.Zero(t, paid)
		}
	}
}
