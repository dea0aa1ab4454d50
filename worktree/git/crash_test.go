package git

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// crash is what a process that dies is told: what to do, and the step after which it kills itself.
type crash struct {
	Op, Step   string
	Host, Root string
	Resolved   worktree.Resolved
	Lease      worktree.Lease
	// Git and Filters are those of Config. When is a file: when it is there, that is the step.
	Git, When string
	Filters   []string
	// Large is the size above which files lie beside the patch.
	Large int64
	// As is whose tree is acquired, who if nil.
	As *worktree.Identity
}

const crashVariable = "WORKTREE_TEST_CRASH"

// noStep is the exit code of a process that did not die: its step was never reached.
const noStep = 4

// restarts are ways to start the tests anew with other rights, by the variable that asks for it. They do not return
// unless they fail.
var restarts = map[string]func() error{}

// TestMain runs the tests, or, in a process that a crash test started, one call that is to die.
func TestMain(m *testing.M) {
	for variable, restart := range restarts {
		if os.Getenv(variable) != "" {
			os.Unsetenv(variable)
			fmt.Fprintln(os.Stderr, restart())
			os.Exit(5)
		}
	}
	if text := os.Getenv(crashVariable); text != "" {
		if err := die(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(noStep)
	}
	code := m.Run()
	os.RemoveAll(template.dir)
	os.Exit(code)
}

func die(text string) error {
	var c crash
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	step := func(name string) {
		if name == c.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	d, err := newDriver(Config{Repos: map[string]string{"r": c.Host}, Root: c.Root, KeepOnError: true, MaxBytes: 1 << 40,
		Git: c.Git, Filters: c.Filters}, step)
	if err != nil {
		return err
	}
	d.behind, d.largeFile = step, cmp.Or(c.Large, LargeFile)
	if c.When != "" {
		go func() {
			for {
				if _, err := os.Lstat(c.When); err == nil {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
				time.Sleep(time.Millisecond)
			}
		}()
	}
	switch c.Op {
	case "acquire":
		as := who
		if c.As != nil {
			as = *c.As
		}
		_, err = d.Acquire(ctx, as, c.Resolved)
	case "collect":
		var p worktree.Patch
		p, err = d.Collect(ctx, c.Lease)
		for _, l := range p.Large {
			err = errors.Join(err, l.Copy(ctx, io.Discard))
		}
	case "retain":
		_, err = d.Retain(ctx, c.Lease, "failed")
	case "dispose":
		err = d.Dispose(ctx, c.Lease, true)
	case "sweep":
		_, err = d.Sweep(ctx)
	}
	return errors.Join(err, d.Close())
}

// run starts a process that does c and requires that it was killed.
func (c crash) run(t *testing.T, d *Driver) {
	t.Helper()
	c.Host, c.Root = d.repos["r"], d.root
	text, err := json.Marshal(c)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(gitEnv(), crashVariable+"="+string(text), "TMPDIR="+os.TempDir())
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%s %s: %v: %s", c.Op, c.Step, err, out)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s %s: %s", c.Op, c.Step, out)
}

func TestAcquireKilledAtAnyStep(t *testing.T) {
	for i, steps := range append(ownSteps[:len(ownSteps):len(ownSteps)], "flushed-aside", "flushed",
		"file-written tree-renamed-out", "files-written admin-renamed-out file-written admin-renamed-out", "index-written admin-aside",
		"settings-aside thawed-file host-aside") {
		for j, recover := range []string{"acquire", "sweep"} {
			if halved(i, j) {
				continue
			}
			t.Run(strings.ReplaceAll(steps, " ", "+")+"/"+recover, func(t *testing.T) {
				t.Parallel()
				host := repo(t)
				before := fingerprint(t, host)
				d := driver(t, host)
				at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
				require.NoError(t, err)
				for step := range strings.FieldsSeq(steps) {
					crash{Op: "acquire", Step: step, Resolved: at}.run(t, d)
				}
				ready := slices.Contains([]string{"record-ready", "flushed-aside", "flushed"}, steps)
				if recover == "sweep" {
					_, err := d.Sweep(ctx)
					require.NoError(t, err)
					if !ready {
						require.NoError(t, d.Close())
						same(t, before, fingerprint(t, host))
						requireOnlyState(t, d)
					}
				}
				l, err := d.Acquire(ctx, who, at)
				require.NoError(t, err)
				require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
				require.Equal(t, at.Tree, git(t, l.Dir, "write-tree"))
				require.Empty(t, collect(t, d, l).Files)
				if ready {
					require.Equal(t, mustLoad(t, d, l.ID).Nonce, l.Nonce)
				}
				require.NoError(t, d.Dispose(ctx, l, false))
				same(t, before, fingerprint(t, host))
				_, err = d.Sweep(ctx) // the trash of those that died
				require.NoError(t, err)
				require.NoError(t, d.Close())
				requireOnlyState(t, d)
			})
		}
	}
}

// halved leaves out every second case of a table of steps, and with ASSENT_LONG none.
func halved(i, j int) bool { return i%2 != j%2 && os.Getenv("ASSENT_LONG") != "1" }

// requireOnlyState requires that no tree and no trash is left, and nothing of a tree but its lock and its tombstone.
func requireOnlyState(t *testing.T, d *Driver) {
	t.Helper()
	for _, dir := range []string{"trees", "trash"} {
		left, err := os.ReadDir(filepath.Join(d.root, dir))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	left, err := filepath.Glob(filepath.Join(d.root, "state", "*", "*"))
	require.NoError(t, err)
	for _, path := range left {
		require.Contains(t, []string{"lock", "git.lock", "record"}, filepath.Base(path), path)
	}
	for _, aside := range []string{"host-id.*", "*.tmp"} {
		left, err = filepath.Glob(filepath.Join(d.root, aside))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestDisposeKilledAtAnyStep(t *testing.T) {
	for i, steps := range append(disposeSteps[:len(disposeSteps):len(disposeSteps)], "tree-renamed-out admin-renamed-out admin-removed") {
		for j, recover := range []string{"dispose", "sweep", "acquire"} {
			if halved(i, j) {
				continue
			}
			t.Run(strings.ReplaceAll(steps, " ", "+")+"/"+recover, func(t *testing.T) {
				t.Parallel()
				host := repo(t)
				before := fingerprint(t, host)
				d := driver(t, host)
				l := acquire(t, d, who, "")
				put(t, l.Dir, "work.txt", "w\n")
				for step := range strings.FieldsSeq(steps) {
					crash{Op: "dispose", Step: step, Lease: l}.run(t, d)
				}
				if steps == "record-disposing-aside" { // nothing was done yet
					require.NoError(t, d.Check(ctx, l))
					require.NoError(t, d.Dispose(ctx, l, true))
				}
				if recover == "acquire" {
					_, err := d.Acquire(ctx, who, l.Resolved)
					requireGone(t, err, "disposed")
				}
				if recover != "sweep" {
					require.NoError(t, d.Dispose(ctx, l, false))
				}
				_, err := d.Sweep(ctx)
				require.NoError(t, err)
				same(t, before, fingerprint(t, host))
				require.NoError(t, d.Close())
				requireOnlyState(t, d)
				requireGone(t, d.Check(ctx, l), "disposed")
			})
		}
	}
}

func TestCollectRetainAndSweepKilled(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "work.txt", "w\n")
	put(t, l.Dir, "large", strings.Repeat("x", 1001))
	put(t, l.Dir, "closed", "c\n")
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "closed"), 0))
	for _, step := range collectSteps {
		if step != "large-opened" { // the collect is done then
			crash{Op: "collect", Step: step, Lease: l, Large: 1000}.run(t, d)
		}
	}
	var not *worktree.NotCollectedError
	require.ErrorAs(t, d.Dispose(ctx, l, false), &not)
	crash{Op: "collect", Step: "large-opened", Lease: l, Large: 1000}.run(t, d)
	crash{Op: "retain", Step: "pinned", Lease: l}.run(t, d)
	kept, err := d.Retain(ctx, l, "again")
	require.NoError(t, err)
	require.True(t, kept)
	require.Equal(t, "a closed\na large\na work.txt\n", status(collect(t, d, l)))
	crash{Op: "dispose", Step: "record-disposing", Lease: l}.run(t, d)
	crash{Op: "sweep", Step: "admin-removed"}.run(t, d)
	done, err := d.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{l.ID}, done)
	requireOnlyState(t, d)
}

// TestSweepPassesOverTheLiving holds a lock as a worker in the middle of an acquire does.
func TestSweepPassesOverTheLiving(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	swept := 0
	d.step = func(string) {
		swept++
		other, err := New(Config{Repos: d.repos, Root: d.root})
		require.NoError(t, err)
		done, err := other.Sweep(ctx)
		require.NoError(t, err)
		require.Empty(t, done)
	}
	l, err := d.Acquire(ctx, who, at)
	require.NoError(t, err)
	require.Greater(t, swept, 10)
	require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
}
