package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/worktree"
)

// collectTries is how often a tree is read again when files change under the reader.
const collectTries = 3

// Collect reads a tree and returns the patch from its base to what is on disk: commits, staged and unstaged work
// and untracked files alike. It reads nothing that the agent can write but the files themselves, by the ignore
// and attribute rules of the base. The tree is kept. Errors: *worktree.GoneError, *worktree.ChangingError when
// something goes on writing, and *worktree.SpaceError on a full disk; then the tree stays uncollected.
func (d *Driver) Collect(ctx context.Context, l worktree.Lease) (worktree.Patch, error) {
	if _, err := d.leased(l); err != nil {
		return worktree.Patch{}, err
	}
	unlock, err := d.lock(ctx, l.ID)
	if err != nil {
		return worktree.Patch{}, err
	}
	defer unlock()
	r, err := d.leased(l)
	if err != nil {
		return worktree.Patch{}, err
	}
	p, err := d.collect(ctx, l.ID, r)
	if err != nil {
		return worktree.Patch{}, d.full(fmt.Errorf("collect %q: %w", l.ID, err))
	}
	d.step("collected")
	r.Collected = p.Tree
	if err := d.save(l.ID, r); err != nil {
		return worktree.Patch{}, d.full(err)
	}
	return p, nil
}

func (d *Driver) collect(ctx context.Context, id string, r *record) (worktree.Patch, error) {
	read, done, err := d.reader(ctx, id, r)
	if err != nil {
		return worktree.Patch{}, err
	}
	defer done()
	var p worktree.Patch
	for try := 1; ; try++ {
		p, err = read()
		var changing *worktree.ChangingError
		if !errors.As(err, &changing) || try == collectTries {
			break
		}
	}
	if err != nil {
		return p, err
	}
	before, err := d.frozenShared(id)
	if err != nil {
		return p, err
	}
	p.HostChanges = before.changes(d.snapshot(r))
	legible(&p)
	return p, nil
}

// legible quotes names that are no UTF-8 as git does: JSON would make one of two different ones.
func legible(p *worktree.Patch) {
	name := func(s *string) {
		if !utf8.ValidString(*s) {
			*s = quote("", *s)
		}
	}
	for i := range p.Files {
		name(&p.Files[i].Path)
		name(&p.Files[i].From)
	}
	for i := range p.Ignored {
		name(&p.Ignored[i])
	}
}

// reader returns what reads the tree once, by the way in which it was made, and what is to be called in the end.
func (d *Driver) reader(ctx context.Context, id string, r *record) (read func() (worktree.Patch, error), done func(), err error) {
	if r.Git != nil {
		return d.gitReader(ctx, id, r)
	}
	f, err := d.unfreeze(id, r)
	if err != nil {
		return nil, nil, err
	}
	return func() (worktree.Patch, error) { return d.read(ctx, id, r, f) }, f.objects.close, nil
}

// frozen is what a tree is compared with.
type frozen struct {
	entries  []entry
	base     map[string]*entry
	tracked  map[string]bool
	settings settings
	ignore   *ignoreRules
	attrs    *attributes
	objects  *objectStore
}

// unfreeze loads what freeze kept. The rules of the base come from its blobs, which are verified by their ids.
func (d *Driver) unfreeze(id string, r *record) (*frozen, error) {
	f, err := d.unfreezeIndex(id)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(r.Common, "objects")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("repository %q is not there any more: %w", r.Host, err)
	}
	if f.objects, err = openObjects(r.Common); err != nil {
		return nil, err
	}
	if err := f.rules(f.blob); err != nil {
		f.objects.close()
		return nil, err
	}
	return f, nil
}

// blob returns the content of a file of the base, verified.
func (f *frozen) blob(e *entry) ([]byte, error) { return f.objects.readAs(plumbing.BlobObject, e.id) }

// unfreezeIndex loads the base and the settings.
func (d *Driver) unfreezeIndex(id string) (*frozen, error) {
	index, err := os.ReadFile(filepath.Join(d.stateDir(id), frozenIndex))
	if err != nil {
		return nil, err
	}
	f := &frozen{base: map[string]*entry{}, tracked: map[string]bool{}}
	if f.entries, err = decodeIndex(index); err != nil {
		return nil, err
	}
	set, err := os.ReadFile(filepath.Join(d.stateDir(id), frozenSettings))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(set, &f.settings); err != nil {
		return nil, err
	}
	for i := range f.entries {
		e := &f.entries[i]
		f.base[e.path] = e
		for dir := path.Dir(e.path); dir != "." && !f.tracked[dir]; dir = path.Dir(dir) {
			f.tracked[dir] = true
		}
	}
	return f, nil
}

// rules reads the ignore and attribute files of the base, the top folder's first. content gives the text of one.
func (f *frozen) rules(content func(e *entry) ([]byte, error)) error {
	f.ignore = &ignoreRules{files: map[string][]pathPattern{},
		info: parseIgnore(f.settings.InfoExclude, ""), config: parseIgnore(f.settings.Excludes, "")}
	var err error
	if f.attrs, err = newAttributes(f.settings); err != nil {
		return err
	}
	for _, top := range []bool{true, false} {
		for i := range f.entries {
			e := &f.entries[i]
			dir, name := path.Split(e.path)
			dir = strings.TrimSuffix(dir, "/")
			if e.mode != modeFile && e.mode != modeExec || (dir == "") != top || name != ".gitignore" && name != ".gitattributes" {
				continue
			}
			text, err := content(e)
			if err != nil {
				return err
			}
			if name == ".gitignore" {
				f.ignore.files[dir] = parseIgnore(string(text), dir)
			} else if err := f.attrs.add(dir, string(text)); err != nil {
				return err
			}
		}
		f.attrs.finish()
	}
	return nil
}

// read makes the patch of what is on disk now.
func (d *Driver) read(ctx context.Context, id string, r *record, f *frozen) (worktree.Patch, error) {
	root, err := d.openTree(id, r)
	if err != nil {
		return worktree.Patch{}, err
	}
	defer root.Close()
	s := &scan{
		ctx: ctx, base: f.base, tracked: f.tracked, ignore: f.ignore, attrs: f.attrs, settings: f.settings,
		objects: f.objects, racyFrom: r.RacyFrom,
	}
	defer s.relock(root)
	if err := s.run(root); err != nil {
		return worktree.Patch{}, err
	}
	d.step("scanned")
	changes := compare(f.entries, s.found)
	for _, c := range changes {
		if name := path.Base(c.path); name == ".gitignore" || name == ".gitattributes" {
			s.warn("%q was changed: the rules of the base were used", c.path)
		}
	}
	disk, err := root.OpenRoot(".")
	if err != nil {
		return worktree.Patch{}, err
	}
	at := newStack(disk)
	defer at.close()
	w := &patchWriter{maxFile: d.largeFile, max: d.largePatch, old: f.baseSide, new: func(e *entry) (side, error) { return s.diskSide(ctx, at, e) }}
	files, err := w.write(changes)
	if err != nil {
		return worktree.Patch{}, err
	}
	d.step("patched")
	s.warnOfLarge(w.large, w.oneWay)
	p := worktree.Patch{
		Bytes: w.out.Bytes(), Base: r.Resolved.Commit, Tree: treeID(s.found).String(), Files: files,
		Large: d.beside(id, r, f, w.large),
	}
	p.Warnings, p.Ignored = s.notes()
	return p, nil
}

// openTree opens the tree's directory and makes sure that it is the recorded one, not a link in its place.
func (d *Driver) openTree(id string, r *record) (*os.Root, error) {
	root, err := openTopFolder(d.treeDir(id))
	if err != nil {
		return nil, err
	}
	fi, err := root.Stat(".")
	if err == nil && statOf(fi).ino != r.Ino {
		err = &worktree.GoneError{ID: id, Why: "something else is in its place"}
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// subproject is what a patch shows for a submodule.
func subproject(e *entry) side {
	text := []byte("Subproject commit " + e.id.String() + "\n")
	return side{mode: e.mode, id: e.id, size: int64(len(text)), load: func() ([]byte, error) { return text, nil }}
}

// baseSide gives the content of a path of the base.
func (f *frozen) baseSide(e *entry) (side, error) {
	if e.mode == modeGitlink {
		return subproject(e), nil
	}
	_, size, err := f.objects.info(e.id)
	if err != nil {
		return side{}, err
	}
	return side{mode: e.mode, id: e.id, size: size,
		load: func() ([]byte, error) { return f.objects.readAs(plumbing.BlobObject, e.id) },
		copy: func(w io.Writer) error { return f.objects.stream(w, e.id) },
	}, nil
}

// diskSide gives the content of a path of the tree. It is read again and must be what the scan saw.
func (s *scan) diskSide(ctx context.Context, at *folderStack, e *entry) (side, error) {
	if err := ctx.Err(); err != nil {
		return side{}, err
	}
	if e.mode == modeGitlink {
		return subproject(e), nil
	}
	again := func(err error) error {
		if err == nil || errors.Is(err, errChanging) {
			return &worktree.ChangingError{Path: e.path}
		}
		return fmt.Errorf("read %q: %w", e.path, err)
	}
	dir, name := path.Split(e.path)
	root, err := at.enter(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return side{}, again(changing(err))
	}
	out := side{mode: e.mode, id: e.id, size: e.stat.size}
	out.load = func() ([]byte, error) {
		var data []byte
		var err error
		if e.mode == modeLink {
			var to string
			if to, err = root.Readlink(name); err != nil {
				err = errChanging
			}
			data = []byte(to)
		} else {
			data, err = s.content(root, name, e, s.base[e.path])
		}
		if err != nil || blobID(data) != e.id {
			return nil, again(err)
		}
		return data, nil
	}
	if e.conv != convNone && e.stat.size > maxTextDiff {
		var strip bool
		if out.size, strip, err = s.measure(root, name, e, s.base[e.path]); err != nil {
			return side{}, again(err)
		}
		out.copy = func(w io.Writer) error {
			if id, err := s.copyBlob(root, name, out.size, strip, w); err != nil || id != e.id {
				return again(err)
			}
			return nil
		}
		return out, nil
	}
	if e.mode == modeLink || e.conv != convNone {
		// The size of the blob is known only now.
		data, err := out.load()
		out.size = int64(len(data))
		out.load = func() ([]byte, error) { return data, nil }
		out.copy = func(w io.Writer) error { _, err := w.Write(data); return err }
		return out, err
	}
	out.copy = func(w io.Writer) error {
		if id, err := s.copyBlob(root, name, e.stat.size, false, w); err != nil || id != e.id {
			return again(err)
		}
		return nil
	}
	return out, nil
}
