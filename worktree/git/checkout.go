package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// checkout writes the files of a plan below root and fills in what lstat says about them. Nothing is followed
// and nothing is overwritten: every folder and file is made anew, by one name below an open folder.
type checkout struct {
	ctx     context.Context
	objects *objectStore
	// host is the host's own working directory, nil for a bare one. A file there that has the wanted content is
	// copied, which spares the object store; it is hashed first, so that it does not matter what is there.
	host *folderStack
	into *folderStack
	// mtime is set on every file. It lies before the index is written, so that git trusts the index at once.
	mtime time.Time
	// step is called after each file.
	step func(name string)
}

// maxHostCopy is the size in bytes up to which a file of the host is tried.
const maxHostCopy = 8 << 20

func (c *checkout) run(entries []entry) error {
	defer c.into.close()
	defer c.host.close()
	for i := range entries {
		if i%256 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		if err := c.write(&entries[i]); err != nil {
			return fmt.Errorf("check out %q: %w", entries[i].path, err)
		}
		c.step("file-written")
	}
	return nil
}

func (c *checkout) write(e *entry) error {
	dir, name := "", e.path
	if i := strings.LastIndexByte(e.path, '/'); i >= 0 {
		dir, name = e.path[:i], e.path[i+1:]
	}
	root, err := c.into.enter(dir)
	if err != nil {
		return err
	}
	switch e.mode {
	case modeGitlink:
		err = root.Mkdir(name, 0o777)
	case modeLink:
		var to []byte
		if to, err = c.objects.readAs(plumbing.BlobObject, e.id); err == nil {
			err = root.Symlink(string(to), name)
		}
	default:
		err = c.file(root, dir, name, e)
	}
	if err != nil {
		return err
	}
	fi, err := root.Lstat(name)
	if err != nil {
		return err
	}
	e.stat = statOf(fi)
	return nil
}

func (c *checkout) file(root *os.Root, dir, name string, e *entry) error {
	perm := os.FileMode(0o666)
	if e.mode == modeExec {
		perm = 0o777
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err := errors.Join(c.content(f, dir, name, e), f.Close()); err != nil {
		return err
	}
	return root.Chtimes(name, c.mtime, c.mtime)
}

func (c *checkout) content(w io.Writer, dir, name string, e *entry) error {
	if e.conv != convNone {
		blob, err := c.objects.readAs(plumbing.BlobObject, e.id)
		if err == nil {
			_, err = w.Write(e.conv.toDisk(blob))
		}
		return err
	}
	if data := c.fromHost(dir, name, e); data != nil {
		_, err := w.Write(data)
		return err
	}
	return c.objects.stream(w, e.id)
}

// fromHost returns the host's file if it is what the entry wants, else nil.
func (c *checkout) fromHost(dir, name string, e *entry) []byte {
	root, err := c.host.enter(dir)
	if err != nil || root == nil {
		return nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxHostCopy {
		return nil
	}
	data := bytes.NewBuffer(make([]byte, 0, fi.Size()+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, maxHostCopy)); err != nil || blobID(data.Bytes()) != e.id {
		return nil
	}
	return data.Bytes()
}

// folderStack holds open the folders on the way to the one in use, so that each step is one name.
type folderStack struct {
	make  bool
	names []string
	roots []*os.Root // one more than names
}

// newStack takes over root.
func newStack(root *os.Root, make bool) *folderStack {
	return &folderStack{make: make, roots: []*os.Root{root}}
}

// enter returns the folder of a slash-separated path below the first one, made on the way if the stack makes.
func (s *folderStack) enter(path string) (*os.Root, error) {
	if s == nil {
		return nil, nil
	}
	depth := 0
	rest := path
	for depth < len(s.names) && rest != "" {
		name, after, _ := strings.Cut(rest, "/")
		if name != s.names[depth] {
			break
		}
		rest = after
		depth++
	}
	for len(s.names) > depth {
		s.pop()
	}
	for rest != "" {
		name, after, _ := strings.Cut(rest, "/")
		top := s.roots[len(s.roots)-1]
		if s.make {
			if err := top.Mkdir(name, 0o777); err != nil {
				return nil, err
			}
		}
		next, err := top.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		s.names = append(s.names, name)
		s.roots = append(s.roots, next)
		rest = after
	}
	return s.roots[len(s.roots)-1], nil
}

func (s *folderStack) pop() {
	s.roots[len(s.roots)-1].Close()
	s.roots = s.roots[:len(s.roots)-1]
	s.names = s.names[:len(s.names)-1]
}

func (s *folderStack) close() {
	if s == nil {
		return
	}
	for len(s.names) > 0 {
		s.pop()
	}
	s.roots[0].Close()
}
