package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// rivals is how many answers to one question come at once.
const rivals = 64

// rival is the answer of the i-th of them: some allow, some deny, some revoke, some are malformed, some name another key.
func rival(i int, key string) string {
	object := func(members string) string { return fmt.Sprintf(`{"key":%q,"by":"p%d"%s}`, key, i, members) }
	switch i % 8 {
	case 0, 1:
		return object(`,"decision":"allow"`)
	case 2:
		return object(`,"decision":"deny"`)
	case 3:
		return object(`,"decision":"revoke"`)
	case 4:
		return object(`,"decision":"yes"`)
	case 5:
		return object(`,"decision":"allow","reason":7`)
	case 6:
		return fmt.Sprintf("%q", object(`,"decision":"allow"`))
	}
	return fmt.Sprintf(`{"key":"nothing-00000000","by":"p%d","decision":"allow"}`, i)
}

// apart makes a worker poll its own queue and the one of the runs that it has in its cache with pollers of their own. The
// SDK's two pollers both turn to the latter while it has a backlog, and the former is not polled for a minute.
var apart = sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{})

// rivalled are runs that ask twice, one after the other, so that the run still goes on when the first question is closed.
// work starts a worker for them.
var rivalled = map[string]func(*testing.T) (a *asker, work func() sdkworker.Worker){
	"agent": func(t *testing.T) (*asker, func() sdkworker.Worker) {
		w := newWorld(t)
		w.start(protocol.AgentInput{})
		return &asker{world: w, signal: protocol.SignalApproval, update: protocol.UpdateResolve, query: protocol.QueryApprovals,
				codes: func() []string { return w.codes(w.result()) }}, func() sdkworker.Worker {
				p, done, err := plugin(askingWith("\nturns:\n  - calls: [{tool: run, args: {text: a}}]\n  - calls: [{tool: run, args: {text: b}}]\n  - say: done\n"), w.c, w.effects, w.blobs)
				require.NoError(t, err)
				t.Cleanup(done)
				o := options(p)
				o.WorkflowTaskPollerBehavior = apart
				wk := sdkworker.New(w.c, w.queue, o)
				require.NoError(t, wk.Start())
				t.Cleanup(wk.Stop)
				return wk
			}
	},
	"guarded workflow": func(t *testing.T) (*asker, func() sdkworker.Worker) {
		m := newTeam(t)
		m.worker.WorkflowTaskPollerBehavior = apart
		m.ship(order{Service: "a"}, order{Service: "b"})
		return &asker{world: m.world, signal: protocol.GuardSignalApproval, update: protocol.GuardUpdateResolve, query: protocol.GuardQueryApprovals,
			codes: m.shipped}, m.work
	},
}

// Rival answers from everywhere, in every form: exactly one closes the question, its call runs at most once, and everybody
// else is told at once or named in the list, with the reason.
func TestRivalAnswers(t *testing.T) {
	t.Parallel()
	for kind, start := range rivalled {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, work := start(t)
			work()
			key := a.open(1)[0].Key
			var mu sync.Mutex
			told := map[string]bool{}
			var wg sync.WaitGroup
			room := make(chan struct{}, 8) // a server takes ten updates of a run at a time
			for i := range rivals {
				wg.Go(func() {
					answer := rival(i, key)
					if i/8%2 == 0 {
						assert.NoError(t, a.c.SignalWorkflow(context.Background(), a.id, "", a.signal, plainly(answer)))
						return
					}
					room <- struct{}{}
					defer func() { <-room }()
					switch err := a.resolve(plainly(answer)); {
					case errors.As(err, new(*temporal.ApplicationError)):
						mu.Lock()
						told[fmt.Sprint("p", i)] = true
						mu.Unlock()
					case err != nil:
						t.Errorf("%s: %v", answer, err)
					}
				})
			}
			wg.Wait()
			a.settled(key, told)
			require.NotEmpty(t, told)
		})
	}
}

// The same while no worker runs: all of them are in one workflow task, and the first that the server has is the one that
// counts.
func TestRivalAnswersWithoutAWorker(t *testing.T) {
	t.Parallel()
	for kind, start := range rivalled {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, work := start(t)
			wk := work()
			key := a.open(1)[0].Key
			wk.Stop()
			var wg sync.WaitGroup
			for i := range rivals {
				wg.Go(func() {
					assert.NoError(t, a.c.SignalWorkflow(context.Background(), a.id, "", a.signal, plainly(rival(i, key))))
				})
			}
			wg.Wait()
			work()
			closed := a.settled(key, nil)
			first := ""
			for _, e := range a.history() {
				s := e.GetWorkflowExecutionSignaledEventAttributes()
				if s == nil {
					if first != "" && e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED {
						break
					}
					continue
				}
				data := string(s.GetInput().GetPayloads()[0].GetData())
				if first == "" && strings.Contains(data, key) {
					_, rest, _ := strings.Cut(strings.ReplaceAll(data, `\`, ""), `"by":"`)
					first, _, _ = strings.Cut(rest, `"`)
				}
			}
			require.Equal(t, first, closed.By)
		})
	}
}

// settled waits until everybody has been heard, ends the run, and checks what became of the question of key.
func (a *asker) settled(key string, told map[string]bool) approval.Closed {
	a.t.Helper()
	names := func(l approval.List) map[string]bool {
		heard := map[string]bool{}
		for who := range told {
			heard[who] = true
		}
		for _, c := range l.Closed {
			heard[c.By] = true
			if c.Revoked != nil {
				heard[c.Revoked.By] = true
			}
		}
		for _, i := range l.Ignored {
			heard[i.By] = true
		}
		return heard
	}
	l := a.until(func(l approval.List) bool {
		return len(names(l)) == rivals && len(l.Pending) == 1 && len(l.Granted) == 0
	})
	for _, i := range l.Ignored {
		require.NotEmpty(a.t, i.Why, i.By)
	}
	require.Len(a.t, l.Closed, 1)
	c := l.Closed[0]
	require.Equal(a.t, key, c.Key)
	heard := 1 + len(told) + len(l.Ignored)
	if c.Revoked != nil {
		heard++
	}
	require.Equal(a.t, rivals, heard, "each once")
	a.say(fmt.Sprintf(`{"key":%q,"decision":"deny","by":"the end"}`, l.Pending[0].Key))
	codes := a.codes()
	ran := len(a.ran())
	switch {
	case c.How == approval.Allowed && c.Revoked == nil:
		require.Equal(a.t, 1, ran)
		require.NotContains(a.t, codes[0], "DENIED")
	case c.How == approval.Allowed:
		require.LessOrEqual(a.t, ran, 1)
	case c.How == approval.Revoked:
		require.Equal(a.t, "DENIED/revoked", codes[0])
		require.Zero(a.t, ran)
	default:
		require.Equal(a.t, approval.Denied, c.How)
		require.Equal(a.t, "DENIED/person", codes[0])
		require.Zero(a.t, ran)
	}
	require.Empty(a.t, a.failedTasks())
	return c
}
