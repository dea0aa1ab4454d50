package workflows

import (
	"fmt"
	"reflect"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// question opens the approval of an asked call and returns its key. Calls of one turn are opened in the model's order.
func (g *gate) question(ctx workflow.Context, req protocol.DecideRequest, d protocol.DecideResponse) string {
	now := workflow.Now(ctx)
	input, ref := finalInput(req, d)
	input = shown(input, ref)
	agent := req.Subject.Agent.Type
	if agent == "" {
		agent = workflow.GetInfo(ctx).WorkflowType.Name
	}
	q := approval.Approval{
		Tool: req.Tool.Name, Input: input, Why: d.Decision.Because(), DecidedBy: d.Decision.DecidedBy, Rule: d.Decision.Rule,
		Segments: d.Decision.Segments, AskedAt: now, Agent: agent, CallID: req.CallID,
		Seal: approval.Seal{RunID: d.RunID, ContentKey: g.contentKey(d), InputDigest: d.InputDigest,
			ContractHash: req.Tool.ContractHash, PolicyDigest: d.Decision.PolicyDigest},
	}
	if d.Approval != nil && d.Approval.Deadline > 0 {
		at := now.Add(d.Approval.Deadline)
		q.Deadline = &at
	}
	if d.Approval != nil {
		q.Approvers = d.Approval.Approvers
	}
	q.RequestedBy = req.Subject.RequestedBy
	q = g.ledger.Open(q)
	g.mail = append(g.mail, newMailbox(ctx, q))
	return q.Key
}

// ask waits for the answer to an open question, without an activity, a driver or, unless there is a deadline, a
// timer. It returns the permit, or the result that refuses.
func (g *gate) ask(ctx workflow.Context, key string, req protocol.DecideRequest, d protocol.DecideResponse) (*permit, tool.Result) {
	v := g.vigil(ctx, key, func() protocol.DecideRequest { return req }, &d)
	for {
		p, refused := v.attend(ctx)
		switch {
		case p != nil:
			return p, tool.Result{}
		case refused != nil:
			return nil, *refused
		}
		v.wait(ctx)
	}
}

// attend looks at what has come for a question. It returns the permit, or the result that refuses; neither if the question
// waits on.
func (v *vigil) attend(ctx workflow.Context) (*permit, *tool.Result) {
	for {
		ans, how, waits := v.next(ctx)
		if waits {
			v.sleep(ctx)
			return nil, nil
		}
		v.rise()
		p, refused := v.look(ctx, ans, how)
		if p != nil || refused != nil {
			v.end()
			return p, refused
		}
	}
}

// look acts on an answer, or on how the question ended without one. It returns neither a permit nor a refusal if the
// question is still open, perhaps under another key.
func (v *vigil) look(ctx workflow.Context, ans answer, how approval.How) (*permit, *tool.Result) {
	g, q := v.gate, v.question()
	closed := func(c approval.Closed) *tool.Result { r := g.closed(ctx, q, c); return &r }
	if how != "" {
		why := ""
		if how == approval.Cancelled {
			how, why = stopped(ctx)
		}
		return nil, closed(approval.Closed{How: how, Via: viaFor(how), Reason: why})
	}
	req, d := v.req(), *v.d
	resp := g.admit(ctx, q, req, d, ans)
	if ctx.Err() != nil {
		g.note(ctx, approval.Ignored{Key: q.Key, By: ans.by(), Via: ans.via, Why: withCancellation})
		v.dismiss(ctx, withCancellation)
		how, why := stopped(ctx)
		return nil, closed(approval.Closed{How: how, Via: viaWorkflow, Reason: why})
	}
	c := approval.Closed{How: resp.How, By: resp.By, Signed: resp.Signed, Reason: resp.Reason, Via: ans.via, Vetted: resp.Vetted}
	vote := approval.Vote{By: resp.By, Signed: resp.Signed, Reason: resp.Reason, At: workflow.Now(ctx),
		ExpiresAt: ans.resolution.ExpiresAt, Via: ans.via}
	switch resp.How {
	case approval.Counted:
		v.count(ctx, vote)
	case approval.Uncounted:
		v.uncount(ctx, ans, resp.Reason)
	case approval.Allowed:
		c.Edited = len(resp.Input) > 0 || resp.InputRef != nil
		c.Join(append(slices.Clone(q.Votes), vote))
		return g.granted(ctx, q, req, d, resp, c), nil
	case approval.Void:
		// The answer was given to another run of this history. The question is put again under a new key.
		closed(c)
		v.again(resp.RunID)
	case approval.Denied, approval.Revoked, approval.Expired:
		res := closed(c)
		if resp.DecidedBy != "" {
			*res = overruled(resp)
		}
		return nil, res
	default:
		c.How, c.Reason = approval.Denied, "the answer was admitted as nothing that is known: "+short(string(resp.How), 100)
		return nil, closed(c)
	}
	return nil, nil
}

// admit asks the worker whether an answer takes effect.
func (g *gate) admit(ctx workflow.Context, q approval.Approval, req protocol.DecideRequest, d protocol.DecideResponse, a answer) protocol.AdmitResponse {
	_, final := finalInput(req, d)
	defer g.place(ctx)()
	req.Under = nil
	var resp protocol.AdmitResponse
	ask := protocol.AdmitRequest{Question: q, Resolution: a.resolution, Via: a.via, Decide: req, Final: final, Now: workflow.Now(ctx)}
	if !d.Decision.Modified {
		ask.Question.Input = nil
	}
	err := recorded(ctx, workflow.ExecuteLocalActivity(g.local(ctx), g.cfg.Admit, ask), &resp)
	if err == nil && resp.Slow {
		resp = protocol.AdmitResponse{}
		err = recorded(ctx, g.slowly(ctx, req, false, " · admit", protocol.ActivityAdmitSlow, ask), &resp)
	}
	if err == nil && resp.Key != q.Key {
		err = fmt.Errorf("admission is about %q", resp.Key)
	}
	if err != nil {
		return protocol.AdmitResponse{Key: q.Key, How: approval.Denied,
			Reason: "the answer could not be admitted: " + short(err.Error(), 500)}
	}
	g.board.attributes.learn(ctx, resp.Attributes)
	return resp
}

// granted closes an allowed question and returns the permit of its call.
func (g *gate) granted(ctx workflow.Context, q approval.Approval, req protocol.DecideRequest, d protocol.DecideResponse,
	resp protocol.AdmitResponse, c approval.Closed) *permit {
	standing := g.stand(q.Key)
	g.vet(ctx, standing, resp)
	g.closed(ctx, q, c)
	d.RunID, d.Decision.PolicyDigest, d.InputDigest = resp.RunID, resp.PolicyDigest, resp.InputDigest
	p := g.permit(ctx, req, d)
	if len(resp.Input) > 0 || resp.InputRef != nil {
		p.input, p.inputRef, p.modified = resp.Input, resp.InputRef, true
	}
	p.expires = resp.Expires
	p.approved = &tool.Approved{Key: q.Key, By: c.By, Signed: c.Signed, Reason: resp.Reason}
	p.standing = standing
	return p
}

// mostVetted bounds the lines that one run adds: they go with every decision.
const mostVetted = 100

// vet takes the line that an answer adds, or says why there is none.
func (g *gate) vet(ctx workflow.Context, s *standing, resp protocol.AdmitResponse) {
	why := resp.NotVetted
	switch {
	case resp.Vetted != nil && len(g.vetted) < mostVetted:
		s.line = resp.Vetted
		g.vetted = append(slices.Clone(g.vetted), protocol.VettedLine{RunID: resp.RunID, Line: *resp.Vetted})
	case resp.Vetted != nil:
		why = fmt.Sprintf("%d lines hold for this run already", mostVetted)
	}
	if why != "" {
		g.note(ctx, approval.Ignored{Key: s.key, By: resp.By, Via: viaWorkflow, Why: "always adds no line: " + why + "; the answer is for this call alone"})
	}
}

// unvet takes back the line of an allow that is taken back.
func (g *gate) unvet(s *standing) {
	if s.line == nil {
		return
	}
	same := func(v protocol.VettedLine) bool { return reflect.DeepEqual(v.Line, *s.line) }
	if i := slices.IndexFunc(g.vetted, same); i >= 0 {
		g.vetted = slices.Delete(slices.Clone(g.vetted), i, i+1)
	}
}

// closed records how a question ended and returns the result of its call.
func (g *gate) closed(ctx workflow.Context, q approval.Approval, c approval.Closed) tool.Result {
	c.Key, c.At = q.Key, workflow.Now(ctx)
	g.ledger.Close(c)
	g.told(ctx, q, c)
	if box := g.box(q.Key); box != nil {
		// The first close wins; whoever came after it is told so.
		g.unbox(box)
		for _, a := range box.answers {
			if s := g.standing[q.Key]; s != nil && s.cause.revoked == nil && a.resolution.Decision == approval.Revoke {
				// It came while the allow was being admitted, and holds from then on.
				g.withdraw(s, a.resolution, a.via)
				g.withdrawn(ctx, s)
				continue
			}
			g.note(ctx, approval.Ignored{Key: q.Key, By: a.by(), Via: a.via, Why: (&approval.StateError{Key: q.Key, How: c.How}).Error()})
		}
	}
	g.board.details(ctx, g.ledger)
	var reason tool.Reason
	var msg string
	switch c.How {
	case approval.Denied:
		reason, msg = tool.ByPerson, "a person denied this call"
	case approval.Revoked:
		reason, msg = tool.ByRevoke, "the question was withdrawn"
	case approval.Expired:
		reason, msg = tool.ByExpiry, "the answer came too late"
		if c.Via == viaTimer {
			msg, c.By = "nobody answered in time", viaTimer
		}
	case approval.Cancelled:
		reason, msg = tool.ByCancel, "the run was cancelled while the call waited for an answer"
	default:
		reason, msg = tool.ByAbandon, "the question was dropped"
	}
	if c.Reason != "" {
		msg += ": " + c.Reason
	}
	return tool.Deny(reason, c.By, msg)
}

// overruled is the result of a call that a person allowed and that a second look denied.
func overruled(r protocol.AdmitResponse) tool.Result {
	by := string(r.DecidedBy)
	if r.Refuser != "" {
		by = r.Refuser
	}
	res := tool.Deny(reasonOf(r.DecidedBy), by, "a person allowed this call, and "+r.Reason)
	res.Failure.Issues = r.Invalid
	return res
}

func viaFor(how approval.How) string {
	if how == approval.Expired {
		return viaTimer
	}
	return viaWorkflow
}
