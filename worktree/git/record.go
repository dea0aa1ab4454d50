package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/assent-dev/assent/worktree"
)

// fileStat is what lstat says about a file, with times in nanoseconds since 1970.
type fileStat struct {
	dev, ino     uint64
	uid, gid     uint32
	size         int64
	mode         os.FileMode
	mtime, ctime int64
}

// The states of a record. A record is written before the first thing it speaks of exists and changed after the
// last one is gone, so that whatever lies on disk after a kill is named by it.
const (
	stateMaking    = "making"
	stateReady     = "ready"
	stateDisposing = "disposing"
	stateGone      = "gone"
)

// record is the memory of one identity, kept beside the trees where no tool of an agent writes. A ready record
// is the ready marker; a gone one is the tombstone, and it is never removed.
type record struct {
	State    string            `json:"state"`
	Why      string            `json:"why,omitempty"`
	Nonce    string            `json:"nonce"`
	Boot     string            `json:"boot,omitempty"`
	Identity worktree.Identity `json:"identity"`
	Resolved worktree.Resolved `json:"resolved"`
	// Host is the configured path, Common the repository's common directory, Admin the folder made in it, or the git
	// directory of a private tree.
	Host   string `json:"host"`
	Common string `json:"common"`
	Admin  string `json:"admin"`
	// Git is the git that made the tree, nil if none did. Its collect is git's too.
	Git *gitMade `json:"git,omitempty"`
	// Dev and Ino identify the tree's directory; Dev is compared only within one boot.
	Dev uint64 `json:"dev,omitempty"`
	Ino uint64 `json:"ino,omitempty"`
	// RacyFrom is the clock of the tree's file system after the last file was written, in nanoseconds: a file
	// whose change time is earlier cannot have been changed since without getting another change time.
	RacyFrom int64     `json:"racyFrom,omitempty"`
	Created  time.Time `json:"created"`
	// Since is when the record was written last.
	Since     time.Time `json:"since"`
	Collected string    `json:"collected,omitempty"`
	Retained  *pinned   `json:"retained,omitempty"`
	// held is true while the caller holds the lock until the patch is read to its end, with the files beside it.
	held bool
}

// gitMade is the git that made a tree.
type gitMade struct {
	Version string `json:"version"`
	Path    string `json:"path"`
	// Filters are those that were allowed. Their commands are frozen.
	Filters []string `json:"filters,omitempty"`
}

// pinned says since when and why a failed agent's tree is kept.
type pinned struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

// gone returns the error that stands for a record's tree.
func (r *record) gone(id string) error { return &worktree.GoneError{ID: id, Why: r.Why} }

func (r *record) lease(id, dir string) worktree.Lease {
	return worktree.Lease{ID: id, Dir: dir, Resolved: r.Resolved, Nonce: r.Nonce}
}

// lock waits for the exclusive lock of one identity and returns its release. The lock file is never removed:
// a lock on a removed file would exclude nobody.
func (d *Driver) lock(ctx context.Context, id string) (func(), error) {
	if err := os.Mkdir(d.stateDir(id), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("lock worktree %q: %w", id, err)
	}
	d.step("state-made")
	unlock, err := lockFile(ctx, filepath.Join(d.stateDir(id), "lock"))
	if err == nil {
		d.step("locked")
	}
	return unlock, err
}

// lockFile waits for the exclusive lock of path. It asks again at short intervals, because a blocking lock
// could not be given up when ctx ends.
func lockFile(ctx context.Context, path string) (func(), error) {
	wait := time.Millisecond
	for {
		release, err := tryLockFile(path)
		if release != nil || err != nil {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %q: %w", path, ctx.Err())
		case <-time.After(wait):
			wait = min(2*wait, 50*time.Millisecond)
		}
	}
}

// tryLockFile returns nil, nil if another one holds the lock.
func tryLockFile(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|openFlags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	ok, err := tryLock(f)
	if err != nil || !ok {
		f.Close()
		if err != nil {
			err = fmt.Errorf("lock %q: %w", path, err)
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

// load returns the record of id, or nil if this identity never had a tree.
func (d *Driver) load(id string) (*record, error) {
	b, err := os.ReadFile(filepath.Join(d.stateDir(id), "record"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &recordError{id, err}
	}
	r := new(record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, &recordError{id, err}
	}
	if r.Nonce == "" || !slices.Contains([]string{stateMaking, stateReady, stateDisposing, stateGone}, r.State) {
		return nil, &recordError{id, fmt.Errorf("state %q, nonce %q", r.State, r.Nonce)}
	}
	return r, nil
}

// recordError reports a record that is not what save wrote.
type recordError struct {
	id    string
	cause error
}

func (e *recordError) Error() string { return fmt.Sprintf("record %q is damaged: %v", e.id, e.cause) }

func (e *recordError) Unwrap() error { return e.cause }

// save replaces the record of id; it is on disk when save returns.
func (d *Driver) save(id string, r *record) error {
	r.Since = time.Now().UTC()
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		b = append(b, '\n')
		aside := func() { d.step("record-" + r.State + "-aside") }
		if err = replaceSynced(filepath.Join(d.stateDir(id), "record"), b, aside); errors.Is(err, syscall.ENOSPC) && (r.State == stateDisposing || r.State == stateGone) {
			err = d.saveOnFullDisk(id, b, err)
		}
	}
	if err != nil {
		return fmt.Errorf("write record %q: %w", id, err)
	}
	return nil
}

// saveOnFullDisk replaces the record by way of the spare file, which takes no room: a disk that is full of trees can
// only be freed by disposing of them. It returns full if there is no spare.
func (d *Driver) saveOnFullDisk(id string, data []byte, full error) error {
	dir := d.stateDir(id)
	_ = os.Remove(filepath.Join(dir, "record.tmp"))
	spare := filepath.Join(dir, frozenSpare)
	f, err := os.OpenFile(spare, os.O_WRONLY, 0)
	if err != nil || len(data) > spareBytes {
		return errors.Join(full, err)
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(spare, filepath.Join(dir, "record")); err != nil {
		return err
	}
	return syncDir(dir)
}

// forget removes everything in the state folder but the lock: the identity is as if it had never been.
func (d *Driver) forget(id string) error {
	if err := d.thaw(id); err != nil {
		return err
	}
	for _, name := range []string{"record.tmp", "record"} {
		if err := os.Remove(filepath.Join(d.stateDir(id), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove record %q: %w", id, err)
		}
	}
	return syncDir(d.stateDir(id))
}

// replace is replaceSynced with a step of the file's name.
func (d *Driver) replace(path string, data []byte) error {
	return replaceSynced(path, data, func() { d.step(filepath.Base(path) + "-aside") })
}

// replaceSynced writes data to path by way of a temporary file, so that path always holds all of one version. aside is
// called when that file is there.
func replaceSynced(path string, data []byte, aside func()) error {
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeSynced(tmp, data); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	aside()
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeSynced makes a new file and flushes it to disk.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir flushes a directory's names to disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
