package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

type judge = func(context.Context, permission.Call) (permission.Answer, error)

func hooked(j judge, script string) setup {
	return setup{script: script, profile: config.Profile{Permissions: permission.Layer{Preset: permission.Standard,
		Hooks: []permission.Hook{{Name: "h", Judge: j}}}}}
}

// What the approver sees is what runs, and what the model is told.
func TestAHookThatModifies(t *testing.T) {
	b := newBench(t, hooked(func(_ context.Context, c permission.Call) (permission.Answer, error) {
		if strings.Contains(string(c.Input), "/tmp") {
			return permission.AnswerModify(json.RawMessage(`{"path":"/etc/a"}`)), nil
		}
		return permission.Answer{}, nil
	}, `
turns:
  - calls: [{tool: run, args: {path: /tmp/a}}, {tool: look, args: {path: /tmp/b}}, {tool: look, args: {path: c}}]
  - say: done
`))
	b.env.RegisterDelayedCallback(func() {
		require.JSONEq(t, `{"path":"/etc/a"}`, string(b.list().Pending[0].Input))
	}, time.Minute)
	b.answer(time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"/etc/a"}, b.ran["run"])
	require.ElementsMatch(t, []string{"/etc/a", "c"}, b.ran["look"])
	got := b.results(res)
	require.JSONEq(t, `{"path":"/etc/a"}`, string(got[0].Result.FinalInput))
	require.JSONEq(t, `{"path":"/etc/a"}`, string(got[1].Result.FinalInput))
	require.Empty(t, got[2].Result.FinalInput)
}

// Whatever fails in a hook denies in its name.
func TestAHookThatFailsDenies(t *testing.T) {
	for name, j := range map[string]judge{
		"denies": func(context.Context, permission.Call) (permission.Answer, error) {
			return permission.AnswerDeny("no"), nil
		},
		"errors": func(context.Context, permission.Call) (permission.Answer, error) {
			return permission.AnswerAllow(), errors.New("x")
		},
		"panics": func(context.Context, permission.Call) (permission.Answer, error) { panic("x") },
		"hangs": func(ctx context.Context, _ permission.Call) (permission.Answer, error) {
			<-ctx.Done()
			return permission.AnswerAllow(), nil
		},
		"nonsense": func(context.Context, permission.Call) (permission.Answer, error) {
			return permission.AnswerModify(json.RawMessage(`{`)), nil
		},
		"misfits": func(context.Context, permission.Call) (permission.Answer, error) {
			return permission.AnswerModify(json.RawMessage(`{}`)), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := hooked(j, oneAsk)
			if name == "hangs" {
				s.hookTimeout = time.Millisecond
			}
			b := newBench(t, s)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{"DENIED/rule"}, b.codes(res))
			require.Equal(t, "hook", b.results(res)[0].Result.Failure.By)
			require.Empty(t, b.ran)
			require.Zero(t, res.Asked)
		})
	}
}

// A slow hook is decided in an activity of its own; the answer is the same.
func TestASlowHook(t *testing.T) {
	s := hooked(func(_ context.Context, c permission.Call) (permission.Answer, error) {
		if c.Tool.Name == "run" {
			return permission.AnswerAllow(), nil
		}
		return permission.AnswerDeny("only run"), nil
	}, `
turns:
  - calls: [{tool: run, args: {path: a}}, {tool: look, args: {path: b}}]
  - say: done
`)
	s.profile.Permissions.Hooks[0].Slow = true
	b := newBench(t, s)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK", "DENIED/rule"}, b.codes(res))
}

// An agent's input tightens: its rules add to the profile's and loosen nothing.
func TestTighten(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: change, args: {path: b}}, {tool: run, args: {path: c}}]
  - say: done
`})
	b.answer(time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{Permissions: &protocol.Tighten{
		Deny: []permission.Rule{{Risk: permission.One("read"), Reason: "nobody looks"}},
		Ask:  []permission.Rule{{Tool: permission.One("change")}},
	}})
	require.Equal(t, []string{"DENIED/rule", "DENIED/person", "OK"}, b.codes(res))
	require.Contains(t, b.results(res)[0].Result.Failure.Message, "nobody looks")
}

// Readonly denies by rule, and by guard where a hook's allow stands before the rules.
func TestReadonlyDeniesWhateverAHookAllows(t *testing.T) {
	script := `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: change, args: {path: b}}, {tool: gone, args: {path: c}}, {tool: run, args: {path: d}}]
  - say: done
`
	for name, s := range map[string]setup{
		"by rule": {script: script},
		"by guard": hooked(func(context.Context, permission.Call) (permission.Answer, error) {
			return permission.AnswerAllow(), nil
		}, script),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, s.with(noop("gone", tool.Destructive)))
			res := b.run(protocol.AgentInput{Isolation: &worktree.Isolation{Kind: worktree.Readonly}})
			codes := b.codes(res)
			require.Equal(t, "OK", codes[0])
			want := map[string]string{"by rule": "DENIED/rule", "by guard": "DENIED/guard"}[name]
			require.Equal(t, []string{want, want, "OK"}, codes[1:])
			require.Empty(t, b.ran["change"])
		})
	}
}

// Strict presets, hooks and people apply to every tool alike; a guard that a profile requires must be there.
func TestARequiredGuardThatIsNotMountedDenies(t *testing.T) {
	b := newBench(t, setup{profile: config.Profile{Guards: []string{"secrets"}}, script: oneAsk})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/guard"}, b.codes(res))
	require.Empty(t, b.ran)
}

// Observers hear of every call, those that never ran included.
func TestObserversHearOfDeniedCalls(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	watch := pipeline.PluginFunc("watch", func(s *pipeline.Scope) error {
		return s.Observe(func(_ context.Context, c pipeline.Call, r tool.Result) error {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, c.ID+" "+c.Name+" "+string(r.Code))
			return nil
		})
	})
	b := newBench(t, setup{plugins: []pipeline.Plugin{watch}, profile: config.Profile{
		Permissions: permission.Layer{Deny: []permission.Rule{{Tool: permission.One("change")}}, Ask: []permission.Rule{{Tool: permission.One("run")}}}}, script: `
turns:
  - calls: [{tool: change, args: {path: a}}, {tool: nothing, args: {}}, {tool: look, args: {}}, {tool: run, args: {path: a}}, {tool: look, args: {path: b}}]
  - calls: [{tool: look, args: {path: c}}]
  - say: done
`})
	b.answer(time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(heard)
	require.Equal(t, []string{"t1.1 change DENIED", "t1.2 nothing UNKNOWN_TOOL", "t1.3 look INVALID_ARGUMENTS", "t1.4 run DENIED", "t1.5 look OK",
		"t2.1 look OK"}, heard)
}

// They also hear of a call that was lost with its worker, or that none served.
func TestObserversHearOfLostCalls(t *testing.T) {
	for err, code := range map[error]string{
		temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil):   "TOOL_ERROR",
		temporal.NewApplicationError("x", "ActivityNotRegisteredError"):         "CONTRACT_DRIFT",
		temporal.NewApplicationError("the worker fell over", "some.OtherError"): "EFFECT_UNKNOWN",
	} {
		var mu sync.Mutex
		var heard []string
		watch := pipeline.PluginFunc("watch", func(s *pipeline.Scope) error {
			return s.Observe(func(_ context.Context, c pipeline.Call, r tool.Result) error {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, c.ID+" "+string(r.Code))
				return nil
			})
		})
		b := newBench(t, setup{plugins: []pipeline.Plugin{watch}, script: `
turns:
  - calls: [{tool: change, args: {path: a}}]
  - say: done
`})
		b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(tool.Result{}, err)
		b.run(protocol.AgentInput{})
		mu.Lock()
		require.Equal(t, []string{"t1.1 " + code}, heard)
		mu.Unlock()
	}
}

// A tool of undeclared risk, as a server's without a label, asks under the standard preset.
func TestUndeclaredRiskAsks(t *testing.T) {
	b := newBench(t, asking(`
turns:
  - calls: [{tool: foreign, args: {path: a}}]
  - say: done
`).with(noop("foreign", tool.Undeclared)))
	b.answer(time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK"}, b.codes(res))
	require.Equal(t, 1, res.Asked)
}
