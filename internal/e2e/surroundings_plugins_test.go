package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// A worker with two gates would have one that acts and one that does not, whose activities would run unguarded. Every way
// to make one is refused when the worker is made.
func TestTwoPluginsOnOneWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	engine := func() *worker.Plugin {
		p, done, err := plugin(askingWith(oneAsk), w.c, w.effects, w.blobs)
		require.NoError(t, err)
		t.Cleanup(done)
		return p
	}
	guard := func() *worker.Plugin {
		g, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"Deploy": {}}, Elsewhere: []string{"Deploy"}})
		require.NoError(t, err)
		return g
	}
	for name, tc := range map[string]struct{ onClient, onWorker []*worker.Plugin }{
		"two engines":                     {nil, []*worker.Plugin{engine(), engine()}},
		"engine and guard":                {nil, []*worker.Plugin{engine(), guard()}},
		"guard and engine":                {nil, []*worker.Plugin{guard(), engine()}},
		"two guards":                      {nil, []*worker.Plugin{guard(), guard()}},
		"another engine on the client":    {[]*worker.Plugin{engine()}, []*worker.Plugin{engine()}},
		"the guard on the client":         {[]*worker.Plugin{guard()}, []*worker.Plugin{engine()}},
		"two on the client, none besides": {[]*worker.Plugin{guard(), engine()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			opts := client.Options{HostPort: address(t), RPCTimeout: rpcPatience, Logger: sdklog.NewStructuredLogger(logger())}
			for _, p := range tc.onClient {
				opts.Plugins = append(opts.Plugins, p)
			}
			c, err := client.Dial(opts)
			require.NoError(t, err)
			defer c.Close()
			var wopts sdkworker.Options
			for _, p := range tc.onWorker {
				wopts.Plugins = append(wopts.Plugins, p)
			}
			// The SDK has no other way to say that a worker cannot be made.
			said := func() (said any) {
				defer func() { said = recover() }()
				sdkworker.New(c, w.queue, wopts)
				return nil
			}()
			refused, ok := said.(error)
			require.True(t, ok, "%v", said)
			require.True(t, fault.IsConfig(refused), "%v", refused)
			require.ErrorContains(t, refused, "a worker takes one plugin of Assent")
		})
	}
}

// The same plugin any number of times on a client and its worker is one.
func TestOnePluginManyTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, done, err := plugin(askingWith(oneAsk), nil, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	w.c, err = client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, Plugins: []client.Plugin{p, p}, Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(t, err)
	t.Cleanup(w.c.Close)
	o := options(p)
	o.Plugins = append(o.Plugins, p)
	wk := sdkworker.New(w.c, w.queue, o)
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Equal(t, []string{"run a"}, w.ran())
	dc := converter.GetDefaultDataConverter()
	require.Equal(t, 1, w.markers(dc, protocol.ActivityDecide))
	require.Equal(t, 1, w.markers(dc, protocol.ActivityAdmit))
	l := w.lists()
	require.Len(t, l.Closed, 1)
	w.sound()
}

// One plugin is enough for a worker that has agents and guarded workflows: an engine guards too.
func TestEngineThatGuards(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	cfg, done, err := engine(askingWith(oneAsk), nil, m.effects, m.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	cfg.Guarded = worker.Guarded{Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}}, Enforce: activities.On}
	cfg.Permissions = permission.Layer{Preset: permission.Standard}
	p, err := worker.New(cfg)
	require.NoError(t, err)
	wk := sdkworker.New(m.c, m.queue, options(p))
	wk.RegisterWorkflowWithOptions(ship, workflowNamed("Ship"))
	wk.RegisterActivityWithOptions(m.deploy, activity.RegisterOptions{Name: "Deploy"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	agent := *m.world
	agent.id += "-agent"
	agent.start(protocol.AgentInput{})
	m.ship(order{Service: "api"})
	agent.answer(agent.pending(1)[0].Key, approval.Allow)
	m.allow(m.pending(1)[0].Key)
	require.Equal(t, protocol.OK, agent.result().Status)
	require.Equal(t, deployed("api"), m.shipped())
	require.ElementsMatch(t, []string{"run a", "deploy api "}, m.ran())
}

// Two workers of one process, each with an engine of its own, share a queue: whichever takes a task, the agent goes on.
func TestTwoEnginesInOneProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := askingWith(`
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: run, args: {text: b}}, {tool: note, args: {text: c}}]
  - calls: [{tool: look, args: {text: d}}]
  - say: done
`)
	w.work(s)
	w.work(s)
	for i := range 3 {
		one := *w
		one.id = fmt.Sprintf("%s-%d", w.id, i)
		one.start(protocol.AgentInput{})
		one.answer(one.pending(1)[0].Key, approval.Allow)
		require.Equal(t, protocol.OK, one.result().Status)
		require.Zero(t, count(one.history(), enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
	}
	require.Len(t, w.ran(), 12)
}
