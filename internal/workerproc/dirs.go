package workerproc

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
)

// BlobsDir is the folder of the blob store that a configuration means; f may be nil. The worker writes there and
// `starter patch` reads there, so both ask this function.
func BlobsDir(f *config.File) (string, error) {
	if f != nil && f.Worker.Blobs != "" {
		return f.Worker.Blobs, nil
	}
	return dataDir("worker.blobs", "blobs")
}

// TreesDir is the folder of worktrees that a configuration means; f may be nil. The worker makes trees there and
// `starter worktrees` reads there, so both ask this function.
func TreesDir(f *config.File) (string, error) {
	if f != nil && f.Worker.Worktrees.Root != "" {
		return f.Worker.Worktrees.Root, nil
	}
	return dataDir("worker.worktrees.root", "trees")
}

// dataDir is a folder of this user's data. It is not the cache: agents cannot go on without what is in it.
func dataDir(key, name string) (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "assent", name), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &fault.ConfigError{Key: key, Msg: "is not set, and there is no home directory to choose a default", Cause: err}
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "assent", name), nil
	case "windows":
		return filepath.Join(home, "AppData", "Local", "assent", name), nil
	}
	return filepath.Join(home, ".local", "share", "assent", name), nil
}
