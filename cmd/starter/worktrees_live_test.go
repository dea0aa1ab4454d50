package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

func TestWhichTreesOfEndedAgentsAreKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before := now.Add(-24 * time.Hour)
	long, late := now.Add(-48*time.Hour), now.Add(-time.Hour)
	for _, c := range []struct {
		name    string
		fate    fate
		since   time.Time
		unknown bool
		says    string
	}{
		{"works", fate{open: true, known: true, word: "running"}, long, true, "its agent is running"},
		{"ended long ago", fate{known: true, word: "terminated", closed: long}, late, false, ""},
		{"ended lately", fate{known: true, word: "terminated", closed: late}, long, true, "its agent is terminated since 1h only"},
		{"of another server?", fate{word: unknownFate}, long, false, "the server does not know its agent; --unknown takes it for ended"},
		{"unknown", fate{word: unknownFate}, long, true, ""},
		{"unknown and new", fate{word: unknownFate}, late, true, "the server does not know its agent, and something was done about it 1h ago"},
	} {
		require.Equal(t, c.says, c.fate.keeps(git.Held{Since: c.since}, before, c.unknown), c.name)
	}
}

// aged makes the record of a tree look as if nothing had been done about it for so long.
func (w *world) agedTree(l worktree.Lease, by time.Duration) {
	w.t.Helper()
	path := filepath.Join(w.path("trees"), "state", l.ID, "record")
	old, err := os.ReadFile(path)
	require.NoError(w.t, err)
	var record map[string]any
	decoder := json.NewDecoder(bytes.NewReader(old))
	decoder.UseNumber() // inode numbers do not fit into a float
	require.NoError(w.t, decoder.Decode(&record))
	record["since"] = time.Now().Add(-by)
	text, err := json.Marshal(record)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(path, text, 0o600))
}

// A terminated agent leaves its tree. The server says so, and what nobody knows is removed only if that is wanted, after its
// work was saved.
func TestTreesOfEndedAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("touch made-by-the-agent"), inTree)
	w.work()
	waits, ended := unique(t), unique(t)
	for _, id := range []string{waits, ended} {
		w.ok(w.starter("run", "--profile", "p", "--task", "a task", "--id", id, "--no-wait"))
		w.pending(id, 1)
	}
	s := w.server()
	require.NoError(t, s.TerminateWorkflow(context.Background(), ended, "", "a test"))
	d := w.driver()
	lost := w.tree(d, "nobody-knows", "run-1")
	require.NoError(t, os.WriteFile(filepath.Join(lost.Dir, "work.txt"), []byte("work\n"), 0o600))

	rows := map[string]treeRow{}
	for _, r := range lines[treeRow](t, w.ok(w.starter("worktrees", "--running", "--root", d.Root(), "-o", "json")).out.String()) {
		rows[r.WorkflowID] = r
	}
	require.Equal(t, []string{"running", "terminated", "unknown"}, []string{rows[waits].Agent, rows[ended].Agent, rows["nobody-knows"].Agent})

	dispose := func(args ...string) map[string]disposed {
		out := map[string]disposed{}
		got := w.ok(w.starter(append([]string{"worktrees", "dispose", "--ended", "--older-than", "2h", "--root", d.Root(), "-o", "json"}, args...)...))
		for _, r := range lines[disposed](t, got.out.String()) {
			out[r.ID] = r
		}
		return out
	}
	first := dispose()
	require.Len(t, first, 3)
	require.Equal(t, "its agent is running", first[rows[waits].ID].Why)
	require.Contains(t, first[rows[ended].ID].Why, "its agent is terminated since ")
	require.Contains(t, first[lost.ID].Why, "--unknown")
	require.Contains(t, dispose("--unknown")[lost.ID].Why, "something was done about it")
	w.agedTree(lost, 3*time.Hour)
	require.Equal(t, disposed{ID: lost.ID}, dispose("--unknown")[lost.ID])
	require.DirExists(t, lost.Dir)
	done := dispose("--unknown", "--dry-run=false")
	require.Equal(t, disposed{ID: lost.ID, Disposed: true, Saved: filepath.Join(d.Root(), "saved", lost.ID+".patch")}, done[lost.ID])
	require.NoDirExists(t, lost.Dir)
	require.FileExists(t, done[lost.ID].Saved)
	require.DirExists(t, rows[waits].Path)
	require.DirExists(t, rows[ended].Path)

	// An operator may remove the tree of an agent that waits. It starts again in a new one, and says so.
	refused := w.exits(w.local("worktrees", "dispose", waits, "--root", d.Root()), exit.Failed)
	require.Contains(t, refused.err.String(), "not collected")
}
