package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// asidePrefix begins the name of a blob that is being deleted, before its hash, a hyphen and what makes the name that of one
// deletion alone: with a shared one, who removes an old file could remove a new one that another deletion has put there.
const asidePrefix = "del-"

// List yields the blobs of the directory. Files that are none are left out. The time of a blob is that of its file, which
// Put sets.
func (d *Dir) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		root := filepath.Join(d.path, objectsName)
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && path != root:
				return nil
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case !e.Type().IsRegular():
				return nil
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			} else if err != nil {
				return err
			}
			ref := Ref{SHA256: filepath.Base(filepath.Dir(path)) + e.Name(), Size: info.Size()}
			if ref.Validate() != nil || d.object(ref) != path {
				return nil
			}
			if !yield(Entry{ref, info.ModTime()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Entry{}, fmt.Errorf("blob: list store %q: %w", d.path, err))
		}
	}
}

// Delete removes ref if its last Put was before the given time.
//
// The file is put aside and looked at once more before it is gone: a Put that found it there has made it young by then,
// and one that comes later does not find it and writes it anew. What a crash leaves aside is put back by NewDir.
func (d *Dir) Delete(ctx context.Context, ref Ref, before time.Time) (bool, error) {
	if err := ref.Validate(); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("blob: delete %s: %w", ref.SHA256, err)
	}
	deleted, err := d.delete(ref, before)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("blob: delete %s: %w", ref.SHA256, err)
	}
	return deleted, nil
}

func (d *Dir) delete(ref Ref, before time.Time) (bool, error) {
	path, aside := d.object(ref), filepath.Join(d.path, tempName, asidePrefix+ref.SHA256+"-"+newID())
	if info, err := os.Stat(path); err != nil || !info.ModTime().Before(before) {
		return false, err
	}
	if err := os.Rename(path, aside); err != nil {
		return false, err
	}
	info, err := os.Stat(aside)
	if err != nil {
		// A process that opened the store meanwhile has put it back.
		return false, err
	}
	if !info.ModTime().Before(before) {
		d.putBack(aside, ref.SHA256)
		return false, nil
	}
	return true, os.Remove(aside)
}

// putBack undoes a deletion. If somebody has written the blob anew, that one stays.
func (d *Dir) putBack(aside, sum string) {
	ref := Ref{SHA256: sum}
	if ref.Validate() == nil {
		if err := os.Link(aside, d.object(ref)); err != nil && !errors.Is(err, fs.ErrExist) {
			return
		}
	}
	_ = os.Remove(aside)
}
