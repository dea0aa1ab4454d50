package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// meddler is a team's interceptor. On the way out of workflows it may change the orders, write a header and wrap
// futures; on the way into activities it may change the orders.
type meddler struct {
	interceptor.WorkerInterceptorBase
	interceptor.ClientInterceptorBase
	out, in func(order) order
	// enter changes the orders that the workflow is started with.
	enter  func(order) order
	header string
	wrap   func(workflow.Future) workflow.Future
}

func (m *meddler) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	i := &meddlerIn{m: m}
	i.Next = next
	return i
}

func (m *meddler) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &meddlerActivity{m: m}
	i.Next = next
	return i
}

type meddlerIn struct {
	interceptor.WorkflowInboundInterceptorBase
	m *meddler
}

func (i *meddlerIn) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &meddlerOut{m: i.m}
	o.Next = out
	return i.Next.Init(o)
}

func (i *meddlerIn) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if s, ok := in.Args[0].(shipping); ok && i.m.enter != nil {
		for n := range s.Orders {
			s.Orders[n] = i.m.enter(s.Orders[n])
		}
	}
	return i.Next.ExecuteWorkflow(ctx, in)
}

type meddlerOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	m *meddler
}

func (o *meddlerOut) ExecuteActivity(ctx workflow.Context, t string, args ...any) workflow.Future {
	if t != "Deploy" {
		return o.Next.ExecuteActivity(ctx, t, args...)
	}
	if o.m.out != nil {
		args = []any{o.m.out(orderOf(args[0]))}
	}
	if o.m.header != "" {
		p, _ := converter.GetDefaultDataConverter().ToPayload("trace of " + orderOf(args[0]).Service)
		interceptor.WorkflowHeader(ctx)[o.m.header] = p
	}
	f := o.Next.ExecuteActivity(ctx, t, args...)
	if o.m.wrap != nil {
		return o.m.wrap(f)
	}
	return f
}

// orderOf reads an argument as an interceptor does that changes it: typed, or from its payload.
func orderOf(arg any) order {
	switch v := arg.(type) {
	case order:
		return v
	case converter.RawValue:
		var o order
		_ = converter.GetDefaultDataConverter().FromPayload(v.Payload(), &o)
		return o
	}
	return order{Service: "unreadable"}
}

type meddlerActivity struct {
	interceptor.ActivityInboundInterceptorBase
	m *meddler
}

func (a *meddlerActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if o, ok := in.Args[0].(order); ok && a.m.in != nil {
		in.Args = []any{a.m.in(o)}
	}
	return a.Next.ExecuteActivity(ctx, in)
}

func toProduction(o order) order {
	o.Service = "production " + strings.TrimPrefix(o.Service, "production ")
	return o
}

// What an interceptor of the team makes of the arguments is what is judged, shown and run, wherever it was installed.
func TestWhatTheirInterceptorsMakeOfACallIsJudged(t *testing.T) {
	t.Parallel()
	for name, install := range map[string]func(*team, *meddler){
		"on the worker": func(m *team, i *meddler) { m.worker.Interceptors = []interceptor.WorkerInterceptor{i} },
		"on the client, the guard too": func(m *team, i *meddler) {
			m.client.Interceptors = []interceptor.ClientInterceptor{i}
			m.onClient = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTeam(t)
			install(m, &meddler{out: toProduction})
			m.work()
			m.ship(order{Service: "api"})
			q := m.pending(1)[0]
			require.JSONEq(t, `{"service":"production api"}`, string(q.Input), "what will run is what is shown")
			require.Empty(t, m.ran())
			m.allow(q.Key)
			require.Equal(t, deployed("production api"), m.shipped())
			require.Equal(t, []string{"deploy production api "}, m.ran())
			require.Equal(t, 1, count(m.history(), enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED))
		})
	}
}

// An interceptor that only the client has stands between the guard and the server when the guard is on the worker
// alone. Then it is said, once, and nothing breaks.
func TestTheirClientInterceptorBehindTheGuard(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.client.Interceptors = []interceptor.ClientInterceptor{&meddler{header: "trace",
		wrap: func(f workflow.Future) workflow.Future { return &tracedFuture{f} }}}
	m.work()
	m.begin("Ship", shipping{Orders: []order{{Service: "api"}, {Service: "web"}}})
	m.allow(m.pending(1)[0].Key)
	m.until(func(l approval.List) bool { return len(l.Closed) == 1 && len(l.Pending) == 1 })
	m.allow(m.pending(1)[0].Key)
	require.Equal(t, deployed("api", "web"), m.shipped())
	require.Empty(t, m.failedTasks())
	said := m.lines.with("gets calls after they were judged")
	require.Len(t, said, 1)
	require.Contains(t, said[0], "meddlerOut")
}

// A guarded workflow type is judged by the arguments that it gets, not by those that its interceptors were given.
func TestAGuardedWorkflowIsJudgedByWhatItGets(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.guard.Workflows = map[string]tool.Options{"Ship": {Risk: tool.Destructive}}
	m.guard.Tools["Deploy"] = tool.Options{Risk: tool.Read}
	m.worker.Interceptors = []interceptor.WorkerInterceptor{&meddler{enter: toProduction}}
	m.work()
	m.ship(order{Service: "api"})
	q := m.pending(1)[0]
	require.JSONEq(t, `{"orders":[{"service":"production api"}]}`, string(q.Input))
	m.allow(q.Key)
	require.Equal(t, deployed("production api"), m.shipped())
}

// Headers of a tracing interceptor arrive beside the grant, and a future that it wraps is what the workflow gets.
func TestTheirHeadersAndFutures(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	wrapped := 0
	m.worker.Interceptors = []interceptor.WorkerInterceptor{&meddler{header: "trace", wrap: func(f workflow.Future) workflow.Future {
		wrapped++
		return &tracedFuture{f}
	}}}
	m.work()
	m.ship(order{Service: "api"})
	m.allow(m.pending(1)[0].Key)
	require.Equal(t, []string{"deployed api, traced"}, m.shipped())
	require.Positive(t, wrapped)
	for _, e := range m.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			require.Contains(t, string(a.GetHeader().GetFields()["trace"].GetData()), "trace of api")
			require.NotNil(t, a.GetHeader().GetFields()[protocol.HeaderGrant])
		}
	}
	require.Empty(t, m.failedTasks())
}

// tracedFuture marks what it delivers.
type tracedFuture struct{ workflow.Future }

func (f *tracedFuture) Get(ctx workflow.Context, ptr any) error {
	err := f.Future.Get(ctx, ptr)
	if s, ok := ptr.(*string); ok && err == nil {
		*s += ", traced"
	}
	return err
}

// The guard is given to client and worker at once: one question, one decision, one admission.
func TestGuardOnClientAndWorkerActsOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.onClient = true
	m.client.Interceptors = []interceptor.ClientInterceptor{&meddler{header: "a"}}
	m.worker.Interceptors = []interceptor.WorkerInterceptor{&meddler{header: "b"}}
	m.work()
	m.ship(order{Service: "api"})
	m.allow(m.pending(1)[0].Key)
	require.Equal(t, deployed("api"), m.shipped())
	l := m.lists()
	require.Len(t, l.Closed, 1)
	dc := converter.GetDefaultDataConverter()
	require.Equal(t, 1, m.markers(dc, protocol.ActivityDecide))
	require.Equal(t, 1, m.markers(dc, protocol.ActivityAdmit))
	require.Equal(t, 1, count(m.history(), enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED))
}

// tenant travels in a context and a header, as context propagators do it.
type tenantKey struct{}

type tenantPropagator struct{}

func (tenantPropagator) Inject(ctx context.Context, w workflow.HeaderWriter) error {
	return injectTenant(ctx.Value(tenantKey{}), w)
}

func (tenantPropagator) InjectFromWorkflow(ctx workflow.Context, w workflow.HeaderWriter) error {
	return injectTenant(ctx.Value(tenantKey{}), w)
}

func injectTenant(v any, w workflow.HeaderWriter) error {
	if name, ok := v.(string); ok {
		p, err := converter.GetDefaultDataConverter().ToPayload(name)
		if err != nil {
			return err
		}
		w.Set("tenant", p)
	}
	return nil
}

func extractTenant(r workflow.HeaderReader) (name string, err error) {
	var p *commonpb.Payload
	var ok bool
	if p, ok = r.Get("tenant"); !ok {
		return "", nil
	}
	return name, converter.GetDefaultDataConverter().FromPayload(p, &name)
}

func (tenantPropagator) Extract(ctx context.Context, r workflow.HeaderReader) (context.Context, error) {
	name, err := extractTenant(r)
	return context.WithValue(ctx, tenantKey{}, name), err
}

func (tenantPropagator) ExtractToWorkflow(ctx workflow.Context, r workflow.HeaderReader) (workflow.Context, error) {
	name, err := extractTenant(r)
	return workflow.WithValue(ctx, tenantKey{}, name), err
}

// What the team's context propagators carry reaches the guarded activity, days after it was called.
func TestTheirContextPropagators(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.client.ContextPropagators = []workflow.ContextPropagator{tenantPropagator{}}
	m.register = func(wk sdkworker.Worker) {
		wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, o order) (string, error) {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
			var out string
			return out, workflow.ExecuteActivity(ctx, "Whose", o).Get(ctx, &out)
		}, workflow.RegisterOptions{Name: "Tenant"})
		wk.RegisterActivityWithOptions(func(ctx context.Context, o order) (string, error) {
			return o.Service + " of " + ctx.Value(tenantKey{}).(string), nil
		}, activity.RegisterOptions{Name: "Whose"})
	}
	m.guard.Tools["Whose"] = m.guard.Tools["Deploy"]
	m.work()
	ctx := context.WithValue(context.Background(), tenantKey{}, "blue")
	run, err := m.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: m.id, TaskQueue: m.queue}, "Tenant", order{Service: "api"})
	require.NoError(t, err)
	m.allow(m.pending(1)[0].Key)
	wait, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out string
	require.NoError(t, run.Get(wait, &out))
	require.Equal(t, "api of blue", out)
}

// A guarded activity in a session runs on the session's worker, asked or not.
func TestGuardedActivityInASession(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.worker.EnableSessionWorker = true
	m.register = func(wk sdkworker.Worker) {
		wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, o order) (string, error) {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
			session, err := workflow.CreateSession(ctx, &workflow.SessionOptions{CreationTimeout: patience, ExecutionTimeout: time.Hour})
			if err != nil {
				return "", err
			}
			defer workflow.CompleteSession(session)
			var out string
			return out, workflow.ExecuteActivity(session, "Deploy", o).Get(session, &out)
		}, workflow.RegisterOptions{Name: "InSession"})
	}
	m.work()
	run := m.begin("InSession", order{Service: "api"})
	m.allow(m.pending(1)[0].Key)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out string
	require.NoError(t, run.Get(ctx, &out))
	require.Equal(t, "deployed api", out)
	require.Equal(t, []string{"deploy api "}, m.ran())
	for _, e := range m.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "Deploy" {
			require.NotEqual(t, m.queue, a.GetTaskQueue().GetName(), "it went to the session's own queue")
		}
	}
}

// A worker that fails workflows on a panic has no reason to: nothing of ours panics, whatever is sent.
func TestTheirPanicPolicyFailWorkflow(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.worker.WorkflowPanicPolicy = sdkworker.FailWorkflow
	m.work()
	m.begin("Ship", shipping{Orders: []order{{Service: "a"}, {Service: "b"}}, Parallel: true})
	q := m.pending(2)
	for _, raw := range []string{``, `null`, `{`, `[]`, `{"key":7}`, `"\ud800"`, `{"key":"x","decision":"allow"}`, "\xff\xfe"} {
		m.send(raw)
	}
	m.until(func(l approval.List) bool { return len(l.Ignored) == 8 })
	m.send(`{"key":"` + about(t, q, "a").Key + `"}`)
	m.allow(about(t, q, "b").Key)
	out := m.shipped()
	require.Equal(t, []string{"DENIED/person", "deployed b"}, out)
	require.Empty(t, m.failedTasks())
}

// A worker that does almost nothing at once still gets there: no decision waits for a place that its own call holds.
func TestSmallSlots(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.worker.MaxConcurrentLocalActivityExecutionSize = 1
	m.worker.MaxConcurrentActivityExecutionSize = 1
	m.worker.MaxConcurrentWorkflowTaskExecutionSize = 2
	m.worker.MaxConcurrentActivityTaskPollers = 1
	m.worker.MaxConcurrentWorkflowTaskPollers = 2
	m.work()
	var orders []order
	var want []string
	for _, s := range strings.Split("abcdefghij", "") {
		orders, want = append(orders, order{Service: s}), append(want, "deploy "+s+" ")
	}
	m.begin("Ship", shipping{Orders: orders, Parallel: true})
	for _, q := range m.pending(len(orders)) {
		m.allow(q.Key)
	}
	require.Equal(t, deployed(strings.Split("abcdefghij", "")...), m.shipped())
	require.ElementsMatch(t, want, m.ran())
}
