package config

import (
	"slices"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// Line returns those of the agents above whose policy a profile inherits, outermost first: none if it does not say so, else
// the nearest, and the next one above as long as each says so itself. find looks a profile up; its error is Line's.
func Line(find func(name string) (Profile, error), p Profile, above []protocol.Above) ([]protocol.Above, error) {
	from := len(above)
	for inherits := p.Permissions.InheritPermissions; inherits && from > 0; {
		from--
		parent, err := find(above[from].Profile)
		if err != nil {
			return nil, err
		}
		inherits = parent.Permissions.InheritPermissions
	}
	return slices.Clone(above[from:]), nil
}

// ParentLayer is the one layer that a Line leaves between the engine's and a profile's, or nil.
func ParentLayer(find func(name string) (Profile, error), line []protocol.Parent) (*permission.Layer, error) {
	if len(line) == 0 {
		return nil, nil
	}
	layers := make([]permission.Layer, len(line))
	for i, one := range line {
		parent, err := find(one.Profile)
		if err != nil {
			return nil, err
		}
		if layers[i] = parent.Permissions; one.Tighten != nil {
			// Behind the preset's rules, as they stood for the parent itself.
			own := permission.Layer{Deny: one.Tighten.Deny, Ask: one.Tighten.Ask}
			if layers[i], err = permission.Concat(parent.Permissions, own); err != nil {
				return nil, err
			}
		}
	}
	out, err := permission.Concat(layers...)
	return &out, err
}
