package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

const (
	// sourceTime bounds one listing of a source, which may have to fetch its server first. Sources are asked at once, within
	// the minute that ResolveToolset has.
	sourceTime = 30 * time.Second
	// sourceFresh is how long what a source offered is taken for what it offers, where a tool is about to run.
	sourceFresh = time.Minute
	// sourceLeast is the same for a source that says that it has changed, however often it does.
	sourceLeast = time.Second
)

// source keeps what a tool.Source offered when it was last asked, so that the calls of an agent find the tools that it
// froze. A worker that has not asked yet, because another one resolved the agent, asks at the first call.
type source struct {
	tool.Source
	name string

	mu   sync.Mutex
	defs []*tool.Def
	// listed is when defs were asked for, and failed when that was last tried in vain before a call, if it has not answered since.
	listed, failed time.Time
	// notice is the question under way whether it has changed, if any.
	notice *notice
	// running is the listing under way, if any: a source that never answers has one goroutine, and not one for each call.
	running *listing
}

// listing is one question to a source. Its answer may be read when done is closed.
type listing struct {
	done  chan struct{}
	began time.Time
	defs  []*tool.Def
	err   error
}

func newSources(list []tool.Source, taken func(name string) bool) ([]*source, error) {
	var out []*source
	for i, s := range list {
		key := fmt.Sprintf("Sources[%d]", i)
		if s == nil {
			return nil, fault.Configf(key, "is nil")
		}
		name, err := nameOf(s)
		switch {
		case err != nil:
			return nil, fault.Configf(key, "has no name: %v", err)
		case name == "":
			return nil, fault.Configf(key, "has no name")
		case taken(name), slices.ContainsFunc(out, func(o *source) bool { return o.name == name }):
			return nil, fault.Configf(key, "the name %q is taken by a tool, a toolset or another source", name)
		}
		out = append(out, &source{Source: s, name: name})
	}
	return out, nil
}

// nameOf asks a source for its name, once.
func nameOf(s tool.Source) (name string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return s.Name(), nil
}

// list asks the source what it offers, or waits for whoever asks it now. Nothing that the source does takes the worker
// down, and nobody waits for it longer than ctx allows.
func (s *source) list(ctx context.Context) ([]*tool.Def, error) {
	wait, cancel := ahead(ctx)
	defer cancel()
	s.mu.Lock()
	l := s.running
	if l == nil {
		l = &listing{done: make(chan struct{}), began: time.Now(), err: errors.New("it ended without an answer")}
		s.running = l
		go s.ask(context.WithoutCancel(ctx), l)
	}
	s.mu.Unlock()
	late := time.NewTimer(sourceTime + time.Second)
	defer late.Stop()
	err := errors.New("it does not answer")
	select {
	case <-l.done:
		err = l.err
	case <-wait.Done():
	case <-late.C:
	}
	if err != nil {
		return nil, fmt.Errorf("list tools of source %q: %w", s.name, err)
	}
	return slices.Clone(l.defs), nil
}

func (s *source) ask(ctx context.Context, l *listing) {
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	defer func() { // also if the source ends its goroutine
		if p := recover(); p != nil {
			l.err = fmt.Errorf("panic: %v", p)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running = nil; l.err == nil {
			s.defs, s.listed, s.failed = l.defs, l.began, time.Time{}
		}
		close(l.done)
	}()
	defs, err := s.Tools(ctx)
	if err == nil && slices.Contains(defs, nil) {
		err = errors.New("one of them is nil")
	}
	l.defs, l.err = slices.Clone(defs), err
}

// leaveTime bounds the end of what sources keep for a directory. One that takes longer delays nobody.
const leaveTime = 20 * time.Second

// leave ends what sources keep for a directory of which the work is collected, or which is removed: it would write to what
// nobody looks at any more, or while the work is read.
func (e *Engine) leave(ctx context.Context, dir string) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	left := make(chan struct{}, len(e.sources))
	for _, s := range e.sources {
		go func() {
			defer func() { left <- struct{}{} }() // also if the source ends its goroutine
			if err := s.leave(ctx, dir); err != nil {
				e.log.Warn("assent: a source of tools does not leave a directory", "source", s.name, "dir", dir, "error", err)
			}
		}()
	}
	for range e.sources {
		select {
		case <-left:
		case <-ctx.Done():
		}
	}
}

// leave is that of one source, whatever it does.
func (s *source) leave(ctx context.Context, dir string) (err error) {
	l, ok := s.Source.(tool.Leaver)
	if !ok || dir == "" {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return l.Leave(ctx, dir)
}

// silent puts down that the source does not say whether a tool has changed.
func (s *source) silent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = time.Now()
}

// kept returns a tool that the source offered when it was last asked, or nil, and whether that was just now. One that did not
// answer just now, and has not said since that it has changed, is not asked again: it would cost each call the time that it has
// for an answer.
func (s *source) kept(name string) (d *tool.Def, fresh bool) {
	d, listed, failed := s.last(name)
	age := time.Since(listed)
	if age < sourceLeast {
		return d, true
	}
	if age >= sourceFresh && time.Since(failed) >= sourceFresh {
		return d, false
	}
	changed, said := s.changed()
	fresh = age < sourceFresh && said && !changed.After(listed)
	return d, fresh || time.Since(failed) < sourceFresh && !changed.After(failed)
}

// last returns a tool that the source offered when it was last asked, or nil, when that was, and since when it does not answer.
func (s *source) last(name string) (d *tool.Def, listed, failed time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.defs {
		if d.Name() == name {
			return d, s.listed, s.failed
		}
	}
	return nil, s.listed, s.failed
}

// notice is one question to a source whether it has changed. Its answer may be read when done is closed.
type notice struct {
	done chan struct{}
	at   time.Time
}

// noticeTime is how long a source may take to say whether it has changed. One that is busy with a listing may not say it before.
const noticeTime = time.Second

// changed is when the source says that it has changed, and whether it says so in time.
func (s *source) changed() (at time.Time, said bool) {
	c, ok := s.Source.(tool.Changer)
	if !ok {
		return time.Time{}, true
	}
	s.mu.Lock()
	n := s.notice
	if n == nil {
		n = &notice{done: make(chan struct{})}
		s.notice = n
		go s.hear(c, n)
	}
	s.mu.Unlock()
	late := time.NewTimer(noticeTime)
	defer late.Stop()
	select {
	case <-n.done:
		return n.at, true
	case <-late.C:
		return time.Time{}, false
	}
}

// hear waits for what a source says, whatever it does.
func (s *source) hear(c tool.Changer, n *notice) {
	defer func() {
		_ = recover()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notice = nil
		close(n.done)
	}()
	n.at = c.Changed()
}

// source returns the source of a name, or nil.
func (e *Engine) source(name string) *source {
	for _, s := range e.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

// served returns the tool of a call as far as this worker has it, and asks nobody.
func (e *Engine) served(call tool.Call) *tool.Def {
	if s := e.source(call.Source); s != nil {
		d, _, _ := s.last(call.Name)
		return d
	}
	def, _ := e.cfg.Pipeline.Lookup(call.Name)
	return def
}
