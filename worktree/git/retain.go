package git

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/assent-dev/assent/worktree"
)

// Retain marks a failed agent's tree to be kept and reports whether it was: not without Config.KeepOnError, and
// not with a pin cap of zero. When there are more retained trees than the cap allows, the oldest others go. One whose
// work was not collected never goes, nor one that a process is at: they count, and may exceed the cap. Trees of agents that work
// or wait do not count.
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
	pinned, err := d.pins(ctx)
	if err != nil {
		return false, err
	}
	over := len(pinned) - d.pinCap
	for _, p := range pinned {
		if over <= 0 {
			break
		}
		if p.id == l.ID {
			continue
		}
		evicted, err := d.evict(p.id, fmt.Sprintf("it was evicted: at most %d failed trees are kept", d.pinCap))
		if err != nil {
			return false, err
		}
		if evicted {
			over--
		}
	}
	return true, nil
}

// pin is a retained tree's place in the queue for eviction.
type pin struct {
	id string
	at time.Time
}

// pins returns the retained trees, the oldest first.
func (d *Driver) pins(ctx context.Context) ([]pin, error) {
	var out []pin
	err := d.eachRecord(ctx, func(id string, r *record) error {
		if r.State == stateReady && r.Retained != nil {
			out = append(out, pin{id, r.Retained.At})
		}
		return nil
	})
	slices.SortFunc(out, func(a, b pin) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id))
	})
	return out, err
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

// evict removes a retained tree and reports whether it did. It waits for nobody: who holds the lock uses the tree.
func (d *Driver) evict(id, why string) (bool, error) {
	unlock, err := tryLockFile(filepath.Join(d.stateDir(id), "lock"))
	if unlock == nil || err != nil {
		return false, err
	}
	defer unlock()
	r, err := d.load(id)
	if err != nil || r == nil || r.State != stateReady || r.Retained == nil || r.Collected == "" {
		return false, err
	}
	return true, d.remove(id, r, why)
}
