package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// outage is how long the server is away: as short as it can be, or the minute of a failover.
func outage() time.Duration {
	if long() {
		return time.Minute
	}
	return 0
}

// teamAt is a team on a server of its own, with an activity that goes on when it is told to.
func teamAt(t *testing.T, address, name string, goOn <-chan struct{}) *team {
	m := newTeam(t)
	m.id += "-" + name
	m.queue, m.client.HostPort = m.id, address
	if name == "acts" {
		m.guard.Tools = map[string]tool.Options{"Build": {Risk: tool.Read}}
	}
	m.register = func(wk sdkworker.Worker) {
		wk.RegisterWorkflowWithOptions(slowly, workflowNamed("Builds"))
		wk.RegisterActivityWithOptions(func(ctx context.Context, o order) (string, error) {
			if err := appendLine(m.effects, "build "+o.Service); err != nil {
				return "", err
			}
			select {
			case <-goOn:
				return "built " + o.Service, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}, activity.RegisterOptions{Name: "Build"})
	}
	m.work()
	return m
}

// The server is killed and comes back while one agent and one guarded workflow wait for an answer, a tool runs, and a
// guarded activity runs. All go on, with the workers that were there before; every effect happened once.
func TestServerGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	server, boot := devservertest.Restartable(t, devserver.StartOptions{DBFile: filepath.Join(t.TempDir(), "temporal.db")})
	c := dial(t, server.Address())

	parked, busy := newWorldAt(t, c, t.TempDir()), newWorldAt(t, c, t.TempDir())
	parked.work(askingWith(oneAsk))
	busy.work(setup{Keys: true, Script: `
turns:
  - calls: [{tool: hold, args: {text: a}}]
  - calls: [{tool: note, args: {text: after}}]
  - say: done
`})
	goOn := make(chan struct{})
	waits, acts := teamAt(t, server.Address(), "waits", goOn), teamAt(t, server.Address(), "acts", goOn)

	parked.start(protocol.AgentInput{})
	busy.start(protocol.AgentInput{})
	waits.ship(order{Service: "api"})
	acts.begin("Builds", order{Service: "web"})
	agentKey, teamKey := parked.pending(1)[0].Key, waits.pending(1)[0].Key
	require.Eventually(t, func() bool { return len(busy.ran()) == 1 && len(acts.ran()) == 1 }, patience, tick)

	require.NoError(t, server.Kill())
	away := time.NewTimer(outage())
	short, stop := context.WithTimeout(context.Background(), time.Second)
	require.Error(t, waits.c.SignalWorkflow(short, waits.id, "", protocol.GuardSignalApproval, resolution(teamKey, approval.Deny, "")),
		"nothing reaches a server that is away")
	stop()
	<-away.C
	back, err := devserver.Start(context.Background(), boot)
	require.NoError(t, err)
	t.Cleanup(func() { _ = back.Stop(context.Background()) })

	require.Equal(t, agentKey, parked.pending(1)[0].Key)
	require.Equal(t, teamKey, waits.pending(1)[0].Key)
	parked.answer(agentKey, approval.Allow)
	waits.answer(resolution(teamKey, approval.Allow, ""))
	require.NoError(t, os.WriteFile(busy.effects+".go", nil, 0o600))
	close(goOn)

	res := parked.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"run a"}, parked.ran())
	require.Equal(t, deployed("api"), waits.shipped())
	require.Equal(t, []string{"deploy api "}, waits.ran())

	res = busy.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"hold a", "note after"}, busy.ran(), "each effect once")
	// A server that hears no heartbeat for ten seconds takes the worker for lost.
	require.Contains(t, [][]string{{"OK", "OK"}, {"EFFECT_UNKNOWN", "OK"}}, busy.codes(res))
	var built string
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, acts.c.GetWorkflow(ctx, acts.id, "").Get(ctx, &built))
	require.Equal(t, "built web", built)
	for _, w := range []*world{parked, busy, waits.world, acts.world} {
		require.Empty(t, w.failedTasks())
	}
}
