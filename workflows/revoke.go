package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// standing is an allow whose call has not ended: until then it can be revoked.
type standing struct {
	key   string
	cause *cause
	// line is set when the answer added one: it is taken back with the allow.
	line *permission.Vetted
	// stop cancels the call; nil until it has a context of its own.
	stop func()
	// dispatched says that the call is on its way to a worker.
	dispatched bool
}

// stand lets the call of a question that was just allowed be revoked.
func (g *gate) stand(key string) *standing {
	s := &standing{key: key, cause: &cause{}}
	if g.standing == nil {
		g.standing = map[string]*standing{}
	}
	g.standing[key] = s
	return s
}

// revocable gives an approved call a context that a revocation cancels. done takes the call's code; calls that nobody
// approved have nothing to revoke.
func (g *gate) revocable(ctx workflow.Context, p *permit) (_ workflow.Context, done func(tool.Code)) {
	s := p.standing
	if s == nil {
		return ctx, func(tool.Code) {}
	}
	s.cause.outer, _ = ctx.Value(causeKey{}).(*cause)
	ctx, stop := workflow.WithCancel(workflow.WithValue(ctx, causeKey{}, s.cause))
	if s.stop = stop; s.cause.revoked != nil {
		stop()
	}
	return ctx, func(code tool.Code) {
		stop()
		g.end(ctx, s.key, code)
	}
}

// begun ends the time in which an allow can be revoked: what it allowed takes no cancellation of its own.
func (g *gate) begun(ctx workflow.Context, p *permit) {
	if p.standing != nil {
		g.end(ctx, p.standing.key, tool.OK)
	}
}

func (g *gate) end(ctx workflow.Context, key string, code tool.Code) {
	delete(g.standing, key)
	g.ledger.End(key, code)
	g.board.details(ctx, g.ledger)
}

// dispatched notes that a call goes to a worker now.
func (g *gate) dispatched(p *permit) {
	if p.standing != nil {
		p.standing.dispatched = true
		g.ledger.Dispatch(p.standing.key)
	}
}

// revoke takes an allow back. It needs no admission: it gives nobody anything. A call that is not on its way yet never
// runs, which holds from this moment; one that is gets a cancellation.
func (g *gate) revoke(ctx workflow.Context, r approval.Resolution, via string) (dispatched bool) {
	s := g.standing[r.Key]
	if s == nil || s.cause.revoked != nil {
		why := "approval " + quoted(r.Key) + ": it was revoked before"
		if s == nil {
			why = (&approval.StateError{Key: r.Key, How: g.ledger.Ended(r.Key)}).Error() + ", and its call has ended"
		}
		g.ignore(ctx, approval.Ignored{Key: r.Key, By: short(r.By, mostBy), Via: via, Why: why})
		return false
	}
	g.withdraw(s, r, via)
	if via == viaSignal {
		// Outside of a coroutine the clock stands.
		g.notes++
		g.spawn(ctx, "assent revoke", func(ctx workflow.Context) {
			defer func() { g.notes-- }()
			g.withdrawn(ctx, s)
		})
	} else {
		g.withdrawn(ctx, s)
	}
	return s.dispatched
}

// withdraw makes a revocation hold.
func (g *gate) withdraw(s *standing, r approval.Resolution, via string) {
	s.cause.revoked = &approval.Revocation{By: short(r.By, mostBy), Reason: short(r.Reason, mostReason), Via: via, Dispatched: s.dispatched}
	g.ledger.Revoke(s.key, *s.cause.revoked)
	g.unvet(s)
}

// withdrawn stops the call of an allow that was taken back.
func (g *gate) withdrawn(ctx workflow.Context, s *standing) {
	s.cause.revoked.At = workflow.Now(ctx)
	g.ledger.RevokedAt(s.key, s.cause.revoked.At)
	if s.stop != nil {
		s.stop()
	}
	g.board.details(ctx, g.ledger)
}

const (
	// mostBy and mostReason bound what an answer says of itself, in bytes.
	mostBy     = 200
	mostReason = 2000
)

// revocation says who revoked the allow under which a context's call runs; nil if nobody did.
func revocation(ctx workflow.Context) *approval.Revocation {
	c, _ := ctx.Value(causeKey{}).(*cause)
	for ; c != nil; c = c.outer {
		if c.revoked != nil {
			return c.revoked
		}
	}
	return nil
}

// withdrawn reports whether a call may not start any more.
func withdrawn(ctx workflow.Context) bool { return ctx.Err() != nil || revocation(ctx) != nil }

// revoked says of a call that was cancelled because its allow was revoked that it was.
func revoked(ctx workflow.Context, r tool.Result) tool.Result {
	rev := revocation(ctx)
	if rev == nil || r.Failure == nil {
		return r
	}
	switch {
	case r.Code == tool.Denied && r.Failure.Reason == tool.ByCancel:
		return takenBack(rev)
	case r.Code == tool.Aborted:
		f := *r.Failure
		f.Message, f.Reason, f.By = "the approval was revoked while the call ran"+reasonFor(rev), tool.ByRevoke, rev.By
		r.Failure = &f
	}
	return r
}

// takenBack is the result of a call whose allow was revoked before it was sent.
func takenBack(rev *approval.Revocation) tool.Result {
	return tool.Deny(tool.ByRevoke, rev.By, "the approval was revoked before the call started"+reasonFor(rev))
}

func reasonFor(rev *approval.Revocation) string {
	if rev.Reason == "" {
		return ""
	}
	return ": " + rev.Reason
}

// expired is the result of a call that was permitted until a moment that has passed.
func expired() tool.Result {
	return tool.Deny(tool.ByExpiry, "", "the approval had expired before the call could start")
}

// notStarted is the result of a call that was cancelled before it was sent.
func notStarted() tool.Result {
	return tool.Deny(tool.ByCancel, "", "the run was cancelled before the call started")
}

// ended waits for a call of a workflow that is not an agent. Its error says that the call was cancelled because its
// allow was revoked, which the workflow may not take for a cancellation of its own.
func (g *gate) ended(ctx workflow.Context, f workflow.Future) (tool.Code, error) {
	err := f.Get(ctx, nil)
	switch rev := revocation(ctx); {
	case err == nil:
		return tool.OK, nil
	case rev == nil || !temporal.IsCanceledError(err):
		return tool.ToolError, nil
	}
	r := notStarted()
	var act *temporal.ActivityError
	retry := workflow.GetActivityOptions(ctx).RetryPolicy
	if !errors.As(err, &act) || act.StartedEventID() != 0 || retry == nil || retry.MaximumAttempts != 1 {
		// Of one that is tried again history does not tell that it never began.
		r = tool.Fail(tool.Aborted, "")
		r.Failure.Started = true
	}
	r = revoked(ctx, r)
	return r.Code, g.denied(r)
}

// checkRevoke says whether a revocation of key would be taken now.
func (g *gate) checkRevoke(key string) error {
	s := g.standing[key]
	switch {
	case s == nil:
		return notPending((&approval.StateError{Key: key, How: g.ledger.Ended(key)}).Error())
	case s.cause.revoked != nil:
		return notPending("approval " + quoted(key) + ": it was revoked before")
	}
	return nil
}

// accepted is the result of an update.
func accepted(r approval.Resolution, dispatched bool) protocol.Accepted {
	return protocol.Accepted{Key: r.Key, Decision: r.Decision, Dispatched: dispatched}
}
