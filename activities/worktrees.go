package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

// ResolveRef pins a revision and says which host's queue has the repository.
func (e *Engine) ResolveRef(ctx context.Context, req protocol.RefRequest) (protocol.RefResponse, error) {
	if e.cfg.Worktrees == nil {
		return protocol.RefResponse{}, wire(errNoWorktrees)
	}
	at, err := e.cfg.Worktrees.Resolve(ctx, req.Isolation)
	if err == nil && req.Isolation.Private && !at.Private {
		err = errNotPrivate
	}
	return protocol.RefResponse{Resolved: at, HostQueue: e.cfg.HostQueue}, wire(err)
}

// treeAttempts is how often what fails at a tree is tried; a full disk is waited for as long as protocol.MaxTreeAttempts lets.
const treeAttempts = 10

// treeError is an error of a tree as the workflow gets it.
func treeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var space *worktree.SpaceError
	if errors.As(err, &space) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return temporal.NewApplicationError(cut(err.Error(), mostError), protocol.ErrorSpace)
	}
	err = wire(err)
	if activity.GetInfo(ctx).Attempt < treeAttempts {
		return err
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return temporal.NewNonRetryableApplicationError(app.Message(), app.Type(), nil)
	}
	return temporal.NewNonRetryableApplicationError(cut(err.Error(), mostError), typeOf(err), nil)
}

// AcquireWorktree makes the tree of an agent, or returns the one it has.
func (e *Engine) AcquireWorktree(ctx context.Context, req protocol.AcquireRequest) (worktree.Lease, error) {
	if e.cfg.Worktrees == nil {
		return worktree.Lease{}, wire(errNoWorktrees)
	}
	defer heartbeats(ctx)()
	id := req.Identity
	// The run as the server names it: workflow code cannot tell it from the run before a reset.
	id.WorkflowID += "/" + activity.GetInfo(ctx).WorkflowExecution.RunID
	lease, err := e.cfg.Worktrees.Acquire(ctx, id, req.Resolved)
	if err == nil && req.Resolved.Private && !lease.Resolved.Private {
		err = errNotPrivate
	}
	if err != nil {
		return worktree.Lease{}, treeError(ctx, err)
	}
	lease.Run = activity.GetInfo(ctx).WorkflowExecution.RunID
	return lease, nil
}

// sameRun refuses a tree of another run with a *worktree.GoneError: of one before a reset, whose work came after what this run
// knows.
func sameRun(ctx context.Context, l worktree.Lease) error {
	if l.Run != activity.GetInfo(ctx).WorkflowExecution.RunID {
		return &worktree.GoneError{ID: l.ID, Why: "it belongs to another run of the agent, as after a reset"}
	}
	return nil
}

// hostError says that the repository that all share was made to run programs, or nothing.
func hostError(changes []worktree.HostChange) string {
	var keys []string
	for _, h := range changes {
		if h.Dangerous {
			keys = append(keys, cut(h.Key, 200)+" ("+h.Change+")")
		}
	}
	if len(keys) == 0 {
		return ""
	}
	more := ""
	const few = 5
	if len(keys) > few {
		more = fmt.Sprintf(" and %d more", len(keys)-few)
		keys = keys[:few]
	}
	return "while the agent worked, its repository on the host was changed so that git runs programs: " + strings.Join(keys, ", ") + more +
		". Look at them before you run git there"
}

// errNotPrivate is for a provider that does not know of privacy.
var errNotPrivate = fault.Configf("isolation.private", "this worker's worktrees cannot be private")

// mostArtifact bounds the description of a patch in history, in bytes.
const mostArtifact = 256 << 10

// CollectWorktree stores the patch of a tree and returns what it says.
func (e *Engine) CollectWorktree(ctx context.Context, req protocol.CollectRequest) (protocol.Artifact, error) {
	if e.cfg.Worktrees == nil {
		return protocol.Artifact{}, wire(errNoWorktrees)
	}
	if err := e.sameStore(req.Store); err != nil {
		return protocol.Artifact{}, err
	}
	if err := sameRun(ctx, req.Lease); err != nil {
		return protocol.Artifact{}, wire(err)
	}
	defer heartbeats(ctx)()
	e.leave(ctx, req.Lease.Dir)
	patch, err := e.cfg.Worktrees.Collect(ctx, req.Lease)
	if err != nil {
		return protocol.Artifact{}, treeError(ctx, err)
	}
	ref, err := e.cfg.Blobs.Put(ctx, patch.Bytes)
	if err != nil {
		return protocol.Artifact{}, treeError(ctx, err)
	}
	large, err := e.storeLarge(ctx, patch.Large)
	if err != nil {
		return protocol.Artifact{}, treeError(ctx, err)
	}
	a := protocol.Artifact{Kind: protocol.ArtifactPatch, Ref: ref, Files: patch.Files, Large: large, Base: patch.Base, Tree: patch.Tree,
		Warnings: patch.Warnings, Ignored: patch.Ignored, HostChanges: patch.HostChanges, Error: hostError(patch.HostChanges)}
	if a.Files == nil {
		a.Files = []worktree.File{}
	}
	return trim(a), nil
}

// trim keeps an artifact small enough for history; the patch itself is whole in the blob store. What makes git run a
// program is the last to go.
func trim(a protocol.Artifact) protocol.Artifact {
	if size(a) <= mostArtifact {
		return a
	}
	// A few entries fit into a payload.
	const few = 10
	var notes []string
	note := func(what string, was, is int) {
		if is < was {
			notes = append(notes, fmt.Sprintf("%d %s are not listed", was-is, what))
		}
	}
	note("ignored paths", len(a.Ignored), 0)
	a.Ignored = nil
	slices.SortStableFunc(a.HostChanges, func(x, y worktree.HostChange) int {
		switch {
		case x.Dangerous == y.Dangerous:
			return 0
		case x.Dangerous:
			return -1
		}
		return 1
	})
	a.Warnings, a.HostChanges = slices.Clone(a.Warnings), slices.Clone(a.HostChanges)
	// An agent can write a key of any length into the configuration.
	for i, w := range a.Warnings {
		a.Warnings[i] = cut(w, mostError)
	}
	for i, h := range a.HostChanges {
		a.HostChanges[i].Key = cut(h.Key, mostError)
	}
	files, changes, warnings := len(a.Files), len(a.HostChanges), len(a.Warnings)
	for tooMuch := true; tooMuch && size(a) > mostArtifact; {
		switch {
		case len(a.Files) > few:
			a.Files = a.Files[:len(a.Files)/2]
		case len(a.Warnings) > few:
			a.Warnings = a.Warnings[:len(a.Warnings)/2]
		case len(a.HostChanges) > few:
			a.HostChanges = a.HostChanges[:len(a.HostChanges)/2]
		default:
			tooMuch = false
		}
	}
	note("more files", files, len(a.Files))
	note("more changes of the repository", changes, len(a.HostChanges))
	note("more warnings", warnings, len(a.Warnings))
	a.Warnings = append(a.Warnings, notes...)
	return a
}

// DisposeWorktree removes a collected tree, or retains it for inspection.
func (e *Engine) DisposeWorktree(ctx context.Context, req protocol.DisposeRequest) (protocol.DisposeResponse, error) {
	if e.cfg.Worktrees == nil {
		return protocol.DisposeResponse{}, wire(errNoWorktrees)
	}
	defer heartbeats(ctx)()
	e.leave(ctx, req.Lease.Dir)
	if req.Retain != "" {
		kept, err := e.cfg.Worktrees.Retain(ctx, req.Lease, req.Retain)
		var gone *worktree.GoneError
		// Of one that is gone there may be traces in the repository.
		if err != nil && !errors.As(err, &gone) {
			return protocol.DisposeResponse{}, treeError(ctx, err)
		}
		if kept {
			return protocol.DisposeResponse{Retained: req.Lease.Dir}, nil
		}
	}
	return protocol.DisposeResponse{}, treeError(ctx, e.cfg.Worktrees.Dispose(ctx, req.Lease, req.Force))
}
