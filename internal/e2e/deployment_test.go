package e2e

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// versioned makes a setup a version of a Worker Deployment.
func versioned(s setup, deployment, id string, auto bool) setup {
	b := *s.Build
	b.Deployment, b.ID, b.Auto = deployment, id, auto
	s.Build = &b
	return s
}

// current makes a build the one that new runs go to, as an operator does once its worker polls.
func (w *world) current(deployment, id string) {
	w.t.Helper()
	var last error
	require.Eventually(w.t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, last = w.c.WorkerDeploymentClient().GetHandle(deployment).SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: id})
		return last == nil
	}, patience, 10*tick, "%v", &last)
}

// builds are the builds that finished the workflow tasks of a run, in order, each once.
func (w *world) builds() []string {
	w.t.Helper()
	var ids []string
	for _, e := range w.history() {
		if a := e.GetWorkflowTaskCompletedEventAttributes(); a != nil {
			require.NotNil(w.t, a.DeploymentVersion, "event %d: an unversioned worker took a task", e.EventId)
			ids = append(ids, a.DeploymentVersion.BuildId)
		}
	}
	return slices.Compact(ids)
}

// allows answers the questions of one agent, as they come, until it has ended.
func (a *agentRun) allows() protocol.AgentResult {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		for _, q := range a.asks() {
			a.resolve(a.id, approval.Resolution{Key: q.Key, Decision: approval.Allow, By: "alice"}, false)
		}
		_, over, err := a.length()
		return err == nil && over
	}, patience, 5*tick)
	return a.result()
}

// asked waits until the agent waits for answers.
func (a *agentRun) asked() *agentRun {
	a.t.Helper()
	require.Eventually(a.t, func() bool { return len(a.asks()) > 0 }, patience, tick)
	return a
}

// An agent that is pinned to the build it began on finishes there, after another build has become current and even
// if its own worker has to be started again; new agents go to the new build. No contract ever drifts.
func TestPinnedAgentsFinishOnTheirBuild(t *testing.T) {
	t.Parallel()
	address := devservertest.Server(t).Address()
	f := newFleet(t)
	one, two := versioned(firstBuild(), f.id, "build.1", false), versioned(secondBuild(), f.id, "build.2", false)
	first := f.spawn(one, address)
	f.current(f.id, "build.1")
	parked := []*agentRun{f.launch(protocol.AgentInput{}).asked(), f.launch(protocol.AgentInput{}).asked()}

	f.spawn(two, address)
	f.current(f.id, "build.2")
	young := f.launch(protocol.AgentInput{}).asked()
	res := parked[0].allows()
	require.Equal(t, []string{"build.1"}, parked[0].builds())
	parked[0].finished(res, tool.UnknownTool)

	// The work of a lost build waits for it.
	first.term(t)
	key := parked[1].asks()[0].Key
	parked[1].answer(key, approval.Allow)
	res = young.allows()
	require.Equal(t, []string{"build.2"}, young.builds())
	young.finished(res, tool.OK)
	require.NotContains(t, parked[1].witness().admitted, key, "the other build does not take the answer")
	f.spawn(one, address)
	res = parked[1].allows()
	require.Equal(t, []string{"build.1"}, parked[1].builds())
	parked[1].finished(res, tool.UnknownTool)
}

// finished checks an agent of the fleet whose every question was allowed and which met no other build's contract.
// extra is what became of the call of the tool that only the second build has.
func (a *agentRun) finished(res protocol.AgentResult, extra tool.Code) {
	a.t.Helper()
	require.Equal(a.t, protocol.OK, res.Status, res.Error)
	told := a.honest(res, a.runID)
	want := map[tool.Code]int{tool.OK: 9}
	want[extra]++
	require.Equal(a.t, want, told)
}

// An agent that may move on does so with its next task: the new build goes on with the questions of the old one.
func TestAutoUpgradedAgentsMoveOn(t *testing.T) {
	t.Parallel()
	address := devservertest.Server(t).Address()
	f := newFleet(t)
	first := f.spawn(versioned(firstBuild(), f.id, "build.1", true), address)
	f.current(f.id, "build.1")
	parked := f.launch(protocol.AgentInput{}).asked()
	f.spawn(versioned(secondBuild(), f.id, "build.2", true), address)
	f.current(f.id, "build.2")
	first.term(t)
	res := parked.allows()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"build.1", "build.2"}, parked.builds())
	told := parked.honest(res, parked.runID, drifting...)
	// Its frozen contracts of shove and shift are not those of the new build.
	require.Equal(t, map[tool.Code]int{tool.OK: 7, tool.ContractDrift: 2, tool.UnknownTool: 1}, told)
}

// The queue of a host has no versions: an agent that is pinned to an older build finds its tree when that build's
// worker runs beside the new one on the same host.
func TestPinnedAgentInAWorktree(t *testing.T) {
	t.Parallel()
	address := devservertest.Server(t).Address()
	f := newFleet(t)
	s := firstBuild()
	s.Repo, s.Root = newRepo(t), filepath.Join(t.TempDir(), "trees")
	s.Script = `
turns:
  - calls: [{tool: write_file, args: {path: new.txt, content: "hello\n"}}, {tool: send, args: {text: a}}]
  - calls: [{tool: edit_file, args: {path: new.txt, old: hello, new: goodbye}}]
  - say: done
`
	f.spawn(versioned(s, f.id, "build.1", false), address)
	f.current(f.id, "build.1")
	parked := f.launch(protocol.AgentInput{}).asked()
	f.spawn(versioned(s, f.id, "build.2", false), address)
	f.current(f.id, "build.2")
	young := f.launch(protocol.AgentInput{}).asked()
	for a, build := range map[*agentRun]string{parked: "build.1", young: "build.2"} {
		res := a.allows()
		require.Equal(t, protocol.OK, res.Status, res.Error)
		require.Equal(t, []string{build}, a.builds())
		require.Equal(t, []string{"OK", "OK", "OK"}, a.codes(res))
		require.Zero(t, res.Restarts)
		require.Len(t, res.Artifacts, 1)
		require.Equal(t, "new.txt", res.Artifacts[0].Files[0].Path)
	}
}

// A versioned worker without a default behavior, whose own workflows name theirs, pins agents.
func TestAVersionedWorkerWithoutADefaultPinsAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, done, err := plugin(askingWith(oneAsk), w.c, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	o := options(p)
	o.DeploymentOptions = worker.DeploymentOptions{UseVersioning: true,
		Version: worker.WorkerDeploymentVersion{DeploymentName: w.queue, BuildID: "1"}}
	wk := worker.New(w.c, w.queue, o)
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
}
