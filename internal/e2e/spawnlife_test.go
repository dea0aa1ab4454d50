package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// spawnShapes are histories of workflows that spawn.
var spawnShapes = map[string]func(w *world){
	"spawned": func(w *world) {
		w.planning(setup{Script: oneAsk, Preset: permission.Standard}, map[string]string{"free": speaks}, nil)
		run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("free", "b"), task("free", "b")})
		key := w.asksBelow(w.id)
		_, err := w.resolves(w.id, approval.Resolution{Key: "run-00000000", Decision: approval.Allow})
		require.Error(w.t, err)
		_, err = w.resolves(w.id, approval.Resolution{Key: key, Decision: approval.Allow, By: "alice"})
		require.NoError(w.t, err)
		w.got(run, nil)
	},
	"spawned-cancelled": func(w *world) {
		w.planning(setup{Script: holding}, nil, nil)
		run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a")})
		require.Eventually(w.t, func() bool { return len(w.ran()) == 1 }, patience, tick)
		require.NoError(w.t, w.c.CancelWorkflow(context.Background(), w.id, ""))
		w.got(run, nil)
	},
	"spawned-again": func(w *world) {
		w.planning(setup{Script: speaks}, nil, nil)
		in := []protocol.AgentInput{task("p", "a")}
		w.got(w.plans(w.id, "Plan", in), nil)
		w.got(w.plans(w.id, "Plan", in), nil)
	},
	"spawned-reused": func(w *world) {
		w.planning(setup{Script: speaks}, nil, nil)
		w.got(w.plans(w.id+"-first", "Again", task("p", w.id)), nil)
		w.got(w.plans(w.id, "Again", task("p", w.id)), nil)
	},
}

// asksBelow waits for the one question of a run's children and returns its key.
func (w *world) asksBelow(id string) (key string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		own, err := w.listOf(id, protocol.GuardQueryApprovals)
		if err != nil {
			return false
		}
		for _, c := range own.Children {
			if l, err := w.listOf(c.WorkflowID, protocol.QueryApprovals); err == nil && len(l.Pending) == 1 {
				key = l.Pending[0].Key
				return true
			}
		}
		return false
	}, patience, tick)
	return key
}

// A worker that is killed while three agents work loses none of them, and no tree.
func TestWorkerIsKilledWhileChildrenRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	repo, root := newRepo(t), filepath.Join(t.TempDir(), "trees")
	s := setup{Script: holding, Repo: repo, Root: root, Keys: true}
	address := devservertest.Server(t).Address()
	first := w.spawn(s, address)
	run := w.plans(w.id, "Plan", []protocol.AgentInput{task("p", "a"), task("p", "b"), task("p", "c")})
	require.Eventually(t, func() bool { return len(w.ran()) == 3 }, patience, tick)
	first.kill(t)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	w.spawn(s, address)
	var res []protocol.AgentResult
	w.got(run, &res)
	require.Len(t, res, 3)
	for _, r := range res {
		require.Equal(t, protocol.OK, r.Status, r.Error)
		require.Equal(t, []string{"EFFECT_UNKNOWN"}, w.codes(r))
		require.Len(t, r.Artifacts, 1)
	}
	require.Equal(t, []string{"hold a", "hold a", "hold a"}, w.ran(), "nothing ran twice")
	require.Len(t, w.begot(w.id), 3)
	require.NotContains(t, gitRun(t, repo, "worktree", "list"), root)
	w.replays(w.id)
}
