package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
)

// aged makes every blob of the world's store look as if it had been stored so long ago.
func (w *world) aged(d time.Duration) {
	w.t.Helper()
	at := time.Now().Add(-d)
	require.NoError(w.t, filepath.WalkDir(w.path("blobs/objects"), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Chtimes(p, at, at)
	}))
}

// otherStore makes a store that no worker uses.
func (w *world) otherStore(name string) {
	w.t.Helper()
	_, err := blob.NewDir(w.path(name))
	require.NoError(w.t, err)
}

// left are the hashes of the blobs in the world's store.
func (w *world) left() map[string]bool {
	w.t.Helper()
	store, err := blob.NewDir(w.path("blobs"))
	require.NoError(w.t, err)
	out := map[string]bool{}
	for e, err := range store.List(context.Background()) {
		require.NoError(w.t, err)
		out[e.Ref.SHA256] = true
	}
	return out
}

// What a closed run leaves is listed and deleted by age; what an agent needs that has waited for weeks stays, and it goes on
// as if nothing had been.
func TestBlobsOfClosedRunsGoAndThoseOfOpenOnesStay(t *testing.T) {
	t.Parallel()
	// Long enough to be stored, and asked about.
	command := "true " + strings.Repeat("large ", 7<<10) + unique(t)
	w := newWorld(t, asks(command), "")
	w.work()
	waiting, over := unique(t), unique(t)
	for _, id := range []string{over, waiting} {
		w.ok(w.starter("run", "--profile", "p", "--task", "a task of "+id, "--id", id, "--no-wait"))
	}
	w.ok(w.starter("deny", w.pending(over, 1)[0].Key, "-w", over, "--reason", "no"))
	w.ok(w.starter("watch", over))
	w.pending(waiting, 1)
	// Only this test's runs are asked: others on this server use stores of their own, and change all the time.
	mine := fmt.Sprintf("TaskQueue='%s'", w.queue)
	flags := []string{"--blobs", w.path("blobs"), "--runs", mine}
	prune := func(more ...string) *invocation {
		return w.ok(w.starter(append(append([]string{"blobs", "prune"}, flags...), more...)...))
	}
	require.Eventually(t, func() bool {
		text := w.ok(w.starter(append([]string{"blobs", "--used-by"}, flags...)...)).out.String()
		return strings.Contains(text, waiting) && strings.Contains(text, over)
	}, patience, tick)

	before := w.left()
	require.Contains(t, prune("--older-than", "1h").err.String(), "0 blobs of ")
	w.aged(90 * 24 * time.Hour)
	dry := prune("--older-than", "1h")
	require.Empty(t, dry.out.String(), "a run that closed within the age needs its blobs too")
	require.Contains(t, dry.err.String(), "has 1 open run and 1 run that closed in the last 1h")
	text := w.ok(w.starter("blobs", "--blobs", w.path("blobs"))).out.String()
	require.Regexp(t, `^BLOB +SIZE +AGE\n`, text)
	require.Equal(t, len(before)+1, strings.Count(text, "\n"))
	require.Contains(t, text, "   90d\n")

	// The closed one is no longer asked for.
	closed := fmt.Sprintf("WorkflowId != '%s'", over)
	flags[3] = mine + " AND " + closed
	dry = prune("-o", "json", "--older-than", "1h")
	rows := lines[blobRow](t, dry.out.String())
	require.NotEmpty(t, rows)
	require.Contains(t, dry.err.String(), "nothing was deleted; --dry-run=false deletes them")
	require.Equal(t, before, w.left())
	for _, r := range rows {
		require.False(t, *r.Deleted)
	}
	gone := prune("--dry-run=false", "--older-than", "1h")
	require.Equal(t, len(rows), strings.Count(gone.out.String(), "deleted   "))
	require.Len(t, w.left(), len(before)-len(rows))
	for _, r := range rows {
		require.NotContains(t, w.left(), r.SHA256)
	}
	w.exits(w.starter(append([]string{"blobs", "prune"}, flags...)...), exit.OK)

	w.ok(w.starter("approve", w.pending(waiting, 1)[0].Key, "-w", waiting))
	end := w.ok(w.starter("watch", waiting, "-o", "json"))
	require.Contains(t, end.out.String(), `"status":"`+string(protocol.OK)+`"`)
}

func TestBlobsAreKeptInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("true"), "")
	store, err := blob.NewDir(w.path("blobs"))
	require.NoError(t, err)
	_, err = store.Put(t.Context(), []byte("old"))
	require.NoError(t, err)
	w.aged(90 * 24 * time.Hour)
	prune := func(code int, more ...string) string {
		i := w.begin(append([]string{"blobs", "prune", "--dry-run=false", "--blobs", w.path("blobs")}, more...)...)
		return w.exits(i, code).err.String()
	}
	bad := prune(exit.Failed, "--runs", "no such query")
	require.Contains(t, bad, "it is not known which blobs are needed: list the runs of namespace")
	require.Contains(t, bad, "nothing was deleted")
	require.Contains(t, prune(exit.Failed, "--also", "no-such-namespace"), "no-such-namespace")
	require.Contains(t, prune(exit.Usage, "--older-than", "59m"), "--older-than is 59m0s; at least 1h0m0s")
	require.Contains(t, prune(exit.Usage, "--runs", ""), "--runs is empty")
	for _, flag := range []string{"--also", "--blobs", "--config"} {
		require.Contains(t, prune(exit.Usage, flag, ""), flag+" is empty", "a variable that is not set is no namespace to leave out, and no other store")
	}
	require.Contains(t, prune(exit.Usage, "--also", "a,,b"), "--also is empty")
	require.Contains(t, prune(exit.Usage, "--older-than", "1y"), "want an age such as 30d or 12h")
	require.Contains(t, prune(exit.Usage, "--older-than", "99999999999d"), "want an age")
	require.Contains(t, prune(exit.Usage, "--older-than", "0d"), "at least")
	require.Contains(t, prune(exit.Usage, "--config", "x"), "--config and --blobs exclude each other")
	away := w.beginAt("127.0.0.1:1", "blobs", "prune", "--dry-run=false", "--blobs", w.path("blobs"))
	require.Contains(t, w.exits(away, exit.Failed).err.String(), "no Temporal server at 127.0.0.1:1")
	none := w.starter("blobs", "--blobs", w.path("nowhere"))
	require.Contains(t, w.exits(none, exit.Failed).err.String(), "no blob store at "+w.path("nowhere"))
	require.NoDirExists(t, w.path("nowhere"))
	another := t.TempDir()
	require.Contains(t, w.exits(w.starter("blobs", "--blobs", another), exit.Failed).err.String(), "no blob store at "+another)
	require.NoFileExists(t, filepath.Join(another, "store-id"), "looking makes no store of a folder")
	require.Len(t, w.left(), 1)

	// A server whose runs need nothing of the store may be the wrong one.
	nobody := []string{"--runs", "WorkflowId='nobody'", "--also", "default"}
	require.Contains(t, prune(exit.Failed, nobody...), "it may be another server's")
	require.Contains(t, prune(exit.OK, append(nobody, "--dry-run")...), "1 blob of 1 blob")
	require.Len(t, w.left(), 1)
	require.Contains(t, prune(exit.OK, append(nobody, "--all")...), "1 blob of 1 blob")
	require.Empty(t, w.left())
}
