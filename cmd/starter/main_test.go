package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/workerproc"
)

// tests stops the shared server after the tests; the scripts' own processes have none.
type tests struct{ m *testing.M }

func (t tests) Run() int { return devservertest.Run(t.m) }

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"starter": main})
}

// Help, wrong invocations, explain and a server that is not there, as a process sees them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: filepath.Join("testdata", "script"), RequireUniqueNames: true, Setup: func(e *testscript.Env) error {
		e.Setenv("HOME", e.WorkDir)
		e.Setenv("NO_COLOR", "1")
		return nil
	}})
}

const (
	// patience is for conditions that a healthy machine meets in seconds.
	patience = 2 * time.Minute
	tick     = 50 * time.Millisecond
)

// world is a worker's folder and a task queue that no other test uses.
type world struct {
	t     *testing.T
	dir   string
	queue string
}

// once makes words that no other test uses, so that the keys of its questions are its own.
var once struct {
	sync.Mutex
	n int
}

func unique(t *testing.T) string {
	once.Lock()
	defer once.Unlock()
	once.n++
	return fmt.Sprintf("%s-%d-%d", strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), time.Now().UnixNano(), once.n)
}

// newWorld writes a configuration with one profile, p, that plays a script on a repository with one file, a.txt.
func newWorld(t *testing.T, script, profile string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), queue: unique(t)}
	w.write("script.yaml", script)
	w.write("assent.yaml", `
engine:
  deny: [{tool: shell, argv: ["rm **"], reason: nothing is deleted here}]
profiles:
  p:
    model: scripted:s
    tools: [files, shell]
    permissions: {preset: standard}
`+profile+`
models: {scripted: {scripts: {s: script.yaml}}}
worker:
  blobs: blobs
  dir: .
  grantKeyFile: key
  worktrees: {repos: {main: repo}, root: trees}
`)
	require.NoError(t, workerproc.NewGrantKey(filepath.Join(w.dir, "key")))
	w.write("repo/a.txt", "one\n")
	w.git("repo", "init", "-q", "-b", "main")
	w.git("repo", "add", "-A")
	w.git("repo", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "first")
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *world) git(dir string, args ...string) {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.path(dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "git %v: %s", args, out)
}

// work starts a worker and stops it with the test, or before by the function returned.
func (w *world) work() (stop func()) {
	w.t.Helper()
	p, err := workerproc.Start(context.Background(), workerproc.Options{Config: w.path("assent.yaml"), Queue: w.queue, DeadlockDetection: 20 * time.Second,
		Connect: connect.Settings{Address: devservertest.Server(w.t).Address(), Alone: true}})
	require.NoError(w.t, err)
	w.t.Cleanup(p.Stop)
	return p.Stop
}

// server is a connection for what no command does.
func (w *world) server() *connect.Server {
	w.t.Helper()
	s, err := connect.Dial(context.Background(), connect.Settings{Address: devservertest.Server(w.t).Address(), Alone: true})
	require.NoError(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

// invocation is a command that runs, or ran.
type invocation struct {
	out, err output
	code     int
	done     chan struct{}
	cancel   context.CancelFunc
}

// output is what a command wrote until now.
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

// begin runs a command in process, against the test's server and queue.
func (w *world) begin(args ...string) *invocation {
	w.t.Helper()
	return w.beginAt(devservertest.Server(w.t).Address(), args...)
}

func (w *world) beginAt(address string, args ...string) *invocation {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	i := &invocation{done: make(chan struct{}), cancel: cancel}
	args = append(args, "--address", address, "--queue", w.queue)
	go func() {
		defer close(i.done)
		i.code = run(ctx, args, strings.NewReader(""), &i.out, &i.err)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-i.done
	})
	return i
}

// local runs a command that needs no server.
func (w *world) local(args ...string) *invocation {
	w.t.Helper()
	i := &invocation{done: make(chan struct{}), cancel: func() {}}
	i.code = run(context.Background(), args, strings.NewReader(""), &i.out, &i.err)
	close(i.done)
	return i
}

// starter runs a command to its end.
func (w *world) starter(args ...string) *invocation {
	w.t.Helper()
	i := w.begin(args...)
	w.ends(i)
	return i
}

func (w *world) ends(i *invocation) {
	w.t.Helper()
	w.until(i, func() bool {
		select {
		case <-i.done:
			return true
		default:
			return false
		}
	})
}

// until waits; what the command printed explains why it did not come.
func (w *world) until(i *invocation, condition func() bool) {
	w.t.Helper()
	if !assertEventually(condition) {
		require.Fail(w.t, "waited in vain", "%s\n--- standard error\n%s", i.out.String(), i.err.String())
	}
}

func assertEventually(condition func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(tick)
	defer again.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			return condition()
		case <-again.C:
		}
	}
	return true
}

// ok wants exit code 0.
func (w *world) ok(i *invocation) *invocation { w.t.Helper(); return w.exits(i, 0) }

func (w *world) exits(i *invocation, code int) *invocation {
	w.t.Helper()
	w.ends(i)
	require.Equal(w.t, code, i.code, "%s\n--- standard error\n%s", i.out.String(), i.err.String())
	return i
}

// lines decodes JSON lines.
func lines[T any](t *testing.T, text string) []T {
	t.Helper()
	var out []T
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" {
			continue
		}
		var v T
		require.NoError(t, json.Unmarshal([]byte(line), &v), "%s", line)
		out = append(out, v)
	}
	return out
}

// pending waits until an agent asks n questions at once.
func (w *world) pending(id string, n int) []listed {
	w.t.Helper()
	var found []listed
	require.Eventually(w.t, func() bool {
		found = nil
		for _, q := range lines[listed](w.t, w.ok(w.starter("approvals", "-o", "json")).out.String()) {
			if q.WorkflowID == id && q.State == statePending {
				found = append(found, q)
			}
		}
		return len(found) == n
	}, patience, tick)
	return found
}
