package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

type find struct {
	Query string `json:"query" jsonschema:"description=What to look for"`
	Limit int    `json:"limit,omitempty" jsonschema:"default=10,minimum=1"`
}

func runFind(_ context.Context, _ *tool.Context, in find) (find, error) { return in, nil }

func TestOptions(t *testing.T) {
	yes, no, version := true, false, "2"
	for _, c := range []struct {
		name string
		opts []tool.Option
		want tool.Info
	}{
		{"none", nil, tool.Info{Executor: tool.InProcess}},
		{"read tools overlap", []tool.Option{tool.Read}, tool.Info{Risk: tool.Read, Executor: tool.InProcess, Concurrent: true}},
		{"unless declared otherwise", []tool.Option{tool.Concurrent(false), tool.Risk(tool.Read)}, tool.Info{Risk: tool.Read, Executor: tool.InProcess}},
		{"each", []tool.Option{tool.Write, tool.Version("2"), tool.NeedsApproval(), tool.Executor("inprocess"), tool.Timeout(time.Second), tool.Idempotent(), tool.Concurrent(true)},
			tool.Info{Risk: tool.Write, Version: &version, NeedsApproval: true, Executor: tool.InProcess, Timeout: time.Second, Idempotent: true, Concurrent: true}},
		{"struct", []tool.Option{tool.Options{Risk: tool.Write, Version: &version, NeedsApproval: true, Executor: "inprocess", Timeout: time.Second, Idempotent: true, Concurrent: &yes}},
			tool.Info{Risk: tool.Write, Version: &version, NeedsApproval: true, Executor: tool.InProcess, Timeout: time.Second, Idempotent: true, Concurrent: true}},
		{"zero fields set nothing", []tool.Option{tool.Read, tool.NeedsApproval(), tool.Options{}}, tool.Info{Risk: tool.Read, NeedsApproval: true, Executor: tool.InProcess, Concurrent: true}},
		{"later wins", []tool.Option{tool.Read, tool.Options{Risk: tool.Network, Concurrent: &yes}, tool.Options{Concurrent: &no}}, tool.Info{Risk: tool.Network, Executor: tool.InProcess}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := tool.New("find", "Finds things", runFind, c.opts...)
			require.NoError(t, err)
			got := d.Info()
			require.NotEmpty(t, got.Parameters)
			got.Parameters = nil
			c.want.Name, c.want.Description = "find", "Finds things"
			require.Equal(t, c.want, got)
		})
	}
}

func TestBadDefinitions(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	with := func(o tool.Option) func() error {
		return func() error { _, err := tool.New("find", "d", runFind, o); return err }
	}
	schema := func(raw string) func() error {
		return func() error { _, err := tool.FromSchema("a", "d", json.RawMessage(raw), echo); return err }
	}
	for _, c := range []struct {
		name, key, text string
		define          func() error
	}{
		{"name", "tools.name", "illegal tool name", func() error { _, err := tool.New("a.b", "d", runFind); return err }},
		{"long name", "tools.name", "illegal tool name", func() error { _, err := tool.New(strings.Repeat("a", 65), "d", runFind); return err }},
		{"description", "tools.a.description", "is missing", func() error { _, err := tool.New("a", " \n", runFind); return err }},
		{"description of bytes", "tools.a", "utf-8", func() error { _, err := tool.New("a", "\xff", runFind); return err }},
		{"version of bytes", "tools.find", "utf-8", with(tool.Version("\xff"))},
		{"nil function", "tools.a", "function is nil", func() error { _, err := tool.New[find, find]("a", "d", nil); return err }},
		{"nil function beside a schema", "tools.a", "function is nil", func() error { _, err := tool.FromSchema("a", "d", object, nil); return err }},
		{"nil validate", "tools.a", "validate function is nil", func() error { _, err := tool.FromPair("a", "d", object, nil, echo); return err }},
		{"nil function of a pair", "tools.a", "function is nil", func() error {
			_, err := tool.FromPair("a", "d", object, func(json.RawMessage) error { return nil }, nil)
			return err
		}},
		{"nil option", "tools.find", "option is nil", with(nil)},
		{"nil options", "tools.find", "option is nil", with((*tool.Options)(nil))},
		{"risk", "tools.find.risk", `unknown risk "spicy"; one of read, write, network, execute, destructive`, with(tool.Risk("spicy"))},
		{"executor", "tools.find.executor", `unknown executor "container"; one of inprocess`, with(tool.Executor("container"))},
		{"timeout", "tools.find.timeout", "is negative: -1s", with(tool.Timeout(-time.Second))},
		{"no schema", "tools.a.parameters", "is not a JSON text", schema(``)},
		{"two schemas", "tools.a.parameters", "data after the value", schema(`{"type":"object"}{}`)},
		{"key twice", "tools.a.parameters", "duplicate key", schema(`{"type":"object","type":"object"}`)},
		{"no type", "tools.a.parameters", "must be an object schema", schema(`{"properties":{}}`)},
		{"type in a list", "tools.a.parameters", "must be an object schema", schema(`{"type":["object"]}`)},
		{"schema of a string", "tools.a.parameters", "must be an object schema", schema(`{"type":"string"}`)},
		{"struct that is none", "tools.a.parameters", "must be an object schema", func() error {
			_, err := tool.New("a", "d", func(context.Context, *tool.Context, string) (any, error) { return nil, nil })
			return err
		}},
		{"any", "tools.a.parameters", "must be an object schema", func() error {
			_, err := tool.New("a", "d", func(context.Context, *tool.Context, any) (any, error) { return nil, nil })
			return err
		}},
		{"object without methods", "tools", "int is no tool", func() error { _, err := tool.FromObject(1); return err }},
		{"nothing", "tools", "is no tool", func() error { _, err := tool.FromObject(nil); return err }},
		{"nil object", "tools", "nil *tool_test.clock", func() error { _, err := tool.FromObject((*clock)(nil)); return err }},
		{"nil tool in a set", "tools", "tool 0 is nil", func() error { _, err := tool.ToolsetOf(nil); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.define()
			var config *fault.ConfigError
			require.ErrorAs(t, err, &config)
			require.Equal(t, c.key, config.Key)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestMustNew(t *testing.T) {
	require.NotPanics(t, func() { tool.MustNew("find", "d", runFind) })
	require.Panics(t, func() { tool.MustNew("", "d", runFind) })
}

func TestDescriptionIsKeptAsWritten(t *testing.T) {
	d, err := tool.New("find", " Finds things.\n", runFind)
	require.NoError(t, err)
	require.Equal(t, " Finds things.\n", d.Info().Description)
}

// The parameters go to the model as somebody wrote them, white space aside.
func TestHandWrittenSchemaIsKept(t *testing.T) {
	raw := json.RawMessage(`{ "type": "object", "x-vendor": {"title": "<T>"},
		"properties": {"b": {"$ref": "#/$defs/s"}, "a": {"const": 1.0}}, "$defs": {"s": {"type": "string"}} }`)
	d, err := tool.FromSchema("a", "d", raw, echo)
	require.NoError(t, err)
	want := `{"type":"object","x-vendor":{"title":"<T>"},"properties":{"b":{"$ref":"#/$defs/s"},"a":{"const":1.0}},"$defs":{"s":{"type":"string"}}}`
	require.Equal(t, want, string(d.Info().Parameters))

	// What callers do to their copies never reaches the definition.
	d.Info().Parameters[0] = 'X'
	raw[0] = 'X'
	require.Equal(t, want, string(d.Info().Parameters))
}

type clock struct{ parameters json.RawMessage }

func (*clock) Name() string                  { return "clock" }
func (*clock) Description() string           { return "Tells the time" }
func (c *clock) Parameters() json.RawMessage { return c.parameters }
func (*clock) Execute(_ context.Context, input json.RawMessage) (any, error) {
	return map[string]any{"got": input}, nil
}

type bareClock struct{}

func (bareClock) Name() string        { return "bare" }
func (bareClock) Description() string { return "Tells the time" }
func (bareClock) Execute(context.Context, json.RawMessage) (any, error) {
	return nil, errors.New("stopped")
}

func TestFromObject(t *testing.T) {
	d, err := tool.FromObject(bareClock{}, tool.Read)
	require.NoError(t, err)
	require.Equal(t, `{"type":"object","properties":{}}`, string(d.Info().Parameters))
	require.Equal(t, tool.Read, d.Info().Risk)
	require.Equal(t, tool.Fail(tool.ToolError, "stopped"), d.Invoke(t.Context(), nil, json.RawMessage(`{}`)))

	d, err = tool.FromObject(&clock{})
	require.NoError(t, err)
	require.Equal(t, `{"type":"object","properties":{}}`, string(d.Info().Parameters))

	d, err = tool.FromObject(&clock{json.RawMessage(`{"type":"object","required":["zone"]}`)})
	require.NoError(t, err)
	require.Equal(t, "clock", d.Name())
	require.Len(t, d.Validate(json.RawMessage(`{}`)), 1)
	require.JSONEq(t, `{"got":{"zone":"UTC"}}`, string(d.Invoke(t.Context(), nil, json.RawMessage(`{"zone":"UTC"}`)).Value))

	_, err = tool.FromObject(&clock{json.RawMessage(`[]`)})
	require.True(t, fault.IsConfig(err))
}

// remote records what a runner is given.
type remote struct {
	info  tool.Info
	input string
}

func (r *remote) Run(ctx context.Context, info tool.Info, _ *tool.Context, input json.RawMessage, body tool.Body) (any, error) {
	r.info, r.input = info, string(input)
	if r.input == `{"query":"panic"}` {
		panic("no container")
	}
	return body(ctx)
}

// executors counts the names taken so far: executors are registered for the life of the process, and tests may
// run more than once in one.
var executors atomic.Int32

func TestRegisterExecutor(t *testing.T) {
	vm := fmt.Sprintf("vm%d", executors.Add(1))
	for _, c := range []struct {
		name string
		r    tool.Runner
	}{{"", &remote{}}, {"vm", nil}, {tool.InProcess, &remote{}}} {
		require.True(t, fault.IsConfig(tool.RegisterExecutor(c.name, c.r)), c.name)
	}
	r := &remote{}
	require.NoError(t, tool.RegisterExecutor(vm, r))
	require.True(t, fault.IsConfig(tool.RegisterExecutor(vm, r)), "twice")

	d, err := tool.New("find", "d", runFind, tool.Executor(vm))
	require.NoError(t, err)
	got := d.Invoke(t.Context(), nil, json.RawMessage(`{"query":"x"}`))
	require.Equal(t, tool.OK, got.Code)
	require.Equal(t, `{"query":"x","limit":10}`, string(got.Value))
	require.Equal(t, vm, r.info.Executor)
	require.Equal(t, `{"query":"x"}`, r.input, "the bytes that were decided on")

	got = d.Invoke(t.Context(), nil, json.RawMessage(`{"query":"panic"}`))
	require.Equal(t, tool.Fail(tool.ToolError, "the tool panicked: no container"), got)

	_, err = tool.New("find", "d", runFind, tool.Executor("moon"))
	require.ErrorContains(t, err, `unknown executor "moon"; one of inprocess, vm1`)
}
