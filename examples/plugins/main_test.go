package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

// codes are those of the record, with the tool.
func codes(t *testing.T, record string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(record) {
		var r plugins.AuditRecord
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		out = append(out, r.Tool+" "+string(r.Code))
	}
	return out
}

// A rule holds for every tool, also for one that comes later, until it is unmounted; the tools, the record and the budget stay.
func TestExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(context.Background(), nil, nil, &stdout, &stderr), stderr.String())
	require.Equal(t, `search {"query":"kernel"} {"code":"OK","value":["the kernel"]}
search {"query":""} {"code":"TOOL_TIMEOUT","failure":{"message":"search exceeded 2s"}}
delete {"path":"/tmp/a"} {"code":"OK","value":"deleted /tmp/a"}
delete {"path":"/"} {"code":"DENIED","failure":{"message":"refusing to touch the root of the file system","reason":"guard","by":"no-root"}}
wipe {"path":"/"} {"code":"DENIED","failure":{"message":"refusing to touch the root of the file system","reason":"guard","by":"no-root"}}
delete {"path":"/"} {"code":"OK","value":"deleted /"}
wipe {"path":"/"} {"code":"OK","value":"wiped /"}
`, stdout.String())
	require.Equal(t, []string{"search OK", "search TOOL_TIMEOUT", "delete OK", "delete DENIED", "wipe DENIED", "delete OK", "wipe OK"}, codes(t, stderr.String()))
}

// meter is a metrics handler that keeps what it was told.
type meter struct {
	tags map[string]string
	seen map[string]any
}

func (m meter) key(name string) string {
	return name + " " + m.tags["tool"] + " " + m.tags["code"]
}

func (m meter) WithTags(tags map[string]string) client.MetricsHandler { return meter{tags, m.seen} }

func (m meter) Counter(name string) client.MetricsCounter {
	return counter(func(n int64) { m.seen[m.key(name)] = n })
}

func (m meter) Gauge(name string) client.MetricsGauge {
	return gauge(func(v float64) { m.seen[m.key(name)] = v })
}

func (m meter) Timer(name string) client.MetricsTimer {
	return timer(func(d time.Duration) { m.seen[m.key(name)] = d })
}

type (
	counter func(int64)
	gauge   func(float64)
	timer   func(time.Duration)
)

func (f counter) Inc(n int64)          { f(n) }
func (f gauge) Update(v float64)       { f(v) }
func (f timer) Record(d time.Duration) { f(d) }

// Numbers reach Temporal's metrics with their labels as tags.
func TestTemporalMetrics(t *testing.T) {
	m := meter{seen: map[string]any{}}
	var now time.Time
	plugin, err := plugins.Metrics(plugins.MetricsConfig{Recorder: temporal{m}, Now: func() time.Time { now = now.Add(time.Second); return now }})
	require.NoError(t, err)
	p := pipeline.New(pipeline.Config{})
	defer p.Close()
	for _, mounted := range []pipeline.Plugin{plugin, remove} {
		_, err := p.Mount(mounted)
		require.NoError(t, err)
	}
	require.True(t, p.Execute(t.Context(), "delete", json.RawMessage(`{"path":"/a"}`)).IsOK())
	require.Equal(t, map[string]any{
		"assent_tool_executions delete ": int64(1), "assent_tool_results delete OK": int64(1), "assent_tool_in_flight delete ": float64(0),
		"assent_tool_duration delete OK": time.Second,
	}, m.seen)
}

// The Go code of the page about plugins is code of this program and of the worker it builds.
func TestPageShowsThisProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugins.md")
	require.NoError(t, err)
	var program string
	for _, name := range []string{"main.go", "safety.go", "temporal.go", "worker.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		program += string(source)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	require.GreaterOrEqual(t, len(blocks), 3)
	for _, b := range blocks {
		code, _, closed := strings.Cut(b, "```")
		require.True(t, closed)
		for part := range strings.SplitSeq(strings.TrimSpace(code), "\n\n") {
			require.Contains(t, program, strings.TrimSpace(part))
		}
	}
}

// The set of the page mounts, and each plugin of it acts.
func TestStack(t *testing.T) {
	var out, log bytes.Buffer
	stack, logger, err := stack(meter{seen: map[string]any{}}, &out, slog.NewTextHandler(&log, nil))
	require.NoError(t, err)
	p := pipeline.New(pipeline.Config{Log: logger})
	defer p.Close()
	for _, mounted := range append(stack, remove) {
		_, err := p.Mount(mounted)
		require.NoError(t, err)
	}
	r := p.Execute(t.Context(), "delete", json.RawMessage(`{"path":"password=hunter2"}`))
	require.JSONEq(t, `"deleted password=[redacted:password]"`, string(r.Value))
	logger.Info("password=hunter2")
	require.Contains(t, log.String(), "[redacted:password]")
	require.Contains(t, out.String(), `"code":"OK"`)
}
