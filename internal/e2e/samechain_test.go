package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// ways are the three ways in which a worker has a tool.
var ways = []offered{mountedHere, shared, byName}

// scene is something that happens to calls; what comes of it is the same in every way.
type scene struct {
	script string
	play   func(w *world)
}

var odd = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`

// body is a tool of a schema that somebody else wrote, which takes any other argument too.
func body(t testing.TB, name string, fn func(context.Context, *tool.Context, json.RawMessage) (any, error), options ...tool.Option) *tool.Def {
	d, err := tool.FromSchema(name, "Is "+name+".", json.RawMessage(odd), fn, options...)
	require.NoError(t, err)
	return d
}

// cast are the tools of all scenes.
func cast(t testing.TB, effects string) []*tool.Def {
	note := func(name string) func(context.Context, *tool.Context, json.RawMessage) (any, error) {
		return func(_ context.Context, _ *tool.Context, in json.RawMessage) (any, error) {
			if len(in) > 100 {
				in = json.RawMessage(strings.Repeat("x", 3))
			}
			return map[string]any{"did": name}, appendLine(effects, name+" "+string(in))
		}
	}
	failing := func(fail func() (any, error)) func(context.Context, *tool.Context, json.RawMessage) (any, error) {
		return func(context.Context, *tool.Context, json.RawMessage) (any, error) { return fail() }
	}
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))))
	var defs []*tool.Def
	for _, name := range []string{"plain", "edited", "refused", "ruled", "asked", "hooked", "unhooked", "guarded", "listened", "wide"} {
		defs = append(defs, body(t, name, note(name)))
	}
	return append(defs,
		body(t, "reads", note("reads"), tool.Read),
		body(t, "knows", func(_ context.Context, c *tool.Context, _ json.RawMessage) (any, error) {
			return map[string]any{"key": c.IdempotencyKey, "agent": c.Agent, "call": c.CallID, "attempt": c.Attempt, "dir": c.Dir, "isolation": c.Isolation,
				"approved": c.Approved, "rules": c.Rules != nil}, nil
		}, tool.Idempotent()),
		body(t, "large", failing(func() (any, error) { return strings.Repeat("y", 9000), nil }), tool.Read),
		body(t, "draws", func(_ context.Context, c *tool.Context, _ json.RawMessage) (any, error) {
			return "drawn", c.AddImage("image/png", picture.Bytes())
		}, tool.Read),
		body(t, "leaks", failing(func() (any, error) { return "AKIAIOSFODNN7EXAMPLE", nil }), tool.Read),
		body(t, "fails", failing(func() (any, error) { return nil, errors.New("no such thing") }), tool.Read),
		body(t, "again", failing(func() (any, error) { return nil, &tool.ModelRetry{Message: "try another one"} }), tool.Read),
		body(t, "panics", failing(func() (any, error) { panic("oh") }), tool.Read),
		body(t, "nan", failing(func() (any, error) { return math.NaN(), nil }), tool.Read),
		body(t, "late", func(ctx context.Context, _ *tool.Context, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, tool.Read, tool.Timeout(50*time.Millisecond)),
		gripping("clings", effects, tool.Execute))
}

// strict is a worker with every kind of rule and plugin.
func strict(t testing.TB, audit *lines, counts *plugins.Counts) func(*worker.Config) {
	of := func(p pipeline.Plugin, err error) pipeline.Plugin {
		require.NoError(t, err)
		return p
	}
	pipe := pipeline.New(pipeline.Config{Log: logger()})
	t.Cleanup(pipe.Close)
	return func(c *worker.Config) {
		c.Pipeline = pipe
		c.Plugins = []pipeline.Plugin{
			of(plugins.Redact(plugins.RedactConfig{})), of(plugins.Metrics(plugins.MetricsConfig{Recorder: counts})), pipeline.Readonly(), pipeline.Timeout(),
			of(plugins.Loop(plugins.LoopConfig{Calls: 3})),
			of(plugins.Audit(plugins.AuditConfig{Writer: audit, Input: true, Now: func() time.Time { return time.Unix(0, 0) }})),
			pipeline.PluginFunc("rules", func(s *pipeline.Scope) error {
				return errors.Join(never("guarded")(s), s.Pre(func(ctx context.Context, c pipeline.Call, next func(context.Context) pipeline.Answer) (pipeline.Answer, error) {
					if c.Name == "listened" {
						return pipeline.Deny("not to be heard"), nil
					}
					return next(ctx), nil
				}))
			}),
		}
		p := c.Profiles["p"]
		p.Limits.MaxIdleTurns = 20
		p.Permissions.Preset = permission.Standard
		p.Permissions.Deny = []permission.Rule{{Tool: permission.One("ruled"), Reason: "not here"}}
		p.Permissions.Ask = []permission.Rule{{Tool: permission.One("asked"), Reason: "look at it"}}
		p.Permissions.Hooks = []permission.Hook{{Name: "hook", Judge: func(_ context.Context, c permission.Call) (permission.Answer, error) {
			switch c.Tool.Name {
			case "hooked":
				return permission.AnswerModify(json.RawMessage(`{"text":"by the hook"}`)), nil
			case "unhooked":
				return permission.AnswerDeny("no hooks"), nil
			}
			return permission.Answer{}, nil
		}}}
		c.Profiles["p"] = p
	}
}

var scenes = map[string]scene{
	"every rule and every outcome": {script: `
turns:
  - calls:
      - {tool: plain, args: {text: a, requires_approval: false, risk: read, readOnlyHint: true}}
      - {tool: edited, args: {text: b}}
      - {tool: refused, args: {text: c}}
      - {tool: ruled, args: {text: d}}
      - {tool: asked, args: {text: e}}
      - {tool: hooked, args: {text: f}}
      - {tool: unhooked, args: {text: g}}
      - {tool: guarded, args: {text: h}}
      - {tool: listened, args: {text: i}}
      - {tool: wide, args: {text: ` + strings.Repeat("w", 40<<10) + `}}
      - {tool: knows, args: {text: j}}
  - calls: [{tool: reads, args: {text: a}}]
  - calls: [{tool: reads, args: {text: a}}]
  - calls: [{tool: reads, args: {text: a}}]
  - calls: [{tool: reads, args: {text: a}}]
  - calls:
      - {tool: large, args: {text: a}}
      - {tool: draws, args: {text: a}}
      - {tool: leaks, args: {text: a}}
      - {tool: fails, args: {text: a}}
      - {tool: again, args: {text: a}}
      - {tool: panics, args: {text: a}}
      - {tool: nan, args: {text: a}}
      - {tool: late, args: {text: a}}
      - {tool: reads, args: {wrong: a}}
      - {tool: nowhere, args: {text: a}}
  - say: done
`, play: func(w *world) {
		for _, q := range w.pending(7) {
			switch q.Tool {
			case "refused":
				w.answer(q.Key, approval.Deny)
			case "edited":
				w.send(`{"key":"` + q.Key + `","decision":"allow","by":"alice","input":{"text":"by alice"}}`)
			default:
				w.answer(q.Key, approval.Allow)
			}
		}
		res := w.result()
		require.Equal(w.t, protocol.OK, res.Status, "%+v", res)
		require.Equal(w.t, []string{"OK", "OK", "DENIED/person", "DENIED/rule", "OK", "OK", "DENIED/rule", "DENIED/guard", "DENIED/listener", "OK", "OK",
			"OK", "OK", "DENIED/listener", "DENIED/listener",
			"OK", "OK", "OK", "TOOL_ERROR", "TOOL_ERROR", "TOOL_ERROR", "NON_SERIALIZABLE", "TOOL_TIMEOUT", "INVALID_ARGUMENTS", "UNKNOWN_TOOL"}, w.codes(res))
	}},
	"revoked while it runs": {script: "turns:\n  - calls: [{tool: clings, args: {text: a}}]\n  - say: done\n", play: func(w *world) {
		key := w.pending(1)[0].Key
		w.answer(key, approval.Allow)
		w.holds(1)
		w.send(`{"key":"` + key + `","decision":"revoke","by":"bob","reason":"wrong host"}`)
		require.Equal(w.t, []string{"ABORTED/revoked"}, w.codes(w.result()))
	}},
	"cancelled while it runs": {script: "turns:\n  - calls: [{tool: clings, args: {text: a}}]\n  - say: done\n", play: func(w *world) {
		w.answer(w.pending(1)[0].Key, approval.Allow)
		w.holds(1)
		require.NoError(w.t, w.c.CancelWorkflow(context.Background(), w.id, ""))
		require.Equal(w.t, protocol.Cancelled, w.result().Status)
	}},
	"revoked before it runs, and expired": {script: "turns:\n  - calls: [{tool: plain, args: {text: a}}, {tool: asked, args: {text: a}}]\n  - say: done\n", play: func(w *world) {
		q := w.pending(2)
		w.send(`{"key":"` + q[0].Key + `","decision":"allow","by":"alice","expiresAt":"2020-01-01T00:00:00Z"}`)
		w.pending(1)
		w.send(`{"key":"` + q[1].Key + `","decision":"revoke","by":"bob","reason":"no"}`)
		w.result()
	}},
}

// holds waits until so many calls of hold have begun.
func (w *world) holds(n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.ran()) == n }, patience, tick)
}

// toldOf is everything that is known of a run: what the model was given, what was decided, asked and answered, what effects
// there are, what the audit and the metrics say, and what followers are told. Names of this run and times are taken out.
func (w *world) toldOf(audit *lines, counts *plugins.Counts) string {
	w.t.Helper()
	res := w.result()
	run := w.c.GetWorkflow(context.Background(), w.id, "").GetRunID()
	v := w.witness()
	// Answers are admitted, and their calls run, in the order in which they come.
	records, effects, questions := audit.with("{"), w.ran(), timeless(w.lists())
	slices.Sort(records)
	slices.Sort(effects)
	slices.SortFunc(questions.Closed, func(a, b approval.Closed) int { return strings.Compare(a.Key, b.Key) })
	type event struct {
		Kind follow.Kind  `json:"kind"`
		Call *follow.Call `json:"call,omitempty"`
	}
	var events []event
	reader := follow.NewReader(w.id, "", nil)
	var all []follow.Event
	for _, e := range v.history {
		all = append(all, reader.Read(e)...)
	}
	for _, e := range append(all, reader.Flush()...) {
		if e.Tool != nil {
			c := *e.Tool
			c.Took = 0
			events = append(events, event{e.Kind, &c})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return strings.Compare(a.Call.CallID, b.Call.CallID) })
	metrics := map[string]int64{}
	for _, name := range append(namesOf(cast(w.t, "")), plugins.UnknownTool) {
		for _, code := range []tool.Code{"", tool.OK, tool.Denied, tool.ToolError, tool.Aborted, tool.UnknownTool} {
			metrics[name+" "+string(code)] = counts.Value(plugins.MetricExecutions, plugins.Labels{Tool: name, Code: code})
		}
	}
	b, err := json.MarshalIndent(map[string]any{"status": res.Status, "calls": res.Calls, "turns": res.Turns, "results": w.results(res), "decisions": v.decided,
		"admissions": v.admitted, "questions": questions, "effects": effects, "audit": records, "events": events, "metrics": metrics}, "", " ")
	require.NoError(w.t, err)
	return moment.ReplaceAllString(strings.NewReplacer(run, "RUN", w.id, "ID").Replace(string(b)), `"then"`)
}

var moment = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*Z"`)

func namesOf(defs []*tool.Def) (out []string) {
	for _, d := range defs {
		out = append(out, d.Name())
	}
	return out
}

// A tool of a source goes through the same chain, approvals, stages and records as a tool of the worker's own, in both ways
// in which it may run: nothing that anybody is told differs.
func TestToolsOfASourceMeetTheSameChain(t *testing.T) {
	t.Parallel()
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := map[offered]string{}
			for _, way := range ways {
				w, audit, counts := newWorld(t), &lines{}, &plugins.Counts{}
				w.workOn(setup{Script: s.script, Keys: true, Offered: way}, strict(t, audit, counts), cast(t, w.effects)...)
				w.start(protocol.AgentInput{})
				s.play(w)
				told[way] = w.toldOf(audit, counts)
				if way != mountedHere {
					require.Zero(t, w.scheduled(map[offered]string{shared: "tool.plain", byName: protocol.ActivityCallTool}[way]))
				}
				w.keep("")
			}
			require.NotContains(t, told[mountedHere], "AKIAIOSFODNN7EXAMPLE")
			require.Equal(t, told[mountedHere], told[shared], "as assent.CallTool")
			require.Equal(t, told[mountedHere], told[byName], "as tool.<name>")
		})
	}
}

// A worker that is killed in the middle of calls: what only reads is tried again, and of the rest the model is told that
// its effect is unknown. The worker that goes on has never listed the source.
func TestAWorkerKilledInACallOfASource(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run("way "+string(way), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := setup{Keys: true, Offered: way, Held: true, Script: "turns:\n  - calls: [{tool: peek, args: {text: a}}, {tool: grip, args: {text: b}}]\n  - say: done\n"}
			address := devservertest.Server(t).Address()
			first := w.spawn(s, address)
			w.start(protocol.AgentInput{})
			w.holds(2)
			first.kill(t)
			require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
			w.spawn(s, address)
			res := w.result()
			require.Equal(t, []string{"OK", "EFFECT_UNKNOWN"}, w.codes(res))
			ran := w.ran()
			slices.Sort(ran)
			require.Equal(t, []string{"grip b", "peek a", "peek a"}, ran)
			if way == shared {
				require.Equal(t, 2, w.scheduled(protocol.ActivityCallTool))
			} else {
				require.Equal(t, 1, w.scheduled("tool.grip"))
			}
		})
	}
}

// What a call's tool promises may change while the call is in flight, and its source may be lost: nothing runs twice that was not
// let through, or is not offered now, as what may, and nobody is told that a call did not run that may have.
func TestAKilledCallWhosePromiseChanged(t *testing.T) {
	t.Parallel()
	lost := func(c *worker.Config) {
		c.Sources = []tool.Source{&source{tools: func() ([]*tool.Def, error) { return nil, errors.New("exit status 1") }}}
	}
	for name, tc := range map[string]struct {
		frozen, ran, after bool
		change             func(*worker.Config)
	}{
		"its source is lost":    {frozen: true, ran: true, after: true, change: lost},
		"a guard denies it now": {frozen: true, ran: true, after: true, change: func(c *worker.Config) { c.Plugins = append(c.Plugins, pipeline.PluginFunc("rules", never("grip"))) }},
		"the key of its grant is gone": {frozen: true, ran: true, after: true, change: func(c *worker.Config) {
			c.GrantKeys = []protocol.GrantKey{{ID: "k2", Secret: []byte("another secret of all")}}
		}},
		"it is not idempotent any more":      {frozen: true, ran: true},
		"it is idempotent, and was not then": {ran: true, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := setup{Keys: true, Offered: shared, Held: true, Preset: permission.Standard, Script: "turns:\n  - calls: [{tool: grip, args: {text: b}}]\n  - say: done\n"}
			s.Promised = tc.frozen
			first := w.work(s)
			w.start(protocol.AgentInput{})
			key := w.pending(1)[0].Key
			first.Stop()
			s.Promised = tc.ran
			second := w.spawn(s, devservertest.Server(t).Address())
			w.answer(key, approval.Allow)
			w.holds(1)
			second.kill(t)
			require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
			s.Promised = tc.after
			cfg, done, err := engine(s, w.c, w.effects, w.blobs)
			require.NoError(t, err)
			t.Cleanup(done)
			cfg.Patience = time.Nanosecond
			if tc.change != nil {
				tc.change(&cfg)
			}
			p, err := worker.New(cfg)
			require.NoError(t, err)
			w.workWith(p)
			require.Equal(t, []string{"EFFECT_UNKNOWN"}, w.codes(w.result()))
			require.Len(t, w.ran(), 1)
		})
	}
}
