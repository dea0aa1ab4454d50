package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
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
	summary := "pin " + label(iso.Repo)
	if a.restarts > 0 {
		summary += fmt.Sprintf(" · restart %d", a.restarts)
	}
	// The revision is pinned first, so that a retried acquire never sees a ref that moved.
	var at protocol.RefResponse
	if err := recorded(ctx, workflow.ExecuteActivity(control(ctx, summary), protocol.ActivityResolveRef,
		protocol.RefRequest{Isolation: iso, Restart: a.restarts, Lost: a.lost}), &at); err != nil {
		return err
	}
	if !queueName(at.HostQueue, mostHostQueue) {
		// Nobody's worker says so, but an operator can end an activity with any value.
		return errors.New("whoever pinned the revision named no task queue of a host")
	}
	info := workflow.GetInfo(ctx)
	// The activity adds the run: after a reset this life must not meet the trees of the one before.
	id := worktree.Identity{Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID, Attempt: a.restarts}
	var lease worktree.Lease
	// Whoever stops an agent does not wait until there is room. What is at work then removes what it has made, or hands over
	// a lease, to be given back.
	o := workflow.GetActivityOptions(a.gate.host(ctx, at.HostQueue, "acquire "+label(iso.Repo)))
	o.WaitForCancellation = true
	err := recorded(ctx, workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), protocol.ActivityAcquireWorktree,
		protocol.AcquireRequest{Identity: id, Resolved: at.Resolved}), &lease)
	if err != nil {
		return hostError(err)
	}
	a.env.hold(at.HostQueue, lease)
	return nil
}

// hold makes a tree the place where tools run.
func (e *environment) hold(queue string, lease worktree.Lease) {
	*e = environment{dir: lease.Dir, tree: &leased{lease, queue, leaseJSON(lease)}}
}

// host is for activities that only the machine with the tree can run. How often one is tried is up to the activity, which
// knows a full disk from a failure that stays: this bounds it.
func (g *gate) host(ctx workflow.Context, queue, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: queue, ScheduleToStartTimeout: g.cfg.HostPatience, StartToCloseTimeout: 30 * time.Minute,
		HeartbeatTimeout: heartbeat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 30 * time.Second,
			MaximumAttempts:        protocol.MaxTreeAttempts,
			NonRetryableErrorTypes: []string{protocol.ErrorConfig, protocol.ErrorStore, protocol.ErrorGone}},
		Summary: summary,
	})
}

// hostError tells a lost host, after which the agent starts again elsewhere, from a failure.
func hostError(err error) error {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
		return &lostError{why: "the host that has the worktree did not answer in time", away: true}
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == protocol.ErrorGone {
		return &lostError{why: short(app.Message(), mostLost)}
	}
	return err
}

// mostLost bounds the reason of a loss, which the model is told.
const mostLost = 500

// release collects what the agent made and gives the tree back. A tree that could not be collected is kept. It returns how
// the agent ends: what became of its tree never hides how the run itself ended.
func (a *agent) release(ctx workflow.Context, status protocol.Status, runErr error) (protocol.Status, error) {
	if a.env.tree == nil {
		return status, runErr
	}
	var lost *lostError
	if errors.As(runErr, &lost) {
		a.abandon(ctx, lost)
		return status, runErr
	}
	lease := a.env.tree.lease
	var art protocol.Artifact
	collected := recorded(ctx, workflow.ExecuteActivity(a.gate.host(ctx, a.env.tree.queue, "collect"), protocol.ActivityCollectWorktree,
		protocol.CollectRequest{Lease: lease, Store: a.frozen.Store}), &art)
	if collected != nil {
		return a.uncollected(ctx, status, runErr, hostError(collected))
	}
	if art.Error != "" {
		status, runErr = worse(status, runErr, errors.New(short(art.Error, mostError)))
	}
	req := protocol.DisposeRequest{Lease: lease}
	if status == protocol.Failed && a.frozen.KeepOnError {
		req.Retain = string(status)
	}
	var disposed protocol.DisposeResponse
	err := recorded(ctx, workflow.ExecuteActivity(a.gate.host(ctx, a.env.tree.queue, "dispose"), protocol.ActivityDisposeWorktree, req), &disposed)
	if err != nil {
		// The work is safe in the blob store; its owner is told where the tree is.
		workflow.GetLogger(ctx).Warn("assent: worktree not disposed", "error", err)
		art.Warnings = append(art.Warnings, "the worktree could not be removed and is still at "+lease.Dir+": "+short(explain(hostError(err)), mostLost))
	}
	art.Retained = disposed.Retained
	a.artifacts = append(a.artifacts, art)
	return status, runErr
}

// uncollected says how an agent ends whose work could not be read. One that was done starts again if its work is lost:
// without it there is no result. Any other ends as it did.
func (a *agent) uncollected(ctx workflow.Context, status protocol.Status, runErr, cause error) (protocol.Status, error) {
	var lost *lostError
	if !errors.As(cause, &lost) {
		return worse(status, runErr, &collectError{a.env.dir, cause})
	}
	a.abandon(ctx, lost)
	if status == protocol.OK {
		return protocol.Failed, lost
	}
	return worse(status, runErr, errors.New("its work could not be collected: "+lost.Error()))
}

// worse adds what went wrong with the tree. A run that was well is an error then; any other stays what it was.
func worse(status protocol.Status, runErr, err error) (protocol.Status, error) {
	if status == protocol.OK {
		status = protocol.Failed
	}
	if runErr != nil {
		// Only its words: what it wraps has decided what it could.
		err = errors.New(explain(runErr) + "; " + err.Error())
	}
	return status, err
}

// abandon gives back what is left of a tree that the agent goes on without: its next life does the work again, and the
// repository keeps no trace of one that was removed by hand. A host that does not answer may come back while the agent lives, so nobody waits for that.
func (a *agent) abandon(ctx workflow.Context, lost *lostError) {
	req := protocol.DisposeRequest{Lease: a.env.tree.lease, Force: true}
	// What nobody waits for outlives the clean-up.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	o := workflow.GetActivityOptions(a.gate.host(ctx, a.env.tree.queue, "give back what is left"))
	o.RetryPolicy.MaximumAttempts = 3
	if lost.away {
		o.ScheduleToStartTimeout = 0
	}
	f := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), protocol.ActivityDisposeWorktree, req)
	a.env = environment{}
	if lost.away {
		return
	}
	var disposed protocol.DisposeResponse
	if err := recorded(ctx, f, &disposed); err != nil {
		workflow.GetLogger(ctx).Warn("assent: lost worktree not given back", "error", err)
	}
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

// lostError says that the agent's environment is gone and that it must start again.
type lostError struct {
	why string
	// away says that the host does not answer; else it has said so itself.
	away bool
}

func (e *lostError) Error() string { return "the agent's environment was lost: " + e.why }

// environment is where the tools of one attempt run.
type environment struct {
	dir string
	// tree is nil if the agent has none of its own.
	tree *leased
}

// leased is a tree that an agent has until it gives it back, on the host that queue leads to. raw is the lease as tools' workers
// get it.
type leased struct {
	lease worktree.Lease
	queue string
	raw   json.RawMessage
}

// lease is that of the tree, nil if there is none.
func (e environment) lease() *worktree.Lease {
	if e.tree == nil {
		return nil
	}
	return &e.tree.lease
}

// held is the tree, or one that is none.
func (e environment) held() leased {
	if e.tree == nil {
		return leased{}
	}
	return *e.tree
}
