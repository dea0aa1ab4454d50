// Package replaytest replays histories against today's workflow code, under rules other than those that were in force
// when they were recorded: what was decided is in history, so a changed policy never breaks a running agent.
package replaytest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// Release is a team's own workflow: two activities, of which the second may be guarded.
func Release(ctx workflow.Context, service string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(ctx, "Build", service).Get(ctx, nil); err != nil {
		return "", err
	}
	var out string
	return out, workflow.ExecuteActivity(ctx, "Deploy", service).Get(ctx, &out)
}

// Replay replays a history under a policy that denies everything and one that allows everything.
func Replay(t *testing.T, h *historypb.History) {
	t.Helper()
	for name, layer := range map[string]permission.Layer{
		"deny everything": {Deny: []permission.Rule{{Risk: permission.Many("read", "write", "network", "execute", "destructive", "undeclared")}}},
		"no rules":        {},
	} {
		r, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{Plugins: plugins(t, h, layer)})
		require.NoError(t, err)
		r.RegisterWorkflowWithOptions(Release, workflow.RegisterOptions{Name: "Release"})
		require.NoError(t, r.ReplayWorkflowHistory(nil, h), name)
	}
}

// plugins are the engine and, for a team's workflow, the guard.
func plugins(t *testing.T, h *historypb.History, layer permission.Layer) []sdkworker.Plugin {
	t.Helper()
	if h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() == "Release" {
		g, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}}, Permissions: layer})
		require.NoError(t, err)
		return []sdkworker.Plugin{g}
	}
	e, err := worker.New(worker.Config{Profiles: map[string]config.Profile{"p": {Name: "p"}}, Permissions: layer, Blobs: noStore{}})
	require.NoError(t, err)
	return []sdkworker.Plugin{e}
}

// noStore is never asked in a replay.
type noStore struct{}

func (noStore) ID() string { return "none" }

func (noStore) Put(context.Context, []byte) (blob.Ref, error) { panic("a replay stores nothing") }

func (noStore) Get(context.Context, blob.Ref) ([]byte, error) { panic("a replay reads nothing") }
