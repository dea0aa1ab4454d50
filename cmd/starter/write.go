package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeWhole writes a file so that nobody ever sees a part of it. A file that is there is not touched unless over is
// true; a folder or a device never is.
func writeWhole(path string, data []byte, over bool) error {
	if fi, err := os.Stat(path); err == nil {
		switch {
		case fi.IsDir():
			return fmt.Errorf("%q is a directory", path)
		case !fi.Mode().IsRegular():
			return fmt.Errorf("%q is not a regular file", path)
		case !over:
			return fmt.Errorf("%q: %w", path, fs.ErrExist)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if over {
		return os.Rename(tmp.Name(), path)
	}
	// A link fails if somebody has made the file meanwhile; where there are no hard links the rename has to do.
	if err := os.Link(tmp.Name(), path); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
