package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// indexed lets the server have the search attributes, and returns the statuses that were written.
func (b *teams) indexed() func() []string {
	var signs []string
	has := true
	b.env.OnActivity(activities.AssentDecide, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, req protocol.DecideRequest) (protocol.DecideResponse, error) {
			resp, err := activities.AssentDecide(ctx, req)
			resp.Attributes = &has
			return resp, err
		})
	// An answer is admitted sooner.
	b.env.OnActivity(activities.AssentAttributes, mock.Anything).After(10*time.Second).Return(protocol.AttributesResponse{Attributes: true}, nil)
	b.env.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(a temporal.SearchAttributes) bool {
		status, _ := a.GetKeyword(temporal.NewSearchAttributeKeyKeyword(protocol.AttrStatus))
		signs = append(signs, status)
		return true
	})).Return(nil)
	b.env.OnUpsertMemo(mock.Anything).Return(nil)
	return func() []string { return signs }
}

// A guarded workflow ends in the task that brings an answer, when it is long ago that the search attributes were known to be
// there. While it is asked about them the answer is looked at as ever, and no question is put that nobody waits for.
func TestGuardedWorkflowEndsWithAnAnswer(t *testing.T) {
	for _, choice := range []approval.Choice{approval.Allow, approval.Deny, approval.Revoke} {
		for name, end := range map[string]func(workflow.Context) error{
			"it continues as new": func(ctx workflow.Context) error { return workflow.NewContinueAsNewError(ctx, "next") },
			"it ends":             func(workflow.Context) error { return nil },
		} {
			t.Run(string(choice)+", "+name, func(t *testing.T) {
				b := newTeams(t, askPay)
				signs := b.indexed()
				b.answer(time.Hour, approval.Resolution{Decision: choice, By: "alice"})
				_ = b.run(func(ctx workflow.Context) error {
					workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5})
					workflow.ExecuteActivity(ctx, "pay", payment{"eve", 5})
					if err := workflow.Sleep(ctx, time.Minute); err != nil {
						return err
					}
					// The page of a workflow is written anew before anybody looks at the answer.
					before := workflow.GetCurrentDetails(ctx)
					if err := workflow.Await(ctx, func() bool { return workflow.GetCurrentDetails(ctx) != before }); err != nil {
						return err
					}
					return end(ctx)
				})
				last := "done"
				if name == "it continues as new" {
					last = "running"
				}
				require.Equal(t, last, signs()[len(signs())-1], "%v", signs())
				l := b.list()
				require.Empty(t, l.Pending)
				require.Len(t, l.Closed, 2)
				how := map[approval.Choice]approval.How{approval.Allow: approval.Allowed, approval.Deny: approval.Denied, approval.Revoke: approval.Revoked}
				require.Equal(t, how[choice], l.Closed[0].How)
				require.Equal(t, approval.Abandoned, l.Closed[1].How)
			})
		}
	}
}

// What a run does while it is asked about the search attributes counts as done before its end: an agent that starts then would
// have nobody to return to, and what it spends is spent.
func TestGuardedWorkflowStartsAnAgentAtItsEnd(t *testing.T) {
	n := &nursery{teams: newTeams(t, askPay)}
	n.plays(worked)
	n.indexed()
	err := n.run(func(ctx workflow.Context) error {
		workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5})
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		workflow.Go(ctx, func(ctx workflow.Context) {
			_ = workflow.Sleep(ctx, time.Second)
			workflows.Spawn(ctx, ask("a"))
		})
		return workflow.NewContinueAsNewError(ctx, "next")
	})
	require.Len(t, n.born, 1)
	require.ErrorContains(t, err, "1 of its agents are at work")
}
