package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

func TestRunResults(t *testing.T) {
	failure := func(code tool.Code, message string) tool.Result { return tool.Fail(code, message) }
	for _, c := range []struct {
		name string
		wrap pipeline.Wrapper
		body run
		want tool.Result
	}{
		{"a value", nil, value(`9007199254740993`), tool.Result{Code: tool.OK, Value: json.RawMessage(`9007199254740993`)}},
		{"no value is null", nil, value(``), tool.Result{Code: tool.OK, Value: json.RawMessage(`null`)}},
		{"a body that panics", nil, func(context.Context) tool.Result { panic("x") }, failure(tool.ToolError, "panic: x")},
		{"a body without JSON", nil, value(`{`), failure(tool.NonSerializable, "the tool returned a value that is not JSON")},
		{"an invented code", nil, func(context.Context) tool.Result { return tool.Fail("SLOW", "m") }, failure(tool.ToolError, "m")},
		{"a failure with a value", nil,
			func(context.Context) tool.Result { return tool.Result{Code: tool.Denied, Value: json.RawMessage(`1`)} },
			failure(tool.Denied, "the call ended with DENIED")},
		{"a success with a failure", nil,
			func(context.Context) tool.Result {
				return tool.Result{Code: tool.OK, Value: json.RawMessage(`1`), Failure: &tool.Failure{}}
			},
			tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}},
		{"aborted without being cancelled", nil,
			func(context.Context) tool.Result {
				return tool.Result{Code: tool.Aborted, Failure: &tool.Failure{Message: "m", Started: true}}
			},
			failure(tool.ToolError, "m")},
		{"a wrapper that fails", func(context.Context, call, run) (tool.Result, error) {
			return tool.Result{Code: tool.OK}, errors.New("x")
		},
			nil, tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "x", By: "wrapper"}}},
		{"a wrapper that panics", func(ctx context.Context, _ call, next run) (tool.Result, error) { next(ctx); panic("x") },
			nil, tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "panic: x", By: "wrapper"}}},
		{"a wrapper that forgets", func(context.Context, call, run) (tool.Result, error) { return tool.Result{}, nil },
			nil, failure(tool.ToolError, "a wrapper returned no result")},
		{"a wrapper without JSON", func(context.Context, call, run) (tool.Result, error) {
			return tool.Result{Code: tool.OK, Value: json.RawMessage("x")}, nil
		}, nil, failure(tool.ToolError, `wrapper of plugin "wrapper" returned a value that is not JSON`)},
		{"a wrapper that sees a panic as a result", func(ctx context.Context, _ call, next run) (tool.Result, error) {
			r := next(ctx)
			return tool.Result{Code: tool.OK, Value: json.RawMessage(`"` + r.Failure.Message + `"`)}, nil
		}, func(context.Context) tool.Result { panic("x") }, tool.Result{Code: tool.OK, Value: json.RawMessage(`"panic: x"`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := quiet()
			codes := watch(t, p)
			if c.wrap != nil {
				wrap(t, p, c.wrap)
			}
			if c.body == nil {
				c.body = value(`1`)
			}
			assert.Equal(t, c.want, p.Run(t.Context(), call{Name: "t"}, nil, c.body))
			assert.Equal(t, []tool.Code{c.want.Code}, *codes)
		})
	}
}

func TestRunAborted(t *testing.T) {
	t.Run("before it started", func(t *testing.T) {
		p := quiet()
		codes := watch(t, p)
		guard(t, p, "g", func(context.Context, call) error { panic("must not run") })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := p.Run(ctx, call{Name: "t"}, nil, nil)
		assert.Equal(t, tool.Aborted, r.Code)
		assert.False(t, r.Failure.Started)
		assert.Equal(t, []tool.Code{tool.Aborted}, *codes, "observers hear of it in spite of the cancellation")
	})
	t.Run("in a guard", func(t *testing.T) {
		p := quiet()
		ctx, cancel := context.WithCancelCause(t.Context())
		guard(t, p, "g", func(ctx context.Context, _ call) error { cancel(errors.New("budget")); return ctx.Err() })
		r := p.Run(ctx, call{Name: "t"}, nil, nil)
		assert.Equal(t, tool.Fail(tool.Aborted, "the call was cancelled before the tool started: budget"), r)
	})
	t.Run("in a wrapper, before the body", func(t *testing.T) {
		p := quiet()
		ctx, cancel := context.WithCancel(t.Context())
		wrap(t, p, func(ctx context.Context, _ call, next run) (tool.Result, error) { cancel(); return next(ctx), nil })
		r := p.Run(ctx, call{Name: "t"}, nil, func(context.Context) tool.Result { panic("must not run") })
		assert.Equal(t, tool.Aborted, r.Code)
		assert.False(t, r.Failure.Started)
	})
	t.Run("in the body", func(t *testing.T) {
		p := quiet()
		ctx, cancel := context.WithCancel(t.Context())
		wrap(t, p, func(ctx context.Context, _ call, next run) (tool.Result, error) { return next(ctx), nil })
		r := p.Run(ctx, call{Name: "t"}, nil, func(context.Context) tool.Result {
			cancel()
			return tool.Fail(tool.ToolError, "connection lost")
		})
		assert.Equal(t, tool.Aborted, r.Code)
		assert.True(t, r.Failure.Started)
		assert.Equal(t, "the call was cancelled while the tool was running: connection lost", r.Failure.Message)
	})
	t.Run("a body that succeeds all the same", func(t *testing.T) {
		p := quiet()
		ctx, cancel := context.WithCancel(t.Context())
		r := p.Run(ctx, call{Name: "t"}, nil, func(context.Context) tool.Result {
			cancel()
			return value(`1`)(ctx)
		})
		assert.Equal(t, tool.OK, r.Code)
	})
	t.Run("the redactor stops with the call", func(t *testing.T) {
		p := quiet()
		ctx, cancel := context.WithCancel(t.Context())
		post(t, p, "redactor", func(ctx context.Context, _ call, _ tool.Result, _ more) (pipeline.PostAnswer, error) {
			return pipeline.PostAnswer{}, ctx.Err()
		})
		r := p.Run(ctx, call{Name: "t"}, nil, func(context.Context) tool.Result {
			cancel()
			return tool.Fail(tool.ToolError, "secret")
		})
		assert.Equal(t, tool.Aborted, r.Code)
		assert.True(t, r.Failure.Started)
		assert.NotContains(t, r.Failure.Message, "secret")
	})
}

func TestRunNextAfterReturn(t *testing.T) {
	p := quiet()
	var late run
	wrap(t, p, func(ctx context.Context, _ call, next run) (tool.Result, error) {
		late = next
		return tool.Result{Code: tool.OK}, nil
	})
	ran := false
	p.Run(t.Context(), call{Name: "t"}, nil, func(context.Context) tool.Result { ran = true; return value(`1`)(t.Context()) })
	assert.Equal(t, tool.ToolError, late(t.Context()).Code)
	assert.False(t, ran)
}

func TestWrappersMayHedge(t *testing.T) {
	p := quiet()
	inner := make(chan struct{}, 2)
	wrap(t, p, func(ctx context.Context, _ call, next run) (tool.Result, error) {
		other := make(chan tool.Result)
		go func() { other <- next(ctx) }()
		next(ctx)
		return <-other, nil
	})
	wrap(t, p, func(ctx context.Context, _ call, next run) (tool.Result, error) {
		inner <- struct{}{}
		return next(ctx), nil
	})
	assert.True(t, p.Run(t.Context(), call{Name: "t"}, nil, value(`1`)).IsOK())
	assert.Len(t, inner, 2)
}

func TestPostAnswers(t *testing.T) {
	secret := tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "secret", Retry: true,
		Issues: []tool.Issue{{Message: "secret"}}, Data: json.RawMessage(`"secret"`)}}
	ok := tool.Result{Code: tool.OK, Value: json.RawMessage(`"secret"`)}
	illustrated := tool.Result{Code: tool.OK, Value: json.RawMessage(`"secret"`), Images: []tool.Image{{MediaType: "image/png", Data: []byte("png")}}}
	withheld := tool.Result{Code: tool.Blocked, Failure: &tool.Failure{By: "post",
		Message: `result withheld: a post-execute listener of plugin "post" failed`}}
	otherKind := tool.Result{Code: tool.Blocked, Failure: &tool.Failure{By: "post", Message: "result withheld: its replacement is for another kind of result"}}
	for _, c := range []struct {
		name string
		post pipeline.Post
		in   tool.Result
		want tool.Result
	}{
		{"replace a value", posts(pipeline.Replace(map[string]string{"a": "<b>"})), ok, tool.Result{Code: tool.OK, Value: json.RawMessage(`{"a":"<b>"}`)}},
		{"replace a value with images", posts(pipeline.Replace("clean")), illustrated, tool.Result{Code: tool.OK, Value: json.RawMessage(`"clean"`)}},
		{"replace a result and keep its images", posts(pipeline.ReplaceResult(illustrated)), ok, illustrated},
		{"replace an error text", posts(pipeline.Replace("[redacted]")), secret,
			tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "[redacted]", Retry: true}}},
		{"replace an error text by a value", posts(pipeline.Replace([]int{1})), secret,
			tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "[1]", Retry: true}}},
		{"replace an error text by nothing", posts(pipeline.Replace(nil)), secret,
			tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "null", Retry: true}}},
		{"a replacement that is not JSON", posts(pipeline.Replace(func() {})), ok,
			tool.Result{Code: tool.Blocked, Failure: &tool.Failure{Message: "result withheld: its replacement is not JSON", By: "post"}}},
		{"replace a value by a result", posts(pipeline.ReplaceResult(tool.Result{Code: tool.OK, Value: json.RawMessage(`"x"`), Preview: "p"})), ok,
			tool.Result{Code: tool.OK, Value: json.RawMessage(`"x"`), Preview: "p"}},
		{"replace what a failure says", posts(pipeline.ReplaceResult(tool.Result{Code: tool.Denied, Failure: &tool.Failure{Message: "m", By: "b",
			Reason: tool.ByPerson, Started: true, Issues: []tool.Issue{{Message: "i"}}, Data: json.RawMessage(`{"d":1}`)}})), secret,
			tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "m", By: "b", Retry: true, Issues: []tool.Issue{{Message: "i"}}, Data: json.RawMessage(`{"d":1}`)}}},
		{"replace a failure by silence", posts(pipeline.ReplaceResult(tool.Result{Code: tool.ToolError})), secret,
			tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "the call ended with TOOL_ERROR", Retry: true}}},
		{"replace a failure by a success", posts(pipeline.ReplaceResult(ok)), secret, otherKind},
		{"replace a success by a failure", posts(pipeline.ReplaceResult(secret)), ok, otherKind},
		{"a result whose value is not JSON", posts(pipeline.ReplaceResult(tool.Result{Code: tool.OK, Value: json.RawMessage(`{`)})), ok,
			tool.Result{Code: tool.Blocked, Failure: &tool.Failure{Message: "result withheld: its replacement is not JSON", By: "post"}}},
		{"a result whose data is not JSON", posts(pipeline.ReplaceResult(tool.Result{Failure: &tool.Failure{Data: json.RawMessage(`{`)}})), secret,
			tool.Result{Code: tool.Blocked, Failure: &tool.Failure{Message: "result withheld: its replacement is not JSON", By: "post"}}},
		{"replace a value that has a preview", posts(pipeline.Replace("x")), tool.Result{Code: tool.OK, Value: ok.Value, Preview: "secret"},
			tool.Result{Code: tool.OK, Value: json.RawMessage(`"x"`)}},
		{"block in silence", posts(pipeline.Block("")), ok, tool.Result{Code: tool.Blocked, Failure: &tool.Failure{Message: `blocked by plugin "post"`, By: "post"}}},
		{"nothing", posts(pipeline.PostAnswer{}), ok, withheld},
		{"a panic that quotes", func(context.Context, call, tool.Result, more) (pipeline.PostAnswer, error) { panic("secret") }, ok, withheld},
		{"next twice", func(ctx context.Context, _ call, _ tool.Result, next more) (pipeline.PostAnswer, error) {
			a := next(ctx)
			next(ctx)
			return a, nil
		}, ok, withheld},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := quiet()
			codes := watch(t, p)
			post(t, p, "post", c.post)
			assert.Equal(t, c.want, p.Run(t.Context(), call{Name: "t"}, nil, func(context.Context) tool.Result { return c.in }))
			assert.Equal(t, []tool.Code{c.want.Code}, *codes)
		})
	}
}

func posts(a pipeline.PostAnswer) pipeline.Post {
	return func(context.Context, call, tool.Result, more) (pipeline.PostAnswer, error) { return a, nil }
}

func TestPostOuterBuildsOnInner(t *testing.T) {
	p := quiet()
	post(t, p, "truncate", func(ctx context.Context, _ call, _ tool.Result, next more) (pipeline.PostAnswer, error) {
		inner := next(ctx)
		if v, ok := inner.Replacement(); ok {
			return pipeline.Replace(string(v)[1:4]), nil
		}
		_, blocked := inner.Blocked()
		assert.True(t, blocked)
		return pipeline.Replace("undone"), nil
	})
	redact := post(t, p, "redact", posts(pipeline.Replace("[redacted]")))
	assert.Equal(t, `"[re"`, string(p.Run(t.Context(), call{Name: "t"}, nil, value(`"secret"`)).Value))
	redact.Close()
	post(t, p, "block", posts(pipeline.Block("no")))
	r := p.Run(t.Context(), call{Name: "t"}, nil, value(`"secret"`))
	assert.Equal(t, tool.Blocked, r.Code)
	assert.Equal(t, &tool.Failure{Message: "no", By: "block"}, r.Failure)
}

// A listener sees the whole result that the inner ones have made, and what it gets is its own copy.
func TestPostAppliesInnerAnswers(t *testing.T) {
	in := tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "m", Data: json.RawMessage(`[1]`)}}
	var made []tool.Result
	p := quiet()
	post(t, p, "outer", func(ctx context.Context, _ call, r tool.Result, next more) (pipeline.PostAnswer, error) {
		inner := next(ctx)
		got, ok := inner.Apply(r)
		if made = append(made, got); !ok {
			return inner, nil
		}
		assert.Equal(t, in, r)
		got.Failure.Message += "!"
		if len(got.Failure.Data) > 0 {
			got.Failure.Data[1] = '7'
		}
		return pipeline.ReplaceResult(got), nil
	})
	r := p.Run(t.Context(), call{Name: "t"}, nil, func(context.Context) tool.Result { return in })
	assert.Equal(t, &tool.Failure{Message: "m!", Data: json.RawMessage(`[7]`)}, r.Failure)
	inner := post(t, p, "inner", posts(pipeline.Replace("n")))
	r = p.Run(t.Context(), call{Name: "t"}, nil, func(context.Context) tool.Result { return in })
	assert.Equal(t, "n!", r.Failure.Message)
	inner.Close()
	post(t, p, "block", posts(pipeline.Block("no")))
	assert.Equal(t, tool.Blocked, p.Run(t.Context(), call{Name: "t"}, nil, func(context.Context) tool.Result { return in }).Code)
	assert.Equal(t, tool.Result{}, made[2])
	for want, a := range map[string]pipeline.PostAnswer{`"m"`: pipeline.ReplaceResult(in), `""`: pipeline.ReplaceResult(tool.Result{}),
		`1`: pipeline.ReplaceResult(tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)})} {
		v, is := a.Replacement()
		assert.True(t, is)
		assert.Equal(t, want, string(v))
	}
}

// What a listener of results panics with may be what it was there to hide, so the log has its type and its stack alone.
func TestPostFailuresAreLoggedWithoutTheirText(t *testing.T) {
	for want, fn := range map[string]pipeline.Post{
		`error="panic: a value of type string"`: func(context.Context, call, tool.Result, more) (pipeline.PostAnswer, error) { panic("secret") },
		`error="an error of type *errors.errorString"`: func(context.Context, call, tool.Result, more) (pipeline.PostAnswer, error) {
			return pipeline.PostAnswer{}, errors.New("secret")
		},
		`error="ended without an answer"`: func(context.Context, call, tool.Result, more) (pipeline.PostAnswer, error) {
			runtime.Goexit()
			return pipeline.PostAnswer{}, nil
		},
	} {
		var out bytes.Buffer
		p := pipeline.New(pipeline.Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
		post(t, p, "post", fn)
		assert.Equal(t, tool.Blocked, p.Run(t.Context(), call{Name: "t"}, nil, value(`"secret"`)).Code)
		assert.Contains(t, out.String(), want)
		assert.NotContains(t, out.String(), "secret")
	}
}

// A cancelled call keeps what its tool said beside the message, for the listeners of stage 4 and whoever comes after.
func TestAbortedKeepsItsData(t *testing.T) {
	p := quiet()
	ctx, cancel := context.WithCancel(t.Context())
	r := p.Run(ctx, call{Name: "t"}, nil, func(context.Context) tool.Result {
		cancel()
		return tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "m", Data: json.RawMessage(`1`), Issues: []tool.Issue{{Message: "i"}}}}
	})
	assert.Equal(t, tool.Aborted, r.Code)
	assert.Equal(t, `1`, string(r.Failure.Data))
	assert.Len(t, r.Failure.Issues, 1)
}

func TestPostNextStillRunning(t *testing.T) {
	p := quiet()
	entered, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	post(t, p, "outer", func(ctx context.Context, _ call, _ tool.Result, next more) (pipeline.PostAnswer, error) {
		go func() { defer close(done); next(ctx) }()
		<-entered
		return pipeline.Accept(), nil
	})
	post(t, p, "inner", func(context.Context, call, tool.Result, more) (pipeline.PostAnswer, error) {
		close(entered)
		<-release
		return pipeline.Block("secret"), nil
	})
	assert.Equal(t, tool.Blocked, p.Run(t.Context(), call{Name: "t"}, nil, value(`1`)).Code)
	close(release)
	<-done
}

func TestObserversAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quiet()
		order := []string{}
		observe(t, p, func(_ context.Context, c call, r tool.Result) error {
			order = append(order, "writes")
			copy(c.Input, "XXXXXXX")
			copy(r.Value, "XXX")
			return errors.New("x")
		})
		observe(t, p, func(context.Context, call, tool.Result) error { panic("x") })
		observe(t, p, func(ctx context.Context, _ call, _ tool.Result) error { time.Sleep(time.Hour); return ctx.Err() })
		observe(t, p, func(ctx context.Context, _ call, _ tool.Result) error { <-ctx.Done(); return ctx.Err() })
		observe(t, p, func(ctx context.Context, c call, r tool.Result) error {
			order = append(order, string(c.Input)+string(r.Value))
			return ctx.Err()
		})
		r := p.Run(t.Context(), call{Name: "t", Input: json.RawMessage(`{"a":1}`)}, nil, value(`"v"`))
		assert.Equal(t, tool.Result{Code: tool.OK, Value: json.RawMessage(`"v"`)}, r)
		assert.Equal(t, []string{"writes", `{"a":1}"v"`}, order)
		time.Sleep(time.Hour)
	})
}

func TestObserveAlone(t *testing.T) {
	p := quiet()
	assert.False(t, p.HasObservers())
	codes := watch(t, p)
	assert.True(t, p.HasObservers())
	p.Observe(t.Context(), call{Name: "t"}, tool.Fail(tool.Skipped, "m"))
	assert.Equal(t, []tool.Code{tool.Skipped}, *codes)
}

func TestRunTellsTheFinalInput(t *testing.T) {
	p := quiet()
	r := p.Run(t.Context(), call{Name: "t", Input: json.RawMessage(`{"a":2}`), Modified: true}, nil, value(`1`))
	require.True(t, r.IsOK())
	assert.Equal(t, `{"a":2}`, string(r.FinalInput))
	assert.Empty(t, p.Run(t.Context(), call{Name: "t", Input: json.RawMessage(`{"a":2}`)}, nil, value(`1`)).FinalInput)
}
