package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// AssentDecide is the local activity that decides on one call. It is a top-level function whose name is in every
// history.
func AssentDecide(ctx context.Context, req protocol.DecideRequest) (protocol.DecideResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.DecideResponse{}, err
	}
	resp, err := e.decide(ctx, req, false)
	return resp.Brief(req.Under), err
}

// AssentDecideSlow is the same decision in a normal activity, for chains whose hooks wait for other systems. Hooks have
// no effects, so one that was cut short because its worker stops is asked again elsewhere; it is no reason to deny.
func AssentDecideSlow(ctx context.Context, req protocol.DecideRequest) (protocol.DecideResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.DecideResponse{}, err
	}
	defer heartbeats(ctx)()
	resp, err := e.decide(ctx, req, true)
	if err == nil && resp.Decision.Failed && stopping(ctx) {
		return protocol.DecideResponse{}, errWorkerStopped
	}
	return resp, err
}

func (e *Engine) decide(ctx context.Context, req protocol.DecideRequest, slow bool) (protocol.DecideResponse, error) {
	resp := protocol.DecideResponse{CallID: req.CallID, Tool: req.Tool.Name, RunID: activity.GetInfo(ctx).WorkflowExecution.RunID}
	req.Subject.Vetted = ofRun(req.Subject.Vetted, resp.RunID)
	if req.Unencoded != "" {
		resp.Decision = failedDecision(errors.New(req.Unencoded))
		return resp, nil
	}
	chain, err := e.chain(req.Subject)
	if err != nil {
		resp.Decision = failedDecision(err)
		return resp, nil
	}
	if chain.HasSlow() && !slow {
		resp.Slow = true
		return resp, nil
	}
	info, validate, drift := e.subjectTool(ctx, req.Tool)
	if drift != "" {
		resp.Drift = drift
		return resp, nil
	}
	if err := e.sameStore(req.Store); err != nil {
		return resp, err
	}
	input, err := e.load(ctx, req.Store, req.Input, req.InputRef)
	if err != nil {
		return resp, err
	}
	resp.Decision = e.judge(ctx, chain, req, info, input, validate)
	if resp.Decision.Verdict == permission.Ask {
		resp.Attributes = e.attributesNow(ctx)
	}
	return e.record(ctx, resp, chain, input, req.Room)
}

// judge runs stage 1 with the chain inside and the guards.
func (e *Engine) judge(ctx context.Context, chain *permission.Chain, req protocol.DecideRequest, info tool.Info,
	input json.RawMessage, validate func(json.RawMessage) []tool.Issue) permission.Decision {
	ctx, cancel := ahead(ctx)
	defer cancel()
	agent := req.Subject.Agent
	call := pipeline.Call{ID: req.CallID, Name: info.Name, Input: input, Info: info, Agent: &agent,
		RunID: activity.GetInfo(ctx).WorkflowExecution.RunID, Dir: req.Subject.Dir, Isolation: req.Subject.Isolation}
	d := e.cfg.Pipeline.Judge(ctx, call, func(ctx context.Context) permission.Decision {
		return chain.Decide(ctx, permission.Call{Tool: info, Input: input, Dir: req.Subject.Dir,
			Isolation: req.Subject.Isolation, Agent: &agent}, validate)
	}, req.Guards)
	if d.PolicyDigest == "" {
		d.PolicyDigest = chain.Digest()
	}
	return d
}

// ahead ends a little before the time of the activity is over, so that the layer that somebody waits for denies by its
// name, and not the clock by nobody's.
func ahead(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/10, 5*time.Second)))
}

// subjectTool returns the tool as it was frozen, with this worker's validation. drift says why this worker cannot
// serve it.
func (e *Engine) subjectTool(ctx context.Context, f protocol.ToolFacts) (info tool.Info, validate func(json.RawMessage) []tool.Issue, drift string) {
	info = tool.Info{Name: f.Name, Risk: f.Risk, NeedsApproval: f.NeedsApproval, Idempotent: f.Idempotent,
		Concurrent: f.Concurrent, Timeout: f.Timeout, Remote: f.Remote}
	if f.ActivityType != "" {
		// A team's own activity: its schema, if it has one, is its own business.
		return info, nil, ""
	}
	def, drift := e.frozen(ctx, f, false)
	if drift != "" {
		return info, nil, drift
	}
	own := def.Info()
	info.Description, info.Parameters, info.Version, info.Executor = own.Description, own.Parameters, own.Version, own.Executor
	return info, def.Validate, ""
}

// ofRun leaves out lines that were added in another run: an answer that was given before a reset opens nothing after it.
func ofRun(lines []protocol.VettedLine, run string) []protocol.VettedLine {
	return slices.DeleteFunc(slices.Clone(lines), func(v protocol.VettedLine) bool { return v.RunID != run })
}

func failedDecision(err error) permission.Decision {
	return permission.Decision{Verdict: permission.Deny, DecidedBy: permission.ByDefault, Reason: cut(err.Error(), mostError)}
}

// record makes a decision small enough for its marker: an oversized one would loop the workflow task.
func (e *Engine) record(ctx context.Context, resp protocol.DecideResponse, chain *permission.Chain, input json.RawMessage, room int) (protocol.DecideResponse, error) {
	if room <= 0 || room > protocol.MaxDecision {
		room = protocol.MaxDecision
	}
	d := &resp.Decision
	final := input
	if d.Modified {
		final = d.Input
	}
	var err error
	if d.Verdict != permission.Deny {
		if resp.InputDigest, err = digest(final); err != nil {
			return resp, err
		}
	}
	if d.Verdict == permission.Ask {
		if resp.ContentKey, err = approval.ContentKey(resp.Tool, final); err != nil {
			return resp, err
		}
		policy := chain.ApprovalFor(*d)
		resp.Approval, resp.Approver = &policy, e.cfg.Pipeline.HasApprover()
	}
	switch {
	case !d.Modified:
		d.Input = nil
	case size(d.Input) > min(protocol.InlineInput, room/2):
		ref, err := e.cfg.Blobs.Put(ctx, d.Input)
		if err != nil {
			return resp, err
		}
		d.Input, resp.InputRef = nil, &ref
	}
	resp = shrink(resp, room)
	if resp.Approval != nil && size(resp) > room {
		resp.Decision.Reason = cut(resp.Decision.Reason, shortest)
	}
	if resp.Approval != nil && size(resp) > room {
		// Who may answer cannot be left out, and many such questions together would end the run.
		d := failedDecision(fmt.Errorf("how the question is put takes %d bytes, and there is room for %d", size(resp.Approval), room))
		d.Failed, d.PolicyDigest = true, resp.Decision.PolicyDigest
		resp = protocol.DecideResponse{CallID: resp.CallID, Tool: resp.Tool, RunID: resp.RunID, Decision: d}
	}
	return resp, nil
}

// shrink drops explanations until the decision fits, the rule last; the verdict, the digests and how a question is put always
// stay.
func shrink(resp protocol.DecideResponse, room int) protocol.DecideResponse {
	d := &resp.Decision
	most := min(4<<10, room/8)
	if len(d.Reason) > most {
		d.Reason = cut(d.Reason, most)
	}
	if len(d.Invalid) > 50 {
		d.Invalid = d.Invalid[:50]
	}
	for size(resp) > room {
		switch {
		case len(d.Segments) > 0:
			d.Segments = nil
			d.Reason = cut(d.Reason, most) + " (the explanation of the segments is too large to record)"
		case len(d.Advisories) > 0:
			d.Advisories = nil
		case len(d.Invalid) > 0:
			d.Invalid = d.Invalid[:len(d.Invalid)/2]
		case d.Rule != nil:
			d.Rule = nil
		default:
			return resp
		}
	}
	return resp
}

// shortest is what is left of a reason when nothing else can be left out, in bytes.
const shortest = 256

func size(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return len(b)
}

// AssentAdmit is the local activity that decides whether an answer takes effect.
func AssentAdmit(ctx context.Context, req protocol.AdmitRequest) (protocol.AdmitResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.AdmitResponse{}, err
	}
	return e.admit(ctx, req, false)
}

// AssentAdmitSlow is the same in a normal activity, for chains whose hooks wait for other systems; see AssentDecideSlow.
func AssentAdmitSlow(ctx context.Context, req protocol.AdmitRequest) (protocol.AdmitResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.AdmitResponse{}, err
	}
	defer heartbeats(ctx)()
	resp, err := e.admit(ctx, req, true)
	if err == nil && resp.How == approval.Denied && resp.DecidedBy != "" && stopping(ctx) {
		return protocol.AdmitResponse{}, errWorkerStopped
	}
	return resp, err
}

func (e *Engine) admit(ctx context.Context, req protocol.AdmitRequest, slow bool) (protocol.AdmitResponse, error) {
	q, r := req.Question, req.Resolution
	resp := protocol.AdmitResponse{Key: q.Key, RunID: activity.GetInfo(ctx).WorkflowExecution.RunID,
		Reason: cut(r.Reason, 2000), How: approval.Denied, Attributes: e.attributesNow(ctx)}
	req.Decide.Subject.Vetted = ofRun(req.Decide.Subject.Vetted, resp.RunID)
	who, bad := e.authorize(q, r)
	resp.By, resp.Signed = who.name, who.signed
	unentitled := new(approval.UnentitledError)
	until := r.ExpiresAt
	for _, v := range q.Votes {
		if v.ExpiresAt != nil && (until == nil || v.ExpiresAt.Before(*until)) {
			until = v.ExpiresAt
		}
	}
	switch {
	case q.StandsIn() != resp.RunID:
		// A reset delivers old answers again, and whoever answers may have read the question of the run before.
		resp.How, resp.Reason = approval.Void, "the question was asked before the run was reset; it is open again under a new key"
		return resp, nil
	case errors.As(bad, &unentitled):
		resp.How, resp.Reason = approval.Uncounted, unentitled.Why
		return resp, nil
	case bad != nil:
		// A signature that proves nothing is no allow, whoever sent it.
		resp.Reason = bad.Error()
		return resp, nil
	case r.Decision == approval.Revoke:
		resp.How = approval.Revoked
		return resp, nil
	case r.Decision != approval.Allow:
		return resp, nil
	case until != nil && now(req.Now).After(*until):
		resp.How, resp.Reason = approval.Expired, "an allow arrived after the moment until which it was good"
		return resp, nil
	case len(r.Input) > 0 && q.Needs() > 1:
		resp.How, resp.Reason = approval.Uncounted, noEdits
		return resp, nil
	}
	if until != nil {
		resp.Expires = until.Unix()
	}
	return e.rejudge(ctx, req, resp, slow)
}

// rejudge judges an allowed call again: policy and guards may have changed since the question, and an edit is a
// call that nobody has judged yet. A deny wins; otherwise exactly what the person saw, or wrote, runs.
func (e *Engine) rejudge(ctx context.Context, req protocol.AdmitRequest, resp protocol.AdmitResponse, slow bool) (protocol.AdmitResponse, error) {
	q := req.Question
	chain, err := e.chain(req.Decide.Subject)
	if err != nil {
		resp.DecidedBy, resp.Reason = permission.ByDefault, "the policy cannot be read: "+cut(err.Error(), 500)
		return resp, nil
	}
	if chain.HasSlow() && !slow {
		resp.Slow = true
		return resp, nil
	}
	if err := e.sameStore(req.Decide.Store); err != nil {
		return resp, err
	}
	info, validate, drift := e.subjectTool(ctx, req.Decide.Tool)
	edited := len(req.Resolution.Input) > 0
	switch {
	case drift != "" && edited:
		resp.DecidedBy, resp.Reason = permission.ByDefault, "the edited arguments cannot be checked: "+drift
		return resp, nil
	case drift != "" && req.Decide.Tool.Remote != nil:
		// No worker of ours runs it, so nobody else would notice.
		resp.DecidedBy, resp.Reason = permission.ByDefault, "the call cannot be made any more: "+drift
		return resp, nil
	}
	input, err := e.asked(ctx, req)
	if err != nil {
		return resp, err
	}
	sum, err := digest(input)
	if err != nil {
		resp.DecidedBy, resp.Reason = permission.ByInvalid, "the arguments are not valid JSON"
		return resp, nil
	}
	// Arguments that were sent back as they were are no edit.
	edited = edited && sum != q.Seal.InputDigest
	switch {
	case !edited && sum != q.Seal.InputDigest:
		resp.DecidedBy, resp.Reason = permission.ByDefault, "the arguments are not those that were asked about"
		return resp, nil
	case edited && req.Decide.Tool.ActivityType != "":
		resp.DecidedBy, resp.Reason = permission.ByInvalid, "the arguments of a guarded call cannot be changed"
		return resp, nil
	}
	d := e.judge(ctx, chain, req.Decide, info, input, validate)
	switch {
	case d.Verdict == permission.Deny:
		resp.Refuser = d.By
		resp.DecidedBy, resp.Reason = d.DecidedBy, "it was denied on the second look by "+string(d.DecidedBy)+": "+cut(d.Reason, 1000)
		if d.DecidedBy == permission.ByInvalid {
			resp.Reason, resp.Invalid = "the edited arguments do not fit the tool's schema", d.Invalid[:min(len(d.Invalid), 20)]
		}
		return resp, nil
	case edited && d.Modified:
		resp.DecidedBy, resp.Reason = permission.ByHook, "a hook would change the edited arguments"
		return resp, nil
	}
	if len(q.Votes)+1 < q.Needs() {
		resp.How = approval.Counted
		return resp, nil
	}
	resp.How, resp.InputDigest, resp.PolicyDigest = approval.Allowed, sum, d.PolicyDigest
	if req.Resolution.Always {
		e.propose(ctx, req, &resp, info, input)
	}
	return e.keepEdit(ctx, resp, input, edited)
}

// mostVetted bounds the lines of a run in bytes: they go with every decision, and those with slow hooks are in history.
const mostVetted = 32 << 10

// propose adds the vetted line that keeps the same command from being asked about again, if one can.
func (e *Engine) propose(ctx context.Context, req protocol.AdmitRequest, resp *protocol.AdmitResponse, info tool.Info, input json.RawMessage) {
	switch {
	case req.Question.Needs() > 1:
		resp.NotVetted = "several people have to allow such a call each time"
		return
	case req.Resolution.ExpiresAt != nil:
		resp.NotVetted = "the answer is good until a moment, and a line is not"
		return
	}
	line, err := permission.ProposeVetted(info.Name, input)
	if err != nil {
		resp.NotVetted = cut(err.Error(), 500)
		return
	}
	subject := req.Decide.Subject
	subject.Vetted = append(slices.Clone(subject.Vetted), protocol.VettedLine{RunID: resp.RunID, Line: line})
	if size(subject.Vetted) > mostVetted {
		resp.NotVetted = "the lines of this run are too long together"
		return
	}
	chain, err := e.chain(subject)
	if err != nil {
		resp.NotVetted = cut(err.Error(), 500)
		return
	}
	agent := subject.Agent
	d := chain.Decide(ctx, permission.Call{Tool: info, Input: input, Dir: subject.Dir, Isolation: subject.Isolation, Agent: &agent}, nil)
	if d.Verdict != permission.Allow {
		resp.NotVetted = cut("it would be asked about all the same: "+string(d.DecidedBy)+" "+d.Reason, 500)
		return
	}
	resp.Vetted = &line
}

// asked returns the arguments that the answer is about: the edited ones, or those of the question.
func (e *Engine) asked(ctx context.Context, req protocol.AdmitRequest) (json.RawMessage, error) {
	if len(req.Resolution.Input) > 0 {
		return req.Resolution.Input, nil
	}
	if req.Final != nil {
		return e.load(ctx, req.Decide.Store, nil, req.Final)
	}
	// Left empty, it comes through JSON as null, which no call's arguments are.
	if in := req.Question.Input; len(in) > 0 && string(in) != "null" {
		return req.Question.Input, nil
	}
	return req.Decide.Input, nil
}

// mostEdit bounds an edit that stays in history: answers to every call of a turn may be admitted in one task.
const mostEdit = 8 << 10

func (e *Engine) keepEdit(ctx context.Context, resp protocol.AdmitResponse, input json.RawMessage, edited bool) (protocol.AdmitResponse, error) {
	switch {
	case !edited:
	case size(input) <= mostEdit:
		resp.Input = input
	default:
		ref, err := e.cfg.Blobs.Put(ctx, input)
		if err != nil {
			return resp, err
		}
		resp.InputRef = &ref
	}
	return resp, nil
}

// cut shortens text to at most n bytes without breaking a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
