package activities

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
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
	desc, err := activity.GetClient(ctx).DescribeWorkflow(ctx, req.Child, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return req.LentUSD, nil
	}
	if err != nil {
		return 0, err
	}
	info := desc.RawResponse.GetWorkflowExecutionInfo()
	p := info.GetMemo().GetFields()[protocol.MemoSpent]
	switch info.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		if p == nil {
			return 0, nil
		}
	default:
		return req.LentUSD, nil
	}
	var usd float64
	dc := converter.WithDataConverterSerializationContext(e.converter(),
		converter.WorkflowSerializationContext{Namespace: activity.GetInfo(ctx).Namespace, WorkflowID: req.Child})
	if dc.FromPayload(p, &usd) != nil && converter.GetDefaultDataConverter().FromPayload(p, &usd) != nil || !(usd >= 0) {
		return req.LentUSD, nil
	}
	return usd, nil
}

// converter is the team's.
func (e *Engine) converter() converter.DataConverter {
	if e.cfg.Converter != nil {
		return e.cfg.Converter
	}
	return converter.GetDefaultDataConverter()
}
