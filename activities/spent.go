package activities

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/protocol"
)

// spentBelow is what the agents of a workflow have spent that was called as a tool: what it has left in its memo, or, if it
// was ended before it could, all that they may have spent.
func (e *Engine) spentBelow(ctx context.Context, req protocol.ReceiveRequest) (float64, error) {
	if req.Child == "" || !(req.LentUSD > 0) {
		return 0, nil
	}
	return e.spentOf(ctx, req.Child, "", req.LentUSD)
}

// AssentSpent is the local activity that says what the agents of a workflow that is tried again have cost until now, or what a turn
// may have. It is a top-level function whose name is in histories.
func AssentSpent(ctx context.Context, req protocol.SpentRequest) (protocol.SpentResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.SpentResponse{}, err
	}
	if req.Turn {
		usd, err := e.atRisk(ctx)
		return protocol.SpentResponse{SpentUSD: usd}, err
	}
	usd, err := e.spentOf(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, req.Before, req.LentUSD)
	return protocol.SpentResponse{SpentUSD: usd}, err
}

// atRisk is what the attempts of the run's turn have put down with the server.
func (e *Engine) atRisk(ctx context.Context) (float64, error) {
	info := activity.GetInfo(ctx)
	if info.Namespace == testNamespace {
		return 0, nil
	}
	desc, err := activity.GetClient(ctx).DescribeWorkflow(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	if err != nil {
		return 0, err
	}
	for _, p := range desc.RawResponse.GetPendingActivities() {
		if p.GetActivityType().GetName() != protocol.ActivityGenerate || p.GetHeartbeatDetails() == nil {
			continue
		}
		var usd float64
		err := converter.WithDataConverterSerializationContext(e.converter(), converter.ActivitySerializationContext{Namespace: info.Namespace,
			WorkflowID: info.WorkflowExecution.ID, WorkflowType: info.WorkflowType.Name, ActivityType: protocol.ActivityGenerate, TaskQueue: info.TaskQueue,
		}).FromPayloads(p.GetHeartbeatDetails(), &usd)
		return protocol.Dollars(usd), err
	}
	return 0, nil
}

// spentOf is what a run has left in its memo of which nothing else is known, the last one of its id without a run.
func (e *Engine) spentOf(ctx context.Context, id, run string, lent float64) (float64, error) {
	desc, err := activity.GetClient(ctx).DescribeWorkflow(ctx, id, run)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return lent, nil
	}
	if err != nil {
		return 0, err
	}
	info := desc.RawResponse.GetWorkflowExecutionInfo()
	p := info.GetMemo().GetFields()[protocol.MemoSpent]
	switch info.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		known, before, err := counted(ctx, info.GetExecution())
		switch {
		case errors.As(err, &gone):
			return lent, nil
		case err != nil:
			return 0, err
		case !known:
			return lent, nil
		case before != "":
			return e.spentOf(ctx, id, before, lent)
		}
	default:
		return lent, nil
	}
	if p == nil {
		return 0, nil
	}
	var usd float64
	dc := converter.WithDataConverterSerializationContext(e.converter(),
		converter.WorkflowSerializationContext{Namespace: activity.GetInfo(ctx).Namespace, WorkflowID: id})
	if dc.FromPayload(p, &usd) != nil && converter.GetDefaultDataConverter().FromPayload(p, &usd) != nil || !(usd >= 0) {
		return lent, nil
	}
	return usd, nil
}

// counted reports whether the memo of a run that failed or was ended says all that its agents have cost. One that panics beside the
// workflow's own stack, times out or is terminated says nothing, and its memo is that of the run which it continues: all, if it has
// started no agent. before is the try before it, of which its memo knows nothing.
func counted(ctx context.Context, run *commonpb.WorkflowExecution) (known bool, before string, err error) {
	req := &workflowservice.GetWorkflowExecutionHistoryReverseRequest{Namespace: activity.GetInfo(ctx).Namespace, Execution: run}
	for {
		// From its end, where a run says it.
		page, err := activity.GetClient(ctx).WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, req)
		if err != nil {
			return false, "", err
		}
		for _, e := range page.GetHistory().GetEvents() {
			if _, said := e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo().GetFields()[protocol.MemoSpent]; said {
				return true, "", nil
			}
			if e.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetWorkflowType().GetName() == protocol.WorkflowAgent {
				return false, "", nil
			}
			if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
				if a.GetInitiator() != enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW {
					before = a.GetContinuedExecutionRunId()
				}
				return true, before, nil
			}
		}
		if req.NextPageToken = page.GetNextPageToken(); len(req.NextPageToken) == 0 {
			return false, "", nil
		}
	}
}

// converter is the team's.
func (e *Engine) converter() converter.DataConverter {
	if e.cfg.Converter != nil {
		return e.cfg.Converter
	}
	return converter.GetDefaultDataConverter()
}
