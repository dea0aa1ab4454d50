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

// raw writes whatever it is told to.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// badKey is a key of a map that cannot be written.
type badKey struct{ N int }

func (badKey) MarshalText() ([]byte, error) { return nil, errors.New("no text") }

type chain struct {
	Next *chain `json:"next,omitempty"`
}

func links(n int) *chain {
	c := &chain{}
	for range n - 1 {
		c = &chain{c}
	}
	return c
}

// links999 is the JSON of links(999).
var links999 = strings.Repeat(`{"next":`, 998) + "{}" + strings.Repeat("}", 998)

type unreadable struct{}

func (unreadable) Error() string { panic("no text") }

// hostile errors do worse.
type hostileRefusal struct{ error }

func (hostileRefusal) RefusedBy() string { panic("nobody") }

type hostileUnwrap struct{}

func (hostileUnwrap) Error() string { return "fine" }
func (hostileUnwrap) Unwrap() error { panic("no cause") }

type hostileMessage struct{ *tool.ModelRetry }

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
		{"marshaler of no JSON", raw(`{"a":}`), ""},
		{"marshaler of nothing", raw(``), ""},
		{"marshaler of two values", raw(`1 2`), ""},
		{"marshaler of bytes", raw("\"\xff\""), ""},
		{"marshaler of JSON", raw(` {"a": "\u00e9"} `), `{"a":"\u00e9"}`},
		{"raw bytes", json.RawMessage("\"\xff\""), ""},
		{"raw list without end", json.RawMessage(strings.Repeat("[", 20_000)), ""},
		{"key that fails", map[badKey]int{{1}: 1}, ""},
		{"key without text", map[struct{}]int{{}: 1}, ""},
		{"key of a float", map[float64]int{1: 1}, ""},
		{"key of an interface", map[any]int{"a": 1}, ""},
		{"key of a number", map[int]string{-1: "a"}, `{"-1":"a"}`},
		{"text of bytes", "a\xffb", "\"a\\ufffdb\""},
		{"key of bytes", map[string]int{"\xff": 1}, "{\"\\ufffd\":1}"},
		{"bytes", []byte{0xff}, `"/w=="`},
		{"number out of range of a float", json.Number("1e400"), `1e400`},
		{"number that is none", json.Number("NaN"), ""},
		{"error", errors.New("x"), `{}`},
		{"a thousand levels", links(999), links999},
		{"more than a thousand levels", links(1001), ""},
		{"ten thousand levels", links(20_000), ""},
		{"brackets in text", strings.Repeat(`[{\"`, 3000), `"` + strings.Repeat(`[{\\\"`, 3000) + `"`},
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

func cyclic() any {
	m := map[string]any{}
	m["m"] = m
	return m
}

func TestFailures(t *testing.T) {
	retry := func(r tool.Result, data string) tool.Result {
		r.Failure.Retry = true
		if data != "" {
			r.Failure.Data = json.RawMessage(data)
		}
		return r
	}
	started := func(r tool.Result) tool.Result {
		r.Failure.Started = true
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
		{"refusal of nobody", hostileRefusal{errors.New("x")}, tool.Fail(tool.ToolError, "an error of type tool_test.hostileRefusal that cannot be read")},
		{"cause that panics", hostileUnwrap{}, tool.Fail(tool.ToolError, "an error of type tool_test.hostileUnwrap that cannot be read")},
		{"unsure", fmt.Errorf("send: %w", tool.Unsure{Message: "the line broke"}), started(tool.Fail(tool.EffectUnknown, "send: the line broke"))},
		{"nil retry", (*tool.ModelRetry)(nil), tool.Fail(tool.ToolError, "an error of type *tool.ModelRetry whose text cannot be read")},
		{"nil retry inside", hostileMessage{}, tool.Fail(tool.ToolError, "an error of type tool_test.hostileMessage whose text cannot be read")},
		{"retry with a cycle", tool.ModelRetry{Message: "m", Data: cyclic()}, retry(tool.Fail(tool.ToolError, "m (its data is not serialisable)"), "")},
		{"retry without a message", tool.ModelRetry{}, retry(tool.Fail(tool.ToolError, ""), "")},
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
	require.Contains(t, log.String(), "a value of type *errors.errorString")
	require.NotContains(t, log.String(), "index out of range", "the text may be a secret, and nobody redacts a log")
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
