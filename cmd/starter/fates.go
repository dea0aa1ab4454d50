package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/worktree/git"
)

// fates tells what became of the agents that trees were made for, in whatever namespace of one server.
type fates struct {
	server *connect.Server
	known  map[string]fate
}

// fate is what became of the workflow of an id. A run that continued, or was reset, goes on in the same tree as another
// run, so that only the present run counts.
type fate struct {
	// open says that a run is open; known that the server has heard of any.
	open, known bool
	word        string
	closed      time.Time
}

const unknownFate = "unknown"

// askFates connects to the server that the flags mean.
func (a *app) askFates(ctx context.Context) (*fates, error) {
	s, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &fates{server: s, known: map[string]fate{}}, nil
}

func (f *fates) close() { f.server.Close() }

// word is what became of the agent of a tree, in one word.
func (f *fates) word(ctx context.Context, h git.Held) (string, error) {
	got, err := f.of(ctx, h)
	return got.word, err
}

// of asks for the present run of the workflow that a tree was made for.
func (f *fates) of(ctx context.Context, h git.Held) (fate, error) {
	id, _ := workflowOf(h)
	if id == "" {
		return fate{word: unknownFate}, nil
	}
	key := h.Identity.Namespace + "\x00" + id
	if got, ok := f.known[key]; ok {
		return got, nil
	}
	got, err := f.ask(ctx, h.Identity.Namespace, id)
	if err != nil {
		return fate{}, fmt.Errorf("describe agent %q in namespace %q: %w", id, h.Identity.Namespace, err)
	}
	f.known[key] = got
	return got, nil
}

func (f *fates) ask(ctx context.Context, namespace, id string) (fate, error) {
	resp, err := f.server.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
	var gone *serviceerror.NotFound
	var nowhere *serviceerror.NamespaceNotFound
	if errors.As(err, &gone) || errors.As(err, &nowhere) {
		return fate{word: unknownFate}, nil
	}
	if err != nil {
		return fate{}, err
	}
	info := resp.GetWorkflowExecutionInfo()
	got := fate{known: true, open: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, word: closedWord(info.GetStatus())}
	if !got.open {
		got.closed = info.GetCloseTime().AsTime()
	}
	return got, nil
}
