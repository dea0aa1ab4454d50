package pipeline_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// What ran elsewhere passes stages 4 and 5 like what ran here, and no other stage.
func TestReceive(t *testing.T) {
	started := tool.Result{Code: tool.Aborted, Failure: &tool.Failure{Message: "stopped", Started: true}}
	for name, c := range map[string]struct{ in, want tool.Result }{
		"a value":                  {tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}, tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}},
		"nothing":                  {tool.Result{Code: tool.OK}, tool.Result{Code: tool.OK, Value: json.RawMessage(`null`)}},
		"a value and a failure":    {tool.Result{Code: tool.OK, Failure: &tool.Failure{Message: "x"}, Value: json.RawMessage(`1`)}, tool.Result{Code: tool.OK, Value: json.RawMessage(`1`)}},
		"no JSON":                  {tool.Result{Code: tool.OK, Value: json.RawMessage(`{`)}, tool.Fail(tool.NonSerializable, "the tool returned a value that is not JSON")},
		"an error":                 {tool.Fail(tool.ToolError, "x"), tool.Fail(tool.ToolError, "x")},
		"an error with a value":    {tool.Result{Code: tool.ToolError, Value: json.RawMessage(`1`)}, tool.Fail(tool.ToolError, "the call ended with TOOL_ERROR")},
		"an unknown effect":        {tool.Fail(tool.EffectUnknown, "x"), tool.Fail(tool.EffectUnknown, "x")},
		"a code of somebody else":  {tool.Fail("FINE", "x"), tool.Fail(tool.ToolError, "x")},
		"a cancellation elsewhere": {started, started},
	} {
		t.Run(name, func(t *testing.T) {
			p := quiet()
			codes := watch(t, p)
			mount(t, p, "before", func(s *pipeline.Scope) error {
				require.NoError(t, s.Guard("never", func(context.Context, call) error { t.Error("guards are not asked again"); return nil }))
				return s.Wrap(func(context.Context, call, run) (tool.Result, error) {
					t.Error("nothing is wrapped")
					return tool.Result{}, nil
				})
			})
			var seen tool.Result
			post(t, p, "post", func(_ context.Context, _ call, r tool.Result, _ more) (pipeline.PostAnswer, error) {
				seen = r
				return pipeline.Accept(), nil
			})
			assert.Equal(t, c.want, p.Receive(t.Context(), call{Name: "t"}, c.in))
			assert.Equal(t, c.want, seen)
			assert.Equal(t, []tool.Code{c.want.Code}, *codes)
		})
	}
}

func TestReceiveIsJudged(t *testing.T) {
	p := quiet()
	codes := watch(t, p)
	post(t, p, "post", func(_ context.Context, c call, r tool.Result, _ more) (pipeline.PostAnswer, error) {
		if c.Name == "panics" {
			panic(string(r.Value))
		}
		return pipeline.Replace("[redacted]"), nil
	})
	secret := tool.Result{Code: tool.OK, Value: json.RawMessage(`"secret"`)}
	r := p.Receive(t.Context(), call{Name: "t", Input: json.RawMessage(`{"a":2}`), Modified: true}, secret)
	assert.Equal(t, tool.Result{Code: tool.OK, Value: json.RawMessage(`"[redacted]"`), FinalInput: json.RawMessage(`{"a":2}`)}, r)
	r = p.Receive(t.Context(), call{Name: "panics"}, secret)
	assert.Equal(t, tool.Blocked, r.Code)
	assert.NotContains(t, r.Failure.Message, "secret")
	assert.Equal(t, []tool.Code{tool.OK, tool.Blocked}, *codes)
	assert.Equal(t, `"secret"`, string(secret.Value))
}

// An end of the context is no outcome: the caller tries again, and nobody is told of this time.
func TestReceiveIsInterrupted(t *testing.T) {
	p := quiet()
	codes := watch(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	post(t, p, "post", func(ctx context.Context, _ call, _ tool.Result, _ more) (pipeline.PostAnswer, error) {
		cancel()
		return pipeline.PostAnswer{}, ctx.Err()
	})
	p.Receive(ctx, call{Name: "t"}, tool.Result{Code: tool.OK})
	assert.Empty(t, *codes)
}

// Without an agent there is nobody who could call another worker; that is said before an approver is bothered.
func TestExecuteOfARemoteTool(t *testing.T) {
	p := quiet()
	codes := watch(t, p)
	mount(t, p, "approver", func(s *pipeline.Scope) error {
		return s.Approver(func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
			t.Error("nobody is asked")
			return pipeline.Answer{}, nil
		})
	})
	d, err := tool.FromActivity("t", "Does.", json.RawMessage(`{"type":"object","properties":{}}`), "Do", "theirs", tool.NeedsApproval())
	require.NoError(t, err)
	mountTool(t, p, d)
	r := p.Execute(t.Context(), "t", []byte(`{}`))
	assert.Equal(t, tool.Fail(tool.ToolError, `the tool "t" is the activity "Do" on task queue "theirs" and runs in an agent only`), r)
	assert.Equal(t, []tool.Code{tool.ToolError}, *codes)
}

// A listener that writes to what it was given changes nothing for the next.
func TestRemoteIsCloned(t *testing.T) {
	d, err := tool.FromActivity("t", "Does.", json.RawMessage(`{"type":"object","properties":{"a":{}}}`), "Do", "theirs", tool.Positional("a"))
	require.NoError(t, err)
	c := pipeline.Call{Info: d.Info()}
	other := c.Clone()
	other.Info.Remote.Positional[0], other.Info.Remote.Type = "b", "Undo"
	assert.Equal(t, "Do", c.Info.Remote.Type)
	assert.Equal(t, []string{"a"}, c.Info.Remote.Positional)
}
