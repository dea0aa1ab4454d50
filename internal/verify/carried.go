package verify

import (
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// firstEvent is that of the start, in which a run finds what it takes over.
const firstEvent = 1

// stamp is the event at which a run that continues named itself.
type stamp struct {
	event int64
	run   string
}

// tally is what a run did, as far as the next one has to know.
type tally struct {
	// turns is the number of the last turn, lifeBegan that of the last one before the environment was made anew.
	turns, lifeBegan int
	// lives counts how often a worktree was asked for.
	lives int
	// spent, calls, transcript and output are what the models' answers come to, from what was taken over.
	spent      protocol.Spent
	calls      int
	transcript *blob.Ref
	output     string
	// received are the results of calls that workers of others ran, by call id.
	received map[string]tool.Result
	queue    string
	lease    *worktree.Lease
}

// generated counts an answer of a model. Once the budget is spent, its calls are none.
func (r *record) generated(g protocol.GenerateResponse) {
	t := &r.tally
	t.spent.Add(g)
	t.transcript = &g.Transcript
	if g.Compacted != nil {
		return
	}
	t.output = g.Text
	var budget *float64
	if r.frozen != nil {
		budget = r.frozen.BudgetUSD
	}
	if budget != nil && *budget-t.spent.CostUSD-t.spent.LostUSD-t.spent.BelowUSD <= 0 {
		return
	}
	if t.calls += len(g.Calls); r.frozen != nil && r.frozen.Limits.MaxToolCalls > 0 {
		t.calls = min(t.calls, r.frozen.Limits.MaxToolCalls)
	}
}

// receives counts what came of a call that a worker of others ran, and what agents below it have spent: all that they were
// lent if that is not known.
func (r *record) receives(s *scheduled, how ending, result *commonpb.Payloads) {
	var resp protocol.ReceiveResponse
	if how != completed || !r.decode(result, &resp) {
		r.tally.spent.BelowUSD += s.lent
		return
	}
	r.tally.spent.BelowUSD += resp.SpentUSD
	r.tally.received[s.key] = resp.Result
}

// pin notes that a life of the agent begins, which a worktree is made for.
func (t *tally) pin(state *protocol.AgentState) {
	if t.lives++; t.lives > 1 || state != nil {
		t.lifeBegan = t.turns
	}
}

// continues reports whether the server says that the run goes on with an agent's state, as the workflow looks at it.
func (r *record) continues() bool {
	return r.agent && r.started.GetContinuedExecutionRunId() != "" && !r.again()
}

// takeOver reads what the run before left: its frozen tools, and the calls that wait, with what was decided on them.
func (r *record) takeOver(e *historypb.HistoryEvent, args []*commonpb.Payload) {
	if len(args) < 2 {
		return
	}
	var s *protocol.AgentState
	if args[1] == nil || !r.from(args[1], &s) {
		r.unread(e, "what the run took over")
		return
	}
	if s == nil {
		return
	}
	r.state, r.frozen, r.under.PolicyDigest = s, &s.Frozen, s.Frozen.Under.PolicyDigest
	r.tally.turns, r.tally.lifeBegan = s.Turns, s.Turns-s.LifeTurns
	r.tally.spent, r.tally.calls, r.tally.transcript, r.tally.output = s.Spent, s.Calls, s.Transcript, s.Output
	for _, t := range s.Frozen.Tools {
		r.facts[t.Name] = t
	}
	for i, st := range s.Steps {
		if st.CallID != fmt.Sprintf("t%d.%d", s.Turns, i+1) {
			r.find(Finding{Kind: OtherState, EventID: firstEvent, CallID: st.CallID, Tool: st.Asked.Name,
				Why: sprintf("the run took over the call %q as call %d of turn %d", st.CallID, i+1, s.Turns)})
		}
		r.turns[s.Turns] = append(r.turns[s.Turns], st.Asked)
		if st.Result == nil {
			r.waits(st)
		}
	}
	for _, q := range s.Ledger.Open {
		if _, ok := r.byCall[q.CallID]; !ok {
			r.find(Finding{Kind: OtherQuestion, EventID: firstEvent, CallID: q.CallID, Tool: q.Tool,
				Why: sprintf("the run took over the question %q, and no call that waits for it", q.Key)})
		}
	}
}

// waits takes over a call that waits for its answer. There is no other way to take over a call that has not ended: a
// permit is of the run that gave it.
func (r *record) waits(st protocol.StepState) {
	bad := func(format string, args ...any) {
		r.find(Finding{Kind: OtherQuestion, EventID: firstEvent, CallID: st.CallID, Tool: st.Asked.Name, Why: sprintf(format, args...)})
	}
	var q *approval.Approval
	for i := range r.state.Ledger.Open {
		if r.state.Ledger.Open[i].Key == st.Question {
			q = &r.state.Ledger.Open[i]
		}
	}
	d := st.Decision
	switch {
	case q == nil || d == nil:
		bad("the run took over the call %q, which has no result and waits for no question", st.CallID)
		return
	case d.Decision.Verdict != permission.Ask:
		bad("the run took over the question %q, on a decision to %s", q.Key, d.Decision.Verdict)
		return
	case d.CallID != st.CallID || q.CallID != st.CallID || d.Tool != st.Asked.Name || q.Tool != st.Asked.Name:
		bad("the run took over the question %q with the decision and the arguments of other calls", q.Key)
	case q.Seal.InputDigest != d.InputDigest || q.Seal.ContentKey != d.ContentKey || q.Seal.PolicyDigest != d.Decision.PolicyDigest:
		bad("the run took over the question %q for another input, content or policy than was decided on", q.Key)
	case q.Seal.ContractHash != r.facts[q.Tool].ContractHash:
		bad("the run took over the question %q for the contract %s, and %s was frozen", q.Key, short(q.Seal.ContractHash), short(r.facts[q.Tool].ContractHash))
	}
	if _, ok := r.byCall[st.CallID]; ok {
		bad("the run took over the call %q twice", st.CallID)
		return
	}
	r.byCall[st.CallID] = []int{len(r.decisions)}
	r.decisions = append(r.decisions, decision{DecideResponse: *d, event: firstEvent, carried: q})
}

// stamped notes the run that a run which continues named, in which the questions that it took over stand from then on.
func (r *record) stamped(event int64, result *commonpb.Payloads) bool {
	var now protocol.ContinueResponse
	if !r.decode(result, &now) || now.RunID == "" {
		return false
	}
	if run := r.runAt(event); run != "" && run != now.RunID {
		r.find(Finding{Kind: OtherRun, EventID: event, Why: sprintf("it names run %s as the one that continues, and was recorded in run %s", now.RunID, run)})
	}
	if r.stamp.run == "" {
		r.stamp, r.under.RunID = stamp{event, now.RunID}, now.RunID
	}
	return true
}

// holds reports whether what stood in the run that this one continues stands in this one: not after a reset to its beginning.
func (r *record) holds(run string) bool {
	return run == r.started.GetContinuedExecutionRunId() && r.stamp.run != "" && r.stamp.run == r.started.GetOriginalExecutionRunId()
}

// standsIn is the run whose answers a question takes that was taken over.
func (r *record) standsIn(q approval.Approval) string {
	if r.holds(q.StandsIn()) {
		return r.stamp.run
	}
	return q.StandsIn()
}

// lines are the vetted lines that the run took over and that hold in it.
func (r *record) lines() (out []protocol.VettedLine) {
	if r.state == nil {
		return nil
	}
	for _, v := range r.state.Vetted {
		if r.holds(v.RunID) {
			out = append(out, protocol.VettedLine{RunID: r.stamp.run, Line: v.Line})
		}
	}
	return out
}

// leaves is what the run has to hand over, as far as its history shows it.
func (r *record) leaves() protocol.AgentState {
	s := protocol.AgentState{AgentRun: r.started.GetOriginalExecutionRunId()}
	if r.state != nil {
		s = *r.state
	}
	if r.frozen != nil {
		s.Frozen = *r.frozen
	}
	s.Runs++
	s.Turns, s.LifeTurns = r.tally.turns, r.tally.turns-r.tally.lifeBegan
	s.Spent, s.Calls, s.Transcript, s.Output = r.tally.spent, r.tally.calls, r.tally.transcript, r.tally.output
	for _, d := range r.decisions {
		if d.carried == nil && d.Decision.Verdict == permission.Ask {
			s.Asked++
		}
	}
	if s.Restarts += r.tally.lives; r.state == nil && r.tally.lives > 0 {
		s.Restarts--
	}
	if r.tally.lives > 0 {
		s.HostQueue, s.Lease = r.tally.queue, r.tally.lease
	} else if s.Lease != nil && r.holds(s.Lease.Run) {
		// The run has taken the tree over.
		moved := *s.Lease
		moved.Run = r.stamp.run
		s.Lease = &moved
	}
	return s
}
