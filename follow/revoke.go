package follow

import (
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/tool"
)

// revoke tells of an allow that is taken back, or why it cannot be.
func (r *Reader) revoke(a Answered) {
	_, standing := r.ledger.Grant(a.Key)
	switch {
	case !standing:
		a.Ignored = (&approval.StateError{Key: a.Key, How: r.ledger.Ended(a.Key)}).Error() + ", and its call has ended"
	case r.revoked[a.Key]:
		a.Ignored = (&approval.StateError{Key: a.Key, How: approval.Revoked}).Error()
	}
	r.answered(a)
	if a.Ignored == "" {
		r.takeBack(a)
	}
}

// takeBack takes back the allow of a call that has not ended.
func (r *Reader) takeBack(a Answered) {
	g, _ := r.ledger.Grant(a.Key)
	r.revoked[a.Key] = true
	rev := approval.Revocation{By: a.By, Reason: a.Reason, At: r.clock, Via: a.Via, Dispatched: g.Dispatched}
	r.ledger.Revoke(a.Key, rev)
	rev.Outcome = r.ending[a.Key]
	if !g.Dispatched {
		// From this moment on it cannot be sent.
		rev.Outcome = tool.Denied
		r.ledger.End(a.Key, tool.Denied)
	}
	r.tell(Event{Kind: ApprovalRevoked, Revoked: &Revoked{Key: g.Key, Tool: g.Tool, CallID: g.CallID, Revocation: rev}})
}

// granted is the allow under which a call runs, if it has not ended.
func (r *Reader) granted(is func(approval.Granted) bool) (approval.Granted, bool) {
	for _, g := range r.ledger.List().Granted {
		if is(g) {
			return g, true
		}
	}
	return approval.Granted{}, false
}

// sent notes that a call is on its way to a worker.
func (r *Reader) sent(callID string) {
	if g, ok := r.granted(func(g approval.Granted) bool { return g.CallID == callID }); ok {
		r.ledger.Dispatch(g.Key)
	}
}

// began notes that a call has begun which leaves no end in history: nothing of it can be revoked.
func (r *Reader) began(name string) {
	if g, ok := r.granted(func(g approval.Granted) bool { return g.Tool == name }); ok {
		r.ledger.End(g.Key, tool.OK)
	}
}

// callEnded notes that a call has ended, and what became of one that was revoked.
func (r *Reader) callEnded(c *Call, s *scheduled) {
	g, ok := r.granted(func(g approval.Granted) bool { return g.CallID == c.CallID })
	if !ok {
		return
	}
	code := tool.ToolError
	switch begun := !s.started.IsZero(); {
	case c.Result != nil:
		code = c.Result.Code
	case c.Error == cancelled && !begun && (s.once || r.agent):
		code = tool.Denied
	case c.Error == cancelled:
		code = tool.Aborted
	}
	if !r.revoked[g.Key] && r.mayRunAgain(c, s) {
		return
	}
	for _, closed := range r.ledger.List().Closed {
		if closed.Key == g.Key && closed.Revoked != nil {
			c.Revoked = &Revoked{Key: g.Key, Tool: g.Tool, CallID: g.CallID, Revocation: *closed.Revoked}
			c.Revoked.Outcome = code
		}
	}
	r.ending[g.Key] = code
}

// callsEnded notes that the workflow has taken the results that came: a revocation of the same task comes before that.
func (r *Reader) callsEnded() {
	for key, code := range r.ending {
		r.ledger.End(key, code)
	}
	clear(r.ending)
}

// mayRunAgain reports whether the workflow may send the same call once more.
func (r *Reader) mayRunAgain(c *Call, s *scheduled) bool {
	if c.Result != nil {
		return c.Result.Code == tool.ContractDrift
	}
	return r.agent && s.started.IsZero()
}

// allEnded notes that no call of before can be revoked.
func (r *Reader) allEnded() {
	r.callsEnded()
	for _, g := range r.ledger.List().Granted {
		r.ledger.End(g.Key, tool.OK)
	}
}

// abandoned notes that the run has ended, and what was on its way with it.
func (r *Reader) abandoned() {
	for _, g := range r.ledger.List().Granted {
		r.ledger.End(g.Key, "")
	}
}
