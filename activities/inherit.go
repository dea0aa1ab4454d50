package activities

import (
	"slices"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// lineOf returns those of the agents above whose policy a profile inherits, outermost first: none if it does not say so, else
// the nearest, and the next one above as long as each says so itself. A profile that this worker does not have is an error.
func (e *Engine) lineOf(p config.Profile, above []protocol.Parent) ([]protocol.Parent, error) {
	from := len(above)
	for inherits := p.Permissions.InheritPermissions; inherits && from > 0; {
		from--
		parent, ok := e.cfg.Profiles[above[from].Profile]
		if !ok {
			return nil, e.unknownProfile(above[from].Profile)
		}
		inherits = parent.Permissions.InheritPermissions
	}
	return above[from:], nil
}

// inherited is what an agent of a profile takes from the agents above: their policy, and the guards that they demand.
func (e *Engine) inherited(p config.Profile, above []protocol.Parent) ([]protocol.Parent, []string, error) {
	line, err := e.lineOf(p, above)
	if err != nil {
		return nil, nil, err
	}
	guards := p.Guards
	for _, parent := range line {
		for _, g := range e.cfg.Profiles[parent.Profile].Guards {
			if !slices.Contains(guards, g) {
				guards = append(slices.Clone(guards), g)
			}
		}
	}
	return slices.Clone(line), guards, nil
}

// parent is the one layer that the agents above leave between the engine's and the agent's own.
func (e *Engine) parent(p config.Profile, above []protocol.Parent) (*permission.Layer, error) {
	line, err := e.lineOf(p, above)
	if err != nil || len(line) == 0 {
		return nil, err
	}
	layers := make([]permission.Layer, len(line))
	for i, one := range line {
		l := e.cfg.Profiles[one.Profile].Permissions
		if one.Tighten != nil {
			// Behind the preset's rules, as they stood for the parent itself.
			deny, ask, err := permission.CompilePreset(l.Preset)
			if err != nil {
				return nil, err
			}
			l.Deny, l.Ask, l.Preset = slices.Concat(l.Deny, deny, one.Tighten.Deny), slices.Concat(l.Ask, ask, one.Tighten.Ask), ""
		}
		layers[i] = l
	}
	out, err := permission.Concat(layers...)
	return &out, err
}
