package pipeline

import (
	"fmt"
	"regexp"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

var guardName = regexp.MustCompile(`\A[a-zA-Z0-9_.-]{1,64}\z`)

const mostPluginName = 200

// ClosedError reports a registration on a scope, or a mount on a pipeline, whose closing has begun.
type ClosedError struct {
	// Plugin is the name of the plugin that came too late.
	Plugin string
}

func (e *ClosedError) Error() string { return fmt.Sprintf("plugin %q: already closed", e.Plugin) }

// Scope holds what one plugin has registered and undoes it when it closes. It is safe for concurrent use,
// by its plugin during Mount and for as long as it is open.
type Scope struct {
	pipeline *Pipeline
	plugin   string
	// All below is guarded by pipeline.mu.
	mounted, closing bool
	entries          []*entry
	onClose          []func()
}

// Mount lets the plugin register on a new Scope. What it registers becomes visible to calls at once, when
// its Mount has returned without an error; otherwise, also after a panic, everything is rolled back and the
// error, which wraps the plugin's own, returned. A plugin without a name, or
// with one of more than 200 bytes, is a ConfigError: histories hold it.
func (p *Pipeline) Mount(plugin Plugin) (*Scope, error) {
	if plugin == nil {
		return nil, fault.Configf("plugin", "is nil")
	}
	name, err := contain(func() (string, error) { return plugin.Name(), nil })
	if err != nil {
		return nil, fmt.Errorf("mount plugin: its name: %w", err)
	}
	switch {
	case name == "":
		return nil, fault.Configf("plugin", "has no name")
	case len(name) > mostPluginName:
		return nil, fault.Configf("plugin", "has a name of %d bytes, more than %d", len(name), mostPluginName)
	}
	s := &Scope{pipeline: p, plugin: name}
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		return nil, &ClosedError{Plugin: name}
	}
	p.scopes = append(p.scopes, s)
	p.mu.Unlock()

	// A plugin that ends its goroutine (runtime.Goexit) never comes back here; the defer still rolls back.
	returned := false
	defer func() {
		if !returned {
			s.Close()
		}
	}()
	_, err = contain(func() (struct{}, error) { return struct{}{}, plugin.Mount(s) })
	if err == nil {
		err = s.publish()
	}
	if err != nil {
		s.Close()
		returned = true
		return nil, fmt.Errorf("mount plugin %q: %w", name, err)
	}
	returned = true
	return s, nil
}

// publish shows everything that the plugin registered while mounting.
func (s *Scope) publish() error {
	p := s.pipeline
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closing {
		return &ClosedError{Plugin: s.plugin}
	}
	s.mounted = true
	for _, e := range s.entries {
		e.live = true
	}
	p.live.Store(newSnapshot(p.entries))
	return nil
}

// Tool registers a tool. A name that is already registered is a ConfigError.
func (s *Scope) Tool(def *tool.Def) error {
	if def == nil {
		return s.missing("tool")
	}
	return s.register(&entry{def: def})
}

// Pre registers a listener of stage 1, inside those already registered.
func (s *Scope) Pre(fn Listener) error {
	if fn == nil {
		return s.missing("pre-execute listener")
	}
	return s.register(&entry{pre: fn})
}

// Guard registers a guard of stage 2 under a name that profiles can require: 1 to 64 letters, digits, dots,
// dashes or underscores, and not yet registered; anything else is a ConfigError.
func (s *Scope) Guard(name string, fn Guard) error {
	if fn == nil {
		return s.missing("guard " + name)
	}
	if !guardName.MatchString(name) {
		return fault.Configf("plugin "+s.plugin, "guard name %q does not match %s", name, guardName)
	}
	return s.register(&entry{name: name, guard: fn})
}

// Wrap registers a wrapper of stage 3, inside those already registered.
func (s *Scope) Wrap(fn Wrapper) error {
	if fn == nil {
		return s.missing("wrapper")
	}
	return s.register(&entry{wrap: fn})
}

// Post registers a listener of stage 4, inside those already registered.
func (s *Scope) Post(fn Post) error {
	if fn == nil {
		return s.missing("post-execute listener")
	}
	return s.register(&entry{post: fn})
}

// Observe registers an observer of stage 5.
func (s *Scope) Observe(fn Observer) error {
	if fn == nil {
		return s.missing("observer")
	}
	return s.register(&entry{observe: fn})
}

// Approver registers who answers calls that have to be asked about. The newest alone answers, until its scope closes.
func (s *Scope) Approver(fn Approver) error {
	if fn == nil {
		return s.missing("approver")
	}
	return s.register(&entry{approver: fn})
}

// OnClose registers fn to run when the scope closes or its mounting fails, last registered first.
// When it returns an error, fn will never run.
func (s *Scope) OnClose(fn func()) error {
	if fn == nil {
		return s.missing("close function")
	}
	s.pipeline.mu.Lock()
	defer s.pipeline.mu.Unlock()
	if s.closing {
		return &ClosedError{Plugin: s.plugin}
	}
	s.onClose = append(s.onClose, fn)
	return nil
}

func (s *Scope) missing(what string) error {
	return fault.Configf("plugin "+s.plugin, "%s is nil", what)
}

func (s *Scope) register(e *entry) error {
	p := s.pipeline
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closing {
		return &ClosedError{Plugin: s.plugin}
	}
	e.owner, e.live = s.plugin, s.mounted
	if err := p.take(e); err != nil {
		return err
	}
	p.entries = append(p.entries, e)
	s.entries = append(s.entries, e)
	if e.live {
		p.live.Store(newSnapshot(p.entries))
	}
	return nil
}

// Close undoes what was registered: all registrations disappear in one step, so that no call ever sees a
// tool without the guard that came with it, and then the OnClose functions run, last registered first, each
// with its panic contained. Calls in flight finish with what they started with. A second Close does
// nothing and does not wait for the first, so a listener or an OnClose function may close its own scope.
func (s *Scope) Close() {
	p := s.pipeline
	p.mu.Lock()
	if s.closing {
		p.mu.Unlock()
		return
	}
	s.closing = true
	p.remove(s)
	onClose := s.onClose
	s.entries, s.onClose = nil, nil
	p.mu.Unlock()
	for i := len(onClose) - 1; i >= 0; i-- {
		_, err := contain(func() (struct{}, error) { onClose[i](); return struct{}{}, nil })
		if err != nil {
			p.logFailure(nil, "close function failed", s.plugin, err)
		}
	}
}
