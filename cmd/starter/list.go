package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/protocol"
)

// listFlags are the flags of list.
type listFlags struct {
	running bool
	root    string
	limit   int
}

func (a *app) listCommand() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List agents with status, type and age",
		Long: "List agents, the newest first. What a closed one returned is shown by: starter show ID\n\n" +
			"Of an agent that has continued as new its present run is listed, and its age is that of this run.",
		Example: "  starter list --running\n  starter list --limit 200 -o json",
		GroupID: groupAgents,
		Args:    workerproc.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.limit < 1 {
				return exit.Usagef("", "--limit is %d; at least 1", f.limit)
			}
			return a.list(cmd.Context(), f)
		},
	}
	cmd.Flags().BoolVar(&f.running, "running", false, "only agents that have not ended")
	cmd.Flags().StringVar(&f.root, "root", "", "only of the tree that begins with this agent or workflow (search attribute AssentRoot)")
	cmd.Flags().IntVar(&f.limit, "limit", 50, "at most so many")
	a.serverFlags(cmd)
	return cmd
}

// row is one agent as `list -o json` prints it.
type row struct {
	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`
	// Status is running or waiting, or how the workflow closed.
	Status    string    `json:"status"`
	AgentType string    `json:"agentType,omitempty"`
	StartedAt time.Time `json:"startedAt"`
	// ClosedAt is nil while the agent is at work.
	ClosedAt *time.Time `json:"closedAt,omitempty"`
	// Pending are the keys that wait.
	Pending []string `json:"pending,omitempty"`
}

func (a *app) list(ctx context.Context, f listFlags) error {
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	// An agent that continued as new is listed once, with its present run.
	query := fmt.Sprintf("WorkflowType='%s' AND ExecutionStatus!='ContinuedAsNew'", protocol.WorkflowAgent)
	if f.running {
		query = fmt.Sprintf("WorkflowType='%s' AND ExecutionStatus='Running'", protocol.WorkflowAgent)
	}
	if f.root != "" {
		query += " AND " + below(f.root)
	}
	var rows []row
	left, err := newFinder(s).list(ctx, query, f.limit, func(w *workflowpb.WorkflowExecutionInfo) { rows = append(rows, rowOf(w)) })
	if err != nil {
		return err
	}
	if a.json() {
		for _, r := range rows {
			if err := a.printJSON(r); err != nil {
				return err
			}
		}
	} else {
		a.rows(rows)
	}
	if left > 0 {
		a.note("%s; see them with --limit", count(left, "more agent"))
	}
	return nil
}

func rowOf(w *workflowpb.WorkflowExecutionInfo) row {
	r := row{WorkflowID: w.GetExecution().GetWorkflowId(), RunID: w.GetExecution().GetRunId(), StartedAt: w.GetStartTime().AsTime(),
		Status: closedWord(w.GetStatus())}
	attrs := w.GetSearchAttributes().GetIndexedFields()
	r.AgentType = keyword(attrs[protocol.AttrAgent])
	if w.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		at := w.GetCloseTime().AsTime()
		r.ClosedAt = &at
		return r
	}
	var questions []protocol.MemoQuestion
	if p := w.GetMemo().GetFields()[protocol.MemoPending]; p != nil && converter.GetDefaultDataConverter().FromPayload(p, &questions) == nil {
		for _, q := range questions {
			r.Pending = append(r.Pending, q.Key)
		}
	}
	if len(r.Pending) > 0 {
		r.Status = string(protocol.StatusWaiting)
	}
	return r
}

func keyword(p *commonpb.Payload) string {
	var s string
	if p == nil || converter.GetDefaultDataConverter().FromPayload(p, &s) != nil {
		return ""
	}
	return s
}

func (a *app) rows(rows []row) {
	if len(rows) == 0 {
		a.printf("no agents\n")
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tTYPE\tAGE\tWAITS FOR")
	for _, r := range rows {
		pending := ""
		if len(r.Pending) > 0 {
			if pending = r.Pending[0]; len(r.Pending) > 1 {
				pending += fmt.Sprintf(" and %d more", len(r.Pending)-1)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", oneLine(r.WorkflowID, mostLine), r.Status, oneLine(r.AgentType, mostLine), span(time.Since(r.StartedAt)), pending)
	}
	_ = w.Flush() // the writer below has the error
}
