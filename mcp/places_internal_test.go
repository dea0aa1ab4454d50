package mcp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

func perDir(t *testing.T) *Server {
	t.Helper()
	s, err := New(Config{Name: "s", Command: []string{"no-such-program"}, PerDir: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	s := perDir(t)
	dir := func(i int) string { return filepath.Join("/d", string(rune('a'+i))) }
	ctx := context.Background()
	var all []*place
	for i := range mostPlaces {
		p, err := s.places.take(ctx, dir(i))
		require.NoError(t, err)
		all = append(all, p)
	}
	late, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := s.places.take(late, "/more")
	assert.ErrorContains(t, err, "it runs in 32 directories already, and all of them are in use")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.places.take(gone, "/more")
	assert.ErrorIs(t, err, context.Canceled)
	waited := make(chan error)
	go func() {
		p, err := s.places.take(ctx, "/other")
		waited <- err
		p.leave()
	}()
	all[9].leave()
	require.NoError(t, <-waited, "who waits gets the place of a call that has ended")
	all[9], err = s.places.take(ctx, "/other")
	require.NoError(t, err)
	same, err := s.places.take(ctx, dir(3))
	require.NoError(t, err)
	assert.Same(t, all[3], same)
	same.leave()
	all[5].leave()
	all[2].leave()
	_, err = s.places.take(ctx, "/more")
	require.NoError(t, err)
	assert.NotContains(t, s.places.byDir, dir(5), "the one that was idle longest is gone")
	assert.Contains(t, s.places.byDir, dir(2))
	_, err = all[5].session(context.Background())
	assert.ErrorIs(t, err, errClosed)
}

func TestPlacesThatNobodyUsesEnd(t *testing.T) {
	t.Parallel()
	s := perDir(t)
	kept, gone, used := t.TempDir(), filepath.Join(t.TempDir(), "gone"), filepath.Join(t.TempDir(), "used")
	for _, dir := range []string{kept, gone, used} {
		p, err := s.places.take(context.Background(), dir)
		require.NoError(t, err)
		if dir != used {
			p.leave()
		}
	}
	s.places.sweep(time.Now().Add(-time.Hour))
	assert.Contains(t, s.places.byDir, kept)
	assert.Contains(t, s.places.byDir, used)
	assert.NotContains(t, s.places.byDir, gone, "its directory is not there")
	s.places.sweep(time.Now().Add(time.Hour))
	assert.NotContains(t, s.places.byDir, kept)
	assert.Contains(t, s.places.byDir, used, "what is in use stays")

	scratch, err := s.places.empty()
	require.NoError(t, err)
	again, err := s.places.empty()
	require.NoError(t, err)
	assert.Equal(t, scratch, again)
	require.NoError(t, os.Remove(scratch))
	other, err := s.places.empty()
	require.NoError(t, err)
	assert.DirExists(t, other)
	require.NoError(t, s.Close())
	assert.NoDirExists(t, other)
	_, err = s.places.take(context.Background(), kept)
	assert.ErrorIs(t, err, errClosed)
}

// ending is a session that does not end before stuck is closed.
func ending(t *testing.T) (conn *session, stuck chan struct{}) {
	t.Helper()
	conn, stuck = &session{wire: &wire{done: make(chan struct{})}}, make(chan struct{})
	close(conn.wire.done)
	began := make(chan struct{})
	go conn.closing.Do(func() {
		close(began)
		<-stuck
	})
	<-began
	return conn, stuck
}

// Whoever leaves a directory waits for all programs that were started there, also for those that were given up before.
func TestALeftDirectoryHasNoPrograms(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(*Server, *place){
		"nobody has used it": func(s *Server, p *place) {
			p.leave()
			s.places.sweep(time.Now().Add(time.Hour))
		},
		"others need its place": func(s *Server, p *place) {
			p.leave()
			s.places.mu.Lock()
			defer s.places.mu.Unlock()
			s.places.evict()
		},
		"it is broken": func(_ *Server, p *place) {
			_, _ = p.session(context.Background())
			p.leave()
		},
		"none": func(_ *Server, p *place) { p.leave() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := perDir(t), realDir(t.TempDir())
			p, err := s.places.take(context.Background(), dir)
			require.NoError(t, err)
			conn, stuck := ending(t)
			p.current = conn
			giveUp(s, p)
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			require.ErrorContains(t, s.Leave(ctx, dir), "has not ended yet")
			close(stuck)
			require.NoError(t, s.Leave(context.Background(), dir))
			require.Empty(t, s.leaving)
		})
	}
}

// A program that is still starting when its directory is left is not waited for.
func TestALeftDirectoryStartsNoProgram(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Name: "s", Command: []string{"sleep", "1000"}, PerDir: true, StartTimeout: time.Hour})
	require.NoError(t, err)
	dir := t.TempDir()
	p, err := s.places.take(context.Background(), realDir(dir))
	require.NoError(t, err)
	_, m := p.begin()
	require.NoError(t, s.Leave(context.Background(), dir))
	<-m.done
	require.ErrorIs(t, m.err, errClosed)
	p.leave()
	require.NoError(t, s.Close())
}

// A directory that is gone is still the one of which a program was started.
func TestADirectoryThatIsGoneIsLeft(t *testing.T) {
	t.Parallel()
	s, root := perDir(t), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(root, "link")))
	dir := filepath.Join(root, "link", "tree")
	require.NoError(t, os.Mkdir(dir, 0o700))
	p, err := s.places.take(context.Background(), realDir(dir))
	require.NoError(t, err)
	p.leave()
	require.NoError(t, os.Remove(dir))
	require.NoError(t, s.Leave(context.Background(), dir))
	require.Empty(t, s.places.byDir)
}

// A worker that is killed leaves its directory for listings. Another one removes it a day later, unless somebody put something in.
func TestDirectoriesThatAreLeft(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	t.Setenv("TMP", root)
	old := time.Now().Add(-2 * scratchTime)
	for _, name := range []string{"assent-mcp-left/", "assent-mcp-fresh/", "assent-mcp-full/x", "other/", "assent-mcp-file"} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o700))
		} else {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
	}
	for _, name := range []string{"assent-mcp-left", "assent-mcp-full", "other", "assent-mcp-file"} {
		require.NoError(t, os.Chtimes(filepath.Join(root, name), old, old))
	}
	s := perDir(t)
	scratch, err := s.places.empty()
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(scratch, old, old))
	again, err := s.places.empty()
	require.NoError(t, err)
	require.Equal(t, scratch, again)
	sweepScratch(time.Now().Add(-scratchTime))
	var names []string
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != filepath.Base(scratch) {
			names = append(names, e.Name())
		}
	}
	require.Equal(t, []string{"assent-mcp-file", "assent-mcp-fresh", "assent-mcp-full", "other"}, names)
	require.DirExists(t, scratch, "it was used just now")
}

func TestThePauseBeforeANewConnection(t *testing.T) {
	t.Parallel()
	assert.Zero(t, pause(0))
	assert.Equal(t, firstPause, pause(1))
	assert.Equal(t, 4*firstPause, pause(3))
	assert.Equal(t, mostPause, pause(1000))
}

func TestManyCallersShareOneConnection(t *testing.T) {
	t.Parallel()
	s := perDir(t)
	p, err := s.places.take(context.Background(), "/d")
	require.NoError(t, err)
	p.failures = 100 // so that the connection waits
	const callers = 8
	errs := make(chan error, callers)
	ctx, cancel := context.WithCancel(context.Background())
	for range callers {
		go func() {
			_, err := p.session(ctx)
			errs <- err
		}()
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.making != nil
	}, 3*time.Minute, time.Millisecond)
	p.mu.Lock()
	making := p.making
	p.mu.Unlock()
	cancel()
	for range callers {
		require.ErrorIs(t, <-errs, context.Canceled, "a caller waits no longer than its context")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Same(t, making, p.making, "the connection under way goes on without them")
}

func TestTextsAreCutWhereACharacterEnds(t *testing.T) {
	t.Parallel()
	s := quiet(t, Config{MaxResult: minResult})
	long := strings.Repeat("ä", minResult)
	assert.Equal(t, strings.Repeat("ä", minResult/2)+"…\n[cut: 1024 of 2048 bytes are shown]", s.bounded(long))
	value, err := s.result(&tool.Context{}, json.RawMessage(`{"structuredContent":"`+long+`"}`), "")
	require.NoError(t, err)
	assert.Contains(t, value, "[cut: 1024 of 2050 bytes are shown]")
	assert.Equal(t, "file:///a%20b/c", fileURI("/a b/c"))
	assert.Equal(t, "file:///C:/x", fileURI("C:/x"))
}

// An agent writes to the directory that such a program runs in.
func TestPythonTakesNoModuleOfAnAgentsTree(t *testing.T) {
	t.Parallel()
	s := perDir(t)
	assert.Equal(t, map[string]string{"PYTHONSAFEPATH": "1"}, s.program("/d").Env)
	assert.Empty(t, s.program("").Env)
	s.cfg.Env = map[string]string{"A": "b", "PYTHONSAFEPATH": ""}
	assert.Equal(t, map[string]string{"A": "b", "PYTHONSAFEPATH": ""}, s.program("/d").Env)
}
