package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/assent-dev/assent/worktree"
)

// Lose decides about work that nobody has collected, before it is removed: p is what would be lost, err why that could
// not be read. Its error keeps the tree. Files beside the patch are there until it returns.
type Lose func(p worktree.Patch, err error) error

// busyFor is how long Remove waits for a lock. Who looks at a tree holds its lock for a moment, and so does a child of
// the process that held it until it becomes another program.
const busyFor = 2 * time.Second

// Remove removes a tree by its id, as an operator asks for it. Work that was not collected, or that changed after it was,
// is refused with *worktree.NotCollectedError, unless lose lets it go. Errors beside those of Dispose: *worktree.BusyError
// if a process is at the tree, *worktree.GoneError if there is none.
func (d *Driver) Remove(ctx context.Context, id string, lose Lose) error {
	if !safeID(id) {
		return &worktree.GoneError{ID: id, Why: "no tree can have that id"}
	}
	if r, err := d.load(id); err != nil {
		return err
	} else if r == nil {
		return &worktree.GoneError{ID: id, Why: "this host has no record of it"}
	}
	moment, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	unlock, err := lockFile(moment, filepath.Join(d.stateDir(id), "lock"))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &worktree.BusyError{ID: id}
	}
	if err != nil {
		return err
	}
	defer unlock()
	r, err := d.load(id)
	switch {
	case err != nil:
		return err
	case r == nil || r.State == stateGone:
		if r == nil {
			r = &record{Why: "it was never made"}
		}
		return r.gone(id)
	case r.State == stateMaking:
		return d.undo(id, r)
	case r.State == stateReady:
		if err := d.lossless(ctx, id, r, lose); err != nil {
			return err
		}
	}
	return d.remove(id, r, "an operator disposed of it")
}

// lossless returns nil if all the work in a ready tree was collected, or may be lost. The caller holds the lock.
func (d *Driver) lossless(ctx context.Context, id string, r *record, lose Lose) error {
	var gone *worktree.GoneError
	if err := d.present(id, r); errors.As(err, &gone) {
		return nil
	} else if err != nil {
		return err
	}
	r.held = true
	p, err := d.collect(ctx, id, r)
	switch {
	case err == nil && p.Tree == r.Collected:
		return nil
	case lose != nil:
		return lose(p, err)
	case err != nil && r.Collected != "":
		return fmt.Errorf("worktree %q was collected, and it cannot be told whether it has changed since: %w", id, err)
	}
	return &worktree.NotCollectedError{ID: id, Changed: r.Collected != ""}
}
