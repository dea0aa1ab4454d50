package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/telemetry"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// The secret that tools of these tests say, in forms that a redactor knows.
const (
	leaked = "hunter2-leaked"
	says   = "dial postgres://app:" + leaked + "@db failed, password=" + leaked
)

// leaker says a secret in each way in which a tool can say something.
func leaker() *tool.Def {
	return tool.MustNew("leak", "Says a secret.", func(_ context.Context, c *tool.Context, in struct {
		How string `json:"how"`
	}) (any, error) {
		switch in.How {
		case "value":
			return map[string]any{"env": []any{map[string]any{"name": "DB_PASSWORD", "value": leaked}}, "out": says, "n": json.Number("9007199254740993")}, nil
		case "nested":
			b, err := json.Marshal(map[string]any{"password": leaked, "body": says})
			return string(b), err
		case "large":
			return says + strings.Repeat(" and so on", 20_000) + says, nil
		case "error":
			return nil, errors.New(says)
		case "panic":
			panic(says)
		case "retry":
			return nil, tool.ModelRetry{Message: says, Data: map[string]any{"token": leaked}}
		case "log":
			c.Log.Error(says, "error", errors.New(says), "password", leaked)
		}
		return "said", nil
	}, tool.Read)
}

// spill is an activity of another team that says the secret in the ways that an agent's own tool does not have.
func spill(_ context.Context, in struct {
	How string `json:"how"`
}) (any, error) {
	switch in.How {
	case "error":
		cause := fmt.Errorf("again: %w", temporal.NewApplicationError(says, "Dial", map[string]any{"password": leaked}))
		return nil, temporal.NewNonRetryableApplicationError(says, "Funds", cause, says, []byte(says), map[string]any{"token": leaked})
	case "panic":
		panic(says)
	}
	return map[string]any{"password": leaked, "out": []string{says}}, nil
}

// spans are what a tracing system would be told: names, tags and errors.
type spans struct {
	interceptor.BaseTracer
	lines
}

type span struct {
	of   *spans
	name string
}

func (s *spans) Options() interceptor.TracerOptions {
	return interceptor.TracerOptions{SpanContextKey: spanKey{}, HeaderKey: "traced"}
}

type spanKey struct{}

func (*spans) UnmarshalSpan(m map[string]string) (interceptor.TracerSpanRef, error) {
	return m["name"], nil
}

func (*spans) MarshalSpan(s interceptor.TracerSpan) (map[string]string, error) {
	return map[string]string{"name": s.(*span).name}, nil
}

func (*spans) SpanFromContext(ctx context.Context) interceptor.TracerSpan {
	s, _ := ctx.Value(spanKey{}).(interceptor.TracerSpan)
	return s
}

func (*spans) ContextWithSpan(ctx context.Context, s interceptor.TracerSpan) context.Context {
	return context.WithValue(ctx, spanKey{}, s)
}

func (s *spans) StartSpan(o *interceptor.TracerStartSpanOptions) (interceptor.TracerSpan, error) {
	_, err := fmt.Fprintln(s, "begin", o.Operation, o.Name, o.Tags)
	return &span{s, o.Operation + ":" + o.Name}, err
}

func (s *span) Finish(o *interceptor.TracerFinishSpanOptions) {
	_, _ = fmt.Fprintf(s.of, "end %s %v %+v\n", s.name, o.Error, o.Error)
}

const leakScript = `turns:
  - calls: [{tool: leak, args: {how: value}}, {tool: leak, args: {how: nested}}, {tool: leak, args: {how: large}}, {tool: leak, args: {how: error}},
      {tool: leak, args: {how: panic}}, {tool: leak, args: {how: retry}}, {tool: leak, args: {how: log}}]
  - calls: [{tool: spill, args: {how: value}}, {tool: spill, args: {how: error}}, {tool: spill, args: {how: panic}}]
  - calls: [{tool: run, args: {text: a}}]
  - say: done
`

// places are where something may have been written, by name.
func (w *world) places(log *lines, more map[string]string) map[string]string {
	w.t.Helper()
	log.mu.Lock()
	defer log.mu.Unlock()
	out := map[string]string{"log": log.buf.String()}
	for name, text := range more {
		out[name] = text
	}
	for _, e := range w.history() {
		raw, err := proto.Marshal(e)
		require.NoError(w.t, err)
		exported, err := protojson.Marshal(e)
		require.NoError(w.t, err)
		out["event "+e.GetEventType().String()] += string(raw) + unwrapped(w.t, exported)
	}
	dir := filepath.Join(filepath.Dir(w.effects), "blobs")
	require.NoError(w.t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out["blobs"] += string(b)
		return err
	}))
	require.NotEmpty(w.t, out["blobs"])
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
	require.NoError(w.t, err)
	raw, err := proto.Marshal(d.RawResponse)
	require.NoError(w.t, err)
	out["description"] = string(raw)
	return out
}

// unwrapped is exported JSON with its base64 decoded behind it.
func unwrapped(t *testing.T, exported []byte) string {
	t.Helper()
	out := string(exported)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, m := range v {
				walk(m)
			}
		case []any:
			for _, m := range v {
				walk(m)
			}
		case string:
			if b, err := base64.StdEncoding.DecodeString(v); err == nil {
				out += "\n" + string(b)
			}
		}
	}
	var v any
	require.NoError(t, json.Unmarshal(exported, &v))
	walk(v)
	return out
}

// spilling is the tool of an activity on the guarded worker of another team, which it starts.
func (w *world) spilling(t *testing.T, log *slog.Logger, tracing interceptor.WorkerInterceptor, redacted bool, r *plugins.Redactor) *tool.Def {
	t.Helper()
	cfg := worker.GuardConfig{Tools: map[string]tool.Options{"Spill": {Risk: tool.Read}}, GrantKeys: []protocol.GrantKey{grantKey},
		Enforce: activities.On, Log: log}
	if redacted {
		cfg.Plugins = []pipeline.Plugin{r.Plugin()}
	}
	o := options(newGuard(t, cfg))
	o.Interceptors = []interceptor.WorkerInterceptor{tracing}
	wk := sdkworker.New(w.c, w.queue+"-theirs", o)
	wk.RegisterActivityWithOptions(spill, activity.RegisterOptions{Name: "Spill"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	d, err := tool.FromActivity("spill", "Says a secret elsewhere.", json.RawMessage(`{"type":"object","properties":{"how":{"type":"string"}}}`),
		"Spill", w.queue+"-theirs", tool.Read, tool.Retry{MaximumAttempts: 1})
	require.NoError(t, err)
	return d
}

// leaks runs the agent that says secrets and returns the places in which one is found.
func leaks(t *testing.T, redacted bool) (found map[string]bool, res protocol.AgentResult, w *world) {
	t.Helper()
	log, audit, counts := &lines{}, &lines{}, &plugins.Counts{}
	r, err := plugins.NewRedactor(plugins.RedactConfig{})
	require.NoError(t, err)
	var h slog.Handler = slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	if redacted {
		h = r.Handler(h)
	}
	exported := &spanFile{path: filepath.Join(t.TempDir(), "spans")}
	reader := sdkmetric.NewManualReader()
	tel, err := telemetry.New(telemetry.Config{Tracers: exported.provider(), Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	require.NoError(t, err)
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, Logger: sdklog.NewStructuredLogger(slog.New(h)),
		Interceptors: []interceptor.ClientInterceptor{tel}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w = newWorldAt(t, c, t.TempDir())
	keep, err := plugins.Audit(plugins.AuditConfig{Writer: audit})
	require.NoError(t, err)
	metrics, err := plugins.Metrics(plugins.MetricsConfig{Recorder: counts})
	require.NoError(t, err)
	traced := &spans{}
	tracing := interceptor.NewTracingInterceptor(traced)
	spilling := w.spilling(t, slog.New(h), tracing, redacted, r)
	w.workWithOptions(setup{Script: leakScript, Preset: permission.Standard, Keys: true}, func(c *worker.Config) {
		c.Log = slog.New(h)
		c.Plugins = []pipeline.Plugin{keep, metrics}
		if redacted {
			c.Plugins = append([]pipeline.Plugin{r.Plugin()}, c.Plugins...)
		}
		p := c.Profiles["p"]
		p.Tools = append(p.Tools, "run")
		c.Profiles["p"] = p
	}, sdkworker.Options{DeadlockDetectionTimeout: deadlock, Interceptors: []interceptor.WorkerInterceptor{tracing}}, leaker(), spilling)
	run := w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	more := map[string]string{"details": w.details(), "result": ""}
	w.answer(q.Key, approval.Allow)
	res = w.result()
	require.Equal(t, []string{"OK", "OK", "OK", "TOOL_ERROR", "TOOL_ERROR", "TOOL_ERROR", "OK", "OK", "TOOL_ERROR", "TOOL_ERROR", "OK"}, w.codes(res), "%+v", w.results(res))
	more["details"] += w.details()
	text, err := json.Marshal(w.results(res))
	require.NoError(t, err)
	more["result"], more["metrics"] = string(text), counts.String()
	more["spans"] = strings.Join(traced.with(""), "\n")
	require.Contains(t, more["spans"], "end RunActivity:Spill")
	var numbers metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &numbers))
	text, err = json.Marshal(numbers)
	require.NoError(t, err)
	spans, err := os.ReadFile(exported.path)
	require.NoError(t, err)
	more["telemetry"] = string(text) + string(spans)
	for _, want := range []string{"execute_tool leak", "execute_tool Spill", "invoke_agent p", telemetry.MetricToolDuration} {
		require.Contains(t, more["telemetry"], want)
	}

	// The audit has a line for each call of this run, and never a result.
	var records []plugins.AuditRecord
	require.Eventually(t, func() bool {
		records = nil
		for _, line := range audit.with("{") {
			var r plugins.AuditRecord
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			records = append(records, r)
		}
		return len(records) == 11
	}, patience, tick)
	for _, r := range records {
		require.Equal(t, run.GetRunID(), r.Run)
		// The team's activity ran elsewhere.
		require.Equal(t, r.Tool != "spill", r.Duration != nil)
	}
	require.Equal(t, "alice", records[10].ApprovedBy)
	more["audit"] = strings.Join(audit.with("{"), "\n")

	found = map[string]bool{}
	for name, text := range w.places(log, more) {
		if strings.Contains(text, leaked) {
			found[name] = true
		}
	}
	return found, res, w
}

// A secret in what a tool returns, in its error with details and causes, in its panic or in its log is in no event of the exported
// history, no stored value, no log, no span, no metric, no details, no memo and not in what the model gets, be it a tool of the
// agent's or a guarded activity of another team. Without the plugin it is in most of them, so this would
// find it.
func TestRedactedSecretIsNowhere(t *testing.T) {
	t.Parallel()
	found, res, w := leaks(t, true)
	require.Empty(t, found)
	results := w.results(res)
	require.Equal(t, `{"env":[{"name":"DB_PASSWORD","value":"[redacted:password]"}],"n":9007199254740993,`+
		`"out":"dial postgres://app:[redacted:url-password]@db failed, password=[redacted:password]"}`, string(results[0].Result.Value))
	require.Equal(t, `{"token":"[redacted:token]"}`, string(results[5].Result.Failure.Data))
	require.NotNil(t, results[2].Result.ValueRef, "it was stored, and is found there")
	require.Contains(t, results[2].Result.Preview, "[redacted:", "what a person sees of it begins with it")

	found, _, _ = leaks(t, false)
	for _, place := range []string{"log", "blobs", "result", "spans", "event ActivityTaskCompleted", "event ActivityTaskFailed"} {
		require.True(t, found[place], "%s: %v", place, found)
	}
	require.False(t, found["audit"])
	require.False(t, found["metrics"])
	require.False(t, found["telemetry"], "no span and no metric has what a tool says, redacted or not")
}
