package permission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

type judge = func(context.Context, permission.Call) (permission.Answer, error)

// unreadable is an error whose text cannot be read.
type unreadable struct{}

func (unreadable) Error() string { panic("no text") }

func modify(text string) judge { return say(permission.AnswerModify(json.RawMessage(text))) }

// failing are hooks that do not do their job, and what the decision says of each.
var failing = map[string]struct {
	judge judge
	says  string
}{
	"error": {func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.Answer{}, errors.New("broken")
	}, "broken"},
	"error and allow": {func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerAllow(), errors.New("broken")
	}, "broken"},
	"error and modify": {func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerModify(json.RawMessage(`{}`)), errors.New("broken")
	}, "broken"},
	"error and ask": {func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerAsk(""), errors.New("broken")
	}, "broken"},
	"wrapped nothing": {func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.Answer{}, errors.Join(nil, context.Canceled)
	}, "canceled"},
	"panic":            {func(context.Context, permission.Call) (permission.Answer, error) { panic("boom") }, "panic: boom"},
	"panic with nil":   {func(context.Context, permission.Call) (permission.Answer, error) { panic(nil) }, "panic"},
	"panic with error": {func(context.Context, permission.Call) (permission.Answer, error) { panic(errors.New("boom")) }, "boom"},
	"unreadable error": {func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerAllow(), unreadable{}
	}, ""},
	"unreadable panic": {func(context.Context, permission.Call) (permission.Answer, error) { panic(unreadable{}) }, ""},
	"nil map": {func(context.Context, permission.Call) (permission.Answer, error) {
		noMap()["a"] = 1
		return permission.AnswerAllow(), nil
	}, "nil map"},
	"nil pointer": {func(_ context.Context, c permission.Call) (permission.Answer, error) {
		var agent *tool.Agent
		return permission.AnswerAsk(agent.Label), nil
	}, "nil pointer"},
	"index": {func(_ context.Context, c permission.Call) (permission.Answer, error) {
		return permission.AnswerAsk(string(c.Input[len(c.Input)+3])), nil
	}, "out of range"},
	"goexit": {func(context.Context, permission.Call) (permission.Answer, error) {
		runtime.Goexit()
		return permission.AnswerAllow(), nil
	}, "ended without an answer"},
	"deferred panic in goexit": {func(context.Context, permission.Call) (permission.Answer, error) {
		defer func() { panic("late") }()
		runtime.Goexit()
		return permission.AnswerAllow(), nil
	}, "late"},
	"modify to nothing":    {modify(``), "not JSON"},
	"modify to half":       {modify(`{"a":`), "not JSON"},
	"modify to two":        {modify(`{} {}`), "not JSON"},
	"modify too deep":      {modify(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), "not JSON"},
	"modify open for ever": {modify(strings.Repeat(`{"a":`, 100_000)), "not JSON"},
	"modify to 5 MB of x":  {modify(strings.Repeat("x", 5<<20)), "not JSON"},
	"modify to a list":     {modify(`[]`), "does not fit the tool"},
	"modify to null":       {modify(`null`), "does not fit the tool"},
	"modify to a number":   {modify(`7`), "does not fit the tool"},
	"modify to a string":   {modify(`"{}"`), "does not fit the tool"},
	"modify to twins":      {modify(`{"text":"a","text":"b"}`), "does not fit the tool"},
	"modify to a half":     {modify(`{"text":"\ud800"}`), "does not fit the tool"},
	"modify to bad UTF-8":  {modify("{\"text\":\"\xff\"}"), "does not fit the tool"},
	"modify to no fit":     {modify(`{"text":3}`), "does not fit the tool"},
	"modify to more":       {modify(`{"text":"a","more":1}`), "does not fit the tool"},
	"modify to 9000 deep":  {modify(strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)), "does not fit the tool"},
}

// noted is a real tool, whose arguments are one text.
func noted(t *testing.T) *tool.Def {
	t.Helper()
	type in struct {
		Text string `json:"text"`
	}
	def, err := tool.New("note", "Notes.", func(context.Context, *tool.Context, in) (string, error) { return "", nil }, tool.Write)
	require.NoError(t, err)
	return def
}

// Whatever a hook or canUseTool does wrong denies, in the name of the layer, and is a decision that can be recorded; no
// later layer makes it good.
func TestAHookThatFailsDeniesByName(t *testing.T) {
	def := noted(t)
	for name, f := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := permission.Hook{Name: "good", Judge: say(permission.AnswerAllow())}
			bad := permission.Hook{Name: "bad", Judge: f.judge}
			slow := bad
			slow.Slow = true
			for by, specs := range map[permission.Decider][]permission.Spec{
				permission.ByHook: {
					{Engine: permission.Layer{Hooks: []permission.Hook{bad, good}, CanUseTool: say(permission.AnswerAllow())}},
					{Engine: permission.Layer{Hooks: []permission.Hook{slow}}},
					{Profile: permission.Layer{Hooks: []permission.Hook{bad}, Ask: []permission.Rule{{Tool: permission.One("note")}}}},
					{Engine: permission.Layer{Hooks: []permission.Hook{bad}, Vetted: []permission.Vetted{{Tool: permission.One("note"), Argv: permission.One("x")}}}},
				},
				permission.ByCanUseTool: {
					{Engine: permission.Layer{CanUseTool: f.judge}},
					{Profile: permission.Layer{CanUseTool: f.judge, StrictApprovals: true}},
				},
			} {
				for _, spec := range specs {
					d := compile(t, spec).Decide(t.Context(), permission.Call{Tool: def.Info(), Input: json.RawMessage(`{"text":"a"}`)}, def.Validate)
					assert.Equal(t, permission.Deny, d.Verdict)
					assert.Equal(t, by, d.DecidedBy)
					assert.Contains(t, d.Reason, f.says)
					assert.True(t, d.Failed)
					assert.Nil(t, d.Rule)
					assert.NotEmpty(t, d.PolicyDigest)
					_, err := json.Marshal(d)
					assert.NoError(t, err)
				}
			}
		})
	}
}

// A large input from a hook is one like any other.
func TestAHookMayModifyToALot(t *testing.T) {
	def := noted(t)
	large := `{"text":"` + strings.Repeat("y", 5<<20) + `"}`
	d := compile(t, permission.Spec{Engine: permission.Layer{Hooks: []permission.Hook{{Name: "h", Judge: modify(large)}}}}).
		Decide(t.Context(), permission.Call{Tool: def.Info(), Input: json.RawMessage(`{"text":"a"}`)}, def.Validate)
	assert.Equal(t, permission.Allow, d.Verdict)
	assert.True(t, d.Modified)
	assert.Equal(t, len(large), len(d.Input))
}

// A hook that ignores its context is not waited for. Its goroutine stays until it returns, and nothing it says then counts.
func TestAHookThatNeverReturns(t *testing.T) {
	def := noted(t)
	release := make(chan struct{})
	over := make(chan struct{}, 8)
	late := func(_ context.Context, c permission.Call) (permission.Answer, error) {
		defer func() { over <- struct{}{} }()
		<-release
		copy(c.Input, "XXXXXXXXXXXX") // its own copy
		return permission.AnswerAllow(), nil
	}
	call := permission.Call{Tool: def.Info(), Input: json.RawMessage(`{"text":"a"}`)}
	before := runtime.NumGoroutine()
	var decisions []permission.Decision
	for _, spec := range []permission.Spec{
		{Engine: permission.Layer{Hooks: []permission.Hook{{Name: "late", Judge: late}}}},
		{Engine: permission.Layer{CanUseTool: late}},
		{Engine: permission.Layer{Hooks: []permission.Hook{{Name: "late", Judge: late, Slow: true}}}},
	} {
		spec.HookTimeout = time.Millisecond
		decisions = append(decisions, compile(t, spec).Decide(t.Context(), call, def.Validate))
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	decisions = append(decisions, compile(t, permission.Spec{HookTimeout: time.Hour,
		Engine: permission.Layer{Hooks: []permission.Hook{{Name: "late", Judge: late}}}}).Decide(ctx, call, def.Validate))
	for i, d := range decisions {
		assert.Equal(t, permission.Deny, d.Verdict, i)
		assert.True(t, d.Failed)
		assert.Regexp(t, "late|canUseTool", d.Reason)
		assert.Regexp(t, "deadline exceeded|canceled", d.Reason)
	}
	close(release)
	for range decisions {
		<-over
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 3*time.Minute, time.Millisecond, "goroutines end with their hooks")
	for _, d := range decisions {
		assert.Equal(t, permission.Deny, d.Verdict)
		assert.JSONEq(t, `{"text":"a"}`, string(d.Input), "what it says later changes nothing")
	}
}

// A hook may keep what it was given; the decision does not depend on it any more.
func TestAHookThatKeepsItsContextAndCall(t *testing.T) {
	def := noted(t)
	var kept []context.Context
	var calls []permission.Call
	keep := func(ctx context.Context, c permission.Call) (permission.Answer, error) {
		kept, calls = append(kept, ctx), append(calls, c)
		go func() {
			<-ctx.Done()
			for i := range c.Input {
				c.Input[i] = 'X'
			}
		}()
		return permission.AnswerModify(json.RawMessage(fmt.Sprintf(`{"text":"%d"}`, len(calls)))), nil
	}
	chain := compile(t, permission.Spec{Engine: permission.Layer{Hooks: []permission.Hook{{Judge: keep}, {Judge: keep}}, CanUseTool: keep}})
	d := chain.Decide(t.Context(), permission.Call{Tool: def.Info(), Input: json.RawMessage(`{"text":"a"}`)}, def.Validate)
	require.Len(t, kept, 3)
	for _, ctx := range kept {
		assert.Error(t, ctx.Err(), "its time is over when it has answered")
	}
	assert.Equal(t, permission.Allow, d.Verdict)
	assert.JSONEq(t, `{"text":"3"}`, string(d.Input))
}

// canUseTool cannot ask: that is for rules and hooks.
func TestCanUseToolThatAsksDenies(t *testing.T) {
	for _, strict := range []bool{false, true} {
		d := permission.Explain(compile(t, permission.Spec{Engine: permission.Layer{CanUseTool: say(permission.AnswerAsk("?")), StrictApprovals: strict}}),
			tool.Info{Name: "a", NeedsApproval: true}, json.RawMessage(`{}`))
		assert.Equal(t, permission.Deny, d.Verdict)
		assert.Equal(t, permission.ByCanUseTool, d.DecidedBy)
		assert.True(t, d.Failed)
	}
}

// noMap returns a map that nobody can write to.
func noMap() map[string]int { return nil }
