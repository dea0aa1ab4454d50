package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// places are those of one server: a single one, or one for each directory.
type places struct {
	server *Server

	mu      sync.Mutex
	byDir   map[string]*place
	scratch string
	closed  bool
	stop    chan struct{}
	// freed is closed when somebody who waits for a place may look again.
	freed chan struct{}
}

// Bounds of the places of a server with PerDir.
const (
	// mostPlaces bounds programs that run at once. Who needs another one waits until one of them is idle.
	mostPlaces = 32
	// idleTime is how long a program is kept that nobody uses.
	idleTime = 5 * time.Minute
	// sweepTime is how often idle ones are looked for.
	sweepTime = 30 * time.Second
	// scratchName begins the name of an empty directory for listings, and scratchTime is when one is taken for left.
	scratchName = "assent-mcp-"
	scratchTime = 24 * time.Hour
)

// take returns the place of a directory, entered, and waits for one as long as ctx allows. The caller leaves it.
func (ps *places) take(ctx context.Context, dir string) (*place, error) {
	for {
		p, freed, err := ps.enter(dir)
		if freed == nil {
			return p, err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("it runs in %d directories already, and all of them are in use; try again when a call has ended", mostPlaces)
		}
	}
}

// enter returns the place of a directory, entered, or what is closed when there may be one.
func (ps *places) enter(dir string) (*place, <-chan struct{}, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		return nil, nil, errClosed
	}
	if p := ps.byDir[dir]; p != nil {
		p.enter()
		return p, nil, nil
	}
	if len(ps.byDir) >= mostPlaces && !ps.evict() {
		if ps.freed == nil {
			ps.freed = make(chan struct{})
		}
		return nil, ps.freed, nil
	}
	p := &place{server: ps.server, dir: dir, used: time.Now()}
	p.life, p.end = context.WithCancel(ps.server.life)
	if ps.byDir == nil {
		ps.byDir = map[string]*place{}
	}
	ps.byDir[dir] = p
	if dir != "" && ps.stop == nil {
		ps.stop = make(chan struct{})
		go ps.sweeping(ps.stop)
	}
	p.enter()
	return p, nil, nil
}

// free tells those who wait for a place to look again.
func (ps *places) free() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.freed != nil {
		close(ps.freed)
		ps.freed = nil
	}
}

// evict closes the place that has been idle longest; false if all are in use. The caller holds the lock.
func (ps *places) evict() bool {
	var oldest *place
	var since time.Time
	for _, p := range ps.byDir {
		if at, idle := p.idle(); idle && (oldest == nil || at.Before(since)) {
			oldest, since = p, at
		}
	}
	if oldest == nil {
		return false
	}
	delete(ps.byDir, oldest.dir)
	oldest.shut()
	ps.server.later(oldest.dir, oldest.close)
	return true
}

// forget takes a place from the others, which lets nobody in any more; nil if there is none.
func (ps *places) forget(dir string) *place {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byDir[dir]
	if dir == "" || p == nil {
		return nil
	}
	delete(ps.byDir, dir)
	p.shut()
	return p
}

// realDir is what the system calls a directory, because servers compare paths with that: /private/tmp is another name than /tmp. One
// that is gone is called as before.
func realDir(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		return filepath.Join(parent, filepath.Base(dir))
	}
	return dir
}

func (ps *places) sweeping(stop chan struct{}) {
	tick := time.NewTicker(sweepTime)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			ps.sweep(now.Add(-idleTime))
		}
	}
}

// sweep closes places that nobody has used since then, and those whose directory is gone.
func (ps *places) sweep(since time.Time) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for dir, p := range ps.byDir {
		at, idle := p.idle()
		if !idle {
			continue
		}
		if _, err := os.Stat(dir); at.Before(since) || os.IsNotExist(err) {
			delete(ps.byDir, dir)
			p.shut()
			ps.server.later(dir, p.close)
		}
	}
}

// empty is a directory with nothing in it, for listings.
func (ps *places) empty() (string, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	if ps.scratch != "" && os.Chtimes(ps.scratch, now, now) == nil {
		return ps.scratch, nil
	}
	sweepScratch(now.Add(-scratchTime))
	dir, err := os.MkdirTemp("", scratchName)
	if err != nil {
		return "", fmt.Errorf("make an empty directory: %w", err)
	}
	ps.scratch = realDir(dir)
	return ps.scratch, nil
}

// sweepScratch removes what workers that were killed have left, if nothing is in it and nobody has listed there since then.
func sweepScratch(since time.Time) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && strings.HasPrefix(e.Name(), scratchName) && info.ModTime().Before(since) {
			_ = os.Remove(filepath.Join(os.TempDir(), e.Name())) // fails if there is something in it
		}
	}
}

// close ends all places at once and waits for them.
func (ps *places) close() error {
	ps.mu.Lock()
	all, scratch := ps.byDir, ps.scratch
	if ps.stop != nil && !ps.closed {
		close(ps.stop)
	}
	ps.byDir, ps.scratch, ps.closed = nil, "", true
	ps.mu.Unlock()
	ps.free()
	var wait sync.WaitGroup
	for _, p := range all {
		wait.Go(p.close)
	}
	wait.Wait()
	if scratch == "" {
		return nil
	}
	return os.RemoveAll(scratch)
}
