package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

// small reports issues that a model can be told: few, short, valid text.
func small(t *testing.T, issues []tool.Issue) {
	t.Helper()
	require.LessOrEqual(t, len(issues), 101)
	for _, i := range issues {
		require.Less(t, len(i.Pointer), 510)
		require.Less(t, len(i.Message), 800)
		require.True(t, utf8.ValidString(i.Pointer+i.Message))
	}
}

func list(n int, element string) string {
	return "[" + strings.Repeat(element+",", n-1) + element + "]"
}

// What a model sends and what a server declares multiply. Both are bounded, and so is what is said about them.
func TestMonstrousValues(t *testing.T) {
	long := strings.Repeat("é", 1<<18)
	members := make([]string, 12_000)
	for n := range members {
		members[n] = fmt.Sprintf(`"k%d":%d`, n, n)
	}
	for _, c := range []struct{ name, schema, value, want string }{
		{"all of a long list is wrong", `{"items":{"type":"string"}}`, list(100_000, "1"), "got number, want string"},
		{"each element against ten", `{"items":{"allOf":` + list(10, `{"type":"string"}`) + `}}`, list(100_000, "1"), "is too large"},
		{"each element against a thousand names", `{"items":{"enum":` + list(1000, `"a"`) + `}}`, list(100_000, "1"), "is too large"},
		{"long lists compared with each other", `{"items":{"enum":` + list(40, list(1000, "1")) + `}}`, list(300, list(1000, "1")), "is too large"},
		{"every member against every pattern", `{"patternProperties":{"a":{},"b":{},"c":{},"(x+x+)+y":{}}}`, `{"` + strings.Repeat("x", 1<<18) + `":1}`, ""},
		{"nothing evaluates many members", `{"unevaluatedProperties":false,"allOf":` + list(900, `{"properties":{"a":true}}`) + `}`, "{" + strings.Join(members, ",") + "}", "is too large"},
		{"dependent names", `{"dependentRequired":{"k1":` + list(1, `"b"`) + `},"dependencies":{"k2":{"items":true}}}`, "{" + strings.Join(members, ",") + "}", `properties 'b' required, if 'k1' exists`},
		{"a pattern of many steps", `{"pattern":"(x+x+)+y.{900}$"}`, `"` + strings.Repeat("x", 1<<20) + `"`, "is too large"},
		{"exponents", `{"items":{"multipleOf":3e-9999}}`, list(60_000, "1e9999"), "is too large"},
		{"a long expression", `{"format":"regex"}`, `"` + strings.Repeat("(a|b)", 1_000_000) + `"`, "is too large"},
		{"many expressions", `{"items":{"format":"regex"}}`, list(10_000, `"(a|b){500}"`), "is too large"},
		{"names", `{"items":{"propertyNames":{"maxLength":1}}}`, list(10_000, `{"abc":1}`), "is not an allowed name"},
		{"names of a pattern", `{"propertyNames":{"pattern":"(x+x+)+y.{900}$"}}`, `{"` + strings.Repeat("x", 1<<20) + `":1}`, "is too large"},
		{"tuples", `{"prefixItems":[{"items":{"allOf":` + list(20, `{"type":"string"}`) + `}}]}`, "[" + list(100_000, "1") + "]", "is too large"},
		{"old tuples", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"enum":[1]}],"additionalItems":{"allOf":` + list(20, `{"type":"string"}`) + `}}`, list(100_000, "1"), "is too large"},
		{"contains", `{"contains":{"allOf":` + list(20, `{"type":"string"}`) + `}}`, list(100_000, "1"), "is too large"},
		{"dependent schemas", `{"dependentSchemas":{"k1":{"additionalProperties":{"allOf":` + list(90, `{"type":"string"}`) + `}}}}`, "{" + strings.Join(members, ",") + "}", "is too large"},
		{"old dependencies", `{"dependencies":{"k1":{"additionalProperties":{"allOf":` + list(90, `{"type":"string"}`) + `}}}}`, "{" + strings.Join(members, ",") + "}", "is too large"},
		{"trees that differ only in shape", `{"uniqueItems":true}`, "[" + shapes(6) + "]", ""},
		{"a long name", `{"additionalProperties":false}`, `{"` + long + `":1}`, "is not a known property"},
		{"a long path", `{"additionalProperties":{"additionalProperties":{"type":"string"}}}`, `{"` + long + `":{"` + long + `":1}}`, "got number, want string"},
		{"a long text", `{"const":"a"}`, `"` + long + `"`, "value must be 'a'"},
		{"a long text of a format", `{"format":"email"}`, `"` + long + `"`, "is not valid email: missing @"},
		{"a long text of a pattern", `{"pattern":"^a$"}`, `"` + long[:1<<15] + `"`, "does not match pattern '^a$'"},
		{"digits without end", `{"minimum":0}`, "0." + strings.Repeat("1", 5<<20), "number out of range"},
		{"100,000 deep", `{}`, strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "nested too deeply"},
		{"100,000 long keys deep", `{}`, strings.Repeat(`{"`+long[:2000]+`":`, 2000), "nested too deeply"},
		{"a key twice", `{}`, `{"` + long + `":1,"` + long + `":1}`, "duplicate key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := tool.CompileSchema(json.RawMessage(c.schema))
			require.NoError(t, err)
			issues := v.Validate(json.RawMessage(c.value))
			small(t, issues)
			if c.want == "" {
				require.Empty(t, issues)
				return
			}
			require.NotEmpty(t, issues)
			require.Contains(t, issues[0].Message, c.want)
		})
	}
}

// shapes writes all nestings of so many pairs of brackets, each once.
func shapes(pairs int) string {
	var all []string
	var grow func(text string, open, left int)
	grow = func(text string, open, left int) {
		if open == 0 && left == 0 {
			all = append(all, "["+strings.ReplaceAll(text, "][", "],[")+"]")
			return
		}
		if left > 0 {
			grow(text+"[", open+1, left-1)
		}
		if open > 0 {
			grow(text+"]", open-1, left)
		}
	}
	grow("", 0, pairs)
	return strings.Join(all, ",")
}

// A large value that is right is no monster.
func TestLargeValuesThatFit(t *testing.T) {
	for _, c := range []struct{ name, schema, value string }{
		{"5 MB of text", `{"type":"object","properties":{"content":{"type":"string","minLength":1},"path":{"type":"string","pattern":"^[a-z/]+$"}},"required":["path"],"additionalProperties":false}`,
			`{"path":"a/b","content":"` + strings.Repeat("x", 5<<20) + `"}`},
		{"10,000 rows", `{"type":"object","properties":{"rows":{"type":"array","uniqueItems":false,"items":{"type":"object","properties":{"id":{"type":"integer","minimum":0},"name":{"type":"string","maxLength":20},"kind":{"enum":["a","b"]}},"required":["id"],"additionalProperties":false}}}}`,
			`{"rows":` + list(10_000, `{"id":9007199254740993,"name":"n","kind":"a"}`) + `}`},
	} {
		d, err := tool.FromSchema("a", "d", json.RawMessage(c.schema), echo)
		require.NoError(t, err)
		require.Empty(t, d.Validate(json.RawMessage(c.value)), c.name)
	}
}

func TestMonstrousSchemas(t *testing.T) {
	properties := make([]string, 4000)
	for n := range properties {
		properties[n] = fmt.Sprintf(`"p%d":{"type":"string"}`, n)
	}
	_, err := tool.CompileSchema(json.RawMessage(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`))
	require.NoError(t, err, "thousands of properties")

	for _, c := range []struct{ name, schema, want string }{
		{"size", `{"title":"` + strings.Repeat("x", 1<<20) + `"}`, "at most 1048576 are taken"},
		{"depth", strings.Repeat(`{"items":`, 900) + `{}` + strings.Repeat("}", 900), "pointer has more than 4096 bytes"},
		{"depth of 100,000", strings.Repeat(`{"items":`, 100_000) + `{}` + strings.Repeat("}", 100_000), "nested too deeply"},
		{"repetitions", `{"pattern":"` + strings.Repeat(".{1000}", 1000) + `"}`, "expand to more than 10000 steps"},
		{"nested repetitions", `{"pattern":"((a{30}){30}){30}"}`, "is not valid regex"},
		{"many patterns", `{"allOf":` + list(30, `{"pattern":"`+strings.Repeat("[a-z]{400}", 10)+`"}`) + `}`, "the patterns of the schema expand"},
		{"patterns of names", `{"patternProperties":{"` + strings.Repeat("a{1000}", 11) + `":{}}}`, "expand to more than 10000 steps"},
		{"repetition beyond the engine", `{"pattern":"a{2000}"}`, "is not valid regex"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := tool.CompileSchema(json.RawMessage(c.schema))
			require.True(t, fault.IsConfig(err), "%v", err)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 6000)
		})
	}
}

// Values of format regex are compiled too, at any time, and do not use up what the patterns of the schema may.
func TestFormatRegexIsBounded(t *testing.T) {
	v, err := tool.CompileSchema(json.RawMessage(`{"format":"regex"}`))
	require.NoError(t, err)
	for range 30 {
		require.Empty(t, v.Validate(json.RawMessage(`"`+strings.Repeat("[a-z]{400}", 10)+`"`)))
	}
	require.NotEmpty(t, v.Validate(json.RawMessage(`"`+strings.Repeat("[a-z]{900}", 20)+`"`)))
}

// Numbers are told with the digits that make the difference.
func TestNumbersInIssues(t *testing.T) {
	for _, c := range [][3]string{
		{`{"maximum":9007199254740992}`, `9007199254740993`, "maximum: got 9007199254740993, want 9007199254740992"},
		{`{"minimum":1}`, `0.5`, "minimum: got 0.5, want 1"},
		{`{"exclusiveMaximum":3}`, `3`, "exclusiveMaximum: got 3, want 3"},
		{`{"exclusiveMinimum":0.1}`, `0.10000000000000000001`, ""},
		{`{"exclusiveMinimum":0.10000000000000000001}`, `0.1`, "exclusiveMinimum: got 0.10000000000000000000000000000000000000000000000000, want 0.10000000000000000001000000000000000000000000000000"},
		{`{"multipleOf":0.01}`, `0.075`, "multipleOf: got 0.075, want 0.01"},
		{`{"maximum":1}`, `1e9999`, "maximum: got 1" + strings.Repeat("0", 99) + "…, want 1"},
	} {
		v, err := tool.CompileSchema(json.RawMessage(c[0]))
		require.NoError(t, err)
		issues := v.Validate(json.RawMessage(c[1]))
		if c[2] == "" {
			require.Empty(t, issues)
			continue
		}
		require.Equal(t, []tool.Issue{{Message: c[2]}}, issues)
	}
}

// joinsItself is an error without end.
type joinsItself struct{ times int }

func (joinsItself) Error() string { return strings.Repeat("again ", 1000) }
func (e joinsItself) Unwrap() []error {
	all := make([]error, e.times)
	for n := range all {
		all[n] = e
	}
	return all
}

func TestErrorsOfValidationsAreBounded(t *testing.T) {
	v, err := tool.CompileSchema(json.RawMessage(`true`))
	require.NoError(t, err)
	var many []error
	for n := range 2000 {
		many = append(many, fmt.Errorf("error %04d %s", n, strings.Repeat("é", 10_000)))
	}
	issues := v.With(func(json.RawMessage) error { return errors.Join(many...) }).Validate(json.RawMessage(`1`))
	small(t, issues)
	require.Equal(t, "and 1900 more issues", issues[100].Message)
	require.Contains(t, issues[99].Message, "error 0099")

	for _, times := range []int{1, 2, 1000} {
		issues = v.With(func(json.RawMessage) error { return joinsItself{times} }).Validate(json.RawMessage(`1`))
		require.NotEmpty(t, issues)
		small(t, issues)
	}
}
