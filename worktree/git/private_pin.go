package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/assent-dev/assent/fault"
)

// pinSpace is where the pin refs of all roots lie, each below its root's name: what is found there without a record is
// left over from this root and from nobody else.
const pinSpace = "refs/assent/"

// pinName is the ref that keeps the base of a private tree alive in the host.
func (d *Driver) pinName(id string) string { return pinSpace + d.hostID + "/" + id }

// makePin writes the pin ref as git writes a loose ref: a lock beside it, renamed in.
func (d *Driver) makePin(id string, r *record, h *host) error {
	err := d.writePin(id, r)
	if err == nil {
		d.step("pin-written")
		return nil
	}
	return &fault.ConfigError{Key: "worktrees.repos." + h.name, Msg: "no ref can be written that keeps the base of a private tree", Cause: err}
}

func (d *Driver) writePin(id string, r *record) error {
	packed, err := openRefs(r.Common, r.Common).packed()
	if err != nil {
		return err
	}
	name := d.pinName(id)
	for above := path.Dir(name); above != "refs"; above = path.Dir(above) {
		if _, ok := packed[above]; ok {
			return fmt.Errorf("ref %q is in the way", above)
		}
	}
	root, err := openTopFolder(r.Common)
	if err != nil {
		return err
	}
	defer root.Close()
	lock := name + ".lock"
	// Another tree's dispose may remove the empty folder in between.
	for range 100 {
		if err = root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		d.step("pin-folder")
		// The lock of a dead acquire: this identity is ours alone while its record is locked.
		if err = root.Remove(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err = createSynced(root, lock, r.Resolved.Commit+"\n", 0o666); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	d.step("pin-aside")
	if err := root.Rename(lock, name); err != nil {
		return err
	}
	return syncDir(filepath.Join(r.Common, filepath.FromSlash(path.Dir(name))))
}

// createSynced makes a new file below root and flushes it to disk.
func createSynced(root *os.Root, name, text string, mode fs.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// removePin removes the pin ref of a tree, packed or loose, and what a removal that was killed has left. The caller
// holds the lock of the identity. A host that is gone has no pin.
func (d *Driver) removePin(id, common string) error {
	root, err := openTopFolder(common)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove pin: %w", err)
	}
	defer root.Close()
	unlock, err := d.lockPacked(root, id)
	if err != nil {
		return fmt.Errorf("remove pin: %w", err)
	}
	d.step("pin-locked")
	name := d.pinName(id)
	err = d.unpack(root, common, id, name)
	if err == nil {
		err = errors.Join(removeOptional(root, name), removeOptional(root, name+".lock"))
	}
	d.step("pin-taken")
	if err = errors.Join(err, unlock()); err != nil {
		return fmt.Errorf("remove pin: %w", err)
	}
	removeEmpty(filepath.Join(common, filepath.FromSlash(path.Dir(name))))
	removeEmpty(filepath.Join(common, filepath.FromSlash(pinSpace)))
	d.step("pin-removed")
	return nil
}

func removeOptional(root *os.Root, name string) error {
	// ENOTDIR: somebody has made a file of the folder, so there is no such name.
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return nil
}

const (
	packedRefs = "packed-refs"
	packedLock = packedRefs + ".lock"
	// packedPatience is how long another one's lock on the packed refs is waited for. git holds it for milliseconds.
	packedPatience = 10 * time.Second
)

// lockPacked takes git's own lock on the packed refs, so that no `pack-refs` brings the pin back while it is removed.
// The lock says whose it is: one that a killed removal of the same tree has left is taken over.
func (d *Driver) lockPacked(root *os.Root, id string) (unlock func() error, err error) {
	mark, err := json.Marshal(marker{Host: d.hostID, ID: id})
	if err != nil {
		return nil, err
	}
	tmp := packedAside(id)
	if err := removeOptional(root, tmp); err != nil {
		return nil, err
	}
	if err := createSynced(root, tmp, string(mark), 0o666); err != nil {
		return nil, err
	}
	d.step("pin-lock-aside")
	defer func() { err = errors.Join(err, root.Remove(tmp)) }()
	unlock = func() error { return root.Remove(packedLock) }
	for deadline := time.Now().Add(packedPatience); ; time.Sleep(20 * time.Millisecond) {
		// A link appears with its content, so there is no moment at which the lock is nobody's.
		if err = root.Link(tmp, packedLock); err == nil {
			return unlock, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if held, readErr := root.ReadFile(packedLock); readErr == nil && string(held) == string(mark) {
			return unlock, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%q is held by another process, or left over from one", filepath.Join(root.Name(), packedLock))
		}
	}
}

// packedAside is the name beside the packed refs under which files are made for a tree.
func packedAside(id string) string { return packedRefs + "." + asideName + id }

// unpack writes the packed refs without the given one. The caller holds their lock.
func (d *Driver) unpack(root *os.Root, common, id, name string) error {
	tmp := packedAside(id) + ".new"
	if err := removeOptional(root, tmp); err != nil {
		return err
	}
	text, err := readOptional(filepath.Join(common, packedRefs))
	if err != nil {
		return err
	}
	rest, found := withoutRef(text, name)
	if !found {
		return nil
	}
	fi, err := root.Lstat(packedRefs)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%q is not a file", filepath.Join(common, packedRefs))
	}
	if err := createSynced(root, tmp, rest, 0o666); err != nil {
		return err
	}
	if err := root.Chmod(tmp, fi.Mode().Perm()); err != nil {
		return err
	}
	d.step("packed-aside")
	if err := root.Rename(tmp, packedRefs); err != nil {
		return err
	}
	d.step("packed-written")
	return syncDir(common)
}

// withoutRef drops the line of one ref from packed refs, with the line of what a tag there points to.
func withoutRef(text, name string) (rest string, found bool) {
	var b strings.Builder
	dropped := false
	for line := range strings.Lines(text) {
		if dropped && strings.HasPrefix(line, "^") {
			continue
		}
		_, ref, ok := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if dropped = ok && ref == name; dropped {
			found = true
			continue
		}
		b.WriteString(line)
	}
	return b.String(), found
}

// sweepPins removes the pins of this root whose tree has no record any more, or one that says it is gone.
func (d *Driver) sweepPins(common string, note func(id string, finished bool, err error)) {
	ids := map[string]bool{}
	// What cannot be read is told at Resolve, and its pins are found when it is mended.
	entries, _ := os.ReadDir(filepath.Join(common, filepath.FromSlash(d.pinName(""))))
	for _, e := range entries {
		ids[strings.TrimSuffix(e.Name(), ".lock")] = true
	}
	text, _ := readOptional(filepath.Join(common, packedRefs))
	for line := range strings.Lines(text) {
		if _, name, ok := strings.Cut(strings.TrimRight(line, "\r\n"), " "); ok {
			if id, ok := strings.CutPrefix(name, d.pinName("")); ok {
				ids[id] = true
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if safeID(id) {
			finished, err := d.sweepPin(common, id)
			note(id, finished, err)
		}
	}
}

func (d *Driver) sweepPin(common, id string) (bool, error) {
	if err := os.MkdirAll(d.stateDir(id), 0o700); err != nil {
		return false, err
	}
	unlock, err := tryLockFile(filepath.Join(d.stateDir(id), "lock"))
	if unlock == nil || err != nil {
		return false, err
	}
	defer unlock()
	if r, err := d.load(id); err != nil || r != nil && r.State != stateGone {
		return false, err
	}
	return true, d.removePin(id, common)
}
