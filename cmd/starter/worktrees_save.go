package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assent-dev/assent/worktree"
)

// saveWork writes the patch of a tree below saved/ of the root, and the files that lie beside it into a folder there. It
// returns both, empty for what there is nothing of. When it fails, neither is left.
func saveWork(ctx context.Context, root, id string, p worktree.Patch) (patch, large string, err error) {
	if len(p.Bytes) == 0 && len(p.Large) == 0 {
		return "", "", nil
	}
	dir := filepath.Join(root, "saved")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", fmt.Errorf("save the work of %q: %w", id, err)
	}
	for n := 1; ; n++ {
		name := id
		if n > 1 {
			name = fmt.Sprintf("%s.%d", id, n)
		}
		patch, large, err = saveAs(ctx, filepath.Join(dir, name), p)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("save the work of %q: %w", id, err)
		}
		if !errors.Is(err, fs.ErrExist) {
			return patch, large, err
		}
	}
}

// saveAs writes path.patch and the folder path.large. Its error is fs.ErrExist if one of them is there.
func saveAs(ctx context.Context, path string, p worktree.Patch) (patch, large string, err error) {
	if len(p.Large) > 0 {
		large = path + ".large"
		if err := os.Mkdir(large, 0o700); err != nil {
			return "", "", err
		}
		if err := saveLarge(ctx, large, p.Large); err != nil {
			return "", "", errors.Join(errors.New(err.Error()), os.RemoveAll(large)) // that a name in a new folder is taken asks for no other folder
		}
	}
	if len(p.Bytes) == 0 {
		return "", large, nil
	}
	patch = path + ".patch"
	if err := writeWhole(patch, p.Bytes, false); err != nil {
		if large != "" {
			err = errors.Join(err, os.RemoveAll(large))
		}
		return "", "", err
	}
	return patch, large, nil
}

func saveLarge(ctx context.Context, dir string, files []worktree.LargeFile) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		out, err := createLarge(root, f.Path, f.Mode)
		if err != nil {
			return err
		}
		if err = f.Copy(ctx, out); err == nil {
			err = out.Sync()
		}
		if err = errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
	return nil
}
