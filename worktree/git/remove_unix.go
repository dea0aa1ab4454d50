//go:build linux || darwin

package git

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// remover deletes a path and follows nothing. Folders that lie too deep are moved up beside it.
type remover struct {
	top int // the folder that holds the path
	// name is that of the path, aside are the folders that were moved beside it, moved how many there were.
	name  string
	aside []string
	moved int
}

// removeAll deletes a path, with what is below it.
func removeAll(path string) error {
	top, err := openTop(filepath.Dir(path))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = closeFD(top) }()
	r := &remover{top: top, name: filepath.Base(path)}
	err = r.remove(top, r.name, 0)
	for len(r.aside) > 0 {
		next := r.aside[len(r.aside)-1]
		r.aside = r.aside[:len(r.aside)-1]
		err = errors.Join(err, r.remove(top, next, 0))
	}
	return err
}

// remove deletes one name of an open folder.
func (r *remover) remove(parent int, name string, depth int) error {
	err := unlinkAt(parent, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return failedAt("unlink", name, err)
	}
	if depth == deepestOpen {
		r.moved++
		aside := r.name + ".deep." + strconv.Itoa(r.moved)
		if err := unix.Renameat(parent, name, r.top, aside); err != nil {
			return failedAt("rename", name, err)
		}
		r.aside = append(r.aside, aside)
		return nil
	}
	fd, openErr := openFolderAt(parent, name)
	if openErr != nil {
		if errors.Is(openErr, unix.ENOTDIR) || errors.Is(openErr, unix.ELOOP) {
			return failedAt("unlink", name, err)
		}
		return openErr
	}
	err = r.empty(os.NewFile(uintptr(fd), name), depth)
	if gone := unlinkAt(parent, name, unix.AT_REMOVEDIR); gone == nil || errors.Is(gone, unix.ENOENT) {
		return nil
	} else if err == nil {
		err = failedAt("rmdir", name, gone)
	}
	return err
}

// empty deletes what is in a folder and closes it. It returns the first error.
func (r *remover) empty(folder *os.File, depth int) (first error) {
	defer folder.Close()
	for {
		// Names that are read while others are deleted may be passed over, so that it begins anew.
		if _, err := folder.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := folder.Readdirnames(1024)
		if len(names) == 0 {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		for _, n := range names {
			if err := r.remove(int(folder.Fd()), n, depth+1); first == nil {
				first = err
			}
		}
		if first != nil {
			return first
		}
	}
}

func unlinkAt(dir int, name string, flags int) error {
	_, err := again(func() (struct{}, error) { return struct{}{}, unix.Unlinkat(dir, name, flags) })
	return err
}
