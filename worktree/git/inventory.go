package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/assent-dev/assent/worktree"
)

// The states of a listed tree.
const (
	// Making and Disposing trees are being made or removed; when no process is at it, the next sweep finishes them.
	Making    = "making"
	Disposing = "disposing"
	// Ready trees hold work that nobody has collected: of an agent that works or waits, or that ended without a collect.
	Ready = "ready"
	// Collected trees wait for their Dispose.
	Collected = "collected"
	// Retained trees of failed agents are kept for inspection, within the pin cap.
	Retained = "retained"
	// Gone trees are removed. Their record stays, so that the agent never gets a fresh tree for the same work.
	Gone = "gone"
	// Unreadable is a record that cannot be read; nothing is done to its tree.
	Unreadable = "unreadable"
)

// Held is one tree, or what is known of one that is gone.
type Held struct {
	ID string `json:"id"`
	// State is one of the constants above, Since when the record says so.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Why says why a tree is retained or gone, or a record unreadable.
	Why      string            `json:"why,omitempty"`
	Path     string            `json:"path"`
	Identity worktree.Identity `json:"identity"`
	Resolved worktree.Resolved `json:"resolved"`
	Created  time.Time         `json:"created"`
	// Collected is the tree id of the result, empty if the work was never collected.
	Collected string `json:"collected,omitempty"`
	// Busy says that a process holds the tree's lock now.
	Busy bool `json:"busy,omitempty"`
}

// List returns the trees that exist below this driver's root, the oldest first. A tree that is being made or removed
// is not among them, nor one whose record cannot be read.
func (d *Driver) List(ctx context.Context) ([]Held, error) {
	all, err := d.Inventory(ctx)
	return slices.DeleteFunc(all, func(h Held) bool {
		return h.State != Ready && h.State != Collected && h.State != Retained
	}), err
}

// Inventory returns everything that this root has a record of, the oldest first. It changes nothing on disk.
func (d *Driver) Inventory(ctx context.Context) ([]Held, error) {
	ids, err := d.ids(ctx)
	if err != nil {
		return nil, err
	}
	out := []Held{}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := d.Held(id)
		if err != nil {
			return nil, err
		}
		if h != nil {
			out = append(out, *h)
		}
	}
	slices.SortStableFunc(out, func(a, b Held) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// Held returns what is known of one tree, nil if there is no record of it.
func (d *Driver) Held(id string) (*Held, error) {
	if !safeID(id) {
		return nil, nil
	}
	h := &Held{ID: id, Path: d.treeDir(id), Busy: d.busy(id)}
	r, err := d.load(id)
	var bad *recordError
	switch {
	case errors.As(err, &bad):
		h.State, h.Why = Unreadable, bad.Error()
		return h, nil
	case err != nil || r == nil:
		return nil, err
	}
	h.State, h.Since, h.Why, h.Identity, h.Resolved = r.State, r.Since, r.Why, r.Identity, r.Resolved
	h.Created, h.Collected = r.Created, r.Collected
	switch {
	case r.State != stateReady:
	case r.Retained != nil:
		h.State, h.Since, h.Why = Retained, r.Retained.At, r.Retained.Why
	case r.Collected != "":
		h.State = Collected
	}
	return h, nil
}

// busy reports whether some process holds the lock of a tree.
func (d *Driver) busy(id string) bool {
	f, err := os.OpenFile(filepath.Join(d.stateDir(id), "lock"), os.O_RDWR|openFlags, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	free, err := tryLock(f)
	return err == nil && !free
}

// ids returns the names of all state folders, in order.
func (d *Driver) ids(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(d.root, "state"))
	if err != nil {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	var out []string
	for _, e := range entries {
		if safeID(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// eachRecord calls f for every identity that has a record, in the order of their ids. A record that cannot be read is
// passed over: it must not keep the others from being looked after.
func (d *Driver) eachRecord(ctx context.Context, f func(id string, r *record) error) error {
	ids, err := d.ids(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := d.load(id)
		var bad *recordError
		if errors.As(err, &bad) || err == nil && r == nil {
			continue
		}
		if err != nil {
			return err
		}
		if err := f(id, r); err != nil {
			return err
		}
	}
	return nil
}

// Usage is what a tree takes on disk.
type Usage struct {
	// Bytes are those of its files and folders as the file system allots them, Files their number. A file with several
	// names in the tree counts once for each.
	Bytes int64 `json:"bytes"`
	Files int   `json:"files"`
	// Partial says that there is more: counting was given up, or something could not be read.
	Partial bool `json:"partial,omitempty"`
}

// Measure counts what the tree of id and its record take on disk, and gives up after most files. Objects that the agent
// has committed into the repository are not counted. A tree that is not there takes nothing.
func (d *Driver) Measure(ctx context.Context, id string, most int) (Usage, error) {
	var u Usage
	if !safeID(id) {
		return u, nil
	}
	for _, dir := range []string{d.treeDir(id), d.stateDir(id)} {
		if err := u.add(ctx, dir, most); err != nil {
			return u, fmt.Errorf("measure worktree %q: %w", id, err)
		}
	}
	return u, nil
}

// add counts what is below dir, without following links.
func (u *Usage) add(ctx context.Context, dir string, most int) error {
	return filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil || e == nil {
			// Removed meanwhile, or made unreadable by the agent.
			u.Partial = u.Partial || !errors.Is(err, fs.ErrNotExist)
			return nil
		}
		if u.Files >= most {
			u.Partial = true
			return fs.SkipAll
		}
		u.Files++
		if fi, err := e.Info(); err == nil {
			u.Bytes += allotted(fi)
		}
		return nil
	})
}
