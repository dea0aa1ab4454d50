package git

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// checkout writes the files of a plan into an empty folder and fills in what lstat says about them. Nothing is
// followed and nothing is overwritten: every folder and file is made anew, by one name below an open folder.
type checkout struct {
	ctx     context.Context
	objects *objectStore
	// host is the host's own working directory, empty for a bare one. A file there that has the wanted content is
	// copied, which spares the object store; it is hashed first, so that it does not matter what is there.
	host string
	into string
	// mtime is set on every file. It lies before the index is written, so that git trusts the index at once.
	mtime time.Time
	// step is called after each file, by one writer at a time.
	step func(name string)

	next  atomic.Int64 // the first entry that no writer has taken
	stop  atomic.Bool
	steps sync.Mutex
}

const (
	// maxHostCopy is the size in bytes up to which a file of the host is tried.
	maxHostCopy = 8 << 20
	// maxWriters bounds the writers of one checkout, and portion is how many entries one takes at a time.
	maxWriters = 4
	portion    = 64
)

// run makes the folders, then the files, several at a time.
func (c *checkout) run(entries []entry) error {
	if err := c.folders(entries); err != nil {
		return err
	}
	writers := min(maxWriters, runtime.GOMAXPROCS(0), 1+len(entries)/portion)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			if errs[i] = c.writer(entries); errs[i] != nil {
				c.stop.Store(true)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// folders makes every folder that an entry lies in.
func (c *checkout) folders(entries []entry) error {
	into, err := newFDStack(c.into)
	if err != nil {
		return err
	}
	defer into.close()
	made := map[string]bool{"": true}
	var need func(dir string) error
	need = func(dir string) error {
		if made[dir] {
			return nil
		}
		above, name := split(dir)
		if err := need(above); err != nil {
			return err
		}
		fd, err := into.enter(above)
		if err == nil {
			err = makeFolderAt(fd, name)
		}
		made[dir] = true
		return err
	}
	for i := range entries {
		if dir, _ := split(entries[i].path); !made[dir] {
			if err := errors.Join(c.ctx.Err(), need(dir)); err != nil {
				return fmt.Errorf("check out %q: %w", dir, err)
			}
		}
	}
	return nil
}

// split cuts a path into its folder, empty for the top, and its name.
func split(file string) (dir, name string) {
	dir, name = path.Split(file)
	return strings.TrimSuffix(dir, "/"), name
}

// writer writes one portion after the other until none is left.
func (c *checkout) writer(entries []entry) error {
	w := &fileWriter{checkout: c}
	var err error
	if w.to, err = newFDStack(c.into); err != nil {
		return err
	}
	defer w.to.close()
	if c.host != "" {
		if w.from, err = newFDStack(c.host); err == nil {
			defer w.from.close()
		}
	}
	for !c.stop.Load() {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		from := int(c.next.Add(portion)) - portion
		if from >= len(entries) {
			return nil
		}
		for i := from; i < min(from+portion, len(entries)); i++ {
			if err := w.write(&entries[i]); err != nil {
				return fmt.Errorf("check out %q: %w", entries[i].path, err)
			}
			c.steps.Lock()
			c.step("file-written")
			c.steps.Unlock()
		}
	}
	return nil
}

// fileWriter is one of the writers of a checkout.
type fileWriter struct {
	*checkout
	to *fdStack
	// from is nil if there is no host to copy from.
	from *fdStack
	buf  []byte // the last file of the host
}

func (w *fileWriter) write(e *entry) error {
	dir, name := split(e.path)
	fd, err := w.to.enter(dir)
	if err != nil {
		return err
	}
	switch e.mode {
	case modeGitlink:
		err = makeFolderAt(fd, name)
	case modeLink:
		var to []byte
		if to, err = w.objects.readAs(plumbing.BlobObject, e.id); err == nil {
			err = makeLinkAt(fd, name, string(to))
		}
	default:
		return w.file(fd, dir, name, e)
	}
	if err == nil {
		e.stat, err = statAt(fd, name)
	}
	return err
}

func (w *fileWriter) file(dirFD int, dir, name string, e *entry) (err error) {
	perm := uint32(0o666)
	if e.mode == modeExec {
		perm = 0o777
	}
	fd, err := makeFileAt(dirFD, name, perm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeFD(fd)) }()
	if err := w.content(fdWriter(fd), dir, name, e); err != nil {
		return err
	}
	if err := setTimeAt(dirFD, name, w.mtime); err != nil {
		return err
	}
	// Of the descriptor and not of the name: what another process put in its place is not what was written.
	e.stat, _, err = statFD(fd)
	return err
}

func (w *fileWriter) content(to fdWriter, dir, name string, e *entry) error {
	if e.conv.onDisk() {
		blob, err := w.objects.readAs(plumbing.BlobObject, e.id)
		if err == nil {
			_, err = to.Write(e.conv.toDisk(blob))
		}
		return err
	}
	if data, ok := w.fromHost(dir, name, e); ok {
		_, err := to.Write(data)
		return err
	}
	return w.objects.stream(to, e.id)
}

// fromHost returns the host's file, good until the next one, if it is what the entry wants.
func (w *fileWriter) fromHost(dir, name string, e *entry) ([]byte, bool) {
	if w.from == nil {
		return nil, false
	}
	dirFD, err := w.from.enter(dir)
	if err != nil {
		return nil, false
	}
	fd, err := openFileAt(dirFD, name)
	if err != nil {
		return nil, false
	}
	defer func() { _ = closeFD(fd) }()
	s, regular, err := statFD(fd)
	if err != nil || !regular || s.size > maxHostCopy {
		return nil, false
	}
	if int64(cap(w.buf)) < s.size {
		w.buf = make([]byte, s.size, s.size+s.size/4)
	}
	data := w.buf[:s.size]
	if readFD(fd, data) != nil || blobID(data) != e.id {
		return nil, false
	}
	return data, true
}
