package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

func fine(context.Context, json.RawMessage) (any, error) { return "fine", nil }

// judging judges calls of runs without running anything.
type judging struct {
	p *pipeline.Pipeline
	n int
}

func (j *judging) call(run, name, input string) permission.Decision {
	j.n++
	return j.again(fmt.Sprint("call-", j.n), run, name, input)
}

func (j *judging) again(id, run, name, input string) permission.Decision {
	return j.p.Judge(context.Background(), pipeline.Call{ID: id, Name: name, Input: json.RawMessage(input), Info: tool.Info{Name: name},
		Agent: &tool.Agent{RunID: run}}, nil, nil)
}

func TestLoopThroughExecute(t *testing.T) {
	ran := 0
	p := mount(t, made(t)(plugins.Loop(plugins.LoopConfig{Calls: 3})), having(doing("t", func(context.Context, json.RawMessage) (any, error) { ran++; return ran, nil }), doing("u", fine)))
	for range 2 {
		require.True(t, p.Execute(t.Context(), "t", json.RawMessage(`{"a":1,"b":2}`)).IsOK())
	}
	r := p.Execute(t.Context(), "t", json.RawMessage(`{ "b":2, "a":1.0 }`))
	assert.Equal(t, tool.Denied, r.Code)
	assert.Equal(t, tool.ByListener, r.Failure.Reason)
	assert.Equal(t, "loop", r.Failure.By)
	assert.Equal(t, "this is the same call of t with the same arguments for the 3rd time; it will not end differently, "+
		"so change the arguments, use another tool, or report what blocks you", r.Failure.Message)
	assert.Equal(t, 2, ran)
	assert.True(t, p.Execute(t.Context(), "t", json.RawMessage(`{"a":9007199254740993}`)).IsOK())
	assert.True(t, p.Execute(t.Context(), "t", json.RawMessage(`{"a":9007199254740992}`)).IsOK(), "another number")
	assert.True(t, p.Execute(t.Context(), "u", json.RawMessage(`{"a":1,"b":2}`)).IsOK(), "another tool")
	assert.Equal(t, tool.Denied, p.Execute(t.Context(), "t", json.RawMessage(`{"a":1,"b":2}`)).Code, "it stays denied")
}

func TestLoopCountsPerRun(t *testing.T) {
	j := &judging{p: mount(t, made(t)(plugins.Loop(plugins.LoopConfig{Calls: 2, Except: []string{"poll"}})))}
	assert.Equal(t, permission.Allow, j.call("a", "t", `{}`).Verdict)
	assert.Equal(t, permission.Allow, j.call("b", "t", `{}`).Verdict)
	d := j.call("a", "t", `{}`)
	assert.Equal(t, permission.Deny, d.Verdict)
	assert.Equal(t, permission.ByListener, d.DecidedBy)
	for range 9 {
		assert.Equal(t, permission.Allow, j.call("a", "poll", `{}`).Verdict)
	}
	assert.Equal(t, permission.Allow, j.call("a", "t", `not json`).Verdict)
	assert.Equal(t, permission.Deny, j.call("a", "t", `not json`).Verdict)
}

// A call that is judged again, because it was asked about or its task was tried again, counts once.
func TestLoopCountsACallOnce(t *testing.T) {
	j := &judging{p: mount(t, made(t)(plugins.Loop(plugins.LoopConfig{Calls: 2})))}
	for range 5 {
		assert.Equal(t, permission.Allow, j.again("1", "a", "t", `{}`).Verdict)
	}
	assert.Equal(t, permission.Allow, j.again("1", "a", "t", `{"edited":true}`).Verdict, "what a person wrote is not counted")
	for range 2 {
		assert.Equal(t, permission.Deny, j.again("2", "a", "t", `{}`).Verdict)
	}
	assert.Equal(t, permission.Allow, j.again("3", "a", "t", `{"edited":true}`).Verdict)
}

// Refused calls count, so nobody is asked the same question again and again.
func TestLoopCountsRefusals(t *testing.T) {
	asked := 0
	p := mount(t, made(t)(plugins.Loop(plugins.LoopConfig{Calls: 3})), having(doing("t", fine, tool.NeedsApproval())),
		pipeline.PluginFunc("person", func(s *pipeline.Scope) error {
			return s.Approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
				asked++
				return pipeline.Deny("no"), nil
			})
		}))
	var reasons []tool.Reason
	for range 4 {
		reasons = append(reasons, p.Execute(t.Context(), "t", json.RawMessage(`{}`)).Failure.Reason)
	}
	assert.Equal(t, []tool.Reason{tool.ByPerson, tool.ByPerson, tool.ByListener, tool.ByListener}, reasons)
	assert.Equal(t, 2, asked)
}

func TestLoopWindow(t *testing.T) {
	window := &judging{p: mount(t, made(t)(plugins.Loop(plugins.LoopConfig{Calls: 3, Window: 4})))}
	verdicts := func(j *judging, inputs ...int) (out []bool) {
		for _, i := range inputs {
			out = append(out, j.call("a", "t", fmt.Sprintf(`{"n":%d}`, i)).Verdict == permission.Allow)
		}
		return out
	}
	assert.Equal(t, []bool{true, true, true, true, true, true}, verdicts(window, 1, 2, 3, 1, 4, 1), "the first one is out of the window")
	assert.Equal(t, []bool{false, true}, verdicts(window, 1, 5), "but three of four are not")
	straight := &judging{p: mount(t, made(t)(plugins.Loop(plugins.LoopConfig{Calls: 3, Consecutive: true})))}
	assert.Equal(t, []bool{true, true, true, true, true, false, false, true, true}, verdicts(straight, 1, 1, 2, 1, 1, 1, 1, 2, 1))
}

// Runs are forgotten when they have been silent, when there are too many, and when the plugin is unmounted.
func TestLoopForgets(t *testing.T) {
	now := time.Unix(0, 0)
	config := plugins.LoopConfig{Calls: 2, Runs: 2, Idle: time.Minute, Now: func() time.Time { return now }}
	p := mount(t)
	scope, err := p.Mount(made(t)(plugins.Loop(config)))
	require.NoError(t, err)
	j := &judging{p: p}
	allowed := func(run string) bool { return j.call(run, "t", `{}`).Verdict == permission.Allow }
	assert.True(t, allowed("a"))
	assert.False(t, allowed("a"))
	now = now.Add(2 * time.Minute)
	assert.True(t, allowed("a"), "it was silent")
	assert.True(t, allowed("b"))
	assert.False(t, allowed("a"))
	assert.True(t, allowed("c"), "the third run takes the place of b")
	assert.False(t, allowed("a"))
	assert.True(t, allowed("b"))
	scope.Close()
	for range 5 {
		assert.True(t, allowed("a"), "its rule is gone")
	}
	_, err = p.Mount(made(t)(plugins.Loop(config)))
	require.NoError(t, err)
	assert.True(t, allowed("a"), "a new scope knows nothing of the old one")
}

// Of many identical calls at once exactly so many pass.
func TestLoopConcurrently(t *testing.T) {
	p := mount(t, made(t)(plugins.Loop(plugins.LoopConfig{Calls: 6, Window: 100})), having(doing("t", fine)))
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if p.Execute(t.Context(), "t", json.RawMessage(`{}`)).IsOK() {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 5, passed.Load())
}

func TestLoopConfigErrors(t *testing.T) {
	for name, c := range map[string]plugins.LoopConfig{
		"one": {Calls: 1}, "calls": {Calls: -1}, "window": {Calls: 5, Window: 4}, "wide": {Window: plugins.MostLoopWindow + 1},
		"many": {Calls: plugins.MostLoopWindow + 1}, "runs": {Runs: -1}, "idle": {Idle: -1}, "except": {Except: []string{""}},
	} {
		_, err := plugins.Loop(c)
		assert.True(t, fault.IsConfig(err), "%s: %v", name, err)
	}
	made(t)(plugins.Loop(plugins.LoopConfig{Calls: 100}))
}
