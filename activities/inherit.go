package activities

import (
	"slices"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/protocol"
)

// profile is one that this worker has.
func (e *Engine) profile(name string) (config.Profile, error) {
	p, ok := e.cfg.Profiles[name]
	if !ok {
		return p, e.unknownProfile(name)
	}
	return p, nil
}

// inherited is what an agent of a profile takes from the agents above: their policy, and the guards that they demand.
func (e *Engine) inherited(p config.Profile, above []protocol.Parent) ([]protocol.Parent, []string, error) {
	line, err := config.Line(e.profile, p, above)
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
	return line, guards, nil
}
