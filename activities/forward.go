package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

const (
	// mostSearched bounds the runs below one that are asked for a question.
	mostSearched = 1000
	// askWithin bounds one query, tellWithin the update that brings the answer.
	askWithin  = 5 * time.Second
	tellWithin = 10 * time.Second
)

// AssentForwardAnswer takes an answer to the one run below whose question it answers. The same answer comes to a run once,
// however often the activity is tried.
func AssentForwardAnswer(ctx context.Context, req protocol.ForwardRequest) (protocol.ForwardResponse, error) {
	c := activity.GetClient(ctx)
	key, child, named := strings.Cut(req.Answer.Key, "@")
	s := search{client: c, key: key, revoke: req.Answer.Decision == approval.Revoke}
	if named {
		s.only = child
	}
	s.below(ctx, req.Children)
	if err := ctx.Err(); err != nil {
		return protocol.ForwardResponse{}, err
	}
	switch {
	case len(s.hits) > 1:
		return protocol.ForwardResponse{Refused: s.ambiguous(), Bad: true}, nil
	case len(s.hits) == 1:
		req.Answer.Key = key
		return tell(ctx, c, s.hits[0], req.Answer)
	case len(s.silent) > 0:
		// Whether one of these has it is not known.
		return protocol.ForwardResponse{}, fmt.Errorf("approval %q: no worker answers for %s", cut(req.Answer.Key, 200), cut(strings.Join(s.silent, ", "), 500))
	case named && !s.met:
		return protocol.ForwardResponse{Refused: fmt.Sprintf("approval %q: no child %q is at work", key, cut(child, 200))}, nil
	}
	return protocol.ForwardResponse{Refused: fmt.Sprintf("approval %q: no such question is pending, here or in a child", cut(req.Answer.Key, 200))}, nil
}

// search looks for a question among runs and those below them.
type search struct {
	client client.Client
	key    string
	revoke bool
	// only is the one run that counts, if the answer names one; met says that it is among them.
	only string
	met  bool

	asked  int
	hits   []protocol.Started
	silent []string
}

func (s *search) below(ctx context.Context, runs []protocol.Started) {
	for _, run := range runs {
		if s.asked++; s.asked > mostSearched || ctx.Err() != nil {
			return
		}
		counts := s.only == "" || s.only == run.WorkflowID
		list, err := s.list(ctx, run)
		var gone *serviceerror.NotFound
		var mute *serviceerror.QueryFailed
		switch {
		case errors.As(err, &gone), errors.As(err, &mute):
			// It has ended, or is a workflow without the gate, which asks nobody.
			continue
		case err != nil && counts:
			s.silent = append(s.silent, run.WorkflowID)
			continue
		case err != nil:
			continue
		}
		if counts {
			s.met = s.met || s.only != ""
			if s.has(list) {
				s.hits = append(s.hits, run)
			}
		}
		s.below(ctx, list.Children)
	}
}

func (s *search) list(ctx context.Context, run protocol.Started) (approval.List, error) {
	ctx, stop := context.WithTimeout(ctx, askWithin)
	defer stop()
	var list approval.List
	v, err := s.client.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{WorkflowID: run.WorkflowID,
		QueryType: namesOf(run).query, QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN})
	if err != nil {
		return list, err
	}
	if v.QueryRejected != nil {
		return list, nil
	}
	return list, v.QueryResult.Get(&list)
}

func (s *search) has(l approval.List) bool {
	return slices.ContainsFunc(l.Pending, func(q approval.Approval) bool { return q.Key == s.key }) ||
		s.revoke && slices.ContainsFunc(l.Granted, func(g approval.Granted) bool { return g.Key == s.key })
}

func (s *search) ambiguous() string {
	names := make([]string, min(len(s.hits), 10))
	for i := range names {
		names[i] = s.key + "@" + s.hits[i].WorkflowID
	}
	return fmt.Sprintf("approval %q waits in %d children; name one: %s", s.key, len(s.hits), strings.Join(names, ", "))
}

// tell gives the answer by update, which says at once whether it counts, and by signal where no worker takes it.
func tell(ctx context.Context, c client.Client, to protocol.Started, r approval.Resolution) (protocol.ForwardResponse, error) {
	info := activity.GetInfo(ctx)
	within, stop := context.WithTimeout(ctx, tellWithin)
	defer stop()
	h, err := c.UpdateWorkflow(within, client.UpdateWorkflowOptions{WorkflowID: to.WorkflowID, UpdateName: namesOf(to).update, Args: []any{r},
		UpdateID: "forwarded-" + info.WorkflowExecution.RunID + "-" + info.ActivityID, WaitForStage: client.WorkflowUpdateStageCompleted})
	out := protocol.ForwardResponse{WorkflowID: to.WorkflowID, Accepted: &protocol.Accepted{}}
	if err == nil {
		if err = h.Get(within, out.Accepted); err == nil {
			return out, nil
		}
	}
	var app *temporal.ApplicationError
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &app):
		return protocol.ForwardResponse{WorkflowID: to.WorkflowID, Refused: cut(app.Message(), 2000), Bad: app.Type() == protocol.ErrorBadAnswer}, nil
	case errors.As(err, &gone):
		return protocol.ForwardResponse{WorkflowID: to.WorkflowID, Refused: fmt.Sprintf("approval %q: the child %q has ended", r.Key, to.WorkflowID)}, nil
	case ctx.Err() != nil:
		return protocol.ForwardResponse{}, ctx.Err()
	}
	if err := c.SignalWorkflow(ctx, to.WorkflowID, "", namesOf(to).signal, r); err != nil {
		return protocol.ForwardResponse{}, err
	}
	return protocol.ForwardResponse{WorkflowID: to.WorkflowID}, nil
}

// names are those of the handlers of a run.
type names struct{ signal, update, query string }

func namesOf(run protocol.Started) names {
	if run.WorkflowType == protocol.WorkflowAgent {
		return names{protocol.SignalApproval, protocol.UpdateResolve, protocol.QueryApprovals}
	}
	return names{protocol.GuardSignalApproval, protocol.GuardUpdateResolve, protocol.GuardQueryApprovals}
}
