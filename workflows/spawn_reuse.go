package workflows

import (
	"errors"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
)

// shared takes the result of an agent that was asked for the same, waits for one that is at work, or starts one. It pays
// for the one that it starts.
func (s *spawning) shared(ctx workflow.Context) (protocol.AgentResult, error) {
	policy := enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	for range mostTries {
		res, err := s.paid(ctx, policy)
		// What is there already costs nothing.
		poor := errors.Is(err, errPoor)
		if !poor && !errors.Is(err, errTaken) {
			return res, err
		}
		got, err := s.join(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return unstarted(protocol.Cancelled, "the wait for an agent that another run has started was cancelled"), nil
		case err != nil:
			return protocol.AgentResult{}, err
		case got.Result != nil:
			return *got.Result, nil
		case poor:
			return res, errPoor
		case got.Foreign:
			home, err := s.family.named(ctx)
			if err != nil {
				return protocol.AgentResult{}, configError(err)
			}
			s.child.id = home + "/" + strings.TrimPrefix(s.child.id, reused)
			return s.renamed(ctx)
		}
		workflow.GetLogger(ctx).Info("assent: an agent is not used again and runs anew", "id", s.child.id, "reason", got.Why)
		policy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	// Others start it and fail, as fast as we look.
	return s.renamed(ctx)
}

// join waits for the agent that has the id. It is an activity, because a workflow cannot await another one that is not its
// child; its heartbeats tell it when nobody waits any more.
func (s *spawning) join(ctx workflow.Context) (protocol.JoinResponse, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           workflow.GetInfo(ctx).TaskQueueName,
		StartToCloseTimeout: mostJoined, HeartbeatTimeout: 30 * time.Second, Summary: "wait for " + label(s.child.id),
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorStore}},
	})
	var got protocol.JoinResponse
	err := recorded(ctx, workflow.ExecuteActivity(ctx, protocol.ActivityJoinAgent,
		protocol.JoinRequest{WorkflowID: s.child.id, ContentHash: s.hash, TaskQueue: s.queue}), &got)
	return got, err
}

// mostJoined is how long one attempt to wait may take.
const mostJoined = 30 * 24 * time.Hour
