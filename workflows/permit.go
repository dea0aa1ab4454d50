package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// permit is the right to run one call with one input. It becomes a signed grant when the call is scheduled, so
// that a rotated key never hits a question that waits.
type permit struct {
	callID string
	facts  protocol.ToolFacts
	// Exactly one of input and inputRef is set.
	input    json.RawMessage
	inputRef *blob.Ref
	modified bool
	runID    string
	input256 string
	policy   string
	expires  int64
	approved *tool.Approved
	// standing lets an approved call be revoked.
	standing *standing
	place    protocol.Place
	// call is what the call's worker is told; nil for one of a team's own.
	call *tool.Call
	// verdict and decidedBy are what the decision said; an approved call was asked about.
	verdict   permission.Verdict
	decidedBy permission.Decider
	// unseen says that the call ended without any worker's observers having seen it.
	unseen bool
	// away says that the host on which it was to run did not answer.
	away bool
}

// stamp writes the grant into the header of the call that is being scheduled.
func (p *permit) stamp(ctx workflow.Context, keys protocol.Keyring, activityType string) error {
	if workflow.IsReplaying(ctx) {
		// The call is in history with the grant that it got then.
		return nil
	}
	place := p.place
	place.ActivityType = activityType
	var known protocol.Grant
	if p.call != nil {
		known = protocol.Known(*p.call, p.input256)
	}
	g := keys.Sign(protocol.Grant{
		CallID: p.callID, RunID: p.runID, ContractHash: p.facts.ContractHash, Source: p.facts.Source,
		InputDigest: p.input256, Terms: known.Terms, PolicyDigest: protocol.NamedPolicy(p.policy), Expires: p.expires,
	}, place).Slim(known)
	payload, err := converter.GetDefaultDataConverter().ToPayload(g)
	if err != nil {
		return fmt.Errorf("encode grant of %q: %w", p.callID, err)
	}
	header := interceptor.WorkflowHeader(ctx)
	if header == nil {
		return fmt.Errorf("encode grant of %q: the call has no header", p.callID)
	}
	header[protocol.HeaderGrant] = payload
	return nil
}

const (
	// queueing is how long a decision may wait for its turn on a busy worker.
	queueing = time.Minute
	// slowDecision bounds a decision with slow hooks, one of which may take five minutes.
	slowDecision = 10 * time.Minute
)

// judge records the decision on a call. One that cannot be had denies.
func (g *gate) judge(ctx workflow.Context, req protocol.DecideRequest) protocol.DecideResponse {
	return g.decided(ctx, req, g.read(ctx, workflow.ExecuteLocalActivity(g.local(ctx), g.cfg.Decide, req), req))
}

// judgeTurn records the decisions on the calls of a turn, all in one: what a replay costs is local activities.
func (g *gate) judgeTurn(ctx workflow.Context, reqs []protocol.DecideRequest) []protocol.DecideResponse {
	out := make([]protocol.DecideResponse, len(reqs))
	if len(reqs) == 1 {
		out[0] = g.read(ctx, workflow.ExecuteLocalActivity(g.local(ctx), g.cfg.Decide, reqs[0]), reqs[0])
	}
	if len(reqs) <= 1 {
		return out
	}
	// Each has its own time, which begins when it does, and some wait for others. One more round is for timers that are late:
	// without it calls that are decided would be denied with those that are not.
	rounds := (len(reqs)+protocol.DecidedAtOnce-1)/protocol.DecidedAtOnce + 1
	var turn protocol.DecideTurnResponse
	err := recorded(ctx, workflow.ExecuteLocalActivity(g.localFor(ctx, time.Duration(rounds)*g.cfg.DecideTimeout), g.cfg.DecideTurn,
		protocol.DecideTurnRequest{Calls: reqs, Each: g.cfg.DecideTimeout}), &turn)
	if err == nil && len(turn.Decisions) != len(reqs) {
		err = fmt.Errorf("%d decisions on %d calls", len(turn.Decisions), len(reqs))
	}
	for i, req := range reqs {
		var resp protocol.DecideResponse
		if err == nil {
			resp = turn.Decisions[i]
		}
		out[i] = g.taken(ctx, resp, err, req)
	}
	return out
}

func (g *gate) local(ctx workflow.Context) workflow.Context {
	return g.localFor(ctx, g.cfg.DecideTimeout)
}

// localFor is for a local activity of some time, which begins when the activity does.
func (g *gate) localFor(ctx workflow.Context, most time.Duration) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: most, ScheduleToCloseTimeout: most + queueing, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

// again is local for what a server that is busy is asked, which many agents that are cancelled at once make it. A cancellation waits for it.
func (g *gate) again(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: g.cfg.DecideTimeout, ScheduleToCloseTimeout: g.cfg.DecideTimeout + queueing,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 250 * time.Millisecond, MaximumAttempts: 5, NonRetryableErrorTypes: []string{"PermissionDenied"}},
	})
}

// decided settles what a local activity left open. Slow hooks run in a normal activity; where the tool has drifted, any worker of the queue
// is asked, and not only the one that has this run in its cache, until one serves the frozen contract or patience ends.
func (g *gate) decided(ctx workflow.Context, req protocol.DecideRequest, resp protocol.DecideResponse) protocol.DecideResponse {
	wait := g.patience()
	// Normal activities are in history themselves, and say all.
	req.Under = nil
	for {
		if resp.Slow {
			resp = g.read(ctx, g.judgeSlowly(ctx, req, false), req)
		}
		if resp.Drift == "" || !wait.left(ctx) || workflow.Sleep(ctx, wait.pause()) != nil {
			return resp
		}
		resp = g.read(ctx, g.judgeSlowly(ctx, req, true), req)
	}
}

// judgeSlowly starts the recorded decision on a call in a normal activity.
func (g *gate) judgeSlowly(ctx workflow.Context, req protocol.DecideRequest, anywhere bool) workflow.Future {
	return g.slowly(ctx, req, anywhere, " · decide", protocol.ActivityDecideSlow, req)
}

// slowly starts a normal activity that judges. anywhere keeps the worker that asks for it from taking it at once.
func (g *gate) slowly(ctx workflow.Context, req protocol.DecideRequest, anywhere bool, what, activityType string, arg any) workflow.Future {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		// Not where the call goes: its workers need not know of us.
		TaskQueue: workflow.GetInfo(ctx).TaskQueueName, DisableEagerExecution: anywhere,
		// Hooks end by their own timeouts; a worker that is lost is noticed by its heartbeat.
		StartToCloseTimeout: slowDecision, HeartbeatTimeout: heartbeat,
		// A worker that was lost meanwhile has decided nothing.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 10,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorStore}},
		Summary: label(req.Tool.Name) + what,
	}), activityType, arg)
}

func (g *gate) read(ctx workflow.Context, f workflow.Future, req protocol.DecideRequest) protocol.DecideResponse {
	var resp protocol.DecideResponse
	err := recorded(ctx, f, &resp)
	return g.taken(ctx, resp, err, req)
}

// taken is a decision as it counts: one that cannot be had, or is about another call, denies.
func (g *gate) taken(ctx workflow.Context, resp protocol.DecideResponse, err error, req protocol.DecideRequest) protocol.DecideResponse {
	if err == nil && (resp.CallID != req.CallID || resp.Tool != req.Tool.Name) {
		err = fmt.Errorf("decision is about call %q of %q", resp.CallID, resp.Tool)
	}
	if err != nil {
		return protocol.DecideResponse{CallID: req.CallID, Tool: req.Tool.Name, Decision: permission.Decision{
			Verdict: permission.Deny, DecidedBy: permission.ByDefault,
			Reason: "no decision could be had: " + short(err.Error(), 500)}}
	}
	g.board.attributes.learn(ctx, resp.Attributes)
	return resp.Whole(req.Under)
}

// settle turns a decision into a permit, a question or a refusal. For a question both results are nil.
func (g *gate) settle(ctx workflow.Context, req protocol.DecideRequest, d protocol.DecideResponse) (*permit, *tool.Result) {
	if d.Drift != "" {
		r := tool.Fail(tool.ContractDrift, d.Drift)
		return nil, &r
	}
	switch d.Decision.Verdict {
	case permission.Allow:
		return g.permit(ctx, req, d), nil
	case permission.Ask:
		return nil, nil
	}
	r := refusal(d.Decision)
	return nil, &r
}

// permit is for the input that was decided on.
func (g *gate) permit(ctx workflow.Context, req protocol.DecideRequest, d protocol.DecideResponse) *permit {
	info := workflow.GetInfo(ctx)
	p := &permit{
		callID: req.CallID, facts: req.Tool, modified: d.Decision.Modified, runID: d.RunID, input256: d.InputDigest, policy: d.Decision.PolicyDigest,
		verdict: d.Decision.Verdict, decidedBy: d.Decision.DecidedBy,
		place: protocol.Place{Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID},
	}
	p.input, p.inputRef = finalInput(req, d)
	return p
}

// refusal is the result of a call that was decided against.
func refusal(d permission.Decision) tool.Result {
	if d.DecidedBy == permission.ByInvalid {
		r := tool.Fail(tool.InvalidArguments, "the arguments do not fit the tool's schema")
		r.Failure.Issues = d.Invalid
		return r
	}
	msg := "denied by policy"
	if d.Reason != "" {
		msg += ": " + d.Reason
	}
	by := string(d.DecidedBy)
	if d.By != "" {
		by = d.By
	}
	return tool.Deny(reasonOf(d.DecidedBy), by, msg)
}

func reasonOf(by permission.Decider) tool.Reason {
	switch by {
	case permission.ByGuard:
		return tool.ByGuard
	case permission.ByListener:
		return tool.ByListener
	case permission.ByDefault, permission.ByInvalid:
		return tool.ByFailure
	}
	return tool.ByRule
}

// finalInput is what was decided on: inline, or by reference.
func finalInput(req protocol.DecideRequest, d protocol.DecideResponse) (json.RawMessage, *blob.Ref) {
	switch {
	case d.InputRef != nil:
		// Beside a reference the decision's own input came through JSON as null.
		return nil, d.InputRef
	case d.Decision.Modified:
		return d.Decision.Input, nil
	}
	return req.Input, req.InputRef
}

// shown is what people and results see of arguments: large ones stay in the blob store, and are told where and how
// much.
func shown(input json.RawMessage, ref *blob.Ref) json.RawMessage {
	if ref == nil {
		return input
	}
	input, _ = json.Marshal(map[string]any{"$blob": ref})
	return input
}

func (p *permit) shown() json.RawMessage { return shown(p.input, p.inputRef) }

// stopped says how the questions of a cancelled context close, and why.
func stopped(ctx workflow.Context) (approval.How, string) {
	c, _ := ctx.Value(causeKey{}).(*cause)
	for ; c != nil; c = c.outer {
		if c.text != "" {
			return approval.Abandoned, c.text
		}
	}
	return approval.Cancelled, ""
}

// cause says why the engine itself cancelled a context; workflow contexts have no cause of their own. It is empty
// when a user cancelled the run.
type cause struct {
	text string
	// revoked is set when somebody took back the allow under which the context's call runs.
	revoked *approval.Revocation
	// outer is the cause of the context around.
	outer *cause
}

type causeKey struct{}

// mostSummary bounds foreign text in a summary: the server refuses one of more than 400 bytes, for ever.
const mostSummary = 150

func summary(p *permit) string {
	name := label(p.facts.Name)
	if p.approved != nil {
		return name + " · approved " + label(p.approved.Key)
	}
	return name + " · allow"
}

func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
