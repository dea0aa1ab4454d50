package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const plainVariable = "WORKTREE_TEST_PLAIN"

func init() {
	restarts[plainVariable] = func() error {
		runtime.LockOSThread()
		for _, c := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return err
			}
		}
		return unix.Exec("/proc/self/exe", os.Args, os.Environ())
	}
}

// TestWithoutTheRightToReadEverything runs tests anew as a user who cannot read what its mode forbids, as root can.
func TestWithoutTheRightToReadEverything(t *testing.T) {
	for _, run := range []string{
		"TestCollectedPatchGivesTheRecordedTree/files_without_a_right_to_read_them", "TestDisposeDeletesWhatAnAgentLockedAndFollowsNothing",
		"TestUnlockedFilesAreLockedAgain", "TestWhatCannotBeReadIsNamed",
	} {
		t.Run(run, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", run)
			if os.Geteuid() == 0 {
				cmd.Env = append(os.Environ(), plainVariable+"=1")
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: "+run)
		})
	}
}

func TestUnlockedFilesAreLockedAgain(t *testing.T) {
	d := driver(t, repo(t))
	l := acquire(t, d, who, "")
	put(t, l.Dir, "a/b/c", "c\n")
	for _, p := range []string{"README.md", "run.sh", "a/b/c", "a/b", "a"} {
		require.NoError(t, os.Chmod(filepath.Join(l.Dir, p), 0))
	}
	t.Cleanup(func() { require.NoError(t, deleteAll(l.Dir)) })
	for range 2 {
		require.Equal(t, "a a/b/c\nm run.sh\n", status(collect(t, d, l))) // what it may not run is no program
		fi, err := os.Lstat(filepath.Join(l.Dir, "a"))
		require.NoError(t, err)
		require.Zero(t, fi.Mode().Perm())
		require.NoError(t, os.Chmod(filepath.Join(l.Dir, "a"), 0o700))
		fi, err = os.Lstat(filepath.Join(l.Dir, "a/b"))
		require.NoError(t, err)
		require.Zero(t, fi.Mode().Perm())
		require.NoError(t, os.Chmod(filepath.Join(l.Dir, "a"), 0))
	}
}

// TestWhatCannotBeReadIsNamed has files of another user in a tree, as a container leaves them.
func TestWhatCannotBeReadIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("without root there are no files of another user; only root's own are tried")
	}
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "README.md", "hidden\n")
	put(t, l.Dir, "theirs/x", "x\n")
	put(t, l.Dir, "no-eol", "seen")
	for _, p := range []string{"theirs/x", "theirs", "README.md", "src"} {
		require.NoError(t, os.Chmod(filepath.Join(l.Dir, p), 0))
		if os.Geteuid() == 0 {
			require.NoError(t, os.Lchown(filepath.Join(l.Dir, p), 12345, 12345))
			t.Cleanup(func() {
				require.NoError(t, os.Lchown(filepath.Join(l.Dir, p), 0, 0))
				require.NoError(t, os.Chmod(filepath.Join(l.Dir, p), 0o700))
			})
		}
	}
	p := collect(t, d, l)
	if _, err := os.ReadFile(filepath.Join(l.Dir, "README.md")); os.Geteuid() == 0 && err != nil {
		require.Equal(t, "m no-eol\n", status(p))
		require.Equal(t, []string{
			`"README.md" cannot be read: 1 paths of the base are taken as unchanged`,
			`"src" cannot be read: 2 paths of the base are taken as unchanged`,
			`"theirs" cannot be read: it is not in the patch`,
		}, p.Warnings)
	}
	byIndex, byFiles := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
	require.Equal(t, p.Tree, byFiles)
}
