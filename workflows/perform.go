package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// performance is a turn whose calls are on their way from decision to result. What waits, for an answer or for its turn to
// run, has no coroutine: the SDK wakes each with every task, and each keeps its stack while a run is parked for days.
type performance struct {
	agent *agent
	// outer is the context of the run, ctx that of what the turn has begun. stop ends it, and why says so when the environment is
	// gone: nobody needs to answer any more. While every call waits nothing would end with it, and there is none.
	outer, ctx workflow.Context
	stop       func()
	why        *cause
	steps      []*step
	// left counts the calls that have no result.
	left int
}

// perform takes the calls of a turn, each with what was decided on it, through their questions to their results: one for each, in
// the model's order. What is asked about waits, and the others go on.
func (a *agent) perform(ctx workflow.Context, steps []*step) ([]model.ToolResult, protocol.Status, error) {
	return a.performance(ctx, steps).goOn()
}

// goOn does what can be done, and leaves the turn with errWaits when nothing can. A run that is long enough leaves calls that
// wait to the next one, if nothing else is left to do.
func (p *performance) goOn() ([]model.ToolResult, protocol.Status, error) {
	a := p.agent
	for p.left > 0 {
		if p.begin() {
			continue
		}
		if !p.awaited() {
			a.turn = p
			return nil, "", errWaits
		}
		if p.left == 0 || p.ready() {
			continue
		}
		if others(p.ctx); !p.parked() {
			continue
		}
		if err := a.next(p.ctx, nil, p.steps); err != nil {
			return nil, "", err
		}
	}
	if p.stop != nil {
		defer p.stop()
	}
	a.gate.board.busy()
	out, err := a.collect(p.ctx, p.steps)
	if err != nil {
		return nil, protocol.Failed, err
	}
	return out, "", nil
}

// performance begins with the calls of a turn that have no result.
func (a *agent) performance(ctx workflow.Context, steps []*step) *performance {
	p := &performance{agent: a, outer: ctx, ctx: ctx, steps: steps}
	for _, s := range steps {
		if s.state != stepDone {
			p.left++
			a.gate.board.busy()
		}
	}
	// The turn itself does not keep the run from being suspended.
	a.gate.board.free(ctx, a.gate.ledger)
	return p
}

// rouse makes the context of what begins, rest ends it when all that has not ended waits for an answer.
func (p *performance) rouse() {
	if p.stop != nil {
		return
	}
	p.why = &cause{}
	p.why.outer, _ = p.outer.Value(causeKey{}).(*cause)
	p.ctx, p.stop = workflow.WithCancel(workflow.WithValue(p.outer, causeKey{}, p.why))
}

func (p *performance) rest() {
	waiting := 0
	for _, s := range p.steps {
		if s.state == stepWaiting && !s.attended {
			waiting++
		}
	}
	if p.stop == nil || p.ctx.Err() != nil || waiting < p.left {
		return
	}
	p.stop()
	p.ctx, p.stop, p.why = p.outer, nil, nil
}

// wait returns when something can be done.
func (p *performance) wait() { _ = workflow.Await(p.until()) }

// until is what a turn waits for, and the context in which it does. When the run is cancelled what is left ends by itself, and
// is awaited as well.
func (p *performance) until() (workflow.Context, func() bool) {
	if p.outer.Err() == nil {
		return p.outer, p.awaited
	}
	ctx, _ := workflow.NewDisconnectedContext(p.outer)
	return ctx, p.awaited
}

func (p *performance) awaited() bool { return p.left == 0 || p.ready() || p.parked() }

// parked reports whether the rest of the turn can be left to the next run.
func (p *performance) parked() bool { return p.ctx.Err() == nil && p.agent.parked(p.ctx, p.steps) }

// ready reports whether begin would find something to do.
func (p *performance) ready() bool {
	if p.stirred() != nil {
		return true
	}
	s, _ := p.upNext()
	return s != nil
}

// begin takes one call further, if one can go on, and reports whether one could.
func (p *performance) begin() bool {
	if s := p.stirred(); s != nil {
		take := p.sleep
		if s.vigil != nil || p.ctx.Err() != nil || p.agent.gate.box(s.question).stirred() {
			p.rouse()
			take = p.look
		}
		s.attended = true
		p.aside(s, func(ctx workflow.Context) {
			defer func() { s.attended = false }()
			take(ctx, s)
		})
		return true
	}
	s, more := p.upNext()
	if s == nil {
		return false
	}
	p.rouse()
	s.state = stepRunning
	if more && s.concurrent() || p.asked() {
		p.aside(s, func(ctx workflow.Context) { p.finish(ctx, s) })
	} else {
		// Until it has ended the turn has nothing else to begin.
		p.finish(p.ctx, s)
	}
	return true
}

func (p *performance) aside(s *step, f func(workflow.Context)) {
	workflow.GoNamed(p.ctx, s.id, func(ctx workflow.Context) {
		f(ctx)
		p.rest()
	})
}

// asked reports whether a call has a question that is not settled.
func (p *performance) asked() bool {
	for _, s := range p.steps {
		if s.state == stepWaiting || s.attended {
			return true
		}
	}
	return false
}

// stirred is the first call that waits for an answer and for which something has come: an answer, a timer, or the end of the
// run. One that has not begun to wait is looked at once.
func (p *performance) stirred() *step {
	for _, s := range p.steps {
		if s.state == stepWaiting && !s.attended && (s.vigil == nil || p.ctx.Err() != nil || s.vigil.stirred()) {
			return s
		}
	}
	return nil
}

// sleep lets a call wait for which nothing has come. It needs no context of the turn: the SDK would keep, for the run's life, 256
// bytes for the first one that a run had. What comes meanwhile is looked at next.
func (p *performance) sleep(ctx workflow.Context, s *step) {
	if v := p.vigil(s); ctx.Err() == nil && !v.stirred() {
		v.sleep(ctx)
	}
}

// look takes a call for which something has come as far as it goes.
func (p *performance) look(ctx workflow.Context, s *step) {
	if p.attend(ctx, s) {
		p.finish(ctx, s)
	}
}

// vigil waits for the answers to a call's question. It lives longer than any coroutine and than the turn's context.
func (p *performance) vigil(s *step) *vigil {
	if s.vigil == nil {
		a := p.agent
		s.vigil = a.gate.vigil(p.outer, s.question, func() protocol.DecideRequest { return a.request(s) }, s.decision)
	}
	return s.vigil
}

// attend looks at what has come for a call that waits, and reports whether its question is settled.
func (p *performance) attend(ctx workflow.Context, s *step) bool {
	a := p.agent
	permit, refused := p.vigil(s).attend(ctx)
	switch {
	case permit != nil:
		a.gate.board.goesOn(ctx, a.gate.ledger)
		s.permit, s.state = permit, stepReady
	case refused != nil:
		s.result, s.state = refused, stepDone
	}
	return s.state != stepWaiting
}

// finish runs a call that is permitted.
func (p *performance) finish(ctx workflow.Context, s *step) {
	a := p.agent
	defer func() { p.left-- }()
	defer a.gate.board.free(ctx, a.gate.ledger)
	defer func() { s.state = stepDone }()
	if s.state == stepDone {
		return
	}
	ctx, done := a.gate.revocable(ctx, s.permit)
	defer func() { done(s.result.Code) }()
	if s.state == stepReady {
		// Waiting for a place ends with the run; dispatch then says so.
		_ = workflow.Await(ctx, func() bool { return mayRun(p.steps, s) })
		s.state = stepRunning
	}
	if s.facts.Value().Remote != nil {
		s.end(a.foreign(ctx, s))
	} else {
		s.end(revoked(ctx, a.gate.dispatch(ctx, s.permit, a.callOf(s), a.env.held().queue)))
	}
	if s.permit.modified {
		s.result.FinalInput = s.permit.shown()
	}
	if s.result.Code == tool.EnvironmentLost {
		p.why.text = "the agent's environment was lost"
		p.stop()
	}
}

// upNext is the first call that nobody had to be asked about and that may run now, if there is one; in a run that was
// cancelled each may, and is told so. more says that others have not begun.
func (p *performance) upNext() (next *step, more bool) {
	for _, s := range p.steps {
		switch {
		case s.state != stepReady || s.question != "":
		case next != nil:
			return next, true
		case p.ctx.Err() != nil || mayRun(p.steps, s):
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
