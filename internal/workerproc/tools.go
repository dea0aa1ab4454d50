package workerproc

import (
	"context"
	"errors"
	"fmt"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worktree"
)

// tools returns the first-party tools and their sets. What shell and exec really run, after expansion, is held
// against the deny rules once more.
func tools(f *config.File, p *policies) ([]*tool.Def, map[string][]string, error) {
	cfg := toolbox.Config{
		Shell: toolbox.ShellConfig{Engine: f.Worker.Shell.Engine, Env: f.Worker.Shell.Env},
		Exec:  toolbox.ExecConfig{Env: f.Worker.Shell.Env, Deny: p.denier("exec")},
	}
	if f.Worker.Shell.Engine != config.ShellSh {
		// The real shell cannot be looked into; its commands are judged as written, before they run.
		cfg.Shell.Deny = p.denier("shell")
	}
	defs, err := toolbox.All(cfg)
	if err != nil {
		return nil, nil, err
	}
	var files []string
	for _, d := range toolbox.Files() {
		files = append(files, d.Name())
	}
	return defs, map[string][]string{toolbox.FilesSet: files}, nil
}

// policies are the compiled chains of the profiles, for rules that are enforced while a tool runs.
type policies struct {
	chains map[policyKey]*permission.Chain
}

// policyKey names a chain; the empty profile is the engine's layer alone.
type policyKey struct {
	profile  string
	readonly bool
}

func newPolicies(f *config.File) (*policies, error) {
	p := &policies{chains: map[policyKey]*permission.Chain{}}
	layers := map[string]permission.Layer{"": {}}
	for name, profile := range f.Profiles {
		layers[name] = profile.Permissions
	}
	for name, layer := range layers {
		for _, readonly := range []bool{false, true} {
			chain, err := permission.Compile(permission.Spec{Engine: f.Engine, Profile: layer, Readonly: readonly})
			if err != nil {
				return nil, err
			}
			p.chains[policyKey{name, readonly}] = chain
		}
	}
	return p, nil
}

type policyKeyInContext struct{}

// plugin tells the tools, through the context of a call, on whose behalf they run.
func (p *policies) plugin() pipeline.Plugin {
	return pipeline.PluginFunc("run-time rules", func(s *pipeline.Scope) error {
		return s.Wrap(func(ctx context.Context, call pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
			key := policyKey{readonly: call.Isolation == string(worktree.Readonly)}
			if call.Agent != nil {
				key.profile = call.Agent.Type
			}
			return next(context.WithValue(ctx, policyKeyInContext{}, key)), nil
		})
	})
}

// denier is asked about every program that a tool really starts. Every doubt denies.
func (p *policies) denier(toolName string) func(context.Context, []string) error {
	return func(ctx context.Context, argv []string) error {
		key, ok := ctx.Value(policyKeyInContext{}).(policyKey)
		if !ok {
			return errors.New("it is not known on whose behalf the command runs")
		}
		chain, ok := p.chains[key]
		if !ok {
			return fmt.Errorf("this worker has no profile %q", key.profile)
		}
		rule := chain.DenyArgv(toolName, argv)
		switch {
		case rule == nil:
			return nil
		case rule.Reason != "":
			return fmt.Errorf("deny-rule %s: %s", rule, rule.Reason)
		}
		return fmt.Errorf("deny-rule %s", rule)
	}
}
