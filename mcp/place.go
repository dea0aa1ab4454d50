package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// place is where one session is kept: for the server as a whole, or for one directory. At most one connection is made at a
// time, by a goroutine of its own, and everybody who needs it waits for that.
type place struct {
	server *Server
	dir    string
	// life is the context of its connections; end ends it.
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	current *session
	making  *making
	// failures counts connections in a row that were not made, or broke before they were of use.
	failures int
	lastErr  error
	// users are calls under way; used is when the last one ended.
	users  int
	used   time.Time
	closed bool
}

// making is a connection under way. Its result may be read when done is closed.
type making struct {
	done chan struct{}
	conn *session
	err  error
}

const (
	// firstPause and mostPause are how long a new connection waits after one failure and after many.
	firstPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
)

var errClosed = errors.New("the server is closed")

// session returns the session of the place, making one if there is none. It waits as long as ctx allows, also for the answer of a
// program that is asked whether it hangs: a call of one that does takes its whole time, and keeps it from being replaced.
func (p *place) session(ctx context.Context) (*session, error) {
	for {
		conn, m := p.begin()
		if m != nil {
			select {
			case <-m.done:
				return m.conn, m.err
			case <-ctx.Done():
				return nil, p.late(ctx.Err())
			}
		}
		if conn == nil {
			return nil, errClosed
		}
		asked := conn.asked()
		if asked == nil {
			return conn, nil
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return nil, fmt.Errorf("it is asked whether it hangs, and has not answered: %w", ctx.Err())
		}
	}
}

// begin returns the session there is, or the making of one; neither if the place is closed.
func (p *place) begin() (*session, *making) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil
	}
	if p.current != nil && p.current.broken() {
		p.drop()
	}
	if p.current != nil {
		return p.current, nil
	}
	if p.making == nil {
		p.making = &making{done: make(chan struct{}), err: errClosed}
		go p.make(p.making, pause(p.failures))
	}
	return nil, p.making
}

// late is the error of who did not wait long enough.
func (p *place) late(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastErr != nil {
		return fmt.Errorf("it is not connected yet: %w; the last attempt: %s", err, p.lastErr)
	}
	return fmt.Errorf("it is not connected yet: %w", err)
}

// drop forgets the current session and ends it. The caller holds the lock.
func (p *place) drop() {
	if p.failures++; p.current.wasUseful() {
		p.failures = 0
	}
	p.server.later(p.dir, p.current.close)
	p.current = nil
}

func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(firstPause<<min(failures-1, 10), mostPause)
}

// make makes a connection in the server's own time, so that it outlives whoever asked for it first.
func (p *place) make(m *making, wait time.Duration) {
	ctx, cancel := context.WithTimeout(p.life, wait+connectTime(p.server.cfg.StartTimeout))
	defer cancel()
	conn, err := p.try(ctx, wait)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(m.done)
	p.making = nil
	switch {
	case p.closed && conn != nil:
		p.server.later(p.dir, conn.close)
	case p.closed:
	case err != nil:
		p.failures++
		m.err, p.lastErr = err, err
	default:
		m.conn, m.err, p.current = conn, nil, conn
	}
}

// connectTime is a little less than whoever starts the server waits, so that the reason is told.
func connectTime(most time.Duration) time.Duration { return most - min(most/10, time.Second) }

func (p *place) try(ctx context.Context, wait time.Duration) (*session, error) {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, errClosed
		}
	}
	return p.server.connect(ctx, p.dir)
}

// enter and leave count who uses the place, so that it is not closed meanwhile.
func (p *place) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
}

func (p *place) leave() {
	p.mu.Lock()
	p.users--
	p.used = time.Now()
	idle := p.users == 0
	p.mu.Unlock()
	if idle {
		p.server.places.free()
	}
}

// idle is since when nobody has used the place; false while somebody does.
func (p *place) idle() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.users == 0
}

// shut lets nobody in any more, and gives up a connection that is being made.
func (p *place) shut() {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// close ends the place and waits for its session to end.
func (p *place) close() {
	p.shut()
	p.mu.Lock()
	conn, m := p.current, p.making
	p.current = nil
	p.mu.Unlock()
	if conn != nil {
		conn.close()
	}
	if m != nil {
		<-m.done
	}
}
