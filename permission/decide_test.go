package permission_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

func compile(t testing.TB, s permission.Spec) *permission.Chain {
	t.Helper()
	c, err := permission.Compile(s)
	require.NoError(t, err)
	return c
}

func say(a permission.Answer) func(context.Context, permission.Call) (permission.Answer, error) {
	return func(context.Context, permission.Call) (permission.Answer, error) { return a, nil }
}

func hook(name string, a permission.Answer) permission.Hook {
	return permission.Hook{Name: name, Judge: say(a)}
}

var (
	anyTool   = tool.Info{Name: "a", Risk: tool.Write}
	shellTool = tool.Info{Name: "shell", Risk: tool.Execute}
)

func shell(command string) json.RawMessage {
	b, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		panic(err)
	}
	return b
}

func TestWhateverFailsDenies(t *testing.T) {
	type judge = func(context.Context, permission.Call) (permission.Answer, error)
	forever := func(context.Context, permission.Call) (permission.Answer, error) { select {} }
	for name, tc := range map[string]struct {
		judge  judge
		reason string
	}{
		"error": {func(context.Context, permission.Call) (permission.Answer, error) {
			return permission.AnswerAllow(), errors.New("no network")
		}, "no network"},
		"panic":   {func(context.Context, permission.Call) (permission.Answer, error) { panic("boom") }, "panic: boom"},
		"exit":    {func(context.Context, permission.Call) (permission.Answer, error) { runtime.Goexit(); select {} }, "ended without an answer"},
		"timeout": {forever, "context deadline exceeded"},
		"no JSON": {say(permission.AnswerModify(json.RawMessage("{"))), "what is not JSON"},
		"no fit":  {say(permission.AnswerModify(json.RawMessage(`{"bad":1}`))), "does not fit the tool"},
	} {
		t.Run(name, func(t *testing.T) {
			validate := func(in json.RawMessage) []tool.Issue {
				if string(in) == `{"bad":1}` {
					return []tool.Issue{{Pointer: "/bad", Message: "unknown"}}
				}
				return nil
			}
			call := permission.Call{Tool: anyTool, Input: json.RawMessage(`{}`)}
			wait := time.Minute
			if name == "timeout" {
				wait = time.Millisecond
			}
			byHook := compile(t, permission.Spec{HookTimeout: wait, Engine: permission.Layer{
				Hooks: []permission.Hook{{Name: "h", Judge: tc.judge}, hook("later", permission.AnswerAllow())}}})
			d := byHook.Decide(context.Background(), call, validate)
			assert.Equal(t, permission.Deny, d.Verdict)
			assert.Equal(t, permission.ByHook, d.DecidedBy)
			assert.Contains(t, d.Reason, `hook "h"`)
			assert.Contains(t, d.Reason, tc.reason)
			assert.True(t, d.Failed)
			assert.Equal(t, name == "no fit", d.Invalid != nil)

			last := compile(t, permission.Spec{HookTimeout: wait, Engine: permission.Layer{CanUseTool: tc.judge}})
			d = last.Decide(context.Background(), call, validate)
			assert.Equal(t, permission.Deny, d.Verdict)
			assert.Equal(t, permission.ByCanUseTool, d.DecidedBy)
			assert.Contains(t, d.Reason, "canUseTool")
			assert.True(t, d.Failed)
		})
	}
}

func TestWaitingForHooks(t *testing.T) {
	t.Run("canUseTool asks", func(t *testing.T) {
		c := compile(t, permission.Spec{Engine: permission.Layer{CanUseTool: say(permission.AnswerAsk("?"))}})
		d := permission.Explain(c, anyTool, json.RawMessage(`{}`))
		assert.Equal(t, permission.Deny, d.Verdict)
		assert.Equal(t, permission.ByCanUseTool, d.DecidedBy)
		assert.True(t, d.Failed)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c := compile(t, permission.Spec{Engine: permission.Layer{Hooks: []permission.Hook{hook("h", permission.AnswerAllow())}}})
		d := c.Decide(ctx, permission.Call{Tool: anyTool, Input: json.RawMessage(`{}`)}, nil)
		assert.Equal(t, permission.Deny, d.Verdict)
		assert.Contains(t, d.Reason, "context canceled")
	})
	t.Run("slow hooks have longer", func(t *testing.T) {
		var left time.Duration
		slow := permission.Hook{Name: "s", Slow: true, Judge: func(ctx context.Context, _ permission.Call) (permission.Answer, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return permission.Answer{}, nil
		}}
		c := compile(t, permission.Spec{HookTimeout: time.Hour, Engine: permission.Layer{Hooks: []permission.Hook{slow}}})
		assert.Equal(t, permission.Allow, permission.Explain(c, anyTool, json.RawMessage(`{}`)).Verdict)
		assert.Greater(t, left, 30*time.Hour)
		assert.True(t, c.HasSlow())
		assert.False(t, compile(t, permission.Spec{}).HasSlow())
	})
}

func TestInvalidInput(t *testing.T) {
	c := compile(t, permission.Spec{Engine: permission.Layer{
		Hooks: []permission.Hook{hook("h", permission.AnswerAllow())}, Deny: []permission.Rule{{Tool: permission.One("a"), Domains: permission.One("x")}}}})
	issues := []tool.Issue{{Pointer: "/n", Message: "want a number"}}
	call := permission.Call{Tool: anyTool, Input: json.RawMessage(`{"n":"x"}`)}
	d := c.Decide(context.Background(), call, func(json.RawMessage) []tool.Issue { return issues })
	assert.Equal(t, permission.Deny, d.Verdict)
	assert.Equal(t, permission.ByInvalid, d.DecidedBy)
	assert.Equal(t, issues, d.Invalid)

	d = c.Decide(context.Background(), call, func(json.RawMessage) []tool.Issue { panic("schema") })
	assert.Equal(t, permission.Deny, d.Verdict)
	assert.Equal(t, permission.ByInvalid, d.DecidedBy)
	assert.True(t, d.Failed)

	for _, junk := range []string{"", "{", "{} {}"} {
		d = permission.Explain(c, anyTool, json.RawMessage(junk))
		assert.Equal(t, permission.ByInvalid, d.DecidedBy)
		_, err := json.Marshal(d)
		assert.NoError(t, err, "a decision is always JSON")
	}
}

// Hooks must not be able to change what is recorded but through AnswerModify.
func TestHooksGetCopies(t *testing.T) {
	version := "1"
	agent := tool.Agent{Type: "fixer"}
	input := json.RawMessage(`{"a":1}`)
	vandal := func(_ context.Context, call permission.Call) (permission.Answer, error) {
		copy(call.Input, "XXXXXXX")
		copy(call.Tool.Parameters, "XX")
		*call.Tool.Version = "2"
		call.Agent.Type = "root"
		return permission.Answer{}, nil
	}
	info := tool.Info{Name: "a", Version: &version, Parameters: json.RawMessage(`{}`)}
	c := compile(t, permission.Spec{Engine: permission.Layer{Hooks: []permission.Hook{{Judge: vandal}}, CanUseTool: vandal}})
	d := c.Decide(context.Background(), permission.Call{Tool: info, Input: input, Agent: &agent}, func(in json.RawMessage) []tool.Issue {
		copy(in, "YYYYYYY")
		return nil
	})
	assert.Equal(t, permission.Allow, d.Verdict)
	assert.JSONEq(t, `{"a":1}`, string(d.Input))
	assert.Equal(t, "1", version)
	assert.Equal(t, "fixer", agent.Type)
	assert.Equal(t, `{}`, string(info.Parameters))
	assert.False(t, d.Modified)
	copy(input, "ZZZZZZZ")
	assert.JSONEq(t, `{"a":1}`, string(d.Input), "the decision keeps its own bytes")
}

func TestStrictApprovals(t *testing.T) {
	needs := tool.Info{Name: "a", NeedsApproval: true}
	for _, s := range []permission.Spec{
		{Engine: permission.Layer{StrictApprovals: true, CanUseTool: say(permission.AnswerAllow())}},
		{Engine: permission.Layer{CanUseTool: say(permission.AnswerAllow())}, Profile: permission.Layer{StrictApprovals: true}},
	} {
		c := compile(t, s)
		d := permission.Explain(c, needs, json.RawMessage(`{}`))
		assert.Equal(t, permission.Ask, d.Verdict)
		assert.Equal(t, permission.ByDefault, d.DecidedBy)
		d = permission.Explain(c, tool.Info{Name: "a"}, json.RawMessage(`{}`))
		assert.Equal(t, permission.ByCanUseTool, d.DecidedBy)
		assert.Equal(t, permission.Allow, d.Verdict)
	}
}

// An ask added by one agent's input, and an ask for want of knowledge, must not turn a deny of canUseTool into a question.
func TestSoftAsks(t *testing.T) {
	deny, allow := say(permission.AnswerDeny("no")), say(permission.AnswerAllow())
	ask := []permission.Rule{{Tool: permission.One("a")}}
	for name, tc := range map[string]struct {
		spec    permission.Spec
		info    tool.Info
		input   json.RawMessage
		verdict permission.Verdict
		by      permission.Decider
	}{
		"agent ask, canUseTool denies": {permission.Spec{Engine: permission.Layer{CanUseTool: deny}, AgentAsk: ask}, anyTool, json.RawMessage(`{}`), permission.Deny, permission.ByCanUseTool},
		"agent ask, canUseTool allows": {permission.Spec{Engine: permission.Layer{CanUseTool: allow}, AgentAsk: ask}, anyTool, json.RawMessage(`{}`), permission.Ask, permission.ByAskRule},
		"agent ask alone":              {permission.Spec{AgentAsk: ask}, anyTool, json.RawMessage(`{}`), permission.Ask, permission.ByAskRule},
		"policy ask, canUseTool denies": {permission.Spec{Engine: permission.Layer{CanUseTool: deny, Ask: ask}}, anyTool, json.RawMessage(`{}`),
			permission.Ask, permission.ByAskRule},
		"unreadable, canUseTool denies": {permission.Spec{Engine: permission.Layer{CanUseTool: deny, Deny: []permission.Rule{argvRule("rm **")}}}, shellTool, shell("echo $(id)"),
			permission.Deny, permission.ByCanUseTool},
		"agent deny": {permission.Spec{Engine: permission.Layer{CanUseTool: allow}, AgentDeny: []permission.Rule{{Tool: permission.One("a")}}}, anyTool, json.RawMessage(`{}`),
			permission.Deny, permission.ByDenyRule},
	} {
		t.Run(name, func(t *testing.T) {
			d := permission.Explain(compile(t, tc.spec), tc.info, tc.input)
			assert.Equal(t, tc.verdict, d.Verdict, "%+v", d)
			assert.Equal(t, tc.by, d.DecidedBy)
		})
	}
}

func argvRule(patterns ...string) permission.Rule {
	return permission.Rule{Tool: permission.One("shell"), Argv: permission.Many(patterns...)}
}

func TestReasons(t *testing.T) {
	because := permission.Rule{Tool: permission.One("wipe"), Reason: "nothing is deleted here"}
	c := compile(t, permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{argvRule("rm -rf **"), because}, Hooks: []permission.Hook{{
		Name: "hours", Judge: func(_ context.Context, call permission.Call) (permission.Answer, error) {
			switch call.Tool.Name {
			case "late":
				return permission.AnswerAsk("it is late"), nil
			case "edit":
				return permission.AnswerModify(json.RawMessage(`{"safe":true}`)), nil
			}
			return permission.Answer{}, nil
		}}}}, Profile: permission.Layer{Preset: permission.Standard}, Readonly: true})
	for name, tc := range map[string]struct {
		info   tool.Info
		input  json.RawMessage
		reason string
	}{
		"argv":     {shellTool, shell("rm -rf /"), `{tool: shell, argv: ["rm -rf **"]} (engine)`},
		"preset":   {shellTool, shell("ls"), "{risk: [network, execute, destructive]} (preset standard)"},
		"readonly": {anyTool, json.RawMessage(`{}`), "{risk: [write, destructive]} (readonly isolation)"},
		"written":  {tool.Info{Name: "wipe", Risk: tool.Read}, json.RawMessage(`{}`), "{tool: wipe} (engine): nothing is deleted here"},
		"hook":     {tool.Info{Name: "late", Risk: tool.Read}, json.RawMessage(`{}`), `hook "hours": it is late`},
		"guard":    {tool.Info{Name: "late", Risk: tool.Write}, json.RawMessage(`{}`), `readonly isolation: the tool declares write`},
		"allow":    {tool.Info{Name: "edit", Risk: tool.Read}, json.RawMessage(`{}`), ""},
		"unknown":  {tool.Info{Name: "x", Risk: "wild"}, json.RawMessage(`{}`), "{risk: undeclared} (preset standard)"},
		"default":  {tool.Info{Name: "x", Risk: tool.Read, NeedsApproval: true}, json.RawMessage(`{}`), "the tool needs approval"},
	} {
		t.Run(name, func(t *testing.T) {
			d := permission.Explain(c, tc.info, tc.input)
			assert.Equal(t, tc.reason, d.Reason)
			assert.Equal(t, tc.info.Name == "edit", d.Modified)
		})
	}
}

func TestDecisionJSON(t *testing.T) {
	c := compile(t, permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{{Tool: permission.One("shell"), Argv: permission.One("rm **")}}}})
	b, err := json.Marshal(permission.Explain(c, shellTool, shell("rm x")))
	require.NoError(t, err)
	assert.JSONEq(t, `{"verdict":"deny","decidedBy":"deny-rule","rule":{"tool":"shell","argv":"rm **"},
		"reason":"{tool: shell, argv: \"rm **\"} (engine)","input":{"command":"rm x"},
		"segments":[{"segment":"rm x","verdict":"deny","table":"deny","pattern":"rm **","construct":""}],"policyDigest":"`+c.Digest()+`"}`, string(b))
	var back permission.Decision
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, permission.Deny, back.Verdict)
}

func TestDigest(t *testing.T) {
	base := permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{argvRule("rm **")}}}
	digest := compile(t, base).Digest()
	require.Len(t, digest, 64)
	assert.Equal(t, digest, compile(t, base).Digest())

	tested := base
	rule := argvRule("rm **")
	rule.Tests = &permission.RuleTests{Match: permission.One("rm x")}
	tested.Engine.Deny = []permission.Rule{rule}
	assert.Equal(t, digest, compile(t, tested).Digest(), "inline tests decide nothing")

	for name, change := range map[string]func(*permission.Spec){
		"rule":       func(s *permission.Spec) { s.Engine.Deny = []permission.Rule{argvRule("rm *")} },
		"hook":       func(s *permission.Spec) { s.Engine.Hooks = []permission.Hook{hook("h", permission.AnswerAllow())} },
		"canUseTool": func(s *permission.Spec) { s.Engine.CanUseTool = say(permission.AnswerAllow()) },
		"preset":     func(s *permission.Spec) { s.Profile.Preset = permission.Strict },
		"readonly":   func(s *permission.Spec) { s.Readonly = true },
		"strict":     func(s *permission.Spec) { s.Profile.StrictApprovals = true },
		"agent":      func(s *permission.Spec) { s.AgentAsk = []permission.Rule{{Tool: permission.One("a")}} },
		"approval":   func(s *permission.Spec) { s.Profile.Approval = &permission.ApprovalPolicy{Deadline: time.Hour} },
		"vetted": func(s *permission.Spec) {
			s.Engine.Vetted = []permission.Vetted{{Tool: permission.One("shell"), Argv: permission.One("ls")}}
		},
	} {
		s := base
		change(&s)
		assert.NotEqual(t, digest, compile(t, s).Digest(), name)
	}
}

func TestApprovalFor(t *testing.T) {
	ops, leads := &permission.Approvers{Groups: []string{"ops"}, Min: 2}, &permission.Escalation{After: time.Minute, Groups: []string{"leads"}}
	rule := permission.Rule{Tool: permission.One("a"), Approval: &permission.ApprovalPolicy{Deadline: 3 * time.Hour}}
	c := compile(t, permission.Spec{
		Engine:  permission.Layer{Approval: &permission.ApprovalPolicy{Deadline: time.Hour, Approvers: ops}, Ask: []permission.Rule{rule}},
		Profile: permission.Layer{Approval: &permission.ApprovalPolicy{Remind: 2 * time.Minute, Escalate: leads}},
	})
	d := permission.Explain(c, anyTool, json.RawMessage(`{}`))
	require.Equal(t, permission.Ask, d.Verdict)
	assert.Equal(t, permission.ApprovalPolicy{Deadline: 3 * time.Hour, Remind: 2 * time.Minute, Escalate: leads, Approvers: ops},
		c.ApprovalFor(d), "a deadline alone does not widen who may answer")
	assert.Equal(t, permission.ApprovalPolicy{Deadline: time.Hour, Remind: 2 * time.Minute, Escalate: leads, Approvers: ops},
		c.ApprovalFor(permission.Decision{}))
	few := &permission.Approvers{Min: 1}
	assert.Equal(t, few, c.ApprovalFor(permission.Decision{Rule: &permission.Rule{Approval: &permission.ApprovalPolicy{Approvers: few}}}).Approvers)
	assert.Zero(t, compile(t, permission.Spec{}).ApprovalFor(permission.Decision{Rule: &permission.Rule{}}))
}
