package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// desk is a workflow of the team that uses the words of our agents for its own ends: a signal approval, an update
// resolve, a query approvals, and current details.
func desk(ctx workflow.Context, o order) ([]string, error) {
	var seen []string
	if err := workflow.SetQueryHandler(ctx, protocol.QueryApprovals, func() ([]string, error) { return seen, nil }); err != nil {
		return nil, err
	}
	if err := workflow.SetUpdateHandler(ctx, protocol.UpdateResolve, func(_ workflow.Context, what string) (string, error) {
		seen = append(seen, "resolve "+what)
		return "theirs", nil
	}); err != nil {
		return nil, err
	}
	workflow.SetCurrentDetails(ctx, "our own words")
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	deploy := workflow.ExecuteActivity(ctx, "Deploy", o)
	signals := workflow.GetSignalChannel(ctx, protocol.SignalApproval)
	var out string
	for out == "" {
		var err error
		workflow.NewSelector(ctx).
			AddReceive(signals, func(c workflow.ReceiveChannel, _ bool) {
				var what string
				c.Receive(ctx, &what)
				seen = append(seen, "approval "+what)
				workflow.SetCurrentDetails(ctx, "our own words\n\n"+what+"\n\n"+workflow.GetCurrentDetails(ctx))
			}).
			AddFuture(deploy, func(f workflow.Future) { err = f.Get(ctx, &out) }).
			Select(ctx)
		if err != nil {
			return seen, err
		}
	}
	return append(seen, out), nil
}

// details is the Markdown on the workflow's page.
func (w *world) details() string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v, err := w.c.QueryWorkflow(ctx, w.id, "", "__temporal_workflow_metadata")
	require.NoError(w.t, err)
	var meta sdkpb.WorkflowMetadata
	require.NoError(w.t, v.Get(&meta))
	return meta.GetCurrentDetails()
}

// A workflow with a signal approval, an update resolve and a query approvals of its own keeps all three beside a guarded
// activity, and its own words in the details.
func TestTheirOwnHandlersGoOn(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.register = func(wk sdkworker.Worker) {
		wk.RegisterWorkflowWithOptions(desk, workflow.RegisterOptions{Name: "Desk"})
	}
	m.work()
	run := m.begin("Desk", order{Service: "api"})
	key := m.pending(1)[0].Key
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	// An answer under an agent's name is theirs, whatever it says: it does not reach our question.
	require.NoError(t, m.c.SignalWorkflow(ctx, m.id, "", protocol.SignalApproval, "allow"))
	h, err := m.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: m.id, UpdateName: protocol.UpdateResolve,
		Args: []any{"allow"}, WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	var said string
	require.NoError(t, h.Get(ctx, &said))
	require.Equal(t, "theirs", said)
	var seen []string
	require.Eventually(t, func() bool {
		v, err := m.c.QueryWorkflow(ctx, m.id, "", protocol.QueryApprovals)
		return err == nil && v.Get(&seen) == nil && len(seen) == 2
	}, patience, tick)
	require.ElementsMatch(t, []string{"approval allow", "resolve allow"}, seen)
	require.Len(t, m.pending(1), 1)
	require.Empty(t, m.ran())

	d := m.details()
	require.Contains(t, d, "our own words\n\nallow")
	require.Equal(t, 1, strings.Count(d, "### Approval needed: `"+key+"`"), d)

	require.NoError(t, m.resolve(m.c, resolution(key, approval.Allow, "")))
	var out []string
	require.NoError(t, run.Get(ctx, &out))
	require.Equal(t, "deployed api", out[2])
	require.Contains(t, m.details(), "our own words\n\nallow")
	require.Empty(t, m.failedTasks())
}

// A workflow that would take a reserved name is told so, typed, and does not take our place.
func TestReservedHandlerNames(t *testing.T) {
	t.Parallel()
	query := func() (string, error) { return "", nil }
	update := func(workflow.Context, string) error { return nil }
	for name, take := range map[string]func(workflow.Context) error{
		"query": func(ctx workflow.Context) error { return workflow.SetQueryHandler(ctx, "assent_x", query) },
		"our query": func(ctx workflow.Context) error {
			return workflow.SetQueryHandler(ctx, protocol.GuardQueryApprovals, query)
		},
		"query with options": func(ctx workflow.Context) error {
			return workflow.SetQueryHandlerWithOptions(ctx, "assent_x", query, workflow.QueryHandlerOptions{})
		},
		"our query with options": func(ctx workflow.Context) error {
			return workflow.SetQueryHandlerWithOptions(ctx, protocol.GuardQueryApprovals, query, workflow.QueryHandlerOptions{})
		},
		"update": func(ctx workflow.Context) error { return workflow.SetUpdateHandler(ctx, "assent_x", update) },
		"our update": func(ctx workflow.Context) error {
			return workflow.SetUpdateHandler(ctx, protocol.GuardUpdateResolve, update)
		},
		"update with options": func(ctx workflow.Context) error {
			return workflow.SetUpdateHandlerWithOptions(ctx, "assent_x", update, workflow.UpdateHandlerOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTeam(t)
			m.register = func(wk sdkworker.Worker) {
				wk.RegisterWorkflowWithOptions(func(ctx workflow.Context) (string, error) {
					err := take(ctx)
					var app *temporal.ApplicationError
					if !errors.As(err, &app) || app.Type() != protocol.ErrorConfig {
						return "", err
					}
					ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
					var out string
					return app.Message() + "; went on", workflow.ExecuteActivity(ctx, "Deploy", order{Service: "api"}).Get(ctx, &out)
				}, workflow.RegisterOptions{Name: "Taker"})
			}
			m.work()
			run := m.begin("Taker")
			key := m.pending(1)[0].Key
			require.NoError(t, m.resolve(m.c, resolution(key, approval.Allow, "")), "ours is in its place")
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			var out string
			require.NoError(t, run.Get(ctx, &out))
			require.Contains(t, out, "is reserved; went on")
			require.Equal(t, []string{"deploy api "}, m.ran())
			require.Empty(t, m.failedTasks())
		})
	}
}
