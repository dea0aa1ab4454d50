package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/telemetry"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// traced is a span as a test reads it.
type traced struct {
	Name, Trace, Span, Parent string
	Attributes                map[string]string
	Failed                    bool
	Seconds                   float64
}

// spanFile is an exporter that several processes can have: a line for each span.
type spanFile struct {
	path string
	mu   sync.Mutex
}

func (f *spanFile) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range spans {
		t := traced{Name: s.Name(), Trace: s.SpanContext().TraceID().String(), Span: s.SpanContext().SpanID().String(), Attributes: map[string]string{},
			Failed: s.Status().Code == codes.Error, Seconds: s.EndTime().Sub(s.StartTime()).Seconds()}
		if s.Parent().IsValid() {
			t.Parent = s.Parent().SpanID().String()
		}
		for _, a := range s.Attributes() {
			t.Attributes[string(a.Key)] = a.Value.String()
		}
		line, err := json.Marshal(t)
		if err == nil {
			err = appendLine(f.path, string(line)+s.Status().Description)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *spanFile) Shutdown(context.Context) error { return nil }

func (f *spanFile) provider() *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSyncer(f), sdktrace.WithIDGenerator(telemetry.IDs{}))
}

func (f *spanFile) read(t testing.TB) (out []traced) {
	t.Helper()
	text, err := os.ReadFile(f.path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	lines := bytes.Split(text, []byte("\n"))
	for _, line := range lines[:len(lines)-1] {
		var s traced
		require.NoError(t, json.Unmarshal(line, &s))
		out = append(out, s)
	}
	return out
}

// observed is a world whose client has telemetry, behind the interceptors of a team.
func observed(t *testing.T, theirs ...interceptor.ClientInterceptor) (*world, *spanFile, *sdkmetric.ManualReader, *sdktrace.TracerProvider) {
	t.Helper()
	dir := t.TempDir()
	file, reader := &spanFile{path: filepath.Join(dir, "spans")}, sdkmetric.NewManualReader()
	provider := file.provider()
	tel, err := telemetry.New(telemetry.Config{Tracers: provider, Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	require.NoError(t, err)
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, Logger: sdklog.NewStructuredLogger(logger()),
		Interceptors: append(theirs, tel)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return newWorldAt(t, c, dir), file, reader, provider
}

// named are the spans of a name, each of which has its own id.
func named(spans []traced, name string) (out []traced) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

func one(t testing.TB, spans []traced, name string) traced {
	t.Helper()
	found := named(spans, name)
	require.Len(t, found, 1, "%s among %+v", name, spans)
	return found[0]
}

// unique holds that no span is there twice: not its id, and not the same attempt at the same thing in the same run.
func unique(t testing.TB, spans []traced) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range spans {
		a := s.Attributes
		what := strings.Join([]string{s.Name, a["temporalRunID"], a["temporalActivityID"], a["gen_ai.tool.call.id"], a["assent.attempt"],
			a["assent.approval.key"], a["own"]}, " ")
		require.False(t, seen[s.Span] || seen[what], "%s is there twice: %+v", what, spans)
		seen[s.Span], seen[what] = true, true
	}
}

// point is one series of a metric: its attributes and its count or sum.
func points(t testing.TB, reader sdkmetric.Reader, name string) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	out := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					out[p.Attributes.Encoded(encoder{})] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					out[p.Attributes.Encoded(encoder{})] = p.Value
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					out[p.Attributes.Encoded(encoder{})] = float64(p.Sum)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					out[p.Attributes.Encoded(encoder{})] = float64(p.Count)
				}
			}
		}
	}
	return out
}

// encoder writes attributes for tests to compare.
type encoder struct{}

func (encoder) Encode(i attribute.Iterator) string {
	var out []string
	for i.Next() {
		out = append(out, string(i.Attribute().Key)+"="+i.Attribute().Value.String())
	}
	return strings.Join(out, ",")
}

func (encoder) ID() attribute.EncoderID { return attribute.EncoderID{} }

// ownSpan is a tool that traces what it does by itself.
func ownSpan(p trace.TracerProvider) *tool.Def {
	return tool.MustNew("query", "Asks a database.", func(ctx context.Context, _ *tool.Context, in noteIn) (string, error) {
		_, s := p.Tracer("theirs").Start(ctx, "SELECT")
		defer s.End()
		return in.Text, nil
	}, tool.Read)
}

const observedScript = `
turns:
  - calls: [{tool: query, args: {text: a}}, {tool: note, args: {text: b}}, {tool: run, args: {text: c}}, {tool: run, args: {text: d}}]
    usage: {inputTokens: 100, cachedInputTokens: 40, outputTokens: 20}
  - say: done
    usage: {inputTokens: 200, outputTokens: 5}
`

var observedSetup = setup{Script: observedScript, Preset: permission.Standard, Keys: true,
	Deny: []permission.Rule{{Tool: permission.One("note"), Reason: "not here"}}}

// An agent that is allowed, denied and asked; a person takes a while, and another worker goes on, which replays the run. Each
// span is there once, under the right parent.
func TestSpansOfAnAgent(t *testing.T) {
	t.Parallel()
	w, file, reader, provider := observed(t)
	work := func() sdkworker.Worker {
		cfg, done, err := engine(observedSetup, w.c, w.effects, w.blobs)
		require.NoError(t, err)
		t.Cleanup(done)
		p := cfg.Profiles["p"]
		p.Tools = append(p.Tools, "query")
		cfg.Profiles["p"], cfg.Tools = p, append(cfg.Tools, ownSpan(provider))
		cfg.Prices = model.Prices{"scripted:s": {Rates: model.Rates{Input: 1000, Output: 5000}}}
		plugin, err := worker.New(cfg)
		require.NoError(t, err)
		return w.workWith(plugin)
	}
	first := work()
	ctx, request := provider.Tracer("service").Start(context.Background(), "POST /fix")
	run, err := w.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, protocol.WorkflowAgent,
		protocol.AgentInput{AgentType: "p", Prompt: "go", Label: "l"})
	require.NoError(t, err)
	request.End()
	asked := w.pending(2)
	first.Stop()
	work()
	w.answer(asked[0].Key, approval.Allow)
	w.answer(asked[1].Key, approval.Deny)
	res := w.result()
	require.Equal(t, []string{"OK", "DENIED/rule", "OK", "DENIED/person"}, w.codes(res))
	// A query replays the whole run once more.
	w.lists()

	spans := file.read(t)
	unique(t, spans)
	root, agent := one(t, spans, "POST /fix"), one(t, spans, "invoke_agent p")
	require.Equal(t, root.Span, agent.Parent)
	require.Equal(t, map[string]string{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "p", "gen_ai.agent.id": w.id, "gen_ai.conversation.id": w.id,
		"gen_ai.usage.input_tokens": "300", "gen_ai.usage.cache_read.input_tokens": "40", "gen_ai.usage.output_tokens": "25", "assent.label": "l",
		"assent.status": "ok", "assent.turns": "2", "assent.calls": "4", "assent.asked": "2", "assent.cost": fmt.Sprint(res.CostUSD),
		"temporalWorkflowID": w.id, "temporalRunID": run.GetRunID()}, agent.Attributes)
	chats := named(spans, "chat s")
	require.Len(t, chats, 2)
	require.Equal(t, "scripted", chats[0].Attributes["gen_ai.provider.name"])
	require.Equal(t, "100", chats[0].Attributes["gen_ai.usage.input_tokens"])
	require.Equal(t, `["tool_use"]`, chats[0].Attributes["gen_ai.response.finish_reasons"])
	query := one(t, spans, "execute_tool query")
	require.Equal(t, "t1.1", query.Attributes["gen_ai.tool.call.id"])
	require.Equal(t, "allow", query.Attributes["assent.verdict"])
	require.Equal(t, query.Span, one(t, spans, "SELECT").Parent, "what a tool traces is below it")
	ran := one(t, spans, "execute_tool run")
	require.Equal(t, "ask", ran.Attributes["assent.verdict"])
	require.Equal(t, "ask-rule", ran.Attributes["assent.decided_by"])
	require.Equal(t, asked[0].Key, ran.Attributes["assent.approval.key"])
	require.Empty(t, named(spans, "execute_tool note"), "it never ran")
	denied := one(t, spans, "decide note")
	require.Equal(t, "deny", denied.Attributes["assent.verdict"])
	require.Equal(t, "deny-rule", denied.Attributes["assent.decided_by"])
	require.Contains(t, denied.Attributes["assent.rule"], "note")
	questions := named(spans, "approval run")
	require.Len(t, questions, 2)
	hows := []string{questions[0].Attributes["assent.approval.how"], questions[1].Attributes["assent.approval.how"]}
	slices.Sort(hows)
	require.Equal(t, []string{"allowed", "denied"}, hows)
	require.Positive(t, questions[0].Seconds)
	for _, s := range spans {
		require.Equal(t, root.Trace, s.Trace, s.Name)
		if !slices.Contains([]string{"POST /fix", "invoke_agent p", "SELECT"}, s.Name) {
			require.Equal(t, agent.Span, s.Parent, s.Name)
		}
	}

	require.Equal(t, map[string]float64{"assent.decided_by=default,assent.verdict=allow,gen_ai.tool.name=query": 1,
		"assent.decided_by=deny-rule,assent.verdict=deny,gen_ai.tool.name=note": 1,
		"assent.decided_by=ask-rule,assent.verdict=ask,gen_ai.tool.name=run":    2}, points(t, reader, telemetry.MetricDecisions))
	require.Equal(t, map[string]float64{"assent.approval.how=allowed,gen_ai.tool.name=run": 1, "assent.approval.how=denied,gen_ai.tool.name=run": 1},
		points(t, reader, telemetry.MetricApprovalWait))
	require.Equal(t, map[string]float64{"assent.code=OK,gen_ai.tool.name=query": 1, "assent.code=OK,gen_ai.tool.name=run": 1}, points(t, reader, telemetry.MetricToolDuration))
	chat := "gen_ai.operation.name=chat,gen_ai.provider.name=scripted,gen_ai.request.model=s,gen_ai.response.model=s"
	require.Equal(t, map[string]float64{chat: 2}, points(t, reader, "gen_ai.client.operation.duration"))
	require.Equal(t, map[string]float64{chat + ",gen_ai.token.type=input": 300, chat + ",gen_ai.token.type=output": 25}, points(t, reader, "gen_ai.client.token.usage"))
	require.Positive(t, res.CostUSD)
	require.InDelta(t, res.CostUSD, points(t, reader, telemetry.MetricCost)["gen_ai.agent.name=p,gen_ai.provider.name=scripted,gen_ai.request.model=s,gen_ai.response.model=s"], 1e-9)
}

// A run that continues as new is one agent with one span, and one that nobody has started from a span has a trace of its own.
func TestSpansOfAnAgentThatContinues(t *testing.T) {
	t.Parallel()
	w, file, _, _ := observed(t)
	w.work(setup{Preset: permission.Standard, Keys: true, ContinueAfter: 50, Script: `
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: look, args: {text: b}}]
  - calls: [{tool: look, args: {text: c}}, {tool: look, args: {text: d}}]
  - calls: [{tool: look, args: {text: e}}, {tool: look, args: {text: f}}]
  - calls: [{tool: run, args: {text: g}}]
  - say: done
`})
	feed, err := follow.Start(context.Background(), w.c, w.start(protocol.AgentInput{}).GetID(), "", follow.Options{Wait: true})
	require.NoError(t, err)
	go func() { w.answer(w.pending(1)[0].Key, approval.Allow) }()
	var told []follow.Event
	for e := range feed.Events {
		told = append(told, e)
	}
	end, err := feed.Wait()
	require.NoError(t, err)
	require.Equal(t, protocol.OK, end.Result.Status)
	require.Greater(t, len(w.chain()), 1)
	spans := file.read(t)
	unique(t, spans)
	agent := one(t, spans, "invoke_agent p")
	require.Empty(t, agent.Parent)
	require.Len(t, named(spans, "chat s"), 5)
	require.Len(t, named(spans, "execute_tool look"), 6)
	for _, s := range spans {
		require.Equal(t, agent.Trace, s.Trace)
		require.LessOrEqual(t, s.Seconds, agent.Seconds)
		if s.Span != agent.Span {
			require.Equal(t, agent.Span, s.Parent, s.Name)
		}
	}

	// Whoever comes later gets the same from a feed.
	late, err := follow.Start(context.Background(), w.c, w.id, "", follow.Options{FromFirst: true})
	require.NoError(t, err)
	var again []follow.Event
	for e := range late.Events {
		again = append(again, e)
	}
	require.Equal(t, told, again)
}

// A reset makes no span again. What the new run does is below a span of its own, and that below the agent's.
func TestSpansOfAReset(t *testing.T) {
	t.Parallel()
	w, file, _, _ := observed(t)
	w.work(setup{Preset: permission.Standard, Keys: true, Script: oneAsk})
	run := w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	w.result()
	before := file.read(t)
	tasks := w.finishedTasks()
	again := w.reset(run.GetRunID(), tasks[len(tasks)-1])
	var res protocol.AgentResult
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, w.c.GetWorkflow(ctx, w.id, again).Get(ctx, &res))
	spans := file.read(t)
	unique(t, spans)
	agents := named(spans, "invoke_agent p")
	require.Len(t, agents, 2)
	require.Equal(t, agents[0].Span, agents[1].Parent)
	require.Equal(t, agents[0].Trace, agents[1].Trace)
	for _, s := range spans[len(before):] {
		require.Equal(t, again, s.Attributes["temporalRunID"])
		if s.Span != agents[1].Span {
			require.Equal(t, agents[1].Span, s.Parent, s.Name)
		}
	}
}

// A worker that is killed in the middle of a tool leaves no span of it, and the one that goes on repeats none.
func TestSpansOfKilledWorkers(t *testing.T) {
	t.Parallel()
	for _, way := range []offered{mountedHere, shared} {
		t.Run("way "+string(way), func(t *testing.T) {
			t.Parallel()
			spansOfKilledWorkers(t, way)
		})
	}
}

func spansOfKilledWorkers(t *testing.T, way offered) {
	address := devservertest.Server(t).Address()
	w := newWorld(t)
	file := &spanFile{path: filepath.Join(filepath.Dir(w.effects), "spans")}
	s := setup{Preset: permission.Standard, Keys: true, Offered: way, Spans: file.path, Uncached: true, Script: `
turns:
  - calls: [{tool: look, args: {text: a}}]
  - calls: [{tool: run, args: {text: b}}]
  - calls: [{tool: hold, args: {text: c}}]
  - say: done
`}
	p := w.spawn(s, address)
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	p.kill(t)
	p = w.spawn(s, address)
	w.answer(key, approval.Allow)
	w.answer(w.pending(1)[0].Key, approval.Allow)
	require.Eventually(t, func() bool { return slices.Contains(w.ran(), "hold c") }, patience, tick)
	p.kill(t)
	w.spawn(s, address)
	require.Equal(t, []string{"OK", "OK", "EFFECT_UNKNOWN"}, w.codes(w.result()))
	spans := file.read(t)
	unique(t, spans)
	agent := one(t, spans, "invoke_agent p")
	one(t, spans, "execute_tool look")
	one(t, spans, "execute_tool run")
	one(t, spans, "approval run")
	one(t, spans, "approval hold")
	require.Empty(t, named(spans, "execute_tool hold"), "it never ended")
	require.Len(t, named(spans, "chat s"), 4)
	for _, s := range spans {
		require.Equal(t, agent.Trace, s.Trace, s.Name)
	}
}

// theirTracing is what a team has: a span round every activity, in the trace of the request.
type theirTracing struct {
	interceptor.InterceptorBase
	tracer trace.Tracer
}

func (t *theirTracing) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &theirActivity{of: t}
	in.Next = next
	return in
}

type theirActivity struct {
	interceptor.ActivityInboundInterceptorBase
	of *theirTracing
}

func (a *theirActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, s := a.of.tracer.Start(ctx, "RunActivity:"+activity.GetInfo(ctx).ActivityType.Name)
	defer s.End()
	return a.Next.ExecuteActivity(ctx, in)
}

// With a team's own tracing, our spans are inside theirs.
func TestSpansInsideATeamsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := &spanFile{path: filepath.Join(dir, "spans")}
	provider := file.provider()
	tel, err := telemetry.New(telemetry.Config{Tracers: provider})
	require.NoError(t, err)
	store, err := blob.NewDir(filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	plugin, done, err := plugin(setup{Preset: permission.Standard, Keys: true, Script: "\nturns:\n  - calls: [{tool: look, args: {text: a}}, {tool: run, args: {text: b}}]\n  - say: done\n"},
		nil, filepath.Join(dir, "effects"), store)
	require.NoError(t, err)
	t.Cleanup(done)
	// Here the client has the plugin as well, so that the gate stands before the interceptors.
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, Logger: sdklog.NewStructuredLogger(logger()),
		Plugins: []client.Plugin{plugin}, Interceptors: []interceptor.ClientInterceptor{&theirTracing{tracer: provider.Tracer("theirs")}, tel}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w := newWorldAt(t, c, dir)
	wk := sdkworker.New(c, w.queue, sdkworker.Options{DeadlockDetectionTimeout: deadlock})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	w.result()
	spans := file.read(t)
	look := one(t, spans, "execute_tool look")
	require.Equal(t, one(t, spans, "RunActivity:tool.look").Span, look.Parent)
	require.Equal(t, one(t, spans, "RunActivity:tool.look").Trace, look.Trace)
	require.Equal(t, one(t, spans, "execute_tool run").Attributes["assent.decided_by"], "ask-rule")
	one(t, spans, "approval run")
	for _, s := range spans {
		if s.Name == "decide look" {
			require.NotEqual(t, one(t, spans, "invoke_agent p").Span, s.Parent)
		}
	}
}

// The agents that a workflow spawns are in the trace of whoever started it, or in one of their own; a feed follows all of them.
func TestSpansAndEventsOfSpawnedAgents(t *testing.T) {
	t.Parallel()
	w, file, _, provider := observed(t)
	w.planning(setup{Script: speaks}, map[string]string{"q": running}, nil)
	ctx, request := provider.Tracer("service").Start(context.Background(), "POST /plan")
	_, err := w.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, "Plan", []protocol.AgentInput{task("p", "a"), task("q", "b")})
	require.NoError(t, err)
	request.End()
	feed, err := follow.Start(context.Background(), w.c, w.id, "", follow.Options{Wait: true, Children: true})
	require.NoError(t, err)
	told := map[string][]follow.Kind{}
	for e := range feed.Events {
		told[e.WorkflowID] = append(told[e.WorkflowID], e.Kind)
	}
	end, err := feed.Wait()
	require.NoError(t, err)
	require.Equal(t, "completed", end.Closed)
	children := w.begot(w.id)
	require.Len(t, children, 2)
	require.Len(t, told, 3)
	for _, id := range children {
		require.Equal(t, follow.AgentStart, told[id][0])
		require.Equal(t, follow.AgentEnd, told[id][len(told[id])-1])
	}
	for _, kind := range []follow.Kind{follow.ChildStart, follow.ChildEnd} {
		require.Equal(t, 2, strings.Count(fmt.Sprint(told[w.id]), string(kind)))
	}

	spans := file.read(t)
	unique(t, spans)
	root := one(t, spans, "POST /plan")
	for _, name := range []string{"invoke_agent p", "invoke_agent q"} {
		require.Equal(t, root.Span, one(t, spans, name).Parent)
	}
	require.Equal(t, one(t, spans, "invoke_agent q").Span, one(t, spans, "execute_tool run").Parent)
	for _, s := range spans {
		require.Equal(t, root.Trace, s.Trace)
	}

	before := len(spans)
	var res []protocol.AgentResult
	w.got(w.plans(w.id+"-2", "Plan", []protocol.AgentInput{task("p", "a"), task("q", "b")}), &res)
	spans = file.read(t)[before:]
	for _, s := range spans {
		require.Equal(t, spans[0].Trace, s.Trace, s.Name)
		require.NotEqual(t, root.Trace, s.Trace)
	}
	require.Empty(t, one(t, spans, "invoke_agent p").Parent)
}

// Guarded activities of a team's own workflow have the same spans, without an agent.
func TestSpansOfAGuardedWorkflow(t *testing.T) {
	t.Parallel()
	w, file, reader, provider := observed(t)
	g := newGuard(t, worker.GuardConfig{Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}}, DecideTimeout: 20 * time.Second,
		Permissions: permission.Layer{Preset: permission.Standard}, Log: logger()})
	wk := sdkworker.New(w.c, w.queue, options(g))
	wk.RegisterActivityWithOptions(func(_ context.Context, what string) (string, error) { return what, nil }, activity.RegisterOptions{Name: "Deploy"})
	wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, what string) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, "Deploy", what).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "Release"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	ctx, request := provider.Tracer("service").Start(context.Background(), "POST /release")
	run, err := w.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, "Release", "api")
	require.NoError(t, err)
	request.End()
	var key string
	require.Eventually(t, func() bool {
		l, err := w.listOf(w.id, protocol.GuardQueryApprovals)
		if err != nil || len(l.Pending) != 1 {
			return false
		}
		key = l.Pending[0].Key
		return true
	}, patience, tick)
	require.NoError(t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.GuardSignalApproval, protocol.Resolution{Key: key, Decision: approval.Allow}))
	w.got(run, nil)
	spans := file.read(t)
	unique(t, spans)
	require.Len(t, spans, 4)
	for _, name := range []string{"decide Deploy", "approval Deploy", "execute_tool Deploy"} {
		s := one(t, spans, name)
		require.Equal(t, one(t, spans, "POST /release").Span, s.Parent)
		require.NotContains(t, s.Attributes, "gen_ai.agent.name")
		require.Equal(t, "Deploy", s.Attributes["gen_ai.tool.name"])
	}
	require.Equal(t, map[string]float64{"assent.code=OK,gen_ai.tool.name=Deploy": 1}, points(t, reader, telemetry.MetricToolDuration))
}
