package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// fleetScript asks in every turn. shift and shove have another contract in the other build, extra is only in one.
const fleetScript = `
turns:
  - calls: [{tool: probe, args: {text: a}}, {tool: send, args: {text: b}}, {tool: mark, args: {text: c}}, {tool: shove, args: {text: d}}]
  - calls: [{tool: send, args: {text: e}}, {tool: shift, args: {text: f}}, {tool: put, args: {text: g}}]
  - calls: [{tool: extra, args: {text: h}}, {tool: send, args: {text: i}}, {tool: fire, args: {text: j}}]
  - say: done
`

// busyScript asks nothing.
const busyScript = `
turns:
  - calls: [{tool: mark, args: {text: a}}, {tool: probe, args: {text: b}}]
  - calls: [{tool: fire, args: {text: c}}, {tool: put, args: {text: d}}]
  - calls: [{tool: mark, args: {text: e}}]
  - say: done
`

// Two builds of one team's worker.
func firstBuild() setup {
	return setup{Keys: true, Script: fleetScript, Build: &build{Reason: "asked by the first build", Busy: busyScript,
		Patience: time.Second, Slow: 20 * time.Millisecond}}
}

func secondBuild() setup {
	s := firstBuild()
	s.Build.Reason, s.Build.Shift, s.Build.Extra, s.Build.Patience = "asked by the second build", "Shifts, otherwise.", true, 2*time.Second
	return s
}

// drifting are the tools that the two builds do not share.
var drifting = []string{"shift", "shove", "extra"}

// fleet is many agents on one queue.
type fleet struct {
	*world
	rnd *rand.Rand

	mu     sync.Mutex
	agents []*agentRun
	// told are the answers that an update said were taken, by agent and key.
	told map[string][]approval.Choice
	sent int
}

type agentRun struct {
	*world
	runID string
}

func newFleet(t *testing.T) *fleet {
	return &fleet{world: newWorld(t), rnd: random(t), told: map[string][]approval.Choice{}}
}

// launch starts one more agent and remembers it.
func (f *fleet) launch(in protocol.AgentInput) *agentRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := *f.world
	w.id = fmt.Sprintf("%s-%d", f.id, len(f.agents))
	a := &agentRun{world: &w}
	f.agents = append(f.agents, a)
	a.runID = a.start(in).GetRunID()
	return a
}

// question is one that a list of waiting agents shows, without any worker.
type question struct {
	id string
	protocol.MemoQuestion
}

// waiting lists the agents of the queue that wait for an answer, as an operator does.
func (f *fleet) waiting() (agents int, open []question) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := f.c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default",
		Query: fmt.Sprintf("TaskQueue='%s' AND AssentStatus='waiting' AND ExecutionStatus='Running'", f.queue)})
	if err != nil {
		return 0, nil
	}
	for _, e := range l.Executions {
		var qs []protocol.MemoQuestion
		if p := e.GetMemo().GetFields()[protocol.MemoPending]; p != nil {
			_ = json.Unmarshal(p.Data, &qs)
		}
		for _, q := range qs {
			open = append(open, question{e.Execution.WorkflowId, q})
		}
	}
	return len(l.Executions), open
}

// parked launches n agents and waits until all of them wait.
func (f *fleet) parked(n int) {
	f.t.Helper()
	for range n {
		f.launch(protocol.AgentInput{})
	}
	require.Eventually(f.t, func() bool { agents, _ := f.waiting(); return agents == n }, patience, 10*tick)
}

// background runs a loop in so many goroutines until stop, and then waits for them.
func (f *fleet) background(n int, loop func(rnd *rand.Rand)) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for range n {
		own := rand.New(rand.NewPCG(f.rnd.Uint64(), 5))
		wg.Go(func() {
			for {
				select {
				case <-quit:
					return
				case <-time.After(tick):
					loop(own)
				}
			}
		})
	}
	var once sync.Once
	stop = func() { once.Do(func() { close(quit) }); wg.Wait() }
	f.t.Cleanup(stop)
	return stop
}

// answering answers one open question: mostly allowed, by signal or update, now and then twice, now and then with a
// rival who says the opposite.
func (f *fleet) answering(rnd *rand.Rand) {
	_, open := f.waiting()
	if len(open) == 0 {
		return
	}
	q := open[rnd.IntN(len(open))]
	choices := []approval.Choice{approval.Allow, approval.Deny}
	if rnd.IntN(4) == 0 {
		choices[0], choices[1] = choices[1], choices[0]
	}
	var wg sync.WaitGroup
	send := func(choice approval.Choice, by string, update bool) {
		wg.Go(func() {
			taken := f.resolve(q.id, approval.Resolution{Key: q.Key, Decision: choice, By: by}, update)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.sent++
			if taken {
				f.told[q.id+" "+q.Key] = append(f.told[q.id+" "+q.Key], choice)
			}
		})
	}
	send(choices[0], "alice", rnd.IntN(2) == 0)
	if rnd.IntN(3) == 0 {
		send(choices[0], "alice", rnd.IntN(2) == 0)
	}
	if rnd.IntN(3) == 0 {
		send(choices[1], "bob", rnd.IntN(2) == 0)
	}
	wg.Wait()
}

// working runs agents that ask nothing, one after the other.
func (f *fleet) working(*rand.Rand) {
	a := f.launch(protocol.AgentInput{Models: []string{"scripted:busy"}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = f.c.GetWorkflow(ctx, a.id, a.runID).Get(ctx, nil) // settled looks at it
}

// running counts the agents that have not ended.
func (f *fleet) running() int64 {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	n, err := f.c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: "default",
		Query: fmt.Sprintf("TaskQueue='%s' AND ExecutionStatus='Running'", f.queue)})
	if err != nil {
		return -1
	}
	return n.Count
}

// settled waits for the end of all agents and checks each. lossy is for deployments that kill.
func (f *fleet) settled(lossy bool) {
	f.t.Helper()
	total, allowed, denied := map[tool.Code]int{}, 0, 0
	for _, a := range f.agents {
		res := a.result()
		require.Equal(f.t, protocol.OK, res.Status, "%s: %s", a.id, res.Error)
		for code, n := range a.honest(res, a.runID, drifting...) {
			total[code] += n
		}
		v := a.witness()
		a.listed(v)
		for key, admitted := range v.admitted {
			switch admitted[0].How {
			case approval.Allowed:
				allowed++
			case approval.Denied:
				denied++
			default:
				require.Failf(f.t, "a question closed otherwise", "%s %s: %+v", a.id, key, admitted[0])
			}
			taken := f.told[a.id+" "+key]
			require.LessOrEqual(f.t, len(taken), 1, "two updates were told that their answer to %s was taken", key)
			if len(taken) == 1 {
				require.Equal(f.t, map[approval.Choice]approval.How{"allow": approval.Allowed, "deny": approval.Denied}[taken[0]], admitted[0].How,
					"%s: an update was told that its answer was taken", key)
			}
		}
	}
	if !lossy {
		require.Zero(f.t, total[tool.EffectUnknown], "a worker that stops in an orderly way loses nothing")
		require.Zero(f.t, total[tool.ToolError])
	}
	f.t.Logf("%d agents, %d answers sent, %d allowed, %d denied; the models were told %v", len(f.agents), f.sent, allowed, denied, total)
}

// listed checks that the query of a run that has ended says what history says: every question is closed, and once.
func (a *agentRun) listed(v witness) {
	a.t.Helper()
	var l approval.List
	require.Eventually(a.t, func() bool { var err error; l, err = a.list(); return err == nil }, patience, tick)
	require.Empty(a.t, l.Pending)
	require.Len(a.t, l.Closed, len(v.admitted))
	for _, c := range l.Closed {
		require.Equal(a.t, v.how(c.Key), c.How, "%s %s", a.id, c.Key)
	}
}

// roll deploys the build to over the build from, with agents parked, others running, and answers on the way. The old
// worker ends by SIGTERM, or by SIGKILL.
func roll(t *testing.T, n int, from, to setup, kill bool) {
	address := devservertest.Server(t).Address()
	f := newFleet(t)
	old := f.spawn(from, address)
	f.parked(n)
	load := f.background(2, f.working)
	f.spawn(to, address)
	answers := f.background(4, f.answering)
	f.launch(protocol.AgentInput{})
	// The old worker goes in the middle of it.
	require.Eventually(t, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.sent > n/2 }, patience, tick)
	if kill {
		old.kill(t)
	} else {
		old.term(t)
	}
	f.launch(protocol.AgentInput{})
	load()
	require.Eventually(t, func() bool { return f.running() == 0 }, time.Duration(max(n/20, 4))*patience, 10*tick)
	// The list may not have the last ones yet.
	for _, a := range f.agents {
		a.result()
	}
	answers()
	f.settled(kill)
}

// A deployment, and its rollback, while agents are parked and others run: every agent ends, every approved call has
// its effect once, nothing is decided twice.
func TestRollingDeploy(t *testing.T) { bothWays(t, false) }

// The same, and the old worker does not get the time to stop.
func TestRollingDeployThatKills(t *testing.T) { bothWays(t, true) }

func bothWays(t *testing.T, kill bool) {
	n := 200
	if !long() {
		// Hundreds of agents at a time are enough for one development server. Fewer wait for clocks most of the time.
		t.Parallel()
		n = 40
	}
	t.Run("deploy", func(t *testing.T) {
		if !long() {
			t.Parallel()
		}
		roll(t, n, firstBuild(), secondBuild(), kill)
	})
	t.Run("roll back", func(t *testing.T) {
		t.Parallel()
		roll(t, 40, secondBuild(), firstBuild(), kill)
	})
}

// While both builds serve a queue, an agent whose run is in the wrong one's cache still finds the worker that has its
// contract.
func TestADriftedCallFindsTheOtherBuild(t *testing.T) {
	t.Parallel()
	address := devservertest.Server(t).Address()
	f := newFleet(t)
	one, two := firstBuild(), secondBuild()
	one.Build.Patience, two.Build.Patience = 10*time.Minute, 10*time.Minute
	one.Script = `
turns:
  - calls: [{tool: send, args: {text: a}}]
  - calls: [{tool: shift, args: {text: b}}]
  - say: done
`
	two.Script = one.Script
	first := f.spawn(one, address)
	a := f.launch(protocol.AgentInput{}).asked()
	f.spawn(two, address)
	first.term(t)
	a.answer(a.asks()[0].Key, approval.Allow)
	require.Eventually(t, func() bool {
		d := a.witness().decided[callID(2, 1)]
		return len(d) == 1 && d[0].Drift != ""
	}, patience, 10*tick)
	f.spawn(one, address)
	require.Eventually(t, func() bool { _, over, err := a.length(); return err == nil && over }, 5*patience, 10*tick)
	res := a.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, map[tool.Code]int{tool.OK: 2}, a.honest(res, a.runID, "shift"))
}
