package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

func refund(t *testing.T, opts ...tool.Option) *tool.Def {
	t.Helper()
	d, err := tool.FromActivity("refund", "Refunds.", json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`),
		"Refund", "billing", opts...)
	require.NoError(t, err)
	return d
}

// receive runs the activity as an agent's worker does.
func (b *bench) receive(req protocol.ReceiveRequest, value *commonpb.Payload) (r tool.Result, err error) {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{activities.NewInterceptor(b.engine)}})
	env.RegisterActivityWithOptions(b.engine.ReceiveResult, activity.RegisterOptions{Name: protocol.ActivityReceiveResult})
	v, err := env.ExecuteActivity(protocol.ActivityReceiveResult, req, converter.NewRawValue(value))
	if err != nil {
		return r, err
	}
	return r, v.Get(&r)
}

// ended is the request of a call that another worker ended with a result.
func (b *bench) ended(r tool.Result) protocol.ReceiveRequest {
	return protocol.ReceiveRequest{Call: tool.Call{ID: "t1.1", Name: "refund", Input: json.RawMessage(`{"to":"a"}`)},
		Tool: b.facts("refund"), RunID: runID, Result: r, Dispatched: true}
}

func payload(encoding, data string) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)}
}

func TestReceiveResultReadsValues(t *testing.T) {
	b := newBench(t, activities.Config{}, withTool(refund(t)))
	for name, c := range map[string]struct {
		value *commonpb.Payload
		code  tool.Code
		want  string
	}{
		"JSON":           {payload("json/plain", `{"n":9007199254740993}`), tool.OK, `{"n":9007199254740993}`},
		"protobuf":       {payload("json/protobuf", `{"n":"1"}`), tool.OK, `{"n":"1"}`},
		"nothing":        {payload("binary/null", ""), tool.OK, "null"},
		"bytes":          {payload("binary/plain", "\x00\x01"), tool.NonSerializable, `2 bytes of encoding "binary/plain"`},
		"no bytes":       {payload("binary/plain", ""), tool.NonSerializable, "0 bytes"},
		"no text":        {payload("json/plain", "\"\xff\""), tool.NonSerializable, "not JSON"},
		"half":           {payload("json/plain", `{"a":`), tool.NonSerializable, "not JSON"},
		"two":            {payload("json/plain", `1 2`), tool.NonSerializable, "not JSON"},
		"of a codec":     {payload("binary/encrypted", "xyz"), tool.NonSerializable, "binary/encrypted"},
		"bytes of JSON":  {payload("binary/plain", `[1]`), tool.OK, `[1]`},
		"a deep nesting": {payload("json/plain", strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)), tool.NonSerializable, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := b.receive(b.ended(tool.Result{Code: tool.OK}), c.value)
			require.NoError(t, err)
			require.Equal(t, c.code, r.Code, "%+v", r.Failure)
			if r.IsOK() {
				require.Equal(t, c.want, string(r.Value))
				return
			}
			require.Contains(t, r.Failure.Message, c.want)
			require.True(t, r.Failure.Started, "it ran")
		})
	}
}

func TestReceiveResultSpills(t *testing.T) {
	b := newBench(t, activities.Config{}, withTool(refund(t)))
	long := `"` + strings.Repeat("x", 1_900_000) + `"`
	r, err := b.receive(b.ended(tool.Result{Code: tool.OK}), payload("json/plain", long))
	require.NoError(t, err)
	require.Equal(t, ptr(refOf(long)), r.ValueRef)
	require.Empty(t, r.Value)
	require.NotEmpty(t, r.Preview)
	stored, err := b.store.Get(context.Background(), *r.ValueRef)
	require.NoError(t, err)
	require.Equal(t, long, string(stored))

	r, err = b.receive(b.ended(tool.Fail(tool.ToolError, strings.Repeat("x", 1_000_000))), payload("binary/null", ""))
	require.NoError(t, err)
	require.Less(t, len(r.Failure.Message), 20_000)
}

// noStore is one that is away.
type noStore struct{ blob.Store }

func (noStore) ID() string { return "memory" }

func (noStore) Put(context.Context, []byte) (blob.Ref, error) { return blob.Ref{}, errors.New("away") }

// Unlike the result of a tool of ours, this one can be had again: the activity fails, and is tried again.
func TestReceiveResultNeedsItsStore(t *testing.T) {
	pipe := pipeline.New(pipeline.Config{})
	_, err := pipe.Mount(withTool(refund(t)))
	require.NoError(t, err)
	engine, err := activities.New(activities.Config{Pipeline: pipe, Blobs: noStore{}})
	require.NoError(t, err)
	b := &bench{t: t, pipe: pipe, engine: engine}
	_, err = b.receive(b.ended(tool.Result{Code: tool.OK}), payload("json/plain", `"`+strings.Repeat("x", 10_000)+`"`))
	require.ErrorContains(t, err, "away")
	r, err := b.receive(b.ended(tool.Result{Code: tool.OK}), payload("json/plain", `1`))
	require.NoError(t, err)
	require.Equal(t, "1", string(r.Value))

	req := b.ended(tool.Result{Code: tool.OK})
	req.Call.Store = "another"
	_, err = b.receive(req, payload("json/plain", `1`))
	requireType(t, err, protocol.ErrorStore, false)
}

// Listeners see what came back before anybody else, with all that is known of the tool; a refusal is only observed.
func TestReceiveResultPassesTheListeners(t *testing.T) {
	var posted, observed []string
	b := newBench(t, activities.Config{}, withTool(refund(t, tool.Write)), pipeline.PluginFunc("listener", func(s *pipeline.Scope) error {
		return errors.Join(
			s.Post(func(_ context.Context, c pipeline.Call, r tool.Result, _ func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
				posted = append(posted, string(r.Code)+" "+c.Info.Remote.Type+" "+string(c.Info.Risk)+" "+c.Info.Description+" "+c.RunID)
				return pipeline.Replace("seen"), nil
			}),
			s.Observe(func(_ context.Context, _ pipeline.Call, r tool.Result) error {
				observed = append(observed, string(r.Code))
				return nil
			}))
	}))
	r, err := b.receive(b.ended(tool.Result{Code: tool.OK}), payload("json/plain", `"secret"`))
	require.NoError(t, err)
	require.Equal(t, `"seen"`, string(r.Value))
	r, err = b.receive(b.ended(tool.Fail(tool.ToolError, "secret")), payload("binary/null", ""))
	require.NoError(t, err)
	require.Equal(t, "seen", r.Failure.Message)
	r, err = b.receive(b.ended(tool.Deny(tool.ByGuard, "limits", "too much")), payload("binary/null", ""))
	require.NoError(t, err)
	require.Equal(t, tool.Deny(tool.ByGuard, "limits", "too much"), r)
	require.Equal(t, []string{"OK Refund write Refunds. " + runID, "TOOL_ERROR Refund write Refunds. " + runID}, posted)
	require.Equal(t, []string{"OK", "TOOL_ERROR", "DENIED"}, observed)
}

// Of a call that was in flight when its run was reset nobody knows how often it ran. It does not count as done.
func TestReceiveResultAfterAReset(t *testing.T) {
	for name, c := range map[string]struct {
		opts       []tool.Option
		in         tool.Result
		dispatched bool
		want       tool.Code
	}{
		"an effect":         {[]tool.Option{tool.Write}, tool.Result{Code: tool.OK}, true, tool.EffectUnknown},
		"that failed":       {[]tool.Option{tool.Write}, tool.Fail(tool.ToolError, "x"), true, tool.EffectUnknown},
		"that was refused":  {[]tool.Option{tool.Write}, tool.Deny(tool.ByGrant, "", "x"), true, tool.EffectUnknown},
		"reading":           {[]tool.Option{tool.Read}, tool.Result{Code: tool.OK}, true, tool.OK},
		"idempotent":        {[]tool.Option{tool.Write, tool.Idempotent()}, tool.Result{Code: tool.OK}, true, tool.OK},
		"never dispatched":  {[]tool.Option{tool.Write}, tool.Deny(tool.ByCancel, "", "x"), false, tool.Denied},
		"unknown in itself": {[]tool.Option{tool.Write}, tool.Fail(tool.EffectUnknown, "x"), true, tool.EffectUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, activities.Config{}, withTool(refund(t, c.opts...)))
			req := b.ended(c.in)
			req.RunID, req.Dispatched = "a run before", c.dispatched
			r, err := b.receive(req, payload("json/plain", `1`))
			require.NoError(t, err)
			require.Equal(t, c.want, r.Code)
			if c.want == tool.EffectUnknown && c.in.Code != tool.EffectUnknown {
				require.Contains(t, r.Failure.Message, "ended with "+string(c.in.Code))
				require.Empty(t, r.Value)
			}
		})
	}
}

// A tool of another worker is frozen with all that says where it runs, and judged by its schema.
func TestForeignFacts(t *testing.T) {
	b := newBench(t, activities.Config{}, withTool(refund(t, tool.Write)))
	f := b.facts("refund")
	require.Equal(t, "Refund", f.Remote.Type)
	require.Equal(t, tool.DefaultStartToClose, f.Remote.Timeouts.StartToClose)
	d, err := b.decide(protocol.DecideRequest{CallID: "1", Tool: f, Subject: protocol.Subject{Profile: "p"}, Input: json.RawMessage(`{"to":1}`)})
	require.NoError(t, err)
	require.Equal(t, "/to", d.Decision.Invalid[0].Pointer)
	require.Nil(t, b.facts("run").Remote)
}
