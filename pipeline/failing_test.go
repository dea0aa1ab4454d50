package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// under is a pipeline whose chain is a real one.
func under(t *testing.T, spec permission.Spec) *pipeline.Pipeline {
	t.Helper()
	chain, err := permission.Compile(spec)
	require.NoError(t, err)
	var p *pipeline.Pipeline
	p = pipeline.New(pipeline.Config{
		Log: slog.New(slog.DiscardHandler), Rules: chain.Rules,
		Chain: func(ctx context.Context, c call) permission.Decision {
			def, _ := p.Lookup(c.Name)
			return chain.Decide(ctx, permission.Call{Tool: c.Info, Input: c.Input, Dir: c.Dir}, def.Validate)
		},
	})
	return p
}

type judge = func(context.Context, permission.Call) (permission.Answer, error)

func modify(text string) judge {
	return func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerModify(json.RawMessage(text)), nil
	}
}

var failing = map[string]judge{
	"error": func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerAllow(), errors.New("broken")
	},
	"panic": func(context.Context, permission.Call) (permission.Answer, error) { panic("boom") },
	"goexit": func(context.Context, permission.Call) (permission.Answer, error) {
		runtime.Goexit()
		return permission.AnswerAllow(), nil
	},
	"nil map": func(context.Context, permission.Call) (permission.Answer, error) {
		noMap()["a"] = 1
		return permission.AnswerAllow(), nil
	},
	"never": func(context.Context, permission.Call) (permission.Answer, error) { select {} },
	"timeout": func(ctx context.Context, _ permission.Call) (permission.Answer, error) {
		<-ctx.Done()
		return permission.AnswerAllow(), ctx.Err()
	},
	"no JSON": modify(`{`), "list": modify(`[]`), "no fit": modify(`{"path":3}`), "twins": modify(`{"path":"a","path":"b"}`),
	"too deep": modify(strings.Repeat("[", 100_000)),
}

// A hook or canUseTool that fails refuses the call by its name, is observed once, and the tool does not run.
func TestExecuteWithAHookThatFails(t *testing.T) {
	for name, f := range failing {
		for by, layer := range map[string]permission.Layer{
			"hook":       {Hooks: []permission.Hook{{Name: "bad", Judge: f}, {Name: "slow", Judge: f, Slow: true}}},
			"canUseTool": {CanUseTool: f},
		} {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				p := under(t, permission.Spec{Engine: layer, HookTimeout: 20 * time.Millisecond})
				codes := watch(t, p)
				ran := false
				def, err := tool.FromSchema("t", "Takes a path.", json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`),
					func(context.Context, *tool.Context, json.RawMessage) (any, error) { ran = true; return nil, nil })
				require.NoError(t, err)
				mountTool(t, p, def)
				r := p.Execute(t.Context(), "t", []byte(`{"path":"a"}`))
				require.False(t, ran)
				require.Equal(t, tool.Denied, r.Code, "%+v", r)
				assert.Equal(t, tool.ByRule, r.Failure.Reason)
				assert.Equal(t, by, r.Failure.By)
				assert.Contains(t, r.Failure.Message, by)
				assert.Equal(t, []tool.Code{tool.Denied}, *codes)
			})
		}
	}
}

// A listener, a guard, a wrapper, an approver and a tool that end their goroutine fail like those that panic.
func TestExecuteWithPartsThatEndTheirGoroutine(t *testing.T) {
	for name, c := range map[string]struct {
		mount  func(*pipeline.Scope) error
		code   tool.Code
		reason tool.Reason
	}{
		"listener": {func(s *pipeline.Scope) error {
			return s.Pre(func(context.Context, call, ask) (pipeline.Answer, error) {
				runtime.Goexit()
				return pipeline.Allow(), nil
			})
		}, tool.Denied, tool.ByListener},
		"guard": {func(s *pipeline.Scope) error {
			return s.Guard("g", func(context.Context, call) error { runtime.Goexit(); return nil })
		}, tool.Denied, tool.ByGuard},
		"wrapper": {func(s *pipeline.Scope) error {
			return s.Wrap(func(context.Context, call, func(context.Context) tool.Result) (tool.Result, error) {
				runtime.Goexit()
				return tool.Result{Code: tool.OK}, nil
			})
		}, tool.ToolError, ""},
		"post": {func(s *pipeline.Scope) error {
			return s.Post(func(context.Context, call, tool.Result, func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
				runtime.Goexit()
				return pipeline.Accept(), nil
			})
		}, tool.Blocked, ""},
		"observer": {func(s *pipeline.Scope) error {
			return s.Observe(func(context.Context, call, tool.Result) error { runtime.Goexit(); return nil })
		}, tool.OK, ""},
		"tool": {func(s *pipeline.Scope) error {
			def, err := tool.FromSchema("leave", "Leaves.", json.RawMessage(`{"type":"object"}`), func(context.Context, *tool.Context, json.RawMessage) (any, error) {
				runtime.Goexit()
				return nil, nil
			})
			if err != nil {
				return err
			}
			return s.Tool(def)
		}, tool.ToolError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := quiet()
			mountTool(t, p, echo(t, "t"))
			mount(t, p, name, c.mount)
			called := "t"
			if name == "tool" {
				called = "leave"
			}
			done := make(chan tool.Result, 1)
			over := make(chan struct{})
			go func() { defer close(over); done <- p.Execute(t.Context(), called, []byte(`{}`)) }()
			<-over
			select {
			case r := <-done:
				require.Equal(t, c.code, r.Code, "%+v", r.Failure)
				if c.reason != "" {
					assert.Equal(t, c.reason, r.Failure.Reason)
				}
			default:
				t.Fatal("the caller's goroutine is gone")
			}
		})
	}
}

// Execute finds arguments that are no object before anybody is asked, and leaves those that are as they were written.
func TestExecuteWithArgumentsThatNobodyWouldWrite(t *testing.T) {
	asked := false
	p := under(t, permission.Spec{Engine: permission.Layer{Hooks: []permission.Hook{{Name: "h", Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		asked = true
		return permission.AnswerAllow(), nil
	}}}}})
	codes := watch(t, p)
	def, err := tool.FromSchema("same", "Returns its arguments.", json.RawMessage(`{"type":"object"}`),
		func(_ context.Context, _ *tool.Context, in json.RawMessage) (any, error) { return in, nil })
	require.NoError(t, err)
	mountTool(t, p, def)
	bad := []string{"", "null", "[]", "7", `"x"`, "{} {}", "{", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", "{\"a\":\"\x00\"}",
		`{"a":01}`, "\ufeff{}", strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), strings.Repeat("x", 5<<20)}
	for _, args := range bad {
		r := p.Execute(t.Context(), "same", []byte(args))
		assert.Equal(t, tool.InvalidArguments, r.Code, "%.40q", args)
		assert.NotEmpty(t, r.Failure.Issues)
		b, err := json.Marshal(r)
		assert.NoError(t, err)
		assert.Less(t, len(b), 8<<10)
	}
	assert.False(t, asked)
	assert.Len(t, *codes, len(bad))
	for _, args := range []string{`{"n":9007199254740993}`, `{"n":123456789012345683968}`, `{"n":1e400}`, `{"a":"\u0000"}`, `{"":{}}`, `{"a":"` + strings.Repeat("y", 5<<20) + `"}`} {
		r := p.Execute(t.Context(), "same", []byte(args))
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
		assert.True(t, args == string(r.Value), "%.40s", r.Value)
	}
	for _, name := range []string{"", "same\n", "sam\u0435", "\u202esame", "same\x00", strings.Repeat("x", 1<<20)} {
		r := p.Execute(t.Context(), name, []byte(`{}`))
		assert.Equal(t, tool.UnknownTool, r.Code)
		for _, c := range r.Failure.Message {
			assert.GreaterOrEqual(t, c, ' ', "%q", r.Failure.Message)
			assert.NotEqual(t, '\u202e', c)
		}
	}
}

// noMap returns a map that nobody can write to.
func noMap() map[string]int { return nil }
