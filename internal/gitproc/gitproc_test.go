//go:build linux

package gitproc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
)

const workerVariable = "GITPROC_TEST_WORKER"

// TestMain runs the tests, or, in a process that a test started, one call that outlives it.
func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		var w struct{ Git, Home, Lock, Dir string }
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			panic(err)
		}
		p, err := Open(context.Background(), w.Git, w.Home)
		if err == nil {
			_, err = p.Run(context.Background(), Call{Args: []string{"beat", w.Dir}, Lock: w.Lock})
		}
		fmt.Println(err)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// fake writes a program that says it is a git and does what script says with its arguments, the options removed.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	text := "#!/bin/sh\nPATH=/usr/bin:/bin\ncase $1 in version) echo git version 2.40.1; exit;; --exec-path) echo /usr/lib/git-core; exit;; esac\n" +
		"while [ \"${1#-}\" != \"$1\" ]; do [ \"$1\" = -c ] && shift; shift; done\n" + script
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

func open(t *testing.T, path string) *Program {
	t.Helper()
	p, err := Open(context.Background(), path, filepath.Join(t.TempDir(), "home"))
	require.NoError(t, err)
	return p
}

func TestOpenRefusesWhatIsNoGit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o700))
	for path, says := range map[string]string{
		"git":                                 "absolute path",
		filepath.Join(dir, "none"):            "does not say its version",
		dir:                                   "does not say its version",
		fifo:                                  "does not say its version",
		write("mode", "#!/bin/sh\n", 0o600):   "does not say its version",
		write("silent", "#!/bin/sh\n", 0o700): "is no git",
		write("old", "#!/bin/sh\necho git version 2.9.5\n", 0o700):                       "the oldest that is served is " + MinVersion,
		write("odd", "#!/bin/sh\necho git version next\n", 0o700):                        "is no git",
		write("loud", "#!/bin/sh\n/usr/bin/yes git version 2.40.1\n", 0o700):             "more than 4096 bytes",
		write("fails", "#!/bin/sh\necho git version 2.40.1\nexit 1\n", 0o700):            "exit code 1",
		write("half", "#!/bin/sh\n[ $1 = version ] && echo git version 2.40.1\n", 0o700): "does not say where its parts are",
	} {
		_, err := Open(context.Background(), path, filepath.Join(dir, "home"))
		var config *fault.ConfigError
		require.ErrorAs(t, err, &config, path)
		require.Equal(t, Key, config.Key)
		require.Contains(t, err.Error(), says, path)
	}
	write("home/config", "", 0o600)
	_, err := Open(context.Background(), fake(t, ""), filepath.Join(dir, "home"))
	require.ErrorContains(t, err, "must be empty")

	// One that hangs is a mistake too, in bounded time; the test does not wait for all of it.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Open(ctx, write("hangs", "#!/bin/sh\n/bin/sleep 1000\n", 0o700), filepath.Join(t.TempDir(), "home"))
	require.True(t, fault.IsConfig(err), "%v", err)
}

func TestTheEnvironmentIsClosed(t *testing.T) {
	for name, value := range map[string]string{"GIT_DIR": "/evil", "GIT_CONFIG_PARAMETERS": "'core.pager=evil'", "SECRET": "s", "LD_PRELOAD": ""} {
		t.Setenv(name, value)
	}
	p := open(t, fake(t, "env; pwd; ls -a \"$HOME\"; ls -l /proc/self/fd | wc -l"))
	out, err := p.Run(context.Background(), Call{Args: []string{"x"}, Env: []string{"GIT_INDEX_FILE=/i"}})
	require.NoError(t, err)
	text := string(out)
	require.NotContains(t, text, "evil")
	require.NotContains(t, text, "SECRET")
	for _, want := range []string{"GIT_INDEX_FILE=/i", "HOME=" + p.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=\n"} {
		require.Contains(t, text, want)
	}
}

func TestARunIsBounded(t *testing.T) {
	p := open(t, fake(t, `case $1 in
loud) yes;;
fails) echo out; yes complaint | head -c 100000 >&2; exit 7;;
reads) cat;;
hangs) sleep 1000 & echo $! >"$2"; sleep 1000;;
leaves) (trap '' HUP; sleep 1000) & echo $! >"$2";;
escapes) setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; sleep 1000' "$2" & while [ ! -f "$2" ]; do sleep 0.01; done;;
esac`))
	var limit *LimitError
	_, err := p.Run(context.Background(), Call{Args: []string{"loud"}, Limit: 1000})
	require.ErrorAs(t, err, &limit)
	var exit *ExitError
	_, err = p.Run(context.Background(), Call{Args: []string{"fails"}})
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.Code)
	require.Len(t, exit.Stderr, maxComplaint)
	big := strings.Repeat("x", 1<<20)
	out, err := p.Run(context.Background(), Call{Args: []string{"reads"}, Stdin: strings.NewReader(big)})
	require.NoError(t, err)
	require.Len(t, out, 1<<20)
	_, err = p.Run(context.Background(), Call{Args: []string{"nothing"}, Stdin: strings.NewReader(big)})
	require.NoError(t, err, "a process need not read its input")

	dir := t.TempDir()
	for _, name := range []string{"leaves", "escapes"} {
		file := filepath.Join(dir, name)
		_, err = p.Run(context.Background(), Call{Args: []string{name, file}, Lock: file + ".lock"})
		require.NoError(t, err)
		requireDead(t, file)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	file := filepath.Join(dir, "hangs")
	go func() {
		for !exists(file) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err = p.Run(ctx, Call{Args: []string{"hangs", file}, Lock: file + ".lock"})
	require.ErrorIs(t, err, context.Canceled)
	requireDead(t, file)
	_, err = p.Run(ctx, Call{Args: []string{"reads"}})
	require.ErrorIs(t, err, context.Canceled)
}

// TestAnOutputIsPassedOn has outputs without a limit, and takers that are slow or full.
func TestAnOutputIsPassedOn(t *testing.T) {
	p := open(t, fake(t, `case $1 in
much) yes | head -c 3000000;;
fails) yes | head -c 3000000; exit 3;;
endless) yes;;
esac`))
	var all bytes.Buffer
	out, err := p.Run(context.Background(), Call{Args: []string{"much"}, To: &all, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, out)
	require.Equal(t, 3_000_000, all.Len())
	var exit *ExitError
	_, err = p.Run(context.Background(), Call{Args: []string{"fails"}, To: new(bytes.Buffer)})
	require.ErrorAs(t, err, &exit)
	full := errors.New("full")
	_, err = p.Run(context.Background(), Call{Args: []string{"endless"}, To: takes(func([]byte) (int, error) { return 0, full })})
	require.ErrorIs(t, err, full)
	_, err = p.Run(context.Background(), Call{Args: []string{"endless"}, To: takes(func([]byte) (int, error) { panic("a store") })})
	require.ErrorContains(t, err, "panic: a store")
	ctx, cancel := context.WithCancel(context.Background())
	_, err = p.Run(ctx, Call{Args: []string{"endless"}, To: takes(func(b []byte) (int, error) { cancel(); return len(b), nil })})
	require.ErrorIs(t, err, context.Canceled)

	// The process has ended, and its time is over, while what it wrote last is still being taken.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = w.WriteString("the rest")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, r.SetReadDeadline(time.Now().Add(-time.Second)))
	rest, err := io.ReadAll(late{r})
	require.NoError(t, err)
	require.Equal(t, "the rest", string(rest))
}

type takes func([]byte) (int, error)

func (f takes) Write(b []byte) (int, error) { return f(b) }

func exists(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.HasSuffix(string(b), "\n")
}

// requireDead requires that the process whose id a file holds is no more, is on its way out, or waits to be reaped by its
// parent.
func requireDead(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return
	}
	require.NoError(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	// A killed process gives up its files, and the lock with them, a moment before it is a zombie.
	const exiting = 0x4 // PF_EXITING
	flags, err := strconv.Atoi(fields[6])
	require.NoError(t, err)
	require.True(t, fields[0] == "Z" || flags&exiting != 0, "process %d lives: %s", pid, stat)
}

// TestEndFindsWhatAKilledWorkerLeft kills a worker while its git, a child of it and one that left the group write.
func TestEndFindsWhatAKilledWorkerLeft(t *testing.T) {
	dir := t.TempDir()
	git := fake(t, `cd "$2"
beat() { echo $$ >$1.pid.new; mv $1.pid.new $1.pid; while :; do echo b >>$1.beat; sleep 0.02; done; }
sh -c "$(cat beat.sh) child" &
setsid sh -c "$(cat beat.sh) stray" &
beat head`)
	beat := `beat() { echo $$ >$1.pid.new; mv $1.pid.new $1.pid; while :; do echo b >>$1.beat; sleep 0.02; done; }; beat`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "beat.sh"), []byte(beat), 0o600))
	lock := filepath.Join(dir, "lock")
	text, err := json.Marshal(map[string]string{"Git": git, "Home": filepath.Join(t.TempDir(), "home"), "Lock": lock, "Dir": dir})
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	worker := exec.Command(exe)
	worker.Env = append(os.Environ(), workerVariable+"="+string(text))
	require.NoError(t, worker.Start())
	names := []string{"head", "child", "stray"}
	for _, n := range names {
		for !exists(filepath.Join(dir, n+".pid")) {
			time.Sleep(time.Millisecond)
		}
	}
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	// They go on: that is what makes a retry dangerous.
	for _, n := range names {
		for start := beats(t, dir, n); beats(t, dir, n) < start+2; {
			time.Sleep(time.Millisecond)
		}
	}
	require.NoError(t, End(lock))
	for _, n := range names {
		requireDead(t, filepath.Join(dir, n+".pid"))
	}
	require.NoError(t, End(filepath.Join(dir, "never used")))
}

func beats(t *testing.T, dir, name string) int {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name+".beat"))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
	}
	return n
}
