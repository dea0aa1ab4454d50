package activities_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// newPay is a bench with the guarded activity pay, whose next call has a grant.
func newPay(t *testing.T, plugins ...pipeline.Plugin) *bench {
	b := newBench(t, activities.Config{Enforce: activities.On,
		Guarded: map[string]protocol.ToolFacts{"pay": {Name: "pay", Risk: tool.Destructive, ActivityType: "pay"}}}, plugins...)
	b.granted(protocol.Keyring{}.Sign(protocol.Grant{CallID: callID, RunID: runID}, protocol.Place{}))
	return b
}

func post(fn pipeline.Post) pipeline.Plugin {
	return pipeline.PluginFunc("post", func(s *pipeline.Scope) error { return s.Post(fn) })
}

// Guards see on the worker what was judged in the workflow.
func TestGuardsSeeTheArgumentsAsTheyWereJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		fn, arg any
		want    string
	}{
		"an object": {func(context.Context, pathIn) error { return nil }, pathIn{"x"}, `{"path":"x"}`},
		"a string":  {func(context.Context, string) error { return nil }, "x", `{"args":["x"]}`},
		"bytes": {func(context.Context, []byte) error { return nil }, []byte("x"),
			`{"$binary":{"bytes":1,"encoding":"binary/plain","sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var seen string
			b := newPay(t, pipeline.PluginFunc("guard", func(s *pipeline.Scope) error {
				return s.Guard("look", func(_ context.Context, c pipeline.Call) error {
					seen = string(c.Input)
					return nil
				})
			}))
			require.NoError(t, b.call("pay", tc.fn, tc.arg, nil))
			require.JSONEq(t, tc.want, seen)
		})
	}
}

// However a team's activity ends, it ends so behind the gate.
func TestGuardedActivitiesEndAsTheyWould(t *testing.T) {
	b := newPay(t)
	err := b.call("pay", func(context.Context, string) error { panic("once") }, "x", nil)
	var crash *temporal.PanicError
	require.True(t, errors.As(err, &crash), "%v", err)
	require.Contains(t, crash.Error(), "once")

	err = newPay(t).call("pay", func(context.Context, string) error { return activity.ErrResultPending }, "x", nil)
	require.ErrorIs(t, err, activity.ErrResultPending)
}

// What a listener takes out of a result or an error does not reach history.
func TestGuardedResultsAreReplaced(t *testing.T) {
	redact := post(func(context.Context, pipeline.Call, tool.Result, func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
		return pipeline.Replace("redacted"), nil
	})
	var out string
	require.NoError(t, newPay(t, redact).call("pay", func(context.Context, string) (string, error) { return "secret", nil }, "x", &out))
	require.Equal(t, "redacted", out)

	err := newPay(t, redact).call("pay", func(context.Context, string) error { return temporal.NewApplicationError("secret", "Funds") }, "x", nil)
	requireType(t, err, "Funds", true)
	require.NotContains(t, err.Error(), "secret")

	err = newPay(t, redact).call("pay", func(context.Context, string) error { panic("secret") }, "x", nil)
	var crash *temporal.PanicError
	require.True(t, errors.As(err, &crash), "%v", err)
	require.NotContains(t, err.Error(), "secret")

	keep := post(func(context.Context, pipeline.Call, tool.Result, func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
		return pipeline.Accept(), nil
	})
	require.NoError(t, newPay(t, keep).call("pay", func(context.Context, string) (string, error) { return "kept", nil }, "x", &out))
	require.Equal(t, "kept", out)
}

// hidden is what a team does not want to see written.
type hidden struct{ Name string }

func (hidden) MarshalJSON() ([]byte, error) { panic("never write it") }

// An activity never writes its arguments without the gate, so one whose own type cannot be written runs as it did: guards see null.
func TestArgumentsThatPanicAreNotSeen(t *testing.T) {
	var seen, ran string
	b := newPay(t, pipeline.PluginFunc("guard", func(s *pipeline.Scope) error {
		return s.Guard("look", func(_ context.Context, c pipeline.Call) error {
			seen = string(c.Input)
			return nil
		})
	}))
	require.NoError(t, b.call("pay", func(_ context.Context, h hidden) error { ran = h.Name; return nil }, map[string]string{"Name": "x"}, nil))
	require.Equal(t, []string{"null", "x"}, []string{seen, ran})
}
