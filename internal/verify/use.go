package verify

import (
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

var sprintf = fmt.Sprintf

// way is how a call leaves its workflow.
type way string

const (
	byActivity way = "activity"
	byLocal    way = "local activity"
	byChild    way = "child workflow"
	byNexus    way = "Nexus operation"
)

// use is one scheduled activity, local activity, child workflow or operation that may be a tool.
type use struct {
	way   way
	event int64
	at    time.Time
	id    string
	typ   string
	// header says that there is a grant; grant is nil if it cannot be read.
	header bool
	grant  *protocol.Grant
	args   *commonpb.Payloads
	// elsewhere says where payloads of the event are if they were offloaded.
	elsewhere string
	// call is the argument of a tool's activity, nil if it cannot be read.
	call *tool.Call
	// retried says that a local activity will be tried again, by the same permission.
	retried bool

	// begun is when the last attempt began; zero if none did, or while the history does not show it.
	begun   time.Time
	attempt int32
	// ended is the event of the end, 0 while there is none.
	ended  int64
	end    ending
	result *tool.Result
	// denied says that the end is an assent.Denied, unknown that the worker did not know the type.
	denied, unknown bool
	// idle says that the activity never began: no attempt was started, or no worker put down that it begins.
	idle bool
}

type ending string

const (
	completed ending = "completed"
	failed    ending = "failed"
	timedOut  ending = "timed out"
	canceled  ending = "canceled"
)

// own reports whether a worker of ours ran it as a tool of an agent.
func (u *use) own() bool { return protocol.IsTool(u.typ) }

// refused reports whether a worker of ours said that it did not let it run.
func (u *use) refused() bool { return u.denied && u.way == byActivity }

// idled reports whether it has ended and never ran, so that the same call may be scheduled again.
func (u *use) idled() bool {
	if u.ended == 0 {
		return false
	}
	return u.idle || u.unknown || u.refused() || u.result != nil && u.result.Code == tool.ContractDrift
}

// ran reports whether a worker of ours let it run to its end.
func (u *use) ran() bool {
	if u.end != completed {
		return false
	}
	if u.result == nil {
		return true
	}
	switch u.result.Code {
	case tool.ContractDrift, tool.EffectUnknown, tool.EnvironmentLost:
		return false
	case tool.Aborted:
		return u.result.Failure != nil && u.result.Failure.Started
	}
	return true
}

// dispatch reads what leaves the workflow, and how it comes back. It reports whether the event was about that.
func (r *record) dispatch(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		r.activity(e)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		if s := r.scheduled[a.GetScheduledEventId()]; s != nil && s.use != nil {
			s.use.begun, s.use.attempt = e.GetEventTime().AsTime(), a.GetAttempt()
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := e.GetActivityTaskCompletedEventAttributes()
		r.end(e, a.GetScheduledEventId(), completed, a.GetResult(), nil)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		r.end(e, a.GetScheduledEventId(), failed, nil, a.GetFailure())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		r.end(e, a.GetScheduledEventId(), timedOut, nil, a.GetFailure())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		r.end(e, e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId(), canceled, nil, nil)
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
		u := r.use(e, byChild, a.GetWorkflowId(), a.GetWorkflowType().GetName())
		u.args = a.GetInput()
		r.header(u, a.GetHeader())
	case enumspb.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED:
		a := e.GetNexusOperationScheduledEventAttributes()
		u := r.use(e, byNexus, "", a.GetService()+"/"+a.GetOperation())
		u.args = &commonpb.Payloads{Payloads: []*commonpb.Payload{a.GetInput()}}
	default:
		return false
	}
	return true
}

// use notes that something left the workflow. Whether it is a tool is known when all is read.
func (r *record) use(e *historypb.HistoryEvent, w way, id, typ string) *use {
	u := &use{way: w, event: e.GetEventId(), at: e.GetEventTime().AsTime(), id: id, typ: typ, elsewhere: elsewhere(e)}
	r.uses = append(r.uses, u)
	return u
}

// local notes a local activity. Its marker is written when it has ended, without its arguments.
func (r *record) local(e *historypb.HistoryEvent, typ string, retried bool) {
	u := r.use(e, byLocal, "", typ)
	u.retried, u.ended, u.end = retried, u.event, completed
}

func (r *record) header(u *use, h *commonpb.Header) {
	p := h.GetFields()[protocol.HeaderGrant]
	if u.header = p != nil; !u.header {
		return
	}
	// It is never encrypted.
	var g protocol.Grant
	if converter.GetDefaultDataConverter().FromPayload(p, &g) == nil {
		u.grant = &g
	}
}

// engine are the activities of the engine itself.
var engine = map[string]bool{
	protocol.ActivityDecideSlow: true, protocol.ActivityAdmitSlow: true, protocol.ActivityResolveToolset: true, protocol.ActivityResolveRef: true,
	protocol.ActivityGenerate: true, protocol.ActivityAcquireWorktree: true, protocol.ActivityCollectWorktree: true,
	protocol.ActivityDisposeWorktree: true, protocol.ActivityObserve: true, protocol.ActivityReceiveResult: true,
	protocol.ActivityAskApprover: true, protocol.ActivityJoinAgent: true, protocol.ActivityForwardAnswer: true,
}

func (r *record) activity(e *historypb.HistoryEvent) {
	a := e.GetActivityTaskScheduledEventAttributes()
	s := &scheduled{kind: a.GetActivityType().GetName()}
	r.scheduled[e.GetEventId()] = s
	switch s.kind {
	case protocol.ActivityGenerate:
		var req protocol.GenerateRequest
		if r.decode(a.GetInput(), &req); req.Close {
			break
		}
		s.turn = req.Turn
		r.tally.turns = max(r.tally.turns, req.Turn)
	case protocol.ActivityResolveRef:
		r.tally.pin(r.state)
	case protocol.ActivityDecideSlow:
		s.decide = &protocol.DecideRequest{}
		r.decode(a.GetInput(), s.decide)
	case protocol.ActivityAdmitSlow:
		var req protocol.AdmitRequest
		r.decode(a.GetInput(), &req)
		s.key = req.Question.Key
	case protocol.ActivityReceiveResult:
		var req protocol.ReceiveRequest
		r.decode(a.GetInput(), &req)
		s.key, s.lent = req.Call.ID, req.LentUSD
	case protocol.ActivityAskApprover:
		var req protocol.ApproverRequest
		r.decode(a.GetInput(), &req)
		s.key = req.Question.Key
	}
	if engine[s.kind] {
		return
	}
	u := r.use(e, byActivity, a.GetActivityId(), s.kind)
	u.args, s.use = a.GetInput(), u
	r.header(u, a.GetHeader())
	var call tool.Call
	if u.own() && r.decode(a.GetInput(), &call) {
		call = protocol.Received(call, u.typ, u.id)
		if u.call = &call; u.grant != nil && call.Agent != nil {
			// The contract that is meant is held against the frozen one where the call is judged.
			known := call
			known.ContractHash = ""
			*u.grant = u.grant.Full(protocol.Known(known, ""))
		}
	}
}

// end reads how an activity ended.
func (r *record) end(e *historypb.HistoryEvent, id int64, how ending, result *commonpb.Payloads, f *failurepb.Failure) {
	s := r.scheduled[id]
	if s == nil {
		r.find(Finding{Kind: Incomplete, EventID: e.GetEventId(), Why: sprintf("an activity ended that event %d does not schedule, or that had ended before", id)})
		return
	}
	delete(r.scheduled, id)
	unread := func(what string) {
		r.unread(e, what)
	}
	switch {
	case s.use != nil:
		r.ending(s.use, e, how, result, f)
	case s.kind == protocol.ActivityReceiveResult:
		r.receives(s, how, result)
	case how != completed:
	case s.kind == protocol.ActivityAskApprover:
		var resp protocol.ApproverResponse
		if r.decode(result, &resp) && !resp.Unavailable {
			r.answers[s.key] = append(r.answers[s.key], answer{Resolution: approval.Resolution{Key: s.key, Decision: resp.Decision, By: resp.By, Reason: resp.Reason},
				event: e.GetEventId(), approver: true})
		}
	case s.kind == protocol.ActivityDecideSlow:
		if !r.decided(e.GetEventId(), result, s.decide) {
			unread("the recorded decision")
		}
	case s.kind == protocol.ActivityAdmitSlow:
		if !r.admitted(e.GetEventId(), result, s.key) {
			unread("the recorded admission of an answer")
		}
	case s.kind == protocol.ActivityGenerate:
		var resp protocol.GenerateResponse
		if r.decode(result, &resp) && s.turn > 0 {
			r.turns[s.turn] = resp.Calls
			r.generated(resp)
		}
	case s.kind == protocol.ActivityResolveRef:
		var resp protocol.RefResponse
		if r.decode(result, &resp) {
			r.tally.queue = resp.HostQueue
		}
	case s.kind == protocol.ActivityAcquireWorktree:
		var lease worktree.Lease
		if r.decode(result, &lease) {
			r.tally.lease = &lease
		}
	case s.kind == protocol.ActivityResolveToolset && r.frozen == nil:
		var resp protocol.ResolveResponse
		if !r.decode(result, &resp) {
			unread("the frozen toolset")
			return
		}
		r.frozen, r.under = &resp, resp.Under
		for _, t := range resp.Tools {
			r.facts[t.Name] = t
		}
	}
}

func (r *record) ending(u *use, e *historypb.HistoryEvent, how ending, result *commonpb.Payloads, f *failurepb.Failure) {
	u.ended, u.end = e.GetEventId(), how
	app := f.GetApplicationFailureInfo()
	u.denied = how == failed && app.GetType() == protocol.ErrorDenied
	u.unknown = how == failed && app.GetType() == "ActivityNotRegisteredError"
	if u.own() && how == completed {
		u.result = &tool.Result{}
		r.decode(result, u.result)
	}
	late := f.GetTimeoutFailureInfo()
	u.idle = (how == timedOut || how == canceled) && u.begun.IsZero() && f.GetCause() == nil
	switch {
	case how != timedOut:
	case late.GetTimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		u.idle = u.idle || u.own()
	case late.GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT && u.own():
		// A worker of ours puts down that a call begins, if it must not run twice.
		u.idle = u.idle || len(late.GetLastHeartbeatDetails().GetPayloads()) == 0
	}
}
