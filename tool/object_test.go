package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

// told is a tool that answers as it is told.
type told struct {
	name, description func() string
	parameters        func() json.RawMessage
}

func (o told) Name() string                { return o.name() }
func (o told) Description() string         { return o.description() }
func (o told) Parameters() json.RawMessage { return o.parameters() }
func (o told) Execute(context.Context, json.RawMessage) (any, error) {
	panic("not now")
}

type mapTool map[string]string

func (m mapTool) Name() string        { return "map" }
func (m mapTool) Description() string { return "Looks up." + m["more"] }
func (m mapTool) Execute(_ context.Context, input json.RawMessage) (any, error) {
	return len(m), nil
}

type funcTool func() string

func (f funcTool) Name() string        { return "func" }
func (f funcTool) Description() string { return f() }
func (f funcTool) Execute(context.Context, json.RawMessage) (any, error) {
	return f(), nil
}

type bytesParameters struct{ bareClock }

func (bytesParameters) Parameters() []byte { return []byte(`{"type":"object","required":["x"]}`) }

type wrongParameters struct{ bareClock }

func (wrongParameters) Parameters() map[string]any { return nil }

type wrongExecute struct{}

func (wrongExecute) Name() string                                        { return "a" }
func (wrongExecute) Description() string                                 { return "d" }
func (wrongExecute) Execute(context.Context, string) (any, error)        { return nil, nil }
func (wrongExecute) Other(context.Context, json.RawMessage) (any, error) { return nil, nil }

func TestObjectsThatAreNoTools(t *testing.T) {
	text := func(s string) func() string { return func() string { return s } }
	fails := func() string { panic("no name today") }
	none := func() json.RawMessage { return nil }
	raw := func(s string) func() json.RawMessage { return func() json.RawMessage { return json.RawMessage(s) } }
	for _, c := range []struct {
		name  string
		value any
		text  string
	}{
		{"nothing", nil, "is no tool"},
		{"number", 7, "int is no tool"},
		{"Execute of another form", wrongExecute{}, "is no tool"},
		{"methods of the pointer alone", clock{}, "is no tool"},
		{"nil pointer", (*clock)(nil), "the tool is a nil *tool_test.clock"},
		{"nil function", funcTool(nil), "the tool is a nil tool_test.funcTool"},
		{"Name panics", told{fails, text("d"), none}, "panics when it is asked what it is: no name today"},
		{"nil inside", told{}, "panics when it is asked what it is"},
		{"Description panics", told{text("a"), fails, none}, "panics when it is asked what it is: no name today"},
		{"Parameters panics", told{text("a"), text("d"), func() json.RawMessage { panic("none") }}, "panics when it is asked"},
		{"Parameters of another form", wrongParameters{}, "is a func() map[string]interface {}; want func() json.RawMessage"},
		{"Parameters as bytes", bytesParameters{}, "is a func() []uint8; want func() json.RawMessage"},
		{"Parameters empty", told{text("a"), text("d"), raw("")}, "is not a JSON text"},
		{"Parameters null", told{text("a"), text("d"), raw("null")}, "want an object"},
		{"bad name", told{text("a b"), text("d"), none}, "illegal tool name"},
		{"no name", told{text(""), text("d"), none}, "illegal tool name"},
		{"no description", told{text("a"), text(""), none}, "is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := tool.FromObject(c.value)
			require.Nil(t, d)
			var config *fault.ConfigError
			require.ErrorAs(t, err, &config)
			require.NotEmpty(t, config.Key)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestObjectsThatAreTools(t *testing.T) {
	d, err := tool.FromObject(mapTool(nil))
	require.NoError(t, err, "a nil map is a value like another")
	require.Equal(t, "0", string(d.Invoke(t.Context(), nil, json.RawMessage(`{}`)).Value))

	asked := 0
	d, err = tool.FromObject(told{func() string { asked++; return "a" }, func() string { return "d" }, func() json.RawMessage { return nil }})
	require.NoError(t, err)
	require.Equal(t, tool.Fail(tool.ToolError, "the tool panicked: not now"), d.Invoke(t.Context(), nil, json.RawMessage(`{}`)))
	require.Equal(t, 1, asked, "what a tool is, is asked once")
}
