// Package replaytest replays histories against today's workflow code, under rules other than those that were in force
// when they were recorded: what was decided is in history, so a changed policy never breaks a running agent.
package replaytest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/workflows"
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

// Rounds deploys without waiting, and continues as new at the signal "next" until it has done so n times.
func Rounds(ctx workflow.Context, n int) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	deployed := workflow.ExecuteActivity(ctx, "Deploy", "api")
	var out string
	var err error
	sel := workflow.NewSelector(ctx)
	sel.AddFuture(deployed, func(f workflow.Future) { err = f.Get(ctx, &out) })
	sel.AddReceive(workflow.GetSignalChannel(ctx, "next"), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		err = workflow.NewContinueAsNewError(ctx, "Rounds", n+1)
	})
	sel.Select(ctx)
	return out, err
}

// LocalRelease deploys by a local activity.
func LocalRelease(ctx workflow.Context, service string) (string, error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	var out string
	return out, workflow.ExecuteLocalActivity(ctx, "Deploy", service).Get(ctx, &out)
}

// Twice counts its runs: the first one continues as new.
func Twice(ctx workflow.Context, arg string) (string, error) {
	if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
		return "", workflow.NewContinueAsNewError(ctx, "Twice", arg)
	}
	return arg, nil
}

// Plan spawns an agent for each input and returns what they returned.
func Plan(ctx workflow.Context, inputs []protocol.AgentInput) ([]protocol.AgentResult, error) {
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

// Again spawns an agent that is not paid twice.
func Again(ctx workflow.Context, in protocol.AgentInput) (protocol.AgentResult, error) {
	return workflows.Spawn(ctx, in, workflows.Reuse()).Get(ctx)
}

// Tried spawns an agent in each of two tries that fail, and gives up in the third.
func Tried(ctx workflow.Context, in protocol.AgentInput) (string, error) {
	n := workflow.GetInfo(ctx).Attempt
	if n == 3 {
		return "gave up", nil
	}
	in.Label = fmt.Sprint("try ", n)
	if _, err := workflows.Spawn(ctx, in).Get(ctx); err != nil {
		return "", err
	}
	return "", errors.New("not yet")
}

// Register registers the team's workflows.
func Register(r interface {
	RegisterWorkflowWithOptions(any, workflow.RegisterOptions)
}) {
	for name, fn := range map[string]any{"Release": Release, "Rounds": Rounds, "LocalRelease": LocalRelease, "Twice": Twice, "Plan": Plan, "Again": Again, "Tried": Tried} {
		r.RegisterWorkflowWithOptions(fn, workflow.RegisterOptions{Name: name})
	}
}

// Replay replays a history under a policy that denies everything and one that allows everything.
func Replay(t *testing.T, h *historypb.History) {
	t.Helper()
	for name, layer := range map[string]permission.Layer{
		"deny everything": {Deny: []permission.Rule{{Risk: permission.Many("read", "write", "network", "execute", "destructive", "undeclared")}}},
		"no rules":        {},
	} {
		// One second without progress is no deadlock on a busy machine, and the SDK leaves a data race behind when it says so.
		r, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{
			Plugins: plugins(t, h, layer), DisableDeadlockDetection: true})
		require.NoError(t, err)
		Register(r)
		require.NoError(t, r.ReplayWorkflowHistory(nil, h), name)
	}
}

// plugins are the engine and, for a team's workflow, the guard.
func plugins(t *testing.T, h *historypb.History, layer permission.Layer) []sdkworker.Plugin {
	t.Helper()
	if h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() != protocol.WorkflowAgent {
		g, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}},
			Workflows: map[string]tool.Options{"Twice": {Risk: tool.Execute}}, Permissions: layer})
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
