package pipeline

import (
	"cmp"
	"slices"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

// entry is one registration of a plugin. Exactly one of its functions, or def, is set.
type entry struct {
	owner string
	// name is the name of a guard.
	name     string
	def      *tool.Def
	pre      Listener
	guard    Guard
	wrap     Wrapper
	post     Post
	observe  Observer
	approver Approver
	// live is false while the plugin is mounting: the name is taken, but no call sees it.
	live bool
}

// snapshot is what calls see: an immutable copy of the live entries, in order of registration.
type snapshot struct {
	tools     map[string]*entry
	pre       []*entry
	guards    []*entry
	wraps     []*entry
	posts     []*entry
	observers []*entry
	approver  *entry
}

func newSnapshot(entries []*entry) *snapshot {
	s := &snapshot{tools: map[string]*entry{}}
	for _, e := range entries {
		switch {
		case !e.live:
		case e.def != nil:
			s.tools[e.def.Name()] = e
		case e.pre != nil:
			s.pre = append(s.pre, e)
		case e.guard != nil:
			s.guards = append(s.guards, e)
		case e.wrap != nil:
			s.wraps = append(s.wraps, e)
		case e.post != nil:
			s.posts = append(s.posts, e)
		case e.observe != nil:
			s.observers = append(s.observers, e)
		case e.approver != nil:
			s.approver = e
		}
	}
	return s
}

// guardsWith returns the guards of s and then those that only now has.
func (s *snapshot) guardsWith(now *snapshot) []*entry {
	if s == now {
		return s.guards
	}
	union := slices.Clone(s.guards)
	for _, g := range now.guards {
		if !slices.Contains(union, g) {
			union = append(union, g)
		}
	}
	return union
}

// key names what there is once, and is empty for what may come twice.
func (e *entry) key() string {
	switch {
	case e.def != nil:
		return "tool " + e.def.Name()
	case e.guard != nil:
		return "guard " + e.name
	}
	return ""
}

// take takes the name of e, or returns a ConfigError when another one has it. The caller holds the lock.
func (p *Pipeline) take(e *entry) error {
	key := e.key()
	if key == "" {
		return nil
	}
	if other, taken := p.taken[key]; taken {
		return fault.Configf(key, "plugin %q registers it, but plugin %q already has", e.owner, other.owner)
	}
	p.taken[key] = e
	return nil
}

// Lookup returns the mounted tool of that name.
func (p *Pipeline) Lookup(name string) (*tool.Def, bool) {
	e, ok := p.live.Load().tools[name]
	if !ok {
		return nil, false
	}
	return e.def, true
}

// Tools returns the mounted tools, sorted by name.
func (p *Pipeline) Tools() []*tool.Def {
	defs := []*tool.Def{}
	for _, e := range p.live.Load().tools {
		defs = append(defs, e.def)
	}
	slices.SortFunc(defs, func(a, b *tool.Def) int { return cmp.Compare(a.Info().Name, b.Info().Name) })
	return defs
}

// GuardNames returns the names of the mounted guards, sorted.
func (p *Pipeline) GuardNames() []string {
	names := []string{}
	for _, e := range p.live.Load().guards {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return names
}
