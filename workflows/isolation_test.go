package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

const oneChange = `
turns:
  - calls: [{tool: change, args: {path: a}}]
  - say: done
`

// away is how an activity fails whose host does not answer.
func away() error { return temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil) }

// goneTree is how an activity fails whose tree is no more.
func goneTree() error {
	return temporal.NewNonRetryableApplicationError("its directory was removed", protocol.ErrorGone, nil)
}

// said are the texts of the conversation that are not the model's.
func (b *bench) told(res protocol.AgentResult) (out []string) {
	b.t.Helper()
	msgs, err := activities.ReadTranscript(context.Background(), b.blob, res.Transcript)
	require.NoError(b.t, err)
	for _, m := range msgs {
		if m.Role == model.User {
			out = append(out, m.Text)
		}
	}
	return out
}

// Wherever an environment is lost, the agent starts again from its prompt, says so, and is told so.
func TestWhereAnEnvironmentIsLost(t *testing.T) {
	for name, tc := range map[string]struct {
		activity string
		err      error
		value    any
		says     string
	}{
		"the host at acquire": {protocol.ActivityAcquireWorktree, away(), worktree.Lease{}, "did not answer in time"},
		"the tree at acquire": {protocol.ActivityAcquireWorktree, goneTree(), worktree.Lease{}, "its directory was removed"},
		"the host at a call":  {"tool.change", away(), tool.Result{}, "did not come back in time"},
		"the tree at a call":  {"tool.change", goneTree(), tool.Result{}, "its directory was removed"},
		"the host at collect": {protocol.ActivityCollectWorktree, away(), protocol.Artifact{}, "did not answer in time"},
		"the tree at collect": {protocol.ActivityCollectWorktree, goneTree(), protocol.Artifact{}, "its directory was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := inTree(0, oneChange)
			b := newBench(t, s)
			b.env.OnActivity(tc.activity, mock.Anything, mock.Anything).Return(tc.value, tc.err).Once()
			b.env.OnActivity(tc.activity, mock.Anything, mock.Anything).Return(b.real(tc.activity))
			var asked []protocol.RefRequest
			b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
				var req protocol.RefRequest
				if info.ActivityType.Name == protocol.ActivityResolveRef && args.Get(&req) == nil {
					asked = append(asked, req)
				}
			})
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, 1, res.Restarts)
			require.Len(t, res.Artifacts, 1)
			told := b.told(res)
			require.Len(t, told, 2)
			require.Equal(t, "go", told[0])
			require.Contains(t, told[1], tc.says)
			require.Contains(t, told[1], "restart 1 of at most 3")
			require.Equal(t, []int{0, 1}, []int{asked[0].Restart, asked[1].Restart})
			require.Contains(t, asked[1].Lost, tc.says)
			require.Equal(t, "/trees/1", p.disposed[len(p.disposed)-1])
		})
	}
}

// real is the activity itself, for a mock that fails first.
func (b *bench) real(name string) any {
	switch name {
	case protocol.ActivityAcquireWorktree:
		return b.engine.AcquireWorktree
	case protocol.ActivityCollectWorktree:
		return b.engine.CollectWorktree
	}
	return func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Code: tool.OK, Value: []byte("1")}, nil
	}
}

// An environment that is lost again and again ends the agent, whose conversations can still be read.
func TestAnAgentThatIsLostTooOften(t *testing.T) {
	s, p := inTree(0, oneChange)
	b := newBench(t, s)
	b.env.OnActivity(protocol.ActivityCollectWorktree, mock.Anything, mock.Anything).Return(protocol.Artifact{}, away())
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Equal(t, "the agent's environment was lost: the host that has the worktree did not answer in time; it had started again 3 times before", res.Error)
	require.Equal(t, 3, res.Restarts)
	require.Empty(t, res.Artifacts)
	require.Len(t, p.acquired, 4)
	require.Len(t, b.told(res), 2)
	require.Equal(t, 8, res.Turns, "what was spent is kept")

	// The last life of this one has no turn: the one before it is what there is to read.
	s, _ = inTree(0, oneChange)
	b = newBench(t, s)
	acquired := 0
	b.env.OnActivity(protocol.ActivityAcquireWorktree, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, req protocol.AcquireRequest) (worktree.Lease, error) {
			if acquired++; acquired > 1 {
				return worktree.Lease{}, goneTree()
			}
			return b.engine.AcquireWorktree(ctx, req)
		})
	b.env.OnActivity(protocol.ActivityCollectWorktree, mock.Anything, mock.Anything).Return(protocol.Artifact{}, goneTree())
	res = b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "its directory was removed")
	require.NotNil(t, res.Transcript)
	require.Equal(t, []string{"OK"}, b.codes(res))
}

// An agent that had ended otherwise than well does not start again because its work is lost, nor is it hidden that it is.
func TestWorkThatIsLostAtTheEnd(t *testing.T) {
	escalate := tool.MustNew("escalate", "Escalates.", func(context.Context, *tool.Context, pathIn) (string, error) { return "", nil }, tool.Read)
	for name, tc := range map[string]struct {
		script string
		status protocol.Status
		says   string
	}{
		"limit":     {"turns: [{calls: [{tool: look, args: {path: a}}]}, {say: no more}]", protocol.LimitHit, "maxTurns (1) was reached"},
		"refusal":   {"turns: [{say: no, stop: refusal}]", protocol.Failed, "the model refused"},
		"escalated": {"turns: [{calls: [{tool: escalate, args: {path: a}}]}]", protocol.Escalated, ""},
	} {
		for how, failure := range map[string]error{
			"did not answer in time":    away(),
			"its directory was removed": goneTree(),
			"the tree is kept at":       temporal.NewNonRetryableApplicationError("disk full", "Disk", nil),
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				s, p := inTree(0, tc.script)
				s.tools, s.profile.Limits.MaxTurns = []*tool.Def{escalate}, 1
				b := newBench(t, s)
				b.env.OnActivity(protocol.ActivityCollectWorktree, mock.Anything, mock.Anything).Return(protocol.Artifact{}, failure)
				res := b.run(protocol.AgentInput{})
				require.Equal(t, tc.status, res.Status)
				require.Contains(t, res.Error, tc.says)
				require.Contains(t, res.Error, how)
				require.Zero(t, res.Restarts)
				require.Len(t, p.acquired, 1)
				require.Equal(t, tc.status == protocol.Escalated, len(res.Escalation) > 0)
				if how == "the tree is kept at" {
					require.Empty(t, p.disposed)
				}
			})
		}
	}
}

// A tree that cannot be given back is in the result, whose patch is good all the same.
func TestATreeThatCannotBeGivenBack(t *testing.T) {
	s, _ := inTree(0, oneChange)
	b := newBench(t, s)
	b.env.OnActivity(protocol.ActivityDisposeWorktree, mock.Anything, mock.Anything).Return(protocol.DisposeResponse{}, away())
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Zero(t, res.Restarts)
	require.Equal(t, "t2", res.Artifacts[0].Tree)
	require.Contains(t, strings.Join(res.Artifacts[0].Warnings, "\n"), "still at /trees/0")
}

// dangerous is a provider whose repository was made to run programs.
type dangerous struct{ *trees }

func (p dangerous) Collect(context.Context, worktree.Lease) (worktree.Patch, error) {
	return worktree.Patch{Bytes: []byte("diff"), Base: "c", Tree: "t2", HostChanges: []worktree.HostChange{
		{Key: "refs/tags/v1", Change: "added"}, {Key: "config core.hookspath", Change: "added", Dangerous: true}}}, nil
}

// A repository that was made to run programs is an error: whoever waits for an agent reads one field.
func TestARepositoryThatRunsPrograms(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		status protocol.Status
		says   string
	}{
		"ok":    {oneChange, protocol.Failed, "while the agent worked"},
		"limit": {"turns: [{calls: [{tool: look, args: {path: a}}]}, {say: no more}]", protocol.LimitHit, "maxTurns (1) was reached; while the agent worked"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := inTree(0, tc.script)
			s.trees, s.profile.Limits.MaxTurns = dangerous{p}, 2
			if name == "limit" {
				s.profile.Limits.MaxTurns = 1
			}
			b := newBench(t, s)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, tc.status, res.Status)
			require.Contains(t, res.Error, tc.says)
			require.Contains(t, res.Error, "config core.hookspath (added)")
			require.NotContains(t, res.Error, "refs/tags")
			require.Len(t, res.Artifacts, 1, "the patch is there")
			require.Contains(t, res.Artifacts[0].Error, "config core.hookspath (added)")
			require.Equal(t, []string{"/trees/0"}, p.disposed)
		})
	}
}

// A full disk is waited for longer than any other failure, and not for ever.
func TestAFullDiskIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		fails int
		tries int
		ends  protocol.Status
	}{
		"room comes":        {&worktree.SpaceError{Free: 1, Min: 2}, 40, 41, protocol.OK},
		"room never comes":  {&worktree.SpaceError{Free: 1, Min: 2}, 1000, protocol.MaxTreeAttempts, protocol.Failed},
		"another failure":   {errors.New("input/output error"), 1000, 10, protocol.Failed},
		"a passing failure": {errors.New("input/output error"), 5, 6, protocol.OK},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := inTree(0, oneChange)
			full := &filling{trees: p, err: tc.err, fails: tc.fails}
			s.trees = full
			b := newBench(t, s)
			b.env.SetTestTimeout(time.Minute)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, tc.ends, res.Status, res.Error)
			require.Equal(t, tc.tries, full.tries)
			if tc.ends != protocol.OK {
				require.Equal(t, tc.err.Error(), res.Error)
			}
		})
	}
}

// Whoever waits for room, or for a host, can be stopped at once.
func TestAnAgentThatWaitsForRoomIsStopped(t *testing.T) {
	for name, ends := range map[string]protocol.Status{"cancelled": protocol.Cancelled, "wall clock": protocol.LimitHit} {
		t.Run(name, func(t *testing.T) {
			s, p := inTree(0, oneChange)
			full := &filling{trees: p, err: &worktree.SpaceError{Free: 1, Min: 2}, fails: 1000}
			s.trees = full
			if ends == protocol.LimitHit {
				s.profile.Limits.WallClock = 2 * time.Minute
			}
			b := newBench(t, s)
			b.env.SetTestTimeout(time.Minute)
			if ends == protocol.Cancelled {
				b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 2*time.Minute)
			}
			res := b.run(protocol.AgentInput{})
			require.Equal(t, ends, res.Status, res.Error)
			require.Less(t, full.tries, 20)
			require.Empty(t, p.acquired)
		})
	}
}

// filling is a provider that fails to acquire so many times.
type filling struct {
	*trees
	err          error
	fails, tries int
}

func (p *filling) Acquire(ctx context.Context, id worktree.Identity, at worktree.Resolved) (worktree.Lease, error) {
	if p.tries++; p.tries <= p.fails {
		return worktree.Lease{}, p.err
	}
	return p.trees.Acquire(ctx, id, at)
}

// Values that operators can put into history by ending an activity by hand neither crash a run nor loop it.
func TestValuesThatNoWorkerGives(t *testing.T) {
	for name, resp := range map[string]protocol.RefResponse{
		"no queue":       {},
		"a long queue":   {HostQueue: strings.Repeat("q", 1001)},
		"a broken queue": {HostQueue: "q\n"},
		"their queue":    {HostQueue: "/_sys/x"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := inTree(0, oneChange)
			b := newBench(t, s)
			b.env.OnActivity(protocol.ActivityResolveRef, mock.Anything, mock.Anything).Return(resp, nil)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.Failed, res.Status)
			require.Contains(t, res.Error, "no task queue of a host")
			require.Empty(t, p.acquired)
		})
	}
	s, p := inTree(0, oneChange)
	b := newBench(t, s)
	b.env.OnActivity(protocol.ActivityAcquireWorktree, mock.Anything, mock.Anything).Return(worktree.Lease{Dir: "/home/user"}, nil)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Equal(t, 3, res.Restarts)
	require.Empty(t, b.ran, "no tool runs in a place that no worker has leased")
	require.Empty(t, p.acquired)
}

// A wall clock that rings while the host is away ends the agent, which does not start again for that.
func TestTheWallClockRingsWhileTheHostIsAway(t *testing.T) {
	s, p := inTree(0, oneChange)
	s.profile.Limits.WallClock = time.Minute
	b := newBench(t, s)
	b.env.OnActivity("tool.change", mock.Anything, mock.Anything).After(2*time.Minute).Return(tool.Result{}, away())
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.LimitHit, res.Status)
	require.Contains(t, res.Error, "wall-clock")
	require.Zero(t, res.Restarts)
	require.Len(t, p.acquired, 1)
}

// The run that continues has the tree of the one before, and a run that is another than the lease says has none.
func TestATreeBelongsToItsRun(t *testing.T) {
	s, _ := inTree(0, "turns:\n  - calls: [{tool: run, args: {path: a}}]\n  - say: done\n")
	_, l := parked(t, s)
	require.NotEmpty(t, l.state.Lease.Run)

	s, p := inTree(0, oneChange)
	b := newBench(t, s)
	n := 0
	b.env.OnActivity(protocol.ActivityAcquireWorktree, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, req protocol.AcquireRequest) (worktree.Lease, error) {
			lease, err := b.engine.AcquireWorktree(ctx, req)
			if n++; n == 1 {
				lease.Run = "the run before a reset"
			}
			return lease, err
		})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 1, res.Restarts)
	require.Contains(t, b.told(res)[1], "another run of the agent")
	require.Equal(t, []string{"/trees/0", "/trees/1"}, p.disposed)
	require.Equal(t, []string{"a"}, b.ran["change"])
}

// Questions that are open when the host is lost are closed as abandoned, and asked again.
func TestQuestionsOfALostHost(t *testing.T) {
	s, _ := inTree(0, "turns:\n  - calls: [{tool: run, args: {path: a}}, {tool: change, args: {path: b}}]\n  - say: done\n")
	b := newBench(t, s)
	b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(tool.Result{}, away()).Once()
	b.env.OnActivity("tool.change", mock.Anything, mock.Anything).Return(b.real("tool.change"))
	b.answer(time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	closed := b.list().Closed
	require.Equal(t, []approval.How{approval.Abandoned, approval.Allowed}, []approval.How{closed[0].How, closed[1].How})
	require.Equal(t, []string{"a"}, b.ran["run"])
}
