package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assent-dev/assent/tool"
)

// Server is one MCP server as a source of tools. It is safe for concurrent use.
type Server struct {
	cfg     Config
	say     *notices
	web     *web
	places  *places
	silence silence
	// life is the context of connections; end ends it.
	life context.Context
	end  context.CancelFunc

	// changed is when a session last told that the list of tools is another one, in nanoseconds of Unix time.
	changed atomic.Int64

	mu sync.Mutex
	// offered and refused are of the last listing.
	offered []*tool.Def
	refused []Refused
	// ending counts sessions that are being closed, until closed is set; leaving does by directory.
	ending  sync.WaitGroup
	closed  bool
	leaving map[string]*leaving
}

// Refused is a tool that is not offered, and why.
type Refused struct {
	// Name is the server's own, without the prefix, and shortened if it is very long.
	Name string
	Why  string
}

// New checks everything that can be known without the server. Nothing is started or sent. Errors are *fault.ConfigError.
func New(c Config) (*Server, error) {
	c.clone()
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Server{cfg: c, say: &notices{log: c.Log}, silence: silence{call: silentCall, ping: silentPing}, leaving: map[string]*leaving{}}
	if names := s.Unset(); len(names) > 0 {
		c.Log.Warn("assent: an MCP server is to get variables that the worker does not have", "passEnv", names)
	}
	if c.URL != "" {
		s.web = newWeb(&s.cfg, s.say)
	}
	s.places = &places{server: s}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Name is that of the source.
func (s *Server) Name() string { return s.cfg.Name }

// Start connects and lists the tools once, so that what is wrong is known before an agent needs them. It ends after
// StartTimeout. A configuration that does not fit the server is a *fault.ConfigError.
func (s *Server) Start(ctx context.Context) error {
	_, err := s.Tools(ctx)
	return err
}

// Tools asks the server anew what it offers. Tools that cannot be offered are left out, see Refused; a name in the
// configuration that the server does not have is a *fault.ConfigError. It is the only method that a tool.Source needs beside
// Name.
func (s *Server) Tools(ctx context.Context) ([]*tool.Def, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	list, err := s.list(ctx)
	if err != nil {
		return nil, s.wrong(err)
	}
	defs, refused, err := s.define(ctx, list)
	if err != nil {
		return nil, err
	}
	for _, r := range refused {
		if r.faulty {
			s.say.once("refused "+r.Name, "assent: a tool of an MCP server is not offered", "tool", r.Name, "reason", r.Why)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered, s.refused = defs, nil
	for _, r := range refused {
		s.refused = append(s.refused, r.Refused)
	}
	return slices.Clone(defs), nil
}

// wrong says which server an error is of.
func (s *Server) wrong(err error) error {
	if isConfig(err) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("mcp server %q: no answer in time: %w", s.cfg.Name, err)
	}
	return fmt.Errorf("mcp server %q: %w", s.cfg.Name, err)
}

// Changed is when the server last told that its list of tools is another one; the zero time if it never did. Over HTTP that is heard
// only while a request is open.
func (s *Server) Changed() time.Time {
	if at := s.changed.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Refused returns the tools of the last listing that are not offered, and why.
func (s *Server) Refused() []Refused {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// Unset returns the names in PassEnv that are not set here. The program starts without them.
func (s *Server) Unset() []string {
	return slices.DeleteFunc(slices.Clone(s.cfg.PassEnv), func(name string) bool {
		_, set := os.LookupEnv(name)
		return set
	})
}

// names are the tools of the last listing.
func (s *Server) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, d := range s.offered {
		names = append(names, d.Name())
	}
	return names
}

// leaving counts what ends in one directory; done is closed when there is nothing left.
type leaving struct {
	count int
	done  chan struct{}
}

// later closes something of a directory that nobody waits for but Close, and who leaves the directory.
func (s *Server) later(dir string, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leaving[dir]
	if l == nil {
		l = &leaving{done: make(chan struct{})}
		s.leaving[dir] = l
	}
	l.count++
	run := func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.count--; l.count == 0 {
			delete(s.leaving, dir)
			close(l.done)
		}
	}
	if s.closed {
		go run()
		return
	}
	s.ending.Go(run)
}

// left is closed when nothing ends in a directory; nil if that is so.
func (s *Server) left(dir string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leaving[dir]; l != nil {
		return l.done
	}
	return nil
}

// Leave ends the programs of a directory, and returns when they have ended with all that they have started, also those that were
// given up before. Calls under way fail.
func (s *Server) Leave(ctx context.Context, dir string) error {
	real := realDir(dir)
	if p := s.places.forget(real); p != nil {
		s.later(real, p.close)
	}
	left := s.left(real)
	if dir == "" || left == nil {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mcp server %q: its program for %s has not ended yet: %w", s.cfg.Name, dir, ctx.Err())
	}
}

// Close ends sessions and programs, and returns when they have ended. Calls under way and later ones fail.
func (s *Server) Close() error {
	s.end()
	err := s.places.close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.ending.Wait()
	}()
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
	if s.web != nil {
		s.web.close()
	}
	return err
}
