package tool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

func TestRefusedSchemas(t *testing.T) {
	bomb := `{"$ref":"#/$defs/0","$defs":{`
	for n := range 30 {
		bomb += fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, n, n+1, n+1)
	}
	bomb += `"30":{}}}`
	for _, c := range []struct{ name, schema, text string }{
		{"list", `[]`, "want an object"},
		{"null", `null`, "want an object"},
		{"text", `"object"`, "want an object"},
		{"infinity", `{"maximum":Infinity}`, "syntax error"},
		{"lone surrogate", `{"title":"\ud800"}`, "lone surrogate"},
		{"unknown type", `{"properties":{"a":{"type":"strnig"}}}`, "/properties/a/type"},
		{"keyword of a wrong type", `{"required":"a"}`, "/required"},
		{"pattern", `{"pattern":"("}`, "/pattern"},
		{"pattern beyond RE2", `{"pattern":"^(?=a)"}`, "/pattern"},
		{"pattern of properties", `{"patternProperties":{"(":{}}}`, `"/patternProperties/(": is not an allowed name: '(' is not valid regex`},
		{"dangling", `{"$ref":"#/$defs/a"}`, "$defs/a"},
		{"dangling anchor", `{"$ref":"#a"}`, "anchor"},
		{"no schema", `{"$ref":"#/required/0","required":["x"]}`, "/required/0"},
		{"root", `{"properties":{"c":{"$ref":"#"}}}`, "recursive reference"},
		{"itself", `{"$ref":"#"}`, "recursive reference"},
		{"by its id", `{"$id":"https://x.example/s","properties":{"c":{"$ref":"https://x.example/s"}}}`, "recursive reference"},
		{"by anchor", `{"$anchor":"r","items":{"$ref":"#r"}}`, "recursive reference"},
		{"mutual", `{"$defs":{"A":{"items":{"$ref":"#/$defs/B"}},"B":{"not":{"$ref":"#/$defs/A"}}}}`, "recursive reference"},
		{"unused", `{"$defs":{"N":{"properties":{"n":{"$ref":"#/$defs/N"}}}}}`, "recursive reference"},
		{"unused in an odd place", `{"$defs":{"a/~ %":{"if":{"$defs":{"N":{"items":{"$ref":"#/$defs/a~1~0%20%25/if/$defs/N"}}}}}}}`, "recursive reference"},
		{"through an unknown keyword", `{"x":{"y":{"items":{"$ref":"#/x/y"}}},"not":{"$ref":"#/x/y"}}`, "recursive reference"},
		{"in old tuples", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"N":{"items":[{"items":[true],"additionalItems":{"$ref":"#/definitions/N"}}]}}}`, "recursive reference"},
		{"in dependencies", `{"dependencies":{"a":["b"],"c":{"$ref":"#"}}}`, "recursive reference"},
		{"remote", `{"$ref":"https://x.example/s"}`, "must not refer to another document"},
		{"remote, unused", `{"$defs":{"N":{"$ref":"https://x.example/s"}}}`, "must not refer to another document"},
		{"file", `{"$ref":"file:///etc/hosts"}`, "must not refer to another document"},
		{"relative", `{"$ref":"other.json"}`, "must not refer to another document"},
		{"meta-schema", `{"$ref":"http://json-schema.org/draft-07/schema"}`, "another document"},
		{"unknown dialect", `{"$schema":"https://x.example/dialect"}`, "must not refer to another document"},
		{"dynamic", `{"$dynamicRef":"#x"}`, "dynamic reference"},
		{"dynamic, resolved", `{"$dynamicAnchor":"x","items":{"$dynamicRef":"#x"}}`, "dynamic reference"},
		{"dynamic through an unknown keyword", `{"$ref":"#/x","x":{"$dynamicRef":"#y"},"$defs":{"y":{"$anchor":"y"}}}`, "dynamic reference"},
		{"old recursion", `{"allOf":[{"$recursiveRef":"#"}]}`, "dynamic reference"},
		{"size", `{"allOf":[` + strings.Repeat(`{},`, 5000) + `{}]}`, "more than 5000 subschemas"},
		{"expansion", bomb, "expand to more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := tool.CompileSchema(json.RawMessage(c.schema))
			var config *fault.ConfigError
			require.ErrorAs(t, err, &config)
			require.Equal(t, "schema", config.Key)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestAcceptedSchemas(t *testing.T) {
	for _, c := range []struct{ name, schema, fits, fails string }{
		{"true", `true`, `1`, ``},
		{"everything", `{}`, `{"a":1}`, ``},
		{"unknown keyword", `{"frobnicate":{"$ref":"https://x.example"}}`, `1`, ``},
		{"data that looks like a reference", `{"const":{"$ref":"#"},"examples":[{"$dynamicRef":"#"}]}`, `{"$ref":"#"}`, `1`},
		{"property called $ref", `{"properties":{"$ref":{"type":"string"},"$dynamicRef":{"type":"string"}}}`, `{"$ref":"a"}`, `{"$ref":1}`},
		{"one definition in two places", `{"prefixItems":[{"$ref":"#/$defs/s"},{"$ref":"#/$defs/s"}],"$defs":{"s":{"type":"string"}}}`, `["a","b"]`, `["a",1]`},
		{"references with an id", `{"$id":"https://x.example/s","items":{"$ref":"s#/$defs/n"},"$defs":{"n":{"type":"number"}}}`, `[1]`, `["a"]`},
		{"embedded resource", `{"items":{"$ref":"https://x.example/n"},"$defs":{"n":{"$id":"https://x.example/n","type":"number"}}}`, `[1]`, `["a"]`},
		{"draft 7 as MCP servers send it", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `["a"]`, `["a",1]`},
		{"exact numbers", `{"maximum":9007199254740992}`, `9007199254740992`, `9007199254740993`},
		{"content is an annotation", `{"contentEncoding":"base64"}`, `"?"`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := tool.CompileSchema(json.RawMessage(c.schema))
			require.NoError(t, err)
			require.Empty(t, v.Validate(json.RawMessage(c.fits)))
			if c.fails != "" {
				require.NotEmpty(t, v.Validate(json.RawMessage(c.fails)))
			}
		})
	}
}

// The places stay right below lists, where the library shares the memory of its paths.
func TestIssuesOfNames(t *testing.T) {
	v, err := tool.CompileSchema(json.RawMessage(`{"items":{"propertyNames":{"pattern":"^a","maxLength":2}}}`))
	require.NoError(t, err)
	require.Equal(t, []tool.Issue{
		{Pointer: "/0/b", Message: "is not an allowed name: 'b' does not match pattern '^a'"},
		{Pointer: "/2/bcd", Message: "is not an allowed name: 'bcd' does not match pattern '^a'"},
		{Pointer: "/2/bcd", Message: "is not an allowed name: maxLength: got 3, want 2"},
	}, v.Validate(json.RawMessage(`[{"b":1},{"a":1},{"bcd":1},{}]`)))
}

func TestDeepSchemaAndValue(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 300) + `{}` + strings.Repeat(`}`, 300)
	v, err := tool.CompileSchema(json.RawMessage(deep))
	require.NoError(t, err)
	require.Empty(t, v.Validate(json.RawMessage(strings.Repeat("[", 900)+strings.Repeat("]", 900))))
	require.NotEmpty(t, v.Validate(json.RawMessage(strings.Repeat("[", 5000))))
}
