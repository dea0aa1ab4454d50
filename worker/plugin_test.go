package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/worktree"
)

func look() *tool.Def {
	return tool.MustNew("look", "Looks.", func(context.Context, *tool.Context, struct{}) (string, error) { return "", nil }, tool.Read)
}

func good(t *testing.T) worker.Config {
	t.Helper()
	store, err := blob.NewDir(t.TempDir())
	require.NoError(t, err)
	return worker.Config{Blobs: store, Tools: []*tool.Def{look()}, Profiles: map[string]config.Profile{"p": {Name: "p", Tools: []string{"look"}}}}
}

// trees is a provider that nobody asks.
type trees struct{ worktree.Provider }

func TestNewRefuses(t *testing.T) {
	failing := pipeline.PluginFunc("x", func(s *pipeline.Scope) error { return s.Tool(look()) })
	for name, tc := range map[string]struct {
		change func(*worker.Config)
		says   string
	}{
		"no profile": {func(c *worker.Config) { c.Profiles = nil }, "Profiles"},
		"no blobs":   {func(c *worker.Config) { c.Blobs = nil }, "Blobs"},
		"no host":    {func(c *worker.Config) { c.Worktrees = trees{} }, "Worktrees"},
		"bad rule":   {func(c *worker.Config) { c.Permissions.Ask = []permission.Rule{{}} }, "engine.ask[0]"},
		"bad preset": {func(c *worker.Config) { c.Permissions.Preset = "loose" }, "loose"},
		"unknown tool": {func(c *worker.Config) {
			c.Profiles = map[string]config.Profile{"p": {Name: "p", Tools: []string{"fly"}}}
		}, "profiles.p.tools"},
		"unknown model": {func(c *worker.Config) {
			c.Profiles = map[string]config.Profile{"p": {Name: "p", Models: []string{"a:b"}}}
		}, "profiles.p.model"},
		"tool twice":   {func(c *worker.Config) { c.Tools = []*tool.Def{look(), look()} }, "look"},
		"plugin":       {func(c *worker.Config) { c.Plugins = []pipeline.Plugin{failing} }, "look"},
		"short secret": {func(c *worker.Config) { c.GrantKeys = []protocol.GrantKey{{ID: "k", Secret: []byte("short")}} }, "grantKeys"},
		"key twice": {func(c *worker.Config) {
			k := protocol.GrantKey{ID: "k", Secret: make([]byte, 16)}
			c.GrantKeys = []protocol.GrantKey{k, k}
		}, "grantKeys"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good(t)
			tc.change(&cfg)
			_, err := worker.New(cfg)
			require.ErrorContains(t, err, tc.says)
			require.True(t, fault.IsConfig(err), "%v", err)
		})
	}
}

func TestNewGuardRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  worker.GuardConfig
		says string
	}{
		"nothing guarded": {worker.GuardConfig{}, "guards nothing"},
		"no name":         {worker.GuardConfig{Tools: map[string]tool.Options{"": {}}}, "a name is empty"},
		"unknown risk":    {worker.GuardConfig{Tools: map[string]tool.Options{"pay": {Risk: "nuclear"}}}, `Tools.pay: unknown risk "nuclear"`},
		"unknown mode":    {worker.GuardConfig{Tools: map[string]tool.Options{"pay": {}}, Enforce: "maybe"}, `unknown mode "maybe"; one of off, log, on`},
		"bad rule":        {worker.GuardConfig{Tools: map[string]tool.Options{"pay": {}}, Permissions: permission.Layer{Deny: []permission.Rule{{}}}}, "engine.deny[0]"},
		"bad key":         {worker.GuardConfig{Tools: map[string]tool.Options{"pay": {}}, GrantKeys: []protocol.GrantKey{{}}}, "grantKeys"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := worker.NewGuard(tc.cfg)
			require.ErrorContains(t, err, tc.says)
			require.True(t, fault.IsConfig(err), "%v", err)
		})
	}
}

func TestPluginNames(t *testing.T) {
	p, err := worker.New(good(t))
	require.NoError(t, err)
	require.Equal(t, "assent", p.Name())
	_, ok := p.Pipeline().Lookup("look")
	require.True(t, ok)
	require.Equal(t, []string{"readonly"}, p.Pipeline().GuardNames(), "the readonly guard comes with every engine")
	g, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"pay": {Risk: tool.Destructive}}, Enforce: activities.On})
	require.NoError(t, err)
	require.Equal(t, "assent-guard", g.Name())
}

// theirs is an interceptor of the team's own.
type theirs struct {
	interceptor.WorkerInterceptorBase
	interceptor.ClientInterceptorBase
	name string
}

// Given to the client and to the worker, the plugin meets the same options twice: it acts once, round all others. The
// first interceptor's calls go to the server as they are; the last one sees what a workflow or an activity gets.
func TestInterceptorsAreInstalledOnceAndRoundAllOthers(t *testing.T) {
	p, err := worker.New(good(t))
	require.NoError(t, err)
	first, second := &theirs{name: "first"}, &theirs{name: "second"}
	o := sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{first}}
	configure := func() {
		require.NoError(t, p.ConfigureWorker(context.Background(), sdkworker.PluginConfigureWorkerOptions{TaskQueue: "q", WorkerOptions: &o}))
	}
	configure()
	require.Len(t, o.Interceptors, 4)
	require.Same(t, first, o.Interceptors[1])
	gate, entry, activities := o.Interceptors[0], o.Interceptors[2], o.Interceptors[3]

	o.Interceptors = append([]interceptor.WorkerInterceptor{second}, o.Interceptors...)
	configure()
	require.Equal(t, []interceptor.WorkerInterceptor{gate, second, first, entry, activities}, o.Interceptors)

	var r sdkworker.WorkflowReplayerOptions
	for range 2 {
		require.NoError(t, p.ConfigureWorkflowReplayer(context.Background(), sdkworker.PluginConfigureWorkflowReplayerOptions{WorkflowReplayerOptions: &r}))
	}
	require.Len(t, r.Interceptors, 3)

	var c client.Options
	c.Interceptors = []interceptor.ClientInterceptor{&theirs{name: "third"}}
	for range 2 {
		require.NoError(t, p.ConfigureClient(context.Background(), client.PluginConfigureClientOptions{ClientOptions: &c}))
	}
	require.Len(t, c.Interceptors, 2, "a client's interceptors come before a worker's, so the gate stands before them too")
	require.IsType(t, &theirs{}, c.Interceptors[1])
}

// Of two plugins on one worker only one would act, and the other's activities would run unguarded.
func TestOneWorkerTakesOnePlugin(t *testing.T) {
	engine, err := worker.New(good(t))
	require.NoError(t, err)
	guard, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"pay": {}}})
	require.NoError(t, err)
	for _, pair := range [][2]*worker.Plugin{{engine, guard}, {guard, engine}} {
		var o sdkworker.Options
		configure := func(p *worker.Plugin) error {
			return p.ConfigureWorker(context.Background(), sdkworker.PluginConfigureWorkerOptions{TaskQueue: "q", WorkerOptions: &o})
		}
		require.NoError(t, configure(pair[0]))
		err := configure(pair[1])
		require.ErrorContains(t, err, "a worker takes one plugin of Assent")
		require.True(t, fault.IsConfig(err))
	}
}

// A worker that stops lets decisions end. What the team sets stays, and what its own activities live by is left to it.
func TestWorkerOptions(t *testing.T) {
	cfg := good(t)
	cfg.DecideTimeout = 5 * time.Second
	p, err := worker.New(cfg)
	require.NoError(t, err)
	configure := func(o sdkworker.Options) sdkworker.Options {
		require.NoError(t, p.ConfigureWorker(context.Background(), sdkworker.PluginConfigureWorkerOptions{TaskQueue: "q", WorkerOptions: &o}))
		return o
	}
	o := configure(sdkworker.Options{})
	require.Equal(t, 6*time.Second, o.WorkerStopTimeout)
	require.Equal(t, 2*time.Second, o.StickyScheduleToStartTimeout)
	require.Zero(t, o.MaxHeartbeatThrottleInterval)
	o = configure(sdkworker.Options{WorkerStopTimeout: time.Minute, StickyScheduleToStartTimeout: time.Hour, MaxHeartbeatThrottleInterval: time.Second})
	require.Equal(t, time.Minute, o.WorkerStopTimeout)
	require.Equal(t, time.Hour, o.StickyScheduleToStartTimeout)
	require.Equal(t, time.Second, o.MaxHeartbeatThrottleInterval)
}

// The team's converter is taken from the client, unless the configuration names one.
func TestConfigureClient(t *testing.T) {
	p, err := worker.New(good(t))
	require.NoError(t, err)
	require.NoError(t, p.ConfigureClient(context.Background(), client.PluginConfigureClientOptions{ClientOptions: &client.Options{}}))
	require.NoError(t, p.ConfigureClient(context.Background(), client.PluginConfigureClientOptions{
		ClientOptions: &client.Options{DataConverter: converter.GetDefaultDataConverter()}}))
}
