package activities_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

const hush = "s3cret"

// censor takes hush out of everything that a result says, as a redactor would.
var censor = post(func(_ context.Context, _ pipeline.Call, r tool.Result, _ func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
	clean := func(s string) string { return strings.ReplaceAll(s, hush, "gone") }
	if r.Failure != nil {
		r.Failure.Message, r.Failure.Data = clean(r.Failure.Message), []byte(clean(string(r.Failure.Data)))
	}
	r.Value = []byte(clean(string(r.Value)))
	return pipeline.ReplaceResult(r), nil
})

// looker judges results and takes nothing away.
var looker = post(func(context.Context, pipeline.Call, tool.Result, func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
	return pipeline.Accept(), nil
})

// wire is an error as the server would get it.
func wire(t *testing.T, err error) string {
	t.Helper()
	f := temporal.GetDefaultFailureConverter().ErrorToFailure(err)
	b, jsonErr := protojson.Marshal(f)
	require.NoError(t, jsonErr)
	out := string(b)
	for at := f; at != nil; at = at.GetCause() {
		for _, p := range append(at.GetApplicationFailureInfo().GetDetails().GetPayloads(), at.GetCanceledFailureInfo().GetDetails().GetPayloads()...) {
			out += "\n" + string(p.GetData())
		}
	}
	return out
}

type fundsError struct{ text string }

func (e *fundsError) Error() string { return e.text }

// unknown has a form that only its team can read.
var unknown = converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("theirs")}, Data: []byte(hush)})

// opaque writes no JSON.
type opaque struct{}

func (opaque) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }

// A team's activity may say a secret in a message, in details of any kind and in causes. Each of them passes the listeners, and
// what decides about another try stays.
func TestGuardedErrorsPassTheListeners(t *testing.T) {
	withDetails := temporal.NewApplicationErrorWithOptions("said "+hush, "Funds", temporal.ApplicationErrorOptions{
		NonRetryable: true, NextRetryDelay: time.Minute, Category: temporal.ApplicationErrorCategoryBenign,
		Details: []any{map[string]any{"token": hush, "n": 9007199254740993}, []byte(hush), nil, 7}})
	for name, in := range map[string]error{
		"details":         withDetails,
		"details only":    temporal.NewApplicationError("clean", "Funds", hush),
		"a cause":         temporal.NewApplicationErrorWithCause("clean", "Funds", errors.New("dial "+hush)),
		"causes":          temporal.NewApplicationErrorWithCause("clean", "Funds", fmt.Errorf("again: %w", withDetails)),
		"a wrapped error": fmt.Errorf("clean, but: %w", withDetails),
		"their own type":  &fundsError{hush},
		"a plain error":   errors.New(hush),
		"joined":          errors.Join(errors.New("a"), errors.New(hush)),
		"a deep chain": func() error {
			err := errors.New(hush)
			for range 100 {
				err = temporal.NewApplicationErrorWithCause("clean", "Deep", err)
			}
			return err
		}(),
		"bytes":           temporal.NewApplicationError("clean", "Funds", []byte("\xff"+hush)),
		"an unknown form": temporal.NewApplicationError("clean", "Funds", unknown),
		"nothing to say":  temporal.NewApplicationError("", "Funds", hush),
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, wire(t, in), hush)
			run := func(context.Context, string) error { return in }
			bare := wire(t, newPay(t).call("pay", run, "x", nil))
			require.Contains(t, bare, hush, "without listeners it is as it was")
			got := newPay(t, censor).call("pay", run, "x", nil)
			require.Error(t, got)
			require.NotContains(t, wire(t, got), hush)
			require.Equal(t, retries(t, newPay(t).call("pay", run, "x", nil)), retries(t, got))
		})
	}
	err := newPay(t, censor).call("pay", func(context.Context, string) error { return withDetails }, "x", nil)
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app))
	var first struct {
		Token string
		N     int64
	}
	var text []byte
	var none *string
	var seven int
	require.NoError(t, app.Details(&first, &text, &none, &seven))
	require.Equal(t, "gone", first.Token)
	require.Equal(t, int64(9007199254740993), first.N)
	require.Equal(t, "gone", string(text))
	require.Nil(t, none)
	require.Equal(t, 7, seven)
	require.Equal(t, "said gone", app.Message())
}

// retries is all that a retry policy looks at.
func retries(t *testing.T, err error) string {
	t.Helper()
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app), "%v", err)
	return fmt.Sprint(app.Type(), app.NonRetryable(), app.NextRetryDelay(), app.Category())
}

// What listeners leave alone stays as it is, and what they cannot be shown is not told while there are any.
func TestGuardedOutcomesThatListenersLeave(t *testing.T) {
	in := temporal.NewApplicationErrorWithCause("m", "Funds", errors.New("c"), "d", unknown)
	run := func(context.Context, string) error { return in }
	require.Equal(t, wire(t, in), wire(t, errors.Unwrap(newPay(t).call("pay", run, "x", nil))))
	got := wire(t, newPay(t, looker).call("pay", run, "x", nil))
	require.NotContains(t, got, `"details"`, "nobody could read one of them")
	require.Contains(t, got, `"message":"c"`)

	clear := temporal.NewApplicationErrorWithCause("m", "Funds", errors.New("c"), "d", []byte("\xfftext"))
	require.Equal(t, wire(t, clear), wire(t, errors.Unwrap(newPay(t, looker).call("pay", func(context.Context, string) error { return clear }, "x", nil))))
	var out []byte
	require.NoError(t, newPay(t, looker).call("pay", func(context.Context, string) ([]byte, error) { return []byte("\xfftext"), nil }, "x", &out))
	require.Equal(t, "\xfftext", string(out))

	err := newPay(t, looker).call("pay", func(context.Context, string) error { return activity.ErrResultPending }, "x", nil)
	require.ErrorIs(t, err, activity.ErrResultPending)
}

// A cancellation stays one, with the details that are left.
func TestGuardedCancellationsPassTheListeners(t *testing.T) {
	for name, in := range map[string]error{
		"with details": temporal.NewCanceledError("secretly "+hush, 7),
		"wrapped":      fmt.Errorf("%s: %w", hush, context.Canceled),
	} {
		err := newPay(t, censor).call("pay", func(context.Context, string) error { return in }, "x", nil)
		require.True(t, temporal.IsCanceledError(err), "%s: %v", name, err)
		require.NotContains(t, wire(t, err), hush)
		var cancelled *temporal.CanceledError
		require.True(t, errors.As(err, &cancelled))
		if name == "with details" {
			var text string
			var seven int
			require.NoError(t, cancelled.Details(&text, &seven))
			require.Equal(t, "secretly gone 7", fmt.Sprint(text, " ", seven))
		}
	}
}

// Results of every form pass the listeners and keep it; what has none that they could search is not told.
func TestGuardedResultsOfEveryForm(t *testing.T) {
	message, err := structpb.NewStruct(map[string]any{"token": hush})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		fn   any
		into func() (any, func() string)
	}{
		"bytes": {func(context.Context, string) ([]byte, error) { return []byte(hush), nil }, func() (any, func() string) {
			v := new([]byte)
			return v, func() string { return string(*v) }
		}},
		"bytes that are no text": {func(context.Context, string) ([]byte, error) { return []byte("\xff" + hush), nil }, func() (any, func() string) {
			v := new([]byte)
			return v, func() string { return strings.TrimPrefix(strings.TrimPrefix(string(*v), "\xff"), "\ufffd") }
		}},
		"a proto message": {func(context.Context, string) (*structpb.Struct, error) { return message, nil }, func() (any, func() string) {
			v := new(structpb.Struct)
			return v, func() string { return v.GetFields()["token"].GetStringValue() }
		}},
		"a raw value": {func(context.Context, string) (converter.RawValue, error) {
			return converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"` + hush + `"`)}), nil
		}, func() (any, func() string) {
			v := new(string)
			return v, func() string { return *v }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v, text := c.into()
			require.NoError(t, newPay(t).call("pay", c.fn, "x", v))
			require.Equal(t, hush, text())
			v, text = c.into()
			require.NoError(t, newPay(t, censor).call("pay", c.fn, "x", v))
			require.Equal(t, "gone", text())
		})
	}
	for name, fn := range map[string]any{
		"an unknown form":                   func(context.Context, string) (converter.RawValue, error) { return unknown, nil },
		"a type that does not write itself": func(context.Context, string) (opaque, error) { return opaque{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			for _, listener := range []pipeline.Plugin{looker, censor} {
				err := newPay(t, listener).call("pay", fn, "x", nil)
				requireType(t, err, "assent.Denied", false)
				require.NotContains(t, wire(t, err), hush)
				require.Contains(t, err.Error(), "NON_SERIALIZABLE")
			}
		})
	}
	var raw converter.RawValue
	require.NoError(t, newPay(t).call("pay", func(context.Context, string) (converter.RawValue, error) { return unknown, nil }, "x", &raw))
	require.Equal(t, hush, string(raw.Payload().GetData()), "without listeners it is as it was")
}

// Whether a local activity is tried again is decided by the error that its own wraps.
func TestGuardedLocalErrorsPassTheListeners(t *testing.T) {
	b := newPay(t, censor)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Minute) // of a local activity it is the bound, and is three seconds otherwise
	env.SetHeader(b.header)
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{activities.NewInterceptor(b.engine)}})
	pay := func(context.Context, string) error {
		return fmt.Errorf("%s: %w", hush, temporal.NewNonRetryableApplicationError(hush, "Funds", nil, hush))
	}
	env.RegisterActivityWithOptions(pay, activity.RegisterOptions{Name: "pay"})
	_, err := env.ExecuteLocalActivity(pay, "x")
	requireType(t, err, "Funds", false)
	require.NotContains(t, wire(t, err), hush)
	require.Contains(t, err.Error(), "gone")
}
