package plugins

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// The names of the metrics.
const (
	// MetricExecutions counts executions that have begun, by tool.
	MetricExecutions = "assent_tool_executions"
	// MetricResults counts outcomes of every kind, refused calls included, by tool and code.
	MetricResults = "assent_tool_results"
	// MetricDuration is the time of one execution, by tool and code.
	MetricDuration = "assent_tool_duration"
	// MetricInFlight is how many executions are under way, by tool.
	MetricInFlight = "assent_tool_in_flight"
)

// The labels of tools that have none of their own.
const (
	// UnknownTool stands for names that a model made up.
	UnknownTool = "unknown"
	// OtherTool stands for tools beyond MetricsConfig.MaxTools.
	OtherTool = "other"
)

// DefaultMaxTools bounds the distinct names of tools among the labels.
const DefaultMaxTools = 200

// Labels tell apart what a metric measured. Code is empty where a metric has none.
type Labels struct {
	Tool string
	Code tool.Code
}

// Recorder is where numbers go. It is called by several goroutines at once and should be quick; its panics are swallowed,
// because a metric that fails must not fail a call.
type Recorder interface {
	// Count adds n to a counter.
	Count(metric string, n int64, labels Labels)
	// Gauge sets the present value.
	Gauge(metric string, value int64, labels Labels)
	// Time records one duration.
	Time(metric string, d time.Duration, labels Labels)
}

// MetricsConfig says where numbers go. Recorder is needed.
type MetricsConfig struct {
	Recorder Recorder
	// Tools are names that are labels from the start: activities and operations of a team's own, which a guard refuses
	// before anybody knows them. Others become labels when their definition was seen or when they ran.
	Tools []string
	// MaxTools bounds the distinct names; zero is DefaultMaxTools.
	MaxTools int
	// Now tells the time; nil is time.Now.
	Now func() time.Time
}

// Metrics returns the plugin that measures calls by tool. It wraps what is mounted after it. Labels are bounded: names
// that no worker knows are UnknownTool, and codes are those of the closed list.
func Metrics(config MetricsConfig) (pipeline.Plugin, error) {
	switch {
	case isNil(config.Recorder):
		return nil, fault.Configf("metrics.recorder", "is nil")
	case config.MaxTools < 0:
		return nil, fault.Configf("metrics.maxTools", "is negative")
	}
	if config.MaxTools == 0 {
		config.MaxTools = DefaultMaxTools
	}
	if len(config.Tools) > config.MaxTools {
		return nil, fault.Configf("metrics.tools", "are %d, more than maxTools, %d", len(config.Tools), config.MaxTools)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	m := &metrics{config: config, known: map[string]bool{}, running: map[string]int64{}}
	for _, name := range config.Tools {
		m.known[name] = true
	}
	return pipeline.PluginFunc("metrics", func(s *pipeline.Scope) error {
		if err := s.Wrap(m.wrap); err != nil {
			return err
		}
		return s.Observe(m.observe)
	}), nil
}

type metrics struct {
	config MetricsConfig

	mu      sync.Mutex
	known   map[string]bool
	running map[string]int64
}

func (m *metrics) wrap(ctx context.Context, call pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
	labels := Labels{Tool: m.label(call.Name, true)}
	m.record(func(r Recorder) { r.Count(MetricExecutions, 1, labels) })
	m.move(labels, 1)
	// Also when what is inside ends this goroutine.
	defer m.move(labels, -1)
	start := m.config.Now()
	result := next(ctx)
	d := max(m.config.Now().Sub(start), 0)
	labels.Code = boundedCode(result.Code)
	m.record(func(r Recorder) { r.Time(MetricDuration, d, labels) })
	labels.Code = ""
	return result, nil
}

func (m *metrics) observe(_ context.Context, call pipeline.Call, result tool.Result) error {
	i := call.Info
	seen := result.Code != tool.UnknownTool && (i.Description != "" || len(i.Parameters) > 0 || i.Risk != tool.Undeclared)
	labels := Labels{Tool: m.label(call.Name, seen), Code: boundedCode(result.Code)}
	m.record(func(r Recorder) { r.Count(MetricResults, 1, labels) })
	return nil
}

// label returns the label of a tool. isKnown says that the name is no invention of a model.
func (m *metrics) label(name string, isKnown bool) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.known[name]:
		return name
	case !isKnown:
		return UnknownTool
	case len(m.known) >= m.config.MaxTools:
		return OtherTool
	}
	m.known[name] = true
	return name
}

// move changes how many executions are under way. The lock is held over the report, so that the last one is right.
func (m *metrics) move(labels Labels, by int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.running[labels.Tool] + by
	m.running[labels.Tool] = n
	m.record(func(r Recorder) { r.Gauge(MetricInFlight, n, labels) })
}

func (m *metrics) record(f func(Recorder)) {
	defer func() { _ = recover() }()
	f(m.config.Recorder)
}

var knownCodes = []tool.Code{
	tool.OK, tool.UnknownTool, tool.InvalidArguments, tool.Denied, tool.Blocked, tool.ToolError, tool.ToolTimeout,
	tool.Aborted, tool.NonSerializable, tool.ContractDrift, tool.Skipped, tool.EffectUnknown, tool.EnvironmentLost,
}

func boundedCode(c tool.Code) tool.Code {
	if slices.Contains(knownCodes, c) {
		return c
	}
	return tool.Code(OtherTool)
}
