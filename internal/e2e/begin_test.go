package e2e

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
)

// ids are the activity ids under which a tool was scheduled.
func (w *world) ids(activityType string) []string {
	w.t.Helper()
	var out []string
	for _, e := range w.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activityType {
			out = append(out, a.ActivityId)
		}
	}
	return out
}

// An approved call whose worker took the task and was gone before it began, as a worker that stops on an older server
// now and then is, runs once all the same: nothing is lost in a deployment.
func TestACallThatIsLostOnItsWayStillRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := askingWith(oneAsk)
	first := w.work(s)
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	first.Stop()

	p, done, err := plugin(s, w.c, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	o := options(p)
	o.LocalActivityWorkerOnly = true
	deciding := sdkworker.New(w.c, w.queue, o)
	require.NoError(t, deciding.Start())
	t.Cleanup(deciding.Stop)
	w.answer(key, approval.Allow)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	task, err := w.c.WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
		Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: w.queue}, Identity: "gone"})
	require.NoError(t, err)
	require.Equal(t, "tool.run", task.GetActivityType().GetName())
	w.work(s)

	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.Equal(t, []string{"run a"}, w.ran())
	require.Equal(t, []string{"t1.1", "t1.1~2"}, w.ids("tool.run"))
	lost := 0
	for _, e := range w.history() {
		if a := e.GetActivityTaskTimedOutEventAttributes(); a != nil {
			lost++
			require.Equal(t, enumspb.TIMEOUT_TYPE_HEARTBEAT, a.GetFailure().GetTimeoutFailureInfo().GetTimeoutType())
		}
	}
	require.Equal(t, 1, lost)
	w.sound()
}

// A worker that cannot put down that a call begins does not run it, whether the server heard it or not.
func TestACallThatCannotBeMarkedDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]bool{"not heard": false, "heard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var failed atomic.Int32
			fail := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if !strings.HasSuffix(method, "/RecordActivityTaskHeartbeat") || failed.Add(1) > 1 {
					return next(ctx, method, req, reply, cc, opts...)
				}
				if heard {
					if err := next(ctx, method, req, reply, cc, opts...); err != nil {
						return err
					}
				}
				assert.Empty(t, w.ran(), "it has not begun")
				return status.Error(codes.PermissionDenied, "no heartbeats today")
			}
			c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, Logger: sdklog.NewStructuredLogger(logger()),
				ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(fail)}}})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			w.c = c
			w.work(setup{Keys: true, Script: `
turns:
  - calls: [{tool: note, args: {text: a}}]
  - say: done
`})
			w.start(protocol.AgentInput{})
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{"OK"}, w.codes(res))
			require.Equal(t, []string{"note a"}, w.ran())
			// A machine that is very busy may lose the next one too.
			require.Equal(t, []string{"t1.1", "t1.1~2"}, w.ids("tool.note")[:2])
			w.sound()
		})
	}
}

// An operator may end an activity with any value, and the model is told nothing that was not said.
func TestACallThatIsEndedByHand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value any
		code  string
	}{
		"a result": {map[string]any{"code": "OK", "value": 1}, "OK"}, "another value": {map[string]any{"done": true}, "EFFECT_UNKNOWN"}, "nothing": {nil, "EFFECT_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(setup{Keys: true, Script: script("{tool: hold, args: {text: a}}")})
			w.start(protocol.AgentInput{})
			require.Eventually(t, func() bool { return len(w.ran()) == 1 }, patience, tick)
			require.NoError(t, w.c.CompleteActivityByID(context.Background(), "default", w.id, "", "t1.1", c.value, nil))
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{c.code}, w.codes(res))
		})
	}
}

// A decision that is lost with its worker, or cut short because the worker stops, is made by the next one. It denies
// nothing.
func TestADecisionThatIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*process, testing.TB){"killed": (*process).kill, "stopped": (*process).term} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := setup{Keys: true, Build: &build{Ponder: true}, Script: `
turns:
  - calls: [{tool: mark, args: {text: a}}]
  - say: done
`}
			address := devservertest.Server(t).Address()
			p := w.spawn(s, address)
			run := w.start(protocol.AgentInput{}).GetRunID()
			require.Eventually(t, func() bool { _, err := os.Stat(w.effects + ".asked"); return err == nil }, patience, tick)
			stop(p, t)
			require.NoError(t, appendLine(w.effects+".go", "go"))
			w.spawn(s, address)
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{"OK"}, w.codes(res))
			require.Len(t, w.written(run), 1)
			w.sound()
		})
	}
}
