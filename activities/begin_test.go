package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// beats notes the details of every heartbeat as it leaves our interceptor.
type beats struct {
	interceptor.WorkerInterceptorBase
	seen [][]any
}

type beatsIn struct {
	interceptor.ActivityInboundInterceptorBase
	b *beats
}

type beatsOut struct {
	interceptor.ActivityOutboundInterceptorBase
	b *beats
}

func (b *beats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &beatsIn{b: b}
	in.Next = next
	return in
}

func (i *beatsIn) Init(next interceptor.ActivityOutboundInterceptor) error {
	o := &beatsOut{b: i.b}
	o.Next = next
	return i.Next.Init(o)
}

func (o *beatsOut) RecordHeartbeat(ctx context.Context, details ...any) {
	o.b.seen = append(o.b.seen, details)
	o.Next.RecordHeartbeat(ctx, details...)
}

// beating runs a granted call, of which the server has a heartbeat already if before is not nil, and returns its own.
func (b *bench) beating(name string, before any) ([][]any, tool.Result) {
	b.t.Helper()
	call, grant, place := b.callOf(name, `{"path":"a"}`)
	b.granted(ring(b.t).Sign(grant, place))
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.SetHeader(b.header)
	seen := &beats{}
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{seen, activities.NewInterceptor(b.engine)}})
	env.RegisterActivityWithOptions(activities.RunTool, activity.RegisterOptions{Name: "tool." + name})
	if before != nil {
		env.SetHeartbeatDetails(before)
	}
	v, err := env.ExecuteActivity("tool."+name, call)
	require.NoError(b.t, err)
	var res tool.Result
	require.NoError(b.t, v.Get(&res))
	return seen.seen, res
}

// A call that must not run twice is marked before it begins, and stays marked whatever its tool reports. One that only
// reads costs no mark.
func TestACallIsMarkedBeforeItBegins(t *testing.T) {
	beating := tool.MustNew("beating", "Reports.", func(ctx context.Context, _ *tool.Context, _ pathIn) (string, error) {
		activity.RecordHeartbeat(ctx)
		activity.RecordHeartbeat(ctx, nil)
		activity.RecordHeartbeat(ctx, "half")
		return "", nil
	}, tool.Execute)
	b := newBench(t, activities.Config{Keys: ring(t)}, withTool(beating))
	for name, want := range map[string][][]any{
		"run": {{protocol.Begun}}, "look": nil, "beating": {{protocol.Begun}, {protocol.Begun}, {protocol.Begun}, {"half"}},
	} {
		seen, res := b.beating(name, nil)
		require.Equal(t, tool.OK, res.Code, name)
		require.Equal(t, want, seen, name)
	}
}

// An activity that an operator makes run again finds its mark, and does not.
func TestACallThatBeganDoesNotBeginAgain(t *testing.T) {
	b := newBench(t, activities.Config{Keys: ring(t)})
	_, res := b.beating("run", protocol.Begun)
	require.Equal(t, tool.EffectUnknown, res.Code)
	require.True(t, res.Failure.Started)
	require.Empty(t, b.ran)
	_, res = b.beating("look", "half")
	require.Equal(t, tool.OK, res.Code)
}
