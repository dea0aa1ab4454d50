package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sweep finishes what crashed workers left: trees that were half made or half removed, admin folders whose
// record was lost, and the trash; and it counts what trees take on disk. It returns the ids of what it finished. It goes by marker and lock only: what a
// living worker holds is passed over, and a tree that was given out is never touched. A failure at one tree does
// not keep it from the others.
func (d *Driver) Sweep(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.root, "state"))
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var done []string
	var errs []error
	note := func(id string, finished bool, err error) {
		if finished {
			done = append(done, id)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %q: %w", id, err))
		}
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return done, errors.Join(append(errs, err)...)
		}
		if id := e.Name(); safeID(id) {
			finished, err := d.sweepOne(id)
			note(id, finished, err)
		}
	}
	for _, name := range d.repoNames() {
		d.sweepHost(name, note)
	}
	errs = append(errs, d.sweepRoot(), d.sweepTrash(ctx), d.recountAll(ctx))
	return done, errors.Join(errs...)
}

// sweepOne finishes the work that a record says was under way, unless somebody is at it.
func (d *Driver) sweepOne(id string) (bool, error) {
	unlock, err := tryLockFile(filepath.Join(d.stateDir(id), "lock"))
	if unlock == nil || err != nil {
		return false, err
	}
	defer unlock()
	r, err := d.load(id)
	if err != nil {
		return false, err
	}
	if r == nil || r.State == stateGone {
		return false, d.tidy(id, r)
	}
	switch r.State {
	case stateMaking:
		return true, d.undo(id, r)
	case stateDisposing:
		return true, d.remove(id, r, r.Why)
	}
	return false, nil
}

// tidy removes what is left in the state folder of a tree that is not there: a killed worker's files aside, and a mark that
// was made after the tree had gone.
func (d *Driver) tidy(id string, r *record) error {
	entries, err := os.ReadDir(d.stateDir(id))
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case "lock", "git.lock":
			continue
		case "record":
			if r != nil {
				continue
			}
		}
		if r == nil {
			return d.forget(id)
		}
		return errors.Join(d.thaw(id), removeIfThere(filepath.Join(d.stateDir(id), "record.tmp")))
	}
	return nil
}

// sweepRoot removes the files aside that killed workers left in the root.
func (d *Driver) sweepRoot() error {
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return fmt.Errorf("sweep root: %w", err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(d.root, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), hostIDName+"."):
			errs = append(errs, removeIfThere(path))
		case e.Name() == "space.tmp":
			unlock, err := tryLockFile(filepath.Join(d.root, "space.lock"))
			if unlock != nil {
				err = removeIfThere(path)
				unlock()
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepHost removes the admin folders that carry this root's marker and have no record any more.
func (d *Driver) sweepHost(name string, note func(id string, finished bool, err error)) {
	h := &host{}
	var err error
	if h.path, err = filepath.EvalSymlinks(d.repos[name]); err != nil || h.locate() != nil {
		return // not there now; its agents are told so at Resolve
	}
	d.sweepPins(h.common, note)
	for _, dir := range []string{filepath.Join(h.common, "worktrees"), h.common} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			id := e.Name()
			if dir == h.common {
				var aside bool
				if id, aside = strings.CutPrefix(id, asideName); !aside {
					continue
				}
			}
			m := readMarker(filepath.Join(dir, e.Name()))
			if m == nil || m.Host != d.hostID || m.ID != id || !safeID(id) {
				continue
			}
			finished, err := d.sweepOrphan(h, m)
			note(id, finished, err)
		}
	}
}

func (d *Driver) sweepOrphan(h *host, m *marker) (bool, error) {
	if err := os.MkdirAll(d.stateDir(m.ID), 0o700); err != nil {
		return false, err
	}
	unlock, err := tryLockFile(filepath.Join(d.stateDir(m.ID), "lock"))
	if unlock == nil || err != nil {
		return false, err
	}
	defer unlock()
	if r, err := d.load(m.ID); err != nil || r != nil {
		return false, err
	}
	r := &record{Nonce: m.Nonce, Common: h.common, Admin: filepath.Join(h.common, "worktrees", m.ID)}
	return true, d.removeAdmin(m.ID, r)
}

// sweepTrash deletes what was renamed away and not deleted.
func (d *Driver) sweepTrash(ctx context.Context) error {
	trash := filepath.Join(d.root, "trash")
	entries, err := os.ReadDir(trash)
	if err != nil {
		return fmt.Errorf("sweep trash: %w", err)
	}
	d.deleting.Lock()
	defer d.deleting.Unlock()
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := deleteAll(filepath.Join(trash, e.Name())); err != nil {
			errs = append(errs, fmt.Errorf("sweep trash: %w", err))
		}
	}
	return errors.Join(errs...)
}
