package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/interp"
)

var (
	errOutside = errors.New("outside the working directory; redirections do not reach there")
	errSpecial = errors.New("not a regular file")
)

// shellFiles opens what the interpreter itself opens: the targets of redirections and sourced files. Reading is
// confined like writing, because rules about argument arrays do not see redirections.
type shellFiles struct {
	roots []shellRoot
}

type shellRoot struct {
	// paths are the names of one directory: as given, and without symbolic links.
	paths []string
	root  *os.Root
}

func openShellFiles(dirs ...string) (*shellFiles, error) {
	f := &shellFiles{}
	for _, dir := range dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			f.close()
			return nil, fmt.Errorf("open the working directory: %w", err)
		}
		paths := []string{filepath.Clean(dir)}
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != paths[0] {
			paths = append(paths, real)
		}
		f.roots = append(f.roots, shellRoot{paths: paths, root: root})
	}
	return f, nil
}

func (f *shellFiles) close() {
	for _, r := range f.roots {
		_ = r.root.Close()
	}
}

// open is the interpreter's handler. A *fs.PathError makes the redirection fail and lets the shell go on.
func (f *shellFiles) open(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	hc := interp.HandlerCtx(ctx)
	fail := func(err error) (io.ReadWriteCloser, error) {
		var inner *fs.PathError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	switch path {
	case os.DevNull:
		return os.OpenFile(os.DevNull, flag&^os.O_TRUNC, perm)
	case "/dev/stdout":
		return shared{hc.Stdout}, nil
	case "/dev/stderr":
		return shared{hc.Stderr}, nil
	}
	abs := path
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(hc.Dir, abs)
	}
	root, rel := f.find(filepath.Clean(abs))
	if root == nil {
		return fail(errOutside)
	}
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		real, err := resolve(root, rel)
		if err != nil {
			return fail(err)
		}
		if err := checkWritable(real); err != nil {
			return fail(err)
		}
		rel = real
	}
	// Without O_NONBLOCK a named pipe would block here, out of reach of any cancellation.
	file, err := root.OpenFile(rel, flag|syscall.O_NONBLOCK, perm)
	if err != nil {
		return fail(err)
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		if err == nil && info.IsDir() {
			err = syscall.EISDIR
		} else if err == nil {
			err = errSpecial
		}
		return fail(err)
	}
	return file, nil
}

// find returns the root that holds an absolute path, and the path below it.
func (f *shellFiles) find(abs string) (*os.Root, string) {
	for _, r := range f.roots {
		for _, dir := range r.paths {
			if rel, err := filepath.Rel(dir, abs); err == nil && filepath.IsLocal(rel) {
				return r.root, rel
			}
		}
	}
	return nil, ""
}

// shared is an output of the shell under a file name; closing the redirection does not close the output.
type shared struct{ io.Writer }

func (shared) Read([]byte) (int, error) { return 0, io.EOF }
func (shared) Close() error             { return nil }

// pipePrefix begins the names of the named pipes that the interpreter makes for process substitutions.
const pipePrefix = "sh-interp-"

// releasePipes ends process substitutions once ctx is done: one whose pipe nobody ever opened would keep a thread
// blocked for ever, so the pipes are opened here until over is closed and none is left.
func releasePipes(ctx context.Context, dir string, over <-chan struct{}) {
	<-ctx.Done()
	var deadline time.Time
	for {
		var held []*os.File
		pipes := pipesIn(dir)
		for _, path := range pipes {
			if f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
				held = append(held, f)
			}
		}
		select {
		case <-over:
			if deadline.IsZero() {
				deadline = time.Now().Add(2 * time.Second)
			}
			if len(pipes) == 0 || time.Now().After(deadline) {
				closeAll(held)
				return
			}
		default:
		}
		time.Sleep(5 * time.Millisecond)
		closeAll(held)
	}
}

// awaitPipes gives process substitutions that are still read or written a moment to finish.
func awaitPipes(ctx context.Context, dir string) {
	for deadline := time.Now().Add(time.Second); len(pipesIn(dir)) > 0 && ctx.Err() == nil && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func pipesIn(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var pipes []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), pipePrefix) && e.Type()&fs.ModeNamedPipe != 0 {
			pipes = append(pipes, filepath.Join(dir, e.Name()))
		}
	}
	return pipes
}
