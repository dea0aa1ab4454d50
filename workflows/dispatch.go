package workflows

import (
	"errors"
	"fmt"
	"math"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

const (
	// heartbeat is the only way a tool hears of cancellation and the way a crash is noticed.
	heartbeat = 10 * time.Second
	// longest bounds an attempt of a tool that declares no timeout; a dead worker is noticed by its heartbeat.
	longest = 24 * time.Hour
	// slack is what a worker needs around a tool's own timeout to report it.
	slack = time.Minute
	// attempts is how often a read-risk or idempotent tool is tried.
	attempts = 3
)

// dispatch runs a permitted call and returns its result. Whatever happens to the activity becomes a code.
func (g *gate) dispatch(ctx workflow.Context, p *permit, call tool.Call, queue string) tool.Result {
	wait := g.patience()
	p.unseen = true
	p.call = &call
	activityType := p.facts.Activity()
	sent := protocol.Sent(call, activityType)
	began := false
	for n := 1; ; n++ {
		if withdrawn(ctx) {
			return p.stopped(began)
		}
		id := call.ID
		if n > 1 {
			id = fmt.Sprintf("%s~%d", call.ID, n)
		}
		p.place.ActivityID = id
		g.dispatched(p)
		var res tool.Result
		err := recorded(ctx, workflow.ExecuteActivity(g.toolContext(ctx, p, id, queue), activityType, sent), &res)
		switch {
		case err != nil:
			res = p.lost(err, queue)
		case res.Code == "":
			// The server takes any value from an operator who ends an activity.
			res = p.unknown("the call was ended by hand, with a value that is no result of a tool")
		}
		again := res.Code == tool.ContractDrift || res.Code == codeNeverStarted
		// A worker that does not serve the call says whether an attempt before it was lost, which one that did may have run.
		began = began || again && res.Failure != nil && res.Failure.Started
		switch {
		case again && wait.left(ctx):
			// Another worker may serve the frozen contract; the same call gets a new grant.
			if workflow.Sleep(ctx, wait.pause()) != nil {
				continue
			}
		case again && began && p.facts.Risk != tool.Read:
			return p.unknown("an attempt of the call was lost, and no worker served it after that")
		case res.Code == codeNeverStarted:
			return tool.Fail(tool.ToolError, "no worker started the call in time")
		default:
			// These two a worker gives back before its observers see the call.
			p.unseen = err != nil || res.Code == tool.ContractDrift || res.Code == tool.EnvironmentLost
			return res
		}
	}
}

// stopped is for a call that was withdrawn while it waited for a worker, after an attempt that may have had its effect.
func (p *permit) stopped(began bool) tool.Result {
	if !began || p.facts.Risk == tool.Read {
		return notStarted()
	}
	r := tool.Fail(tool.Aborted, "the call was cancelled after an attempt of it was lost; it may have had its effect")
	r.Failure.Started = true
	return r
}

// patience is how long one call waits for a worker that serves it, from the first time that none did.
type patience struct {
	gate *gate
	// most is a setting of the worker, and the next worker, which may have another one, replays this run: so it is
	// recorded once it is needed.
	most  *time.Duration
	until time.Time
}

func (g *gate) patience() *patience { return &patience{gate: g} }

// left reports whether it is worth waiting on.
func (p *patience) left(ctx workflow.Context) bool {
	if p.most == nil {
		p.most = new(time.Duration)
		recorded := workflow.SideEffect(ctx, func(workflow.Context) any { return p.gate.cfg.Patience })
		if err := recorded.Get(p.most); err != nil {
			return false
		}
		p.until = workflow.Now(ctx).Add(*p.most)
	}
	return workflow.Now(ctx).Before(p.until)
}

// mostPauses bounds what patience of days puts into the history: each try is some ten events.
const mostPauses = 200

// pause is the time until the next try.
func (p *patience) pause() time.Duration { return max(driftPause, *p.most/mostPauses) }

// codeNeverStarted marks an attempt that no worker began; it never leaves dispatch.
const codeNeverStarted tool.Code = "never-started"

func (g *gate) toolContext(ctx workflow.Context, p *permit, id, queue string) workflow.Context {
	o := workflow.ActivityOptions{
		ActivityID: id, TaskQueue: queue, StartToCloseTimeout: longest, HeartbeatTimeout: heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}
	if p.approved != nil || p.facts.CallTool {
		// Of other calls the event says with its type all that a summary could.
		o.Summary = summary(p)
	}
	if p.facts.Timeout > 0 {
		o.StartToCloseTimeout = min(p.facts.Timeout, math.MaxInt64-slack) + slack
	}
	if p.facts.Repeatable() {
		// What must not be tried again says so itself.
		o.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: attempts, InitialInterval: time.Second}
	}
	if queue != "" {
		o.ScheduleToStartTimeout = g.cfg.HostPatience
	}
	// A later try looks for another worker, and would else go to the one that asks for it, at once.
	o.DisableEagerExecution = id != p.callID
	return workflow.WithValue(workflow.WithActivityOptions(ctx, o), permitKey{}, p)
}

// lost turns the failure of an activity into what the model may know: whether the effect can have happened.
func (p *permit) lost(err error, queue string) tool.Result {
	var act *temporal.ActivityError
	started := true
	if errors.As(err, &act) && !p.facts.Repeatable() {
		// With one attempt, an activity without a started event never ran.
		started = act.StartedEventID() != 0
	}
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case temporal.IsCanceledError(err) && !started:
		return tool.Deny(tool.ByCancel, "", "the call was cancelled before it started")
	case temporal.IsCanceledError(err):
		r := tool.Fail(tool.Aborted, "the call was cancelled while it ran")
		r.Failure.Started = true
		return r
	case errors.As(err, &timeout):
		return p.timedOut(timeout, started, queue)
	case errors.As(err, &app):
		return p.refused(app)
	}
	return p.unknown("the call failed in an unknown way: " + short(err.Error(), 500))
}

func (p *permit) timedOut(t *temporal.TimeoutError, started bool, queue string) tool.Result {
	switch {
	case t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START && queue != "":
		p.away = true
		return tool.Fail(tool.EnvironmentLost, "the host that has the agent's worktree did not come back in time")
	case !started || t.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return tool.Result{Code: codeNeverStarted}
	case t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT && p.marked() && !t.HasLastHeartbeatDetails():
		// Its worker never put down that it begins: the task was lost on its way.
		return tool.Result{Code: codeNeverStarted}
	}
	return p.unknown("the worker that ran the call was lost or did not answer in time")
}

// marked reports whether the call's worker puts protocol.Begun down before it runs it: tools of our own that must not
// run twice.
func (p *permit) marked() bool { return p.facts.ActivityType == "" && !p.facts.Repeatable() }

func (p *permit) refused(app *temporal.ApplicationError) tool.Result {
	switch app.Type() {
	case protocol.ErrorDenied:
		var r tool.Result
		if detailsOf(app, &r) && r.Code != "" && r.Code != tool.OK {
			return r
		}
		return tool.Deny(tool.ByGrant, "", short(app.Message(), 500))
	case "ActivityNotRegisteredError":
		r := tool.Fail(tool.ContractDrift, fmt.Sprintf("a worker without the tool %q took the call", p.facts.Name))
		// It may have been another worker that lost an attempt before.
		r.Failure.Started = p.facts.Repeatable()
		return r
	case protocol.ErrorGone:
		return tool.Fail(tool.EnvironmentLost, short(app.Message(), 500))
	}
	return p.unknown("the call failed on the worker: " + short(app.Message(), 500))
}

// unknown is for calls that may have had their effect. Only tools that read say that it was an error: an idempotent
// one that was lost at every try may have done its work, and the model's next call has another idempotency key.
func (p *permit) unknown(msg string) tool.Result {
	if p.facts.Risk == tool.Read {
		return tool.Fail(tool.ToolError, msg)
	}
	r := tool.Fail(tool.EffectUnknown, msg+"; it may have had its effect, check before trying again")
	r.Failure.Started = true
	return r
}
