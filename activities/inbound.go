package activities

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// NewInterceptor returns the activity half of the seam: it gives activities their engine, and lets a tool run only
// with a valid grant, behind the guards that are mounted now, inside stages 3 to 5.
func NewInterceptor(e *Engine) interceptor.WorkerInterceptor { return &workerInterceptor{engine: e} }

type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	engine *Engine
}

func (w *workerInterceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &inbound{engine: w.engine}
	in.Next = next
	return in
}

type inbound struct {
	interceptor.ActivityInboundInterceptorBase
	engine *Engine
}

// ExecuteActivity is the one way in for a tool.
func (i *inbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if ctx.Value(engineKey{}) != nil {
		// Installed twice: the outer one acts.
		return i.Next.ExecuteActivity(ctx, in)
	}
	ctx = context.WithValue(ctx, engineKey{}, i.engine)
	info := activity.GetInfo(ctx)
	facts, guarded := i.engine.cfg.Guarded[info.ActivityType.Name]
	switch {
	case info.IsLocalActivity && !guarded && !protocol.IsTool(info.ActivityType.Name):
		return i.Next.ExecuteActivity(ctx, in)
	case protocol.IsTool(info.ActivityType.Name):
		return i.tool(ctx, in)
	case guarded:
		return i.guarded(ctx, in, facts)
	}
	return i.Next.ExecuteActivity(ctx, in)
}

// denied refuses an activity so that nobody can take the refusal for a result.
func denied(r tool.Result) error { return refused(r, protocol.AllWords) }

func refused(r tool.Result, w protocol.Words) error {
	message, detail := protocol.Refusal(r, w)
	return temporal.NewApplicationErrorWithOptions(message, protocol.ErrorDenied,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{detail}})
}

// tool runs one of our own tool activities.
func (i *inbound) tool(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	e := i.engine
	call, err := callArg(in.Args)
	if err != nil {
		return nil, denied(tool.Deny(tool.ByGrant, "", err.Error()))
	}
	info := activity.GetInfo(ctx)
	call = protocol.Received(call, info.ActivityType.Name, info.ActivityID)
	def, drift := e.serve(ctx, call)
	if drift != "" {
		return unserved(ctx, drift), nil
	}
	call.ContractHash = def.ContractHash()
	if err := e.sameStore(call.Store); err != nil {
		return unserved(ctx, explain(err)), nil
	}
	input, err := e.load(ctx, call.Store, call.Input, call.InputRef)
	if altered(err) {
		if activity.GetInfo(ctx).Attempt > 1 && def.Info().Risk != tool.Read {
			r := tool.Fail(tool.EffectUnknown, "an attempt of the call was lost, and its stored arguments cannot be used any more: "+cut(explain(err), 500)+"; it may have had its effect, check before trying again")
			r.Failure.Started = true
			return r, nil
		}
		return tool.Fail(tool.ToolError, "it did not run, its stored arguments cannot be used: "+cut(explain(err), 500)), nil
	}
	if err != nil {
		// Nothing has run: another worker, or this one a little later, may read them.
		return unserved(ctx, "this worker cannot read the arguments: "+cut(explain(err), 500)), nil
	}
	sum, err := digest(input)
	if err != nil {
		return nil, denied(tool.Deny(tool.ByGrant, "", "the arguments are not valid JSON"))
	}
	repeatable := def.Info().Repeatable() && frozenRepeatable(ctx)
	if r := e.granted(ctx, call, sum, def.Info().Risk, repeatable); r != nil {
		return nil, denied(later(ctx, def.Info().Risk, *r))
	}
	if call.Agent != nil {
		call.IdempotencyKey = protocol.IdempotencyKey(call.Agent.RunID, call.ID, sum)
	}
	ctx, ended := begin(ctx, repeatable)
	if ended != nil {
		return *ended, nil
	}
	stop := heartbeats(ctx)
	defer stop()
	if lost := e.lost(ctx, call); lost != nil {
		return *lost, nil
	}
	run := e.newRun(ctx, call, def.Info(), input)
	run.def = def
	res := e.cfg.Pipeline.Run(ctx, run.call, call.Guards, func(ctx context.Context) tool.Result {
		out, err := i.Next.ExecuteActivity(context.WithValue(ctx, runKey{}, run), in)
		if r, ok := out.(tool.Result); ok && err == nil {
			return r
		}
		return tool.Fail(tool.ToolError, "the tool did not return a result")
	})
	return e.settle(ctx, later(ctx, def.Info().Risk, res))
}

// later says of an attempt that was refused what became of the call: the attempt before, which was let through, was lost.
func later(ctx context.Context, risk tool.Risk, r tool.Result) tool.Result {
	if r.Code != tool.Denied || risk == tool.Read || activity.GetInfo(ctx).Attempt == 1 {
		return r
	}
	by := ""
	if r.Failure.By != "" {
		by = " by " + r.Failure.By
	}
	u := tool.Fail(tool.EffectUnknown, "a later attempt was denied"+by+": "+r.Failure.Message+"; the one before may have had its effect, check before trying again")
	u.Failure.Started = true
	return u
}

// unserved gives a call back to its workflow, which looks for a worker that serves it: nothing has run here. Started says that
// there was an attempt before this one, of which nobody knows that.
func unserved(ctx context.Context, why string) tool.Result {
	r := tool.Fail(tool.ContractDrift, why)
	r.Failure.Started = activity.GetInfo(ctx).Attempt > 1
	return r
}

// explain is the message of an error without the SDK's wrapping.
func explain(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	return err.Error()
}

// callArg reads the one argument of a tool activity: a tool.Call, or its raw payload in the dynamic activity.
func callArg(args []any) (tool.Call, error) {
	if len(args) != 1 {
		return tool.Call{}, errors.New("a tool activity takes one call")
	}
	switch a := args[0].(type) {
	case tool.Call:
		return a, nil
	case converter.EncodedValues:
		var c tool.Call
		err := a.Get(&c)
		return c, err
	}
	return tool.Call{}, errors.New("the argument is no tool call")
}

// serve returns the tool of a call if this worker has it under the frozen contract.
func (e *Engine) serve(ctx context.Context, call tool.Call) (*tool.Def, string) {
	name, named := strings.CutPrefix(activity.GetInfo(ctx).ActivityType.Name, protocol.ToolPrefix)
	switch {
	case named && call.Name != name:
		return nil, "the call names another tool than its activity"
	case named && call.Source != "" && e.cfg.CallTool:
		// What would run here is the team's dynamic activity.
		return nil, "the call needs a Dynamic worker, because one has resolved its agent"
	case !named && call.Source == "":
		return nil, protocol.ActivityCallTool + " is for tools of sources, and the call names none"
	}
	return e.frozen(ctx, protocol.ToolFacts{Name: call.Name, Source: call.Source, ContractHash: call.ContractHash,
		Risk: call.Risk, NeedsApproval: call.NeedsApproval}, true)
}

// granted checks the grant in the header against what the server attests of this activity. nil lets the call run.
func (e *Engine) granted(ctx context.Context, call tool.Call, inputDigest string, risk tool.Risk, repeatable bool) *tool.Result {
	info := activity.GetInfo(ctx)
	refuse := func(why string) *tool.Result {
		r := tool.Deny(tool.ByGrant, "", "refused by the worker: "+why)
		e.log.Warn("assent: tool refused", "tool", call.Name, "workflow", info.WorkflowExecution.ID, "call", call.ID, "reason", why)
		return &r
	}
	var g protocol.Grant
	payload := interceptor.Header(ctx)[protocol.HeaderGrant]
	if payload == nil {
		return refuse("the call carries no grant")
	}
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &g); err != nil {
		return refuse("the grant cannot be read")
	}
	slim, terms := g, ""
	if protocol.IsTool(info.ActivityType.Name) && call.Agent != nil {
		known := protocol.Known(call, inputDigest)
		g, terms = g.Full(known), known.Terms
	} else if g.Terms != "" {
		terms = protocol.Terms(call)
	}
	place := protocol.Place{Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID,
		ActivityType: info.ActivityType.Name, ActivityID: info.ActivityID}
	if info.IsLocalActivity {
		// Its id is the SDK's own and nobody attests it: gate and activity are one process.
		place.ActivityID, call.ID = g.CallID, g.CallID
	}
	if g != slim && e.cfg.Keys.Empty() {
		// What was filled in is under a signature that this worker cannot check: one that has the key may.
		r := tool.Fail(tool.ContractDrift, "the call's grant is signed, and this worker has no key to check it")
		return &r
	}
	if err := e.cfg.Keys.Verify(g, place, inputDigest, started(info)); err != nil {
		why, late := err.Error(), new(protocol.GrantError)
		_ = errors.As(err, &late)
		if g != slim && !late.Expired {
			why += "; it is for another call, run or contract or for other arguments, or it is forged"
		}
		r := refuse(why)
		if late.Expired {
			r.Failure.Reason = tool.ByExpiry
			if info.Attempt > 1 && risk != tool.Read {
				u := tool.Fail(tool.EffectUnknown, "the approval expired before this attempt; the one before may have had its effect, check before trying again")
				u.Failure.Started = true
				return &u
			}
		}
		return r
	}
	switch {
	case !sameCall(call.ID, g.CallID) || !sameCall(place.ActivityID, g.CallID):
		return refuse("the grant is for another call")
	case protocol.IsTool(info.ActivityType.Name) && (g.CallID != call.ID || g.ContractHash != call.ContractHash || g.Source != call.Source):
		// An activity of the team's own has no contract here, although an agent that uses it has one.
		return refuse("the grant is for another contract or source")
	case protocol.IsTool(info.ActivityType.Name) && g.MAC != "" && (g.Terms != "" || call.Agent != nil) && g.Terms != terms:
		return refuse("the grant is for another directory, agent, approval or policy than the call says")
	case g.RunID == info.WorkflowExecution.RunID || repeatable:
		return nil
	}
	// A reset dispatches again what was in flight. The run that was granted may have had the effect.
	r := tool.Fail(tool.EffectUnknown, "the run was reset while this call was in flight; it may have had its effect, check before trying again")
	r.Failure.Started = true
	return &r
}

// sameCall reports whether an activity id belongs to a call: itself, or a later try of it.
func sameCall(activityID, callID string) bool {
	rest, ok := strings.CutPrefix(activityID, callID)
	return ok && callID != "" && (rest == "" || rest[0] == '~')
}

// lost reports that the worktree a call belongs to is gone.
func (e *Engine) lost(ctx context.Context, call tool.Call) *tool.Result {
	if len(call.Lease) == 0 && call.Isolation != string(worktree.Tree) {
		return nil
	}
	var lease worktree.Lease
	fail := func(why string) *tool.Result {
		r := tool.Fail(tool.EnvironmentLost, why)
		return &r
	}
	// A call that has no lease fails here too: a tool of an agent in a worktree never runs elsewhere.
	if err := json.Unmarshal(call.Lease, &lease); err != nil {
		return fail("the lease of the worktree cannot be read")
	}
	if e.cfg.Worktrees == nil {
		return fail("this worker has no worktrees")
	}
	if lease.Dir != call.Dir {
		return fail("the call names another directory than its worktree")
	}
	if err := sameRun(ctx, lease); err != nil {
		return fail(err.Error())
	}
	if err := e.cfg.Worktrees.Check(ctx, lease); err != nil {
		return fail(err.Error())
	}
	return nil
}

// run is what the body of a tool activity needs; it exists only behind the gate.
type run struct {
	call  pipeline.Call
	input json.RawMessage
	tool  *tool.Context
	// def is nil for activities of a team's own.
	def *tool.Def
}

type runKey struct{}

func (e *Engine) newRun(ctx context.Context, call tool.Call, info tool.Info, input json.RawMessage) *run {
	ai := activity.GetInfo(ctx)
	agent := tool.Agent{}
	if call.Agent != nil {
		agent = *call.Agent
	}
	return &run{
		input: input,
		call: pipeline.Call{ID: call.ID, Name: call.Name, Input: input, Info: info, Agent: call.Agent,
			RunID: ai.WorkflowExecution.RunID, Dir: call.Dir, Isolation: call.Isolation, Attempt: int(ai.Attempt),
			IdempotencyKey: call.IdempotencyKey, Approved: call.Approved, Modified: call.Modified},
		tool: &tool.Context{RunID: ai.WorkflowExecution.RunID, SpanID: call.ID, Agent: agent, Dir: call.Dir,
			Isolation: call.Isolation, Attempt: int(ai.Attempt), CallID: call.ID, IdempotencyKey: call.IdempotencyKey,
			Log: e.log.With("tool", call.Name, "call", call.ID, "workflow", ai.WorkflowExecution.ID), Approved: call.Approved,
			Rules: e.rules(call)},
	}
}

// RunTool is the body of every tool activity. It runs only what the interceptor has let through.
func RunTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return tool.Result{}, denied(tool.Deny(tool.ByGrant, "", "this worker runs tools without Assent's interceptor"))
	}
	// What it begins with is what it runs, whatever is mounted or offered meanwhile.
	return r.def.Invoke(ctx, r.tool, r.input), nil
}

// RunDynamicTool serves tool activities that were not registered by name, on workers of our own.
func RunDynamicTool(ctx context.Context, args converter.EncodedValues) (tool.Result, error) {
	if t := activity.GetInfo(ctx).ActivityType.Name; !protocol.IsTool(t) {
		return tool.Result{}, temporal.NewApplicationError("activity type \""+t+"\" is not registered on this worker", "ActivityNotRegisteredError")
	}
	var call tool.Call
	if err := args.Get(&call); err != nil {
		return tool.Result{}, denied(tool.Deny(tool.ByGrant, "", "the argument is no tool call"))
	}
	return RunTool(ctx, call)
}

// settle makes a result fit into history. An oversized one would be a retryable failure after the tool ran.
func (e *Engine) settle(ctx context.Context, r tool.Result) (any, error) {
	if r.Code == tool.Aborted && stopping(ctx) {
		// Nobody cancelled the call: the worker is going away in the middle of it.
		return nil, errWorkerStopped
	}
	if size(r.Value) > protocol.InlineResult {
		// The result is kept although the call's own context may be over.
		ref, err := e.cfg.Blobs.Put(context.WithoutCancel(ctx), r.Value)
		if err != nil {
			res := tool.Fail(tool.ToolError, "the tool ran, and its result could not be stored: "+cut(err.Error(), 500))
			res.Failure.Started = true
			return res, nil
		}
		const preview = 1 << 10
		r.Preview, r.Value, r.ValueRef = cut(string(r.Value), preview), nil, &ref
	}
	if failed := e.settleImages(context.WithoutCancel(ctx), &r); failed != nil {
		return *failed, nil
	}
	if size(r.FinalInput) > protocol.InlineInput {
		// The workflow has it by reference.
		r.FinalInput = nil
	}
	if f := r.Failure; f != nil {
		const most = 16 << 10
		f.Message = cut(f.Message, most)
		if len(f.Data) > most {
			f.Data = nil
		}
		if len(f.Issues) > 50 {
			f.Issues = f.Issues[:50]
		}
	}
	return r, nil
}

var errWorkerStopped = temporal.NewApplicationError("the worker stopped while the tool ran", "assent.WorkerStopped")

func stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}

// Observe tells observers of a call that never reached a tool. Arguments that are stored elsewhere and cannot be had are
// no reason to keep the outcome from them.
func (e *Engine) Observe(ctx context.Context, req protocol.ObserveRequest) error {
	input, err := e.load(ctx, req.Call.Store, req.Call.Input, req.Call.InputRef)
	if err != nil {
		e.log.Warn("assent: observers are not told the arguments", "tool", req.Call.Name, "call", req.Call.ID, "error", cut(err.Error(), 500))
	}
	// A worker that has not listed the tool's source knows what the call says of it.
	info := tool.Info{Name: req.Call.Name, Risk: req.Call.Risk, NeedsApproval: req.Call.NeedsApproval}
	if def := e.served(req.Call); def != nil {
		info = def.Info()
	}
	e.cfg.Pipeline.Observe(ctx, pipeline.Call{ID: req.Call.ID, Name: req.Call.Name, Input: input, Info: info,
		Agent: req.Call.Agent, RunID: activity.GetInfo(ctx).WorkflowExecution.RunID}, req.Result)
	return nil
}

// errNoWorktrees is for workers that are asked for trees and have no repositories.
var errNoWorktrees = fault.Configf("isolation", "this worker has no repositories for worktrees")
