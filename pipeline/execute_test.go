package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

func TestExecuteRefuses(t *testing.T) {
	p := quiet()
	codes := watch(t, p)
	mountTool(t, p, echo(t, "t"))
	assert.Equal(t, tool.Fail(tool.UnknownTool, `there is no tool "u"`), p.Execute(t.Context(), "u", []byte(`{}`)))
	for _, args := range []string{``, `null`, `[]`, `{"a":1,"a":2}`, `{} {}`} {
		r := p.Execute(t.Context(), "t", []byte(args))
		assert.Equal(t, tool.InvalidArguments, r.Code, args)
		assert.NotEmpty(t, r.Failure.Issues)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, tool.Aborted, p.Execute(ctx, "t", []byte(`{}`)).Code)
	assert.Equal(t, []tool.Code{tool.UnknownTool, tool.InvalidArguments, tool.InvalidArguments, tool.InvalidArguments,
		tool.InvalidArguments, tool.InvalidArguments, tool.Aborted}, *codes)
}

func TestExecuteWithAChain(t *testing.T) {
	p := pipeline.New(pipeline.Config{
		Log: slog.New(slog.DiscardHandler), Required: []string{pipeline.ReadonlyGuard}, Isolation: "readonly", Dir: "/work",
		Chain: func(_ context.Context, c call) permission.Decision {
			d := permission.Decision{Verdict: permission.Allow, DecidedBy: permission.ByHook, Input: json.RawMessage(`{"path":"/b"}`), Modified: true}
			switch string(c.Input) {
			case `{"path":"/deny"}`:
				d.Verdict, d.Rule = permission.Deny, &permission.Rule{Tool: permission.One("t")}
			case `{"path":"/break"}`:
				d.Input = json.RawMessage(`[]`)
			}
			return d
		},
	})
	var observed []call
	observe(t, p, func(_ context.Context, c call, _ tool.Result) error { observed = append(observed, c); return nil })
	mountTool(t, p, echo(t, "t"))
	mountTool(t, p, echo(t, "w", tool.Write))

	assert.Equal(t, tool.Deny(tool.ByGuard, "readonly", "required guard not mounted: readonly"), p.Execute(t.Context(), "t", []byte(`{}`)))
	_, err := p.Mount(pipeline.Readonly())
	require.NoError(t, err)
	assert.Equal(t, tool.Deny(tool.ByGuard, "readonly", "w is a write tool and the isolation is readonly"), p.Execute(t.Context(), "w", []byte(`{}`)))

	r := p.Execute(t.Context(), "t", []byte(`{"path":"/a"}`))
	assert.Equal(t, tool.Result{Code: tool.OK, Value: json.RawMessage(`{"path":"/b"}`), FinalInput: json.RawMessage(`{"path":"/b"}`)}, r)
	last := observed[len(observed)-1]
	assert.Equal(t, `{"path":"/b"}`, string(last.Input))
	assert.True(t, last.Modified)
	assert.Equal(t, "/work", last.Dir)
	assert.Equal(t, 1, last.Attempt)
	assert.NotEmpty(t, last.ID)
	assert.Contains(t, last.IdempotencyKey, last.ID)

	r = p.Execute(t.Context(), "t", []byte(`{"path":"/deny"}`))
	assert.Equal(t, tool.ByRule, r.Failure.Reason)
	assert.NotEmpty(t, r.Failure.By)
	assert.Equal(t, tool.InvalidArguments, p.Execute(t.Context(), "t", []byte(`{"path":"/break"}`)).Code, "a modified input is validated again")
}

func TestExecuteAsks(t *testing.T) {
	for _, c := range []struct {
		name     string
		approver pipeline.Approver
		want     tool.Result
	}{
		{"nobody", nil, tool.Deny(tool.ByFailure, "", "the tool needs approval")},
		{"zero", says(pipeline.Answer{}), tool.Deny(tool.ByPerson, "human", "the tool needs approval")},
		{"a refusal", says(pipeline.Deny("no")), tool.Deny(tool.ByPerson, "human", "no")},
		{"ask", says(pipeline.Ask("?")), tool.Deny(tool.ByPerson, "human", "?")},
		{"beyond allow", says(pipeline.Answer{Verdict: 3, Reason: "yes"}), tool.Deny(tool.ByPerson, "human", "yes")},
		{"an error beside an allow", func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
			return pipeline.Allow(), errors.New("x")
		}, tool.Deny(tool.ByFailure, "human", `approver of plugin "human" failed: x`)},
		{"a panic", func(context.Context, call, permission.Decision) (pipeline.Answer, error) { panic("x") },
			tool.Deny(tool.ByFailure, "human", `approver of plugin "human" failed: panic: x`)},
		{"says it was cancelled and was not", func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
			return pipeline.Answer{}, context.Canceled
		}, tool.Deny(tool.ByFailure, "human", `approver of plugin "human" failed: context canceled`)},
		{"unavailable", func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
			return pipeline.Allow(), pipeline.ErrUnavailable
		}, tool.Deny(tool.ByFailure, "human", `approver of plugin "human" failed: approver unavailable`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := quiet()
			codes := watch(t, p)
			mountTool(t, p, echo(t, "t", tool.NeedsApproval()))
			if c.approver != nil {
				mount(t, p, "human", func(s *pipeline.Scope) error { return s.Approver(c.approver) })
			}
			assert.Equal(t, c.want, p.Execute(t.Context(), "t", []byte(`{}`)))
			assert.Equal(t, []tool.Code{tool.Denied}, *codes)
		})
	}
}

func says(a pipeline.Answer) pipeline.Approver {
	return func(context.Context, call, permission.Decision) (pipeline.Answer, error) { return a, nil }
}

func TestExecuteTellsTheToolWhoApproved(t *testing.T) {
	p := quiet()
	def, err := tool.FromSchema("t", "A tool.", json.RawMessage(`{"type":"object"}`),
		func(_ context.Context, c *tool.Context, _ json.RawMessage) (any, error) { return c.Approved, nil }, tool.NeedsApproval())
	require.NoError(t, err)
	mountTool(t, p, def)
	mount(t, p, "human", func(s *pipeline.Scope) error {
		return s.Approver(func(_ context.Context, c call, d permission.Decision) (pipeline.Answer, error) {
			copy(d.Input, "XX")
			assert.Equal(t, "the tool needs approval", d.Reason)
			return pipeline.Answer{Verdict: permission.Allow, Reason: "fine"}, nil
		})
	})
	r := p.Execute(t.Context(), "t", []byte(`{}`))
	require.True(t, r.IsOK(), "%+v", r.Failure)
	var approved tool.Approved
	require.NoError(t, json.Unmarshal(r.Value, &approved))
	assert.Equal(t, "human", approved.By)
	assert.Equal(t, "fine", approved.Reason)
}

func TestExecuteSurvivesUnloading(t *testing.T) {
	p := quiet()
	owner := mountTool(t, p, echo(t, "t"))
	pre(t, p, "l", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
		owner.Close()
		return next(ctx), nil
	})
	assert.True(t, p.Execute(t.Context(), "t", []byte(`{}`)).IsOK(), "a call in flight finishes")
	assert.Equal(t, tool.UnknownTool, p.Execute(t.Context(), "t", []byte(`{}`)).Code)
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	p := quiet()
	_, err := p.Mount(pipeline.Log(log))
	require.NoError(t, err)
	c := call{ID: "c1", Name: "t", Attempt: 2, Input: json.RawMessage(`{"a":"secret"}`),
		Agent: &tool.Agent{RunID: "r1", Type: "fixer"}, Approved: &tool.Approved{By: "alice"}}
	p.Observe(t.Context(), c, tool.Result{Code: tool.OK, Value: json.RawMessage(`"secret"`)})
	p.Observe(t.Context(), c, tool.Deny(tool.ByGuard, "g", "secret"))
	assert.NotContains(t, out.String(), "secret")
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 2)
	for i, want := range []map[string]any{
		{"level": "INFO", "code": "OK"},
		{"level": "WARN", "code": "DENIED", "reason": "guard", "by": "g"},
	} {
		var got map[string]any
		require.NoError(t, json.Unmarshal(lines[i], &got))
		delete(got, "time")
		for k, v := range map[string]any{"msg": "tool call", "tool": "t", "call": "c1", "attempt": 2.0, "run": "r1", "agent": "fixer", "approvedBy": "alice"} {
			want[k] = v
		}
		assert.Equal(t, want, got)
	}
}

// panicky is a log handler that cannot be trusted.
type panicky struct{ slog.Handler }

func (panicky) Enabled(context.Context, slog.Level) bool { return true }

func (panicky) Handle(context.Context, slog.Record) error { panic("x") }

func TestFailuresAreLogged(t *testing.T) {
	var out bytes.Buffer
	p := pipeline.New(pipeline.Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
	observe(t, p, func(context.Context, call, tool.Result) error { panic("x") })
	p.Observe(t.Context(), call{ID: "c1", Name: "t"}, tool.Result{Code: tool.OK})
	assert.Contains(t, out.String(), `msg="observer failed" plugin=observer error="panic: x" tool=t call=c1 stack=`)

	p = pipeline.New(pipeline.Config{Log: slog.New(panicky{slog.DiscardHandler})})
	observe(t, p, func(context.Context, call, tool.Result) error { return badError{} })
	assert.NotPanics(t, func() { p.Observe(t.Context(), call{}, tool.Result{Code: tool.OK}) })
}

// A pipeline without an agent enforces rules while a tool runs, if it is given them.
func TestExecuteBringsTheRules(t *testing.T) {
	chain, err := permission.Compile(permission.Spec{Engine: permission.Layer{
		Deny: []permission.Rule{{Tool: permission.One("t"), Argv: permission.One("rm **")}}}})
	require.NoError(t, err)
	var rules tool.Rules
	def := tool.MustNew("t", "Runs.", func(_ context.Context, c *tool.Context, in struct {
		Argv []string `json:"argv"`
	}) (string, error) {
		if rules = c.Rules; rules == nil {
			return "ran", nil
		}
		return "ran", rules.Argv(in.Argv)
	})
	for _, config := range []pipeline.Config{{}, {Rules: chain.Rules}} {
		p := pipeline.New(config)
		mountTool(t, p, def)
		assert.Equal(t, tool.OK, p.Execute(t.Context(), "t", []byte(`{"argv":["ls"]}`)).Code)
		r := p.Execute(t.Context(), "t", []byte(`{"argv":["rm","x"]}`))
		assert.Equal(t, config.Rules != nil, rules != nil)
		if config.Rules == nil {
			assert.Equal(t, tool.OK, r.Code)
			continue
		}
		assert.Equal(t, tool.Denied, r.Code)
		assert.Equal(t, `deny-rule {tool: t, argv: "rm **"}`, r.Failure.By)
	}
}
