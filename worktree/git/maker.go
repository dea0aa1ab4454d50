package git

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/assent-dev/assent/worktree"
)

// maker makes the files and the index of one tree. There are two: the driver's own, and one that runs git for
// repositories that the first refuses. Everything else of a tree's life is the same for both.
type maker interface {
	// host is the repository, found.
	host() *host
	// by is the git that makes the tree, nil for none.
	by() *gitMade
	// prepare does what comes after the record and before anything that it speaks of.
	prepare(ctx context.Context, id string) error
	// files fills the tree's folder, which is empty.
	files(ctx context.Context, id string) error
	// index gives the tree's git directory its index, once the tree is linked to it.
	index(r *record, id string) error
	// planned is what was made.
	planned() *plan
	close()
}

// maker returns the one that serves the repository. The caller closes it.
func (d *Driver) maker(ctx context.Context, at worktree.Resolved) (maker, error) {
	h, err := d.openHost(at.Repo)
	if err == nil {
		var p *plan
		if p, err = h.planAt(ctx, at); err == nil {
			return &ownMaker{d, h, p}, nil
		}
		h.close()
	}
	if d.needsGit(err) {
		return d.gitMaker(ctx, at)
	}
	return nil, err
}

// ownMaker starts no process.
type ownMaker struct {
	d    *Driver
	h    *host
	plan *plan
}

func (m *ownMaker) host() *host                           { return m.h }
func (m *ownMaker) by() *gitMade                          { return nil }
func (m *ownMaker) prepare(context.Context, string) error { return nil }
func (m *ownMaker) planned() *plan                        { return m.plan }
func (m *ownMaker) close()                                { m.h.close() }

func (m *ownMaker) files(ctx context.Context, id string) error {
	c := &checkout{
		ctx: ctx, objects: m.h.objects, host: m.h.work, into: m.d.treeDir(id), mtime: time.Now().Add(-2 * time.Second),
		step: m.d.step,
	}
	return c.run(m.plan.entries)
}

func (m *ownMaker) index(r *record, _ string) error {
	if err := writeIndex(filepath.Join(r.Admin, "index"), m.plan.entries, m.plan.folders); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}
