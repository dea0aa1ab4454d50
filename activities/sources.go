package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

// sourceTime bounds one listing of a source.
const sourceTime = 10 * time.Second

// source keeps what a tool.Source offered when it was last asked, so that the calls of an agent find the tools that it
// froze. A worker that has not asked yet, because another one resolved the agent, asks at the first call.
type source struct {
	tool.Source
	mu   sync.Mutex
	defs []*tool.Def
}

func newSources(list []tool.Source, taken func(name string) bool) ([]*source, error) {
	var out []*source
	for i, s := range list {
		key := fmt.Sprintf("Sources[%d]", i)
		if s == nil {
			return nil, fault.Configf(key, "is nil")
		}
		name := s.Name()
		switch {
		case name == "":
			return nil, fault.Configf(key, "has no name")
		case taken(name), slices.ContainsFunc(out, func(o *source) bool { return o.Name() == name }):
			return nil, fault.Configf(key, "the name %q is taken by a tool, a toolset or another source", name)
		}
		out = append(out, &source{Source: s})
	}
	return out, nil
}

// list asks the source what it offers. Nothing that it does takes the worker down.
func (s *source) list(ctx context.Context) (defs []*tool.Def, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			defs, err = nil, fmt.Errorf("list tools of source %q: panic: %v", s.Name(), p)
		}
	}()
	if defs, err = s.Tools(ctx); err != nil {
		return nil, fmt.Errorf("list tools of source %q: %w", s.Name(), err)
	}
	if slices.Contains(defs, nil) {
		return nil, fmt.Errorf("list tools of source %q: one of them is nil", s.Name())
	}
	s.defs = slices.Clone(defs)
	return defs, nil
}

func (s *source) kept(name string) *tool.Def {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.defs {
		if d.Name() == name {
			return d
		}
	}
	return nil
}

// source returns the source of a name, or nil.
func (e *Engine) source(name string) *source {
	for _, s := range e.sources {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// lookup returns the tool that this worker serves under a name: one that is mounted, else one that a source offers.
// Sources are asked again for a contract that they did not offer when they were last asked.
func (e *Engine) lookup(ctx context.Context, name, contract string) (*tool.Def, bool) {
	if def, ok := e.cfg.Pipeline.Lookup(name); ok {
		return def, true
	}
	var other *tool.Def
	for _, s := range e.sources {
		switch d := s.kept(name); {
		case d == nil:
		case d.ContractHash() == contract:
			return d, true
		default:
			other = d
		}
	}
	for _, s := range e.sources {
		if _, err := s.list(ctx); err != nil {
			e.log.Warn("assent: a source of tools does not answer", "source", s.Name(), "error", err)
			continue
		}
		if d := s.kept(name); d != nil {
			if d.ContractHash() == contract {
				return d, true
			}
			other = d
		}
	}
	return other, other != nil
}
