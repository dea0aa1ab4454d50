package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// bystander is an interceptor of somebody else's, which listens.
type bystander struct {
	interceptor.WorkerInterceptorBase
	closed  []approval.Closed
	decided map[string]permission.Decider
}

type standing struct {
	interceptor.WorkflowInboundInterceptorBase
	of *bystander
}

type leaving struct {
	interceptor.WorkflowOutboundInterceptorBase
	of *bystander
}

func (b *bystander) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &standing{of: b}
	in.Next = next
	return in
}

func (s *standing) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &leaving{of: s.of}
	o.Next = out
	return s.Next.Init(o)
}

func (s *standing) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	ctx = workflows.Watch(ctx, func(q approval.Approval, c approval.Closed) {
		if c.Tool = q.Tool; c.Key == q.Key {
			s.of.closed = append(s.of.closed, c)
		}
	})
	return s.Next.ExecuteWorkflow(ctx, in)
}

func (l *leaving) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if verdict, by, ok := workflows.Permitted(ctx); ok {
		l.of.decided[activityType+" "+verdict.String()] = by
	} else if strings.HasPrefix(activityType, protocol.ToolPrefix) {
		l.of.decided[activityType] = "nobody"
	}
	return l.Next.ExecuteActivity(ctx, activityType, args...)
}

// Wherever it stands, an interceptor hears of every question that closes, once, and knows what was decided on a call.
func TestInterceptorsHearOfQuestions(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: run, args: {path: b}}, {tool: run, args: {path: c}}]
  - say: done
`, profile: config.Profile{Permissions: permission.Layer{Preset: permission.Standard, Approval: &permission.ApprovalPolicy{Deadline: time.Hour}}}})
	before, behind := &bystander{decided: map[string]permission.Decider{}}, &bystander{decided: map[string]permission.Decider{}}
	b.env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute,
		Interceptors: []interceptor.WorkerInterceptor{before, b.gate, behind, activities.NewInterceptor(b.engine)}})
	b.answer(time.Minute, 0, approval.Allow)
	require.Equal(t, protocol.OK, b.run(protocol.AgentInput{}).Status)
	for _, who := range []*bystander{before, behind} {
		require.Len(t, who.closed, 2)
		require.Equal(t, approval.Allowed, who.closed[0].How)
		require.Equal(t, approval.Expired, who.closed[1].How)
		require.False(t, who.closed[1].At.IsZero())
		require.Equal(t, map[string]permission.Decider{"tool.look allow": permission.ByDefault, "tool.run ask": permission.ByAskRule}, who.decided)
	}
}
