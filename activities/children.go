package activities

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/protocol"
)

// AssentJoinAgent waits for an agent that another run has started, and returns its result if the agent was asked for the same
// and ended ok. It has no effect: when nobody waits any more, the agent goes on.
func AssentJoinAgent(ctx context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.JoinResponse{}, err
	}
	defer heartbeats(ctx)()
	c := activity.GetClient(ctx)
	desc, err := c.DescribeWorkflow(ctx, req.WorkflowID, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return protocol.JoinResponse{Why: "the server has forgotten it"}, nil
	}
	if err != nil {
		return protocol.JoinResponse{}, err
	}
	info := desc.RawResponse.GetWorkflowExecutionInfo()
	running := info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	switch first := info.GetFirstRunId(); {
	case info.GetType().GetName() != protocol.WorkflowAgent:
		return protocol.JoinResponse{Why: "its id belongs to another workflow", Foreign: running}, nil
	case info.GetTaskQueue() != req.TaskQueue:
		return protocol.JoinResponse{Why: fmt.Sprintf("it was run by other workers, on task queue %q", info.GetTaskQueue()), Foreign: running}, nil
	case first != "" && !running && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return protocol.JoinResponse{Why: "it ended as " + info.GetStatus().String()}, nil
	default:
		hash, err := e.askedFor(ctx, c, req.WorkflowID, first)
		if err != nil {
			return protocol.JoinResponse{}, err
		}
		if hash != req.ContentHash {
			return protocol.JoinResponse{Why: "it was asked for something else", Foreign: running}, nil
		}
	}
	return joined(ctx, c.GetWorkflow(ctx, req.WorkflowID, info.GetExecution().GetRunId()))
}

// joined waits for an agent.
func joined(ctx context.Context, run client.WorkflowRun) (protocol.JoinResponse, error) {
	var res protocol.AgentResult
	err := run.Get(ctx, &res)
	var ended *temporal.WorkflowExecutionError
	switch {
	case ctx.Err() != nil:
		return protocol.JoinResponse{}, ctx.Err()
	case errors.As(err, &ended):
		return protocol.JoinResponse{Why: "it failed"}, nil
	case err != nil:
		return protocol.JoinResponse{}, err
	case res.Status != protocol.OK:
		return protocol.JoinResponse{Why: "it ended with status " + cut(string(res.Status), 100)}, nil
	}
	return protocol.JoinResponse{Result: &res}, nil
}

// askedFor is the content hash of what an agent was started with, as the server keeps it: an id can be given to anything.
func (e *Engine) askedFor(ctx context.Context, c client.Client, id, runID string) (string, error) {
	it := c.GetWorkflowHistory(ctx, id, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !it.HasNext() {
		return "", nil
	}
	first, err := it.Next()
	if err != nil {
		return "", err
	}
	started := first.GetWorkflowExecutionStartedEventAttributes()
	dc := converter.WithDataConverterSerializationContext(e.converter(),
		converter.WorkflowSerializationContext{Namespace: activity.GetInfo(ctx).Namespace, WorkflowID: id})
	var in protocol.AgentInput
	var line protocol.Lineage
	if err := dc.FromPayloads(started.GetInput(), &in); err != nil {
		return "", nil //nolint:nilerr // what cannot be read is not the same
	}
	if p := started.GetHeader().GetFields()[protocol.HeaderLineage]; p != nil && started.GetParentWorkflowExecution() != nil {
		if converter.GetDefaultDataConverter().FromPayload(p, &line) != nil {
			return "", nil
		}
	}
	hash, err := in.ContentHash(line.Parents)
	if err != nil {
		return "", nil
	}
	return hash, nil
}
