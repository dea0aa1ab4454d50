package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/protocol"
)

const (
	// askWithin bounds one query: without a worker it would never be answered.
	askWithin = 3 * time.Second
	// askAtOnce bounds the queries under way.
	askAtOnce = 16
	// mostAsked bounds the runs that one command asks.
	mostAsked = 1000
	// pollerFresh is how long ago a worker may have polled to count as alive; an idle one polls every minute.
	pollerFresh = 2 * time.Minute
)

// asking is one run, its open questions, and the allowed calls of it that have not ended.
type asking struct {
	id, runID, workflowType, queue string
	pending                        []approval.Approval
	granted                        []approval.Granted
	closed                         []approval.Closed
	// children are the runs that this one has started and that have not ended, as far as its worker says.
	children []approval.Started
	// more counts open questions that did not fit into the list.
	more int
	// source says who told of the questions.
	source source
	// err is why a worker that seemed to be there did not answer.
	err error
}

// source says where questions were read. Without a worker nobody answers a query, but history still has them.
type source string

const (
	fromQuery   source = "query"
	fromHistory source = "history"
	// fromMemo is keys and tools only, without arguments.
	fromMemo source = "memo"
)

// finder looks for questions in a namespace.
type finder struct {
	server *connect.Server
	mu     sync.Mutex
	// polled says of each queue whether a worker polls it.
	polled map[string]bool
}

func newFinder(s *connect.Server) *finder { return &finder{server: s, polled: map[string]bool{}} }

// all returns the runs of the namespace that have open questions or allowed calls, the longest waiting first, and how many
// runs were left out because there are too many. Workflows that are not agents are found by their search attributes.
func (f *finder) all(ctx context.Context) ([]asking, int, error) {
	queries := []string{fmt.Sprintf("WorkflowType='%s' AND ExecutionStatus='Running'", protocol.WorkflowAgent)}
	if f.attributes(ctx) {
		// Those that are suspended come first; a question may be open while another branch still works.
		queries = append([]string{fmt.Sprintf("%s='%s' AND ExecutionStatus='Running'", protocol.AttrStatus, protocol.StatusWaiting),
			fmt.Sprintf("%s='%s' AND ExecutionStatus='Running'", protocol.AttrStatus, protocol.StatusRunning)}, queries...)
	}
	return f.those(ctx, queries...)
}

// those is all, of the runs that visibility queries select.
func (f *finder) those(ctx context.Context, queries ...string) ([]asking, int, error) {
	var runs []*workflowpb.WorkflowExecutionInfo
	seen, left := map[string]bool{}, 0
	for _, q := range queries {
		more, err := f.list(ctx, q, mostAsked, func(w *workflowpb.WorkflowExecutionInfo) {
			if run := w.GetExecution().GetRunId(); !seen[run] && w.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				seen[run] = true
				runs = append(runs, w)
			}
		})
		if err != nil {
			return nil, 0, err
		}
		left += more
	}
	if len(runs) > mostAsked {
		left, runs = left+len(runs)-mostAsked, runs[:mostAsked]
	}
	found := f.ask(ctx, runs)
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	found = slices.DeleteFunc(found, func(a asking) bool { return len(a.pending)+len(a.granted) == 0 })
	slices.SortStableFunc(found, func(a, b asking) int { return askedAt(a).Compare(askedAt(b)) })
	return found, left, nil
}

// askedAt is when the first open question of a run was asked; runs without one come last.
func askedAt(a asking) time.Time {
	if len(a.pending) == 0 {
		return a.granted[0].At.AddDate(1000, 0, 0)
	}
	return a.pending[0].AskedAt
}

// list pages through a visibility query, up to most runs, and returns how many more there are.
func (f *finder) list(ctx context.Context, query string, most int, each func(*workflowpb.WorkflowExecutionInfo)) (int, error) {
	var token []byte
	n := 0
	for {
		resp, err := f.server.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: f.server.Namespace, Query: query, PageSize: int32(min(most, 500)), NextPageToken: token})
		if err != nil {
			return 0, fmt.Errorf("list workflows with %q: %w", query, err)
		}
		for _, w := range resp.GetExecutions() {
			if n == most {
				return f.beyond(ctx, query, most), nil
			}
			n++
			each(w)
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			return 0, nil
		}
		if n == most {
			return f.beyond(ctx, query, most), nil
		}
	}
}

// beyond counts the runs of a query that were not looked at.
func (f *finder) beyond(ctx context.Context, query string, looked int) int {
	resp, err := f.server.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: f.server.Namespace, Query: query})
	if err != nil {
		return 1
	}
	return max(int(resp.GetCount())-looked, 0)
}

// attributes reports whether the namespace has the search attributes, so that they can stand in a query.
func (f *finder) attributes(ctx context.Context) bool {
	resp, err := f.server.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: f.server.Namespace})
	return err == nil && resp.GetCustomAttributes()[protocol.AttrStatus] == enumspb.INDEXED_VALUE_TYPE_KEYWORD
}

// ask asks the runs for their questions, a few at a time. The order stays.
func (f *finder) ask(ctx context.Context, runs []*workflowpb.WorkflowExecutionInfo) []asking {
	out := make([]asking, len(runs))
	room := make(chan struct{}, askAtOnce)
	var wg sync.WaitGroup
	for i, w := range runs {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			out[i] = f.one(ctx, w)
		})
	}
	wg.Wait()
	return out
}

// one asks a run, or reads its history when no worker answers, or its memo when that is too much to ask.
func (f *finder) one(ctx context.Context, w *workflowpb.WorkflowExecutionInfo) asking {
	a := asking{id: w.GetExecution().GetWorkflowId(), runID: w.GetExecution().GetRunId(), workflowType: w.GetType().GetName(),
		queue: w.GetTaskQueue()}
	if f.served(ctx, a.queue) {
		var list approval.List
		if list, a.err = f.query(ctx, a); a.err == nil {
			a.pending, a.granted, a.closed, a.source = list.Pending, list.Granted, list.Closed, fromQuery
			a.more, a.children = list.More, list.Children
			return a
		}
	}
	if v, err := read(ctx, f.server, a.id, follow.Options{}); err == nil && v.runID == a.runID {
		a.pending, a.granted, a.closed, a.source = v.pending(), v.granted, v.closed, fromHistory
		return a
	}
	a.source = fromMemo
	var questions []protocol.MemoQuestion
	if p := w.GetMemo().GetFields()[protocol.MemoPending]; p != nil && converter.GetDefaultDataConverter().FromPayload(p, &questions) == nil {
		for _, q := range questions {
			a.pending = append(a.pending, approval.Approval{Key: q.Key, Tool: q.Tool, Why: q.Reason})
		}
	}
	return a
}

// pending are the open questions of a history as a query would list them.
func (v *view) pending() []approval.Approval {
	out := make([]approval.Approval, len(v.questions))
	for i, q := range v.questions {
		out[i] = q.Approval()
	}
	return out
}

// whole returns a question with its arguments, which a long list leaves out and history has.
func (f *finder) whole(ctx context.Context, run asking, q approval.Approval) approval.Approval {
	if q.Sealed() == nil || run.source != fromQuery {
		return q
	}
	v, err := read(ctx, f.server, run.id, follow.Options{})
	if err != nil || v.runID != run.runID {
		return q
	}
	for _, told := range v.pending() {
		if told.Key == q.Key && told.Seal == q.Seal {
			return told
		}
	}
	return q
}

func (f *finder) query(ctx context.Context, a asking) (approval.List, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var list approval.List
	v, err := f.server.QueryWorkflow(ctx, a.id, a.runID, handlers(a.workflowType).query)
	if err != nil {
		return list, err
	}
	return list, v.Get(&list)
}

// names are those of the handlers of a run.
type names struct{ signal, update, query string }

// handlers are other ones in workflows that are not agents.
func handlers(workflowType string) names {
	if workflowType == protocol.WorkflowAgent {
		return names{protocol.SignalApproval, protocol.UpdateResolve, protocol.QueryApprovals}
	}
	return names{protocol.GuardSignalApproval, protocol.GuardUpdateResolve, protocol.GuardQueryApprovals}
}

// served reports whether a worker polls a queue. The server remembers pollers for minutes, so a yes can be late; a
// query that then gets no answer is given up after a moment.
func (f *finder) served(ctx context.Context, queue string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if yes, ok := f.polled[queue]; ok {
		return yes
	}
	yes, err := served(ctx, f.server, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	// In doubt the worker is asked.
	f.polled[queue] = yes || err != nil
	return f.polled[queue]
}

// served reports whether somebody polled a queue lately.
func served(ctx context.Context, s *connect.Server, queue string, kind enumspb.TaskQueueType) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	resp, err := s.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return false, err
	}
	for _, p := range resp.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < pollerFresh {
			return true, nil
		}
	}
	return false, nil
}

// byID asks one run that is named by its workflow id.
func (f *finder) byID(ctx context.Context, id string) (asking, error) {
	resp, err := f.server.DescribeWorkflow(ctx, id, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return asking{}, unknownAgent(f.server, id, err)
	}
	if err != nil {
		return asking{}, fmt.Errorf("describe agent %q: %w", id, err)
	}
	info := resp.RawResponse.GetWorkflowExecutionInfo()
	if s := info.GetStatus(); s != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return asking{}, ended(f.server, id, closedWord(s))
	}
	return f.one(ctx, info), nil
}
