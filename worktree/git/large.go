package git

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/worktree"
)

const (
	// LargeFile is the size in bytes above which a changed file lies beside the patch instead of in it.
	LargeFile = 32 << 20
	// LargePatch bounds a patch in bytes: what it has no more room for lies beside it too.
	LargePatch = 64 << 20
)

// large is a file of the tree that lies beside the patch, with the size of its blob.
type large struct {
	entry *entry
	size  int64
}

// beside makes the list of large files. Each is read when it is asked for.
func (d *Driver) beside(id string, r *record, f *frozen, list []large) []worktree.LargeFile {
	var out []worktree.LargeFile
	set := f.settings
	for _, l := range list {
		base := f.base[l.entry.path]
		out = append(out, worktree.LargeFile{
			Path: l.entry.path, Mode: fmt.Sprintf("%06o", l.entry.mode), Size: l.size, ID: l.entry.id.String(),
			Copy: func(ctx context.Context, w io.Writer) error {
				return d.copyLarge(ctx, id, r, set, base, l.entry, w)
			},
		})
	}
	return out
}

// warnOfLarge names the files that lie beside the patch, and those whose old content is not in it.
func (s *scan) warnOfLarge(list []large, oneWay []string) {
	for _, l := range list {
		s.warn("%q is too large for the patch (%d bytes): it lies beside it", l.entry.path, l.size)
	}
	for _, gone := range oneWay {
		s.warn("%q was too large for the patch: it cannot be taken back there", gone)
	}
}

// copyLarge streams the blob of a large file. The lock keeps the tree there meanwhile.
func (d *Driver) copyLarge(ctx context.Context, id string, r *record, set settings, base, e *entry, w io.Writer) error {
	release, err := d.hold(ctx, id, r)
	if err != nil {
		return err
	}
	defer release()
	objects, err := openObjects(r.Common)
	if err != nil {
		return err
	}
	defer objects.close()
	root, err := d.openTree(id, r)
	if err != nil {
		return err
	}
	defer root.Close()
	s := &scan{ctx: ctx, base: map[string]*entry{}, settings: set, objects: objects}
	if base != nil {
		s.base[e.path] = base
	}
	defer s.relock(root)
	s.unlockPath(root, e.path)
	d.step("large-opened")
	top, err := root.OpenRoot(".")
	if err != nil {
		return err
	}
	at := newStack(top)
	defer at.close()
	from, err := s.diskSide(ctx, at, e)
	if err != nil {
		return err
	}
	return from.copy(stoppable{ctx, w})
}

// hold takes the lock of a tree, unless the caller has it, and makes sure that the tree is still there.
func (d *Driver) hold(ctx context.Context, id string, r *record) (release func(), err error) {
	release = func() {}
	if !r.held {
		if release, err = d.lock(ctx, id); err != nil {
			return nil, err
		}
	}
	if _, err := d.leased(r.lease(id, d.treeDir(id))); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// unlockPath makes one path readable.
func (s *scan) unlockPath(root *os.Root, file string) {
	at := ""
	for name := range strings.SplitSeq(file, "/") {
		at = path.Join(at, name)
		if fi, err := root.Lstat(at); err == nil && (fi.IsDir() || fi.Mode().IsRegular()) {
			s.unlock(root, at, at, fi)
		}
	}
}

// stoppable is a writer that fails when its context ends.
type stoppable struct {
	ctx context.Context
	to  io.Writer
}

func (w stoppable) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// measure reads a file whose line ends may be converted and returns the size of the blob that git would store, and
// whether that is without the CR before each LF.
func (s *scan) measure(root *os.Root, name string, e, base *entry) (int64, bool, error) {
	var lines lineCounter
	var size int64
	err := withFile(root, name, func(f *os.File, n int64) error {
		var err error
		if size, err = io.Copy(&lines, io.LimitReader(f, n+1)); err == nil && size != n {
			err = errChanging
		}
		return err
	})
	if err != nil {
		return 0, false, err
	}
	now := lines.stats()
	strip, err := e.conv.strips(now, func() (lineStats, error) {
		var old lineCounter
		if !regular(base) {
			return lineStats{}, nil
		}
		err := s.objects.stream(&old, base.id)
		return old.stats(), err
	})
	if strip {
		size -= int64(now.crlf)
	}
	return size, strip, err
}

// copyBlob streams the blob that git would store for a file, whose size is known, and returns its id.
func (s *scan) copyBlob(root *os.Root, name string, size int64, strip bool, w io.Writer) (plumbing.Hash, error) {
	h := newHash("blob", size)
	err := withFile(root, name, func(f *os.File, n int64) error {
		to := io.MultiWriter(w, h)
		if !strip {
			_, err := io.Copy(to, io.LimitReader(f, n))
			return err
		}
		stripped := &crStripper{to: to}
		if _, err := io.Copy(stripped, io.LimitReader(f, n)); err != nil {
			return err
		}
		return stripped.end()
	})
	return sum(h), err
}
