package workflows

import (
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// failure turns the failure of an activity or a workflow of a team's own into what the model may know.
func (p *permit) failure(ctx workflow.Context, err error) tool.Result {
	r := p.facts.Remote
	cause, started := err, true
	var act *temporal.ActivityError
	var child *temporal.ChildWorkflowExecutionError
	// A workflow may have failed by an activity of its own, which is not the call.
	switch {
	case r.Kind == tool.RemoteActivity && errors.As(err, &act):
		cause, started = act.Unwrap(), act.StartedEventID() != 0
	case r.Kind == tool.RemoteWorkflow && errors.As(err, &child):
		cause = child.Unwrap()
	}
	// What lies below the cause may be of other calls, or of an earlier attempt.
	switch c := cause.(type) { //errorlint:ignore the outermost one
	case *temporal.TimeoutError:
		// An earlier attempt is the cause of a timeout that ends the last one in its queue.
		return p.late(ctx, c, started || c.Unwrap() != nil)
	case *temporal.CanceledError:
		if !started && r.Retry.MaximumAttempts == 1 {
			return tool.Deny(tool.ByCancel, "", "the call was cancelled before it started")
		}
		res := tool.Fail(tool.Aborted, "the call was cancelled while it ran")
		res.Failure.Started = true
		return res
	case *temporal.ApplicationError:
		return p.said(c)
	case *temporal.ActivityError, *temporal.ChildWorkflowExecutionError, *temporal.NexusOperationError:
		return p.step(c)
	case *temporal.PanicError:
		return tool.Fail(tool.ToolError, "it panicked: "+short(c.Error(), mostError))
	case *temporal.ServerError:
		return p.unknown("the server did not take its end: " + short(c.Error(), 500))
	case *temporal.TerminatedError:
		return p.unknown("the workflow was terminated")
	case *temporal.ChildWorkflowExecutionAlreadyStartedError:
		return p.unknown("the workflow of this call was started before, by a run that was reset")
	}
	if act == nil && child == nil {
		// It has ended well, and its value is sealed for somebody else.
		res := tool.Fail(tool.NonSerializable, "it ran, and what it returned cannot be read: "+short(err.Error(), 500))
		res.Failure.Started = true
		return res
	}
	return p.unknown("the call failed in an unknown way: " + short(cause.Error(), 500))
}

// step is the result of a workflow that failed because a step of its own did. Steps before it may have had effects, and
// this one too, unless it says itself how it ended.
func (p *permit) step(err error) tool.Result {
	var app *temporal.ApplicationError
	var late *temporal.TimeoutError
	if errors.As(err, &app) && !errors.As(err, &late) {
		res := tool.Fail(tool.ToolError, "a step of the workflow failed: "+told(app))
		res.Failure.Started = true
		return res
	}
	return p.unknown("a step of the workflow failed: " + short(err.Error(), 500))
}

// late is the result of a call that did not end in time.
func (p *permit) late(ctx workflow.Context, t *temporal.TimeoutError, started bool) tool.Result {
	r := p.facts.Remote
	times := r.Timeouts
	switch {
	case !started && p.expires != 0 && workflow.Now(ctx).Unix() > p.expires:
		return tool.Deny(tool.ByExpiry, "", "the approval expired before a worker started the call")
	case !started:
		return tool.Fail(tool.ToolError, fmt.Sprintf("no worker took %s in time, and it never started", r))
	case t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return p.unknown(fmt.Sprintf("no worker took another attempt of %s in time", r))
	case t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		return p.unknown(fmt.Sprintf("the worker that ran %s was lost, or gave no heartbeat for %s", r, times.Heartbeat))
	}
	msg := fmt.Sprintf("%s did not end in %s", r, times.StartToClose)
	if t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE {
		msg = fmt.Sprintf("%s did not end in %s with all attempts", r, times.ScheduleToClose)
	}
	if p.facts.Repeatable() {
		return tool.Fail(tool.ToolTimeout, msg)
	}
	return p.unknown(msg)
}

// plainTypes are the types of Go errors that say nothing.
var plainTypes = []string{"", "errorString", "wrapError", "wrapErrors", "joinError"}

// said is the result of a call that failed by its own account.
func (p *permit) said(app *temporal.ApplicationError) tool.Result {
	flow := p.facts.Remote.Kind == tool.RemoteWorkflow
	switch typ := app.Type(); {
	case typ == protocol.ErrorDenied:
		var r tool.Result
		refusals := []tool.Code{tool.Denied, tool.Blocked, tool.InvalidArguments, tool.EffectUnknown}
		if !detailsOf(app, &r) || !slices.Contains(refusals, r.Code) || r.Failure == nil {
			r = tool.Deny(tool.ByGrant, "", short(app.Message(), mostError))
		}
		// In a workflow, what came before it has happened.
		r.Failure.Started = r.Failure.Started || flow
		return r
	case typ == errorTooLarge:
		return p.unknown("it ran, and what it returned is larger than the server takes")
	case typ == errorNotRegistered && !flow:
		return tool.Fail(codeNeverStarted, fmt.Sprintf("a worker took %s and does not know it", p.facts.Remote))
	}
	return tool.Fail(tool.ToolError, told(app))
}

// told is what an error says of itself.
func told(app *temporal.ApplicationError) string {
	if slices.Contains(plainTypes, app.Type()) {
		return short(app.Message(), mostError)
	}
	return short(app.Message(), mostError) + " (" + short(app.Type(), 100) + ")"
}

const (
	// errorNotRegistered is what Go workers say of an activity type that they do not have.
	errorNotRegistered = "ActivityNotRegisteredError"
	// errorTooLarge is what Go workers say of a result that they did not send.
	errorTooLarge = "payloadSizeError"
)

// lostOutcome is the result of a call whose outcome no worker of the agent could take. What it returned has passed no
// listener and is not told.
func lostOutcome(out outcome) tool.Result {
	if !out.dispatched {
		return out.result
	}
	r := tool.Fail(tool.ToolError, fmt.Sprintf("the call ended with %s, and what it returned could not be received", out.result.Code))
	r.Failure.Started = true
	if out.result.Code == tool.EffectUnknown || out.result.Code == tool.Denied {
		r.Code, r.Failure.Reason = out.result.Code, out.result.Failure.Reason
	}
	return r
}

// unsent is the outcome of a call that did not leave the workflow.
func (p *permit) unsent(ctx workflow.Context, f workflow.Future) outcome {
	err := f.Get(ctx, nil)
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app) && app.Type() == protocol.ErrorDenied:
		return outcome{result: p.said(app)}
	case err == nil:
		// Somebody between the workflow and the server answered for it.
		return outcome{result: tool.Fail(tool.ToolError, "the call was kept back by an interceptor, and it never started")}
	}
	return outcome{result: tool.Fail(tool.ToolError, "the call could not be sent, and it never started: "+short(err.Error(), 500))}
}

// weigh is what the request of ReceiveResult weighs on the wire.
func (g *gate) weigh(ctx workflow.Context, req protocol.ReceiveRequest, value converter.RawValue) int {
	// Escapes take six bytes for one, and a codec takes less than twice as many.
	plain := len(value.Payload().GetData()) + 6*len(req.Call.Input) + weight(req.Result)
	if plain < mostReceived/4 {
		return plain
	}
	payloads, err := g.converter(ctx).ToPayloads(req, value)
	if err != nil && !lasting(err) {
		panic(err)
	}
	if err != nil {
		return mostReceived + 1
	}
	return payloads.Size()
}
