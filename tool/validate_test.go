package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

type order struct {
	ID     any            `json:"id,omitempty"`
	Count  int8           `json:"count,omitempty"`
	Blob   []byte         `json:"blob,omitempty"`
	Mail   string         `json:"mail,omitempty" jsonschema:"format=email"`
	Lines  []line         `json:"lines,omitempty"`
	Labels map[string]any `json:"labels,omitempty"`
	Strict strict         `json:"strict,omitempty"`
}

type line struct {
	SKU  string   `json:"sku"`
	Qty  uint     `json:"qty" jsonschema:"default=1"`
	Tags []string `json:"tags,omitempty" jsonschema:"default=new,default=hot"`
}

type strict struct{ text string }

func (s *strict) UnmarshalJSON(b []byte) error {
	switch s.text = string(b); s.text {
	case `"panic"`:
		panic("cannot")
	case `"good"`:
		return nil
	}
	return errors.New("strict says no")
}

func runOrder(_ context.Context, _ *tool.Context, in order) (map[string]any, error) {
	return map[string]any{"id": in.ID, "lines": in.Lines, "labels": in.Labels}, nil
}

func TestValidate(t *testing.T) {
	d, err := tool.New("order", "d", runOrder)
	require.NoError(t, err)
	for _, c := range []struct {
		name, input string
		want        []tool.Issue
	}{
		{"fits", `{"count":1,"id":null}`, nil},
		{"integers in any writing", `{"count":1.0,"lines":[{"sku":"a","qty":1e2}]}`, nil},
		{"nothing", ``, []tool.Issue{{Message: "syntax error at byte 0: unexpected end, want a value"}}},
		{"no object", `[]`, []tool.Issue{{Message: "arguments must be one JSON object"}}},
		{"text of an object", `"{}"`, []tool.Issue{{Message: "arguments must be one JSON object"}}},
		{"two objects", `{}{}`, []tool.Issue{{Message: "data after the value at byte 2"}}},
		{"key twice", `{"labels":{"a":1,"a":2}}`, []tool.Issue{{Pointer: "/labels/a", Message: "duplicate key at byte 17"}}},
		{"monstrous number", `{"id":1e999999999}`, []tool.Issue{{Pointer: "/id", Message: "number out of range at byte 6"}}},
		{"every issue", `{"count":"1","mail":"x","lines":[{"sku":1,"qty":1},{"qty":1,"b/~":0}],"Count":1}`, []tool.Issue{
			{Pointer: "/Count", Message: "is not a known property"},
			{Pointer: "/count", Message: "got string, want integer"},
			{Pointer: "/lines/0/sku", Message: "got number, want string"},
			{Pointer: "/lines/1", Message: `lacks the required property "sku"`},
			{Pointer: "/lines/1/b~1~0", Message: "is not a known property"},
			{Pointer: "/mail", Message: "'x' is not valid email: missing @"},
		}},
		{"beyond the Go type", `{"count":300}`, []tool.Issue{{Pointer: "/count", Message: "number 300 does not fit int8"}}},
		{"no base64", `{"blob":"?"}`, []tool.Issue{{Pointer: "/blob", Message: "value is not 'base64' encoded: illegal base64 data at input byte 0"}}},
		{"own decoding", `{"strict":"bad"}`, []tool.Issue{{Message: "strict says no"}}},
		{"own decoding panics", `{"strict":"panic"}`, []tool.Issue{{Message: "the value cannot be checked: cannot"}}},
		{"own decoding agrees", `{"strict":"good"}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, d.Validate(json.RawMessage(c.input)))
			got := d.Invoke(t.Context(), nil, json.RawMessage(c.input))
			if c.want == nil {
				require.Equal(t, tool.OK, got.Code)
				return
			}
			require.Equal(t, tool.InvalidArguments, got.Code)
			require.Equal(t, c.want, got.Failure.Issues)
		})
	}
}

func TestDefaultsAndNumbers(t *testing.T) {
	d, err := tool.New("order", "d", runOrder)
	require.NoError(t, err)
	got := d.Invoke(t.Context(), nil, json.RawMessage(`{"id":9007199254740993,"labels":{"n":1.50},"lines":[{"sku":"a"},{"sku":"b","qty":7,"tags":[]}]}`))
	require.Equal(t, tool.OK, got.Code, "%v", got.Failure)
	require.Equal(t, `{"id":9007199254740993,"labels":{"n":1.5},"lines":[{"sku":"a","qty":1,"tags":["new","hot"]},{"sku":"b","qty":7}]}`, string(got.Value))
}

func TestAlternatives(t *testing.T) {
	v, err := tool.CompileSchema(json.RawMessage(`{"properties":{
		"any":{"anyOf":[{"type":"string"},{"type":"object","required":["x"]}]},
		"one":{"oneOf":[{"type":"string"},{"type":"null"}]},
		"two":{"oneOf":[{"minimum":1},{"maximum":9}]},
		"none":false}}`))
	require.NoError(t, err)
	require.Equal(t, []tool.Issue{
		{Pointer: "/any", Message: "fits none of the alternatives of anyOf"},
		{Pointer: "/any", Message: "got object, want string"},
		{Pointer: "/any", Message: `lacks the required property "x"`},
		{Pointer: "/none", Message: "is not allowed here"},
		{Pointer: "/one", Message: "fits none of the alternatives of oneOf"},
		{Pointer: "/one", Message: "got number, want null"},
		{Pointer: "/one", Message: "got number, want string"},
		{Pointer: "/two", Message: "fits more than one alternative of oneOf"},
	}, v.Validate(json.RawMessage(`{"any":{},"one":1,"two":5,"none":1}`)))
	require.Equal(t, []tool.Issue{{Message: "syntax error at byte 0: unexpected end, want a value"}}, v.Validate(nil))
}

func TestIssuesAreBounded(t *testing.T) {
	v, err := tool.CompileSchema(json.RawMessage(`{"items":{"pattern":"^$"}}`))
	require.NoError(t, err)
	var list []string
	for n := range 150 {
		list = append(list, fmt.Sprint(n)+strings.Repeat("é", 1000))
	}
	value, err := json.Marshal(list)
	require.NoError(t, err)
	issues := v.Validate(value)
	require.Len(t, issues, 101)
	require.Equal(t, tool.Issue{Message: "and 50 more issues"}, issues[100])
	require.Less(t, len(issues[0].Message), 600)
}

// Many issues at one place are cut like others, in the same way every time.
func TestIssuesAtOnePlaceAreBounded(t *testing.T) {
	var all []string
	for n := range 150 {
		all = append(all, fmt.Sprintf(`{"maximum":%d}`, n))
	}
	v, err := tool.CompileSchema(json.RawMessage(`{"items":{"allOf":[` + strings.Join(all, ",") + `]}}`))
	require.NoError(t, err)
	first := v.Validate(json.RawMessage(`[1000,1000]`))
	require.Len(t, first, 101)
	require.Equal(t, tool.Issue{Message: "and 200 more issues"}, first[100])
	require.Equal(t, tool.Issue{Pointer: "/0", Message: "maximum: got 1000, want 0"}, first[0])
	require.Equal(t, first, v.Validate(json.RawMessage(`[1000,1000]`)))
}

// fickle decodes every other time.
type fickle struct{ N int }

var fickleTimes int

func (*fickle) UnmarshalJSON([]byte) error {
	if fickleTimes++; fickleTimes%2 == 0 {
		return errors.New("not this time")
	}
	return nil
}

func TestArgumentsThatDecodeOnceOnly(t *testing.T) {
	d, err := tool.New("a", "d", func(context.Context, *tool.Context, struct{ F fickle }) (any, error) { panic("ran") })
	require.NoError(t, err)
	got := d.Invoke(t.Context(), nil, json.RawMessage(`{"F":1}`))
	require.Equal(t, tool.InvalidArguments, got.Code)
	require.Equal(t, []tool.Issue{{Message: "not this time"}}, got.Failure.Issues)
}

func TestFromPair(t *testing.T) {
	even := func(input json.RawMessage) error {
		var in struct{ N, M int }
		if err := json.Unmarshal(input, &in); err != nil {
			return err
		}
		var errs []error
		if in.N%2 != 0 {
			errs = append(errs, errors.New("n is odd"))
		}
		if in.M%2 != 0 {
			errs = append(errs, errors.New("m is odd"))
		}
		return errors.Join(errs...)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"m":{"type":"integer"}}}`)
	d, err := tool.FromPair("even", "d", schema, even, echo)
	require.NoError(t, err)
	require.Nil(t, d.Validate(json.RawMessage(`{"n":2}`)))
	require.Equal(t, []tool.Issue{{Message: "n is odd"}, {Message: "m is odd"}}, d.Validate(json.RawMessage(`{"n":1,"m":3}`)))
	require.Equal(t, []tool.Issue{{Pointer: "/n", Message: "got string, want integer"}}, d.Validate(json.RawMessage(`{"n":"1"}`)))

	v, err := tool.CompileSchema(schema)
	require.NoError(t, err)
	require.Equal(t, []tool.Issue{{Message: "n is odd"}}, v.With(even).Validate(json.RawMessage(`{"n":1}`)))
	require.Nil(t, v.Validate(json.RawMessage(`{"n":1}`)), "With returns another validator")

	panics := v.With(func(json.RawMessage) error { panic("oops") })
	require.Equal(t, []tool.Issue{{Message: "the value cannot be checked: oops"}}, panics.Validate(json.RawMessage(`{}`)))

	broken, err := tool.FromPair("b", "d", schema, func(json.RawMessage) error { panic("oops") }, echo)
	require.NoError(t, err)
	require.Equal(t, []tool.Issue{{Message: "the value cannot be checked: oops"}}, broken.Validate(json.RawMessage(`{}`)))
	require.Equal(t, tool.InvalidArguments, broken.Invoke(t.Context(), nil, json.RawMessage(`{}`)).Code)
}

type noErrors struct{}

func (noErrors) Error() string   { return "nothing joined" }
func (noErrors) Unwrap() []error { return nil }

func TestAnErrorIsNeverLost(t *testing.T) {
	d, err := tool.FromPair("a", "d", json.RawMessage(`{"type":"object"}`), func(json.RawMessage) error { return noErrors{} }, echo)
	require.NoError(t, err)
	require.Equal(t, []tool.Issue{{Message: "nothing joined"}}, d.Validate(json.RawMessage(`{}`)))
}

// The struct form of a schema, for an agent's structured output as for arguments.
func TestValidatorFor(t *testing.T) {
	v, err := tool.ValidatorFor[order]()
	require.NoError(t, err)
	require.Empty(t, v.Validate(json.RawMessage(`{"count":1,"blob":"eA=="}`)))
	for input, want := range map[string]tool.Issue{
		`{"count":"1"}`:   {Pointer: "/count", Message: "got string, want integer"},
		`{"count":300}`:   {Pointer: "/count", Message: "number 300 does not fit int8"},
		`{"other":1}`:     {Pointer: "/other", Message: "is not a known property"},
		`{"strict":"no"}`: {Message: "strict says no"},
	} {
		require.Equal(t, []tool.Issue{want}, v.Validate(json.RawMessage(input)), input)
	}
	both := v.With(func(json.RawMessage) error { return errors.New("never right") })
	require.Equal(t, []tool.Issue{{Pointer: "/count", Message: "number 300 does not fit int8"}}, both.Validate(json.RawMessage(`{"count":300}`)), "one after the other")
	require.Equal(t, []tool.Issue{{Message: "never right"}}, both.Validate(json.RawMessage(`{}`)))

	_, err = tool.ValidatorFor[chan int]()
	require.ErrorContains(t, err, "has no JSON form")
	_, err = tool.ValidatorFor[struct {
		P string `jsonschema:"pattern=("`
	}]()
	require.ErrorContains(t, err, "not a usable JSON Schema")
}

// Each form of a schema says the same of the same value.
func TestSchemaFormsAgree(t *testing.T) {
	raw, err := tool.SchemaFor[line]()
	require.NoError(t, err)
	written, err := tool.CompileSchema(raw)
	require.NoError(t, err)
	typed, err := tool.ValidatorFor[line]()
	require.NoError(t, err)
	pair := written.With(func(json.RawMessage) error { return nil })
	for _, value := range []string{`{}`, `[]`, `null`, `{"sku":"a","qty":1}`, `{"sku":1,"qty":1}`, `{"sku":"a","qty":1.5}`, `{`, `{"sku":"a","sku":"b","qty":1}`} {
		want := written.Validate(json.RawMessage(value))
		require.Equal(t, want, typed.Validate(json.RawMessage(value)), value)
		require.Equal(t, want, pair.Validate(json.RawMessage(value)), value)
	}
}

func TestLargeNumbersReachTheTool(t *testing.T) {
	type transfer struct {
		ID     json.Number     `json:"id"`
		Amount any             `json:"amount"`
		Raw    json.RawMessage `json:"raw"`
		Big    int64           `json:"big"`
	}
	d, err := tool.New("pay", "d", func(_ context.Context, _ *tool.Context, in transfer) (transfer, error) { return in, nil })
	require.NoError(t, err)
	input := `{"id":123456789012345683968,"amount":9007199254740993,"raw":[9007199254740993],"big":9007199254740993}`
	require.Equal(t, input, string(d.Invoke(t.Context(), nil, json.RawMessage(input)).Value))
	schema, err := tool.FromSchema("pay", "d", json.RawMessage(`{"type":"object","properties":{"id":{"maximum":123456789012345683968}}}`), echo)
	require.NoError(t, err)
	require.Contains(t, string(schema.Info().Parameters), "123456789012345683968")
	require.Empty(t, schema.Validate(json.RawMessage(`{"id":123456789012345680000}`)))
	require.Len(t, schema.Validate(json.RawMessage(`{"id":123456789012345683969}`)), 1)
}
