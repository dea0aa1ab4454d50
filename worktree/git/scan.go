package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/worktree"
)

// maxNotes bounds the lists of warnings and of ignored paths.
const maxNotes = 1000

// scan reads the files of a tree and nothing else of it: not its .git, its HEAD, its index, its ignore or
// attribute files. What it compares with was frozen when the tree was made.
type scan struct {
	ctx      context.Context
	base     map[string]*entry
	tracked  map[string]bool // folders that hold paths of the base
	ignore   *ignoreRules
	attrs    *attributes
	settings settings
	objects  *objectStore
	racyFrom int64
	// take, if not nil, receives the files that are not as they were, instead of hashing them here.
	take func(root *os.Root, name string, e *entry) error

	found             []entry
	warnings, ignored []string
	muted             int
	unlocked          []unlocked

	readers *readers
	// done holds, in order, what came before these lists, in part found by other readers; err is how one of those ended.
	done []*scan
	err  error
}

// maxPath is the greatest length in bytes of a path that git can write to disk.
const maxPath = 4095

// errChanging reports a file that was written while it was read.
var errChanging = errors.New("it changed while it was read")

// run reads everything below root into found, in index order.
func (s *scan) run(root *os.Root) error {
	if err := s.together(func() error { return s.folder(root, "", false) }); err != nil {
		return err
	}
	slices.SortFunc(s.found, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return nil
}

// notes returns the warnings and the ignored paths.
func (s *scan) notes() (warnings, ignored []string) {
	if s.muted > 0 {
		return append(s.warnings, fmt.Sprintf("%d more warnings or ignored paths are not listed", s.muted)), s.ignored
	}
	return s.warnings, s.ignored
}

func (s *scan) note(list *[]string, text string) {
	if len(*list) >= maxNotes {
		s.muted++
		return
	}
	*list = append(*list, text)
}

func (s *scan) warn(format string, args ...any) { s.note(&s.warnings, fmt.Sprintf(format, args...)) }

// folder reads one folder. Inside an ignored one only what the base tracks counts.
func (s *scan) folder(root *os.Root, dir string, ignored bool) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	names, err := readNames(root)
	if errors.Is(err, fs.ErrPermission) && dir != "" {
		s.keep(dir)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read folder %q: %w", dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		path := name
		if dir != "" {
			path = dir + "/" + name
		}
		if name == ".git" {
			if dir != "" {
				s.warn("%q is a repository of its own: its files are in the patch, its history is not", dir)
			}
			continue
		}
		fi, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) {
			s.keep(path)
			continue
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", path, err)
		}
		if len(path) > maxPath && s.base[path] == nil && !s.tracked[path] {
			s.warn("%q is a path longer than %d bytes, which git cannot write: it is not in the patch", path, maxPath)
			continue
		}
		if link := fi.Mode()&fs.ModeSymlink != 0; !validName(name, link) || link && !validLink(dir) {
			s.warn("%q is a name that git refuses: it is not in the patch", path)
			continue
		}
		if err := s.path(root, name, path, fi, ignored); err != nil {
			return err
		}
	}
	return nil
}

// path reads one name of a folder.
func (s *scan) path(root *os.Root, name, path string, fi fs.FileInfo, ignored bool) error {
	base := s.base[path]
	switch mode := fi.Mode(); {
	case mode.IsDir():
		if base != nil && base.mode == modeGitlink {
			return s.submodule(root, name, base)
		}
		ignored = ignored || s.ignore.match(path, true)
		if ignored && !s.tracked[path] {
			s.note(&s.ignored, path+"/")
			return nil
		}
		return s.enter(root, name, path, fi, ignored)
	case mode.IsRegular(), mode&fs.ModeSymlink != 0:
		if base == nil && (ignored || s.ignore.match(path, false)) {
			s.note(&s.ignored, path)
			return nil
		}
		return s.file(root, name, path, fi, base)
	default:
		s.warn("%q is neither a file, a folder nor a link (%v): it is not in the patch", path, mode.Type())
		return nil
	}
}

func (s *scan) enter(root *os.Root, name, path string, fi fs.FileInfo, ignored bool) error {
	s.unlock(root, name, path, fi)
	sub, err := openFolder(root, name)
	if errors.Is(err, fs.ErrPermission) {
		s.keep(path)
		return nil
	}
	if err != nil {
		return folderError(path, err)
	}
	// A link that took the folder's place would show another part of the tree.
	now, err := sub.Stat(".")
	switch {
	case err != nil:
		err = fmt.Errorf("read folder %q: %w", path, err)
	case !os.SameFile(fi, now):
		err = &worktree.ChangingError{Path: path}
	case s.handOver(sub, path, ignored):
		return nil
	default:
		err = s.folder(sub, path, ignored)
	}
	sub.Close()
	return err
}

// folderError is the error of a folder that could not be opened. One that is not there any more is being changed.
func folderError(path string, err error) error {
	if errors.Is(changing(err), errChanging) {
		return &worktree.ChangingError{Path: path}
	}
	return fmt.Errorf("read folder %q: %w", path, err)
}

// submodule keeps the commit that the base names for it.
func (s *scan) submodule(root *os.Root, name string, base *entry) error {
	s.found = append(s.found, *base)
	sub, err := openFolder(root, name)
	if errors.Is(err, fs.ErrPermission) {
		s.warn("%q is a submodule: what is in it is not in the patch", base.path)
		return nil
	}
	if err != nil {
		return folderError(base.path, err)
	}
	defer sub.Close()
	names, err := readNames(sub)
	if len(names) > 0 {
		s.warn("%q is a submodule: what is in it is not in the patch", base.path)
	}
	return err
}

// file appends the entry of a regular file or a link.
func (s *scan) file(root *os.Root, name, path string, fi fs.FileInfo, base *entry) error {
	e := entry{path: path, stat: statOf(fi), mode: modeLink}
	if fi.Mode().IsRegular() {
		e.mode = s.fileMode(fi, base)
	}
	if base != nil && base.mode == e.mode && base.stat.ctime < s.racyFrom && sameStat(e.stat, base.stat) {
		e.id = base.id
		s.found = append(s.found, e)
		return nil
	}
	if e.mode != modeLink {
		s.unlock(root, name, path, fi)
	}
	if s.take != nil {
		if err := s.take(root, name, &e); errors.Is(err, errChanging) {
			return &worktree.ChangingError{Path: path}
		} else if errors.Is(err, fs.ErrPermission) {
			s.keep(path)
			return nil
		} else if err != nil {
			return fmt.Errorf("read %q: %w", path, err)
		}
		s.found = append(s.found, e)
		return nil
	}
	if e.mode == modeLink {
		to, err := root.Readlink(name)
		if err != nil {
			return &worktree.ChangingError{Path: path}
		}
		e.id = blobID([]byte(to))
		s.found = append(s.found, e)
		return nil
	}
	e.conv = s.settings.convert(s.attrs, path)
	var err error
	for range 4 {
		if e.id, err = s.hash(root, name, &e, base); !errors.Is(err, errChanging) {
			break
		}
	}
	if errors.Is(err, errChanging) {
		return &worktree.ChangingError{Path: path}
	}
	if errors.Is(err, fs.ErrPermission) {
		s.keep(path)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %q: %w", path, err)
	}
	s.found = append(s.found, e)
	return nil
}

// fileMode returns the mode that git would store; where executable bits mean nothing, the base's stays.
func (s *scan) fileMode(fi fs.FileInfo, base *entry) uint32 {
	if s.settings.NoLinks && base != nil && base.mode == modeLink {
		return modeLink
	}
	if !s.settings.FileMode {
		if base != nil && base.mode == modeExec {
			return modeExec
		}
		return modeFile
	}
	if fi.Mode()&0o100 != 0 {
		return modeExec
	}
	return modeFile
}

// hash returns the id of the blob that git would store for a file.
func (s *scan) hash(root *os.Root, name string, e *entry, base *entry) (plumbing.Hash, error) {
	if e.conv != convNone && e.stat.size <= maxTextDiff {
		data, err := s.content(root, name, e, base)
		return blobID(data), err
	}
	if e.conv != convNone {
		size, strip, err := s.measure(root, name, e, base)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		return s.copyBlob(root, name, size, strip, io.Discard)
	}
	h := newHash("blob", 0)
	err := withFile(root, name, func(f *os.File, size int64) error {
		h = newHash("blob", size)
		n, err := io.Copy(h, io.LimitReader(f, size+1))
		if err == nil && n != size {
			err = errChanging
		}
		return err
	})
	return sum(h), err
}

// content returns the blob that git would store for a file.
func (s *scan) content(root *os.Root, name string, e *entry, base *entry) ([]byte, error) {
	var data []byte
	err := withFile(root, name, func(f *os.File, size int64) error {
		data = make([]byte, 0, size)
		w := &appender{data}
		n, err := io.Copy(w, io.LimitReader(f, size+1))
		if err == nil && n != size {
			err = errChanging
		}
		data = w.b
		return err
	})
	if err != nil {
		return nil, err
	}
	var before func() ([]byte, error)
	if regular(base) {
		before = func() ([]byte, error) { return s.objects.readAs(plumbing.BlobObject, base.id) }
	}
	return e.conv.toBlob(data, before)
}

// withFile opens a regular file, without following a link or waiting for a FIFO that took its place, and lets
// read have it. Whatever changes before read returns is errChanging.
func withFile(root *os.Root, name string, read func(f *os.File, size int64) error) error {
	was, err := root.Lstat(name)
	if err != nil {
		return changing(err)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return changing(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || !os.SameFile(was, fi) {
		return errChanging
	}
	if err := read(f, fi.Size()); err != nil {
		return err
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if a, b := statOf(fi), statOf(now); a.size != b.size || a.mtime != b.mtime || a.ctime != b.ctime {
		return errChanging
	}
	return nil
}

// changing turns the errors of what was there a moment ago, and is not there any more or is another thing, into errChanging.
func changing(err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &errno): // os.Root says so of a link that leads out
		return errChanging
	case errno == syscall.ENOENT, errno == syscall.ENOTDIR, errno == syscall.ELOOP:
		return errChanging
	}
	return err
}

// readNames returns the names in a folder.
func readNames(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
