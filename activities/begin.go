package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// begin puts down with the server that a call which must not run twice begins now. An attempt that is lost without this
// mark never ran: it went to a worker that was just stopping, or died with its task in hand, and the workflow schedules
// the call again. Whoever cannot put the mark down runs nothing. A result ends the call, or gives it back.
//
// One more request for each such call is the price.
func begin(ctx context.Context, repeatable bool) (context.Context, *tool.Result) {
	if repeatable {
		return ctx, nil
	}
	if activity.HasHeartbeatDetails(ctx) || activity.GetInfo(ctx).Attempt > 1 {
		// An operator has reset the activity, or made it run again in another way. Or the tool could be repeated on the worker
		// that had the attempt before: that one put nothing down.
		r := tool.Fail(tool.EffectUnknown, "the call began before and was started a second time; it may have had its effect, check before trying again")
		r.Failure.Started = true
		return ctx, &r
	}
	switch err := mark(ctx); {
	case err == nil:
		return context.WithValue(ctx, begunKey{}, true), nil
	case temporal.IsCanceledError(err):
		r := tool.Fail(tool.Aborted, "the call was cancelled before it began")
		return ctx, &r
	default:
		r := tool.Fail(tool.ContractDrift, "this worker could not put down that the call begins, and did not run it: "+cut(err.Error(), 500))
		return ctx, &r
	}
}

// frozenRepeatable reports whether the call was sent as one that may be run again. The workflow takes an attempt of any other
// that was lost without its mark for one that never ran, whatever its tool promises now.
func frozenRepeatable(ctx context.Context) bool {
	p := activity.GetInfo(ctx).RetryPolicy
	return p == nil || p.MaximumAttempts != 1
}

// mark returns once the server has the mark. A heartbeat of the SDK's would do it too, and would not say whether it
// could.
func mark(ctx context.Context) error {
	if err := report(ctx, protocol.Begun); err != nil {
		return err
	}
	return ctx.Err()
}

// report is a heartbeat that is sent at once, and says what the server answered. A codec that panics has sent nothing: on a
// goroutine of ours nobody else would recover that, and the worker would be gone.
func report(ctx context.Context, details ...any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("report life: panic: %v", p)
		}
	}()
	info := activity.GetInfo(ctx)
	if info.Namespace == testNamespace {
		activity.RecordHeartbeat(ctx, details...)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(info.HeartbeatTimeout, minMark))
	defer cancel()
	// A codec that binds what it encodes to its place is told of the one where the next attempt decodes it.
	o := client.RecordActivityHeartbeatOptions{TaskToken: info.TaskToken, Details: details, Namespace: info.Namespace,
		WorkflowID: info.WorkflowExecution.ID, ActivityType: info.ActivityType.Name, TaskQueue: info.TaskQueue}
	if info.WorkflowType != nil {
		o.WorkflowType = info.WorkflowType.Name
	}
	return activity.GetClient(ctx).RecordActivityHeartbeatWithOptions(ctx, o)
}

// alive reports life for a call that has not begun, until stop returns. It does so past the SDK, which would send a heartbeat
// late, after the mark, and take that away; stop waits for one that is on its way, for the same reason. The context ends when
// the call is cancelled.
func alive(ctx context.Context) (waiting context.Context, stop func()) {
	waiting, cancel := context.WithCancel(ctx)
	every := activity.GetInfo(ctx).HeartbeatTimeout / 4
	if every <= 0 {
		return waiting, cancel
	}
	var details []any
	if activity.HasHeartbeatDetails(ctx) {
		// An attempt before this one has begun.
		details = []any{protocol.Begun}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-waiting.Done():
				return
			case <-t.C:
				if err := report(ctx, details...); temporal.IsCanceledError(err) {
					cancel()
				}
			}
		}
	}()
	return waiting, func() { cancel(); <-ended }
}

// testNamespace is that of the SDK's test environments, whose client has no server.
const testNamespace = "default-test-namespace"

// minMark bounds the mark of an activity without a heartbeat timeout, which is none of ours.
const minMark = 10 * time.Second

type begunKey struct{}

// outbound keeps the mark of a call that has begun in every heartbeat, also in those of the tool itself: the server
// keeps the details of the last one only.
type outbound struct {
	interceptor.ActivityOutboundInterceptorBase
}

// Init puts ours round the heartbeats of the activity.
func (i *inbound) Init(next interceptor.ActivityOutboundInterceptor) error {
	o := &outbound{}
	o.Next = next
	return i.Next.Init(o)
}

// RecordHeartbeat adds the mark to a heartbeat that would take it away.
func (o *outbound) RecordHeartbeat(ctx context.Context, details ...any) {
	if ctx.Value(begunKey{}) != nil && (len(details) == 0 || len(details) == 1 && details[0] == nil) {
		details = []any{protocol.Begun}
	}
	o.Next.RecordHeartbeat(ctx, details...)
}
