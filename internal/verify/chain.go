package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// succession holds what a run took over against the run before it.
type succession struct {
	*judge
	before *judge
	state  *protocol.AgentState
}

// succeeds says whether the state of a run follows from the history before it; a run before it that is not there is
// trusted.
func (j *judge) succeeds(before *judge) {
	run := j.started.GetContinuedExecutionRunId()
	j.leftByGate(run)
	if j.out.ContinuedFrom = run; before == nil {
		j.out.Trusted = true
		j.note("what it took over from run %s, which was not looked at: it is taken on trust", run)
		return
	}
	s := &succession{judge: j, before: before, state: j.record.state}
	next := before.next
	switch {
	case !before.agent || before.ledger == nil:
		s.other("run %s is none of an agent", run)
		return
	case next == nil || next.GetNewExecutionRunId() != j.started.GetOriginalExecutionRunId():
		s.other("run %s says nothing of having continued as this one", run)
		return
	case !samePayloads(next.GetInput(), j.started.GetInput()):
		s.other("the arguments of its start are not those with which run %s continued", run)
	}
	s.input()
	s.counters()
	s.issued()
	s.steps()
	s.vettedLines()
}

// leftByGate holds the state's grant against it, and its signature against the keys.
func (j *judge) leftByGate(run string) {
	fail := func(kind Kind, format string, args ...any) {
		j.out.Findings = append(j.out.Findings, Finding{Kind: kind, EventID: firstEvent, Why: fmt.Sprintf(format, args...)})
	}
	g := j.record.state.Grant
	digest, err := j.record.state.Digest(j.input)
	switch {
	case g == nil:
		fail(NoGrant, "what it took over has no grant")
	case err != nil || g.InputDigest != digest:
		fail(OtherState, "the grant of what it took over is for %s, and it took over %s", short(g.InputDigest), short(digest))
	case g.RunID != run || g.CallID != protocol.StateCall:
		fail(OtherRun, "the grant of what it took over is of call %q of run %s, and it continues run %s", g.CallID, g.RunID, run)
	case j.options.Keys.Empty():
		if g.MAC != "" {
			j.note("signatures of grants: no key was given")
		}
	default:
		if err := j.options.Keys.Verify(*g, protocol.StatePlace(j.options.Namespace, j.out.WorkflowID), digest, time.Unix(0, 0)); err != nil {
			fail(BadSignature, "what it took over: %v", err)
		}
	}
}

func (s *succession) find(kind Kind, callID, tool, format string, args ...any) {
	s.out.Findings = append(s.out.Findings, Finding{Kind: kind, EventID: firstEvent, CallID: callID, Tool: tool, Why: fmt.Sprintf(format, args...)})
}

func (s *succession) other(format string, args ...any) { s.find(OtherState, "", "", format, args...) }

// samePayloads reports whether two lists of payloads have the same bytes: the server copies them.
func samePayloads(a, b *commonpb.Payloads) bool {
	return slices.EqualFunc(a.GetPayloads(), b.GetPayloads(), func(x, y *commonpb.Payload) bool {
		return bytes.Equal(x.GetData(), y.GetData()) && maps.EqualFunc(x.GetMetadata(), y.GetMetadata(), bytes.Equal)
	})
}

// alike reports whether two values are the same JSON.
func alike(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && (bytes.Equal(x, y) || same(x, y))
}

// input holds the agent's input against that of the run before: it stays, but for a prompt that was stored, unless the server
// may try the run again.
func (s *succession) input() {
	want := s.before.input
	if f := s.before.frozen; f != nil && f.PromptRef != nil && s.judge.input.Prompt == "" {
		want.Prompt = ""
	}
	if !s.before.inputRead || !s.inputRead || !alike(want, s.judge.input) {
		s.other("its input is another one than that of the run before")
	}
}

// counters holds what is counted, frozen and leased against what the run before did.
func (s *succession) counters() {
	got, want := s.state, s.before.leaves()
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"run of the agent", got.AgentRun, want.AgentRun}, {"number of runs", got.Runs, want.Runs},
		{"frozen toolset", got.Frozen, want.Frozen}, {"number of turns", got.Turns, want.Turns},
		{"number of turns since its environment was made", got.LifeTurns, want.LifeTurns}, {"number of calls", got.Calls, want.Calls},
		{"number of questions", got.Asked, want.Asked}, {"number of restarts", got.Restarts, want.Restarts}, {"usage", counted(got.Spent), counted(want.Spent)},
		{"transcript", got.Transcript, want.Transcript}, {"output", got.Output, want.Output},
		{"host", got.HostQueue, want.HostQueue}, {"lease", got.Lease, want.Lease}, {"escalation", got.Escalated, want.Escalated},
	} {
		if !alike(c.got, c.want) {
			s.other("it took over another %s than the run before left: %s, not %s", c.what, brief(c.got), brief(c.want))
		}
	}
	// Calls at once may have been added up in another order.
	if got, want := got.Spent.BelowUSD, want.Spent.BelowUSD; math.Abs(got-want) > 1e-9*max(1, want) {
		s.other("it took over that agents below have spent %v USD, not %v", got, want)
	}
	switch b := s.before.record.state; {
	case b != nil && !got.Started.Equal(b.Started):
		s.other("it took over that the agent began at %s, not at %s", got.Started, b.Started)
	case b == nil && (got.Started.Before(s.before.began) || got.Started.After(s.began)):
		s.other("it took over that the agent began at %s; its first run was started at %s", got.Started, s.before.began)
	}
}

// counted is what was spent without what agents below have.
func counted(s protocol.Spent) protocol.Spent {
	s.BelowUSD = 0
	return s
}

// brief is the beginning of a value's JSON.
func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	const most = 80
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}

// issued holds the keys that were given against those of the run before: none is given again.
func (s *succession) issued() {
	want := map[string]approval.Issued{}
	for _, i := range s.before.ledger.Carry().Issued {
		want[i.Stem] = i
	}
	for _, i := range s.state.Ledger.Issued {
		if w := want[i.Stem]; w != i {
			s.other("it took over that the key %s was given %d times, not %d", i.Stem, i.Count, w.Count)
		}
		delete(want, i.Stem)
	}
	for _, i := range s.before.ledger.Carry().Issued {
		if _, left := want[i.Stem]; left {
			s.other("it did not take over that the key %s was given", i.Stem)
		}
	}
}

// steps holds the calls of the last turn against those of the run before.
func (s *succession) steps() {
	turn := s.before.turns[s.before.tally.turns]
	if len(s.state.Steps) > 0 && len(s.state.Results) > 0 {
		s.other("it took over the results of a turn, and calls of it that have not ended")
	}
	if n := len(s.state.Steps) + len(s.state.Results); n != len(turn) {
		s.other("it took over %d calls of turn %d, which has %d", n, s.before.tally.turns, len(turn))
		return
	}
	for i, r := range s.state.Results {
		id := fmt.Sprintf("t%d.%d", s.before.tally.turns, i+1)
		if r.CallID != turn[i].ModelID || r.Name != turn[i].Name {
			s.find(OtherState, id, turn[i].Name, "its result was taken over as that of another call")
		}
		s.result(id, r.Name, r.Result)
	}
	for i, st := range s.state.Steps {
		switch {
		case !alike(st.Asked, turn[i]):
			s.find(OtherState, st.CallID, st.Asked.Name, "the call was taken over with other arguments than it asked for")
		case st.Result != nil:
			s.result(st.CallID, st.Asked.Name, *st.Result)
		}
	}
	for _, d := range s.decisions {
		if d.carried != nil {
			s.question(d)
		}
	}
}

// result holds a result that was taken over against the one that the call returned. What explains it may have been
// shortened or added to.
func (s *succession) result(callID, name string, got tool.Result) {
	want, readable := s.before.returned(callID)
	switch {
	case want == nil && readable && got.Code == tool.OK:
		s.find(OtherState, callID, name, "its result was taken over as %s, and nothing in the run before returned one", got.Code)
	case want == nil:
	case want.Code != got.Code:
		s.find(OtherState, callID, name, "its result was taken over as %s, and was %s", got.Code, want.Code)
	case !alike(want.Value, got.Value) || !alike(want.ValueRef, got.ValueRef):
		s.find(OtherState, callID, name, "its result was taken over with another value than it returned")
	}
}

// returned is the result that a call of the run has returned, or took over; nil is none. It is not readable if there may be
// one that cannot be decoded.
func (r *record) returned(callID string) (result *tool.Result, readable bool) {
	readable = true
	if r.state != nil {
		for _, st := range r.state.Steps {
			if st.CallID == callID && st.Result != nil {
				result = st.Result
			}
		}
	}
	if got, ok := r.tally.received[callID]; ok {
		result = &got
	}
	for _, u := range r.uses {
		if id, _, _ := strings.Cut(u.id, "~"); !u.own() || id != callID {
			continue
		}
		if result = nil; u.end == completed && u.result != nil && u.result.Code != "" {
			result = u.result
		} else if u.end == completed {
			readable = false
		}
	}
	return result, readable && len(r.sealed) == 0
}

// question holds a question that was taken over against the one that the run before had open.
func (s *succession) question(d decision) {
	q := *d.carried
	bad := func(format string, args ...any) { s.find(OtherQuestion, d.CallID, d.Tool, format, args...) }
	indices := s.before.byCall[d.CallID]
	if len(indices) == 0 {
		bad("it took over the question %s, and the run before did not decide on its call", q.Key)
		return
	}
	i := indices[len(indices)-1]
	asked, was := s.before.asked[i], s.before.decisions[i]
	if len(asked) == 0 || asked[len(asked)-1].key != q.Key {
		bad("it took over the question %s, which the run before did not ask about that call", q.Key)
		return
	}
	open := asked[len(asked)-1]
	switch rang := s.before.deadlines[q.Key]; {
	case open.closed != nil:
		bad("it took over the question %s, which the run before closed at event %d as %s", q.Key, open.closed.event, open.closed.How)
	case rang > open.opened:
		bad("it took over the question %s, whose deadline passed in the run before, at event %d", q.Key, rang)
	}
	if !alike(d.DecideResponse, was.DecideResponse) {
		bad("it took over the question %s with another decision than that of the run before", q.Key)
	}
	if q.Seal != open.seal || q.StandsIn() != open.run {
		bad("it took over the question %s with another input, contract, policy or run than it was asked with", q.Key)
	}
	s.votes(q, open, bad)
	s.waiting(q, was, bad)
}

// votes holds the votes on a question against those that the run before counted.
func (s *succession) votes(q approval.Approval, open *question, bad func(string, ...any)) {
	type vote struct {
		by     string
		signed bool
	}
	var want, got []vote
	for _, v := range open.taken {
		want = append(want, vote{v.By, v.Signed})
	}
	for _, v := range open.votes {
		want = append(want, vote{v.By, v.Signed})
	}
	for _, v := range q.Votes {
		got = append(got, vote{v.By, v.Signed})
	}
	if !slices.Equal(got, want) {
		bad("it took over the question %s with other votes than the run before counted: %d, not %d", q.Key, len(got), len(want))
	}
}

// waiting holds who may answer a question, and until when, against its policy, or against what the run before took over.
func (s *succession) waiting(q approval.Approval, was decision, bad func(string, ...any)) {
	policy := permission.ApprovalPolicy{}
	if was.Approval != nil {
		policy = *was.Approval
	}
	if (q.Deadline != nil) != (policy.Deadline > 0) || q.Deadline != nil && !q.Deadline.Equal(q.AskedAt.Add(policy.Deadline)) {
		bad("it took over the question %s with another deadline than was decided on", q.Key)
	}
	if c := was.carried; c != nil && c.Key == q.Key && !c.AskedAt.Equal(q.AskedAt) {
		bad("it took over the question %s as asked at %s, not at %s", q.Key, q.AskedAt, c.AskedAt)
	}
	if q.RequestedBy != s.before.input.RequestedBy {
		bad("it took over the question %s as requested by %q, not by %q", q.Key, q.RequestedBy, s.before.input.RequestedBy)
	}
	var groups []string
	if policy.Approvers != nil {
		groups = slices.Clone(policy.Approvers.Groups)
	}
	if policy.Escalate != nil {
		groups = append(groups, policy.Escalate.Groups...)
	}
	switch p := q.Approvers; {
	case (p == nil) != (policy.Approvers == nil):
		bad("it took over the question %s with other approvers than were decided on", q.Key)
	case p == nil:
	case p.Min != policy.Approvers.Min, slices.ContainsFunc(p.Groups, func(g string) bool { return !slices.Contains(groups, g) }),
		len(p.Groups) == 0 && len(policy.Approvers.Groups) > 0:
		bad("it took over the question %s with other approvers than were decided on", q.Key)
	}
}

// vettedLines holds the lines that were taken over against those that answers had added by then.
func (s *succession) vettedLines() {
	known := s.before.lines()
	for _, a := range s.before.vetted {
		if !s.before.withdrawn(a) {
			known = append(known, protocol.VettedLine{RunID: a.RunID, Line: *a.Vetted})
		}
	}
	for _, v := range s.state.Vetted {
		if !slices.ContainsFunc(known, func(k protocol.VettedLine) bool { return alike(k, v) }) {
			s.other("it took over a vetted line of run %s that no answer had added, or that was taken back: %s", v.RunID, brief(v.Line))
		}
	}
}

// withdrawn reports whether the allow that added a line was revoked before its call was scheduled.
func (j *judge) withdrawn(a admission) bool {
	for i, asked := range j.asked {
		last := asked[len(asked)-1]
		if last.key != a.Key {
			continue
		}
		sent := slices.IndexFunc(j.uses, func(u *use) bool { id, _, _ := strings.Cut(u.id, "~"); return id == j.decisions[i].CallID })
		for _, r := range j.answers[a.Key] {
			if r.Decision == approval.Revoke && r.event > last.opened && (sent < 0 || r.event < j.uses[sent].event) {
				return true
			}
		}
	}
	return false
}
