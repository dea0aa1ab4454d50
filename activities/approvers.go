package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
)

// answerable refuses policies whose questions nobody could ever allow.
func (e *Engine) answerable(profile string, layers ...permission.Layer) error {
	check := func(p *permission.ApprovalPolicy) error {
		if p == nil {
			return nil
		}
		groups := []string(nil)
		if p.Approvers != nil {
			groups = append(groups, p.Approvers.Groups...)
		}
		if p.Escalate != nil {
			groups = append(groups, p.Escalate.Groups...)
		}
		where := "in the engine's layer"
		if profile != "" {
			where = "in profile \"" + profile + "\""
		}
		for _, g := range groups {
			if _, ok := e.cfg.Approvers.Groups[g]; !ok {
				return fault.Configf("approval", "%s: unknown group %q; Approvers.Groups names its members", where, g)
			}
		}
		if n := e.cfg.Approvers.Short(*p); n > 0 {
			return fault.Configf("approval.approvers", "%s: the groups have %d members too few for %d to answer", where, n, max(p.Approvers.Min, 1))
		}
		return nil
	}
	for _, l := range layers {
		if err := check(l.Approval); err != nil {
			return err
		}
		for _, r := range l.Ask {
			if err := check(r.Approval); err != nil {
				return err
			}
		}
	}
	return nil
}

// authority is who gives an answer.
type authority struct {
	name   string
	signed bool
}

// authorize says who gives the answer r, and why it is none (*approval.SignatureError), or an allow that does not count
// (*approval.UnentitledError).
//
// An approver of the engine's own proves its name no more than others: whoever may complete activities of the namespace can
// write what it returns.
func (e *Engine) authorize(q approval.Approval, r approval.Resolution) (authority, error) {
	name, signed, err := e.cfg.Approvers.Principal(q, r)
	a := authority{name: cut(name, 200), signed: signed}
	if err != nil {
		a.name = cut(r.By, 200)
		return a, err
	}
	if r.Decision != approval.Allow {
		return a, nil
	}
	return a, e.cfg.Approvers.Entitled(q, name, signed)
}

// CheckAnswer says why an answer that comes as an update would not take effect, so that its sender can be told. It looks
// at the answer alone; whether policy and guards let the call through is for the admission. now is the time of the server.
func (e *Engine) CheckAnswer(q approval.Approval, r approval.Resolution, now time.Time) error {
	if r.Decision == approval.Allow && r.ExpiresAt != nil && now.After(*r.ExpiresAt) {
		return errors.New("expiresAt has passed")
	}
	if len(r.Input) > 0 && r.Decision == approval.Allow && q.Needs() > 1 {
		return errors.New(noEdits)
	}
	_, err := e.authorize(q, r)
	return err
}

// noEdits says why a question that several have to answer takes no other arguments: each would answer another one.
const noEdits = "the arguments of a call that several people have to allow cannot be edited; deny it with a reason"

// AssentAskApprover is the activity that puts a question to the approver that is mounted on a worker. An approver that
// was cut short because its worker stops is asked again elsewhere; it is no reason to deny.
func AssentAskApprover(ctx context.Context, req protocol.ApproverRequest) (protocol.ApproverResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.ApproverResponse{}, err
	}
	return e.askApprover(ctx, req)
}

func (e *Engine) askApprover(ctx context.Context, req protocol.ApproverRequest) (protocol.ApproverResponse, error) {
	defer heartbeats(ctx)()
	q := req.Question
	input, err := e.load(ctx, req.Call.Store, req.Call.Input, req.Call.InputRef)
	if err != nil {
		return protocol.ApproverResponse{}, err
	}
	sum, err := digest(input)
	if err != nil || sum != q.Seal.InputDigest {
		return protocol.ApproverResponse{Decision: approval.Deny, Reason: "the arguments are not those that were asked about"}, nil
	}
	call := pipeline.Call{ID: req.Call.ID, Name: req.Call.Name, Input: input, Agent: req.Call.Agent,
		RunID: activity.GetInfo(ctx).WorkflowExecution.RunID, Dir: req.Call.Dir, Isolation: req.Call.Isolation, Modified: req.Call.Modified}
	call.Info.Name, call.Info.Risk = req.Call.Name, req.Risk
	if def := e.served(req.Call); def != nil {
		call.Info = def.Info()
	}
	ctx, cancel := ahead(ctx)
	defer cancel()
	answer, by, err := e.cfg.Pipeline.Approve(ctx, call, permission.Decision{Verdict: permission.Ask, DecidedBy: q.DecidedBy,
		Rule: q.Rule, Segments: q.Segments, Reason: q.Why, Input: input, PolicyDigest: q.Seal.PolicyDigest})
	switch {
	case errors.Is(err, pipeline.ErrUnavailable):
		return protocol.ApproverResponse{Unavailable: true}, nil
	case err != nil && stopping(ctx):
		// Another worker asks its own.
		return protocol.ApproverResponse{}, errWorkerStopped
	case err == nil && answer.Verdict == permission.Allow:
		return protocol.ApproverResponse{Decision: approval.Allow, By: cut(by, 200), Reason: cut(answer.Reason, 2000)}, nil
	}
	return protocol.ApproverResponse{Decision: approval.Deny, By: cut(by, 200), Reason: cut(answer.Reason, 2000)}, nil
}
