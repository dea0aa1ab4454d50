package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

// acquire prepares the place where this attempt's tools run.
func (a *agent) acquire(ctx workflow.Context) error {
	iso := a.frozen.Isolation
	a.env = environment{dir: a.frozen.Dir}
	if iso.Kind != worktree.Tree {
		return nil
	}
	// The revision is pinned first, so that a retried acquire never sees a ref that moved.
	var at protocol.RefResponse
	if err := recorded(ctx, workflow.ExecuteActivity(control(ctx, "pin "+label(iso.Repo)), protocol.ActivityResolveRef,
		protocol.RefRequest{Isolation: iso}), &at); err != nil {
		return err
	}
	// Not cancelled in the middle: a tree whose lease nobody knows could not be given back.
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	info := workflow.GetInfo(ctx)
	// The activity adds the run: after a reset this life must not meet the trees of the one before.
	id := worktree.Identity{Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID, Attempt: a.restarts}
	var lease worktree.Lease
	err := recorded(ctx, workflow.ExecuteActivity(host(ctx, at.HostQueue, "acquire "+label(iso.Repo)), protocol.ActivityAcquireWorktree,
		protocol.AcquireRequest{Identity: id, Resolved: at.Resolved}), &lease)
	if err != nil {
		return a.hostError(err)
	}
	a.env = environment{dir: lease.Dir, queue: at.HostQueue, lease: &lease, raw: leaseJSON(lease)}
	return nil
}

// host is for activities that only the machine with the tree can run.
func host(ctx workflow.Context, queue, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: queue, ScheduleToStartTimeout: hostPatience, StartToCloseTimeout: 30 * time.Minute,
		HeartbeatTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 30 * time.Second, MaximumAttempts: 10,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorStore, protocol.ErrorGone}},
		Summary: summary,
	})
}

// hostError tells a lost host, after which the agent starts again elsewhere, from a failure.
func (a *agent) hostError(err error) error {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
		return &lostError{"the host that has the repository did not answer in time"}
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == protocol.ErrorGone {
		return &lostError{app.Message()}
	}
	return err
}

// release collects what the agent made and gives the tree back. A tree that could not be collected is kept.
func (a *agent) release(ctx workflow.Context, status protocol.Status, runErr error) error {
	if a.env.lease == nil {
		return nil
	}
	var lost *lostError
	if errors.As(runErr, &lost) {
		// There is nothing to collect; what is left of the tree goes when its host comes back.
		return nil
	}
	lease := *a.env.lease
	var art protocol.Artifact
	collected := recorded(ctx, workflow.ExecuteActivity(host(ctx, a.env.queue, "collect"), protocol.ActivityCollectWorktree,
		protocol.CollectRequest{Lease: lease, Store: a.frozen.Store}), &art)
	if collected != nil {
		return &collectError{a.env.dir, a.hostError(collected)}
	}
	req := protocol.DisposeRequest{Lease: lease}
	if status == protocol.Failed && a.frozen.KeepOnError {
		req.Retain = string(status)
	}
	var disposed protocol.DisposeResponse
	err := recorded(ctx, workflow.ExecuteActivity(host(ctx, a.env.queue, "dispose"), protocol.ActivityDisposeWorktree, req), &disposed)
	if err != nil {
		// The work is safe in the blob store; the sweep of the host removes the tree.
		workflow.GetLogger(ctx).Warn("assent: worktree not disposed", "error", err)
	}
	art.Retained = disposed.Retained
	a.artifacts = append(a.artifacts, art)
	return nil
}

// collectError says that an agent's work could not be read and where it still is.
type collectError struct {
	dir   string
	cause error
}

func (e *collectError) Error() string {
	return "collect worktree: " + explain(e.cause) + "; the tree is kept at " + e.dir
}

func (e *collectError) Unwrap() error { return e.cause }
