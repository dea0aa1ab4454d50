package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// misbehave does what the text of the call says.
func misbehave(ctx context.Context, call permission.Call) (permission.Answer, error) {
	var in noteIn
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return permission.Answer{}, err
	}
	switch in.Text {
	case "error":
		return permission.AnswerAllow(), errors.New("broken")
	case "panic":
		panic("boom")
	case "goexit":
		runtime.Goexit()
	case "nil map":
		noMap()["a"] = 1
	case "waits":
		<-ctx.Done()
		return permission.AnswerAllow(), ctx.Err()
	case "never":
		select {}
	case "no JSON":
		return permission.AnswerModify(json.RawMessage(`{`)), nil
	case "list":
		return permission.AnswerModify(json.RawMessage(`[]`)), nil
	case "no fit":
		return permission.AnswerModify(json.RawMessage(`{"text":3}`)), nil
	case "too deep":
		return permission.AnswerModify(json.RawMessage(strings.Repeat("[", 100_000))), nil
	case "large":
		return permission.AnswerModify(large), nil
	}
	return permission.Answer{}, nil
}

// large is made before anybody counts the time of a hook.
var large = json.RawMessage(`{"text":"` + strings.Repeat("y", 5<<20) + `"}`)

// wrongs are the texts at which misbehave fails, with a word of the reason.
var wrongs = map[string]string{
	"error": "broken", "panic": "boom", "goexit": "ended without an answer", "nil map": "nil map", "waits": "deadline exceeded",
	"never": "deadline exceeded", "no JSON": "not JSON", "list": "does not fit", "no fit": "does not fit", "too deep": "not JSON",
}

// noting are calls of the tool note, one for each text.
func noting(texts ...string) []model.ToolCall {
	var calls []model.ToolCall
	for _, text := range texts {
		calls = append(calls, model.ToolCall{ID: text, Name: "note", Input: json.RawMessage(fmt.Sprintf(`{"text":%q}`, text))})
	}
	return calls
}

// tight is a worker with a place for one decision and one activity at a time.
func (w *world) tight(change func(*worker.Config, *config.Profile)) {
	w.t.Helper()
	cfg, done, err := engine(setup{Keys: true, Script: oneAsk}, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	p := cfg.Profiles["p"]
	change(&cfg, &p)
	cfg.Profiles["p"] = p
	plug, err := worker.New(cfg)
	require.NoError(w.t, err)
	o := options(plug)
	o.MaxConcurrentLocalActivityExecutionSize, o.MaxConcurrentActivityExecutionSize = 1, 1
	wk := sdkworker.New(w.c, w.queue, o)
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
}

// Hooks and canUseTool that fail deny by their name, once, in history; the run goes on, and a hook that never returns keeps
// no place on the worker.
func TestHooksThatFail(t *testing.T) {
	for name, layer := range map[string]permission.Layer{
		"hook":       {Hooks: []permission.Hook{{Name: "bad", Judge: misbehave}}},
		"slow":       {Hooks: []permission.Hook{{Name: "bad", Judge: misbehave, Slow: true}}},
		"canUseTool": {CanUseTool: misbehave},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var texts []string
			for text := range wrongs {
				texts = append(texts, text)
			}
			slices.Sort(texts)
			texts = append(texts, "large", "fine")
			w := newWorld(t)
			w.tight(func(c *worker.Config, p *config.Profile) {
				c.HookTimeout, c.Permissions, c.DecideTimeout = 2*time.Second, layer, time.Minute // megabytes are judged
				if name == "slow" {
					c.HookTimeout = 40 * time.Millisecond // slow hooks have longer
				}
				c.Models["other"], p.Models = callsOf(noting(texts...)...), []string{"other:x"}
			})
			w.start(protocol.AgentInput{})
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			by := map[bool]string{true: "canUseTool", false: "hook"}[name == "canUseTool"]
			results := w.results(res)
			for i, text := range texts[:len(wrongs)] {
				f := results[i].Result.Failure
				require.Equal(t, tool.Denied, results[i].Result.Code, "%s: %+v", text, f)
				require.Equal(t, by, f.By, text)
				require.Contains(t, f.Message, wrongs[text], text)
			}
			require.Equal(t, []string{"OK", "OK"}, w.codes(res)[len(wrongs):])
			ran := w.ran()
			require.Len(t, ran, 2)
			require.True(t, ran[0] == "note "+strings.Repeat("y", 5<<20), "%.40s", ran[0])
			require.Equal(t, "note fine", ran[1])
			require.Equal(t, len(texts), w.decisions(), "each is recorded once")
			w.sound()
		})
	}
}

// decisions counts those that history holds.
func (w *world) decisions() (n int) {
	w.t.Helper()
	for e, err := range follow.Follow(context.Background(), w.c, w.id, "", follow.Options{}) {
		require.NoError(w.t, err)
		if e.Kind == follow.Decision {
			n++
		}
	}
	return n
}

// With every time at its default a hook that never returns is still the one that is said to have denied.
func TestAHookThatNeverReturnsDeniesByNameByDefault(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		if slow && !long() {
			continue // half a minute
		}
		t.Run(fmt.Sprint("slow ", slow), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.workLike(setup{Keys: true}, func(c *worker.Config, p *config.Profile) {
				c.DecideTimeout, c.HookTimeout = 0, 0
				if slow {
					c.HookTimeout = 500 * time.Millisecond // a slow hook has sixty times that, five minutes by default
				}
				c.Permissions.Hooks = []permission.Hook{{Name: "stuck", Judge: misbehave, Slow: slow}}
				c.Models["other"], p.Models = callsOf(noting("never", "fine")...), []string{"other:x"}
			})
			w.start(protocol.AgentInput{})
			res := w.result()
			require.Equal(t, []string{"DENIED/rule", "OK"}, w.codes(res))
			require.Equal(t, "hook", w.results(res)[0].Result.Failure.By)
			require.Contains(t, w.results(res)[0].Result.Failure.Message, `hook "stuck"`)
			w.sound()
		})
	}
}

// Guards and listeners that do not come back are not waited for either; a call that nobody could judge does not run.
func TestAGuardThatNeverReturns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	w.tight(func(c *worker.Config, p *config.Profile) {
		c.DecideTimeout = 500 * time.Millisecond
		c.Plugins = append(c.Plugins, pipeline.PluginFunc("stuck", func(s *pipeline.Scope) error {
			return s.Guard("stuck", func(_ context.Context, call pipeline.Call) error {
				if strings.Contains(string(call.Input), "never") {
					<-release
				}
				return nil
			})
		}))
		c.Models["other"], p.Models = callsOf(noting("never", "fine")...), []string{"other:x"}
	})
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, "DENIED/failure", w.codes(res)[0])
	require.NotContains(t, w.ran(), "note never")
	w.sound()
}

// What slow hooks say is recorded once: a change, a refusal and a question.
func TestSlowHooksDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tight(func(c *worker.Config, p *config.Profile) {
		c.Permissions.Hooks = []permission.Hook{{Name: "desk", Slow: true, Judge: func(_ context.Context, call permission.Call) (permission.Answer, error) {
			switch {
			case strings.Contains(string(call.Input), "change"):
				return permission.AnswerModify(json.RawMessage(`{"text":"changed"}`)), nil
			case strings.Contains(string(call.Input), "deny"):
				return permission.AnswerDeny("not on my desk"), nil
			case strings.Contains(string(call.Input), "ask"):
				return permission.AnswerAsk("somebody else's desk"), nil
			}
			return permission.Answer{}, nil
		}}}
		c.Models["other"], p.Models = callsOf(noting("change", "deny", "ask", "nothing")...), []string{"other:x"}
	})
	w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	require.Contains(t, q.Why, `hook "desk": somebody else's desk`)
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, []string{"OK", "DENIED/rule", "OK", "OK"}, w.codes(res))
	results := w.results(res)
	require.JSONEq(t, `{"text":"changed"}`, string(results[0].Result.FinalInput))
	require.Contains(t, results[1].Result.Failure.Message, `hook "desk": not on my desk`)
	require.Equal(t, "hook", results[1].Result.Failure.By)
	require.ElementsMatch(t, []string{"note changed", "note ask", "note nothing"}, w.ran())
	require.Equal(t, 4, w.decisions())
	require.Equal(t, 4, w.scheduled(protocol.ActivityDecideSlow), "one activity for each decision")
	w.sound()
}

// A worker that is killed while a slow hook thinks has decided nothing: the next one asks the hook again.
func TestASlowDecisionThatIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := askingWith("\nturns:\n  - calls: [{tool: note, args: {text: a}}]\n  - say: done\n")
	s.Preset, s.Build = "", &build{Ponder: true}
	p := w.spawn(s, devservertest.Server(t).Address())
	w.start(protocol.AgentInput{})
	w.pondered(1)
	p.kill(t)
	require.NoError(t, appendLine(w.effects+".go", "go"))
	w.spawn(s, devservertest.Server(t).Address())
	res := w.result()
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.Equal(t, []string{"note a"}, w.ran())
	w.pondered(2)
	require.Equal(t, 1, w.decisions())
	require.Equal(t, 1, w.scheduled(protocol.ActivityDecideSlow), "the same activity, once more")
	w.sound()
}

// noMap returns a map that nobody can write to.
func noMap() map[string]int { return nil }
