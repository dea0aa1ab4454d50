package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
)

// Worker and server are killed while a question is open, and started again. A plain signal lets the agent go on:
// the tool runs once, no turn is generated twice.
func TestSuspensionSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "temporal.db")
	boot := func() *devserver.Server {
		s, err := devserver.Start(context.Background(), devserver.StartOptions{Binary: devservertest.Binary(t), DBFile: db})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
		return s
	}
	server := boot()
	w := newWorldAt(t, dial(t, server.Address()), dir)
	s := askingWith(`
turns:
  - calls: [{tool: look, args: {text: first}}]
  - calls: [{tool: run, args: {text: a}}]
  - say: done
`)
	p := w.spawn(s, server.Address())
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	p.kill(t)
	require.NoError(t, server.Kill())

	server = boot()
	w.c = dial(t, server.Address())
	w.spawn(s, server.Address())
	require.Equal(t, key, w.pending(1)[0].Key)
	w.answer(key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"look first", "run a"}, w.ran())
	require.Equal(t, 3, w.scheduled(protocol.ActivityGenerate), "no turn was generated twice")
}

// scheduled counts activities of a type.
func (w *world) scheduled(activityType string) int {
	n := 0
	for _, e := range w.history() {
		if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == activityType {
			n++
		}
	}
	return n
}

// A worker that is killed in the middle of a tool leaves exactly one execution and a result that says so.
func TestKillInTheMiddleOfATool(t *testing.T) {
	t.Parallel()
	server := devservertest.Server(t)
	w := newWorld(t)
	s := setup{Keys: true, Script: `
turns:
  - calls: [{tool: hold, args: {text: a}}]
  - say: done
`}
	p := w.spawn(s, server.Address())
	w.start(protocol.AgentInput{})
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	p.kill(t)
	w.spawn(s, server.Address())
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"EFFECT_UNKNOWN"}, w.codes(res))
	require.Equal(t, []string{"hold a"}, w.ran())
}

// Cancelling the run reaches a tool that is running.
func TestCancelReachesARunningTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Keys: true, Script: `
turns:
  - calls: [{tool: hold, args: {text: a}}]
  - say: done
`})
	w.start(protocol.AgentInput{})
	require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	res := w.result()
	require.Equal(t, protocol.Cancelled, res.Status)
	var done string
	for _, e := range w.history() {
		if a := e.GetActivityTaskCompletedEventAttributes(); a != nil && len(a.GetResult().GetPayloads()) > 0 {
			done = string(a.GetResult().GetPayloads()[0].GetData())
		}
	}
	require.Contains(t, done, "ABORTED")
}

// Every tool call in history has its recorded decision, and an allow, before its ActivityTaskScheduled.
func TestDecisionsComeBeforeCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(`
turns:
  - calls: [{tool: look, args: {text: a}}, {tool: note, args: {text: b}}, {tool: run, args: {text: c}}]
  - calls: [{tool: run, args: {text: d}}]
  - say: done
`))
	run := w.start(protocol.AgentInput{}).GetRunID()
	w.answer(w.pending(1)[0].Key, approval.Allow)
	require.Eventually(t, func() bool { l, err := w.list(); return err == nil && len(l.Closed) == 1 && len(l.Pending) == 1 }, patience, tick)
	w.answer(w.pending(1)[0].Key, approval.Allow)
	require.Equal(t, protocol.OK, w.result().Status)
	decided, calls := map[string]bool{}, 0
	for _, e := range w.history() {
		if e.EventType == enumspb.EVENT_TYPE_MARKER_RECORDED {
			d := e.GetMarkerRecordedEventAttributes().GetDetails()
			for _, p := range d["result"].GetPayloads() {
				data := string(p.GetData())
				for _, id := range []string{"t1.1", "t1.2", "t1.3", "t2.1"} {
					if strings.Contains(data, `"callId":"`+id+`"`) {
						decided[id] = true
					}
				}
			}
		}
		a := e.GetActivityTaskScheduledEventAttributes()
		if strings.HasPrefix(a.GetActivityType().GetName(), protocol.ToolPrefix) {
			calls++
			require.True(t, decided[a.GetActivityId()], "call %s has its decision first", a.GetActivityId())
			require.NotNil(t, a.GetHeader().GetFields()[protocol.HeaderGrant])
			require.Contains(t, string(a.GetInput().GetPayloads()[0].GetData()), `"agent":{"runId":"`+run+`"`,
				"with the call's id it makes the idempotency key, which no other run has")
		}
	}
	require.Equal(t, 4, calls)
}
