package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// long reports the long tier.
func long() bool { return os.Getenv("ASSENT_LONG") == "1" }

// random is seeded by ASSENT_SEED, else by chance; the log says with what, so that a storm can be repeated.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ASSENT_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("to repeat it: ASSENT_SEED=%d go test ./internal/e2e -run '^%s$'", seed, t.Name())
	return rand.New(rand.NewPCG(seed, 3))
}

func callID(turn, call int) string { return fmt.Sprintf("t%d.%d", turn, call) }

// stormCalls is how many calls the model of a storm makes.
const stormCalls = 20

// stormScript shuffles one run's calls into turns of one to four.
func stormScript(rnd *rand.Rand, tools map[string]int) string {
	var calls []string
	for _, name := range []string{"mark", "fire", "put", "probe", "send", "drop"} {
		for range tools[name] {
			calls = append(calls, name)
		}
	}
	rnd.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	var s strings.Builder
	s.WriteString("turns:\n")
	for n := 0; n < len(calls); {
		var turn []string
		for range min(1+rnd.IntN(4), len(calls)-n) {
			turn = append(turn, fmt.Sprintf("{tool: %s, args: {text: c%d}}", calls[n], n))
			n++
		}
		fmt.Fprintf(&s, "  - calls: [%s]\n", strings.Join(turn, ", "))
	}
	s.WriteString("  - say: done\n")
	return s.String()
}

// length is how many events the history has, and whether the run has ended. It fails while the server is away.
func (w *world) length() (events int64, closed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	d, err := w.c.DescribeWorkflow(ctx, w.id, "")
	if err != nil {
		return 0, false, err
	}
	i := d.RawResponse.WorkflowExecutionInfo
	return i.HistoryLength, i.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// grows waits until the history has so many events more, or the run has ended, which it reports.
func (w *world) grows(by int64) (closed bool) {
	w.t.Helper()
	start := int64(-1)
	require.Eventually(w.t, func() bool {
		n, over, err := w.length()
		if err != nil {
			return false
		}
		if start < 0 {
			start = n
		}
		closed = over
		return over || n >= start+by
	}, patience, 2*time.Millisecond)
	return closed
}

// asks reads the open questions from the memo, which needs no worker.
func (w *world) asks() []protocol.MemoQuestion {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	d, err := w.c.DescribeWorkflow(ctx, w.id, "")
	if err != nil {
		return nil
	}
	var out []protocol.MemoQuestion
	if p := d.RawResponse.WorkflowExecutionInfo.GetMemo().GetFields()[protocol.MemoPending]; p != nil {
		_ = json.Unmarshal(p.Data, &out)
	}
	return out
}

// resolve sends one answer and reports what the update said; a signal says nothing. Errors are what operators live
// with: they ask again.
func (w *world) resolve(id string, r approval.Resolution, update bool) (accepted bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if !update {
		_ = w.c.SignalWorkflow(ctx, id, "", protocol.SignalApproval, r)
		return false
	}
	h, err := w.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: protocol.UpdateResolve,
		Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return false
	}
	var a protocol.Accepted
	return h.Get(ctx, &a) == nil && a.Key == r.Key
}

// attend answers every question that the memo shows, by signal and by update, until stop is called: send is allowed
// and drop is denied.
func (w *world) attend(rnd *rand.Rand) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	own := rand.New(rand.NewPCG(rnd.Uint64(), 4))
	go func() {
		defer close(done)
		for {
			for _, q := range w.asks() {
				choice := approval.Allow
				if q.Tool == "drop" {
					choice = approval.Deny
				}
				w.resolve(w.id, approval.Resolution{Key: q.Key, Decision: choice, By: "alice"}, own.IntN(2) == 0)
			}
			select {
			case <-quit:
				return
			case <-time.After(tick):
			}
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { close(quit) }); <-done }
	w.t.Cleanup(stop)
	return stop
}

// storm is what can be killed while a run goes on.
type storm struct {
	t     *testing.T
	rnd   *rand.Rand
	tools map[string]int
	// server is nil for a storm that leaves the server alone.
	server *devserver.Server
	boot   devserver.StartOptions
	// moment waits for the next moment to strike and reports that the run ended before; strike kills one part or both,
	// and starts it again.
	moment func(st *storm, most int) (over bool)
	strike func(st *storm)

	w       *world
	s       setup
	address string
	worker  *process
}

// stormTools are the calls of one run.
var stormTools = map[string]int{"mark": 5, "fire": 4, "put": 4, "probe": 3, "send": 3, "drop": 1}

func newStorm(t *testing.T, tools map[string]int) *storm {
	n := 0
	for _, k := range tools {
		n += k
	}
	require.Equal(t, stormCalls, n)
	return &storm{t: t, rnd: random(t), tools: tools, moment: (*storm).anyMoment, strike: (*storm).killWorker}
}

// ownServer gives the storm a server with a database file, on a port that it keeps over its restarts.
func (st *storm) ownServer() {
	st.server, st.boot = devservertest.Restartable(st.t, devserver.StartOptions{DBFile: filepath.Join(st.t.TempDir(), "temporal.db")})
	st.t.Cleanup(func() { _ = st.server.Stop(context.Background()) })
}

func (st *storm) killWorker() {
	st.worker.kill(st.t)
	st.worker = st.w.spawn(st.s, st.address)
}

func (st *storm) killServer() {
	require.NoError(st.t, st.server.Kill())
	st.wait(300 * time.Millisecond)
	var err error
	st.server, err = devserver.Start(context.Background(), st.boot)
	require.NoError(st.t, err)
}

// killBoth kills them in either order.
func (st *storm) killBoth() {
	if st.rnd.IntN(2) == 0 {
		st.worker.kill(st.t)
		st.killServer()
		st.worker = st.w.spawn(st.s, st.address)
		return
	}
	require.NoError(st.t, st.server.Kill())
	st.wait(100 * time.Millisecond)
	st.worker.kill(st.t)
	// The new worker meets a server that is not there yet.
	st.killServer()
	st.worker = st.w.spawn(st.s, st.address)
}

// anyMoment is one in the life of the run, and not of the clock: most of the time it waits for a lost worker. Every
// other one is just after an effect, when the result is still on its way.
func (st *storm) anyMoment(most int) (over bool) {
	const events = 200
	if over = st.w.grows(st.rnd.Int64N(int64(events / most))); over {
		return true
	}
	if st.rnd.IntN(2) == 0 {
		st.wait(60 * time.Millisecond)
		return false
	}
	before := len(st.w.ran())
	require.Eventually(st.t, func() bool {
		var err error
		_, over, err = st.w.length()
		return err == nil && over || len(st.w.ran()) > before
	}, patience, 2*time.Millisecond)
	return over
}

// whileAsked is one at which questions are open and their answers are being sent.
func (st *storm) whileAsked(int) (over bool) {
	require.Eventually(st.t, func() bool {
		var err error
		_, over, err = st.w.length()
		return over || err == nil && len(st.w.asks()) > 0
	}, patience, tick/4)
	st.wait(60 * time.Millisecond)
	return over
}

// wait is a moment of chance.
func (st *storm) wait(most time.Duration) { time.Sleep(time.Duration(st.rnd.Int64N(int64(most)))) }

// begin starts a run with its worker.
func (st *storm) begin() (runID string) {
	if st.server == nil {
		st.w = newWorld(st.t)
		st.address = devservertest.Server(st.t).Address()
	} else {
		st.w = newWorldAt(st.t, dial(st.t, st.server.Address()), st.t.TempDir())
		st.address = st.server.Address()
	}
	st.s = setup{Keys: true, Script: stormScript(st.rnd, st.tools), Build: &build{Reason: "ask", Slow: 120 * time.Millisecond}}
	st.worker = st.w.spawn(st.s, st.address)
	return st.w.start(protocol.AgentInput{}).GetRunID()
}

// rages is rage with other numbers in the long tier.
func (st *storm) rages(strikes, most, longStrikes, longMost int) {
	st.t.Helper()
	if long() {
		strikes, most = longStrikes, longMost
	}
	st.rage(strikes, most)
}

// rage strikes so often at random moments of runs, each of which has to end well, most times in each.
func (st *storm) rage(strikes, most int) {
	st.t.Helper()
	total := map[tool.Code]int{}
	for run := 1; strikes > 0; run++ {
		id := st.begin()
		stop := st.w.attend(st.rnd)
		struck := 0
		for ; struck < min(strikes, most); struck++ {
			if st.moment(st, most) {
				break
			}
			st.strike(st)
		}
		strikes -= struck
		st.check(id, run, struck, total)
		stop()
		st.worker.kill(st.t)
	}
	st.t.Logf("the model was told %v", total)
}

// check waits for the end of a run and holds it against its history and its effects.
func (st *storm) check(id string, run, struck int, total map[tool.Code]int) {
	st.t.Helper()
	res := st.w.result()
	require.Equal(st.t, protocol.OK, res.Status, res.Error)
	require.Equal(st.t, stormCalls, res.Calls)
	order, _ := st.w.answered(res)
	require.Len(st.t, order, stormCalls)
	told := st.w.honest(res, id)
	for code, n := range told {
		total[code] += n
	}
	tasks, acts := st.w.witness().timeouts()
	st.t.Logf("run %d: %d strikes, %d workflow tasks and %d activities lost, told %v", run, struck, tasks, acts, told)
}

// The worker is killed at random moments of a run of 20 calls, and started again, until the run has ended.
func TestKillStormOfTheWorker(t *testing.T) {
	t.Parallel()
	st := newStorm(t, stormTools)
	st.rages(3, 3, 30, 8)
}

// The server is killed under a worker that goes on.
func TestKillStormOfTheServer(t *testing.T) {
	t.Parallel()
	st := newStorm(t, stormTools)
	st.ownServer()
	st.strike = (*storm).killServer
	st.rages(2, 2, 8, 4)
}

// Worker and server are killed together.
func TestKillStormOfBoth(t *testing.T) {
	t.Parallel()
	st := newStorm(t, stormTools)
	st.ownServer()
	st.strike = (*storm).killBoth
	st.rages(2, 2, 8, 4)
}

// The worker is killed while questions are open and while their answers are on the way.
func TestKillStormWithOpenQuestions(t *testing.T) {
	t.Parallel()
	st := newStorm(t, map[string]int{"send": 12, "drop": 4, "mark": 2, "probe": 2})
	st.moment = (*storm).whileAsked
	st.rages(3, 3, 16, 8)
}
