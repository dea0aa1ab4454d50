//go:build linux

package toolbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

// alive reports whether a process runs; a zombie does not, and neither does one that was killed and has lost its memory,
// and with it the mark by which a call finds its own, a moment before it is a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const exiting = 0x4 // PF_EXITING
	flags, err := strconv.Atoi(fields[6])
	return fields[0] != "Z" && fields[0] != "X" && (err != nil || flags&exiting == 0)
}

// pids waits until n processes of a command have written their number into the files p1 to pn of dir.
func pids(t *testing.T, dir string, n int) []int {
	t.Helper()
	var found []int
	require.Eventually(t, func() bool {
		found = nil
		for i := range n {
			data, _ := os.ReadFile(filepath.Join(dir, fmt.Sprintf("p%d", i+1)))
			if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && strings.HasSuffix(string(data), "\n") {
				found = append(found, pid)
			}
		}
		return len(found) == n
	}, 3*time.Minute, 5*time.Millisecond)
	return found
}

// none asserts that no process is left. The call is over already, so there is nothing to wait for.
func none(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Errorf("process %d outlived its call", pid)
		}
	}
}

// sleeper is a shell command that writes its process number into file and sleeps for long.
func sleeper(file, setup string) string {
	return fmt.Sprintf(`sh -c '%s echo $$ > %s; while :; do sleep 1000; done'`, setup, file)
}

// stubborn ignores the signals that ask to stop.
const stubborn = `trap "" TERM INT HUP;`

// leavers are commands that return at once and leave two processes behind.
var leavers = map[string]string{
	"background":            sleeper("p1", "") + " & " + sleeper("p2", "") + " &",
	"grandchildren":         `sh -c '` + strings.ReplaceAll(sleeper("p1", "")+" & "+sleeper("p2", stubborn)+" &", `'`, `'\''`) + `'`,
	"nohup":                 "nohup " + sleeper("p1", "") + " > /dev/null 2>&1 & nohup " + sleeper("p2", "") + " &",
	"own process group":     "timeout 900 " + sleeper("p1", "") + " & sh -c 'timeout 900 sh -c \"echo \\$\\$ > p2; sleep 1000\" &'",
	"own session":           "setsid " + sleeper("p1", "") + " & setsid -f " + sleeper("p2", ""),
	"cleared environment":   "env -i /bin/" + sleeper("p1", "") + " & sh -c 'env -i /bin/sh -c \"echo \\$\\$ > p2; sleep 1000\" & exit 0'",
	"stopped":               sleeper("p1", "") + " & " + sleeper("p2", "") + " & while ! test -s p1 || ! test -s p2; do sleep 0.01; done; kill -STOP $(cat p1 p2)",
	"in a subshell":         "( ( " + sleeper("p1", "") + " & ) & ); { " + sleeper("p2", "") + " & }",
	"process substitutions": "cat <(" + sleeper("p1", "") + ") & echo x > >(" + sleeper("p2", "") + ") &",
}

func TestNothingOutlivesACallThatReturns(t *testing.T) {
	for name, command := range leavers {
		for engine, shell := range engines(t) {
			if engine == "sh" && name == "process substitutions" {
				continue // no such thing in POSIX
			}
			t.Run(name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				// The command waits until both have started, so that they are really there when it returns.
				command := command + "\nwhile ! test -s p1 || ! test -s p2; do sleep 0.01; done; echo returned"
				got := ok[toolbox.Output](t, shell, dir, args{"command": command})
				require.Equal(t, "returned\n", got.Stdout)
				require.False(t, got.TimedOut)
				none(t, pids(t, dir, 2))
			})
		}
	}
}

func TestNothingOutlivesACancelledCall(t *testing.T) {
	for name, command := range leavers {
		for engine, shell := range engines(t) {
			if engine == "sh" && name == "process substitutions" {
				continue
			}
			t.Run(name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan tool.Result, 1)
				go func() { done <- invokeContext(t, ctx, shell, dir, args{"command": command + "\nsleep 1000"}) }()
				left := pids(t, dir, 2)
				cancel()
				r := <-done
				require.Equal(t, tool.Aborted, r.Code)
				require.True(t, r.Failure.Started)
				none(t, left)
			})
		}
	}
}

// A process that is just becoming another program has no environment, and so no mark; one that has left its session is found all
// the same.
func TestNothingOutlivesACallWhileItBecomesAnotherProgram(t *testing.T) {
	for range 25 {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "loop"), []byte("echo x > turned\nexec sh loop\n"), 0o600))
		got := ok[toolbox.Output](t, all(t)["shell"], dir, args{"command": "setsid sh -c 'echo $$ > p1; exec sh loop' &\nwhile ! test -s turned; do sleep 0.01; done; echo returned"})
		require.Equal(t, "returned\n", got.Stdout)
		none(t, pids(t, dir, 1))
	}
}

// One that goes on in another process and session again and again is found all the same.
func TestNothingOutlivesACallByForking(t *testing.T) {
	for range 10 {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "hop"), []byte("test -e stop && exit\necho x >> beats\nsetsid sh hop &\n"), 0o600))
		ok[toolbox.Output](t, all(t)["shell"], dir, args{"command": "sh hop > /dev/null 2>&1 &\nwhile ! test -s beats; do sleep 0.01; done; sleep 0.05"})
		beats := func() int64 {
			info, err := os.Stat(filepath.Join(dir, "beats"))
			require.NoError(t, err)
			return info.Size()
		}
		was := beats()
		time.Sleep(100 * time.Millisecond) // many beats
		is := beats()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600))
		require.Equal(t, was, is)
	}
}

func TestForegroundCommandsThatIgnoreSignalsDie(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan tool.Result, 1)
	go func() {
		done <- invokeContext(t, ctx, all(t)["exec"], dir, args{"argv": []string{"sh", "-c", `trap "" TERM INT HUP; echo $$ > p1; while :; do sleep 1000; done`}})
	}()
	left := pids(t, dir, 1)
	cancel()
	require.Equal(t, tool.Aborted, (<-done).Code)
	none(t, left)
}

func TestACommandThatObeysSIGTERMMayCleanUp(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan tool.Result, 1)
	command := `sh -c 'trap "echo clean > cleaned; exit 0" TERM; echo $$ > p1; while :; do sleep 0.01; done'`
	go func() { done <- invokeContext(t, ctx, all(t)["shell"], dir, args{"command": command}) }()
	pids(t, dir, 1)
	cancel()
	<-done
	require.Equal(t, "clean\n", content(t, dir, "cleaned"))
}

// TestMain lets the test program play a worker that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TOOLBOX_TEST_WORKER"); dir != "" {
		defs, err := toolbox.All(toolbox.Config{})
		if err != nil {
			panic(err)
		}
		defs[7].Invoke(context.Background(), &tool.Context{Dir: dir}, json.RawMessage(`{"argv": ["sh", "-c", "echo $$ > p1; while :; do sleep 0.1; done"]}`))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProgramsDieWithTheWorker(t *testing.T) {
	dir := t.TempDir()
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), "TOOLBOX_TEST_WORKER="+dir)
	require.NoError(t, worker.Start())
	left := pids(t, dir, 1)
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait() // it was killed
	require.Eventually(t, func() bool { return !alive(left[0]) }, 3*time.Minute, 5*time.Millisecond)
}

func TestTimeouts(t *testing.T) {
	defs := all(t)
	for _, command := range []string{
		"echo before; sleep 1000", "echo before; while :; do :; done", "echo before; cat <(sleep 1000)", "echo before; x=$(sleep 1000); echo after",
		"echo before; sleep 1000 | cat", "echo before; sleep 1000 & wait", "echo before; echo <(true); wait; sleep 1000",
		"echo before; read x < <(sleep 1000)", "echo before; (trap 'echo never' EXIT; sleep 1000); echo after",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			got := ok[toolbox.Output](t, defs["shell"], t.TempDir(), args{"command": command, "timeoutSeconds": 1})
			require.True(t, got.TimedOut)
			require.Equal(t, 124, got.ExitCode)
			require.True(t, strings.HasPrefix(got.Stdout, "before\n"), got.Stdout)
			require.NotContains(t, got.Stdout, "after")
		})
	}
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		got := ok[toolbox.Output](t, defs["exec"], t.TempDir(), args{"argv": []string{"sleep", "1000"}, "timeoutSeconds": 1})
		require.Equal(t, toolbox.Output{ExitCode: 124, TimedOut: true}, got)
	})
}

func TestLongOutputKeepsHeadAndTail(t *testing.T) {
	for engine, shell := range engines(t) {
		t.Run(engine, func(t *testing.T) {
			got := ok[toolbox.Output](t, shell, t.TempDir(), args{"command": "seq 1 1000000; seq 1 1000000 >&2; yes ä | head -c 999999"})
			require.True(t, strings.HasPrefix(got.Stdout, "1\n2\n"))
			require.True(t, strings.HasSuffix(got.Stderr, "\n1000000\n"))
			require.Contains(t, got.Stdout, fmt.Sprintf("\n[... %d bytes dropped ...]\n", got.StdoutDropped))
			require.Contains(t, got.Stderr, fmt.Sprintf("\n[... %d bytes dropped ...]\n", got.StderrDropped))
			require.LessOrEqual(t, len(got.Stdout), 257<<10)
			var total int64 = 6888896 + 999999
			marker := int64(len(fmt.Sprintf("\n[... %d bytes dropped ...]\n", got.StdoutDropped)))
			require.Equal(t, total, int64(len(got.Stdout))-marker+got.StdoutDropped)
		})
	}
	got := ok[toolbox.Output](t, all(t)["shell"], t.TempDir(), args{"command": "yes", "timeoutSeconds": 1})
	require.True(t, got.TimedOut)
	require.Positive(t, got.StdoutDropped)
}

func TestOutputThatIsNotUTF8IsMadeValidAndFlagged(t *testing.T) {
	for _, shell := range engines(t) {
		got := ok[toolbox.Output](t, shell, t.TempDir(), args{"command": `printf 'a\377b'`})
		require.Equal(t, toolbox.Output{Stdout: "a\uFFFDb", InvalidUTF8: true}, got)
		got = ok[toolbox.Output](t, shell, t.TempDir(), args{"command": `printf 'ä\0b' >&2`})
		require.Equal(t, toolbox.Output{Stderr: "ä\x00b"}, got)
	}
}

func TestTheTemporaryDirectoryGoesWithTheCall(t *testing.T) {
	got := ok[toolbox.Output](t, all(t)["shell"], t.TempDir(), args{"command": "mktemp -d; cat <(echo x) > /dev/null; echo $TMPDIR"})
	for path := range strings.Lines(got.Stdout) {
		require.NoFileExists(t, strings.TrimSpace(path))
		require.NoDirExists(t, strings.TrimSpace(path))
	}
}

func TestCallsRunConcurrently(t *testing.T) {
	defs := all(t)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			input, _ := json.Marshal(args{"command": fmt.Sprintf("for i in 1 2 3; do echo %d | cat; done; sleep 1000 &", i)})
			r := defs["shell"].Invoke(t.Context(), &tool.Context{Dir: t.TempDir()}, input)
			var got toolbox.Output
			if r.Code != tool.OK || json.Unmarshal(r.Value, &got) != nil || got.Stdout != strings.Repeat(fmt.Sprintf("%d\n", i), 3) {
				t.Errorf("call %d: %+v", i, r)
			}
		})
	}
	wg.Wait()
}
