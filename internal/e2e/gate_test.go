package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// forger puts a header of its own on every activity.
type forger struct {
	interceptor.WorkerInterceptorBase
	payload *commonpb.Payload
}

func (f *forger) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &forgerIn{f: f}
	in.Next = next
	return in
}

type forgerIn struct {
	interceptor.WorkflowInboundInterceptorBase
	f *forger
}

func (i *forgerIn) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &forgerOut{f: i.f}
	o.Next = out
	return i.Next.Init(o)
}

type forgerOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	f *forger
}

func (o *forgerOut) ExecuteActivity(ctx workflow.Context, t string, args ...any) workflow.Future {
	if o.f.payload != nil {
		interceptor.WorkflowHeader(ctx)[protocol.HeaderGrant] = o.f.payload
	}
	return o.Next.ExecuteActivity(ctx, t, args...)
}

// A workflow worker without our gate cannot get a tool run by ours, with no header, a made-up one, one signed by
// another key, or a genuine one of another call.
func TestNoToolWithoutAGrant(t *testing.T) {
	t.Parallel()
	other, err := protocol.NewKeyring(protocol.GrantKey{ID: "k1", Secret: []byte("another secret of 16+ bytes")})
	require.NoError(t, err)
	genuine, err := protocol.NewKeyring(grantKey)
	require.NoError(t, err)
	for name, grant := range map[string]func(g protocol.Grant, p protocol.Place) *protocol.Grant{
		"no header": func(protocol.Grant, protocol.Place) *protocol.Grant { return nil },
		"unsigned":  func(g protocol.Grant, _ protocol.Place) *protocol.Grant { g.Version = protocol.GrantVersion; return &g },
		"other key": func(g protocol.Grant, p protocol.Place) *protocol.Grant { g = other.Sign(g, p); return &g },
		"other call": func(g protocol.Grant, p protocol.Place) *protocol.Grant {
			p.ActivityID = "elsewhere"
			g = genuine.Sign(g, p)
			return &g
		},
		"other workflow": func(g protocol.Grant, p protocol.Place) *protocol.Grant {
			p.WorkflowID = "elsewhere"
			g = genuine.Sign(g, p)
			return &g
		},
		"other arguments": func(g protocol.Grant, p protocol.Place) *protocol.Grant {
			g.InputDigest = "00"
			g = genuine.Sign(g, p)
			return &g
		},
		"expired": func(g protocol.Grant, p protocol.Place) *protocol.Grant {
			g.Expires = 1
			g = genuine.Sign(g, p)
			return &g
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, _, err := plugin(askingWith(oneAsk), w.c, w.effects, w.blobs)
			require.NoError(t, err)
			w.workWith(p)
			def, ok := p.Pipeline().Lookup("run")
			require.True(t, ok)
			call := tool.Call{ID: "c1", Name: "run", Input: []byte(`{"text":"a"}`), ContractHash: def.ContractHash()}
			f := &forger{}
			if g := grant(protocol.Grant{CallID: "c1", ContractHash: call.ContractHash,
				InputDigest: "e1ad3f9a28d07a7ce9a1a4d04be3ae6c5b5ee35d6ddcd1b7b7a25c1c4bb1f2f0"},
				protocol.Place{Namespace: "default", WorkflowID: w.id, ActivityType: "tool.run", ActivityID: "c1"}); g != nil {
				f.payload, err = converter.GetDefaultDataConverter().ToPayload(*g)
				require.NoError(t, err)
			}
			wk := sdkworker.New(w.c, w.queue+"-bare", sdkworker.Options{DeadlockDetectionTimeout: deadlock, Interceptors: []interceptor.WorkerInterceptor{f}, DisableRegistrationAliasing: true})
			queue := w.queue
			wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, call tool.Call) (tool.Result, error) {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{ActivityID: call.ID, TaskQueue: queue,
					StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
				var res tool.Result
				err := workflow.ExecuteActivity(ctx, protocol.ToolPrefix+call.Name, call).Get(ctx, &res)
				return res, err
			}, workflow.RegisterOptions{Name: "past"})
			require.NoError(t, wk.Start())
			t.Cleanup(wk.Stop)
			run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue + "-bare"}, "past", call)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			err = run.Get(ctx, nil)
			var app *temporal.ApplicationError
			require.True(t, errors.As(err, &app), "%v", err)
			require.Equal(t, protocol.ErrorDenied, app.Type())
			require.True(t, app.NonRetryable())
			require.Empty(t, w.ran())
		})
	}
}
