package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

// Counts is what expvar publishes.
var _ expvar.Var = (*plugins.Counts)(nil)

func TestMetrics(t *testing.T) {
	var counts plugins.Counts
	now := time.Unix(0, 0)
	inside := int64(-1)
	p := mount(t, made(t)(plugins.Metrics(plugins.MetricsConfig{Recorder: &counts, Now: func() time.Time { now = now.Add(time.Second); return now }})),
		having(doing("t", func(_ context.Context, in json.RawMessage) (any, error) {
			inside = counts.Value(plugins.MetricInFlight, plugins.Labels{Tool: "t"})
			if string(in) == `{"fail":true}` {
				return nil, errors.New("broken")
			}
			return "fine", nil
		}), doing("asks", fine, tool.NeedsApproval())))
	for _, call := range [][2]string{{"t", `{}`}, {"t", `{}`}, {"t", `{"fail":true}`}, {"t", `[]`}, {"asks", `{}`}, {"made up", `{}`}, {"made up too", `{}`}} {
		p.Execute(t.Context(), call[0], json.RawMessage(call[1]))
	}
	assert.EqualValues(t, 1, inside)
	assert.JSONEq(t, `{
		"assent_tool_executions{tool=\"t\"}": 3,
		"assent_tool_in_flight{tool=\"t\"}": 0,
		"assent_tool_duration{tool=\"t\",code=\"OK\"}": {"count": 2, "sumNs": 2000000000, "maxNs": 1000000000},
		"assent_tool_duration{tool=\"t\",code=\"TOOL_ERROR\"}": {"count": 1, "sumNs": 1000000000, "maxNs": 1000000000},
		"assent_tool_results{tool=\"t\",code=\"OK\"}": 2,
		"assent_tool_results{tool=\"t\",code=\"TOOL_ERROR\"}": 1,
		"assent_tool_results{tool=\"t\",code=\"INVALID_ARGUMENTS\"}": 1,
		"assent_tool_results{tool=\"asks\",code=\"DENIED\"}": 1,
		"assent_tool_results{tool=\"unknown\",code=\"UNKNOWN_TOOL\"}": 2
	}`, counts.String())
	assert.Equal(t, plugins.Timing{Count: 2, Sum: 2 * time.Second, Max: time.Second}, counts.Timing(plugins.MetricDuration, plugins.Labels{Tool: "t", Code: tool.OK}))
}

// Names that a model or a service makes up never become labels, and those of real tools only so many.
func TestMetricsLabelsAreBounded(t *testing.T) {
	var counts plugins.Counts
	p := mount(t, made(t)(plugins.Metrics(plugins.MetricsConfig{Recorder: &counts, MaxTools: 3, Tools: []string{"Refund"}})))
	observe := func(name string, info tool.Info, code tool.Code) {
		info.Name = name
		p.Observe(t.Context(), pipeline.Call{ID: name, Name: name, Info: info}, tool.Fail(code, "x"))
	}
	for n := range 1000 {
		observe(fmt.Sprint("made-up-", n), tool.Info{}, tool.Skipped)
		observe(fmt.Sprint("unknown-", n), tool.Info{Description: "x"}, tool.UnknownTool)
		observe(fmt.Sprint("real-", n), tool.Info{Description: "x"}, tool.Denied)
		observe("Refund", tool.Info{}, tool.Code(fmt.Sprint("CODE_", n)))
	}
	assert.JSONEq(t, `{
		"assent_tool_results{tool=\"unknown\",code=\"SKIPPED\"}": 1000,
		"assent_tool_results{tool=\"unknown\",code=\"UNKNOWN_TOOL\"}": 1000,
		"assent_tool_results{tool=\"real-0\",code=\"DENIED\"}": 1,
		"assent_tool_results{tool=\"real-1\",code=\"DENIED\"}": 1,
		"assent_tool_results{tool=\"other\",code=\"DENIED\"}": 998,
		"assent_tool_results{tool=\"Refund\",code=\"other\"}": 1000
	}`, counts.String())
}

type brokenRecorder struct{}

func (brokenRecorder) Count(string, int64, plugins.Labels)        { panic("count") }
func (brokenRecorder) Gauge(string, int64, plugins.Labels)        { panic("gauge") }
func (brokenRecorder) Time(string, time.Duration, plugins.Labels) { panic("time") }

// A recorder that breaks changes nothing for the call.
func TestMetricsThatBreak(t *testing.T) {
	p := mount(t, made(t)(plugins.Metrics(plugins.MetricsConfig{Recorder: brokenRecorder{}})), having(doing("t", fine)))
	for range 3 {
		require.True(t, p.Execute(t.Context(), "t", json.RawMessage(`{}`)).IsOK())
	}
}

// Whatever happens inside, nothing stays in flight.
func TestMetricsInFlightReturns(t *testing.T) {
	var counts plugins.Counts
	p := mount(t, made(t)(plugins.Metrics(plugins.MetricsConfig{Recorder: &counts})),
		having(doing("t", func(context.Context, json.RawMessage) (any, error) { panic("x") })))
	scope, err := p.Mount(wrapping(func(tool.Result) tool.Result { panic("y") }))
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { p.Execute(t.Context(), "t", json.RawMessage(`{}`)) })
	}
	all.Wait()
	scope.Close()
	assert.Zero(t, counts.Value(plugins.MetricInFlight, plugins.Labels{Tool: "t"}))
	assert.EqualValues(t, 20, counts.Value(plugins.MetricExecutions, plugins.Labels{Tool: "t"}))
}

func TestMetricsConfigErrors(t *testing.T) {
	for name, c := range map[string]plugins.MetricsConfig{
		"none": {}, "nil": {Recorder: (*plugins.Counts)(nil)}, "most": {Recorder: &plugins.Counts{}, MaxTools: -1},
		"tools": {Recorder: &plugins.Counts{}, MaxTools: 1, Tools: []string{"a", "b"}},
	} {
		_, err := plugins.Metrics(c)
		assert.True(t, fault.IsConfig(err), "%s: %v", name, err)
	}
}
