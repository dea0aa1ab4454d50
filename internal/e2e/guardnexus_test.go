package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nexus-rpc/sdk-go/nexus"
	"github.com/stretchr/testify/require"
	nexuspb "go.temporal.io/api/nexus/v1"
	"go.temporal.io/api/operatorservice/v1"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

type refund struct{ Order string }

// A guarded Nexus operation is asked about where it is called. The future of one that is refused works in a selector.
func TestGuardedNexusOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refunds := nexus.NewService("billing")
	require.NoError(t, refunds.Register(nexus.NewSyncOperation("refund", func(_ context.Context, in refund, _ nexus.StartOperationOptions) (string, error) {
		return "refunded " + in.Order, appendLine(w.effects, "refund "+in.Order)
	})))
	handler := sdkworker.New(w.c, w.queue+"-billing", sdkworker.Options{DeadlockDetectionTimeout: deadlock})
	handler.RegisterNexusService(refunds)
	require.NoError(t, handler.Start())
	t.Cleanup(handler.Stop)
	endpoint := "e2e-" + strings.ToLower(w.queue[len(w.queue)-19:])
	_, err := w.c.OperatorService().CreateNexusEndpoint(context.Background(), &operatorservice.CreateNexusEndpointRequest{Spec: &nexuspb.EndpointSpec{
		Name: endpoint, Target: &nexuspb.EndpointTarget{Variant: &nexuspb.EndpointTarget_Worker_{Worker: &nexuspb.EndpointTarget_Worker{
			Namespace: "default", TaskQueue: w.queue + "-billing"}}}}})
	require.NoError(t, err)

	cfg := guardConfig()
	cfg.Tools, cfg.Operations = nil, map[string]tool.Options{"billing/refund": {Risk: tool.Destructive}}
	wk := sdkworker.New(w.c, w.queue, options(newGuard(t, cfg)))
	wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, order string) (out string, err error) {
		f := workflow.NewNexusClient(endpoint, "billing").ExecuteOperation(ctx, "refund", refund{order},
			workflow.NexusOperationOptions{ScheduleToCloseTimeout: time.Minute})
		sel := workflow.NewSelector(ctx)
		sel.AddFuture(f, func(f workflow.Future) { err = f.Get(ctx, &out) })
		sel.Select(ctx)
		return out, err
	}, workflow.RegisterOptions{Name: "Refund"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)

	for order, choice := range map[string]approval.Choice{"a": approval.Allow, "b": approval.Deny} {
		run := w.run("-"+order, "Refund", order)
		q := w.asked(run.GetID(), 1)[0]
		require.Equal(t, "billing_refund", q.Tool)
		require.JSONEq(t, `{"Order":"`+order+`"}`, string(q.Input))
		w.resolveIn(run.GetID(), q.Key, choice)
		out, err := w.get(run)
		if choice == approval.Deny {
			require.Equal(t, protocol.ErrorDenied, appError(t, err).Type())
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "refunded a", out)
	}
	require.Equal(t, []string{"refund a"}, w.ran())
}
