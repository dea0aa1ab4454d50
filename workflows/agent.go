package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// maxRestarts is how often an agent whose environment was lost begins again.
const maxRestarts = 3

// Agent is the workflow of one agent: generate, decide every call, run, generate. Bad input fails the workflow
// with a non-retryable config error; everything else is a status in the result. Only a run that continues another one of
// the same agent is given a state; in any other it is ignored.
func Agent(ctx workflow.Context, in protocol.AgentInput, state *protocol.AgentState) (*protocol.AgentResult, error) {
	a, res, err := begin(ctx, &in, state)
	for a != nil {
		a.turn.wait()
		a, res, err = a.goOn()
	}
	return res, err
}

// begin makes an agent and runs it until it waits or ends. It returns the agent if that waits, else the result or the error.
func begin(ctx workflow.Context, in *protocol.AgentInput, state *protocol.AgentState) (*agent, *protocol.AgentResult, error) {
	a := &agent{gate: gateFrom(ctx), ctx: ctx, in: in, frozen: &unresolved}
	if res, err := a.prepare(ctx, state); res != nil || err != nil {
		return nil, res, err
	}
	return a.goOn()
}

// errWaits says that an agent waits: for an answer, or for calls that run. Whoever called begin or goOn awaits what its turn
// waits for and calls goOn. So nothing of the agent is on the stack of a run that is parked, which is 4 kB then and not 8.
var errWaits = errors.New("the agent waits")

// goOn runs an agent until it waits or ends, like begin.
func (a *agent) goOn() (*agent, *protocol.AgentResult, error) {
	res, err := a.run(a.ctx)
	if errors.Is(err, errWaits) {
		return a, nil, nil
	}
	a.gate.board.free(a.ctx, a.gate.ledger)
	return nil, res, err
}

// prepare makes an agent ready to run. It returns a result or an error if the agent has ended before.
func (a *agent) prepare(ctx workflow.Context, state *protocol.AgentState) (*protocol.AgentResult, error) {
	g, in := a.gate, a.in
	if g == nil {
		return nil, configError(fault.Configf(protocol.WorkflowAgent, "this worker runs agents without Assent's plugin"))
	}
	if g.continued && state != nil {
		return nil, a.takeOver(ctx, state)
	}
	if g.deaf {
		// A run that continues a workflow of another type is told of as one that continues, and has no state.
		if err := g.hear(ctx); err != nil {
			return nil, configError(err)
		}
	}
	if err := in.Validate(); err != nil {
		return nil, configError(err)
	}
	a.id, a.started = workflow.GetInfo(ctx).OriginalRunID, workflow.Now(ctx)
	if err := a.resolve(ctx); err != nil {
		if ctx.Err() != nil {
			return a.result(ctx, protocol.Cancelled, errCancelled), nil
		}
		return nil, configError(err)
	}
	g.board.attributes.learn(ctx, &a.frozen.Attributes)
	g.board.start(ctx, g.ledger, in.AgentType)
	g.board.busy()
	return nil, nil
}

// agent is the state of one run of Agent.
type agent struct {
	gate *gate
	ctx  workflow.Context
	in   *protocol.AgentInput
	// runCtx is what the wall clock cancels, stop ends it; nil before the agent runs.
	runCtx workflow.Context
	stop   func()
	// turn is that in which the agent waits, nil if it does not. before is what fresh was when the turn began.
	turn   *performance
	before int
	// id is the run by which tools know the agent, started when that began: the first of all its runs.
	id      string
	started time.Time
	// runs counts the runs before this one. held is what the last of them left to be done, nil once it is.
	runs int
	held *protocol.AgentState
	// tooLarge is set when there was too much to leave to a next run, overCalls when a call was skipped for maxToolCalls: one that
	// uses exactly all may still be done.
	tooLarge, overCalls bool
	// frozen is what was resolved, without what is in tools, promptRef and frozenIn: the run that it was resolved in. What is
	// equal is there once for all runs.
	frozen    *protocol.ResolveResponse
	tools     toolset
	promptRef *blob.Ref
	frozenIn  string
	// told is frozenIn, or the run that a run which continues was told.
	told string
	// tighten is in.Permissions as tools' workers get it.
	tighten json.RawMessage
	// above are frozen.Parents in the same way.
	above json.RawMessage

	// transcript is the last node of the conversation, earlier that of the life before a restart.
	transcript    *blob.Ref
	earlier       *blob.Ref
	output        string
	structured    json.RawMessage
	structuredRef *blob.Ref
	// spent is what the models cost.
	spent protocol.Spent
	turns int
	// lifeTurns counts the turns since the environment was last lost, runTurns those of this run.
	lifeTurns int
	runTurns  int
	calls     int
	asked     int
	restarts  int
	idle      int
	// seen holds digests of (tool, input, result), the latest mostSeen of them: a turn that adds none is idle. seenList has
	// them in order. fresh counts all that were ever added in this run.
	seen       map[string]bool
	seenList   []string
	fresh      int
	retries    map[string]int
	escalation json.RawMessage
	progress   json.RawMessage
	artifacts  []protocol.Artifact
	// observing are the calls of observers that may still run.
	observing []workflow.Future
	// abroad are the calls that others' workers run; nil before the first.
	abroad *abroad

	// env is where the tools run. lost says why there is another one than at the beginning.
	env  environment
	lost string
}

var (
	errCancelled = errors.New("the run was cancelled")
	errWallClock = errors.New("the wall-clock limit was reached")
)

// mostError bounds the text of a failure, which may quote what was sent: one that the server refuses is tried for ever.
const mostError = 4 << 10

func configError(err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return temporal.NewNonRetryableApplicationError(short(app.Message(), mostError), app.Type(), nil)
	}
	return temporal.NewNonRetryableApplicationError(short(err.Error(), mostError), protocol.ErrorConfig, nil)
}

// control is for activities that only read and may be tried for as long as it takes: a lost worker makes the
// work wait, not fail.
func control(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorStore}},
		Summary: summary,
	})
}

func (a *agent) resolve(ctx workflow.Context) error {
	var r protocol.ResolveResponse
	err := recorded(ctx, workflow.ExecuteActivity(control(ctx, "freeze tools · "+label(a.in.AgentType)), protocol.ActivityResolveToolset,
		a.gate.resolving(ctx, *a.in)), &r)
	if err != nil {
		return err
	}
	a.freeze(r)
	a.told = a.frozenIn
	return a.index(ctx)
}

// index makes ready what is looked up for each call.
func (a *agent) index(ctx workflow.Context) (err error) {
	if a.promptRef != nil && workflow.GetInfo(ctx).RetryPolicy == nil {
		// It is read from the blob. A run that the server tries again begins with its input, and needs the prompt there.
		a.in.Prompt = ""
	}
	a.gate.line = append(slices.Clone(a.frozen.Parents), protocol.Parent{Profile: a.in.AgentType, Tighten: a.in.Permissions})
	if a.in.Permissions != nil {
		if a.tighten, err = json.Marshal(a.in.Permissions); err != nil {
			return configError(err)
		}
	}
	if len(a.frozen.Parents) > 0 {
		if a.above, err = json.Marshal(a.frozen.Parents); err != nil {
			return configError(err)
		}
	}
	return nil
}

// run restarts the agent when its environment is lost: usage is kept, the conversation is not, because an agent
// is never resumed into another tree.
func (a *agent) run(ctx workflow.Context) (*protocol.AgentResult, error) {
	if a.runCtx == nil {
		a.runCtx, a.stop = a.wallClock(ctx)
	}
	for {
		status, err := a.attempt(ctx, a.runCtx)
		if errors.Is(err, errWaits) {
			return nil, err
		}
		if res, err := a.after(ctx, a.runCtx, status, err); res != nil || err != nil {
			a.gate.unless(a.stop)
			return res, err
		}
	}
}

// after is the end of an attempt: a result or an error, or neither if the agent starts again.
func (a *agent) after(ctx, runCtx workflow.Context, status protocol.Status, err error) (*protocol.AgentResult, error) {
	var lost *lostError
	var next *continueError
	switch {
	case errors.As(err, &next):
		return nil, next.as(ctx)
	case errors.As(err, &lost) && runCtx.Err() != nil:
		status, stopped := a.stopped(ctx)
		return a.result(ctx, status, errors.New(stopped.Error()+"; "+lost.Error())), nil
	case errors.As(err, &lost) && a.restarts < maxRestarts:
		a.restarts++
		a.restart(lost)
		workflow.GetLogger(ctx).Warn("assent: environment lost, the agent starts again", "restart", a.restarts, "reason", lost.why)
		return nil, nil
	case errors.As(err, &lost):
		err = fmt.Errorf("%w; it had started again %d times before", lost, a.restarts)
	case isConfig(err) && a.turns == 0:
		// Later on there is work to report: then it is a status.
		return nil, configError(err)
	}
	return a.result(ctx, status, err), nil
}

func isConfig(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == protocol.ErrorConfig
}

// attempt is one life of the agent: environment, conversation, and the hand-over of what it made.
func (a *agent) attempt(ctx, runCtx workflow.Context) (protocol.Status, error) {
	if a.held == nil && a.turn == nil {
		if err := a.acquire(runCtx); err != nil {
			if runCtx.Err() != nil {
				return a.stopped(ctx)
			}
			return protocol.Failed, err
		}
	}
	status, err := a.converse(ctx, runCtx)
	if next := new(continueError); errors.As(err, &next) || errors.Is(err, errWaits) {
		return status, err
	}
	// Cleaning up goes on although the run was cancelled, and never hides the run's own error.
	after, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	return a.release(after, status, err)
}

// stopped tells a user's cancellation from the wall clock.
func (a *agent) stopped(ctx workflow.Context) (protocol.Status, error) {
	if ctx.Err() != nil {
		return protocol.Cancelled, errCancelled
	}
	return protocol.LimitHit, errWallClock
}

// converse is the loop. It ends when the model makes no more calls, or when a limit gives it one last turn
// without tools.
func (a *agent) converse(ctx, runCtx workflow.Context) (protocol.Status, error) {
	var results []model.ToolResult
	for {
		if a.turn == nil {
			a.before = a.fresh
		}
		out, status, err := a.exchange(ctx, runCtx, results)
		if status != "" || err != nil {
			return status, err
		}
		results = out
		switch {
		case a.escalation != nil:
			return protocol.Escalated, nil
		case ctx.Err() != nil:
			return protocol.Cancelled, errCancelled
		case runCtx.Err() != nil:
			return a.last(ctx, results, errWallClock.Error())
		}
		if a.idle++; a.fresh > a.before {
			a.idle = 0
		}
		if err := a.boundary(ctx, results); err != nil {
			return "", err
		}
	}
}

// exchange is one turn: the model's calls and their results, or the status with which the agent ends. The first one of a
// run that continues another takes up what that one left; one in which the agent waits goes on.
func (a *agent) exchange(ctx, runCtx workflow.Context, results []model.ToolResult) ([]model.ToolResult, protocol.Status, error) {
	if p := a.turn; p != nil {
		a.turn = nil
		return p.goOn()
	}
	if held := a.held; held != nil {
		a.held = nil
		if len(held.Steps) == 0 {
			results = held.Results
		} else {
			return a.resume(runCtx, held.Steps)
		}
	}
	calls, status, err := a.think(ctx, runCtx, results)
	if calls == nil {
		return nil, status, err
	}
	return a.perform(runCtx, a.judged(runCtx, calls))
}

// think asks the model what to do next. It returns the calls that the model makes, or the status with which the agent ends.
func (a *agent) think(ctx, runCtx workflow.Context, results []model.ToolResult) ([]protocol.Requested, protocol.Status, error) {
	note := ""
	for again := 0; ; again++ {
		if limit := a.limit(a.frozen.Limits); limit != "" {
			status, err := a.last(ctx, results, limit)
			return nil, status, err
		}
		t, err := a.generate(runCtx, results, note, true)
		switch {
		case err != nil && runCtx.Err() != nil:
			status, err := a.stopped(ctx)
			return nil, status, err
		case err != nil:
			return nil, protocol.Failed, err
		case t.OverBudget != "":
			a.close(ctx, results)
			return nil, protocol.LimitHit, a.overBudget(t.OverBudget)
		case len(t.Calls) > 0:
			return t.Calls, "", nil
		}
		if note = amend(t); note == "" || again == mostAmends {
			status, err := a.ended(t)
			return nil, status, err
		}
		results = nil
	}
}

// limit names the limit that keeps another turn from starting.
func (a *agent) limit(l protocol.Limits) string {
	switch {
	case a.lifeTurns >= l.MaxTurns:
		return fmt.Sprintf("maxTurns (%d) was reached", l.MaxTurns)
	case a.overCalls:
		return fmt.Sprintf("maxToolCalls (%d) was reached", l.MaxToolCalls)
	case a.idle >= l.MaxIdleTurns:
		return fmt.Sprintf("maxIdleTurns (%d) was reached: the same calls gave the same results", l.MaxIdleTurns)
	}
	return ""
}

// last gives the model one turn without tools to say what it has.
func (a *agent) last(ctx workflow.Context, results []model.ToolResult, limit string) (protocol.Status, error) {
	t, err := a.generate(ctx, results, limit+"; this is the last turn and there are no tools in it: sum up what was done and what is left", false)
	if err != nil && ctx.Err() != nil {
		return protocol.Cancelled, errCancelled
	}
	if err != nil {
		return protocol.LimitHit, fmt.Errorf("%s; the last turn failed: %s", limit, explain(err))
	}
	if t.OverBudget != "" {
		a.close(ctx, results)
		return protocol.LimitHit, fmt.Errorf("%s; there was no last turn: %w", limit, a.overBudget(t.OverBudget))
	}
	return protocol.LimitHit, errors.New(limit)
}

// result is what the agent returns; questions that are still open are closed first.
func (a *agent) result(ctx workflow.Context, status protocol.Status, err error) *protocol.AgentResult {
	a.gate.finish(ctx, "the agent ended", protocol.StatusDone)
	after, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for _, f := range a.observing {
		// The server drops what is still scheduled when a run ends. A failure of observers changes nothing.
		_ = f.Get(after, nil)
	}
	r := &protocol.AgentResult{
		Status: status, Output: a.output, Structured: a.structured, StructuredRef: a.structuredRef,
		Usage: a.spent.Usage, CostUSD: a.spent.CostUSD, UnpricedTurns: a.spent.UnpricedTurns, LostUSD: a.spent.LostUSD, BelowUSD: a.spent.BelowUSD,
		Turns: a.turns, Compactions: a.spent.Compactions, Calls: a.calls, Asked: a.asked, Restarts: a.restarts,
		Transcript: a.transcript, Store: a.frozen.Store, ToolsetHash: a.frozen.ToolsetHash,
		Artifacts: a.artifacts, Escalation: a.escalation,
	}
	if r.Artifacts == nil {
		r.Artifacts = []protocol.Artifact{}
	}
	if r.Transcript == nil {
		// The last life had no turn.
		r.Transcript = a.earlier
	}
	if status != protocol.OK {
		r.Progress = a.progress
	}
	if err != nil {
		r.Error = explain(err)
	}
	return r
}

// explain shows the message of a failure without the SDK's wrapping. Our own errors say more than their cause.
func explain(err error) string {
	var app *temporal.ApplicationError
	switch err.(type) { //errorlint:ignore the outermost one: our own errors say more than what they wrap
	case *temporal.ActivityError, *temporal.ApplicationError:
		if errors.As(err, &app) {
			return short(app.Message(), 2000)
		}
	}
	return short(err.Error(), 2000)
}
