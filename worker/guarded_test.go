package worker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

func TestGuardedRefuses(t *testing.T) {
	one := func(name string) map[string]tool.Options { return map[string]tool.Options{name: {}} }
	for name, tc := range map[string]struct {
		cfg  worker.GuardConfig
		says string
	}{
		"our activity":     {worker.GuardConfig{Tools: one("AssentDecide")}, "Tools.AssentDecide: the name is Assent's own"},
		"our tool":         {worker.GuardConfig{Tools: one("tool.shell")}, "Assent's own"},
		"our shared tool":  {worker.GuardConfig{Tools: one(protocol.ActivityCallTool)}, "Assent's own"},
		"our agent":        {worker.GuardConfig{Workflows: one(protocol.WorkflowAgent)}, "Workflows.assent.Agent: the name is Assent's own"},
		"no service":       {worker.GuardConfig{Operations: one("refund")}, "service/operation"},
		"one name for two": {worker.GuardConfig{Tools: map[string]tool.Options{"a.b": {}, "a/b": {}}}, `Tools.a/b: rules know it as "a_b", like Tools.a.b`},
		"two kinds":        {worker.GuardConfig{Tools: one("Refund"), Workflows: one("Refund")}, `rules know it as "Refund", like Tools.Refund`},
		"nowhere":          {worker.GuardConfig{Tools: one("pay"), Elsewhere: []string{"pya"}}, `Elsewhere: "pya" is not among Tools; one of pay`},
		"draining":         {worker.GuardConfig{Tools: one("pay"), Draining: []string{"pya"}}, `Draining: "pya" is not guarded`},
		"draining by rule": {worker.GuardConfig{Operations: one("a/pay"), Draining: []string{"a_pay"}}, `Draining: "a_pay" is not guarded`},
		"timeout":          {worker.GuardConfig{Tools: map[string]tool.Options{"x": {Timeout: 1}}}, "Tools.x: it keeps the timeouts"},
		"executor":         {worker.GuardConfig{Operations: map[string]tool.Options{"a/x": {Executor: "y"}}}, "runs where it is"},
		"risk":             {worker.GuardConfig{Workflows: map[string]tool.Options{"x": {Risk: "r"}}}, `Workflows.x: unknown risk "r"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := worker.NewGuard(tc.cfg)
			require.ErrorContains(t, err, tc.says)
			require.True(t, fault.IsConfig(err))
		})
	}
	cfg := good(t)
	cfg.Guarded = worker.Guarded{Tools: one("tool.x")}
	_, err := worker.New(cfg)
	require.ErrorContains(t, err, "Assent's own", "an engine checks its guarded tools too")
	cfg.Guarded = worker.Guarded{Tools: one("pay"), Enforce: activities.On}
	cfg.Permissions = permission.Layer{Deny: []permission.Rule{{Tool: permission.One("pay")}}}
	_, err = worker.New(cfg)
	require.NoError(t, err)
}

type Payments struct{}

func (*Payments) Pay(context.Context) error { return nil }

func Lookup(context.Context) error { return nil }

func Refunds(workflow.Context) error { return nil }

// A guard of something that its worker does not have is found before the first task, and says what there is.
func TestMisspeltGuardsAreRefusedAtStart(t *testing.T) {
	everything := func(w sdkworker.Worker) {
		w.RegisterActivity(&Payments{})
		w.RegisterActivity(Lookup)
		w.RegisterActivityWithOptions(Lookup, activity.RegisterOptions{Name: "other"})
		w.RegisterWorkflow(Refunds)
	}
	for name, tc := range map[string]struct {
		cfg  worker.GuardConfig
		with func(sdkworker.Worker)
		says string
	}{
		"an activity": {worker.GuardConfig{Tools: map[string]tool.Options{"Pya": {}}}, everything,
			"Tools.Pya: this worker registers no such activity; if only another one does, name it in Elsewhere; one of Lookup, Pay, other"},
		"a workflow": {worker.GuardConfig{Workflows: map[string]tool.Options{"Refund": {}}}, everything,
			"Workflows.Refund: this worker registers no such workflow; one of Refunds"},
		"all there": {worker.GuardConfig{Tools: map[string]tool.Options{"Pay": {}, "Lookup": {}, "other": {}},
			Workflows: map[string]tool.Options{"Refunds": {}}}, everything, ""},
		"elsewhere":       {worker.GuardConfig{Tools: map[string]tool.Options{"Ship": {}}, Elsewhere: []string{"Ship"}}, everything, ""},
		"workflows alone": {worker.GuardConfig{Tools: map[string]tool.Options{"Ship": {}}}, func(w sdkworker.Worker) { w.RegisterWorkflow(Refunds) }, ""},
		"dynamic": {worker.GuardConfig{Tools: map[string]tool.Options{"Ship": {}}}, func(w sdkworker.Worker) {
			w.RegisterActivity(Lookup)
			w.RegisterDynamicActivity(activities.RunDynamicTool, activity.DynamicRegisterOptions{})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := worker.NewGuard(tc.cfg)
			require.NoError(t, err)
			// Nobody listens there: a worker that passes the check fails to reach its server.
			c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
			require.NoError(t, err)
			defer c.Close()
			w := sdkworker.New(c, "q", sdkworker.Options{Plugins: []sdkworker.Plugin{g}})
			tc.with(w)
			err = w.Start()
			require.Error(t, err)
			if tc.says == "" {
				require.False(t, fault.IsConfig(err), "%v", err)
				return
			}
			require.ErrorContains(t, err, tc.says)
			require.True(t, fault.IsConfig(err), "%v", err)
		})
	}
}

// A draining worker keeps new runs out of the gate and leaves the team's own versions alone.
func TestDrain(t *testing.T) {
	g, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"pay": {}}, Drain: true})
	require.NoError(t, err)
	o := sdkworker.Options{PreferredVersionProvider: func(in sdkworker.PreferredVersionProviderInput) *sdkworker.VersionPreference {
		return &sdkworker.VersionPreference{Version: 7}
	}}
	require.NoError(t, g.ConfigureWorker(context.Background(), sdkworker.PluginConfigureWorkerOptions{TaskQueue: "q", WorkerOptions: &o}))
	require.Equal(t, workflow.DefaultVersion, o.PreferredVersionProvider(sdkworker.PreferredVersionProviderInput{ChangeID: protocol.ChangeGate}).Version)
	require.Nil(t, o.PreferredVersionProvider(sdkworker.PreferredVersionProviderInput{ChangeID: protocol.ChangeGuard + "pay"}))
	require.Equal(t, workflow.Version(7), o.PreferredVersionProvider(sdkworker.PreferredVersionProviderInput{ChangeID: "theirs"}).Version)
}

// What a team prefers for all its changes is none of the guard's: it must neither open the gate nor fail its runs.
func TestAPreferenceForAllVersionsLeavesTheGuard(t *testing.T) {
	for _, all := range []workflow.Version{workflow.DefaultVersion, 7} {
		g, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"pay": {}}})
		require.NoError(t, err)
		o := sdkworker.Options{PreferredVersionProvider: func(sdkworker.PreferredVersionProviderInput) *sdkworker.VersionPreference {
			return &sdkworker.VersionPreference{Version: all}
		}}
		require.NoError(t, g.ConfigureWorker(context.Background(), sdkworker.PluginConfigureWorkerOptions{TaskQueue: "q", WorkerOptions: &o}))
		for _, ours := range []string{protocol.ChangeGate, protocol.ChangeGuard + "pay"} {
			require.Nil(t, o.PreferredVersionProvider(sdkworker.PreferredVersionProviderInput{ChangeID: ours}), ours)
		}
		require.Equal(t, all, o.PreferredVersionProvider(sdkworker.PreferredVersionProviderInput{ChangeID: "theirs"}).Version)
	}
}

// One plugin on two clients judges arguments in one encoding: another converter is refused, an equal one is not.
func TestClientsOfOnePluginShareAConverter(t *testing.T) {
	configure := func(p *worker.Plugin, dc converter.DataConverter) error {
		return p.ConfigureClient(context.Background(), client.PluginConfigureClientOptions{ClientOptions: &client.Options{DataConverter: dc}})
	}
	zlib := func() converter.DataConverter {
		return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), converter.NewZlibCodec(converter.ZlibCodecOptions{}))
	}
	for name, tc := range map[string]struct {
		own, first, second converter.DataConverter
		refused            bool
	}{
		"the same":      {nil, zlib(), zlib(), false},
		"none":          {nil, nil, nil, false},
		"another":       {nil, zlib(), converter.GetDefaultDataConverter(), true},
		"none at first": {nil, nil, zlib(), true},
		"none later":    {nil, zlib(), nil, true},
		"its own":       {zlib(), nil, converter.GetDefaultDataConverter(), false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := worker.NewGuard(worker.GuardConfig{Tools: map[string]tool.Options{"pay": {}}, DataConverter: tc.own})
			require.NoError(t, err)
			require.NoError(t, configure(p, tc.first))
			err = configure(p, tc.second)
			require.Equal(t, tc.refused, fault.IsConfig(err), "%v", err)
		})
	}
}
