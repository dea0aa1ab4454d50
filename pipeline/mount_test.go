package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

type (
	call = pipeline.Call
	ask  = func(context.Context) pipeline.Answer
	run  = func(context.Context) tool.Result
	more = func(context.Context) pipeline.PostAnswer
)

func quiet() *pipeline.Pipeline {
	return pipeline.New(pipeline.Config{Log: slog.New(slog.DiscardHandler)})
}

// mount mounts a plugin that must mount.
func mount(t testing.TB, p *pipeline.Pipeline, name string, fn func(*pipeline.Scope) error) *pipeline.Scope {
	t.Helper()
	s, err := p.Mount(pipeline.PluginFunc(name, fn))
	require.NoError(t, err)
	return s
}

func pre(t testing.TB, p *pipeline.Pipeline, name string, fn pipeline.Listener) *pipeline.Scope {
	return mount(t, p, name, func(s *pipeline.Scope) error { return s.Pre(fn) })
}

func answers(t testing.TB, p *pipeline.Pipeline, name string, a pipeline.Answer) *pipeline.Scope {
	return pre(t, p, name, func(context.Context, call, ask) (pipeline.Answer, error) { return a, nil })
}

func guard(t testing.TB, p *pipeline.Pipeline, name string, fn pipeline.Guard) *pipeline.Scope {
	return mount(t, p, name, func(s *pipeline.Scope) error { return s.Guard(name, fn) })
}

func refuses(reason string) pipeline.Guard {
	return func(context.Context, call) error { return errors.New(reason) }
}

func wrap(t testing.TB, p *pipeline.Pipeline, fn pipeline.Wrapper) *pipeline.Scope {
	return mount(t, p, "wrapper", func(s *pipeline.Scope) error { return s.Wrap(fn) })
}

func post(t testing.TB, p *pipeline.Pipeline, name string, fn pipeline.Post) *pipeline.Scope {
	return mount(t, p, name, func(s *pipeline.Scope) error { return s.Post(fn) })
}

func observe(t testing.TB, p *pipeline.Pipeline, fn pipeline.Observer) *pipeline.Scope {
	return mount(t, p, "observer", func(s *pipeline.Scope) error { return s.Observe(fn) })
}

// watch records the codes that stage 5 sees.
func watch(t testing.TB, p *pipeline.Pipeline) *[]tool.Code {
	codes := &[]tool.Code{}
	observe(t, p, func(_ context.Context, _ call, r tool.Result) error {
		*codes = append(*codes, r.Code)
		return nil
	})
	return codes
}

func define(t testing.TB, name string, fn func(context.Context, json.RawMessage) (any, error), opts ...tool.Option) *tool.Def {
	t.Helper()
	def, err := tool.FromSchema(name, "A tool.", json.RawMessage(`{"type":"object"}`),
		func(ctx context.Context, _ *tool.Context, in json.RawMessage) (any, error) { return fn(ctx, in) }, opts...)
	require.NoError(t, err)
	return def
}

func mountTool(t testing.TB, p *pipeline.Pipeline, def *tool.Def) *pipeline.Scope {
	return mount(t, p, "owner of "+def.Name(), func(s *pipeline.Scope) error { return s.Tool(def) })
}

// echo is a tool that returns its arguments.
func echo(t testing.TB, name string, opts ...tool.Option) *tool.Def {
	return define(t, name, func(_ context.Context, in json.RawMessage) (any, error) { return in, nil }, opts...)
}

func chain(d permission.Decision) func(context.Context) permission.Decision {
	return func(context.Context) permission.Decision { return d }
}

func value(v string) run {
	return func(context.Context) tool.Result { return tool.Result{Code: tool.OK, Value: json.RawMessage(v)} }
}
