package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assent-dev/assent/fault"
)

// ErrNoRoot says that a folder has no trees of this driver and never had any.
var ErrNoRoot = errors.New("no worktrees here")

// Open returns a driver of a root that New has made, without repositories: it lists, collects and removes the trees that
// are there and makes none. Nothing is made or changed on disk. Errors: *fault.ConfigError, around ErrNoRoot for a folder
// that is no root, and *fault.NotBuiltError on a system without file locks. Operators' commands call it.
func Open(root string) (*Driver, error) {
	const key = "worktrees.root"
	if !supported {
		return nil, &fault.NotBuiltError{Feature: "worktree isolation on this system"}
	}
	path, err := filepath.Abs(root)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fault.ConfigError{Key: key, Msg: "cannot be opened", Cause: ErrNoRoot}
	case err != nil:
		return nil, &fault.ConfigError{Key: key, Msg: "cannot be opened", Cause: err}
	}
	d := &Driver{
		root: path, pinCap: DefaultPinCap, euid: os.Geteuid(), largeFile: LargeFile, largePatch: LargePatch,
		step: func(string) {}, behind: func(string) {}, operator: true,
	}
	// A folder of anything else is not told that it has the wrong mode.
	if _, err := os.Lstat(filepath.Join(path, "host-id")); errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.ConfigError{Key: key, Msg: "cannot be opened", Cause: ErrNoRoot}
	}
	if err := d.ownRoot(path); err != nil {
		return nil, err
	}
	for _, name := range []string{"state", "trees", "trash"} {
		if _, err := os.Lstat(filepath.Join(path, name)); errors.Is(err, fs.ErrNotExist) {
			return nil, &fault.ConfigError{Key: key, Msg: "cannot be opened", Cause: ErrNoRoot}
		} else if err != nil {
			return nil, &fault.ConfigError{Key: key, Msg: "cannot be opened", Cause: err}
		}
	}
	d.hostID, err = hostID(path, d.step)
	return d, err
}

// UseGit gives an opened driver the git program at an absolute path, and the filters that it may run: without it trees that
// a git has made cannot be read. It makes an empty folder below the root.
func (d *Driver) UseGit(path string, filters []string) error {
	return d.openGit(Config{Git: path, Filters: filters})
}

// Root is the real path of this driver's root.
func (d *Driver) Root() string { return d.root }

// ownRoot refuses a root that other users can reach, and one of another user, whose locks and records are not ours.
func (d *Driver) ownRoot(path string) error {
	const key = "worktrees.root"
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return &fault.ConfigError{Key: key, Msg: "cannot be read", Cause: err}
	case !fi.IsDir():
		return fault.Configf(key, "%q must be a directory of mode 0700, it is %v", path, fi.Mode())
	case int(statOf(fi).uid) != d.euid:
		return fault.Configf(key, "%q belongs to user %d and this process runs as user %d", path, statOf(fi).uid, d.euid)
	case fi.Mode().Perm()&0o077 != 0:
		return fault.Configf(key, "%q must be a directory of mode 0700, it is %v", path, fi.Mode())
	}
	return nil
}
