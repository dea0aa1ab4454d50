package demo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/demo"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

const (
	// patience is for conditions that a healthy machine meets in seconds.
	patience = 3 * time.Minute
	tick     = 50 * time.Millisecond
)

// starter is the program under test, built once.
var starter string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "assent-demo-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	starter = filepath.Join(dir, "starter")
	build := exec.Command("go", "build", "-o", starter, "github.com/assent-dev/assent/cmd/starter")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = devservertest.Run(m)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// stage is a folder of demos of its own and what runs in it.
type stage struct {
	t    *testing.T
	home string
	env  []string
}

// elsewhere means a server that a demo must not look for.
var elsewhere = []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "TEMPORAL_NAMESPACE=not-mine", "TEMPORAL_TLS=true", "TEMPORAL_PROFILE=not-mine"}

func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	devservertest.Binary(t) // built where people see that it takes time
	s := &stage{t: t, home: t.TempDir(), env: elsewhere}
	t.Cleanup(s.nothingRuns)
	return s
}

// show is one run of the program.
type show struct {
	s        *stage
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err output
	done     chan struct{}
}

// output is what a process wrote until now.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs the program with a standard input that stays open.
func (s *stage) start(args ...string) *show {
	s.t.Helper()
	sh := &show{s: s, cmd: exec.Command(starter, args...), done: make(chan struct{})}
	sh.cmd.Dir = s.t.TempDir()
	sh.cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+s.home, "USER=tester"), s.env...)
	if !filepath.IsAbs(os.Getenv("ASSENT_DEVSERVER")) {
		sh.cmd.Env = append(sh.cmd.Env, "ASSENT_DEVSERVER="+devservertest.Binary(s.t).Path)
	}
	sh.cmd.Stdout, sh.cmd.Stderr = &sh.out, &sh.err
	var err error
	sh.in, err = sh.cmd.StdinPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, sh.cmd.Start())
	go func() {
		_ = sh.cmd.Wait() // the exit code says it
		close(sh.done)
	}()
	s.t.Cleanup(func() {
		_ = sh.cmd.Process.Kill() // it may have ended long ago
		<-sh.done
	})
	return sh
}

// exits waits for the program and wants an exit code.
func (sh *show) exits(code int) {
	sh.s.t.Helper()
	sh.until(func() bool {
		select {
		case <-sh.done:
			return true
		default:
			return false
		}
	}, "to end")
	require.Equal(sh.s.t, code, sh.cmd.ProcessState.ExitCode(), sh.all())
}

func (sh *show) all() string { return sh.out.String() + "\n--- standard error\n" + sh.err.String() }

// until waits; what the program printed explains why it did not come.
func (sh *show) until(condition func() bool, what string) {
	sh.s.t.Helper()
	defer func() {
		if sh.s.t.Failed() {
			sh.s.t.Log(sh.all())
		}
	}()
	require.Eventually(sh.s.t, condition, patience, tick, "waited for the demo %s", what)
}

// run runs the program to its end, with a text as standard input.
func (s *stage) run(code int, stdin string, args ...string) *show {
	s.t.Helper()
	sh := s.start(args...)
	_, err := io.WriteString(sh.in, stdin)
	if err == nil {
		err = sh.in.Close()
	}
	require.NoError(s.t, err, sh.all())
	sh.exits(code)
	return sh
}

// asks waits for the nth question and returns its key.
func (sh *show) asks(n int) string {
	sh.s.t.Helper()
	found := regexp.MustCompile(`approval needed   (\S+)`)
	var all [][]string
	sh.until(func() bool {
		all = found.FindAllStringSubmatch(sh.out.String(), -1)
		return len(all) >= n && strings.Count(sh.out.String(), "leave it waiting") >= n
	}, fmt.Sprintf("to ask question %d", n))
	return all[n-1][1]
}

// ids are the demos that are there.
func (s *stage) ids() []string {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.home, "assent", "demos"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(s.t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// id is the only demo that is there.
func (s *stage) id() string {
	s.t.Helper()
	ids := s.ids()
	require.Len(s.t, ids, 1)
	return ids[0]
}

func (s *stage) path(names ...string) string {
	return filepath.Join(append([]string{s.home, "assent", "demos"}, names...)...)
}

// state is what the demo keeps of itself.
func (s *stage) state() demo.Demo {
	s.t.Helper()
	var d demo.Demo
	b, err := os.ReadFile(s.path(s.id(), "demo.json"))
	require.NoError(s.t, err)
	require.NoError(s.t, json.Unmarshal(b, &d))
	return d
}

// files are the names in the folder of the only demo.
func (s *stage) files() []string {
	s.t.Helper()
	entries, err := os.ReadDir(s.path(s.id()))
	require.NoError(s.t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// processes are those that were started for a demo of this stage: all of them are told a path in it.
func (s *stage) processes() []string {
	out, err := exec.Command("ps", "-A", "-o", "pid=,args=").Output()
	require.NoError(s.t, err)
	var found []string
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, s.home) {
			found = append(found, line)
		}
	}
	return found
}

func (s *stage) nothingRuns() {
	require.Eventually(s.t, func() bool { return len(s.processes()) == 0 }, patience, tick, "processes are left")
}
