package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// step is one call of a turn on its way from request to result.
type step struct {
	id    string
	asked protocol.Requested
	// facts are noTool if the tool is unknown.
	facts toolFacts
	// vetted are the lines that people had added when the call was made; room bounds the decision.
	vetted []protocol.VettedLine
	room   int
	permit *permit
	// result is that of a call that has ended. Until then it is unended, so that a call that waits takes no room for it.
	result *tool.Result
	state  stepState
	// question is the key with which a person was asked, vigil is set when the answers were looked for. attended is set while
	// a coroutine looks at them.
	question string
	vigil    *vigil
	attended bool
	decision *protocol.DecideResponse
	// taken is what is known of a call that ended in the run before.
	taken *protocol.StepState
}

// unended is only read.
var unended = &tool.Result{}

// end gives a call its result.
func (s *step) end(r tool.Result) { s.result = &r }

type stepState int

const (
	stepJudged stepState = iota
	// stepWaiting has given up its place to the calls after it.
	stepWaiting
	stepReady
	stepRunning
	stepDone
)

// retriesMost is how many ModelRetry results of one tool in a row are passed on without a warning.
const retriesMost = 2

// judged are the calls of a turn, each with what was decided on it.
func (a *agent) judged(ctx workflow.Context, calls []protocol.Requested) []*step {
	steps := make([]*step, len(calls))
	for i, c := range calls {
		steps[i] = a.step(fmt.Sprintf("t%d.%d", a.turns, i+1), c, protocol.MaxDecisions/len(calls))
	}
	a.judge(ctx, steps)
	return steps
}

// judge takes the decisions on all calls of a turn, in the model's order.
func (a *agent) judge(ctx workflow.Context, steps []*step) {
	var open []*step
	var reqs []protocol.DecideRequest
	for _, s := range steps {
		if s.state != stepDone {
			open, reqs = append(open, s), append(reqs, a.request(s))
		}
	}
	for i, d := range a.gate.judgeTurn(ctx, reqs) {
		a.decide(ctx, open[i], reqs[i], d)
	}
}

// step prepares one call; calls that cannot be judged are done at once.
func (a *agent) step(id string, c protocol.Requested, room int) *step {
	s := &step{id: id, asked: c, facts: a.tools.tool(c.Name), result: unended, state: stepDone}
	switch {
	case a.calls >= a.frozen.Limits.MaxToolCalls:
		a.overCalls = true
		s.end(tool.Fail(tool.Skipped, fmt.Sprintf("maxToolCalls (%d) was reached", a.frozen.Limits.MaxToolCalls)))
		return s
	case a.broke():
		s.end(tool.Fail(tool.Skipped, "the budget was spent"))
		return s
	case s.facts == noTool:
		a.calls++
		s.end(tool.Fail(tool.UnknownTool, fmt.Sprintf("there is no tool %q", short(c.Name, 100))))
		return s
	case len(c.Input) == 0 && c.InputRef == nil:
		a.calls++
		s.end(tool.Fail(tool.InvalidArguments, "the arguments are not valid JSON"))
		s.result.Failure.Issues = []tool.Issue{{Message: "not valid JSON: " + short(c.Raw, 200)}}
		return s
	case s.facts.Value().Remote != nil && c.InputRef != nil:
		a.calls++
		s.end(tooLong(s.facts.Value()))
		return s
	}
	a.calls++
	s.state, s.vetted, s.room = stepJudged, a.gate.vetted, room
	return s
}

// request asks for the decision on a call. It is made anew whenever it is needed, and is always the same.
func (a *agent) request(s *step) protocol.DecideRequest {
	return protocol.DecideRequest{CallID: s.id, Tool: s.facts.Value(), Subject: a.subject(s.vetted), Guards: a.frozen.Guards,
		Store: a.frozen.Store, Input: s.asked.Input, InputRef: s.asked.InputRef, Room: s.room, Under: &protocol.Under{RunID: a.told, PolicyDigest: a.frozen.Under.PolicyDigest}}
}

// subject says on whose behalf calls are judged, under the lines that people have added.
func (a *agent) subject(vetted []protocol.VettedLine) protocol.Subject {
	return protocol.Subject{Profile: a.in.AgentType, Tighten: a.in.Permissions, Parents: a.frozen.Parents, Isolation: string(a.frozen.Isolation.Kind), Dir: a.env.dir,
		Vetted: vetted, RequestedBy: a.in.RequestedBy, Agent: *a.identity()}
}

// identity is how tools know the agent.
func (a *agent) identity() *tool.Agent {
	return &tool.Agent{RunID: a.id, Type: a.in.AgentType, Label: a.in.Label}
}

// decide takes the decision on a call; questions are opened here, in the model's order.
func (a *agent) decide(ctx workflow.Context, s *step, req protocol.DecideRequest, d protocol.DecideResponse) {
	d = a.gate.decided(ctx, req, d)
	p, refused := a.gate.settle(ctx, req, d)
	switch {
	case refused != nil:
		s.result, s.state = refused, stepDone
		a.changed(s, d)
	case p != nil:
		s.permit, s.state = p, stepReady
	default:
		a.asked++
		s.question, s.decision, s.state = a.gate.question(ctx, req, d), &d, stepWaiting
	}
}

// changed tells the model what its arguments became when a hook rewrote a call that was then refused.
func (a *agent) changed(s *step, d protocol.DecideResponse) {
	if d.Decision.Modified {
		s.result.FinalInput = shown(d.Decision.Input, d.InputRef)
	}
}

func (s *step) concurrent() bool { return s.facts.Value().Concurrent }

// callOf is the call as its worker knows it.
func (a *agent) callOf(s *step) tool.Call {
	p := s.permit
	call := tool.Call{
		ID: s.id, Name: s.asked.Name, Input: p.input, InputRef: p.inputRef, ContractHash: p.facts.ContractHash,
		IdempotencyKey: protocol.IdempotencyKey(a.id, s.id, p.input256), Agent: a.identity(), Dir: a.env.dir,
		Isolation: string(a.frozen.Isolation.Kind), Lease: a.env.held().raw, Approved: p.approved, Store: a.frozen.Store, Guards: a.frozen.Guards, Modified: p.modified,
		Tighten: a.tighten, Parents: a.above, Source: p.facts.Source,
	}
	if call.Source != "" {
		call.Risk, call.NeedsApproval = p.facts.Risk, p.facts.NeedsApproval
	}
	return call
}

// collect pairs each call with its result and takes notice of what the engine itself acts on.
func (a *agent) collect(ctx workflow.Context, steps []*step) ([]model.ToolResult, error) {
	out := make([]model.ToolResult, 0, len(steps))
	var lost *lostError
	for _, s := range steps {
		a.countRetries(s)
		out = append(out, model.ToolResult{CallID: s.asked.ModelID, Name: s.asked.Name, Result: *s.result})
		if !s.observed() {
			a.observe(ctx, s)
		}
		a.note(s)
		if s.result.Code == tool.EnvironmentLost && lost == nil {
			lost = &lostError{why: short(s.result.Failure.Message, mostLost), away: s.permit != nil && s.permit.away}
		}
	}
	if lost != nil {
		return nil, lost
	}
	fit(out)
	return out, nil
}

// mostSeen bounds the calls that are remembered: each run hands them on to the next.
const mostSeen = 128

// note remembers progress, reports and escalation.
func (a *agent) note(s *step) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(s.asked.Name), s.asked.Input, []byte(s.result.Code), s.result.Value, []byte(refHash(s))} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	// Half of the digest tells a call that is new from one that is not.
	if sum := hex.EncodeToString(h.Sum(nil)[:16]); !a.seen[sum] {
		a.see(sum)
		a.fresh++
		if a.seenList = append(a.seenList, sum); len(a.seenList) > mostSeen {
			delete(a.seen, a.seenList[0])
			a.seenList = a.seenList[1:]
		}
	}
	if !s.result.IsOK() || !s.ran() {
		return
	}
	switch s.asked.Name {
	case nameEscalate:
		a.escalation = s.final()
	case nameProgress:
		a.progress = s.final()
		a.idle = -1
	}
}

func (a *agent) see(sum string) {
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	a.seen[sum] = true
}

// The tools whose calls the engine itself acts on.
const (
	nameEscalate = "escalate"
	nameProgress = "report_progress"
)

// ran reports whether the call was permitted.
func (s *step) ran() bool { return s.permit != nil || s.taken != nil && s.taken.Ran }

// observed reports whether a worker's observers have seen the call.
func (s *step) observed() bool {
	if s.taken != nil {
		return s.taken.Observed
	}
	return s.permit != nil && !s.permit.unseen
}

// final is the input of a permitted call, as people see it.
func (s *step) final() json.RawMessage {
	if s.taken != nil {
		return s.taken.Final
	}
	return s.permit.shown()
}

func refHash(s *step) string {
	var out string
	if s.asked.InputRef != nil {
		out = s.asked.InputRef.SHA256
	}
	if s.result.ValueRef != nil {
		out += s.result.ValueRef.SHA256
	}
	return out
}

// countRetries says from the third ModelRetry of a tool in a row on that there will be no more.
func (a *agent) countRetries(s *step) {
	if a.retries == nil {
		a.retries = map[string]int{}
	}
	if s.result.Failure == nil || !s.result.Failure.Retry {
		// Not zero: names that models make up would fill what the next run is left.
		delete(a.retries, s.asked.Name)
		return
	}
	a.retries[s.asked.Name]++
	if a.retries[s.asked.Name] > retriesMost {
		s.result.Failure.Retry = false
		s.result.Failure.Message += " (retries are exhausted: do something else)"
	}
}

// observe tells observers of a call that never reached a worker. Nobody waits for it before the run ends.
func (a *agent) observe(ctx workflow.Context, s *step) {
	if !a.frozen.Observers {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: attempts},
		Summary: label(s.asked.Name) + " · " + string(s.result.Code),
	})
	call := tool.Call{ID: s.id, Name: s.asked.Name, Source: s.facts.Value().Source, Input: s.asked.Input, InputRef: s.asked.InputRef, Store: a.frozen.Store,
		Agent: a.identity()}
	if call.Source != "" {
		call.Risk, call.NeedsApproval = s.facts.Value().Risk, s.facts.Value().NeedsApproval
	}
	a.observing = append(a.observing,
		workflow.ExecuteActivity(ctx, protocol.ActivityObserve, protocol.ObserveRequest{Call: call, Result: *s.result}))
}

// leaseJSON is the lease as tools' workers get it.
func leaseJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		// A lease is a struct of strings.
		panic(err)
	}
	return b
}
