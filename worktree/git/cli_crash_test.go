package git

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// needy returns a host that git alone can serve.
func needy(t *testing.T) string {
	host := repo(t)
	put(t, host, ".gitattributes", "*.c ident\n*.slow filter=slow\n")
	put(t, host, "a.c", "/* $Id$ */\n")
	put(t, host, "a.slow", "slow\n")
	commitNeeds(t, host, "needs")
	return host
}

func TestByGitKilledAtAnyStep(t *testing.T) {
	for i, step := range gitSteps {
		for j, recover := range []string{"acquire", "sweep"} {
			if halved(i, j) && step != "record-ready" || os.Getenv("ASSENT_LONG") != "1" && testedByOwn(step) {
				continue
			}
			t.Run(step+"/"+recover, func(t *testing.T) {
				t.Parallel()
				host := needy(t)
				before := fingerprint(t, host)
				d := driver(t, host, withGit(t))
				at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
				require.NoError(t, err)
				crash{Op: "acquire", Step: step, Resolved: at, Git: gitPath(t)}.run(t, d)
				if recover == "sweep" {
					_, err := d.Sweep(ctx)
					require.NoError(t, err)
					if step != "record-ready" {
						same(t, before, fingerprint(t, host))
						requireOnlyStateAfterClose(t, d)
					}
				}
				l, err := d.Acquire(ctx, who, at)
				require.NoError(t, err)
				require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
				require.Empty(t, collect(t, d, l).Files)
				put(t, l.Dir, "a.c", "/* $Id$ */\n\n")
				if step == "record-ready" {
					for _, op := range gitCollectSteps {
						crash{Op: "collect", Step: op, Lease: l, Git: gitPath(t), Large: 5}.run(t, d)
					}
				}
				require.Equal(t, "m a.c\n", status(collect(t, d, l)))
				for _, op := range []string{"record-disposing", "tree-renamed-out", "admin-removed"} {
					if step == "record-ready" {
						crash{Op: "dispose", Step: op, Lease: l}.run(t, d)
					}
				}
				require.NoError(t, d.Dispose(ctx, l, false))
				_, err = d.Sweep(ctx)
				require.NoError(t, err)
				same(t, before, fingerprint(t, host))
				requireOnlyStateAfterClose(t, d)
			})
		}
	}
}

// testedByOwn reports a step that is the same code as for the driver's own trees.
func testedByOwn(step string) bool {
	return step != "record-making" && step != "record-ready" && step != "frozen" && slices.Contains(ownSteps, step) && !slices.Contains(adminSteps[3:], step)
}

func gitPath(t *testing.T) string {
	var c Config
	withGit(t)(&c)
	return c.Git
}

// TestByGitWhatAKilledWorkerLeftIsEnded kills a worker while git waits for a filter, and has the filter go on. The
// next acquire must end both before it touches the tree.
func TestByGitWhatAKilledWorkerLeftIsEnded(t *testing.T) {
	for _, op := range []string{"acquire", "sweep", "collect", "dispose"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			host := needy(t)
			dir := t.TempDir()
			pid, beat := filepath.Join(dir, "pid"), filepath.Join(dir, "beat")
			slow := fmt.Sprintf("echo $$ >%[1]s.new; mv %[1]s.new %[1]s; while :; do echo b >>%[2]s; sleep 0.02; done", pid, beat)
			part := "smudge"
			if op == "collect" || op == "dispose" {
				part = "clean"
			}
			git(t, host, "config", "filter.slow."+part, slow)
			d := driver(t, host, withGit(t, "slow"))
			at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
			require.NoError(t, err)
			c := crash{Op: "acquire", When: pid, Resolved: at, Git: gitPath(t), Filters: []string{"slow"}}
			var l worktree.Lease
			if part == "clean" {
				l, err = d.Acquire(ctx, who, at)
				require.NoError(t, err)
				put(t, l.Dir, "a.slow", "changed\n")
				c.Op, c.Lease = "collect", l
			}
			c.run(t, d)
			for start := size(beat); size(beat) < start+4; { // it goes on without its worker
				time.Sleep(time.Millisecond)
			}
			git(t, host, "config", "--unset", "filter.slow."+part)
			switch op {
			case "acquire":
				_, err = d.Acquire(ctx, who, at)
			case "sweep":
				_, err = d.Sweep(ctx)
			case "collect":
				// The filter is frozen, and waits again: this collect ends it when it is given up.
				text, readErr := os.ReadFile(d.gitDir(l.ID) + "/config")
				require.NoError(t, readErr)
				require.NoError(t, os.WriteFile(d.gitDir(l.ID)+"/config", []byte(strings.ReplaceAll(string(text), "clean =", "unused =")), 0o600))
				_, err = d.Collect(ctx, l)
			case "dispose":
				err = d.Dispose(ctx, l, true)
			}
			require.NoError(t, err)
			requireEnded(t, pid)
			if op == "acquire" {
				l, err = d.Acquire(ctx, who, at)
				require.NoError(t, err)
				require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
				requireFile(t, l.Dir, "a.slow", "slow\n")
			}
			if l.ID != "" {
				require.NoError(t, d.Dispose(ctx, l, true))
			}
			requireOnlyStateAfterClose(t, d)
			require.NoDirExists(t, filepath.Join(host, ".git", "worktrees"))
		})
	}
}

func size(path string) int64 {
	fi, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// requireEnded requires that the process whose number a file holds is no more, is on its way out, or waits to be reaped.
func requireEnded(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		// A killed process gives up its files, and the lock with them, a moment before it is a zombie.
		const exiting = 0x4 // PF_EXITING
		flags, err := strconv.Atoi(fields[6])
		require.NoError(t, err)
		require.True(t, fields[0] == "Z" || flags&exiting != 0, "process %d lives: %s", pid, stat)
	}
}
