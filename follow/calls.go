package follow

import (
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// activity notes an activity that was scheduled; for a tool that is its start.
func (r *Reader) activity(a *historypb.ActivityTaskScheduledEventAttributes) {
	s := &scheduled{kind: a.GetActivityType().GetName(), activityID: a.GetActivityId(), once: a.GetRetryPolicy().GetMaximumAttempts() == 1}
	switch s.kind {
	case protocol.ActivityGenerate:
		var req protocol.GenerateRequest
		if r.decode(a.GetInput(), &req); req.Close {
			return
		}
		s.turn = req.Turn
	case protocol.ActivityResolveRef:
		s.tree = Pinned
		var req protocol.RefRequest
		if r.decode(a.GetInput(), &req); req.Restart > 0 {
			r.tell(Event{Kind: AgentRestart, Restart: &Restart{Number: req.Restart, Lost: req.Lost}})
		}
	case protocol.ActivityAcquireWorktree:
		s.tree = Acquired
	case protocol.ActivityCollectWorktree:
		s.tree = Collected
	case protocol.ActivityDisposeWorktree:
		s.tree = Disposed
	case protocol.ActivityResolveToolset, protocol.ActivityDecideSlow, protocol.ActivityJoinAgent, protocol.ActivityForwardAnswer:
	case protocol.ActivityAdmitSlow:
		var req protocol.AdmitRequest
		r.decode(a.GetInput(), &req)
		s.key = req.Question.Key
	case protocol.ActivityAskApprover:
		var req protocol.ApproverRequest
		r.decode(a.GetInput(), &req)
		s.key = req.Question.Key
	case protocol.ActivityReceiveResult:
		if s.received = r.receiving(a); s.received == nil {
			return
		}
	default:
		if s.call = r.call(a); s.call == nil {
			return
		}
		if r.agent && !protocol.IsTool(s.kind) {
			r.abroad(s.call)
			return
		}
		s.host = r.agent && a.GetTaskQueue().GetName() != r.queue
		start := *s.call
		r.sent(start.CallID)
		r.tell(Event{Kind: ToolStart, Tool: &start})
	}
	r.scheduled[r.now.GetEventId()] = s
}

// call describes a tool's activity, or returns nil for an activity that is none.
func (r *Reader) call(a *historypb.ActivityTaskScheduledEventAttributes) *Call {
	c := &Call{ActivityID: a.GetActivityId(), CallID: a.GetActivityId(), Tool: a.GetActivityType().GetName()}
	if protocol.IsTool(c.Tool) {
		c.Tool = strings.TrimPrefix(c.Tool, protocol.ToolPrefix)
		var call tool.Call
		if r.decode(a.GetInput(), &call) {
			call = protocol.Received(call, a.GetActivityType().GetName(), a.GetActivityId())
			if call.Name != "" {
				c.Tool = call.Name
			}
			c.CallID, c.Input, c.InputRef, c.Approved = call.ID, call.Input, call.InputRef, call.Approved
		}
	} else {
		// Every other tool is an activity that was decided on.
		c.CallID, _, _ = strings.Cut(c.CallID, "~")
		d, ok := r.decided[c.CallID]
		switch {
		case !ok:
			return nil
		case r.agent:
			c.Tool, c.Input = d.Tool, r.arguments(a.GetInput())
		default:
			c.Input = r.raw(a.GetInput())
		}
	}
	r.verdict(c)
	return c
}

// verdict adds what was decided on a call.
func (r *Reader) verdict(c *Call) {
	if d, ok := r.decided[c.CallID]; ok {
		c.Verdict, c.DecidedBy, c.Rule, c.Advisories = d.Decision.Verdict, d.Decision.DecidedBy, d.Decision.Rule, d.Decision.Advisories
	}
}

// activityEnd tells how an activity ended; failed is empty if it completed.
func (r *Reader) activityEnd(id int64, result *commonpb.Payloads, failed string) {
	s := r.scheduled[id]
	if s == nil {
		return
	}
	delete(r.scheduled, id)
	switch {
	case s.call != nil:
		r.toolEnd(s, result, failed)
	case s.received != nil:
		r.received(s.received, result, failed)
	case s.tree != "":
		r.tree(s.tree, result, failed)
	case s.kind == protocol.ActivityGenerate:
		r.generated(s, result, failed)
	case s.kind == protocol.ActivityDecideSlow:
		var d protocol.DecideResponse
		if failed == "" && r.decode(result, &d) {
			r.decision(d)
		}
	case s.kind == protocol.ActivityAdmitSlow:
		r.admitted(s.key, result, failed)
	case s.kind == protocol.ActivityAskApprover:
		r.consulted(s.key, result, failed)
	case s.kind == protocol.ActivityResolveToolset && failed == "":
		var resp protocol.ResolveResponse
		if r.decode(result, &resp) {
			r.frozen(resp)
		}
	}
}

// lostHost notes a call that failed because the environment in which it was to run is gone: what nobody answered closes.
func (r *Reader) lostHost(id int64, f *failurepb.Failure) {
	away := f.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
	if s := r.scheduled[id]; s != nil && s.host && (away || f.GetApplicationFailureInfo().GetType() == protocol.ErrorGone) {
		r.dropped = &approval.Closed{How: approval.Abandoned, Reason: environmentLost, Via: viaWorkflow}
	}
}

const environmentLost = "the agent's environment was lost"

// cancelled stands for the error of an activity that was cancelled.
const cancelled = "cancelled"

func (r *Reader) toolEnd(s *scheduled, result *commonpb.Payloads, failed string) {
	c := s.call
	var res tool.Result
	switch {
	case failed != "":
		c.Error = failed
	case protocol.IsTool(s.kind) && r.decode(result, &res):
		c.Result = &res
	default:
		c.Result = &tool.Result{Code: tool.OK, Value: r.raw(result)}
	}
	if !s.started.IsZero() {
		c.Took = r.now.GetEventTime().AsTime().Sub(s.started)
	}
	r.callEnded(c, s)
	r.tell(Event{Kind: ToolEnd, Tool: c})
	if c.Result != nil && c.Result.Code == tool.EnvironmentLost {
		r.dropped = &approval.Closed{How: approval.Abandoned, Reason: environmentLost, Via: viaWorkflow}
	}
}

func (r *Reader) generated(s *scheduled, result *commonpb.Payloads, failed string) {
	// The results of all calls before have gone to the model.
	r.allEnded()
	t := TurnOf{Number: s.turn, Error: failed, Calls: []protocol.Requested{}}
	if !s.started.IsZero() {
		t.Took = r.now.GetEventTime().AsTime().Sub(s.started)
	}
	var resp protocol.GenerateResponse
	if failed == "" && r.decode(result, &resp) {
		t.Model, t.Text, t.Dropped, t.Stop, t.Usage, t.CostUSD = resp.Model, resp.Text, resp.Dropped, resp.Stop, resp.Usage, resp.CostUSD
		t.Unpriced, t.Compacted, t.OverBudget, t.Transcript = resp.Unpriced, resp.Compacted, resp.OverBudget, resp.Transcript
		t.Calls = append(t.Calls, resp.Calls...)
	}
	r.turn = t
	r.tell(Event{Kind: Turn, Turn: &t})
}

func (r *Reader) tree(phase string, result *commonpb.Payloads, failed string) {
	t := &Tree{Phase: phase, Error: failed}
	if failed == "" {
		switch phase {
		case Pinned:
			var resp protocol.RefResponse
			if r.decode(result, &resp) {
				t.Resolved = &resp.Resolved
			}
		case Acquired:
			var lease worktree.Lease
			if r.decode(result, &lease) {
				t.Dir, t.Resolved = lease.Dir, &lease.Resolved
			}
		case Collected:
			var a protocol.Artifact
			if r.decode(result, &a) {
				t.Artifact = &a
			}
		case Disposed:
			var resp protocol.DisposeResponse
			if r.decode(result, &resp) {
				t.Retained = resp.Retained
			}
		}
	}
	r.tell(Event{Kind: Worktree, Worktree: t})
}
