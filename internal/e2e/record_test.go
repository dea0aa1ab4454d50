package e2e

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

var record = flag.Bool("record", false, "write the recorded histories to workflows/testdata/histories")

// shape is one kind of history: it runs until there is something to record.
type shape struct {
	setup setup
	play  func(w *world)
}

var shapes = map[string]shape{
	"allowed": {setup{Keys: true, Script: `
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: note, args: {text: b}}]
  - say: done
`}, func(w *world) { w.result() }},
	"asked-and-allowed": {askingWith(oneAsk), func(w *world) {
		w.answer(w.pending(1)[0].Key, approval.Allow)
		w.result()
	}},
	"denied-by-a-person": {askingWith(oneAsk), func(w *world) {
		w.answer(w.pending(1)[0].Key, approval.Deny)
		w.result()
	}},
	"denied-by-a-rule": {setup{Script: oneAsk, Deny: []permission.Rule{{Tool: permission.One("run"), Reason: "not here"}}},
		func(w *world) { w.result() }},
	"expired": {setup{Script: oneAsk, Preset: permission.Standard, Deadline: time.Second}, func(w *world) { w.result() }},
	"edited": {askingWith(oneAsk), func(w *world) {
		w.send(`{"key":"` + w.pending(1)[0].Key + `","decision":"allow","input":{"text":"edited"}}`)
		w.result()
	}},
	"cancelled-while-waiting": {askingWith(oneAsk), func(w *world) {
		w.pending(1)
		require.NoError(w.t, w.c.CancelWorkflow(context.Background(), w.id, ""))
		w.result()
	}},
	"suspended": {askingWith(oneAsk), func(w *world) { w.pending(1) }},
	"parallel-questions": {askingWith(`
turns:
  - calls: [{tool: run, args: {text: a}}, {tool: look, args: {text: b}}, {tool: run, args: {text: c}}, {tool: nothing, args: {}}]
  - say: done
`), func(w *world) {
		q := w.pending(2)
		w.send(`{"key":"nonsense","decision":"allow"}`)
		w.answer(q[1].Key, approval.Allow)
		w.pending(1)
		w.answer(q[0].Key, approval.Deny)
		w.result()
	}},
	"reset": {askingWith(oneAsk), func(w *world) {
		run := w.c.GetWorkflow(context.Background(), w.id, "").GetRunID()
		w.answer(w.pending(1)[0].Key, approval.Allow)
		w.result()
		// The task that put the question; the answer is delivered again and is void.
		w.reset(run, w.taskThatAsked())
		w.settles("")
		w.answer(w.pending(1)[0].Key, approval.Allow)
		w.result()
	}},
}

func lastTaskBefore(w *world, event int64) int64 {
	var last int64
	for _, id := range w.finishedTasks() {
		if id < event {
			last = id
		}
	}
	return last
}

// Every shape runs, replays at once, and replays under other rules. With -record its history becomes one of those
// that every later version has to replay.
func TestShapes(t *testing.T) {
	t.Parallel()
	maps.Copy(shapes, approvalShapes)
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(s.setup)
			w.start(protocol.AgentInput{})
			s.play(w)
			w.keep(name)
		})
	}
	t.Run("worktree", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.work(setup{Repo: newRepo(t), Root: filepath.Join(t.TempDir(), "trees"), Keys: true, Script: `
turns:
  - calls: [{tool: write_file, args: {path: new.txt, content: "hello\n"}}]
  - say: done
`})
		w.start(protocol.AgentInput{})
		require.Equal(t, protocol.OK, w.result().Status)
		w.keep("worktree")
	})
	for _, how := range []offered{shared, byName} {
		t.Run("source-"+string(how), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(setup{Keys: true, Preset: permission.Standard, Offered: how, Script: `
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: run, args: {text: b}}, {tool: note, args: {wrong: c}}]
  - say: done
`})
			w.start(protocol.AgentInput{})
			w.answer(w.pending(1)[0].Key, approval.Allow)
			require.Equal(t, protocol.OK, w.result().Status)
			w.keep("source-" + string(how))
		})
	}
	for _, kind := range []string{"activity", "workflow"} {
		t.Run("foreign-"+kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			foreignShape(w, kind)
			w.keep("foreign-" + kind)
		})
	}
	for name, play := range spawnShapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			play(w)
			w.keep(name)
		})
	}
	t.Run("guarded-workflow", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		guardedWorkflow(w, true)
		w.keep("guarded-workflow")
	})
	t.Run("before-the-guard", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		guardedWorkflow(w, false)
		w.keep("before-the-guard")
	})
}

// The shapes of a guarded workflow of a team's own.
func TestGuardedShapes(t *testing.T) {
	t.Parallel()
	answered := func(w *world, id string) {
		w.resolveIn(id, w.asked(id, 1)[0].Key, approval.Allow)
	}
	for name, play := range map[string]func(w *world){
		"guarded-local": func(w *world) {
			run := w.run("", "LocalRelease", "api")
			answered(w, w.id)
			_, err := w.get(run)
			require.NoError(w.t, err)
		},
		"guarded-continued": func(w *world) {
			run := w.run("", "Rounds", 1)
			old := w.asked(w.id, 1)[0].Key
			require.NoError(w.t, w.c.SignalWorkflow(context.Background(), w.id, "", "next", nil))
			require.Eventually(w.t, func() bool { return w.asked(w.id, 1)[0].Key != old }, patience, tick)
			answered(w, w.id)
			_, err := w.get(run)
			require.NoError(w.t, err)
		},
		"guarded-entry": func(w *world) {
			run := w.run("", "Twice", "x")
			answered(w, w.id)
			_, err := w.get(run)
			require.NoError(w.t, err)
		},
		"guarded-open": func(w *world) {
			w.run("", "Rounds", 1)
			w.asked(w.id, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			cfg := guardConfig()
			cfg.Workflows = map[string]tool.Options{"Twice": {Risk: tool.Execute}}
			w.team(newGuard(t, cfg))
			play(w)
			w.keep(name)
		})
	}
	t.Run("drained", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		cfg := guardConfig()
		cfg.Drain, cfg.Enforce = true, activities.Log
		w.team(newGuard(t, cfg))
		_, err := w.get(w.run("", "Release", "api"))
		require.NoError(t, err)
		w.keep("drained")
	})
}

// keep replays the history of the world and, with -record, writes it down.
func (w *world) keep(name string) {
	w.t.Helper()
	h := &historypb.History{Events: w.history()}
	replaytest.Replay(w.t, h)
	if w.history()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() == protocol.WorkflowAgent {
		w.sameStory(protocol.QueryApprovals)
	}
	if !*record || name == "" {
		return
	}
	b, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(h)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join("..", "..", "workflows", "testdata", "histories", name+".json"), append(b, '\n'), 0o644))
}

// guardedWorkflow runs a team's own workflow with two activities, one of which asks when it is guarded.
func guardedWorkflow(w *world, guarded bool) {
	var opts sdkworker.Options
	if guarded {
		g, err := worker.NewGuard(worker.GuardConfig{
			Tools:       map[string]tool.Options{"Deploy": {Risk: tool.Execute}},
			Permissions: permission.Layer{Preset: permission.Standard}, DecideTimeout: 20 * time.Second, Log: logger(),
		})
		require.NoError(w.t, err)
		opts.Plugins = []sdkworker.Plugin{g}
	}
	wk := sdkworker.New(w.c, w.queue, opts)
	replaytest.Register(wk)
	for _, name := range []string{"Build", "Deploy"} {
		wk.RegisterActivityWithOptions(func(_ context.Context, what string) (string, error) {
			return what, appendLine(w.effects, name+" "+what)
		}, activity.RegisterOptions{Name: name})
	}
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
	run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, "Release", "api")
	require.NoError(w.t, err)
	if guarded {
		key := w.asked(w.id, 1)[0].Key
		require.Equal(w.t, []string{"Build api"}, w.ran())
		require.NoError(w.t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.GuardSignalApproval,
			approval.Resolution{Key: key, Decision: approval.Allow}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out string
	require.NoError(w.t, run.Get(ctx, &out))
	require.Equal(w.t, "api", out)
	require.Equal(w.t, []string{"Build api", "Deploy api"}, w.ran())
}
