package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/assent-dev/assent/protocol"
)

// tree asks a run and everything below it. Each run names its children; where no worker says, those are found that name the
// run as their root. The run itself comes first.
func (f *finder) tree(ctx context.Context, id string) ([]asking, error) {
	top, err := f.byID(ctx, id)
	if err != nil {
		return nil, err
	}
	found, seen := []asking{top}, map[string]bool{top.runID: true}
	for i := 0; i < len(found) && len(found) < mostAsked; i++ {
		for _, child := range found[i].children {
			resp, err := f.server.DescribeWorkflow(ctx, child.WorkflowID, "")
			if err != nil {
				// It has ended, and the server has forgotten it.
				continue
			}
			found = f.add(ctx, found, seen, resp.RawResponse.GetWorkflowExecutionInfo())
		}
	}
	if !f.attributes(ctx) {
		return found, ctx.Err()
	}
	_, err = f.list(ctx, below(id)+" AND ExecutionStatus='Running'", mostAsked, func(w *workflowpb.WorkflowExecutionInfo) { found = f.add(ctx, found, seen, w) })
	return found, err
}

// asked are the runs of a tree that have open questions or allowed calls.
func (f *finder) asked(ctx context.Context, root string) ([]asking, error) {
	found, err := f.tree(ctx, root)
	return slices.DeleteFunc(found, func(a asking) bool { return len(a.pending)+len(a.granted) == 0 }), err
}

// add asks one run more, if it runs and was not asked before.
func (f *finder) add(ctx context.Context, found []asking, seen map[string]bool, w *workflowpb.WorkflowExecutionInfo) []asking {
	if run := w.GetExecution().GetRunId(); w.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || seen[run] {
		return found
	}
	seen[w.GetExecution().GetRunId()] = true
	return append(found, f.one(ctx, w))
}

// below is a visibility query for the agents of a tree.
func below(root string) string {
	return fmt.Sprintf("%s='%s'", protocol.AttrRoot, strings.ReplaceAll(root, "'", "''"))
}
