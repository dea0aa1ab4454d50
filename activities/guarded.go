package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// guarded runs a team's own activity behind its grant and the guards.
func (i *inbound) guarded(ctx context.Context, in *interceptor.ExecuteActivityInput, facts protocol.ToolFacts) (any, error) {
	e := i.engine
	info := activity.GetInfo(ctx)
	call := tool.Call{ID: info.ActivityID, Name: facts.Name, ContractHash: facts.ContractHash}
	if e.cfg.Enforce == Off {
		return i.Next.ExecuteActivity(ctx, in)
	}
	// The typed arguments have lost their bytes here; what binds them is ActivityTaskScheduled itself.
	if r := e.granted(ctx, call, "", facts.Risk, facts.Repeatable()); r != nil {
		if r.Code == tool.EffectUnknown || r.Failure.Reason == tool.ByExpiry {
			// Log is for runs that are older than the gate. This one has a grant, and the grant says no.
			return nil, denied(*r)
		}
		return i.enforce(ctx, in, call, r.Failure.Message)
	}
	run := e.newRun(ctx, call, tool.Info{Name: facts.Name, Risk: facts.Risk, NeedsApproval: facts.NeedsApproval}, arguments(in.Args))
	var o outcome
	res := e.cfg.Pipeline.Run(ctx, run.call, nil, func(ctx context.Context) tool.Result {
		return o.of(func() (any, error) { return i.Next.ExecuteActivity(ctx, in) })
	})
	return o.settle(ctx, res, e.cfg.Words)
}

// arguments are those of an activity in the form in which its workflow had them judged.
func arguments(args []any) json.RawMessage {
	var list []json.RawMessage
	for _, a := range args {
		p, err := converter.GetDefaultDataConverter().ToPayload(a)
		if err != nil {
			return json.RawMessage("null")
		}
		list = append(list, protocol.Argument(string(p.GetMetadata()[converter.MetadataEncoding]), p.GetData()))
	}
	input, err := protocol.Input(list)
	if err != nil {
		return json.RawMessage("null")
	}
	return input
}

// outcome is what a team's activity did, beside what the pipeline is told of it.
type outcome struct {
	ran   bool
	out   any
	err   error
	crash any
	told  tool.Result
}

// of runs the activity and says how it ended.
func (o *outcome) of(run func() (any, error)) (told tool.Result) {
	*o = outcome{ran: true}
	defer func() {
		if o.crash = recover(); o.crash != nil {
			told = tool.Fail(tool.ToolError, fmt.Sprint("panic: ", o.crash))
		}
		o.told = told
	}()
	o.out, o.err = run()
	switch {
	case errors.Is(o.err, activity.ErrResultPending):
		// It began and somebody else completes it.
		return tool.Result{Code: tool.OK, Value: json.RawMessage("null")}
	case o.err != nil:
		return tool.Fail(tool.ToolError, o.err.Error())
	}
	value, err := json.Marshal(o.out)
	if err != nil {
		value = json.RawMessage("null")
	}
	return tool.Result{Code: tool.OK, Value: value}
}

// settle is what the server is told. Whatever the activity did itself stays as it is, so that the team's retry policy,
// cancellation and completion work as without the gate; what listeners replaced is replaced.
func (o *outcome) settle(ctx context.Context, res tool.Result, w protocol.Words) (any, error) {
	failed := res.Code == tool.ToolError || res.Code == tool.Aborted
	// A cancelled call is told with some words before its own.
	same := failed && o.told.Failure != nil && strings.HasSuffix(res.Failure.Message, o.told.Failure.Message)
	switch {
	case !o.ran && res.Code == tool.Aborted && ctx.Err() != nil:
		return nil, ctx.Err()
	case o.crash != nil && same:
		panic(o.crash)
	case o.crash != nil && failed:
		return nil, temporal.NewApplicationError(res.Failure.Message, "PanicError")
	case o.err != nil && (same || res.IsOK()):
		return o.out, o.err
	case o.err != nil && failed:
		return nil, reworded(o.err, res.Failure.Message)
	case res.IsOK() && o.ran && bytes.Equal(res.Value, o.told.Value):
		return o.out, nil
	case res.IsOK():
		return res.Value, nil
	}
	return nil, refused(res, w)
}

// reworded is an error with the words that a listener gave it, for the same retry policy.
func reworded(err error, message string) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return temporal.NewApplicationErrorWithOptions(message, app.Type(), temporal.ApplicationErrorOptions{
			NonRetryable: app.NonRetryable(), NextRetryDelay: app.NextRetryDelay(), Category: app.Category()})
	}
	if temporal.IsCanceledError(err) || errors.Is(err, context.Canceled) {
		return temporal.NewCanceledError()
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return temporal.NewApplicationError(message, t.Name())
}

// MetricWouldRefuse counts what log mode let through and On would refuse, by activity type.
const MetricWouldRefuse = "assent_would_refuse"

// enforce refuses, or in log mode reports what it would refuse.
func (i *inbound) enforce(ctx context.Context, in *interceptor.ExecuteActivityInput, call tool.Call, why string) (any, error) {
	info := activity.GetInfo(ctx)
	if i.engine.cfg.Enforce == Log || slices.Contains(i.engine.cfg.Draining, info.ActivityType.Name) {
		i.engine.log.Warn("assent: would be refused", "activity", info.ActivityType.Name, "call", call.ID,
			"workflow", info.WorkflowExecution.ID, "run", info.WorkflowExecution.RunID, "reason", why)
		activity.GetMetricsHandler(ctx).WithTags(map[string]string{"activity_type": info.ActivityType.Name}).Counter(MetricWouldRefuse).Inc(1)
		return i.Next.ExecuteActivity(ctx, in)
	}
	return nil, denied(tool.Deny(tool.ByGrant, "", why))
}
