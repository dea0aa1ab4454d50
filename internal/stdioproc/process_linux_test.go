package stdioproc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
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

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/procfs"
)

func start(t *testing.T, c Config, script string, args ...string) *Process {
	t.Helper()
	c.Command = append([]string{"/bin/sh", "-c", script, "sh"}, args...)
	p, err := Start(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestOnlyThreeDescriptorsAndASessionOfItsOwn(t *testing.T) {
	t.Setenv("STDIOPROC_SECRET", "s")
	p := start(t, Config{Env: map[string]string{"LC_ALL": "C"}}, `ls /proc/$$/fd; echo -- $$; cut -d' ' -f5,6 /proc/$$/stat; env`)
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	fds, rest, _ := strings.Cut(string(out), "-- ")
	for _, fd := range strings.Fields(fds) {
		// Some shells keep one of their own above 9.
		n, err := strconv.Atoi(fd)
		require.NoError(t, err)
		require.True(t, n <= 2 || n >= 10, "descriptor %d", n)
	}
	lines := strings.Split(rest, "\n")
	require.Equal(t, strconv.Itoa(p.Pid()), lines[0])
	require.Equal(t, lines[0]+" "+lines[0], lines[1], "group and session")
	require.NotContains(t, rest, "STDIOPROC_SECRET")
	require.Contains(t, rest, "\nLC_ALL=C\n")
}

func TestAProgramThatEndsAtOnceSaysWhy(t *testing.T) {
	p := start(t, Config{}, `echo first >&2; yes complaint | head -c 100000 >&2; echo; echo last >&2; exit 7`)
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	require.Equal(t, "\n", string(out))
	<-p.Done()
	var exit *ExitError
	require.ErrorAs(t, p.Err(), &exit)
	require.Equal(t, 7, exit.Code)
	require.ErrorContains(t, exit, "sh has ended: exit status 7")
	require.True(t, strings.HasSuffix(exit.Stderr, "complaint\nlast"))
	require.True(t, strings.HasPrefix(exit.Stderr, "complaint\n"), "it begins with a whole line")
	require.LessOrEqual(t, len(exit.Stderr), maxTail)

	p = start(t, Config{}, `kill -9 $$`)
	<-p.Done()
	require.EqualError(t, p.Err(), "sh has ended: signal: killed; it wrote nothing to stderr")
}

// A process that is just becoming another program has no environment, and so no mark; one that has left its session is found all
// the same.
func TestWhatBecomesAnotherProgramIsEnded(t *testing.T) {
	for range 25 {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "loop"), []byte("echo x > turned\nexec sh loop\n"), 0o600))
		p := start(t, Config{Dir: dir}, `setsid sh -c 'echo $$ > left; exec sh loop' > /dev/null 2>&1 & while ! test -s turned; do sleep 0.01; done`)
		<-p.Done()
		text, err := os.ReadFile(filepath.Join(dir, "left"))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		s, lives := procfs.Read(pid)
		if lives = lives && s.Becoming(time.Hour); lives { // and is not just ending
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		require.False(t, lives, "%+v", s)
	}
}

// stuck is a log that hangs at its first line.
type stuck struct {
	slog.Handler
	hung chan struct{}
}

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }

func (s stuck) Handle(context.Context, slog.Record) error { <-s.hung; return nil }

func TestStderrBlocksNobody(t *testing.T) {
	s := stuck{hung: make(chan struct{})}
	defer close(s.hung)
	p := start(t, Config{Log: slog.New(s)}, `yes complaint | head -c 3000000 >&2; echo done`)
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	require.Equal(t, "done\n", string(out))
	<-p.Done()
}

// lines is a log that keeps its lines.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestStderrGoesToTheLog(t *testing.T) {
	l := &lines{}
	log := slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := start(t, Config{Log: log}, `printf 'one\n\ntwo\r\n' >&2; head -c 10000 /dev/zero | tr '\0' z >&2; printf '\nend' >&2`)
	<-p.Done()
	require.Eventually(t, func() bool { return strings.Contains(l.String(), "line=end") }, 3*time.Minute, time.Millisecond)
	require.Contains(t, l.String(), "line=one\n")
	require.Contains(t, l.String(), "line=two\n")
	require.Contains(t, l.String(), "line="+strings.Repeat("z", maxLine)+"\n")
	require.Equal(t, 4, strings.Count(l.String(), "level=DEBUG msg=stderr"))
}

func TestCloseReleasesWhoeverWaits(t *testing.T) {
	p := start(t, Config{Grace: time.Millisecond}, `trap '' TERM; sleep 1000 & wait; sleep 1000`)
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = io.Copy(p.Stdin, strings.NewReader(strings.Repeat("x", 1<<20))) })
	waiting.Go(func() { _, _ = io.ReadAll(p.Stdout) })
	require.NoError(t, p.Err())
	waiting.Go(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.Close())
	waiting.Wait()
	// It may have been asked before it knew that it does not want to.
	require.ErrorContains(t, p.Err(), "signal: ")
}

// family is a script whose processes write their ids to files in $1 and live until they are killed: a head, a child, one
// that has forked twice, one that has left the session, one that has left it and forked twice, and one without an environment.
// None heeds a signal that can be ignored.
const family = `trap '' TERM HUP INT
cd "$1"
cat >live.sh <<'END'
trap '' TERM HUP INT
echo $$ >$1.new; mv $1.new $1.pid
while :; do sleep 1000; done
END
sh live.sh child &
(sh live.sh twice & )
setsid sh live.sh left &
(setsid sh live.sh away & )
env -i /bin/sh live.sh bare &
sh live.sh head`

var names = []string{"head", "child", "twice", "left", "away", "bare"}

// pids waits for the whole family and returns what identifies each.
func pids(t *testing.T, dir string, names ...string) map[int]string {
	t.Helper()
	found := map[int]string{}
	for _, name := range names {
		var pid int
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(filepath.Join(dir, name+".pid"))
			if err != nil {
				return false
			}
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
			return err == nil
		}, 3*time.Minute, time.Millisecond, name)
		s, ok := procfs.Read(pid)
		require.True(t, ok, "%s does not live", name)
		found[pid] = s.Start
	}
	return found
}

func requireGone(t *testing.T, pids map[int]string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for pid, start := range pids {
			if s, ok := procfs.Read(pid); ok && s.Start == start {
				return false
			}
		}
		return true
	}, 3*time.Minute, time.Millisecond)
}

func TestCloseEndsTheWholeTree(t *testing.T) {
	dir := t.TempDir()
	p := start(t, Config{Grace: time.Millisecond}, family+` & env -i setsid /bin/sh live.sh hidden`, dir)
	all := pids(t, dir, append([]string{"hidden"}, names...)...)
	require.NoError(t, p.Close())
	requireNobodyIn(t, dir)
	for pid, start := range all {
		s, ok := procfs.Read(pid)
		require.False(t, ok && s.Start == start, "%d lives", pid)
	}
}

// requireNobodyIn requires that no process works in a folder.
func requireNobodyIn(t *testing.T, dir string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	require.NoError(t, err)
	for _, cwd := range all {
		if at, err := os.Readlink(cwd); err == nil && at == dir {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(cwd), "cmdline"))
			require.Fail(t, "a process is left", "%s: %q", cwd, command)
		}
	}
}

func TestWhatAHeadLeavesEndsWithIt(t *testing.T) {
	dir := t.TempDir()
	p := start(t, Config{Grace: time.Millisecond}, family+` & while [ ! -f away.pid ] || [ ! -f left.pid ] || [ ! -f head.pid ]; do sleep 0.01; done; read go; exit 5`, dir)
	all := pids(t, dir, "head", "left", "away")
	_, err := io.WriteString(p.Stdin, "go\n")
	require.NoError(t, err)
	<-p.Done()
	requireNobodyIn(t, dir)
	for pid, start := range all {
		s, ok := procfs.Read(pid)
		require.False(t, ok && s.Start == start, "%d lives", pid)
	}
	require.ErrorContains(t, p.Err(), "exit status 5")
}

func TestAProgramThatObeysIsNotKilled(t *testing.T) {
	p := start(t, Config{}, `cat >/dev/null; exit 4`)
	require.NoError(t, p.Close())
	require.ErrorContains(t, p.Err(), "exit status 4")

	dir := t.TempDir()
	p = start(t, Config{Grace: 3 * time.Minute}, `trap 'exit 6' TERM; cd "$1"; echo $$ >new; mv new trap.pid; kill -STOP $$; exit 1`, dir)
	pids(t, dir, "trap")
	_ = p.files[0].Close()
	p.tree.ask()
	require.NoError(t, p.Close())
	require.ErrorContains(t, p.Err(), "exit status 6")
}

func killKeeper(p *Process) error {
	if err := p.tree.keeper.Process.Kill(); err != nil {
		return err
	}
	_, err := p.tree.keeper.Process.Wait()
	return err
}

// worker starts a process that starts script, and kills it when that is ready.
func worker(t *testing.T, script string, ready func(), env ...string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), workerVariable+"="+script), env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "started "), line)
	ready()
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
}

// TestNothingSurvivesTheWorker kills workers, which cannot do anything about it.
func TestNothingSurvivesTheWorker(t *testing.T) {
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			dir := t.TempDir()
			var all map[int]string
			worker(t, fmt.Sprintf("set -- '%s'\n%s", dir, family), func() { all = pids(t, dir, names...) })
			requireGone(t, all)
		})
	}
}

// TestWorkersAreKilledWhileTheyStartAndClose kills workers at any moment of both.
func TestWorkersAreKilledWhileTheyStartAndClose(t *testing.T) {
	rounds := 5
	if os.Getenv("ASSENT_LONG") == "1" {
		rounds = 200
	}
	for i := range rounds {
		home := t.TempDir()
		worker(t, "trap '' TERM; sleep 1000 & (setsid sleep 1000 &); sleep 1000", func() { time.Sleep(time.Duration(i*7%50) * time.Millisecond) },
			busyVariable+"=1", "HOME="+home)
		// Every process of every tree has this HOME, and so had the worker. Keepers have none.
		var left []string
		require.Eventually(t, func() bool {
			left = nil
			files, err := filepath.Glob("/proc/[0-9]*/environ")
			require.NoError(t, err)
			for _, file := range files {
				if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("HOME="+home)) {
					command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
					left = append(left, string(command))
				}
			}
			return len(left) == 0
		}, 3*time.Minute, 5*time.Millisecond, "%q", &left)
	}
}

// TestTheKernelEndsTheHeadOfAWorkerWithoutKeeper kills a worker whose keeper was killed before.
func TestTheKernelEndsTheHeadOfAWorkerWithoutKeeper(t *testing.T) {
	dir := t.TempDir()
	var all map[int]string
	script := fmt.Sprintf("trap '' TERM HUP INT; cd '%s'; echo $$ >new; mv new head.pid; while :; do sleep 0.1; done", dir)
	worker(t, script, func() { all = pids(t, dir, "head") }, loneVariable+"=1")
	requireGone(t, all)
}

// TestTheKeeperNeedsNothingButAShell runs it where there is no grep and no sleep, in each shell of the machine.
func TestTheKeeperNeedsNothingButAShell(t *testing.T) {
	for _, shell := range [][]string{{"/bin/sh"}, {"dash"}, {"bash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		path, err := exec.LookPath(shell[0])
		if err != nil {
			continue
		}
		for _, search := range []string{"/usr/bin:/bin", "/nowhere"} {
			t.Run(strings.Join(shell, " ")+" "+search, func(t *testing.T) {
				tree := &tree{mark: "mark-of-" + strconv.Itoa(os.Getpid()) + filepath.Base(t.TempDir()) + t.Name(), seen: map[int]string{}, sessions: map[int]bool{}}
				victim := marked(t, tree.mark)
				witness := exec.Command("sleep", "1000")
				witness.Env = []string{markName + "=another"}
				require.NoError(t, witness.Start())
				defer func() { _ = witness.Process.Kill(); _ = witness.Wait() }()

				done := strings.NewReader("done\n")
				for _, in := range []io.Reader{done, strings.NewReader("")} {
					keeper := exec.Command(path, append(shell[1:], "-c", keeperScript, "keeper", tree.mark)...)
					keeper.Env, keeper.Stdin = []string{"PATH=" + search}, in
					out, err := keeper.CombinedOutput()
					require.NoError(t, err, "%s", out)
					require.Empty(t, string(out))
					if in == done {
						_, lives := procfs.Read(victim.Process.Pid)
						require.True(t, lives, "it was told that all is done")
					}
				}
				require.Error(t, victim.Wait())

				// Where there is no /proc, the group of the head is all that is known.
				group := exec.Command("sleep", "1000")
				group.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				require.NoError(t, group.Start())
				keeper := exec.Command(path, append(shell[1:], "-c", keeperScript, "keeper", tree.mark)...)
				keeper.Env, keeper.Stdin = []string{"PATH=" + search}, strings.NewReader(strconv.Itoa(group.Process.Pid)+"\n")
				require.NoError(t, keeper.Run())
				require.Error(t, group.Wait())
				_, lives := procfs.Read(witness.Process.Pid)
				require.True(t, lives)
			})
		}
	}
}

// TestTheKeeperLooksAgain has the first look find nothing, as when a process is just becoming another program.
func TestTheKeeperLooksAgain(t *testing.T) {
	real, err := exec.LookPath("grep")
	require.NoError(t, err)
	dir := t.TempDir()
	// The first call asks whether there is such a grep, the second is the first look.
	script := "#!/bin/sh\necho >>'" + dir + "/calls'\n[ $(wc -l <'" + dir + "/calls') = 2 ] && exit 1\nexec " + real + ` "$@"` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "grep"), []byte(script), 0o700))
	mark := "mark-of-" + strconv.Itoa(os.Getpid()) + t.Name()
	victim := marked(t, mark)
	s, lives := procfs.Read(victim.Process.Pid)
	require.True(t, lives)
	keeper := exec.Command(shell, "-c", keeperScript, "keeper", mark)
	keeper.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := keeper.CombinedOutput()
	require.NoError(t, err, "%s", out)
	requireGone(t, map[int]string{victim.Process.Pid: s.Start})
}

// marked starts a process that carries a mark, and waits until it can be seen: for a moment a process has no environment.
func marked(t *testing.T, mark string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"TEXT=one\ntwo\n", markName + "=" + mark, "PATH=/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
		return err == nil && strings.Contains(string(environ), mark)
	}, 3*time.Minute, time.Millisecond)
	return cmd
}

func TestAMissingProgramLeavesNoKeeper(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "odd")
	require.NoError(t, os.WriteFile(odd, []byte("no program"), 0o700))
	_, err := Start(Config{Command: []string{odd}})
	require.True(t, fault.IsConfig(err), "%v", err)
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range commands {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(t, err)
		if s, ok := procfs.Read(pid); ok && s.Parent == os.Getpid() {
			text, _ := os.ReadFile(path)
			require.NotContains(t, string(text), "assent-keeper")
		}
	}
}

// A program that goes on in another process and session again and again is found all the same.
func TestWhatForksAgainAndAgainIsEnded(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "hop"), []byte("test -e stop && exit\necho x >> beats\nsetsid sh hop &\n"), 0o600))
		p := start(t, Config{Dir: dir}, `sh hop > /dev/null 2>&1 & while ! test -s beats; do sleep 0.01; done; sleep 0.05`)
		<-p.Done()
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
