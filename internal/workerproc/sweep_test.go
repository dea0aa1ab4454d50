package workerproc_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/worktree/git"
)

// The worker makes trees where `starter worktrees` looks.
func TestTreesDir(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", filepath.Join(t.TempDir(), "data"))
	dir, err := workerproc.TreesDir(nil)
	require.NoError(t, err)
	same, err := workerproc.TreesDir(&config.File{})
	require.NoError(t, err)
	require.Equal(t, dir, same)
	own, err := workerproc.TreesDir(&config.File{Worker: config.Worker{Worktrees: config.Worktrees{Root: "/srv/trees"}}})
	require.NoError(t, err)
	require.Equal(t, "/srv/trees", own)
}

// A worker that starts finishes what a crashed one left, here a tree that was renamed away and not deleted.
func TestAWorkerSweepsItsRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "trees")
	_, err := git.New(git.Config{Root: root})
	require.NoError(t, err)
	left := filepath.Join(root, "trash", "left-0-00")
	require.NoError(t, os.Mkdir(left, 0o700))
	p, err := workerproc.Start(t.Context(), workerproc.Options{
		Config: write(t, strings.Replace(minimal, "dir: .}", "dir: ., worktrees: {repos: {main: nowhere}, root: "+root+"}}", 1)),
		Queue:  "sweeps", Connect: connect.Settings{Address: devservertest.Server(t).Address(), Alone: true}})
	require.NoError(t, err)
	defer p.Stop()
	require.Eventually(t, func() bool {
		_, err := os.Lstat(left)
		return errors.Is(err, fs.ErrNotExist)
	}, 2*time.Minute, 10*time.Millisecond)
}
