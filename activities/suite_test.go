package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// The test environment's own names.
const (
	runID     = "default-test-run-id"
	workflow  = "default-test-workflow-id"
	namespace = "default-test-namespace"
	// callID is the activity id of the first call of an environment.
	callID = "0"
)

type pathIn struct {
	Path string `json:"path"`
}

// bench is an engine that serves the tools run (execute) and look (read).
type bench struct {
	t      *testing.T
	store  *blob.Memory
	pipe   *pipeline.Pipeline
	engine *activities.Engine
	ran    []string
	// header goes with the next call.
	header *commonpb.Header
}

func newBench(t *testing.T, cfg activities.Config, plugins ...pipeline.Plugin) *bench {
	t.Helper()
	b := &bench{t: t, store: blob.NewMemory("memory"), pipe: pipeline.New(pipeline.Config{})}
	mount := append([]pipeline.Plugin{pipeline.PluginFunc("tools", func(s *pipeline.Scope) error {
		return errors.Join(s.Tool(b.tool("run", tool.Execute)), s.Tool(b.tool("look", tool.Read)))
	})}, plugins...)
	for _, p := range mount {
		_, err := b.pipe.Mount(p)
		require.NoError(t, err)
	}
	cfg.Pipeline, cfg.Blobs, cfg.HookTimeout = b.pipe, b.store, time.Minute
	if cfg.Profiles == nil {
		cfg.Profiles = map[string]config.Profile{"p": {Name: "p", Tools: []string{"run", "look"}}}
	}
	var err error
	b.engine, err = activities.New(cfg)
	require.NoError(t, err)
	return b
}

func (b *bench) tool(name string, risk tool.Risk) *tool.Def {
	return tool.MustNew(name, "Does "+name+".", func(_ context.Context, _ *tool.Context, in pathIn) (pathIn, error) {
		b.ran = append(b.ran, name+" "+in.Path)
		return in, nil
	}, risk)
}

func (b *bench) facts(name string) protocol.ToolFacts {
	b.t.Helper()
	def, ok := b.pipe.Lookup(name)
	require.True(b.t, ok)
	return activities.FactsOf(def.Info())
}

// call runs an activity behind the interceptor and decodes what it returns.
func (b *bench) call(name string, fn any, arg, result any) error {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.SetHeader(b.header)
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{activities.NewInterceptor(b.engine)}})
	env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	v, err := env.ExecuteActivity(name, arg)
	if err != nil {
		return err
	}
	if result == nil {
		return nil
	}
	return v.Get(result)
}

func (b *bench) decide(req protocol.DecideRequest) (resp protocol.DecideResponse, err error) {
	b.t.Helper()
	err = b.call(protocol.ActivityDecide, activities.AssentDecide, req, &resp)
	return resp, err
}

func (b *bench) admit(req protocol.AdmitRequest) protocol.AdmitResponse {
	b.t.Helper()
	var resp protocol.AdmitResponse
	require.NoError(b.t, b.call(protocol.ActivityAdmit, activities.AssentAdmit, req, &resp))
	return resp
}

func (b *bench) generate(req protocol.GenerateRequest) (resp protocol.GenerateResponse, err error) {
	b.t.Helper()
	err = b.call(protocol.ActivityGenerate, b.engine.Generate, req, &resp)
	return resp, err
}

// frozen stores what an agent's start would have frozen.
func (b *bench) frozen(f activities.Frozen) *blob.Ref {
	b.t.Helper()
	ref, err := b.store.Put(context.Background(), raw(f))
	require.NoError(b.t, err)
	return &ref
}

// granted puts a grant into the header of the next call.
func (b *bench) granted(g protocol.Grant) {
	b.t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(g)
	require.NoError(b.t, err)
	b.header = &commonpb.Header{Fields: map[string]*commonpb.Payload{protocol.HeaderGrant: p}}
}

// requireType checks the type under which an error reaches a workflow.
func requireType(t *testing.T, err error, typ string, retryable bool) {
	t.Helper()
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app), "%v", err)
	require.Equal(t, typ, app.Type())
	require.Equal(t, !retryable, app.NonRetryable())
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// long is long ago.
var long = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func refOf(s string) blob.Ref { return blob.RefOf([]byte(s)) }

func withTool(defs ...*tool.Def) pipeline.Plugin {
	return pipeline.PluginFunc("more tools", func(s *pipeline.Scope) error {
		for _, d := range defs {
			if err := s.Tool(d); err != nil {
				return err
			}
		}
		return nil
	})
}

func requireConfig(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.True(t, fault.IsConfig(err), "%v", err)
}
