package permission_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

const risks = "; one of read, write, network, execute, destructive, undeclared"

func TestCompileErrors(t *testing.T) {
	one, many := permission.One, permission.Many
	x := one("x")
	rule := func(r permission.Rule) permission.Spec {
		return permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{r}}}
	}
	approval := func(p permission.ApprovalPolicy) permission.Spec {
		return permission.Spec{Profile: permission.Layer{Approval: &p}}
	}
	for want, s := range map[string]permission.Spec{
		`engine.deny[0]: a rule needs tool or risk`:                                                 rule(permission.Rule{}),
		`engine.deny[0]: a rule names tools or risks, not both`:                                     rule(permission.Rule{Tool: x, Risk: one("read")}),
		`engine.deny[0]: a rule has argv or domains, not both`:                                      rule(permission.Rule{Tool: x, Argv: x, Domains: x}),
		`engine.deny[0].argv: argv needs tool beside it`:                                            rule(permission.Rule{Risk: one("read"), Argv: x}),
		`engine.deny[0].domains: domains needs tool beside it`:                                      rule(permission.Rule{Domains: x}),
		`engine.deny[0].tool: is empty`:                                                             rule(permission.Rule{Tool: many()}),
		`engine.deny[0].argv: is empty`:                                                             rule(permission.Rule{Tool: x, Argv: many()}),
		`engine.deny[0].risk: unknown risk "destrutive"` + risks:                                    rule(permission.Rule{Risk: one("destrutive")}),
		`engine.deny[0].risk[1]: unknown risk ""` + risks:                                           rule(permission.Rule{Risk: many("read", "")}),
		`engine.deny[0].tool: no tool can be named "*": want 1 to 64 of a-z, A-Z, 0-9, _ and -`:     rule(permission.Rule{Tool: one("*")}),
		`engine.deny[0].argv[1]: bad argv pattern: pattern "rm ** x": byte 3: ** is not last`:       rule(permission.Rule{Tool: x, Argv: many("ls", "rm ** x")}),
		`engine.deny[0].domains: bad domain "*": want a host name, an IP address or *.host`:         rule(permission.Rule{Tool: x, Domains: one("*")}),
		`engine.deny[0].domains: bad domain "*.1.2.3.4": want a host name, an IP address or *.host`: rule(permission.Rule{Tool: x, Domains: one("*.1.2.3.4")}),
		`engine.deny[0].domains: bad domain "https://x": want a host name, an IP address or *.host`: rule(permission.Rule{Tool: x, Domains: one("https://x")}),
		`engine.deny[0].approval: only ask rules put questions`:                                     rule(permission.Rule{Tool: x, Approval: &permission.ApprovalPolicy{}}),
		`engine.deny[0].tests.match[1]: "ls" does not match {tool: x, argv: "rm **"}`: rule(permission.Rule{Tool: x, Argv: one("rm **"),
			Tests: &permission.RuleTests{Match: many("rm y", "ls")}}),
		`engine.deny[0].tests.notMatch: "cd y && rm z" matches {tool: x, argv: "rm **"}`: rule(permission.Rule{Tool: x, Argv: one("rm **"),
			Tests: &permission.RuleTests{NotMatch: one("cd y && rm z")}}),
		`engine.deny[0].tests.match: "y" does not match {tool: x}`: rule(permission.Rule{Tool: x, Tests: &permission.RuleTests{Match: one("y")}}),
		`engine.deny[0].tests.match: "read" does not match {risk: write}`: rule(permission.Rule{Risk: one("write"),
			Tests: &permission.RuleTests{Match: one("read")}}),
		`engine.deny[0].tests.match[2]: "a b" does not match {tool: x, domains: "*.x"}`: rule(permission.Rule{Tool: x, Domains: one("*.x"),
			Tests: &permission.RuleTests{Match: many("a.x", "https://a.x/y", "a b"), NotMatch: one("x")}}),
		`profile.ask[0].approval.deadline: is negative`:                                   {Profile: permission.Layer{Ask: []permission.Rule{{Tool: x, Approval: &permission.ApprovalPolicy{Deadline: -1}}}}},
		`profile.vetted[0]: a vetted line needs tool and argv`:                            {Profile: permission.Layer{Vetted: []permission.Vetted{{Tool: x}}}},
		`profile.vetted[0].argv: is empty`:                                                {Profile: permission.Layer{Vetted: []permission.Vetted{{Tool: x, Argv: many()}}}},
		`profile.preset: unknown preset "loose"; one of strict, standard, open`:           {Profile: permission.Layer{Preset: "loose"}},
		`engine.hooks[0]: hook "h" has no function`:                                       {Engine: permission.Layer{Hooks: []permission.Hook{{Name: "h"}}}},
		`parent.preset: unknown preset "x"; one of strict, standard, open`:                {Parent: &permission.Layer{Preset: "x"}, Profile: permission.Layer{InheritPermissions: true}},
		`agent.ask[0].approval: the rules of one agent's input cannot say who may answer`: {AgentAsk: []permission.Rule{{Tool: x, Approval: &permission.ApprovalPolicy{}}}},
		`agent.deny[0]: a rule needs tool or risk`:                                        {AgentDeny: []permission.Rule{{}}},
		`hookTimeout: is negative`:                                                        {HookTimeout: -1},
		`profile.approval.remind: is negative`:                                            approval(permission.ApprovalPolicy{Remind: -1}),
		`profile.approval.remind: is not before the deadline`:                             approval(permission.ApprovalPolicy{Deadline: 1, Remind: 1}),
		`profile.approval.escalate.after: must be more than zero`:                         approval(permission.ApprovalPolicy{Escalate: &permission.Escalation{}}),
		`profile.approval.escalate.after: is not before the deadline`:                     approval(permission.ApprovalPolicy{Deadline: 1, Escalate: &permission.Escalation{After: 2}}),
		`profile.approval.escalate.groups: is empty`:                                      approval(permission.ApprovalPolicy{Escalate: &permission.Escalation{After: 2}}),
		`profile.approval.escalate.groups[0]: is empty`:                                   approval(permission.ApprovalPolicy{Escalate: &permission.Escalation{After: 2, Groups: []string{""}}}),
		`profile.approval.approvers.min: is negative`:                                     approval(permission.ApprovalPolicy{Approvers: &permission.Approvers{Min: -1}}),
		`profile.approval.approvers: needs groups or min`:                                 approval(permission.ApprovalPolicy{Approvers: &permission.Approvers{}}),
		`profile.approval.approvers.groups[1]: is empty`:                                  approval(permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"a", ""}}}),
	} {
		t.Run(want, func(t *testing.T) {
			_, err := permission.Compile(s)
			require.EqualError(t, err, want)
			assert.True(t, fault.IsConfig(err))
		})
	}
}

func TestCheckWithoutKey(t *testing.T) {
	err := permission.Layer{Deny: []permission.Rule{{Risk: permission.One("x")}}}.Check("")
	assert.EqualError(t, err, `deny[0].risk: unknown risk "x"`+risks)
}

func TestStrictDecoding(t *testing.T) {
	for text, want := range map[string]string{
		`{"tools":"x"}`:                        `rule: unknown key "tools"; one of tool, risk, argv, domains, approval, tests, reason`,
		`{"Tool":"x"}`:                         `rule: unknown key "Tool"; one of tool, risk, argv, domains, approval, tests, reason`,
		`{"tool":"x","tool":"y"}`:              `rule: key "tool" stands twice`,
		`{"tool":null}`:                        `rule: key "tool" is null`,
		`null`:                                 `rule: cannot be decoded: not a JSON object`,
		`["tool"]`:                             `rule: cannot be decoded: not a JSON object`,
		`{"tool":7}`:                           `want a string or a list of strings`,
		`{"tool":["x",null]}`:                  `want a string or a list of strings`,
		`{"tool":{"x":1}}`:                     `want a string or a list of strings`,
		`{"reason":7}`:                         `rule: cannot be decoded: json: cannot unmarshal number into Go struct field plain.reason of type string`,
		`{"tests":{"matches":"x"}}`:            `tests: unknown key "matches"; one of match, notMatch`,
		`{"approval":{"deadline":"1h"}}`:       `approval: unknown key "deadline"; one of deadlineNs, remindNs, escalate, approvers`,
		`{"approval":{"escalate":{"to":[]}}}`:  `escalate: unknown key "to"; one of afterNs, groups`,
		`{"approval":{"approvers":{"max":1}}}`: `approvers: unknown key "max"; one of groups, min`,
	} {
		var r permission.Rule
		err := json.Unmarshal([]byte(text), &r)
		assert.EqualError(t, err, want, text)
		assert.True(t, fault.IsConfig(err), text)
	}
	var r permission.Rule
	assert.EqualError(t, r.UnmarshalJSON([]byte(`{`)), `rule: cannot be decoded: not a JSON object`)
	var l permission.Layer
	assert.EqualError(t, json.Unmarshal([]byte(`{"allow":[]}`), &l),
		`permissions: unknown key "allow"; one of deny, ask, vetted, strictApprovals, preset, approval, inheritPermissions`)
	assert.EqualError(t, json.Unmarshal([]byte(`{"vetted":[{"risk":"x"}]}`), &l), `vetted: unknown key "risk"; one of tool, argv`)
	for _, text := range []string{"7", "null", "{}"} {
		var s permission.Strings
		assert.Error(t, s.UnmarshalJSON([]byte(text)), text)
	}
}

func TestRulesAreEchoedAsWritten(t *testing.T) {
	for _, text := range []string{
		`{"tool":"x"}`, `{"tool":["x"]}`, `{"tool":[]}`, `{"risk":["read","write"]}`, `{"tool":"x","argv":"a <b> \"&\" **"}`,
		`{"tool":"x","domains":["*.y"],"tests":{"match":"a.y","notMatch":["z"]},"reason":"why"}`,
		`{"tool":"x","approval":{"deadlineNs":5,"remindNs":2,"escalate":{"afterNs":1,"groups":["g"]},"approvers":{"groups":["h"],"min":2}}}`,
	} {
		var r permission.Rule
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		b, err := json.Marshal(r)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(b))
	}
	layer := `{"deny":[{"tool":"x"}],"vetted":[{"tool":"shell","argv":["ls"]}],"strictApprovals":true,"preset":"open","inheritPermissions":true}`
	var l permission.Layer
	require.NoError(t, json.Unmarshal([]byte(layer), &l))
	b, err := json.Marshal(l)
	require.NoError(t, err)
	assert.JSONEq(t, layer, string(b))
	assert.Equal(t, `{tool: [a, "x y"], argv: "a <b> \"\""}`,
		permission.Rule{Tool: permission.Many("a", "x y"), Argv: permission.One(`a <b> ""`)}.String())
	assert.Equal(t, `{tool: ""}`, permission.Rule{Tool: permission.One("")}.String())
}

func TestVerdict(t *testing.T) {
	var v permission.Verdict
	assert.Equal(t, permission.Deny, v)
	assert.Equal(t, "deny", permission.Verdict(9).String())
	assert.Equal(t, permission.Ask, permission.Strictest(permission.Allow, permission.Ask))
	for _, want := range []permission.Verdict{permission.Deny, permission.Ask, permission.Allow} {
		b, err := json.Marshal(want)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &v))
		assert.Equal(t, want, v)
	}
	assert.EqualError(t, v.UnmarshalText([]byte("Allow")), `verdict "Allow": want deny, ask or allow`)
	assert.Equal(t, permission.Deny, v, "what cannot be read denies")
}

func TestPresets(t *testing.T) {
	assert.Equal(t, []permission.Preset{permission.Strict, permission.Standard, permission.Open}, permission.Presets())
	table := map[tool.Risk]string{tool.Read: "allow allow allow", tool.Write: "ask allow allow", tool.Network: "ask ask allow",
		tool.Execute: "ask ask allow", tool.Destructive: "deny ask allow", tool.Undeclared: "ask ask allow"}
	for risk, want := range table {
		got := ""
		for _, p := range permission.Presets() {
			c := compile(t, permission.Spec{Profile: permission.Layer{Preset: p}})
			got += " " + permission.Explain(c, tool.Info{Name: "x", Risk: risk}, json.RawMessage(`{}`)).Verdict.String()
		}
		assert.Equal(t, want, got[1:], "risk %q", risk)
	}
	_, _, err := permission.CompilePreset("lax")
	assert.EqualError(t, err, `unknown preset "lax"; one of strict, standard, open`)
}

// A grandparent's policy reaches a grandchild as the Concat of both layers, and judges as if there were two parents.
func TestConcat(t *testing.T) {
	grand := permission.Layer{Preset: permission.Strict, CanUseTool: say(permission.AnswerDeny("")), StrictApprovals: true,
		Hooks: []permission.Hook{hook("g", permission.Answer{})}, Approval: &permission.ApprovalPolicy{Deadline: time.Hour}, InheritPermissions: true}
	parent := permission.Layer{Deny: []permission.Rule{{Tool: permission.One("x")}}, CanUseTool: say(permission.AnswerAllow()),
		Vetted: []permission.Vetted{{Tool: permission.One("shell"), Argv: permission.One("ls")}}}
	both, err := permission.Concat(grand, parent)
	require.NoError(t, err)
	assert.Equal(t, []permission.Rule{{Risk: permission.One("destructive")}, {Tool: permission.One("x")}}, both.Deny)
	assert.Len(t, both.Ask, 2)
	assert.Len(t, both.Hooks, 1)
	assert.Len(t, both.Vetted, 1)
	assert.True(t, both.StrictApprovals)
	assert.True(t, both.InheritPermissions)
	assert.Equal(t, time.Hour, both.Approval.Deadline)
	assert.Empty(t, both.Preset)
	c := compile(t, permission.Spec{Parent: &both, Profile: permission.Layer{InheritPermissions: true}})
	d := permission.Explain(c, tool.Info{Name: "r", Risk: tool.Read}, json.RawMessage(`{}`))
	assert.Equal(t, permission.ByCanUseTool, d.DecidedBy)
	assert.Equal(t, permission.Allow, d.Verdict, "the nearer slot")
	_, err = permission.Concat(permission.Layer{Preset: "x"})
	assert.Error(t, err)
}
