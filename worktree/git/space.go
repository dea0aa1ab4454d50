package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// What the bound of bytes goes by. A tree is counted when it is made, by the sizes of its files; what its agent adds is
// found by counting again, a part at each Acquire and everything at each Sweep.
const (
	// mostRecounted bounds the files that one Acquire counts again.
	mostRecounted = 20_000
	// mostSwept bounds those of one tree in a Sweep.
	mostSwept = 10_000_000
	// recountAfter is how old a count must be.
	recountAfter = time.Minute
	// block is what a file system rounds a file up to.
	block = 4096
)

// weights is the file `space`: what Acquire holds against the bound of bytes beside the trees that are there.
type weights struct {
	// Reserved are bytes for trees that are being made, by id. One whose lock is free counts no more.
	Reserved map[string]int64 `json:"reserved"`
	// Last is what the newest tree of each repository took when it was made.
	Last map[string]int64 `json:"last"`
}

// weight is the file `size` of a tree.
type weight struct {
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"`
}

// reserve makes room for a tree of repo, or refuses with *worktree.SpaceError. Retained trees that were collected go for
// it, the oldest first. The caller holds the lock of id; the reservation ends with that, or with settle.
func (d *Driver) reserve(ctx context.Context, id, repo string) error {
	if err := d.freeUp(ctx); err != nil {
		return err
	}
	if d.maxBytes == 0 {
		return nil
	}
	defer d.step("reserved")
	return d.weighing(ctx, func(w *weights) error {
		want := w.Last[repo]
		w.Reserved[id] = want
		if err := d.fit(ctx, w, id, want); err != nil {
			delete(w.Reserved, id)
			return err
		}
		return nil
	})
}

// settle replaces a reservation by what the tree of a plan takes, and refuses it if that is too much after all.
func (d *Driver) settle(ctx context.Context, id, repo string, p *plan) error {
	if d.maxBytes == 0 {
		return nil
	}
	var size int64
	for i := range p.entries {
		size += (p.entries[i].stat.size + block - 1) / block * block
	}
	// The folders, and some files of the record.
	size += int64(len(p.folders)+6) * block
	if size > d.maxBytes {
		return fault.Configf("worktrees.maxBytes", "is %d, and a tree of %q alone takes %d", d.maxBytes, repo, size)
	}
	defer d.step("settled")
	return d.weighing(ctx, func(w *weights) error {
		w.Last[repo], w.Reserved[id] = size, size
		if err := d.fit(ctx, w, id, size); err != nil {
			return err
		}
		delete(w.Reserved, id)
		return d.saveWeight(id, weight{size, time.Now().UTC()})
	})
}

// weighing calls f with the file `space` under its lock and writes it back, also when f fails. Only locks that are free
// are taken under this one, so that its holder waits for nobody.
func (d *Driver) weighing(ctx context.Context, f func(w *weights) error) error {
	unlock, err := lockFile(ctx, filepath.Join(d.root, "space.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(d.root, "space")
	w := &weights{}
	b, err := os.ReadFile(path)
	if err == nil && json.Unmarshal(b, w) != nil {
		w = &weights{} // what was reserved is counted when it is there
	}
	if w.Reserved == nil {
		w.Reserved = map[string]int64{}
	}
	if w.Last == nil {
		w.Last = map[string]int64{}
	}
	result := f(w)
	if b, err = json.Marshal(w); err == nil {
		err = d.replace(path, b)
	}
	if err != nil {
		err = fmt.Errorf("write %q: %w", path, err)
	}
	return errors.Join(result, err)
}

// fit evicts retained trees until everything and want more bytes for id are within the bound.
func (d *Driver) fit(ctx context.Context, w *weights, id string, want int64) error {
	sizes, err := d.weigh(ctx, w, id)
	if err != nil {
		return err
	}
	var used int64
	for _, n := range sizes {
		used += n
	}
	if used+want <= d.maxBytes {
		return nil
	}
	pins, err := d.pins(ctx)
	if err != nil {
		return err
	}
	for _, p := range pins {
		evicted, err := d.evict(p.id, forRoom)
		if err != nil {
			return err
		}
		if evicted {
			used -= sizes[p.id]
			delete(sizes, p.id)
		}
		if used+want <= d.maxBytes {
			return nil
		}
	}
	return &worktree.SpaceError{Used: used, Want: want, Max: d.maxBytes, Trees: len(sizes)}
}

const forRoom = "it was evicted: another tree needed the room"

// weigh returns what each tree but id takes, after it has counted some again, those first whose count is the oldest.
func (d *Driver) weigh(ctx context.Context, w *weights, id string) (map[string]int64, error) {
	sizes := map[string]int64{}
	for other, bytes := range w.Reserved {
		if other == id {
			continue
		}
		if r, err := d.load(other); d.busy(other) || err == nil && r != nil && r.State == stateMaking {
			sizes[other] = bytes
		} else {
			delete(w.Reserved, other)
		}
	}
	entries, err := os.ReadDir(filepath.Join(d.root, "trees"))
	if err != nil {
		return nil, fmt.Errorf("weigh worktrees: %w", err)
	}
	type counted struct {
		id string
		weight
	}
	var trees []counted
	for _, e := range entries {
		other := e.Name()
		if _, ok := sizes[other]; ok || other == id || !safeID(other) {
			continue
		}
		trees = append(trees, counted{other, d.loadWeight(other)})
	}
	slices.SortFunc(trees, func(a, b counted) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.id, b.id)) })
	budget := mostRecounted
	for _, t := range trees {
		if budget > 0 && time.Since(t.At) > recountAfter {
			files, err := d.recount(ctx, t.id, &t.weight, budget)
			if err != nil {
				return nil, err
			}
			budget -= files
		}
		sizes[t.id] = t.Bytes
	}
	return sizes, nil
}

// recount counts a tree again and returns how many files that were. A count that was given up tells only that it is not
// less.
func (d *Driver) recount(ctx context.Context, id string, w *weight, most int) (int, error) {
	u, err := d.Measure(ctx, id, most)
	if err != nil {
		return 0, err
	}
	if u.Partial {
		u.Bytes = max(u.Bytes, w.Bytes)
	}
	*w = weight{u.Bytes, time.Now().UTC()}
	if _, err := os.Lstat(d.treeDir(id)); err != nil {
		return u.Files, nil // removed meanwhile
	}
	return u.Files, d.saveWeight(id, *w)
}

// recountAll counts every tree again. A tree that is lost to one process is counted by another.
func (d *Driver) recountAll(ctx context.Context) error {
	if d.maxBytes == 0 {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(d.root, "trees"))
	if err != nil {
		return fmt.Errorf("weigh worktrees: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if w := d.loadWeight(e.Name()); safeID(e.Name()) && time.Since(w.At) > recountAfter {
			_, err := d.recount(ctx, e.Name(), &w, mostSwept)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

const weightName = "size"

// loadWeight returns the last count of a tree, zero if there is none that can be read.
func (d *Driver) loadWeight(id string) weight {
	var w weight
	b, err := os.ReadFile(filepath.Join(d.stateDir(id), weightName))
	if err != nil || json.Unmarshal(b, &w) != nil {
		return weight{}
	}
	return w
}

// saveWeight is not flushed to disk: after a crash the tree is counted again.
func (d *Driver) saveWeight(id string, w weight) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	tmp := filepath.Join(d.stateDir(id), weightName+"."+newNonce()[:8])
	err = os.WriteFile(tmp, b, 0o600)
	if err == nil {
		d.step("size-aside")
		err = os.Rename(tmp, filepath.Join(d.stateDir(id), weightName))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the tree was removed meanwhile, and this with it
	}
	if err != nil {
		os.Remove(tmp)
		return fmt.Errorf("write size of %q: %w", id, err)
	}
	return nil
}

// freeUp refuses to start on a disk that is too full. Before that, retained trees that were collected go, and what is in
// the trash.
func (d *Driver) freeUp(ctx context.Context) error {
	enough := func() (bool, int64, error) {
		if d.minFree == 0 {
			return true, 0, nil
		}
		free, err := freeBytes(d.root)
		if err != nil {
			err = fmt.Errorf("measure free space of %q: %w", d.root, err)
		}
		return free >= d.minFree, free, err
	}
	ok, free, err := enough()
	if ok || err != nil {
		return err
	}
	if d.sweepTrash(ctx) == nil {
		if ok, free, err = enough(); ok || err != nil {
			return err
		}
	}
	pins, err := d.pins(ctx)
	if err != nil {
		return err
	}
	for _, p := range pins {
		evicted, err := d.evict(p.id, forRoom)
		if err != nil {
			return err
		}
		if !evicted {
			continue
		}
		if err := d.sweepTrash(ctx); err != nil {
			return err
		}
		if ok, free, err = enough(); ok || err != nil {
			return err
		}
	}
	return &worktree.SpaceError{Free: free, Min: d.minFree}
}
