package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/protocol"
)

// beside says what lies beside a patch, and writes it below the folder to unless that is empty.
func (a *app) beside(ctx context.Context, store string, v *view, large *protocol.Large, to string) error {
	if large == nil {
		if to != "" {
			a.note("nothing lies beside the patch")
		}
		return nil
	}
	what := fmt.Sprintf("%s of %s", count(large.Files, "file"), bytesText(large.Bytes))
	if to == "" {
		a.note("%s had no room in the patch: write with --large DIR what goes into its place after git apply", what)
		return nil
	}
	get := func(ref blob.Ref) ([]byte, error) { return readBlob(ctx, store, v, ref) }
	if err := writeLarge(get, large.Ref, to); err != nil {
		return fmt.Errorf("write large files: %w", err)
	}
	a.note("%s: %s; after git apply, copy it over with: cp -a %s .", to, what, shellQuote(filepath.Join(to, ".")))
	return nil
}

// writeLarge writes the files of a list below a folder. It overwrites nothing and leaves the folder by no name.
func writeLarge(get func(blob.Ref) ([]byte, error), list blob.Ref, to string) error {
	text, err := get(list)
	if err != nil {
		return err
	}
	var files []protocol.LargeFile
	if err := json.Unmarshal(text, &files); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := writeParts(root, get, f); err != nil {
			return err
		}
	}
	return nil
}

// createLarge makes a file that lies beside a patch, with its folders, and none in the place of another. The mode is git's.
func createLarge(root *os.Root, name, mode string) (*os.File, error) {
	perm := fs.FileMode(0o644)
	if mode == "100755" {
		perm = 0o755
	}
	if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
		return nil, err
	}
	return root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

func writeParts(root *os.Root, get func(blob.Ref) ([]byte, error), f protocol.LargeFile) error {
	name := f.Path
	if f.Name != nil {
		name = string(f.Name)
	}
	out, err := createLarge(root, name, f.Mode)
	if err != nil {
		return err
	}
	var size int64
	for _, ref := range f.Parts {
		part, err := get(ref)
		if err == nil {
			_, err = out.Write(part)
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
		size += int64(len(part))
	}
	if err := out.Close(); err != nil {
		return err
	}
	if size != f.Size {
		return fmt.Errorf("%q has %d bytes, the list says %d", f.Path, size, f.Size)
	}
	return nil
}
