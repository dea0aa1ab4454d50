package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// A guard on the worker sees what an interceptor of the team made of the arguments on their way into the activity: ours is
// the last one there.
func TestGuardsSeeWhatTheirActivityInterceptorsMake(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	var mu sync.Mutex
	var seen []string
	m.guard.Plugins = []pipeline.Plugin{pipeline.PluginFunc("no production", func(s *pipeline.Scope) error {
		return s.Guard("no-production", func(_ context.Context, c pipeline.Call) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, string(c.Input))
			if strings.Contains(string(c.Input), "production") {
				return fmt.Errorf("not to production")
			}
			return nil
		})
	})}
	m.worker.Interceptors = []interceptor.WorkerInterceptor{&meddler{in: toProduction}}
	m.work()
	m.ship(order{Service: "api"})
	m.allow(m.pending(1)[0].Key)
	require.Equal(t, []string{"DENIED/guard"}, m.shipped())
	require.Empty(t, m.ran())
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, seen[len(seen)-1], "production api")
}

// tamperer changes the calls of our own tools on their way into the activity.
type tamperer struct {
	interceptor.WorkerInterceptorBase
}

func (tamperer) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &tampererIn{}
	i.Next = next
	return i
}

type tampererIn struct {
	interceptor.ActivityInboundInterceptorBase
}

func (i *tampererIn) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if len(in.Args) == 1 {
		if c, ok := in.Args[0].(tool.Call); ok {
			c.Input = json.RawMessage(`{"text":"something else"}`)
			in.Args = []any{c}
		}
	}
	return i.Next.ExecuteActivity(ctx, in)
}

// A tool of an agent runs with what was approved or not at all, whatever stands between.
func TestAToolRunsWithWhatWasApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, done, err := plugin(askingWith(oneAsk), w.c, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	o := options(p)
	o.Interceptors = []interceptor.WorkerInterceptor{&tamperer{}}
	wk := sdkworker.New(w.c, w.queue, o)
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	require.Equal(t, []string{"DENIED/grant"}, w.codes(w.result()))
	require.Empty(t, w.ran())
}

// Agents on a worker that does one thing at a time, and that fails workflows on a panic, end as on any other.
func TestAgentsOnASmallWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, done, err := plugin(askingWith(`
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: look, args: {text: b}}, {tool: run, args: {text: c}}, {tool: note, args: {text: d}}]
  - say: done
`), w.c, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	o := options(p)
	o.MaxConcurrentLocalActivityExecutionSize, o.MaxConcurrentActivityExecutionSize, o.MaxConcurrentWorkflowTaskExecutionSize = 1, 1, 2
	o.MaxConcurrentActivityTaskPollers, o.MaxConcurrentWorkflowTaskPollers = 1, 2
	o.WorkflowPanicPolicy = sdkworker.FailWorkflow
	wk := sdkworker.New(w.c, w.queue, o)
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	const n = 5
	agents := make([]world, n)
	for i := range agents {
		agents[i] = *w
		agents[i].id = fmt.Sprintf("%s-%d", w.id, i)
		agents[i].start(protocol.AgentInput{})
	}
	for i := range agents {
		agents[i].answer(agents[i].pending(1)[0].Key, approval.Allow)
	}
	for i := range agents {
		res := agents[i].result()
		require.Equal(t, protocol.OK, res.Status, res.Error)
		require.Empty(t, agents[i].failedTasks())
	}
	require.Len(t, w.ran(), 4*n)
}

// A team may have workers that take workflow tasks alone and others that take activities alone: agents live on both.
func TestWorkersForWorkflowsAndForActivitiesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, change := range []func(*sdkworker.Options){
		func(o *sdkworker.Options) { o.LocalActivityWorkerOnly = true },
		func(o *sdkworker.Options) { o.DisableWorkflowWorker = true },
	} {
		p, done, err := plugin(setup{Script: oneAsk, Preset: permission.Standard, Keys: true}, w.c, w.effects, w.blobs)
		require.NoError(t, err)
		t.Cleanup(done)
		o := options(p)
		change(&o)
		wk := sdkworker.New(w.c, w.queue, o)
		require.NoError(t, wk.Start())
		t.Cleanup(wk.Stop)
	}
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"run a"}, w.ran())
}
