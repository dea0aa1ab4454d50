package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

// A server that goes away and comes back is waited for; what was told is not told again.
func TestWatchOutlivesTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("echo "+unique(t)), "")
	first, boot := devservertest.Restartable(t, devserver.StartOptions{DBFile: filepath.Join(w.dir, "temporal.db")})
	address := first.Address()
	p, err := workerproc.Start(context.Background(), workerproc.Options{Config: w.path("assent.yaml"), Queue: w.queue, DeadlockDetection: 20 * time.Second,
		Connect: connect.Settings{Address: address, Alone: true}})
	require.NoError(t, err)
	t.Cleanup(p.Stop)

	id := unique(t)
	watching := w.beginAt(address, "run", "--profile", "p", "--task", "x", "--id", id, "-o", "json")
	asked := func() string {
		for _, e := range lines[follow.Event](t, whole(watching.out.String())) {
			if e.Kind == follow.ApprovalPending {
				return e.Question.Key
			}
		}
		return ""
	}
	w.until(watching, func() bool { return asked() != "" })
	require.NoError(t, first.Kill())
	w.until(watching, func() bool {
		return strings.Contains(watching.err.String(), "the Temporal server at "+address+" does not answer; waiting for it")
	})
	lost := w.beginAt(address, "approve", asked())
	w.exits(lost, exit.Failed)
	require.Contains(t, lost.err.String(), "no Temporal server at "+address)

	second, err := devserver.Start(context.Background(), boot)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Stop(context.Background())) })
	w.ok(w.beginAt(address, "approve", asked()))
	w.ok(watching)
	n := 0
	for _, e := range lines[follow.Event](t, watching.out.String()) {
		if e.Kind == follow.AgentStart {
			n++
		}
	}
	require.Equal(t, 1, n)
}
