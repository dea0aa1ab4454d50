package activities

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
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
func (e *Engine) inherited(ctx context.Context, p config.Profile, req protocol.ResolveRequest) ([]protocol.Parent, []string, error) {
	if req.Lineage == nil {
		return nil, p.Guards, nil
	}
	line, err := config.Line(e.profile, p, req.Lineage.Parents)
	if err != nil {
		return nil, nil, err
	}
	if len(line) > 0 && !e.cfg.Keys.VerifyLineage(*req.Lineage, activity.GetInfo(ctx).WorkflowNamespace, req.ParentRun) {
		return nil, nil, fault.Configf("inheritPermissions", "nothing proves which agents are above: what spawned profile %q has no grant key of this worker's", p.Name)
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
