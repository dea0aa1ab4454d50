package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// passing is an interceptor of a team's own that lets everything pass, and counts the runs whose end it saw.
type passing struct {
	interceptor.WorkerInterceptorBase
	ended *int
}

func (p *passing) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &passingIn{of: p}
	in.Next = next
	return in
}

type passingIn struct {
	interceptor.WorkflowInboundInterceptorBase
	of *passing
}

func (p *passingIn) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	res, err := p.Next.ExecuteWorkflow(ctx, in)
	*p.of.ended++
	return res, err
}

// An agent waits and ends alike wherever interceptors of a team stand, and they see its end and not that it waits.
func TestAnAgentWaitsBelowWhoeverStandsThere(t *testing.T) {
	const three = "turns: [{calls: [{tool: run, args: {path: a}}, {tool: run, args: {path: b}}, {tool: look, args: {path: c}}]}, {calls: [{tool: run, args: {path: d}}]}, {say: done}]"
	answers := func(b *bench) {
		b.answer(time.Hour, 1, approval.Allow)
		b.answer(2*time.Hour, 0, approval.Deny)
		b.answer(30*time.Hour, 0, approval.Allow)
	}
	running := func(b *bench) {
		b.lasts(time.Hour)
		b.answer(time.Hour, 1, approval.Allow)
	}
	for name, tc := range map[string]struct {
		play   func(b *bench)
		limits *protocol.Limits
		status protocol.Status
	}{
		"answers":                  {answers, nil, protocol.OK},
		"cancelled while it waits": {func(b *bench) { b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 3*time.Hour) }, nil, protocol.Cancelled},
		"the wall clock":           {func(*bench) {}, &protocol.Limits{WallClock: 3 * time.Hour}, protocol.LimitHit},
		"cancelled with an answer": {func(b *bench) {
			b.answer(time.Hour, 1, approval.Allow)
			b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
		}, nil, protocol.Cancelled},
		"the wall clock in a call": {running, &protocol.Limits{WallClock: time.Hour + time.Second}, protocol.LimitHit},
		"cancelled in a call": {func(b *bench) {
			running(b)
			b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour+time.Second)
		}, nil, protocol.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			var want protocol.AgentResult
			var codes []string
			for n, where := range []string{"GL", "L", "GTL", "GLT", "TGTLT", "GLGL"} {
				b := newBench(t, asking(three))
				ended, teams := 0, 0
				first, last, err := workflows.NewInterceptors(workflows.Config{Decide: activities.AssentDecide, DecideTurn: activities.AssentDecideTurn,
					Admit: activities.AssentAdmit, Continue: activities.AssentContinue, DecideTimeout: 2 * time.Minute})
				require.NoError(t, err)
				var all []interceptor.WorkerInterceptor
				for _, c := range where {
					switch c {
					case 'G':
						all = append(all, first)
					case 'L':
						all = append(all, last)
					case 'T':
						teams++
						all = append(all, &passing{ended: &ended})
					}
				}
				b.env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: append(all, activities.NewInterceptor(b.engine))})
				tc.play(b)
				res := b.run(protocol.AgentInput{Limits: tc.limits})
				require.Equal(t, tc.status, res.Status, "%s: %s", where, res.Error)
				require.Equal(t, teams, ended, where)
				got := b.codes(res)
				res.Transcript = nil // its blobs name the time
				if n == 0 {
					want, codes = res, got
				}
				require.Equal(t, want, res, where)
				require.Equal(t, codes, got, where)
			}
		})
	}
}
