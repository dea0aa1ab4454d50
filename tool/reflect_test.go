package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

var update = flag.Bool("update", false, "write the golden schemas anew")

type base struct {
	ID string `json:"id" jsonschema_description:"Who, and why"`
}

type Shared struct {
	Note string `json:"note,omitempty"`
}

type color string

func (color) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Enum: []any{"red", "green"}}
}

type level int

func (l *level) UnmarshalText(text []byte) error { *l = level(len(text)); return nil }

type kinds struct {
	Bool    bool            `json:"bool"`
	Int     int64           `json:"int"`
	Float   float32         `json:"float"`
	Text    string          `json:"text"`
	Bytes   []byte          `json:"bytes"`
	Strings []string        `json:"strings"`
	Array   [2]int          `json:"array"`
	Matrix  [][]float64     `json:"matrix"`
	Map     map[string]int  `json:"map"`
	ByInt   map[int]string  `json:"byInt"`
	AnyMap  map[string]any  `json:"anyMap"`
	Any     any             `json:"any"`
	Anys    []any           `json:"anys"`
	Raw     json.RawMessage `json:"raw"`
	Time    time.Time       `json:"time"`
	Wait    time.Duration   `json:"wait"`
	Number  json.Number     `json:"number"`
	Big     *big.Int        `json:"big"`
	Addr    netip.Addr      `json:"addr"`
	Level   level           `json:"level"`
	Color   color           `json:"color"`
	Own     strict          `json:"own"`
	Flag    *bool           `json:"flag"`
	Inner   *line           `json:"inner"`
	Empty   struct{}        `json:"empty"`
	Quoted  int             `json:"quoted,string"`
}

type optional struct {
	base
	*Shared
	A        string    `json:"a,omitempty"`
	B        *bool     `json:"b,omitempty"`
	C        time.Time `json:"c,omitzero"`
	D        []base    `json:"d,omitempty"`
	NoTag    int       `json:",omitempty"`
	Skipped  string    `json:"-"`
	NoSchema string    `json:"-" jsonschema:"-"`
	hidden   func() int
}

// JSON does not see the field, and neither does the schema.
var _ = optional{}.hidden

type tagged struct {
	Text  string   `json:"text" jsonschema:"title=T,description=One\\, two,minLength=1,maxLength=9,pattern=^a,enum=a,enum=ab,example=a"`
	Count int      `json:"count,omitempty" jsonschema:"description=How many,minimum=1,maximum=9,default=3"`
	Ratio float64  `json:"ratio,omitempty" jsonschema:"exclusiveMinimum=0,multipleOf=0.5,default=0.5"`
	On    bool     `json:"on,omitempty" jsonschema:"default=true"`
	Tags  []string `json:"tags,omitempty" jsonschema:"minItems=1,uniqueItems=true,default=x,default=y"`
	Ports []int    `json:"ports,omitempty" jsonschema:"default=80,default=443"`
	Free  any      `json:"free,omitempty" jsonschema_description:"Anything"`
	Must  string   `json:"must,omitempty" jsonschema:"required"`
}

// generic has a name that no schema shows.
type generic[A, B any] struct {
	First  A              `json:"first"`
	Rest   []generic1[B]  `json:"rest,omitempty"`
	Level  int            `json:"level" jsonschema:"enum=1,enum=2"`
	Labels []string       `json:"labels" jsonschema:"enum=x,enum=y"`
	Parts  [][]byte       `json:"parts"`
	By     map[word]*B    `json:"by"`
	Free   any            `json:"free" jsonschema:"oneof_type=string;integer"`
	Off    bool           `json:"off" jsonschema:"default=false"`
	Nested map[string][]A `json:"nested"`
	Word   word           `json:"word"`
	Deep   **[]int        `json:"deep"`
	Quoted *bool          `json:"quoted,string"`
	Odd    string         `json:"a b$ö.c"`
}

type generic1[T any] struct {
	Value T `json:"value"`
}

func golden[T any](t *testing.T, name string) {
	t.Helper()
	got, err := tool.SchemaFor[T]()
	require.NoError(t, err)
	again, err := tool.SchemaFor[*T]()
	require.NoError(t, err)
	require.Equal(t, string(got), string(again), "the same every time, and through a pointer")
	_, err = tool.CompileSchema(got)
	require.NoError(t, err)
	for _, never := range []string{`"$schema"`, `"$id"`, `"$ref"`, `"$defs"`, `"$comment"`, `"null"`, `:true,"type"`} {
		require.NotContains(t, string(got), never)
	}
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, got, "", "  "))
	path := filepath.Join("testdata", "schemas", name+".json")
	if *update {
		require.NoError(t, os.WriteFile(path, append(indented.Bytes(), '\n'), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), indented.String()+"\n")
}

func TestSchemaFor(t *testing.T) {
	t.Run("kinds", func(t *testing.T) { golden[kinds](t, "kinds") })
	t.Run("optional", func(t *testing.T) { golden[optional](t, "optional") })
	t.Run("tagged", func(t *testing.T) { golden[tagged](t, "tagged") })
	t.Run("generic", func(t *testing.T) { golden[generic[int, string]](t, "generic") })
	t.Run("map", func(t *testing.T) { golden[map[string][]base](t, "map") })
	t.Run("list", func(t *testing.T) { golden[[]base](t, "list") })

	empty, err := tool.SchemaFor[struct{}]()
	require.NoError(t, err)
	require.Equal(t, `{"type":"object","properties":{}}`, string(empty))
	anything, err := tool.SchemaFor[any]()
	require.NoError(t, err)
	require.Equal(t, `{}`, string(anything))
}

// What encoding/json writes for a value fits the schema of its type.
func TestSchemaFitsEncoding(t *testing.T) {
	flag := true
	raw, err := tool.SchemaFor[kinds]()
	require.NoError(t, err)
	v, err := tool.CompileSchema(raw)
	require.NoError(t, err)
	value, err := json.Marshal(kinds{
		Bytes: []byte("x"), Strings: []string{}, Matrix: [][]float64{{1.5}}, Map: map[string]int{"a": 1}, ByInt: map[int]string{-1: "x"},
		AnyMap: map[string]any{"x": nil}, Anys: []any{1, "a"}, Raw: json.RawMessage(`[1]`), Time: time.Unix(0, 0).UTC(), Number: "1.5",
		Big: big.NewInt(7), Addr: netip.MustParseAddr("::1"), Color: "red", Flag: &flag, Inner: &line{SKU: "a", Qty: 1},
	})
	require.NoError(t, err)
	value = bytes.Replace(value, []byte(`"level":0`), []byte(`"level":"high"`), 1)
	require.Empty(t, v.Validate(value))
}

type tree struct {
	Children []tree `json:"children"`
}
type mutualA struct{ B *mutualB }
type mutualB struct{ M map[string]mutualA }
type listOfItself []listOfItself
type embedsItself struct{ *embedsItself }
type Node struct{ *Node }
type twice struct {
	base
	Other string `json:"id"`
}
type word string
type hiddenPointer struct{ *base }
type embedsTwo struct {
	time.Time
	big.Int
}
type brokenSchema struct{}

func (brokenSchema) JSONSchema() *jsonschema.Schema { panic("not today") }

type badExtras struct{}

func (badExtras) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Extras: map[string]any{"x": func() {}}}
}

type two[T any] struct {
	A T `json:"a"`
	B T `json:"b"`
}

type sixteen[T any] = two[two[two[two[T]]]]

func TestTypesWithoutSchema(t *testing.T) {
	for _, c := range []struct {
		name, text string
		schema     func() (json.RawMessage, error)
	}{
		{"tree", "recursive type", tool.SchemaFor[tree]},
		{"two to the 24th", "too large", tool.SchemaFor[sixteen[sixteen[sixteen[sixteen[sixteen[sixteen[int]]]]]]]},
		{"mutual", "recursive type", tool.SchemaFor[mutualA]},
		{"list of itself", "recursive type", tool.SchemaFor[listOfItself]},
		{"embeds itself", "not exported", tool.SchemaFor[embedsItself]},
		{"embeds itself, exported", "recursive type", tool.SchemaFor[Node]},
		{"deep inside", "recursive type", tool.SchemaFor[map[string][]*tree]},
		{"channel", "has no JSON form", tool.SchemaFor[struct{ C chan int }]},
		{"function", "has no JSON form", tool.SchemaFor[struct{ F []func() }]},
		{"complex", "has no JSON form", tool.SchemaFor[complex128]},
		{"keys", "JSON keys are strings", tool.SchemaFor[map[bool]int]},
		{"name twice", `two fields are called "id"`, tool.SchemaFor[twice]},
		{"hidden pointer", "is not exported", tool.SchemaFor[hiddenPointer]},
		{"embedded with a form of its own", "give it a name", tool.SchemaFor[embedsTwo]},
		{"inline", "knows no inline", tool.SchemaFor[struct {
			A base `json:"a,inline"`
		}]},
		{"comma in a description", `unknown word " relative to dir"`, tool.SchemaFor[struct {
			P string `jsonschema:"description=The path, relative to dir"`
		}]},
		{"misspelt", `unknown word "minimun=1"`, tool.SchemaFor[struct {
			P int `jsonschema:"minimun=1"`
		}]},
		{"misspelt, in an embedded struct", `unknown word "requird"`, tool.SchemaFor[struct {
			Inner struct {
				P int `jsonschema:"requird"`
			}
		}]},
		{"name that JSON does not take", "does not take the name", tool.SchemaFor[struct {
			A int `json:"a\"b"` //lint:ignore SA5008 that is the point
		}]},
		{"dash as a name", "does not take the name", tool.SchemaFor[struct {
			A int `json:"-,"` //lint:ignore SA5008 that is the point
		}]},
		{"embedded without fields", "has to be exported", tool.SchemaFor[struct{ word }]},
		{"nullable", "providers refuse unions with null", tool.SchemaFor[struct {
			P *string `jsonschema:"nullable"`
		}]},
		{"type of null", "providers refuse unions with null", tool.SchemaFor[struct {
			P any `jsonschema:"oneof_type=string;null"`
		}]},
		{"another type", `"type=integer" contradicts string`, tool.SchemaFor[struct {
			P string `jsonschema:"type=integer"`
		}]},
		{"bound that is no number", `"minimum=x" in the jsonschema tag has no effect on a int`, tool.SchemaFor[struct {
			P int `jsonschema:"minimum=x"`
		}]},
		{"length of a number", "has no effect", tool.SchemaFor[struct {
			P int `jsonschema:"minLength=1"`
		}]},
		{"default of a map", "has no effect", tool.SchemaFor[struct {
			P map[string]int `jsonschema:"default=x"`
		}]},
		{"default that is no number", "has no effect", tool.SchemaFor[struct {
			P *int `jsonschema:"default=x"`
		}]},
		{"enum of a bool", "has no effect", tool.SchemaFor[struct {
			P bool `jsonschema:"enum=true"`
		}]},
		{"enum that is no number", "has no effect", tool.SchemaFor[struct {
			P int `jsonschema:"enum=x"`
		}]},
		{"default of another range", "the default 0 does not fit", tool.SchemaFor[struct {
			P int `jsonschema:"default=0,minimum=1"`
		}]},
		{"default of a list", "does not fit", tool.SchemaFor[struct {
			P []int `jsonschema:"default=x"`
		}]},
		{"default deep inside", "does not fit", tool.SchemaFor[[]map[string]struct {
			P string `jsonschema:"default=x,enum=y"`
		}]},
		{"default beside a bad pattern", "not a usable JSON Schema", tool.SchemaFor[struct {
			P string `jsonschema:"default=x,pattern=("`
		}]},
		{"own schema panics", "not today", tool.SchemaFor[struct{ B brokenSchema }]},
		{"own schema is no JSON", "no schema for", tool.SchemaFor[badExtras]},
		{"own schema is no JSON, with a default", "has no JSON form", tool.SchemaFor[struct {
			B badExtras `jsonschema:"default=x"`
		}]},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.schema()
			require.True(t, fault.IsConfig(err), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
	_, err := tool.New("a", "d", func(context.Context, *tool.Context, tree) (any, error) { return nil, nil })
	require.ErrorContains(t, err, "tools.a.parameters: recursive type tool_test.tree")
	_, err = tool.New("a", "d", func(context.Context, *tool.Context, struct {
		P string `jsonschema:"pattern=("`
	}) (any, error) {
		return nil, nil
	})
	require.ErrorContains(t, err, "tools.a.parameters: is not a usable JSON Schema")
}

func TestArgumentsThroughPointerAndMap(t *testing.T) {
	d, err := tool.New("a", "d", func(_ context.Context, _ *tool.Context, in *find) (*find, error) { return in, nil })
	require.NoError(t, err)
	require.Equal(t, `{"query":"x","limit":10}`, string(d.Invoke(t.Context(), nil, json.RawMessage(`{"query":"x"}`)).Value))

	m, err := tool.New("a", "d", func(_ context.Context, _ *tool.Context, in map[string]line) (int, error) {
		return int(in["k"].Qty), nil
	})
	require.NoError(t, err)
	require.Equal(t, `1`, string(m.Invoke(t.Context(), nil, json.RawMessage(`{"k":{"sku":"x"}}`)).Value), "defaults below a map")
}
