package workflows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

const (
	// mostReceived bounds what the outcome of one call may weigh on its way to a worker of the agent's own. The server
	// takes 2 MiB; a task with more would fail for ever.
	mostReceived = 2<<20 - 128<<10
	// mostOnTheWay bounds the outcomes of all calls that are on their way, because those of one workflow task have to fit
	// into one message of 4 MiB.
	mostOnTheWay = 2 << 20
	// mostPerCall is what a call may add to the history, its value twice. The server ends a run at 50 MiB; mostHistory leaves
	// the agent room to come to its end.
	mostPerCall, mostHistory = 4 << 20, 40 << 20
	// grace is how long a cancelled activity without heartbeats is waited for. One that was never taken is gone at once; one
	// that runs does not hear of it.
	grace = 10 * time.Second
)

// outcome is how a call ended that another worker ran. The value is set if the result is OK.
type outcome struct {
	result tool.Result
	value  converter.RawValue
	// dispatched says that the call may have begun.
	dispatched bool
	// lent is what the agents of a workflow could spend of the agent's budget; nil if it has none.
	lent *float64
}

// abroad is what an agent knows of the calls that others' workers run for it.
type abroad struct {
	// calls run now; onTheWay weighs their outcomes, and is made for the first.
	calls    int
	onTheWay workflow.Semaphore
	// lent is what workflows that run as tools may spend on agents now.
	lent float64
}

func (a *agent) others() *abroad {
	if a.abroad == nil {
		a.abroad = &abroad{}
	}
	return a.abroad
}

// foreign runs a permitted call of a tool that is an activity or a workflow of a team's own. What comes back is not shown to
// anybody before a worker of the agent has put it through the listeners.
func (a *agent) foreign(ctx workflow.Context, s *step) tool.Result {
	call := a.callOf(s)
	call.Lease = nil
	out, full := outcome{}, false
	// Calls at once are as many as can all come back with the most that there is. One counts until its value is in history
	// for the second time.
	abroad := a.others()
	_ = workflow.Await(ctx, func() bool {
		size := workflow.GetInfo(ctx).GetCurrentHistorySize() + (abroad.calls+1)*mostPerCall
		full = size > mostHistory && abroad.calls == 0
		return size <= mostHistory || full
	})
	abroad.calls++
	defer func() { abroad.calls-- }()
	if full {
		out.result = tool.Fail(tool.Skipped, "the agent's history is nearly full; what other workers return is in it, and no more of their tools are called")
	} else {
		lent := a.lend(s.permit)
		out = a.gate.remote(workflow.WithValue(ctx, lentKey{}, lent), s.permit, call)
		out.result = revoked(ctx, out.result)
		out.lent = lent
		defer a.paidBack(lent)
	}
	return a.receive(ctx, s.permit, call, out)
}

// remote runs the call, again if no worker knew its type. It never leaves the outcome open.
func (g *gate) remote(ctx workflow.Context, p *permit, call tool.Call) outcome {
	r := p.facts.Remote
	wait := g.patience()
	if most := r.Timeouts.ScheduleToStart; most > 0 {
		wait.most, wait.until = &most, workflow.Now(ctx).Add(most)
	}
	for n := 1; ; n++ {
		args, refused := g.mayStart(ctx, p)
		if refused != nil {
			return outcome{result: *refused, dispatched: n > 1}
		}
		g.dispatched(p)
		if r.Kind == tool.RemoteWorkflow {
			return g.child(ctx, p, args)
		}
		p.place.ActivityID = call.ID
		if n > 1 {
			p.place.ActivityID = fmt.Sprintf("%s~%d", call.ID, n)
		}
		out := g.activity(ctx, p, args)
		if out.result.Code != codeNeverStarted {
			return out
		}
		if wait.left(ctx) && workflow.Sleep(ctx, wait.pause()) == nil {
			continue
		}
		if out.result.Code = tool.ToolError; r.Retry.MaximumAttempts != 1 {
			// That is what the last attempt came to.
			out.result = p.unknown(out.result.Failure.Message)
		}
		return out
	}
}

// mayStart says at the moment of execution what a worker of ours would say: it returns the arguments or a refusal.
func (g *gate) mayStart(ctx workflow.Context, p *permit) ([]any, *tool.Result) {
	refuse := func(r tool.Result) ([]any, *tool.Result) { return nil, &r }
	switch {
	case withdrawn(ctx):
		return refuse(notStarted())
	case p.inputRef != nil:
		return refuse(tooLong(p.facts))
	case p.expires != 0 && workflow.Now(ctx).Unix() > p.expires:
		return refuse(expired())
	case !sameRun(ctx, p):
		r := tool.Fail(tool.EffectUnknown, "the run was reset after this call was decided; it may have had its effect before, check before trying again")
		r.Failure.Started = true
		return refuse(r)
	}
	list, err := p.facts.Remote.Arguments(p.input)
	if err != nil {
		return refuse(tool.Fail(tool.InvalidArguments, err.Error()))
	}
	args := make([]any, len(list))
	for i, raw := range list {
		// As JSON and not as a payload, so that the team's converter and codec treat it like their own values.
		args[i] = raw
	}
	return args, nil
}

// tooLong is the result of a call whose arguments are not in history, where another worker would read them.
func tooLong(f protocol.ToolFacts) tool.Result {
	r := tool.Fail(tool.InvalidArguments, fmt.Sprintf("the arguments are too long: %q is %s, and such a tool takes at most %d bytes, %d with all "+
		"calls of a turn, and fewer when a person edits them", f.Name, f.Remote, protocol.InlineInput, protocol.InlineTurn))
	r.Failure.Issues = []tool.Issue{{Message: "too long"}}
	return r
}

// sameRun says that the run which permitted the call is the one that goes on with it. A reset in between means that the
// call may have run already, and the other worker does not check. The run id is recorded where it is true: while a
// history replays, it is that of the last run.
func sameRun(ctx workflow.Context, p *permit) bool {
	if p.facts.Repeatable() {
		return true
	}
	var now string
	err := workflow.SideEffect(ctx, func(ctx workflow.Context) any { return workflow.GetInfo(ctx).WorkflowExecution.RunID }).Get(&now)
	return err == nil && now == p.runID
}

// activity runs one activity of the team's own, with the team's own times and retries.
func (g *gate) activity(ctx workflow.Context, p *permit, args []any) outcome {
	r := p.facts.Remote
	t := r.Timeouts
	wait := cmp.Or(t.ScheduleToStart, g.cfg.Patience)
	if p.expires != 0 {
		// Nobody on the other worker looks at the clock.
		wait = min(wait, time.Unix(p.expires+1, 0).Sub(workflow.Now(ctx)))
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: p.place.ActivityID, TaskQueue: r.TaskQueue, Summary: summary(p), WaitForCancellation: true,
		StartToCloseTimeout: t.StartToClose, ScheduleToCloseTimeout: t.ScheduleToClose, ScheduleToStartTimeout: wait,
		HeartbeatTimeout: t.Heartbeat, RetryPolicy: policy(r.Retry),
	})
	f := workflow.ExecuteActivity(workflow.WithValue(ctx, permitKey{}, p), r.Type, args...)
	if f.IsReady() {
		return p.unsent(ctx, f)
	}
	if t.Heartbeat == 0 && !ends(ctx, f) {
		res := tool.Fail(tool.Aborted, "the call was cancelled; the activity expects no heartbeats and was not told, so it may still have its effect")
		res.Failure.Started = true
		return outcome{result: res, dispatched: true}
	}
	return p.outcome(ctx, f)
}

// ends waits for a future, after a cancellation no longer than grace.
func ends(ctx workflow.Context, f workflow.Future) bool {
	// No selector: it takes no future that an interceptor has wrapped.
	if workflow.Await(ctx, f.IsReady) == nil || f.IsReady() {
		return true
	}
	after, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	ok, _ := workflow.AwaitWithTimeout(after, grace, f.IsReady)
	return ok
}

func policy(r tool.Retry) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval: cmp.Or(r.InitialInterval, time.Second), BackoffCoefficient: cmp.Or(r.BackoffCoefficient, 2),
		MaximumInterval: r.MaximumInterval, MaximumAttempts: int32(r.MaximumAttempts),
		NonRetryableErrorTypes: append(slices.Clone(r.NonRetryable), protocol.ErrorDenied),
	}
}

// child runs a workflow of the team's own. It ends with the agent, and the agent waits until it has.
func (g *gate) child(ctx workflow.Context, p *permit, args []any) outcome {
	r := p.facts.Remote
	o := workflow.ChildWorkflowOptions{
		// The same for every try of this call, and another one when it is decided anew after a reset, or when the agent's id
		// is used again.
		WorkflowID: p.runID + "_" + p.callID, TaskQueue: r.TaskQueue, StaticSummary: summary(p), WaitForCancellation: true,
		WorkflowRunTimeout: r.Timeouts.StartToClose, WorkflowExecutionTimeout: r.Timeouts.ScheduleToClose,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
	}
	if r.Retry.MaximumAttempts != 1 {
		o.RetryPolicy = policy(r.Retry)
	}
	if _, err := g.converter(ctx).ToPayloads(args...); err != nil {
		// As the SDK does for activities: a codec that is away stops the task until it is back. As a result it would be
		// another one when the history replays.
		panic(err)
	}
	p.place.ActivityID = o.WorkflowID
	ctx = workflow.WithChildOptions(ctx, o)
	f := workflow.ExecuteChildWorkflow(workflow.WithValue(ctx, permitKey{}, p), r.Type, args...)
	if f.IsReady() {
		return p.unsent(ctx, f)
	}
	me := protocol.Started{WorkflowID: o.WorkflowID, WorkflowType: r.Type}
	g.family().has(me)
	defer g.family().lost(me)
	return p.outcome(ctx, f)
}

// ExecuteChildWorkflow puts the grant of a permitted call into its header, as ExecuteActivity does.
func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, workflowType string, args ...any) workflow.ChildWorkflowFuture {
	if p, ok := ctx.Value(permitKey{}).(*permit); ok {
		if err := p.leave(ctx, o.gate.cfg.Keys, workflowType, args); err != nil {
			return o.Next.ExecuteChildWorkflow(refusing{ctx, err}, workflowType, args...)
		}
	}
	if err := o.gate.begets(ctx, workflowType); err != nil {
		return o.Next.ExecuteChildWorkflow(refusing{ctx, err}, workflowType, args...)
	}
	return o.Next.ExecuteChildWorkflow(ctx, workflowType, args...)
}

// leave lets a permitted call go out with its grant. A worker of somebody else does not hold the arguments against the
// grant, so it is done here, behind the interceptors of the team that could have rewritten them.
func (p *permit) leave(ctx workflow.Context, keys protocol.Keyring, typ string, args []any) error {
	if r := p.facts.Remote; r != nil {
		allowed, err := r.Arguments(p.input)
		same := err == nil && typ == r.Type && slices.EqualFunc(allowed, args, func(want json.RawMessage, got any) bool {
			raw, ok := got.(json.RawMessage)
			return ok && bytes.Equal(want, raw)
		})
		if !same {
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("an interceptor changed the call of %q after it was allowed", p.facts.Name), protocol.ErrorDenied, nil)
		}
	}
	return p.stamp(ctx, keys, typ)
}

// outcome waits for the end and reads it. Values are not looked at here.
func (p *permit) outcome(ctx workflow.Context, f workflow.Future) outcome {
	out := outcome{result: tool.Result{Code: tool.OK}, dispatched: true}
	if err := recorded(ctx, f, &out.value); err != nil {
		out.result = p.failure(ctx, err)
	}
	return out
}

// receive hands an outcome to a worker of the agent's own and returns what that makes of it. A cancellation does not reach
// it: what has happened is told.
func (a *agent) receive(ctx workflow.Context, p *permit, call tool.Call, out outcome) tool.Result {
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	value := out.value
	if value.Payload() == nil {
		value = converter.NewRawValue(&commonpb.Payload{Data: []byte("null"),
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}})
	}
	// Not as the converter would count: the order in which calls go on may not depend on it.
	load := min(int64(len(value.Payload().GetData())+len(call.Input)), mostOnTheWay)
	abroad := a.others()
	if abroad.onTheWay == nil {
		abroad.onTheWay = workflow.NewSemaphore(ctx, mostOnTheWay)
	}
	if err := abroad.onTheWay.Acquire(ctx, load); err != nil {
		return lostOutcome(out)
	}
	defer abroad.onTheWay.Release(load)
	req := protocol.ReceiveRequest{Call: call, Tool: p.facts, RunID: p.runID, Result: out.result, Dispatched: out.dispatched}
	if a.gate.weigh(ctx, req, value) > mostReceived {
		req.Result = tool.Fail(tool.ToolError, fmt.Sprintf("the call ran and ended with %s; what it returned has %d bytes, too many to be passed on",
			out.result.Code, len(value.Payload().GetData())+weight(out.result)))
		req.Result.Failure.Started = true
		value = converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingNil)}})
	}
	if out.lent != nil && out.dispatched {
		req.Child, req.LentUSD = p.place.ActivityID, *out.lent
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, Summary: label(call.Name) + " · result",
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute, MaximumAttempts: 10,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorStore}},
	})
	var res protocol.ReceiveResponse
	if err := recorded(ctx, workflow.ExecuteActivity(ctx, protocol.ActivityReceiveResult, req, value), &res); err != nil {
		workflow.GetLogger(ctx).Error("assent: a result could not be received", "tool", call.Name, "call", call.ID, "error", err)
		a.spent.BelowUSD += req.LentUSD
		return lostOutcome(out)
	}
	a.spent.BelowUSD += protocol.Dollars(res.SpentUSD)
	return res.Result
}
