//go:build unix

package devserver

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBuiltOncePerContent(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	count := countGo(t)
	var said bytes.Buffer
	locate := func() Binary {
		b, err := testLocator(root, cache, &said).locate(t.Context())
		require.NoError(t, err)
		return b
	}
	first := locate()
	assert.Equal(t, 1, lines(t, count))
	assert.Equal(t, Binary{Path: first.Path, Version: tinyVersion, Config: filepath.Join(root, "temporal-dev.yaml")}, first)
	assert.True(t, strings.HasPrefix(first.Path, filepath.Join(cache, "assent", "devserver")+string(filepath.Separator)))
	assert.Regexp(t, `^building the Temporal development server, once per machine: about \d+ minutes? on \d+ cores? .*\n… built in \d+ s, \d+ packages? compiled\n$`, said.String())

	said.Reset()
	assert.Equal(t, first, locate())
	assert.Empty(t, said.String(), "nothing to say when there is nothing to do")
	write(t, filepath.Join(root, "devserver", "main_test.go"), "package main\n", 0o644)
	write(t, filepath.Join(root, "devserver", "notes.txt"), "x\n", 0o644)
	assert.Equal(t, first, locate(), "what does not go into the program does not count")
	assert.Equal(t, 1, lines(t, count))

	write(t, filepath.Join(root, "devserver", "more.go"), "package main\n", 0o644)
	assert.NotEqual(t, first.Path, locate().Path)
	assert.Equal(t, 2, lines(t, count))
}

func TestBrokenEntryIsBuiltAgain(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	count := countGo(t)
	b, err := testLocator(root, cache, nil).locate(t.Context())
	require.NoError(t, err)
	info, err := os.Stat(b.Path)
	require.NoError(t, err)
	manifest := filepath.Join(filepath.Dir(b.Path), manifestName)
	for i, harm := range []func() error{
		func() error { return os.Truncate(b.Path, info.Size()/2) },
		func() error { return os.Remove(b.Path) },
		func() error { return os.Remove(manifest) },
		func() error { return os.WriteFile(manifest, []byte("{"), 0o644) },
		func() error { return os.WriteFile(b.Path, make([]byte, info.Size()), 0o755) }, // what a power cut leaves
		func() error { return os.RemoveAll(filepath.Dir(b.Path)) },
	} {
		require.NoError(t, harm())
		again, err := testLocator(root, cache, nil).locate(t.Context())
		require.NoError(t, err)
		assert.Equal(t, b, again)
		assert.Equal(t, i+2, lines(t, count))
	}
	entries, err := filepath.Glob(filepath.Join(cache, "assent", "devserver", "building-*"))
	require.NoError(t, err)
	assert.Empty(t, entries, "no leftovers")
}

func TestProcessesBuildOnce(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	count := countGo(t)
	const processes = 5
	paths := make([]string, processes)
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), actVariable+"=locate", "ROOT="+root, "CACHE="+cache)
			out, err := cmd.Output()
			assert.NoError(t, err)
			paths[i] = string(out)
		})
	}
	all.Wait()
	assert.NotEmpty(t, paths[0])
	for _, p := range paths {
		assert.Equal(t, paths[0], p)
	}
	assert.Equal(t, 1, lines(t, count))
}

func TestWaitingForAnotherProcess(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	held := filepath.Join(cache, "assent", "devserver", "build.lock")
	write(t, held, "", 0o644)
	other := testLocator(root, cache, nil)
	unlock, err := other.lock(t.Context(), held)
	require.NoError(t, err)

	said := &signalWriter{wrote: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := testLocator(root, cache, said).locate(ctx)
		ended <- err
	}()
	assert.Equal(t, "another process is building the Temporal development server: waiting for it\n", <-said.wrote)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	go func() {
		_, err := testLocator(root, cache, said).locate(t.Context())
		ended <- err
	}()
	<-said.wrote
	unlock()
	require.NoError(t, <-ended)
}

// signalWriter hands over what is written.
type signalWriter struct{ wrote chan string }

func (w *signalWriter) Write(p []byte) (int, error) {
	w.wrote <- string(p)
	return len(p), nil
}

// blockingGo is a compiler that starts another process and then neither of them ends. It writes both process ids to
// the file that is returned.
func blockingGo(t *testing.T) string {
	t.Helper()
	pids := filepath.Join(t.TempDir(), "pids")
	onPath(t, "go", "sleep 1000 &\necho $$ $! > '"+pids+".part'\nmv '"+pids+".part' '"+pids+"'\nwait\n")
	return pids
}

func readPIDs(t *testing.T, file string) []int {
	t.Helper()
	var pids []int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		for _, f := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(f)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
		return err == nil
	}, 3*time.Minute, 5*time.Millisecond)
	require.Len(t, pids, 2)
	return pids
}

func TestCancelEndsTheWholeBuild(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	pidFile := blockingGo(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		_, err := testLocator(root, cache, &said).locate(ctx)
		ended <- err
	}()
	pids := readPIDs(t, pidFile)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	for _, pid := range pids {
		assertGone(t, pid)
	}
	assert.Contains(t, said.String(), "… stopped after ")
	entries, err := os.ReadDir(filepath.Join(cache, "assent", "devserver"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the lock is left")

	unlock, err := testLocator(root, cache, nil).lock(t.Context(), filepath.Join(cache, "assent", "devserver", "build.lock"))
	require.NoError(t, err, "and it is free")
	unlock()
}

func TestProgressWhileBuilding(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	blockingGo(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := &signalWriter{wrote: make(chan string)}
	l := testLocator(root, cache, said)
	l.progress.every = time.Millisecond
	ended := make(chan error, 1)
	go func() {
		_, err := l.locate(ctx)
		ended <- err
	}()
	assert.Contains(t, <-said.wrote, "building the Temporal development server")
	assert.Regexp(t, `^… \d+ s, 0 packages compiled\n$`, <-said.wrote)
	cancel()
	for { // it goes on writing until it has ended
		select {
		case <-said.wrote:
		case err := <-ended:
			require.ErrorIs(t, err, context.Canceled)
			return
		}
	}
}

func TestFailedBuild(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	write(t, filepath.Join(root, "devserver", "main.go"), "package main\n\nfunc main() { undefinedWord() }\n", 0o644)
	_, err := testLocator(root, cache, nil).locate(t.Context())
	var failed *BuildError
	require.ErrorAs(t, err, &failed)
	assert.Contains(t, failed.Error(), "undefined: undefinedWord")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)

	// A program that compiles and is not a server is not handed out.
	write(t, filepath.Join(root, "devserver", "main.go"), "package main\n\nfunc main() {}\n", 0o644)
	_, err = testLocator(root, cache, nil).locate(t.Context())
	require.ErrorAs(t, err, &failed)
	assert.Contains(t, failed.Error(), "does not run")
}

func TestNothingToBuildWith(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *locator){
		"no go": func(t *testing.T, l *locator) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("GOROOT", "")
		},
		"go is not where GOROOT says": func(t *testing.T, l *locator) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("GOROOT", t.TempDir())
		},
		"no source": func(t *testing.T, l *locator) {
			l.root = func(context.Context) (string, error) { return t.TempDir(), nil }
		},
		"no checkout": func(t *testing.T, l *locator) {
			l.root = func(context.Context) (string, error) { return "", &NotFoundError{Reason: "none", Hint: "get one"} }
		},
		"no cache directory": func(t *testing.T, l *locator) {
			l.cacheDir = func() (string, error) { return "", errors.New("neither HOME nor XDG_CACHE_HOME") }
		},
		"cache that cannot be written": func(t *testing.T, l *locator) {
			file := filepath.Join(t.TempDir(), "file")
			write(t, file, "", 0o644)
			l.cacheDir = func() (string, error) { return file, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLocator(tinyModule(t), t.TempDir(), nil)
			change(t, l)
			_, err := l.locate(t.Context())
			var n *NotFoundError
			require.ErrorAs(t, err, &n)
			assert.NotEmpty(t, n.Hint)
			assert.Contains(t, n.Error(), "find a Temporal development server: ")
		})
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"keep", "fresh", "old", "building-123"} {
		write(t, filepath.Join(dir, name, programName()), "x", 0o755)
	}
	write(t, filepath.Join(dir, "build.lock"), "", 0o644)
	past := time.Now().Add(-2 * keepFor)
	for _, name := range []string{"keep", "old", "build.lock"} {
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), past, past))
	}
	prune(dir, "keep")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	assert.Equal(t, []string{"build.lock", "fresh", "keep"}, left)
}

func TestPackageCounter(t *testing.T) {
	var c packageCounter
	for _, part := range []string{"go: downloading x v1\nex", "ample.com/a\n", "example.com/b\nhalf"} {
		n, err := c.Write([]byte(part))
		require.NoError(t, err)
		assert.Len(t, part, n)
	}
	assert.Equal(t, "1 module fetched, 2 packages compiled", c.status())
	assert.Equal(t, "go: downloading x v1\nexample.com/a\nexample.com/b\nhalf", c.tail())
	for range 100 {
		_, _ = c.Write([]byte("x y\n"))
	}
	assert.Len(t, strings.Split(c.tail(), "\n"), outputLines+1)
}

func TestProgressOnATerminal(t *testing.T) {
	var said bytes.Buffer
	p := newProgress(&said)
	p.terminal = true
	p.line("first")
	p.update("1 s")
	p.update("2 s")
	p.line("last")
	assert.Equal(t, "first\n1 s\r\x1b[K2 s\r\x1b[Klast\n", said.String())
	assert.Equal(t, "3 min 2 s", elapsed(time.Now().Add(-182*time.Second)))
}
