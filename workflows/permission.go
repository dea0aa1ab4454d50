package workflows

import (
	"reflect"
	"strings"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
)

// NewInterceptor returns the workflow half of the seam, for a worker without other interceptors.
func NewInterceptor(cfg Config) (interceptor.WorkerInterceptor, error) {
	_, last, err := NewInterceptors(cfg)
	return last, err
}

// NewInterceptors returns the workflow half of the seam in two pieces, between which all other interceptors stand.
// What the first interceptor of a worker is given on the way out of a workflow goes to the server as it is, so that is
// what it judges; what the last one is given on the way in is what the workflow gets.
func NewInterceptors(cfg Config) (first, last interceptor.WorkerInterceptor, err error) {
	if err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	return &workerInterceptor{cfg: &cfg, first: true}, &workerInterceptor{cfg: &cfg}, nil
}

type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	cfg *Config
	// first leaves the arguments of guarded workflow types to the last one.
	first bool
}

// InterceptWorkflow makes the gate of one run. It exists before the first signal is delivered, which is before
// the workflow's own code runs.
func (w *workerInterceptor) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	info := workflow.GetInfo(ctx)
	own := info.WorkflowType.Name == protocol.WorkflowAgent
	in := &inbound{gate: newGate(w.cfg, own, own && continues(info)), first: w.first}
	in.Next = next
	return in
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	gate  *gate
	first bool
	// opened says that this half has opened the gate, and closes it.
	opened bool
}

// Init is told where calls go to. Where nobody stands between the two halves, the first one's gate is enough.
func (i *inbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	if i.first && i.gate.cfg.Behind != nil {
		i.gate.cfg.Behind(out)
	}
	if _, gated := out.(*outbound); gated {
		i.gate = nil
		return i.Next.Init(out)
	}
	o := &outbound{gate: i.gate}
	o.Next = out
	i.gate.spawn = out.Go
	return i.Next.Init(o)
}

// ExecuteWorkflow opens the gate, runs the workflow behind it and closes what it leaves open. An agent is parked here: what is
// on the stack below stays there meanwhile, so this function holds little and leaves the rest to others that return.
func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	a, res, err := i.pass(ctx, in)
	for a != nil {
		_ = workflow.Await(a.turn.until())
		a, res, err = i.goOn(a)
	}
	return res, err
}

// pass lets a run through the gate. It returns an agent if that waits, else what the workflow returns.
func (i *inbound) pass(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (*agent, any, error) {
	g := i.gate
	if outer := gateFrom(ctx); outer != nil {
		// Installed twice: the outer one acts, and this one sees what the workflow gets.
		return i.within(ctx, outer, in)
	}
	if g == nil {
		// The first half lets the run be what it was.
		res, err := i.Next.ExecuteWorkflow(ctx, in)
		return nil, res, err
	}
	// A run that began before the gate existed stays as it is for its life.
	g.open = g.own || workflow.GetVersion(ctx, protocol.ChangeGate, workflow.DefaultVersion, 1) >= 1
	if !g.open {
		res, err := i.Next.ExecuteWorkflow(ctx, in)
		return nil, res, err
	}
	ctx = workflow.WithValue(ctx, gateKey{}, g)
	if w, ok := ctx.Value(watchKey{}).(Watcher); ok {
		g.watchers = append(g.watchers, w)
	}
	if err := g.register(ctx); err != nil {
		return nil, nil, temporal.NewNonRetryableApplicationError("register approval handlers", protocol.ErrorConfig, err)
	}
	if g.own && len(in.Args) == 0 {
		// Called without its arguments, an agent would panic in every task for ever.
		in.Args = []any{protocol.AgentInput{}}
	}
	if g.own && len(in.Args) == 1 {
		in.Args = append(in.Args, (*protocol.AgentState)(nil))
	}
	g.board.lineage = inherited(ctx)
	g.vouch(ctx)
	g.restore(ctx)
	g.recall(ctx)
	defer g.broken(ctx)
	i.opened = true
	a, res, err := i.within(ctx, g, in)
	if a != nil {
		return a, nil, nil
	}
	return nil, res, i.leave(ctx, err)
}

// within is the way of a run whose gate is open.
func (i *inbound) within(ctx workflow.Context, g *gate, in *interceptor.ExecuteWorkflowInput) (*agent, any, error) {
	if !i.first {
		if err := g.enter(ctx, in.Args); err != nil {
			return nil, nil, err
		}
	}
	return i.begin(ctx, in)
}

// begin runs the workflow. The SDK would call an agent by reflection, which keeps 2 kB of stack, and on top of what stands
// here. So where the SDK is next, the agent is called as it is; and where the other half is, that need not be on the stack.
func (i *inbound) begin(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (*agent, any, error) {
	if next, ok := i.Next.(*inbound); ok {
		return next.within(ctx, gateFrom(ctx), in)
	}
	input, state, own := i.agents(ctx, in.Args)
	if !own {
		res, err := i.Next.ExecuteWorkflow(ctx, in)
		return nil, res, err
	}
	return returned(begin(ctx, input, state))
}

// goOn goes on with an agent that waited, like pass.
func (i *inbound) goOn(a *agent) (*agent, any, error) {
	ctx := a.ctx
	a, res, err := returned(a.goOn())
	if a == nil && i.opened {
		err = i.leave(ctx, err)
	}
	return a, res, err
}

// returned is what the SDK is given: nothing is no pointer that is nil.
func returned(a *agent, res *protocol.AgentResult, err error) (*agent, any, error) {
	if res == nil {
		return a, nil, err
	}
	return a, res, err
}

// leave closes the gate behind a run that has ended, and returns its error.
func (i *inbound) leave(ctx workflow.Context, err error) error {
	i.gate.ends(ctx, err)
	err = i.gate.ending(ctx, err)
	i.gate.account(ctx)
	i.gate.leave(ctx, err)
	return err
}

// agents reports whether the SDK would call Agent next, and with what. Under another name of the SDK's it is called by
// reflection, as it is on a worker that runs no agents.
func (i *inbound) agents(ctx workflow.Context, args []any) (*protocol.AgentInput, *protocol.AgentState, bool) {
	g, next := gateFrom(ctx), reflect.TypeOf(i.Next)
	if g == nil || !g.own || g.cfg.AgentQueue != "" || len(args) != 2 ||
		next.String() != "*internal.workflowEnvironmentInterceptor" || next.Elem().PkgPath() != "go.temporal.io/sdk/internal" {
		return nil, nil, false
	}
	in, ok := args[0].(protocol.AgentInput)
	// The SDK leaves out of an interface a pointer that is nil.
	state, held := args[1].(*protocol.AgentState)
	return &in, state, ok && (held || args[1] == nil)
}

// HandleSignal takes answers; every other signal goes on untouched.
func (i *inbound) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if i.gate == nil {
		return i.Next.HandleSignal(ctx, in)
	}
	if in.SignalName != i.gate.names().signal {
		i.gate.heard++
		return i.Next.HandleSignal(ctx, in)
	}
	i.gate.arrive(ctx, in.Arg)
	return nil
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	gate *gate
}

// ownIDs starts the activity ids that the gate gives to calls without one.
const ownIDs = "assent-"

type permitKey struct{}

// ExecuteActivity is the one way to a tool. A context with a permit carries its grant to the worker; a guarded
// call without one is judged first.
func (o *outbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if p, ok := ctx.Value(permitKey{}).(*permit); ok {
		if err := p.leave(ctx, o.gate.cfg.Keys, activityType, args); err != nil {
			return failed(ctx, err)
		}
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	if o.gate.own {
		if protocol.IsTool(activityType) {
			return failed(ctx, ungated(activityType))
		}
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	if id := workflow.GetActivityOptions(ctx).ActivityID; o.gate.open && strings.HasPrefix(id, ownIDs) {
		// Two activities of one id would fail the workflow task for ever.
		return failed(ctx, temporal.NewNonRetryableApplicationError("activity id \""+id+"\" is reserved", protocol.ErrorConfig, nil))
	}
	facts, guarded := o.gate.guards(ctx, o.gate.cfg.Guarded, activityType)
	if !guarded {
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	return o.gate.guard(ctx, facts, activityType, args, o.Next.ExecuteActivity)
}

// ExecuteLocalActivity gates what is guarded like ExecuteActivity. Tools of agents never run as local activities.
func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if protocol.IsTool(activityType) {
		return failed(ctx, ungated(activityType))
	}
	facts, guarded := o.gate.guards(ctx, o.gate.cfg.Guarded, activityType)
	if !guarded {
		return o.Next.ExecuteLocalActivity(ctx, activityType, args...)
	}
	return o.gate.guardLocal(ctx, facts, activityType, args, o.Next.ExecuteLocalActivity)
}

// ExecuteNexusOperation gates an operation that is guarded. It returns when that has been decided.
func (o *outbound) ExecuteNexusOperation(ctx workflow.Context, in interceptor.ExecuteNexusOperationInput) workflow.NexusOperationFuture {
	if !o.gate.open || o.gate.own {
		return o.Next.ExecuteNexusOperation(ctx, in)
	}
	name := operationName(in)
	facts, guarded := o.gate.guards(ctx, o.gate.cfg.GuardedOperations, name)
	if !guarded {
		return o.Next.ExecuteNexusOperation(ctx, in)
	}
	if err := o.gate.operation(ctx, facts, name, in.Input); err != nil {
		return o.Next.ExecuteNexusOperation(refusing{ctx, err}, in)
	}
	return o.Next.ExecuteNexusOperation(ctx, in)
}

// GetSignalChannel tells a workflow that listens to our signal that it listens in vain: there is no error to return.
func (o *outbound) GetSignalChannel(ctx workflow.Context, name string) workflow.ReceiveChannel {
	o.gate.unheard(ctx, name)
	return o.Next.GetSignalChannel(ctx, name)
}

// GetSignalChannelWithOptions is like GetSignalChannel.
func (o *outbound) GetSignalChannelWithOptions(ctx workflow.Context, name string, opts workflow.SignalChannelOptions) workflow.ReceiveChannel {
	o.gate.unheard(ctx, name)
	return o.Next.GetSignalChannelWithOptions(ctx, name, opts)
}

func (g *gate) unheard(ctx workflow.Context, name string) {
	if g.open && !g.own && name == g.names().signal {
		workflow.GetLogger(ctx).Error("assent: the workflow listens to a reserved signal and will not receive it", "signal", name)
	}
}

// SetQueryHandler refuses a workflow's own handler under a reserved name, which would silently replace ours.
func (o *outbound) SetQueryHandler(ctx workflow.Context, name string, handler any) error {
	if err := o.reserved(name); err != nil {
		return err
	}
	return o.Next.SetQueryHandler(ctx, name, handler)
}

// SetQueryHandlerWithOptions is like SetQueryHandler.
func (o *outbound) SetQueryHandlerWithOptions(ctx workflow.Context, name string, handler any, opts workflow.QueryHandlerOptions) error {
	if err := o.reserved(name); err != nil {
		return err
	}
	return o.Next.SetQueryHandlerWithOptions(ctx, name, handler, opts)
}

// SetUpdateHandler is like SetQueryHandler.
func (o *outbound) SetUpdateHandler(ctx workflow.Context, name string, handler any, opts workflow.UpdateHandlerOptions) error {
	if err := o.reserved(name); err != nil {
		return err
	}
	return o.Next.SetUpdateHandler(ctx, name, handler, opts)
}

// reserved lets each name pass once, for our own registration, which comes first.
func (o *outbound) reserved(name string) error {
	if !o.gate.open || o.gate.own || !strings.HasPrefix(name, protocol.GuardPrefix) {
		return nil
	}
	if (name == o.gate.names().query || name == o.gate.names().update) && !o.gate.registered(name) {
		return nil
	}
	return temporal.NewNonRetryableApplicationError("handler name \""+name+"\" is reserved", protocol.ErrorConfig, nil)
}

func ungated(activityType string) error {
	return temporal.NewNonRetryableApplicationError("tool \""+activityType+"\" was called past the gate", protocol.ErrorDenied, nil)
}

func failed(ctx workflow.Context, err error) workflow.Future {
	f, s := workflow.NewFuture(ctx)
	s.SetError(err)
	return f
}
