package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/connect"
)

// leaving is a server whose runs have ended, and which goes away when it is asked how.
type leaving struct {
	client.Client
	err error
}

func (l leaving) SignalWorkflow(context.Context, string, string, string, any) error {
	return serviceerror.NewNotFound("workflow execution already completed")
}

func (l leaving) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return l
}

func (leaving) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	return nil, serviceerror.NewNotFound("no such workflow")
}

func (l leaving) HasNext() bool { return l.err != nil }

func (l leaving) Next() (*historypb.HistoryEvent, error) { return nil, l.err }

// That a run has ended is not said where nobody knows whether it goes on in another one.
func TestARunHasNotEndedBecauseTheServerHasGone(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{
		{nil, "has ended (just now)"},
		{serviceerror.NewNotFound("no such run"), "has ended (just now)"},
		{serviceerror.NewUnavailable("the server restarts"), "the server restarts"},
	} {
		_, err := give(context.Background(), &connect.Server{Client: leaving{err: c.err}}, asking{id: "fix", runID: "r"}, approval.Resolution{Key: "sh-1", Decision: approval.Allow})
		require.ErrorContains(t, err, c.says)
	}
}

// reset is a server on which the run that is answered was terminated by a reset: the workflow goes on in another run.
type reset struct{ leaving }

func (reset) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	return &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}}}, nil
}

// That an agent has ended is not said of one that was reset, and goes on.
func TestAnAgentHasNotEndedBecauseItWasReset(t *testing.T) {
	_, err := give(context.Background(), &connect.Server{Client: reset{}}, asking{id: "fix", runID: "r"}, approval.Resolution{Key: "sh-1", Decision: approval.Allow})
	require.ErrorContains(t, err, `agent "fix" runs (was it reset?)`)
}
