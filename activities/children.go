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

	"github.com/assent-dev/assent/internal/history"
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
		hash, proved, err := e.askedFor(ctx, c, req, first)
		switch {
		case err != nil:
			return protocol.JoinResponse{}, err
		case hash != req.ContentHash:
			return protocol.JoinResponse{Why: "it was asked for something else", Foreign: running}, nil
		case !proved:
			// A key stands for the prompt: whoever knows it could leave the result of any.
			return protocol.JoinResponse{Why: "nothing proves that a workflow spawned it: it has no grant key of this worker's", Foreign: running}, nil
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

// askedFor is the content hash of what an agent was started with, as the server keeps it: an id can be given to anything. It
// is empty where that cannot be said, and for an agent of a schedule, which never ends. proved says that a worker which shares a
// key has spawned it.
func (e *Engine) askedFor(ctx context.Context, c client.Client, req protocol.JoinRequest, runID string) (hash string, proved bool, err error) {
	first, err := history.First(ctx, c, req.WorkflowID, runID)
	if first == nil || err != nil {
		return "", false, err
	}
	namespace, started := activity.GetInfo(ctx).Namespace, first.GetWorkflowExecutionStartedEventAttributes()
	dc := converter.WithDataConverterSerializationContext(e.converter(),
		converter.WorkflowSerializationContext{Namespace: namespace, WorkflowID: req.WorkflowID})
	var in protocol.AgentInput
	var line protocol.Lineage
	switch {
	case started.GetWorkflowType().GetName() != protocol.WorkflowAgent, started.GetTaskQueue().GetName() != req.TaskQueue:
		// A workflow of somebody else can continue as an agent, which is then asked for anything.
		return "", false, nil
	case started.GetCronSchedule() != "", dc.FromPayloads(started.GetInput(), &in) != nil:
		return "", false, nil
	}
	parent := started.GetParentWorkflowExecution()
	if p := started.GetHeader().GetFields()[protocol.HeaderLineage]; p != nil && parent != nil {
		if converter.GetDefaultDataConverter().FromPayload(p, &line) != nil {
			return "", false, nil
		}
		proved = line.Parent == parent.GetWorkflowId() && e.cfg.Keys.VerifyLineage(line, namespace, parent.GetRunId())
	}
	if hash, err = in.ContentHash(line.Parents); err != nil {
		return "", false, nil //nolint:nilerr // it is not the same
	}
	return hash, proved || e.cfg.Keys.Empty(), nil
}
