package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// step is one call of a turn on its way from request to result.
type step struct {
	asked  protocol.Requested
	facts  protocol.ToolFacts
	req    protocol.DecideRequest
	call   tool.Call
	permit *permit
	result tool.Result
	state  stepState
	// question is set while a person is asked.
	question *approval.Approval
	decision protocol.DecideResponse
	// taken is what is known of a call that ended in the run before.
	taken *protocol.StepState
}

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

// turn decides all calls first, lets the asked ones wait and the others go on, and returns one result for each
// call in the model's order.
func (a *agent) turn(ctx workflow.Context, t protocol.GenerateResponse) ([]model.ToolResult, protocol.Status, error) {
	steps := make([]*step, len(t.Calls))
	for i, c := range t.Calls {
		steps[i] = a.step(fmt.Sprintf("t%d.%d", a.turns, i+1), c, protocol.MaxDecisions/len(t.Calls))
	}
	a.judge(ctx, steps)
	return a.perform(ctx, steps)
}

// mostJudged bounds the decisions that are under way at once: as many as keep a worker busy, and few, because with each
// that ends the SDK wakes the coroutines of all.
const mostJudged = 4

// judge takes the decisions on all calls of a turn, in the model's order.
func (a *agent) judge(ctx workflow.Context, steps []*step) {
	futures := make([]workflow.Future, len(steps))
	ahead, n := 0, 0
	for i, s := range steps {
		for ; n < len(steps) && ahead < mostJudged; n++ {
			if steps[n].state != stepDone {
				futures[n] = a.gate.judge(ctx, steps[n].req)
				ahead++
			}
		}
		if s.state != stepDone {
			a.decide(ctx, s, futures[i])
			ahead--
		}
	}
}

// perform takes the calls of a turn through their questions to their results. A run that is long enough leaves those that
// wait to the next one, if nothing else is left to do.
func (a *agent) perform(ctx workflow.Context, steps []*step) ([]model.ToolResult, protocol.Status, error) {
	outer, _ := ctx.Value(causeKey{}).(*cause)
	why := &cause{outer: outer}
	ctx, stop := workflow.WithCancel(workflow.WithValue(ctx, causeKey{}, why))
	defer a.gate.unless(stop)
	// When the environment is lost nobody needs to answer any more.
	lost := func(reason string) { why.text = reason; stop() }
	a.onTheWay = workflow.NewSemaphore(ctx, mostOnTheWay)
	left := 0
	finish := func(ctx workflow.Context, s *step) {
		defer func() { left-- }()
		defer a.gate.board.free(ctx, a.gate.ledger)
		a.finish(ctx, steps, s, lost)
	}
	aside := func(s *step) { workflow.GoNamed(ctx, s.call.ID, func(ctx workflow.Context) { finish(ctx, s) }) }
	for _, s := range steps {
		if s.state == stepDone {
			continue
		}
		left++
		a.gate.board.busy()
		if s.state == stepWaiting {
			aside(s)
		}
	}
	// The turn itself does not keep the run from being suspended.
	a.gate.board.free(ctx, a.gate.ledger)
	after, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	for left > 0 {
		s, more := upNext(ctx, steps)
		switch {
		case s == nil:
		case s.concurrent() && more:
			s.state = stepRunning
			aside(s)
			continue
		default:
			// Until it has ended the turn has nothing else to begin: a coroutine more would be woken with every task.
			s.state = stepRunning
			finish(ctx, s)
			continue
		}
		// The context is never cancelled.
		_ = workflow.Await(after, func() bool {
			s, _ := upNext(ctx, steps)
			return left == 0 || s != nil || ctx.Err() == nil && a.parked(ctx, steps)
		})
		if s, _ := upNext(ctx, steps); left == 0 || s != nil {
			continue
		}
		if others(after); ctx.Err() != nil || !a.parked(ctx, steps) {
			continue
		}
		if err := a.next(ctx, nil, steps); err != nil {
			return nil, "", err
		}
	}
	a.gate.board.busy()
	out, err := a.collect(ctx, steps)
	if err != nil {
		return nil, protocol.Failed, err
	}
	return out, "", nil
}

// step prepares one call; calls that cannot be judged are done at once.
func (a *agent) step(id string, c protocol.Requested, room int) *step {
	s := &step{asked: c, state: stepDone}
	s.call = tool.Call{ID: id, Name: c.Name}
	facts, known := a.facts[c.Name]
	switch {
	case a.calls >= a.frozen.Limits.MaxToolCalls:
		a.overCalls = true
		s.result = tool.Fail(tool.Skipped, fmt.Sprintf("maxToolCalls (%d) was reached", a.frozen.Limits.MaxToolCalls))
		return s
	case a.broke():
		s.result = tool.Fail(tool.Skipped, "the budget was spent")
		return s
	case !known:
		a.calls++
		s.result = tool.Fail(tool.UnknownTool, fmt.Sprintf("there is no tool %q", short(c.Name, 100)))
		return s
	case len(c.Input) == 0 && c.InputRef == nil:
		a.calls++
		s.result = tool.Fail(tool.InvalidArguments, "the arguments are not valid JSON")
		s.result.Failure.Issues = []tool.Issue{{Message: "not valid JSON: " + short(c.Raw, 200)}}
		return s
	case facts.Remote != nil && c.InputRef != nil:
		a.calls++
		s.result = tooLong(facts)
		return s
	}
	a.calls++
	s.state, s.facts = stepJudged, facts
	s.req = a.request(id, c, facts)
	s.req.Room = room
	return s
}

// request asks for the decision on a call.
func (a *agent) request(id string, c protocol.Requested, facts protocol.ToolFacts) protocol.DecideRequest {
	return protocol.DecideRequest{CallID: id, Tool: facts, Subject: a.subject(), Guards: a.frozen.Guards,
		Store: a.frozen.Store, Input: c.Input, InputRef: c.InputRef}
}

// decide takes the decision on a call; questions are opened here, in the model's order.
func (a *agent) decide(ctx workflow.Context, s *step, f workflow.Future) {
	s.decision = a.gate.decided(ctx, f, s.req)
	p, refused := a.gate.settle(ctx, s.req, s.decision)
	switch {
	case refused != nil:
		s.result, s.state = *refused, stepDone
		a.changed(s, s.decision)
	case p != nil:
		s.permit, s.state = p, stepReady
	default:
		q := a.gate.question(ctx, s.req, s.decision)
		a.asked++
		s.question, s.state = &q, stepWaiting
	}
}

// changed tells the model what its arguments became when a hook rewrote a call that was then refused.
func (a *agent) changed(s *step, d protocol.DecideResponse) {
	if d.Decision.Modified {
		s.result.FinalInput = shown(d.Decision.Input, d.InputRef)
	}
}

// finish takes one call through its question, if it has one, and lets it run.
func (a *agent) finish(ctx workflow.Context, steps []*step, s *step, lost func(string)) {
	defer func() { s.state = stepDone }()
	asked := s.state == stepWaiting
	if asked {
		p, refused := a.gate.ask(ctx, s.question, s.req, s.decision)
		if p == nil {
			s.result = refused
			return
		}
		a.gate.board.running(ctx, a.gate.ledger)
		s.permit, s.state = p, stepReady
	}
	ctx, done := a.gate.revocable(ctx, s.permit)
	defer func() { done(s.result.Code) }()
	if asked {
		// Waiting for a place ends with the run; dispatch then says so.
		_ = workflow.Await(ctx, func() bool { return mayRun(steps, s) })
		s.state = stepRunning
	}
	if s.facts.Remote != nil {
		s.result = a.foreign(ctx, s)
	} else {
		s.result = revoked(ctx, a.gate.dispatch(ctx, s.permit, a.callOf(s), a.env.queue))
	}
	if s.permit.modified {
		s.result.FinalInput = s.permit.shown()
	}
	if s.result.Code == tool.EnvironmentLost {
		lost("the agent's environment was lost")
	}
}

// upNext is the first call that nobody had to be asked about and that may run now, if there is one; in a run that was
// cancelled each may, and is told so. more says that others have not begun.
func upNext(ctx workflow.Context, steps []*step) (next *step, more bool) {
	for _, s := range steps {
		switch {
		case s.state != stepReady || s.question != nil:
		case next != nil:
			return next, true
		case ctx.Err() != nil || mayRun(steps, s):
			next = s
		case !s.concurrent():
			// It holds up all that come after it.
			return nil, true
		}
	}
	return next, false
}

// mayRun keeps the model's order: a concurrent call waits for earlier exclusive ones, an exclusive call for all
// earlier ones. Calls that wait for a person hold nobody up.
func mayRun(steps []*step, s *step) bool {
	for _, o := range steps {
		if o == s {
			break
		}
		if (o.state == stepReady || o.state == stepRunning) && !(o.concurrent() && s.concurrent()) {
			return false
		}
	}
	for _, o := range steps {
		if o != s && o.state == stepRunning && !(o.concurrent() && s.concurrent()) {
			return false
		}
	}
	return true
}

func (s *step) concurrent() bool { return s.facts.Concurrent }

// callOf is what travels to the worker.
func (a *agent) callOf(s *step) tool.Call {
	p := s.permit
	return tool.Call{
		ID: s.call.ID, Name: s.call.Name, Input: p.input, InputRef: p.inputRef, ContractHash: p.facts.ContractHash,
		// Unique among all runs of all workflows, and the same after a reset.
		IdempotencyKey: a.id + "/" + s.call.ID + "-" + p.input256, Agent: &s.req.Subject.Agent, Dir: a.env.dir,
		Isolation: string(a.frozen.Isolation.Kind), Lease: a.env.raw, Approved: p.approved, Store: a.frozen.Store, Guards: a.frozen.Guards, Modified: p.modified,
		Tighten: a.tighten, Source: p.facts.Source,
	}
}

// collect pairs each call with its result and takes notice of what the engine itself acts on.
func (a *agent) collect(ctx workflow.Context, steps []*step) ([]model.ToolResult, error) {
	out := make([]model.ToolResult, 0, len(steps))
	var lost *lostError
	for _, s := range steps {
		a.countRetries(s)
		out = append(out, model.ToolResult{CallID: s.asked.ModelID, Name: s.asked.Name, Result: s.result})
		if !s.observed() {
			a.observe(ctx, s)
		}
		a.note(s)
		if s.result.Code == tool.EnvironmentLost && lost == nil {
			lost = &lostError{s.result.Failure.Message}
		}
	}
	if lost != nil {
		return nil, lost
	}
	fit(out)
	return out, nil
}

// note remembers progress, reports and escalation.
func (a *agent) note(s *step) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(s.asked.Name), s.asked.Input, []byte(s.result.Code), s.result.Value, []byte(refHash(s))} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	// Half of the digest tells a call that is new from one that is not.
	if sum := hex.EncodeToString(h.Sum(nil)[:16]); !a.seen[sum] {
		a.seen[sum] = true
		a.seenList = append(a.seenList, sum)
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
		a.retries[s.asked.Name] = 0
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
	call := tool.Call{ID: s.call.ID, Name: s.call.Name, Source: s.facts.Source, Input: s.asked.Input, InputRef: s.asked.InputRef, Store: a.frozen.Store,
		Agent: &tool.Agent{RunID: a.id, Type: a.in.AgentType, Label: a.in.Label}}
	a.observing = append(a.observing,
		workflow.ExecuteActivity(ctx, protocol.ActivityObserve, protocol.ObserveRequest{Call: call, Result: s.result}))
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
