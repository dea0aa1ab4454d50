package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// mostState bounds what one run leaves to the next in bytes of JSON, its input included: what the server refuses would be
// tried for ever. A run whose state is larger goes on in its own history.
const mostState = protocol.MaxInput

// continueError ends a run that goes on in another one.
type continueError struct {
	in    protocol.AgentInput
	state protocol.AgentState
}

func (e *continueError) Error() string { return "the run continues as new" }

// as is the error by which the SDK continues.
func (e *continueError) as(ctx workflow.Context) error {
	return workflow.NewContinueAsNewError(ctx, protocol.WorkflowAgent, e.in, &e.state)
}

// due reports whether this history is long enough. A run that has done nothing yet never is, nor one of a schedule: the SDK
// does not hand a schedule on.
func (a *agent) due(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	if a.runTurns == 0 && a.gate.heard == 0 || info.CronSchedule != "" {
		return false
	}
	return info.GetContinueAsNewSuggested() || a.frozen.ContinueAfter > 0 && info.GetCurrentHistoryLength() >= a.frozen.ContinueAfter
}

// boundary continues as new between two turns, when everything of this one has ended.
func (a *agent) boundary(ctx workflow.Context, results []model.ToolResult) error {
	if !a.due(ctx) {
		return nil
	}
	for _, f := range a.observing {
		// The server drops what is still scheduled when a run ends. A failure of observers changes nothing.
		_ = f.Get(ctx, nil)
	}
	others(ctx)
	if ctx.Err() != nil || !a.gate.quiet() || len(a.gate.ledger.Asked()) > 0 {
		return nil
	}
	return a.next(ctx, results, nil)
}

// others lets every other coroutine run that can: an update which came with this task may not have had its turn.
func others(ctx workflow.Context) {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	had := false
	workflow.GoNamed(ctx, "assent others", func(workflow.Context) { had = true })
	// The context is never cancelled.
	_ = workflow.Await(ctx, func() bool { return had })
}

// parked reports whether a turn can be left to the next run: every call of it that has not ended waits for an answer, and
// nothing that has come is still to be looked at.
func (a *agent) parked(ctx workflow.Context, steps []*step) bool {
	if !a.due(ctx) || a.tooLarge || !a.gate.quiet() {
		return false
	}
	for _, f := range a.observing {
		if !f.IsReady() {
			return false
		}
	}
	for _, s := range steps {
		if s.state == stepDone {
			continue
		}
		if box := a.gate.box(s.key()); s.state != stepWaiting || box == nil || !box.quiet() {
			return false
		}
	}
	return true
}

// key is that of the question which the call waits for now: after a reset it is another one than it was asked with.
func (s *step) key() string {
	if s.vigil != nil {
		return s.vigil.box.key
	}
	return s.question
}

// quiet reports whether nothing is under way of which the next run would not know.
func (g *gate) quiet() bool {
	return len(g.inbox) == 0 && g.notes == 0 && len(g.standing) == 0 && !g.board.attributes.asking && (g.kin == nil || g.kin.forwarding == 0)
}

// next ends this run for the next one, unless there is too much to hand over.
func (a *agent) next(ctx workflow.Context, results []model.ToolResult, steps []*step) error {
	e := &continueError{in: *a.in, state: a.state(results, steps)}
	if n := weight(e.in) + weight(e.state); n > mostState || n > mostState/2 && a.gate.encoded(ctx, e) > mostReceived {
		if !a.tooLarge {
			workflow.GetLogger(ctx).Warn("assent: the history is long and the run does not continue as new: there is too much to hand over")
		}
		a.tooLarge = true
		return nil
	}
	digest, err := e.state.Digest(e.in)
	if err != nil {
		// It was measured as JSON.
		panic(err)
	}
	info := workflow.GetInfo(ctx)
	grant := a.gate.cfg.Keys.Sign(protocol.Grant{CallID: protocol.StateCall, RunID: info.WorkflowExecution.RunID, InputDigest: digest},
		protocol.StatePlace(info.Namespace, info.WorkflowExecution.ID))
	e.state.Grant = &grant
	// What still unwinds must not put signs up in a run that has ended.
	a.gate.leaving, a.gate.board.leaving = true, true
	return e
}

// encoded is what a next run is left as the team's converter makes it: a codec may make more of it. It is recorded, because
// that may be another size when the history replays.
func (g *gate) encoded(ctx workflow.Context, e *continueError) (size int) {
	dc := g.converter(ctx)
	err := workflow.SideEffect(ctx, func(workflow.Context) any {
		payloads, err := dc.ToPayloads(e.in, &e.state)
		if err != nil {
			panic(err)
		}
		return payloads.Size()
	}).Get(&size)
	if err != nil {
		panic(err)
	}
	return size
}

// unless cancels what a run has begun, unless the next run takes it over.
func (g *gate) unless(stop func()) {
	if !g.leaving {
		stop()
	}
}

func (a *agent) state(results []model.ToolResult, steps []*step) protocol.AgentState {
	b := &a.gate.board
	s := protocol.AgentState{
		AgentRun: a.id, Runs: a.runs + 1, Started: a.started, Frozen: a.thawed(),
		Transcript: a.transcript, Earlier: a.earlier, Output: a.output, Spent: a.spent, Turns: a.turns, LifeTurns: a.lifeTurns,
		Calls: a.calls, Asked: a.asked, Restarts: a.restarts, Idle: a.idle, OverCalls: a.overCalls, Seen: a.seenList, Retries: a.retries,
		Escalated: a.escalation, Progress: a.progress, HostQueue: a.env.held().queue, Lease: a.env.lease(),
		Ledger: a.gate.ledger.Save(), Vetted: a.gate.vetted, Results: results,
		Board: protocol.BoardState{Status: b.status, Shown: b.shown, Memo: b.memo},
	}
	for _, st := range steps {
		s.Steps = append(s.Steps, a.gate.stateOf(st))
	}
	return s
}

func (g *gate) stateOf(s *step) protocol.StepState {
	out := protocol.StepState{CallID: s.id, Asked: s.asked}
	if s.state == stepDone {
		out.Result, out.Ran, out.Observed = s.result, s.ran(), s.observed()
		if s.ran() && (s.asked.Name == nameEscalate || s.asked.Name == nameProgress) {
			out.Final = s.final()
		}
		return out
	}
	out.Question, out.Decision, out.Reminded = s.key(), s.decision, g.box(s.key()).vigil.reminded
	return out
}

// takeOver makes this run what the one before it was. Answers that have come already find their questions. The error of a
// state that no gate has left ends the run.
func (a *agent) takeOver(ctx workflow.Context, s *protocol.AgentState) error {
	g := a.gate
	a.id, a.started, a.runs, a.held = s.AgentRun, s.Started, s.Runs, s
	a.freeze(s.Frozen)
	a.transcript, a.earlier, a.output, a.spent, a.turns, a.lifeTurns = s.Transcript, s.Earlier, s.Output, s.Spent, s.Turns, s.LifeTurns
	a.calls, a.asked, a.restarts, a.idle, a.overCalls, a.retries = s.Calls, s.Asked, s.Restarts, s.Idle, s.OverCalls, s.Retries
	a.escalation, a.progress, a.seenList = s.Escalated, s.Progress, s.Seen
	for _, sum := range s.Seen {
		a.see(sum)
	}
	a.env = environment{dir: a.frozen.Dir}
	if s.Lease != nil {
		a.env.hold(s.HostQueue, *s.Lease)
	}
	g.ledger.Load(s.Ledger)
	g.board.takeOver(a.in.AgentType, s.Board)
	g.board.attributes.learn(ctx, &a.frozen.Attributes)
	for _, key := range g.ledger.Asked() {
		g.mail = append(g.mail, &mailbox{key: key})
	}
	if err := g.hear(ctx); err != nil {
		return configError(err)
	}
	g.board.busy()
	if err := a.stamp(ctx, s); err != nil {
		return err
	}
	// What was carried of the input was valid when the agent began.
	return a.index(ctx)
}

// stamp takes questions, lines and the tree into this run, which the worker that runs it names: those that stood in the run that it
// continues. What belongs to another one, from before a reset, stays what it is; so does everything when this run is itself
// a reset to the beginning of another one, whose answers the server delivers again.
func (a *agent) stamp(ctx workflow.Context, s *protocol.AgentState) error {
	g, before := a.gate, workflow.GetInfo(ctx).ContinuedExecutionRunID
	digest, err := s.Digest(*a.in)
	if err != nil {
		return configError(err)
	}
	// A cancelled run has questions to close as well.
	after, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var now protocol.ContinueResponse
	err = recorded(ctx, workflow.ExecuteLocalActivity(g.insistent(after), g.cfg.Continue,
		protocol.ContinueRequest{Before: before, Digest: digest, Grant: s.Grant}), &now)
	switch {
	case err == nil && now.RunID == "":
		err = errors.New("the worker does not name the run")
	case err == nil && now.Refused != "":
		err = errors.New(now.Refused)
	}
	if err != nil {
		return temporal.NewNonRetryableApplicationError("what the run before has left is refused: "+short(err.Error(), mostError), protocol.ErrorDenied, nil)
	}
	a.told = now.RunID
	g.board.attributes.learn(ctx, now.Attributes)
	if now.RunID != workflow.GetInfo(ctx).OriginalRunID {
		g.board.details(ctx, g.ledger)
		return nil
	}
	if l := s.Lease; l != nil && l.Run == before {
		moved := *l
		moved.Run = now.RunID
		a.env.hold(s.HostQueue, moved)
	}
	for _, q := range s.Ledger.Open {
		if q.StandsIn() == before {
			g.ledger.Stamp(q.Key, now.RunID)
		}
	}
	for _, v := range s.Vetted {
		if v.RunID == before {
			g.vetted = append(g.vetted, protocol.VettedLine{RunID: now.RunID, Line: v.Line})
		}
	}
	g.board.details(ctx, g.ledger)
	return nil
}

// insistent is local for what an agent cannot go on without.
func (g *gate) insistent(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: g.cfg.DecideTimeout, ScheduleToCloseTimeout: slowDecision,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumInterval: 10 * time.Second},
	})
}

// resume goes on with a turn in whose midst the run before has ended.
func (a *agent) resume(ctx workflow.Context, held []protocol.StepState) ([]model.ToolResult, protocol.Status, error) {
	steps := make([]*step, len(held))
	for i := range held {
		h := &held[i]
		s := &step{asked: h.Asked, id: h.CallID, facts: a.tools.tool(h.Asked.Name), result: unended, state: stepDone}
		q, open := a.gate.ledger.Question(h.Question)
		switch {
		case h.Result != nil:
			s.end(*h.Result)
			s.taken = h
		case open && h.Decision != nil:
			s.state, s.question, s.decision, s.vetted = stepWaiting, q.Key, h.Decision, a.gate.vetted
			a.gate.wait(ctx, q, h.Reminded)
		default:
			s.end(tool.Fail(tool.EffectUnknown, "what became of the call was lost between two runs"))
		}
		steps[i] = s
	}
	return a.perform(ctx, steps)
}

// wait makes the mailbox of a question that another run has asked one of this run.
func (g *gate) wait(ctx workflow.Context, q approval.Approval, reminded time.Time) {
	box := g.box(q.Key)
	box.open(ctx, q)
	box.reminded = &reminded
}

// hear takes the answers that came before the run knew its questions.
func (g *gate) hear(ctx workflow.Context) error {
	g.deaf = false
	for ; len(g.inbox) > 0; g.inbox = g.inbox[1:] {
		g.signal(ctx, g.inbox[0])
	}
	return g.takeUpdates(ctx)
}

// continues reports whether the server says that this run continues another one as it was: not one that a schedule began
// anew or that is tried again, whose input is its starter's.
func continues(info *workflow.Info) bool {
	return info.ContinuedExecutionRunID != "" && info.CronSchedule == "" && info.Attempt <= 1
}
