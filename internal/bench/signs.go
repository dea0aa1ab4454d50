package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
)

// pageText is about what our page says of one question, in bytes.
const pageText = 1260

// signs is what the SDK needs for a run that can be asked, answered and found, and that shows what it waits for: with it a
// bare loop keeps what no engine could do without.
func signs(ctx workflow.Context, s shape) error {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	decisions := make([]workflow.Future, s.Calls)
	for i := range decisions {
		decisions[i] = workflow.ExecuteLocalActivity(local, judge, work{N: i})
	}
	asked := make([]work, s.Calls)
	var errs []error
	for i, d := range decisions {
		errs = append(errs, d.Get(ctx, &asked[i]))
	}
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	workflow.SetCurrentDetails(ctx, strings.Repeat(id+strings.Repeat(" ", max(pageText-len(id), 0)), s.Calls))
	status := temporal.NewSearchAttributeKeyKeyword(protocol.AttrStatus)
	return errors.Join(append(errs,
		workflow.SetQueryHandler(ctx, protocol.QueryApprovals, func() ([]work, error) { return asked, nil }),
		workflow.SetUpdateHandlerWithOptions(ctx, protocol.UpdateResolve, func(_ workflow.Context, w work) (work, error) { return w, nil },
			workflow.UpdateHandlerOptions{Validator: func(w work) error { return known(asked, w) }}),
		workflow.UpsertTypedSearchAttributes(ctx, status.ValueSet("running"), temporal.NewSearchAttributeKeyKeyword(protocol.AttrAgent).ValueSet("p"),
			temporal.NewSearchAttributeKeyKeyword(protocol.AttrRoot).ValueSet(id)),
		workflow.UpsertTypedSearchAttributes(ctx, status.ValueSet("waiting"),
			temporal.NewSearchAttributeKeyKeywordList(protocol.AttrPendingTool).ValueSet([]string{"ask"})),
		workflow.UpsertMemo(ctx, map[string]any{protocol.MemoPending: asked}))...)
}

func judge(_ context.Context, w work) (work, error) { return w, nil }

func known(asked []work, w work) error {
	for _, a := range asked {
		if a == w {
			return nil
		}
	}
	return errors.New("nobody asked for that")
}
