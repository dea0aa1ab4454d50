package git

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/assent-dev/assent/worktree"
)

// The states of a listed tree.
const (
	// Active trees belong to an agent that works or waits.
	Active = "active"
	// Collected trees wait for their Dispose.
	Collected = "collected"
	// Retained trees of failed agents are kept for inspection, within the pin cap.
	Retained = "retained"
)

// Held is one tree that exists.
type Held struct {
	ID string `json:"id"`
	// State is Active, Collected or Retained.
	State string `json:"state"`
	// Why says why a tree is retained.
	Why      string            `json:"why,omitempty"`
	Path     string            `json:"path"`
	Identity worktree.Identity `json:"identity"`
	Resolved worktree.Resolved `json:"resolved"`
	Created  time.Time         `json:"created"`
}

// List returns the trees below this driver's root, the oldest first. A tree that is being made or removed is not
// among them.
func (d *Driver) List(ctx context.Context) ([]Held, error) {
	var out []Held
	err := d.eachRecord(ctx, func(id string, r *record) error {
		if r.State != stateReady {
			return nil
		}
		h := Held{ID: id, State: Active, Path: d.treeDir(id), Identity: r.Identity, Resolved: r.Resolved, Created: r.Created}
		if r.Collected != "" {
			h.State = Collected
		}
		if r.Retained != nil {
			h.State, h.Why = Retained, r.Retained.Why
		}
		out = append(out, h)
		return nil
	})
	slices.SortStableFunc(out, func(a, b Held) int { return a.Created.Compare(b.Created) })
	return out, err
}

// eachRecord calls f for every identity that has a record, in the order of their ids.
func (d *Driver) eachRecord(ctx context.Context, f func(id string, r *record) error) error {
	entries, err := os.ReadDir(filepath.Join(d.root, "state"))
	if err != nil {
		return fmt.Errorf("list worktrees: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !safeID(e.Name()) {
			continue
		}
		r, err := d.load(e.Name())
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		if err := f(e.Name(), r); err != nil {
			return err
		}
	}
	return nil
}

// Retain marks a failed agent's tree to be kept and reports whether it was: not without Config.KeepOnError, and
// not with a pin cap of zero. When there are more retained trees than the cap allows, the oldest is removed,
// collected or not. Trees of agents that work or wait do not count.
func (d *Driver) Retain(ctx context.Context, l worktree.Lease, why string) (bool, error) {
	if !d.keep || d.pinCap == 0 {
		return false, nil
	}
	if err := d.pin(ctx, l, why); err != nil {
		return false, err
	}
	d.step("pinned")
	// One at a time, so that two of them do not both count themselves out. The id's own lock is not held here:
	// it is taken under this one.
	unlock, err := lockFile(ctx, filepath.Join(d.root, "pins"))
	if err != nil {
		return false, err
	}
	defer unlock()
	var pinned []pin
	err = d.eachRecord(ctx, func(id string, r *record) error {
		if r.State == stateReady && r.Retained != nil {
			pinned = append(pinned, pin{id, r.Retained.At})
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	slices.SortFunc(pinned, func(a, b pin) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id))
	})
	over := max(len(pinned)-d.pinCap, 0)
	for _, p := range pinned[:over] {
		if err := d.evict(ctx, p.id); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(pinned[over:], func(p pin) bool { return p.id == l.ID }), nil
}

// pin is a retained tree's place in the queue for eviction.
type pin struct {
	id string
	at time.Time
}

func (d *Driver) pin(ctx context.Context, l worktree.Lease, why string) error {
	if _, err := d.leased(l); err != nil {
		return err
	}
	unlock, err := d.lock(ctx, l.ID)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := d.leased(l)
	if err != nil || r.Retained != nil {
		return err
	}
	r.Retained = &pinned{At: time.Now().UTC(), Why: why}
	return d.save(l.ID, r)
}

func (d *Driver) evict(ctx context.Context, id string) error {
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := d.load(id)
	if err != nil || r == nil || r.State != stateReady || r.Retained == nil {
		return err
	}
	return d.remove(id, r, fmt.Sprintf("it was evicted: at most %d failed trees are kept", d.pinCap))
}
