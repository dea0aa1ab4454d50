package plugins_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

var discard = slog.New(slog.DiscardHandler)

// mount puts plugins on a new pipeline, in order.
func mount(t testing.TB, mounted ...pipeline.Plugin) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(pipeline.Config{Log: discard})
	t.Cleanup(p.Close)
	for _, m := range mounted {
		_, err := p.Mount(m)
		require.NoError(t, err)
	}
	return p
}

// having is a plugin with tools.
func having(defs ...*tool.Def) pipeline.Plugin {
	return pipeline.PluginFunc("tools", func(s *pipeline.Scope) error {
		for _, d := range defs {
			if err := s.Tool(d); err != nil {
				return err
			}
		}
		return nil
	})
}

// doing is a tool that takes anything and does what fn does.
func doing(name string, fn func(ctx context.Context, in json.RawMessage) (any, error), options ...tool.Option) *tool.Def {
	def, err := tool.FromSchema(name, "Does what the test says.", json.RawMessage(`{"type":"object"}`),
		func(ctx context.Context, _ *tool.Context, in json.RawMessage) (any, error) { return fn(ctx, in) }, options...)
	if err != nil {
		panic(err)
	}
	return def
}

// made is a plugin's constructor's answer without its error.
func made(t testing.TB) func(pipeline.Plugin, error) pipeline.Plugin {
	return func(p pipeline.Plugin, err error) pipeline.Plugin {
		t.Helper()
		require.NoError(t, err)
		return p
	}
}

const secret = "hunter2-the-secret"

// Every way in which a tool can say something passes the redaction, whatever code it ends with.
func TestRedactThroughExecute(t *testing.T) {
	token := planted["github-token"]
	for name, c := range map[string]struct {
		do   func(ctx context.Context, in json.RawMessage) (any, error)
		want string
	}{
		"value": {func(context.Context, json.RawMessage) (any, error) {
			return map[string]any{"out": "password=" + secret, "n": json.Number("9007199254740993")}, nil
		}, `{"code":"OK","value":{"n":9007199254740993,"out":"password=[redacted:password]"}}`},
		"text": {func(context.Context, json.RawMessage) (any, error) { return "got " + token, nil },
			`{"code":"OK","value":"got [redacted:github-token]"}`},
		"error": {func(context.Context, json.RawMessage) (any, error) {
			return nil, errors.New("dial postgres://u:" + secret + "@db")
		},
			`{"code":"TOOL_ERROR","failure":{"message":"dial postgres://u:[redacted:url-password]@db"}}`},
		"panic": {func(context.Context, json.RawMessage) (any, error) { panic("token=" + secret) },
			`{"code":"TOOL_ERROR","failure":{"message":"the tool panicked: token=[redacted:token]"}}`},
		"model retry": {func(context.Context, json.RawMessage) (any, error) {
			return nil, tool.ModelRetry{Message: "bad " + token, Data: map[string]any{"password": secret, "try": []any{1.5, token}}}
		}, `{"code":"TOOL_ERROR","failure":{"message":"bad [redacted:github-token]","data":{"password":"[redacted:password]","try":[1.5,"[redacted:github-token]"]},"retry":true}}`},
		"clean": {func(context.Context, json.RawMessage) (any, error) {
			return json.RawMessage(`{ "b":1, "a":1.50 }`), nil
		},
			`{"code":"OK","value":{"b":1,"a":1.50}}`},
		"clean error": {func(context.Context, json.RawMessage) (any, error) {
			return nil, tool.ModelRetry{Message: "name a word", Data: []int{1}}
		}, `{"code":"TOOL_ERROR","failure":{"message":"name a word","data":[1],"retry":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var observed []byte
			p := mount(t, made(t)(plugins.Redact(plugins.RedactConfig{})), having(doing("t", c.do)),
				pipeline.PluginFunc("see", func(s *pipeline.Scope) error {
					return s.Observe(func(_ context.Context, _ pipeline.Call, r tool.Result) (err error) {
						observed, err = json.Marshal(r)
						return err
					})
				}))
			got, err := json.Marshal(p.Execute(t.Context(), "t", json.RawMessage(`{}`)))
			require.NoError(t, err)
			assert.Equal(t, c.want, string(got))
			assert.Equal(t, c.want, string(observed))
		})
	}
}

func post(answer func(pipeline.PostAnswer) pipeline.PostAnswer) pipeline.Plugin {
	return pipeline.PluginFunc("post", func(s *pipeline.Scope) error {
		return s.Post(func(ctx context.Context, _ pipeline.Call, _ tool.Result, next func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
			return answer(next(ctx)), nil
		})
	})
}

func wrapping(with func(tool.Result) tool.Result) pipeline.Plugin {
	return pipeline.PluginFunc("wrap", func(s *pipeline.Scope) error {
		return s.Wrap(func(ctx context.Context, _ pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
			return with(next(ctx)), nil
		})
	})
}

// What other plugins bring in is redacted too, wherever they stand in stage 3 and inside in stage 4.
func TestRedactAmongOthers(t *testing.T) {
	leak := "password=" + secret
	redact := made(t)(plugins.Redact(plugins.RedactConfig{}))
	ok := having(doing("t", func(context.Context, json.RawMessage) (any, error) { return "fine", nil }))
	failing := having(doing("t", func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("broken") }))
	for name, c := range map[string]struct {
		mounted []pipeline.Plugin
		want    tool.Result
	}{
		"an inner replacement": {[]pipeline.Plugin{redact, ok, post(func(pipeline.PostAnswer) pipeline.PostAnswer { return pipeline.Replace(leak) })},
			tool.Result{Code: tool.OK, Value: json.RawMessage(`"password=[redacted:password]"`)}},
		"a clean inner replacement": {[]pipeline.Plugin{redact, ok, post(func(pipeline.PostAnswer) pipeline.PostAnswer { return pipeline.Replace("x") })},
			tool.Result{Code: tool.OK, Value: json.RawMessage(`"x"`)}},
		"an inner block": {[]pipeline.Plugin{redact, ok, post(func(pipeline.PostAnswer) pipeline.PostAnswer { return pipeline.Block(leak) })},
			tool.Result{Code: tool.Blocked, Failure: &tool.Failure{Message: "password=[redacted:password]", By: "redact"}}},
		"a clean inner block": {[]pipeline.Plugin{redact, ok, post(func(pipeline.PostAnswer) pipeline.PostAnswer { return pipeline.Block("no") })},
			tool.Result{Code: tool.Blocked, Failure: &tool.Failure{Message: "no", By: "post"}}},
		"an inner replacement of an error": {[]pipeline.Plugin{redact, failing, post(func(pipeline.PostAnswer) pipeline.PostAnswer { return pipeline.Replace(leak) })},
			tool.Fail(tool.ToolError, "password=[redacted:password]")},
		"an outer accept": {[]pipeline.Plugin{post(func(pipeline.PostAnswer) pipeline.PostAnswer { return pipeline.Accept() }), redact,
			having(doing("t", func(context.Context, json.RawMessage) (any, error) { return leak, nil }))},
			tool.Result{Code: tool.OK, Value: json.RawMessage(`"password=[redacted:password]"`)}},
		"an outer wrapper's failure": {[]pipeline.Plugin{wrapping(func(tool.Result) tool.Result {
			r := tool.Fail(tool.ToolError, leak)
			r.Failure.Data, r.Failure.Issues = json.RawMessage(`{"password":"`+secret+`"}`), []tool.Issue{{Message: leak}}
			return r
		}), redact, ok}, tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "password=[redacted:password]",
			Data: json.RawMessage(`{"password":"[redacted:password]"}`), Issues: []tool.Issue{{Message: "password=[redacted:password]"}}}}},
		"an outer wrapper's data": {[]pipeline.Plugin{wrapping(func(tool.Result) tool.Result {
			r := tool.Fail(tool.ToolError, "m")
			r.Failure.Data = json.RawMessage(`{"password":"` + secret + `"}`)
			return r
		}), redact, ok}, tool.Result{Code: tool.ToolError, Failure: &tool.Failure{Message: "m", Data: json.RawMessage(`{"password":"[redacted:password]"}`)}}},
		"an outer wrapper's name": {[]pipeline.Plugin{wrapping(func(tool.Result) tool.Result { return tool.Deny(tool.ByRule, leak, "m") }), redact, ok},
			tool.Deny(tool.ByRule, "password=[redacted:password]", "m")},
		"an outer wrapper's preview": {[]pipeline.Plugin{wrapping(func(tool.Result) tool.Result {
			return tool.Result{Code: tool.OK, Value: json.RawMessage(`1`), Preview: leak}
		}), redact, ok}, tool.Result{Code: tool.OK, Value: json.RawMessage(`1`), Preview: "password=[redacted:password]"}},
		"an inner wrapper's preview": {[]pipeline.Plugin{redact, wrapping(func(tool.Result) tool.Result {
			return tool.Result{Code: tool.OK, Value: json.RawMessage(`1`), Preview: leak}
		}), ok}, tool.Result{Code: tool.OK, Value: json.RawMessage(`1`), Preview: "password=[redacted:password]"}},
		"a value that is elsewhere": {[]pipeline.Plugin{redact, wrapping(func(tool.Result) tool.Result {
			return tool.Result{Code: tool.OK, ValueRef: &blob.Ref{SHA256: "x"}}
		}), ok}, tool.Result{Code: tool.Blocked, Failure: &tool.Failure{Message: "result withheld: it is stored elsewhere and could not be searched for secrets", By: "redact"}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, mount(t, c.mounted...).Execute(t.Context(), "t", json.RawMessage(`{}`)))
		})
	}
}

// A redaction that fails withholds the result, its own words included, and tells nobody what it was about to hide.
func TestRedactFailsClosed(t *testing.T) {
	for _, code := range []string{"value", "error"} {
		var log bytes.Buffer
		redact := made(t)(plugins.Redact(plugins.RedactConfig{Patterns: []plugins.Pattern{{Kind: "x", Expr: `hunter2\S*`,
			Check: func(s string) bool { panic("cannot check " + s) }}}}))
		p := pipeline.New(pipeline.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		defer p.Close()
		for _, m := range []pipeline.Plugin{redact, having(doing("t", func(context.Context, json.RawMessage) (any, error) {
			if code == "error" {
				return nil, errors.New(secret)
			}
			return secret, nil
		}))} {
			_, err := p.Mount(m)
			require.NoError(t, err)
		}
		r := p.Execute(t.Context(), "t", json.RawMessage(`{}`))
		text, err := json.Marshal(r)
		require.NoError(t, err)
		assert.Equal(t, tool.Blocked, r.Code)
		assert.NotContains(t, string(text), "hunter2")
		assert.NotContains(t, log.String(), "hunter2")
	}
}

// Results of calls that ran elsewhere pass stage 4 alone.
func TestRedactReceived(t *testing.T) {
	p := mount(t, made(t)(plugins.Redact(plugins.RedactConfig{})))
	r := tool.Fail(tool.ToolError, "password="+secret)
	r.Failure.Data = json.RawMessage(`{"password":"` + secret + `"}`)
	got, err := json.Marshal([]tool.Result{p.Receive(t.Context(), pipeline.Call{ID: "1", Name: "t"}, r),
		p.Receive(t.Context(), pipeline.Call{ID: "2", Name: "t"}, tool.Result{Code: tool.OK, Value: json.RawMessage(`{"password":"` + secret + `"}`)})})
	require.NoError(t, err)
	assert.Equal(t, `[{"code":"TOOL_ERROR","failure":{"message":"password=[redacted:password]","data":{"password":"[redacted:password]"}}},{"code":"OK","value":{"password":"[redacted:password]"}}]`, string(got))
}

type loud struct{ text string }

func (l loud) String() string { return l.text }

// A log behind the redactor's handler has no secret, in whichever form it was given.
func TestRedactedLog(t *testing.T) {
	for name, to := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		leak := "password=" + secret
		log := slog.New(redactor(t, plugins.RedactConfig{}).Handler(to(&out)))
		log.With("with", leak).WithGroup("g").Info(leak, "error", errors.New(leak), "password", secret, "bytes", []byte(leak),
			"raw", json.RawMessage(`{"password":"`+secret+`"}`), "stringer", loud{leak}, slog.Group("in", "a", leak, "token", secret), "list", []string{leak},
			"struct", struct{ Password string }{secret}, "pointer", &struct{ R json.RawMessage }{json.RawMessage(`{"password":"` + secret + `"}`)},
			"lazy", slog.AnyValue(lazy{}), "n", 12, "plain", []int{1, 2})
		assert.NotContains(t, out.String(), "hunter2", name)
		assert.Equal(t, 13, strings.Count(out.String(), "[redacted:"), "%s", out.String())
		assert.Contains(t, out.String(), "12")
	}
	assert.False(t, redactor(t, plugins.RedactConfig{}).Handler(slog.DiscardHandler).Enabled(t.Context(), slog.LevelError))
}

type lazy struct{}

func (lazy) LogValue() slog.Value { return slog.StringValue("password=" + secret) }

// What is mounted is undone with its scope.
func TestUnmounting(t *testing.T) {
	leaking := having(doing("t", func(context.Context, json.RawMessage) (any, error) { return "password=" + secret, nil }))
	p := mount(t, leaking)
	scope, err := p.Mount(made(t)(plugins.Redact(plugins.RedactConfig{})))
	require.NoError(t, err)
	assert.NotContains(t, string(p.Execute(t.Context(), "t", json.RawMessage(`{}`)).Value), secret)
	scope.Close()
	assert.Contains(t, string(p.Execute(t.Context(), "t", json.RawMessage(`{}`)).Value), secret)
}

// failingOnce is an idempotent tool whose second attempt returns a secret.
func failingOnce(n *int) *tool.Def {
	return doing("t", func(context.Context, json.RawMessage) (any, error) {
		if *n++; *n == 1 {
			return nil, errors.New("password=" + secret)
		}
		return "password=" + secret, nil
	}, tool.Idempotent())
}
