package follow

import (
	"maps"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// takeOver takes over what the run before has left, as an agent's workflow does: only the server says that there was one.
// A question that the reader knows is the same one as before; any other was not told of yet.
func (r *Reader) takeOver(a *historypb.WorkflowExecutionStartedEventAttributes, start *Started) {
	r.stands = ""
	if a.GetContinuedExecutionRunId() == "" || a.GetCronSchedule() != "" || a.GetAttempt() > 1 {
		r.ledger, r.open = approval.NewLedger(), map[string]*waiting{}
		r.forget(nil)
		return
	}
	var s *protocol.AgentState
	if args := a.GetInput().GetPayloads(); len(args) > 1 && !r.decode(&commonpb.Payloads{Payloads: args[1:2]}, &s) {
		// What the reader knows of the run before is the best there is.
		return
	}
	if s == nil {
		r.forget(nil)
		r.dropAll(approval.Closed{How: approval.Abandoned, Reason: "the workflow continued as new", Via: viaWorkflow})
		r.ledger = approval.NewLedger()
		return
	}
	r.stands, r.vetted = a.GetContinuedExecutionRunId(), len(s.Vetted)
	start.RunsBefore = s.Runs
	r.frozen(s.Frozen)
	if len(s.Steps) > 0 {
		r.turn = TurnOf{Number: s.Turns}
	}
	r.forget(s.Steps)
	known := r.open
	r.ledger, r.open = approval.NewLedger(), map[string]*waiting{}
	r.ledger.Load(s.Ledger)
	for _, st := range s.Steps {
		r.turn.Calls = append(r.turn.Calls, st.Asked)
		if st.Decision == nil {
			continue
		}
		if _, told := r.decided[st.CallID]; !told {
			d := Decided{CallID: st.CallID, Tool: st.Asked.Name, Input: st.Asked.Input, InputRef: st.Asked.InputRef, Decision: st.Decision.Decision}
			r.decided[st.CallID] = d
			r.tell(Event{Kind: Decision, Decision: &d})
		}
		if q, ok := r.ledger.Question(st.Question); ok {
			r.open[q.Key] = r.carried(q, st, known[q.Key] != nil)
		}
	}
}

// forget drops what is known of calls, but for these: a run asks for those of another one no more, and may give their ids again.
func (r *Reader) forget(but []protocol.StepState) {
	kept := map[string]bool{}
	for _, st := range but {
		kept[st.CallID] = true
	}
	maps.DeleteFunc(r.decided, func(id string, _ Decided) bool { return !kept[id] })
	maps.DeleteFunc(r.foreign, func(id string, _ *foreign) bool { return !kept[id] })
}

// carried is a question that a run took over.
func (r *Reader) carried(q approval.Approval, st protocol.StepState, told bool) *waiting {
	w := &waiting{Question: Question{Key: q.Key, CallID: q.CallID, Tool: q.Tool, Input: st.Asked.Input, InputRef: st.Asked.InputRef,
		Decision: st.Decision.Decision, AskedAt: q.AskedAt, Deadline: q.Deadline, Approvers: q.Approvers, RequestedBy: q.RequestedBy,
		Agent: q.Agent, Seal: q.Seal, Run: q.Run, Votes: q.Votes, Reminded: q.Reminded, Escalated: q.Escalated, EscalatedTo: q.EscalatedTo},
		reminded: st.Reminded}
	if st.Decision.Decision.Modified {
		w.Input, w.InputRef = st.Decision.Decision.Input, st.Decision.InputRef
	}
	if st.Decision.Approval != nil {
		w.policy = *st.Decision.Approval
	}
	if !told {
		question := w.Question
		r.tell(Event{Kind: ApprovalPending, Question: &question})
	}
	return w
}

// stamped notes the run in which the questions stand that were taken over: not after a reset to its beginning.
func (r *Reader) stamped(run string) {
	if run != r.originalRun {
		return
	}
	for key, w := range r.open {
		if r.stands != "" && w.Approval().StandsIn() == r.stands {
			w.Run = run
			r.ledger.Stamp(key, run)
		}
	}
}

// frozen takes what is frozen for an agent's life, and tells of it once.
func (r *Reader) frozen(resp protocol.ResolveResponse) {
	r.under = resp.Under
	ready := &Ready{Models: resp.Models, Tools: []string{}, ToolsetHash: resp.ToolsetHash, Limits: resp.Limits,
		Isolation: resp.Isolation, Store: resp.Store}
	for _, f := range resp.Tools {
		ready.Tools = append(ready.Tools, f.Name)
		r.contracts[f.Name] = f.ContractHash
	}
	if !r.ready {
		r.ready = true
		r.tell(Event{Kind: AgentReady, Ready: ready})
	}
}
