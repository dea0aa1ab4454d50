package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// Acquire makes the tree of an identity at a resolved commit, or returns the one that it has. Errors:
// *worktree.GoneError if the identity had a tree that is gone, *worktree.NeedsGitError for a repository that the
// driver does not serve, *worktree.SpaceError if the disk is too full, *fault.ConfigError if the identity
// already has a tree of another commit or a stranger's folder is in the way. When it fails, nothing is left.
func (d *Driver) Acquire(ctx context.Context, who worktree.Identity, at worktree.Resolved) (worktree.Lease, error) {
	l, err := d.acquire(ctx, who, at)
	return l, d.full(err)
}

// full adds a *worktree.SpaceError to the error of a disk that is full.
func (d *Driver) full(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	free, _ := freeBytes(d.root)
	return errors.Join(&worktree.SpaceError{Free: free, Min: d.minFree}, err)
}

func (d *Driver) acquire(ctx context.Context, who worktree.Identity, at worktree.Resolved) (worktree.Lease, error) {
	id := d.treeID(who)
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return worktree.Lease{}, err
	}
	defer unlock()
	r, err := d.load(id)
	if err != nil {
		return worktree.Lease{}, err
	}
	if r != nil && r.State == stateMaking {
		// A worker died over it and no lease was ever given out.
		if err := d.undo(id, r); err != nil {
			return worktree.Lease{}, err
		}
		r = nil
	}
	if r != nil {
		return d.reuse(id, r, at)
	}
	return d.make(ctx, id, who, at)
}

// reuse returns the lease of a tree that exists, after making sure that it does.
func (d *Driver) reuse(id string, r *record, at worktree.Resolved) (worktree.Lease, error) {
	if r.State == stateReady && (r.Resolved.Repo != at.Repo || r.Resolved.Commit != at.Commit) {
		return worktree.Lease{}, fault.Configf("worktree "+id, "exists with base %s of %q and was asked for with base %s of %q",
			r.Resolved.Commit, r.Resolved.Repo, at.Commit, at.Repo)
	}
	if r.State == stateReady && at.Private && !r.Resolved.Private {
		return worktree.Lease{}, fault.Configf("worktree "+id, "shares the git directory of %q and was asked for as private", at.Repo)
	}
	if err := d.present(id, r); err != nil {
		return worktree.Lease{}, err
	}
	return r.lease(id, d.treeDir(id)), nil
}

func (d *Driver) make(ctx context.Context, id string, who worktree.Identity, at worktree.Resolved) (worktree.Lease, error) {
	fail := func(err error) (worktree.Lease, error) {
		return worktree.Lease{}, err
	}
	if err := d.reserve(ctx, id, at.Repo); err != nil {
		return fail(err)
	}
	m, err := d.maker(ctx, at)
	if err != nil {
		return fail(fmt.Errorf("acquire %q: %w", id, err))
	}
	defer m.close()
	h := m.host()
	at.Private = at.Private || d.private(at.Repo)
	r := &record{
		State: stateMaking, Nonce: newNonce(), Boot: bootID(), Identity: who, Resolved: at, Host: h.path,
		Common: h.common, Admin: filepath.Join(h.common, "worktrees", id), Created: time.Now().UTC(),
		Git: m.by(),
	}
	if at.Private {
		r.Admin = d.privateDir(id)
	}
	if err := refuseStranger(id, d.treeDir(id), r.Admin); err != nil {
		return fail(err)
	}
	if err := d.save(id, r); err != nil {
		return fail(err)
	}
	d.step("record-making")
	if err := d.build(ctx, id, r, m); err != nil {
		// The record goes last: if this fails, the next acquire or sweep finds it and tries again.
		return fail(errors.Join(fmt.Errorf("acquire %q: %w", id, err), d.undo(id, r)))
	}
	d.flush(id, r)
	return r.lease(id, d.treeDir(id)), nil
}

// planAt plans the tree of a resolved commit.
func (h *host) planAt(ctx context.Context, at worktree.Resolved) (*plan, error) {
	if !isFullHex(at.Commit) {
		return nil, fault.Configf("resolved.commit", "%q is not an object id", at.Commit)
	}
	if err := h.refuseReplaced(); err != nil {
		return nil, err
	}
	commit := plumbing.NewHash(at.Commit)
	tree, err := h.treeOf(commit)
	if err != nil {
		return nil, err
	}
	if tree.String() != at.Tree {
		return nil, fault.Configf("resolved.tree", "%q is not the tree of commit %s", at.Tree, at.Commit)
	}
	return h.planTree(ctx, commit, tree)
}

// build makes everything that the record speaks of. Its last step is the ready record: whoever finds that,
// finds a whole tree.
func (d *Driver) build(ctx context.Context, id string, r *record, m maker) error {
	if err := m.prepare(ctx, id); err != nil {
		return err
	}
	if err := d.attach(id, r, m.host()); err != nil {
		return err
	}
	dir := d.treeDir(id)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	d.step("tree-made")
	if err := m.files(ctx, id); err != nil {
		return err
	}
	d.step("files-written")
	if err := d.link(id, r, m.host()); err != nil {
		return err
	}
	d.step("link-written")
	if err := m.index(r, id); err != nil {
		return err
	}
	d.step("index-written")
	if err := d.freeze(id, r, m.planned()); err != nil {
		return fmt.Errorf("freeze base: %w", err)
	}
	d.step("frozen")
	if err := d.settle(ctx, id, r.Resolved.Repo, m.planned()); err != nil {
		return err
	}
	r.State = stateReady
	if err := d.save(id, r); err != nil {
		return err
	}
	d.step("record-ready")
	return nil
}

// undo removes whatever a record in state making may have left, and the record.
func (d *Driver) undo(id string, r *record) error {
	if err := d.endGit(id); err != nil {
		return fmt.Errorf("undo %q: %w", id, err)
	}
	if err := d.removeTree(id, r); err != nil {
		return fmt.Errorf("undo %q: %w", id, err)
	}
	if err := d.removeAdmin(id, r); err != nil {
		return fmt.Errorf("undo %q: %w", id, err)
	}
	return d.forget(id)
}

// Check returns nil if the lease's tree is there and is the same one, else a *worktree.GoneError.
func (d *Driver) Check(ctx context.Context, l worktree.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := d.leased(l); err != nil {
		return err
	}
	if l.Dir != d.treeDir(l.ID) {
		// Its tools would run there.
		return &worktree.GoneError{ID: l.ID, Why: "its lease names another directory"}
	}
	return nil
}

// leased returns the record of a lease whose tree is there.
func (d *Driver) leased(l worktree.Lease) (*record, error) {
	gone := func(why string) (*record, error) { return nil, &worktree.GoneError{ID: l.ID, Why: why} }
	if !safeID(l.ID) {
		return gone("no tree can have that id")
	}
	r, err := d.load(l.ID)
	switch {
	case err != nil:
		return nil, err
	case r == nil || r.State == stateMaking:
		return gone("this host has no record of it")
	case r.Nonce != l.Nonce:
		return gone("another tree has its id")
	}
	if err := d.present(l.ID, r); err != nil {
		return nil, err
	}
	return r, nil
}

// present returns a *worktree.GoneError unless the record is ready and its directory is the one that was made.
func (d *Driver) present(id string, r *record) error {
	if r.State != stateReady {
		return r.gone(id)
	}
	gone := func(why string) error { return &worktree.GoneError{ID: id, Why: why} }
	fi, err := os.Lstat(d.treeDir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return gone("its directory was removed")
	}
	if err != nil {
		return fmt.Errorf("check %q: %w", id, err)
	}
	boot := bootID()
	s := statOf(fi)
	if !fi.IsDir() || s.ino != r.Ino || boot == r.Boot && s.dev != r.Dev {
		return gone("something else is in its place")
	}
	if boot != r.Boot && !d.flushed(id, r) {
		return gone("the machine stopped before its files had reached the disk")
	}
	return nil
}

// safeID reports whether id can be one of treeID's; a lease comes from outside.
func safeID(id string) bool {
	for i := 0; i < len(id); i++ {
		if c := id[i]; !isAlnum(c) && c != '-' {
			return false
		}
	}
	return id != ""
}
