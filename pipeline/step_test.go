package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// bench is a pipeline mounted from a row, one plugin for each step, and what was seen while it ran.
type bench struct {
	t        *testing.T
	pipeline *pipeline.Pipeline
	cancel   context.CancelFunc
	guards   []*pipeline.Scope
	tools    []*pipeline.Scope
	running  atomic.Int32

	mu           sync.Mutex
	trace        []string
	codes        []string
	bodies, asks int
}

func newBench(t *testing.T, r row) *bench {
	b := &bench{t: t, codes: []string{}, pipeline: pipeline.New(pipeline.Config{Log: slog.New(slog.DiscardHandler)})}
	order := r.Mount
	for _, kind := range []string{"pre", "guards", "execute", "post", "approver", "tool", "observers"} {
		if r.Mount == nil {
			order = append(order, kind)
		}
	}
	for _, kind := range order {
		b.mountKind(kind, r)
	}
	return b
}

func (b *bench) mountKind(kind string, r row) {
	switch kind {
	case "pre":
		for i, s := range r.Pre {
			b.mount(fmt.Sprintf("pre%d", i), func(sc *pipeline.Scope) error { return sc.Pre(b.pre(i, s)) })
		}
	case "guards":
		for i, s := range r.Guards {
			name := fmt.Sprintf("guard%d", i)
			b.guards = append(b.guards, b.mount(name, func(sc *pipeline.Scope) error { return sc.Guard(name, b.guard(name, s)) }))
		}
	case "execute":
		for i, s := range r.Execute {
			if s.Do == "timeout_policy" {
				_, err := b.pipeline.Mount(pipeline.Timeout())
				require.NoError(b.t, err)
				continue
			}
			b.mount(fmt.Sprintf("exec%d", i), func(sc *pipeline.Scope) error { return sc.Wrap(b.wrap(i, s)) })
		}
	case "post":
		for i, s := range r.Post {
			b.mount(fmt.Sprintf("post%d", i), func(sc *pipeline.Scope) error { return sc.Post(b.post(i, s)) })
		}
	case "approver":
		for _, s := range approvers(b.t, r.Approver) {
			b.mount("approver", func(sc *pipeline.Scope) error { return sc.Approver(b.approver(s)) })
		}
	case "tool":
		var opts []tool.Option
		if r.Tool.TimeoutS > 0 {
			opts = append(opts, tool.Timeout(seconds(r.Tool.TimeoutS)))
		}
		def, err := tool.FromSchema(r.Tool.Name, "A tool.", json.RawMessage(`{"type":"object"}`), b.body(r.Tool), opts...)
		require.NoError(b.t, err)
		b.tools = append(b.tools, b.mount("tool", func(sc *pipeline.Scope) error { return sc.Tool(def) }))
	case "observers":
		for i, s := range r.Observers {
			b.mount(fmt.Sprintf("obs%d", i), func(sc *pipeline.Scope) error { return sc.Observe(b.observer(i, s)) })
		}
	default:
		b.t.Fatalf("unknown kind %q", kind)
	}
}

func (b *bench) mount(name string, fn func(*pipeline.Scope) error) *pipeline.Scope {
	s, err := b.pipeline.Mount(pipeline.PluginFunc(name, fn))
	require.NoError(b.t, err)
	return s
}

func (b *bench) saw(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trace = append(b.trace, what)
}

func (b *bench) pre(i int, s step) pipeline.Listener {
	return func(ctx context.Context, call pipeline.Call, next func(context.Context) pipeline.Answer) (pipeline.Answer, error) {
		b.saw(fmt.Sprintf("pre%d", i))
		if s.passes(call) {
			return next(ctx), nil
		}
		do, after := strings.CutPrefix(s.Do, "next_then_")
		if after {
			next(ctx)
		}
		switch do {
		case "next":
			return next(ctx), nil
		case "allow":
			return pipeline.Allow(), nil
		case "deny":
			return pipeline.Deny(s.Reason), nil
		case "ask":
			return pipeline.Ask(s.Reason), nil
		case "deny_to_ask":
			if a := next(ctx); a.Verdict != permission.Deny {
				return a, nil
			}
			return pipeline.Ask(s.Reason), nil
		case "raise":
			return pipeline.Allow(), errors.New(s.Message)
		case "forget_return":
			return pipeline.Answer{}, nil
		case "return":
			if s.Value == nil || string(s.Value) == "null" {
				return pipeline.Answer{}, nil
			}
			return pipeline.Answer{Verdict: 7}, nil
		case "next_twice":
			next(ctx)
			return next(ctx), nil
		case "mutate_args":
			copy(call.Input, strings.Repeat(" ", len(call.Input)))
			call.Input = json.RawMessage(`{"path":"/safe"}`)
			return next(ctx), nil
		case "set_field":
			call.Name, call.Info.Name = "other", "other"
			return next(ctx), nil
		case "wait":
			if err := sleep(ctx, s.Seconds); err != nil {
				return pipeline.Answer{}, err
			}
			return next(ctx), nil
		case "cancel":
			b.cancel()
			return pipeline.Answer{}, ctx.Err()
		}
		b.duringCall(do, s)
		return next(ctx), nil
	}
}

// duringCall registers or undoes something in the middle of a call.
func (b *bench) duringCall(do string, s step) {
	switch do {
	case "add_guard":
		b.mount("late", func(sc *pipeline.Scope) error {
			return sc.Guard("guard9", b.guard("guard9", step{Do: "deny", Reason: s.Reason}))
		})
	case "add_pre":
		b.mount("late", func(sc *pipeline.Scope) error { return sc.Pre(b.pre(9, step{Do: "deny", Reason: s.Reason})) })
	case "unload_guards":
		for _, g := range b.guards {
			g.Close()
		}
	case "unload_tool":
		for _, t := range b.tools {
			t.Close()
		}
	default:
		panic("unknown verb " + do)
	}
}

func (b *bench) guard(name string, s step) pipeline.Guard {
	return func(_ context.Context, call pipeline.Call) error {
		b.saw(name)
		if s.passes(call) {
			return nil
		}
		switch s.Do {
		case "abstain":
			return nil
		case "deny":
			return errors.New(s.Reason)
		case "raise":
			panic(s.Message)
		case "cancel":
			// The guard says that it was cancelled; the call was not.
			return context.Canceled
		}
		panic("unknown verb " + s.Do)
	}
}

func (b *bench) wrap(i int, s step) pipeline.Wrapper {
	return func(ctx context.Context, call pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
		b.saw(fmt.Sprintf("exec%d", i))
		if s.passes(call) {
			return next(ctx), nil
		}
		switch s.Do {
		case "next":
			return next(ctx), nil
		case "next_twice":
			next(ctx)
			return next(ctx), nil
		case "short_circuit":
			return tool.Result{Code: tool.OK, Value: s.Value}, nil
		case "short_circuit_error":
			return tool.Fail(tool.Code(s.Code), s.Message), nil
		case "return_raw":
			next(ctx)
			return tool.Result{Value: s.Value}, nil
		case "raise":
			return tool.Result{}, errors.New(s.Message)
		case "next_then_raise":
			next(ctx)
			return tool.Result{}, errors.New(s.Message)
		case "catch":
			r := next(ctx)
			if r.IsOK() {
				return r, nil
			}
			value, err := json.Marshal("caught:" + r.Failure.Message)
			return tool.Result{Code: tool.OK, Value: value}, err
		case "mutate_result":
			r := next(ctx)
			r.Code, r.Value, r.Failure = tool.OK, s.Value, nil
			return r, nil
		case "retry", "retry_fresh":
			var r tool.Result
			for range s.Times {
				if r = next(ctx); r.IsOK() {
					break
				}
			}
			return r, nil
		case "cancel":
			b.cancel()
			return tool.Result{}, ctx.Err()
		}
		panic("unknown verb " + s.Do)
	}
}

func (b *bench) post(i int, s step) pipeline.Post {
	return func(ctx context.Context, call pipeline.Call, r tool.Result, next func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
		b.saw(fmt.Sprintf("post%d", i))
		if s.passes(call) {
			return next(ctx), nil
		}
		do, after := strings.CutPrefix(s.Do, "next_then_")
		if after {
			next(ctx)
		}
		switch do {
		case "next":
			return next(ctx), nil
		case "next_twice":
			next(ctx)
			return next(ctx), nil
		case "accept":
			return pipeline.Accept(), nil
		case "replace":
			return pipeline.Replace(s.Value), nil
		case "replace_if_ok":
			if r.IsOK() {
				return pipeline.Replace(s.Value), nil
			}
			return next(ctx), nil
		case "block":
			return pipeline.Block(s.Feedback), nil
		case "raise":
			return pipeline.Accept(), errors.New(s.Message)
		case "return", "return_none":
			return pipeline.PostAnswer{}, nil
		case "mutate_result":
			if r.Failure != nil {
				r.Failure.Message = "forged"
			}
			copy(r.Value, strings.Repeat(" ", len(r.Value)))
			r.Code, r.Value = tool.OK, s.Value
			return next(ctx), nil
		case "wait":
			if err := sleep(ctx, s.Seconds); err != nil {
				return pipeline.PostAnswer{}, err
			}
			return next(ctx), nil
		case "cancel":
			b.cancel()
			return pipeline.PostAnswer{}, ctx.Err()
		}
		panic("unknown verb " + s.Do)
	}
}
