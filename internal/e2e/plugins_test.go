package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// A question that was answered twice is not asked a third time: the model is told to do something else.
func TestLoopOfRefusedQuestions(t *testing.T) {
	t.Parallel()
	loop, err := plugins.Loop(plugins.LoopConfig{Calls: 3})
	require.NoError(t, err)
	w := newWorld(t)
	again := "  - calls: [{tool: run, args: {text: a}}]\n"
	w.workOn(setup{Script: "turns:\n" + strings.Repeat(again, 4) + "  - calls: [{tool: look, args: {text: b}}]\n  - say: done\n", Preset: permission.Standard, Keys: true,
		Limits: protocol.Limits{MaxIdleTurns: 10}}, func(c *worker.Config) {
		c.Plugins = []pipeline.Plugin{loop}
		p := c.Profiles["p"]
		p.Tools = append(p.Tools, "run", "look")
		c.Profiles["p"] = p
	})
	w.start(protocol.AgentInput{})
	first := w.pending(1)[0].Key
	w.answer(first, approval.Deny)
	var second string
	require.Eventually(t, func() bool {
		l, err := w.list()
		if err != nil || len(l.Pending) != 1 {
			return false
		}
		second = l.Pending[0].Key
		return second != first
	}, patience, tick)
	w.answer(second, approval.Deny)
	res := w.result()
	require.Equal(t, []string{"DENIED/person", "DENIED/person", "DENIED/listener", "DENIED/listener", "OK"}, w.codes(res))
	require.Contains(t, w.results(res)[2].Result.Failure.Message, "for the 3rd time")
	require.Equal(t, []string{"look b"}, w.ran())
}

// A rule that is unmounted while a worker runs is gone for its next call; the tool and the audit, which never heard of it, stay.
func TestUnmountInARunningWorker(t *testing.T) {
	t.Parallel()
	out := &lines{}
	audit, err := plugins.Audit(plugins.AuditConfig{Writer: out})
	require.NoError(t, err)
	rule := pipeline.PluginFunc("rule", func(s *pipeline.Scope) error {
		return s.Guard("no-a", func(_ context.Context, c pipeline.Call) error {
			if strings.Contains(string(c.Input), `"a"`) {
				return errors.New("nobody touches a")
			}
			return nil
		})
	})
	w := newWorld(t)
	pipe := pipeline.New(pipeline.Config{Log: logger()})
	t.Cleanup(pipe.Close)
	scope, err := pipe.Mount(rule)
	require.NoError(t, err)
	w.workOn(setup{Script: "turns: [{calls: [{tool: note, args: {text: a}}]}, {say: done}]", Keys: true}, func(c *worker.Config) {
		c.Pipeline, c.Plugins = pipe, []pipeline.Plugin{audit}
		p := c.Profiles["p"]
		p.Tools = []string{"note"}
		c.Profiles["p"] = p
	})
	w.start(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/guard"}, w.codes(w.result()))
	require.Empty(t, w.ran())

	scope.Close()
	w.id += "-2"
	w.start(protocol.AgentInput{})
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	require.Equal(t, []string{"note a"}, w.ran())
	require.Len(t, out.with("{"), 2)
	require.Len(t, out.with(`"code":"DENIED","reason":"guard"`), 1)
	require.Len(t, out.with(`"code":"OK"`), 1)
}
