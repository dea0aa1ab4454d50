package permission_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

func nest(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// notObjects are inputs that no tool takes; some are not even JSON.
var notObjects = map[string]string{
	"nothing": ``, "a blank": ` `, "null": `null`, "a list": `[]`, "a list of calls": `[{"command":"rm x"}]`, "a number": `7`, "true": `true`,
	"a string": `"x"`, "an object in a string": `"{\"command\":\"ls\"}"`, "two": `{} {}`, "open": `{`, "comma": `{"a":1,}`, "NaN": `{"a":NaN}`,
	"a NUL": "{\"a\":\"\x00\"}", "a BOM": "\ufeff{}", "UTF-16": "\xff\xfe{\x00}\x00", "twins": `{"command":"ls","command":"rm x"}`,
	"twins by escape": `{"command":"ls","comm\u0061nd":"rm x"}`, "twins inside": `{"a":{"b":1,"b":2}}`, "half a character": `{"a":"\ud800"}`,
	"a wrong half first": `{"a":"\udc00\ud800"}`, "half a key": `{"\ud800":1}`, "not UTF-8": "{\"a\":\"\xff\"}",
	"lists too deep": nest("[", "", "]", 100_000), "objects too deep": nest(`{"a":`, "1", "}", 100_000), "open too deep": strings.Repeat(`[`, 100_000),
	"mixed too deep": nest(`{"a":[`, "1", "]}", 50_000), "5 MB of x": strings.Repeat("x", 5<<20), "5 MB of list": "[" + strings.Repeat("1,", 2_500_000) + "1]",
}

// An input that is not one JSON object is never allowed to a tool, however permissive the policy: the tool's own check
// finds it before any hook is asked. Where nobody can check it, rules that read the input ask or deny.
func TestAnInputThatIsNoObjectIsNeverAllowed(t *testing.T) {
	def := noted(t)
	asked := false
	eager := permission.Hook{Name: "eager", Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		asked = true
		return permission.AnswerAllow(), nil
	}}
	open := compile(t, permission.Spec{Engine: permission.Layer{Hooks: []permission.Hook{eager}, CanUseTool: say(permission.AnswerAllow())}})
	reading := compile(t, permission.Spec{Engine: permission.Layer{CanUseTool: say(permission.AnswerAllow()),
		Deny: []permission.Rule{argvRule("rm **"), {Tool: permission.One("fetch"), Domains: permission.One("evil.example")}}}})
	for name, input := range notObjects {
		t.Run(name, func(t *testing.T) {
			d := open.Decide(t.Context(), permission.Call{Tool: def.Info(), Input: json.RawMessage(input)}, def.Validate)
			assert.Equal(t, permission.Deny, d.Verdict)
			assert.Equal(t, permission.ByInvalid, d.DecidedBy)
			assert.NotEmpty(t, d.Invalid)
			b, err := json.Marshal(d.Invalid)
			assert.NoError(t, err)
			assert.Less(t, len(b), 8<<10, "a person and a model read it")
			for _, info := range []tool.Info{{Name: "shell", Risk: tool.Execute}, {Name: "fetch", Risk: tool.Network}} {
				d := permission.Explain(reading, info, json.RawMessage(input))
				assert.NotEqual(t, permission.Allow, d.Verdict, "%s: %s", info.Name, d.Reason)
				_, err := json.Marshal(d)
				assert.NoError(t, err)
			}
		})
	}
	assert.False(t, asked, "no hook is asked about it")
}

// Numbers that no float holds are told apart and go on as they were written, through hooks too.
func TestNumbersKeepTheirDigits(t *testing.T) {
	seen := permission.Hook{Name: "same", Judge: modify(`{"n":9007199254740993}`)}
	d := permission.Explain(compile(t, permission.Spec{Engine: permission.Layer{Hooks: []permission.Hook{seen}}}), anyTool, json.RawMessage(`{"n":1}`))
	assert.Equal(t, `{"n":9007199254740993}`, string(d.Input))
	for _, input := range []string{`{"n":9007199254740993}`, `{"n":123456789012345683968}`, `{"n":1e400}`, `{"n":-0}`, `{"n":1E-400}`} {
		d := permission.Explain(compile(t, permission.Spec{}), anyTool, json.RawMessage(input))
		assert.Equal(t, permission.Allow, d.Verdict)
		assert.Equal(t, input, string(d.Input))
	}
}

// A name that no tool can have matches no rule about another, and is judged as a tool that declares nothing.
func TestNamesThatNoToolHas(t *testing.T) {
	c := compile(t, permission.Spec{
		Engine:  permission.Layer{Deny: []permission.Rule{{Tool: permission.One("a")}, argvRule("rm **")}},
		Profile: permission.Layer{Preset: permission.Standard},
	})
	for _, name := range []string{"", "a\n", " a", "A", "a\x00", "a\u200b", "\u202ea", "\u0430", "a\x1b[2J", "shell\n", "SHELL", "a,shell", "*", "**", strings.Repeat("a", 65), "\xff"} {
		d := permission.Explain(c, tool.Info{Name: name}, shell("rm x"))
		assert.Equal(t, permission.Ask, d.Verdict, "%q", name)
		assert.Equal(t, permission.ByAskRule, d.DecidedBy)
		assert.Equal(t, "{risk: undeclared} (preset standard)", d.Reason)
	}
}
