package workerproc_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

func TestGrantKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "grant")
	_, err := workerproc.GrantKeys(path)
	require.True(t, fault.IsConfig(err), "%v", err)
	require.ErrorContains(t, err, "does not exist")

	require.NoError(t, workerproc.NewGrantKey(path))
	require.ErrorIs(t, workerproc.NewGrantKey(path), os.ErrExist)
	one, err := workerproc.GrantKeys(path)
	require.NoError(t, err)
	require.Len(t, one, 1)
	require.Len(t, one[0].Secret, 32)

	// Rotation: a new first line signs, the old key is still accepted under the id it had.
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append([]byte("# new\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n"), old...), 0o600))
	two, err := workerproc.GrantKeys(path)
	require.NoError(t, err)
	require.Len(t, two, 2)
	require.Equal(t, one[0], two[1])

	require.NoError(t, os.WriteFile(path, []byte("# none\n"), 0o600))
	_, err = workerproc.GrantKeys(path)
	require.ErrorContains(t, err, "holds no key")
	require.NoError(t, os.WriteFile(path, []byte("\nnot base64!\n"), 0o600))
	_, err = workerproc.GrantKeys(path)
	require.ErrorContains(t, err, "grant:2:1: worker.grantKeyFile: is not base64")
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Chmod(path, 0o644))
		_, err = workerproc.GrantKeys(path)
		require.ErrorContains(t, err, "open to other users (mode 0644)")
	}
}

// The worker writes where `starter patch` reads, whatever the home directory is.
func TestBlobsDir(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", filepath.Join(t.TempDir(), "data"))
	dir, err := workerproc.BlobsDir(nil)
	require.NoError(t, err)
	same, err := workerproc.BlobsDir(&config.File{})
	require.NoError(t, err)
	require.Equal(t, dir, same)
	own, err := workerproc.BlobsDir(&config.File{Worker: config.Worker{Blobs: "/srv/blobs"}})
	require.NoError(t, err)
	require.Equal(t, "/srv/blobs", own)
}

func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte("turns: [{say: done}]\n"), 0o600))
	path := filepath.Join(dir, "assent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const minimal = `
profiles:
  p: {model: "scripted:s", tools: [files, shell]}
models: {scripted: {scripts: {s: s.yaml}}}
worker: {blobs: blobs, dir: .}
`

// What a file says is checked as a whole before anything is connected or served.
func TestBadConfiguration(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"tool":     {strings.Replace(minimal, "[files, shell]", "[files, shel]", 1), `unknown tool or toolset "shel"`},
		"provider": {strings.Replace(minimal, "scripted:s", "openai:gpt", 1), `unknown provider "openai"`},
		"script":   {strings.Replace(minimal, "s: s.yaml", "s: t.yaml", 1), "t.yaml"},
		"key":      {minimal + "", "worker.grantKeyFile"},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.text
			if name == "key" {
				text = strings.Replace(text, "dir: .", "dir: ., grantKeyFile: key", 1)
			}
			err := workerproc.Run(t.Context(), workerproc.Options{Config: write(t, text),
				Connect: connect.Settings{Address: devservertest.Server(t).Address(), Alone: true}}, io.Discard)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, exit.Usage, exit.CodeOf(err))
		})
	}
}

// line collects what a worker prints and tells when want is there.
type line struct {
	mu    sync.Mutex
	text  strings.Builder
	want  string
	once  sync.Once
	ready chan struct{}
}

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(p)
	if strings.Contains(l.text.String(), l.want) {
		l.once.Do(func() { close(l.ready) })
	}
	return n, err
}

func (l *line) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// says runs a worker until it has printed want, stops it, and returns what it printed.
func says(t *testing.T, config, queue, want string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &line{want: want, ready: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- workerproc.Run(ctx, workerproc.Options{Config: write(t, config), Queue: queue,
			Connect: connect.Settings{Address: devservertest.Server(t).Address(), Alone: true}}, out)
	}()
	select {
	case <-out.ready:
	case err := <-done:
		require.Fail(t, "ended", "%v", err)
	case <-time.After(3 * time.Minute):
		require.Fail(t, "not ready", out.String())
	}
	cancel()
	require.NoError(t, <-done)
	return out.String()
}

func TestRunSaysThatItIsReadyAndStops(t *testing.T) {
	require.Equal(t, "worker ready: queue \"ready\", namespace \"default\", server "+devservertest.Server(t).Address()+", 1 profile\n",
		says(t, minimal, "ready", "\n"))
}

// A repository that is not there stops nobody, and is said.
func TestARepositoryThatIsMissingIsSaid(t *testing.T) {
	config := strings.Replace(minimal, "dir: .}", "dir: ., worktrees: {repos: {main: nowhere}, root: trees}}", 1)
	says(t, config, "missing", `warning: repository "main" cannot be worked on now: `)
}
