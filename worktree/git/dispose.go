package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assent-dev/assent/worktree"
)

// deepestOpen is how many folders are held open while a tree is deleted. os.RemoveAll holds open all on the way down, and
// an agent can nest more than a process may open.
const deepestOpen = 200

// Dispose removes a collected tree, or any with force. The tree is renamed away and its admin folder removed
// before Dispose returns; the files are deleted behind it. A tree that is gone already is cleaned up after and
// is no error. An uncollected one is refused with *worktree.NotCollectedError.
func (d *Driver) Dispose(ctx context.Context, l worktree.Lease, force bool) error {
	if !safeID(l.ID) {
		return nil
	}
	if _, err := os.Lstat(d.stateDir(l.ID)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := d.lock(ctx, l.ID)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := d.load(l.ID)
	if err != nil || r == nil || r.Nonce != l.Nonce || r.State == stateGone {
		return err
	}
	var gone *worktree.GoneError
	if err := d.present(l.ID, r); err == nil && r.Collected == "" && !force {
		return &worktree.NotCollectedError{ID: l.ID}
	} else if err != nil && !errors.As(err, &gone) {
		return err
	}
	return d.remove(l.ID, r, "it was disposed of")
}

// remove takes a tree away and leaves its tombstone. The caller holds the lock.
func (d *Driver) remove(id string, r *record, why string) error {
	if r.State != stateDisposing {
		r.State, r.Why, r.Retained = stateDisposing, why, nil
		if err := d.save(id, r); err != nil {
			return err
		}
	}
	d.step("record-disposing")
	if err := d.endGit(id); err != nil {
		return fmt.Errorf("dispose %q: %w", id, err)
	}
	if err := d.removeTree(id, r); err != nil {
		return fmt.Errorf("dispose %q: %w", id, err)
	}
	if err := d.removeAdmin(id, r); err != nil {
		return fmt.Errorf("dispose %q: %w", id, err)
	}
	d.step("admin-removed")
	if err := d.thaw(id); err != nil {
		return fmt.Errorf("dispose %q: %w", id, err)
	}
	r.State = stateGone
	if err := d.save(id, r); err != nil {
		return err
	}
	d.step("record-gone")
	return nil
}

// removeTree renames whatever is at the tree's place into the trash and lets the janitor delete it. A link there
// is moved as a link; what it points to is not touched.
func (d *Driver) removeTree(id string, r *record) error {
	fi, err := os.Lstat(d.treeDir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s := statOf(fi); r.Ino != 0 && s.ino != r.Ino && fi.Mode()&fs.ModeSymlink == 0 {
		return nil // put there by somebody else after ours was taken away
	}
	if err := refuseMounts(d.treeDir(id)); err != nil {
		return err
	}
	trash := filepath.Join(d.root, "trash", id+"."+newNonce()[:8])
	if err := os.Rename(d.treeDir(id), trash); err != nil {
		return err
	}
	d.step("tree-renamed-out")
	d.janitor.Go(func() {
		d.deleting.Lock()
		defer d.deleting.Unlock()
		// What cannot be deleted now stays in the trash, where Sweep reports it.
		_ = deleteAll(trash)
	})
	return nil
}

// refuseMounts returns an error if something is mounted below a folder that is to be deleted.
func refuseMounts(dir string) error {
	at, err := mountedBelow(dir)
	if err == nil && at != "" {
		err = fmt.Errorf("delete %q: something is mounted at %q", dir, at)
	}
	return err
}

// deleteAll removes a path of the trash without following links, and nothing that is mounted there. Folders that an agent
// made unwritable are made writable first.
func deleteAll(path string) error {
	if err := refuseMounts(path); err != nil {
		return err
	}
	err := removeAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, rootErr := os.OpenRoot(filepath.Dir(path))
	if rootErr != nil {
		return err
	}
	defer root.Close()
	openUp(root, filepath.Base(path), 0)
	return removeAll(path)
}

// openUp gives the owner all rights on a folder and those below it, down to a depth at which it does not take all files that
// a process may open. What lies deeper is moved up when it is deleted, and its turn is the next sweep's.
func openUp(root *os.Root, name string, depth int) {
	if depth == deepestOpen {
		return
	}
	fi, err := root.Lstat(name)
	if err != nil || !fi.IsDir() || root.Chmod(name, 0o700) != nil {
		return
	}
	sub, err := openFolder(root, name)
	if err != nil {
		return
	}
	defer sub.Close()
	names, _ := readNames(sub)
	for _, n := range names {
		openUp(sub, n, depth+1)
	}
}
