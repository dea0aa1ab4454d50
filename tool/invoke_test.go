package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

// returning defines a tool whose body is fn.
func returning(t *testing.T, fn func(context.Context, *tool.Context) (any, error)) *tool.Def {
	t.Helper()
	d, err := tool.FromSchema("a", "d", json.RawMessage(`{"type":"object"}`),
		func(ctx context.Context, call *tool.Context, _ json.RawMessage) (any, error) { return fn(ctx, call) })
	require.NoError(t, err)
	return d
}

type angry struct{}

func (angry) MarshalJSON() ([]byte, error) { panic("no") }

type refusing struct{}

func (refusing) MarshalJSON() ([]byte, error) { return nil, errors.New("will not") }

type unreadable struct{}

func (unreadable) Error() string { panic("no text") }

func TestResults(t *testing.T) {
	cycle := map[string]any{}
	cycle["self"] = cycle
	type chained struct{ Next *chained }
	ring := &chained{}
	ring.Next = ring
	for _, c := range []struct {
		name  string
		value any
		want  string // the JSON, or "" for NON_SERIALIZABLE
	}{
		{"null", nil, `null`},
		{"text keeps its signs", "<a & b>", `"<a & b>"`},
		{"raw", json.RawMessage(`{"n":9007199254740993}`), `{"n":9007199254740993}`},
		{"nil raw", json.RawMessage(nil), `null`},
		{"struct", struct{ A int }{1}, `{"A":1}`},
		{"NaN", math.NaN(), ""},
		{"infinite, deep down", map[string][]float64{"x": {1, math.Inf(-1)}}, ""},
		{"channel", make(chan int), ""},
		{"function", func() {}, ""},
		{"complex", 1i, ""},
		{"cyclic map", cycle, ""},
		{"cyclic pointers", ring, ""},
		{"raw that is no JSON", json.RawMessage(`{`), ""},
		{"marshaler that fails", refusing{}, ""},
		{"marshaler that panics", angry{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := returning(t, func(context.Context, *tool.Context) (any, error) { return c.value, nil }).Invoke(t.Context(), nil, json.RawMessage(`{}`))
			if c.want == "" {
				require.Equal(t, tool.NonSerializable, got.Code)
				require.Contains(t, got.Failure.Message, "cannot be written as JSON")
				require.Nil(t, got.Value)
				return
			}
			require.Equal(t, tool.Result{Code: tool.OK, Value: json.RawMessage(c.want)}, got)
		})
	}
}

func TestFailures(t *testing.T) {
	retry := func(r tool.Result, data string) tool.Result {
		r.Failure.Retry = true
		if data != "" {
			r.Failure.Data = json.RawMessage(data)
		}
		return r
	}
	for _, c := range []struct {
		name string
		err  error
		want tool.Result
	}{
		{"error", errors.New("disk full"), tool.Fail(tool.ToolError, "disk full")},
		{"bytes", errors.New("\xff!"), tool.Fail(tool.ToolError, "\uFFFD!")},
		{"the tool's own cancellation", context.Canceled, tool.Fail(tool.ToolError, "context canceled")},
		{"the tool's own timeout", context.DeadlineExceeded, tool.Fail(tool.ToolError, "context deadline exceeded")},
		{"error without text", unreadable{}, tool.Fail(tool.ToolError, "an error of type tool_test.unreadable whose text cannot be read")},
		{"retry", tool.ModelRetry{Message: "try a date"}, retry(tool.Fail(tool.ToolError, "try a date"), "")},
		{"retry with data", &tool.ModelRetry{Message: "m", Data: map[string]int{"n": 1}}, retry(tool.Fail(tool.ToolError, "m"), `{"n":1}`)},
		{"retry inside", fmt.Errorf("search: %w", tool.ModelRetry{Message: "m"}), retry(tool.Fail(tool.ToolError, "search: m"), "")},
		{"retry with bad data", tool.ModelRetry{Message: "m", Data: math.NaN()}, retry(tool.Fail(tool.ToolError, "m (its data is not serialisable)"), "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := returning(t, func(context.Context, *tool.Context) (any, error) { return "ignored", c.err })
			require.Equal(t, c.want, d.Invoke(t.Context(), nil, json.RawMessage(`{}`)))
		})
	}
}

func TestLongErrorIsCut(t *testing.T) {
	d := returning(t, func(context.Context, *tool.Context) (any, error) { return nil, errors.New(strings.Repeat("é", 1<<16)) })
	got := d.Invoke(t.Context(), nil, json.RawMessage(`{}`)).Failure.Message
	require.Less(t, len(got), 1<<15)
	require.True(t, strings.HasSuffix(got, "…"))
}

func TestPanicIsAnErrorWithoutStack(t *testing.T) {
	var log bytes.Buffer
	d := returning(t, func(context.Context, *tool.Context) (any, error) { panic(errors.New("index out of range")) })
	got := d.Invoke(t.Context(), &tool.Context{Log: slog.New(slog.NewTextHandler(&log, nil))}, json.RawMessage(`{}`))
	require.Equal(t, tool.Fail(tool.ToolError, "the tool panicked: index out of range"), got)
	require.Contains(t, log.String(), "TestPanicIsAnErrorWithoutStack", "the operator sees the stack")
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := returning(t, func(ctx context.Context, _ *tool.Context) (any, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	got := d.Invoke(ctx, nil, json.RawMessage(`{}`))
	require.Equal(t, tool.Aborted, got.Code)
	require.True(t, got.Failure.Started)

	got = d.Invoke(ctx, nil, json.RawMessage(`{}`))
	require.Equal(t, tool.Aborted, got.Code)
	require.False(t, got.Failure.Started, "cancelled before it began")

	ctx, cancel = context.WithCancel(t.Context())
	d = returning(t, func(context.Context, *tool.Context) (any, error) { cancel(); return "done", nil })
	require.Equal(t, tool.OK, d.Invoke(ctx, nil, json.RawMessage(`{}`)).Code, "what was done is not thrown away")

	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	d = returning(t, func(ctx context.Context, _ *tool.Context) (any, error) { return nil, ctx.Err() })
	require.Equal(t, tool.Fail(tool.ToolError, "context deadline exceeded"), d.Invoke(ctx, nil, json.RawMessage(`{}`)),
		"a deadline is named by whoever set it")
}

func TestContextOfTheCall(t *testing.T) {
	given := &tool.Context{RunID: "r", CallID: "c", Attempt: 2}
	d := returning(t, func(_ context.Context, call *tool.Context) (any, error) {
		call.Log.Info("a logger is always there")
		call.RunID += " changed"
		return call.RunID + call.CallID, nil
	})
	require.Equal(t, `"r changedc"`, string(d.Invoke(t.Context(), given, json.RawMessage(`{}`)).Value))
	require.Equal(t, "r", given.RunID)
	require.Nil(t, given.Log)
	require.Equal(t, `" changed"`, string(d.Invoke(t.Context(), nil, json.RawMessage(`{}`)).Value))
}

func TestInvokeRunsNothingOnBadArguments(t *testing.T) {
	d := returning(t, func(context.Context, *tool.Context) (any, error) { panic("ran") })
	got := d.Invoke(t.Context(), nil, json.RawMessage(`[]`))
	require.Equal(t, tool.InvalidArguments, got.Code)
	require.Equal(t, []tool.Issue{{Message: "arguments must be one JSON object"}}, got.Failure.Issues)
}

func TestFromSchemaGetsTheBytes(t *testing.T) {
	d, err := tool.FromSchema("a", "d", json.RawMessage(`{"type":"object","properties":{"n":{"default":1}}}`), echo)
	require.NoError(t, err)
	input := json.RawMessage(`{ "z": 1.0, "a": 9007199254740993 }`)
	require.Equal(t, `{"z":1.0,"a":9007199254740993}`, string(d.Invoke(t.Context(), nil, input).Value))
}

func TestInvokeConcurrently(t *testing.T) {
	d, err := tool.New("find", "d", runFind)
	require.NoError(t, err)
	var wg sync.WaitGroup
	got := make([]string, 16)
	for n := range got {
		wg.Go(func() {
			got[n] = string(d.Invoke(t.Context(), nil, json.RawMessage(`{"query":"x"}`)).Value)
		})
	}
	wg.Wait()
	for _, v := range got {
		require.Equal(t, `{"query":"x","limit":10}`, v)
	}
}
