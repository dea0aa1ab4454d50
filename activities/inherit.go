package activities

import (
	"context"
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
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
	if len(line) > 0 && !e.cfg.Keys.VerifyLineage(*req.Lineage, activity.GetInfo(ctx).Namespace, req.ParentRun) {
		return nil, nil, fault.Configf("inheritPermissions", "nothing proves which agents are above: what spawned profile %q has no grant key of this worker's", p.Name)
	}
	out, guards := make([]protocol.Parent, len(line)), p.Guards
	for i, parent := range line {
		out[i] = protocol.Parent{Profile: parent.Profile}
		if out[i].Tighten, err = e.unseal(parent); err != nil {
			return nil, nil, err
		}
		for _, g := range e.cfg.Profiles[parent.Profile].Guards {
			if !slices.Contains(guards, g) {
				guards = append(slices.Clone(guards), g)
			}
		}
	}
	return out, guards, nil
}

// unseal reads the rules that an agent above brought.
func (e *Engine) unseal(p protocol.Above) (*protocol.Tighten, error) {
	if p.Digest == "" && len(p.Rules) == 0 {
		return nil, nil
	}
	var payload commonpb.Payload
	var t protocol.Tighten
	err := payload.Unmarshal(p.Rules)
	if err == nil {
		err = e.converter().FromPayload(&payload, &t)
	}
	if err != nil {
		return nil, &fault.ConfigError{Key: "inheritPermissions", Msg: fmt.Sprintf("the rules of the agent %q above cannot be read", p.Profile), Cause: err}
	}
	if sum, err := t.Digest(); err != nil || sum != p.Digest {
		return nil, fault.Configf("inheritPermissions", "the rules of the agent %q above are not those that it had", p.Profile)
	}
	return &t, nil
}
