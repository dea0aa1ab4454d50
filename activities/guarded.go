package activities

import (
	"context"
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"

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
	x := executions{judged: e.cfg.Pipeline.HasPosts(), local: info.IsLocalActivity}
	res := e.cfg.Pipeline.Run(ctx, run.call, nil, func(ctx context.Context) tool.Result {
		return x.of(func() (any, error) { return i.Next.ExecuteActivity(ctx, in) })
	})
	return x.end(e.cfg.Pipeline.HasPosts()).settle(ctx, res, e.cfg.Words)
}

// arguments are those of an activity in the form in which its workflow had them judged.
func arguments(args []any) (input json.RawMessage) {
	defer func() {
		// A team's own types write themselves, and without the gate nobody would ask them to.
		if recover() != nil {
			input = json.RawMessage("null")
		}
	}()
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
