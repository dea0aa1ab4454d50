package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// piped starts a worker with this pipeline, whose agent of the profile p has these tools of everybody's.
func (w *world) piped(s setup, pipe *pipeline.Pipeline, change func(*worker.Config), tools ...string) {
	w.t.Helper()
	w.workOn(s, func(c *worker.Config) {
		c.Pipeline = pipe
		p := c.Profiles["p"]
		p.Tools = tools
		c.Profiles["p"] = p
		if change != nil {
			change(c)
		}
	})
}

func newPipe(t *testing.T) *pipeline.Pipeline {
	p := pipeline.New(pipeline.Config{Log: logger()})
	t.Cleanup(p.Close)
	return p
}

func mounted(t *testing.T, p *pipeline.Pipeline, name string, mount func(*pipeline.Scope) error) *pipeline.Scope {
	t.Helper()
	s, err := p.Mount(pipeline.PluginFunc(name, mount))
	require.NoError(t, err)
	return s
}

// never is a guard against a tool, which is its name too.
func never(toolName string) func(*pipeline.Scope) error {
	return func(s *pipeline.Scope) error {
		return s.Guard("no-"+toolName, func(_ context.Context, c pipeline.Call) error {
			if c.Name == toolName {
				return fmt.Errorf("never %s", toolName)
			}
			return nil
		})
	}
}

// Each plugin breaks its rule in its own way, and the call gets what the rule says: a panic of an observer changes nothing and
// keeps nothing from the next one, a wrapper runs what is inside as often as it calls it, and a listener that asks twice
// denies. A guard that a profile requires and the worker does not have denies until it is mounted.
func TestPluginsThatMisbehave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pipe := newPipe(t)
	text := func(c pipeline.Call, want string) bool { return strings.Contains(string(c.Input), `"`+want+`"`) }
	var inner, panicked atomic.Int32
	observed := &lines{}
	mounted(t, pipe, "panics", func(s *pipeline.Scope) error {
		return s.Observe(func(context.Context, pipeline.Call, tool.Result) error { panicked.Add(1); panic("an observer") })
	})
	mounted(t, pipe, "hears", func(s *pipeline.Scope) error {
		return s.Observe(func(_ context.Context, c pipeline.Call, r tool.Result) error {
			_, err := fmt.Fprintln(observed, "heard", r.Code)
			return err
		})
	})
	mounted(t, pipe, "twice", func(s *pipeline.Scope) error {
		return s.Wrap(func(ctx context.Context, c pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
			if text(c, "wrapped") {
				next(ctx)
			}
			return next(ctx), nil
		})
	})
	mounted(t, pipe, "inner", func(s *pipeline.Scope) error {
		return s.Wrap(func(ctx context.Context, c pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
			inner.Add(1)
			return next(ctx), nil
		})
	})
	mounted(t, pipe, "insists", func(s *pipeline.Scope) error {
		return s.Pre(func(ctx context.Context, c pipeline.Call, next func(context.Context) pipeline.Answer) (pipeline.Answer, error) {
			if text(c, "insisted") {
				next(ctx)
			}
			return next(ctx), nil
		})
	})
	w.piped(setup{Keys: true, Script: script("{tool: note, args: {text: plain}}", "{tool: note, args: {text: wrapped}}", "{tool: note, args: {text: insisted}}")},
		pipe, func(c *worker.Config) {
			strict := c.Profiles["p"]
			strict.Name, strict.Guards = "strict", []string{"no-look"}
			c.Profiles["strict"] = strict
		}, "note")
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, []string{"OK", "OK", "DENIED/listener"}, w.codes(res))
	f := w.results(res)[2].Result.Failure
	require.Equal(t, "insists", f.By)
	require.Contains(t, f.Message, "next was called twice")
	require.Equal(t, []string{"note plain", "note wrapped", "note wrapped"}, w.ran())
	require.EqualValues(t, 3, inner.Load())
	// The outcome of a call that never ran is told by an activity of its own.
	require.Eventually(t, func() bool { return len(observed.with("heard")) == 3 }, patience, tick)
	heard := observed.with("heard")
	slices.Sort(heard)
	require.Equal(t, []string{"heard DENIED", "heard OK", "heard OK"}, heard)
	require.EqualValues(t, 3, panicked.Load())

	first := w.id
	w.id = first + "-strict"
	w.start(protocol.AgentInput{AgentType: "strict"})
	res = w.result()
	require.Equal(t, []string{"DENIED/guard", "DENIED/guard", "DENIED/listener"}, w.codes(res))
	f = w.results(res)[0].Result.Failure
	require.Equal(t, "no-look", f.By)
	require.Contains(t, f.Message, "required guard not mounted: no-look")

	mounted(t, pipe, "late", never("look"))
	w.id = first + "-mounted"
	w.start(protocol.AgentInput{AgentType: "strict"})
	require.Equal(t, []string{"OK", "OK", "DENIED/listener"}, w.codes(w.result()))
}

// Rules come and tools go in the middle of calls. A guard that is mounted while a call waits for its answer refuses it
// although a person allowed it. A call that runs goes on, whatever is mounted or closed meanwhile; the next one is judged
// by what is there then.
func TestRulesChangeInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pipe := newPipe(t)
	held := tool.MustNew("held", "Begins and waits.", func(ctx context.Context, _ *tool.Context, in noteIn) (string, error) {
		err := appendLine(w.effects, "held "+in.Text)
		for err == nil && ctx.Err() == nil {
			if _, err := os.Stat(w.effects + ".go"); err == nil {
				return "let go", nil
			}
			time.Sleep(tick)
		}
		return "", errors.Join(err, ctx.Err())
	}, tool.Write)
	owner := mounted(t, pipe, "owner", func(s *pipeline.Scope) error { return s.Tool(held) })
	w.piped(setup{Keys: true, Script: `
turns:
  - calls: [{tool: run, args: {text: a}}]
  - calls: [{tool: held, args: {text: b}}]
  - calls: [{tool: look, args: {text: c}}, {tool: note, args: {text: d}}]
  - say: done
`}, pipe, func(c *worker.Config) { c.Permissions.Ask = []permission.Rule{{Tool: permission.One("run")}} }, "run", "held", "look", "note")
	w.start(protocol.AgentInput{})

	key := w.pending(1)[0].Key
	rule := mounted(t, pipe, "rule", never("run"))
	w.answer(key, approval.Allow)
	require.Eventually(t, func() bool { return contains(w.ran(), "held b") }, patience, tick)
	owner.Close()
	mounted(t, pipe, "against held", never("held"))
	lookless := mounted(t, pipe, "against look", never("look"))
	rule.Close()
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))

	res := w.result()
	require.Equal(t, []string{"DENIED/guard", "OK", "DENIED/guard", "OK"}, w.codes(res))
	results := w.results(res)
	require.Equal(t, `"let go"`, string(results[1].Result.Value))
	require.Equal(t, "no-look", results[2].Result.Failure.By)
	require.Contains(t, results[0].Result.Failure.Message, "never run")
	require.Equal(t, "no-run", results[0].Result.Failure.By)
	require.Equal(t, []string{"held b", "note d"}, w.ran())

	// With its guard gone the call is asked about again, and runs.
	lookless.Close()
	first := w.id
	w.id = first + "-2"
	w.start(protocol.AgentInput{Tools: &[]string{"run", "look", "note"}})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	require.Equal(t, []string{"OK", "UNKNOWN_TOOL", "OK", "OK"}, w.codes(w.result()))
}

// extraTool has an effect; worded is its contract.
func extraTool(effects, worded string, opts ...tool.Option) *tool.Def {
	return tool.MustNew("extra", worded, func(_ context.Context, c *tool.Context, in noteIn) (string, error) {
		return in.Text, appendLine(effects, "extra "+in.Text)
	}, append(opts, tool.Write)...)
}

// An agent has frozen a tool. Then its worker goes and the one that is left does not have it or has it with another contract, or
// the scope that owns it is closed. The call waits: it runs once, when somebody has the tool again, or ends as CONTRACT_DRIFT,
// and the agent goes on. That holds before the call is decided and after a person allowed it.
func TestAToolThatIsGoneOrChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how         string
		asked, back bool
	}{
		"missing, comes back":                   {"missing", false, true},
		"changed":                               {"changed", false, false},
		"changed after the answer, comes back":  {"changed", true, true},
		"unmounted, comes back":                 {"unmounted", false, true},
		"unmounted after the answer, and stays": {"unmounted", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := setup{Keys: true, Script: `
turns:
  - calls: [{tool: run, args: {text: a}}]
  - calls: [{tool: extra, args: {text: b}}]
  - calls: [{tool: look, args: {text: c}}]
  - say: done
`}
			ask := "run"
			if c.asked {
				ask = "extra"
			}
			begin := func(worded string) (stop func()) {
				cfg, done, err := engine(s, w.c, w.effects, w.blobs)
				require.NoError(t, err)
				t.Cleanup(done)
				p := cfg.Profiles["p"]
				p.Tools = []string{"run", "look"}
				cfg.Pipeline, cfg.Permissions.Ask = newPipe(t), []permission.Rule{{Tool: permission.One(ask)}}
				// A worker that lacks the tool is no reason to wait long.
				if cfg.Patience = time.Nanosecond; c.back {
					cfg.Patience = 10 * time.Minute
				}
				if worded != "" {
					p.Tools = append(p.Tools, "extra")
					cfg.Tools = append(cfg.Tools, extraTool(w.effects, worded))
				}
				cfg.Profiles["p"] = p
				plug, err := worker.New(cfg)
				require.NoError(t, err)
				return sync.OnceFunc(w.workWith(plug).Stop)
			}
			var scope *pipeline.Scope
			owns := func(s *pipeline.Scope) error { return s.Tool(extraTool(w.effects, "Does more.")) }
			stop := func() {}
			var pipe *pipeline.Pipeline
			if c.how == "unmounted" {
				pipe = newPipe(t)
				scope = mounted(t, pipe, "owner", owns)
				w.piped(s, pipe, func(cfg *worker.Config) {
					cfg.Permissions.Ask = []permission.Rule{{Tool: permission.One(ask)}}
					if cfg.Patience = time.Nanosecond; c.back {
						cfg.Patience = 10 * time.Minute
					}
				}, "run", "look", "extra")
			} else {
				stop = begin("Does more.")
			}
			w.start(protocol.AgentInput{})
			key := w.pending(1)[0].Key
			switch c.how {
			case "missing":
				stop()
				stop = begin("")
			case "changed":
				stop()
				stop = begin("Does something else.")
			case "unmounted":
				scope.Close()
			}
			w.answer(key, approval.Allow)
			// Nothing else here sets a timer.
			require.Eventually(t, func() bool { return w.has(enumspb.EVENT_TYPE_TIMER_STARTED) }, patience, tick)
			require.NotContains(t, w.ran(), "extra b")
			if c.back && c.how == "unmounted" {
				mounted(t, pipe, "owner", owns)
			} else if c.back {
				begin("Does more.")
				// While both are there, each try of the call may find either.
				stop()
			}
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			want, ran := []string{"OK", "CONTRACT_DRIFT", "OK"}, []string{"run a", "look c"}
			if c.back {
				want, ran = []string{"OK", "OK", "OK"}, []string{"run a", "extra b", "look c"}
			}
			require.Equal(t, want, w.codes(res))
			require.Equal(t, ran, w.ran())
		})
	}
}

// has reports whether the history has an event of a type.
func (w *world) has(typ enumspb.EventType) bool {
	for _, e := range w.history() {
		if e.GetEventType() == typ {
			return true
		}
	}
	return false
}
