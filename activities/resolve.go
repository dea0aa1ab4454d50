package activities

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// ResolveToolset freezes what an agent may use for its life: tools, models, limits, isolation.
func (e *Engine) ResolveToolset(ctx context.Context, req protocol.ResolveRequest) (protocol.ResolveResponse, error) {
	resp, err := e.resolve(ctx, req)
	return resp, wire(err)
}

func (e *Engine) resolve(ctx context.Context, req protocol.ResolveRequest) (protocol.ResolveResponse, error) {
	in := req.Input
	var resp protocol.ResolveResponse
	p, ok := e.cfg.Profiles[in.AgentType]
	if !ok {
		return resp, e.unknownProfile(in.AgentType)
	}
	names, err := e.models(in, p)
	if err != nil {
		return resp, err
	}
	set, from, err := e.toolset(ctx, in, p)
	if err != nil {
		return resp, err
	}
	iso, err := e.isolation(in, p)
	if err != nil {
		return resp, err
	}
	if n := size(in.Permissions); n > protocol.MaxTighten {
		return resp, fault.Configf("permissions", "have %d bytes of JSON, at most %d fit: they travel with every call", n, protocol.MaxTighten)
	}
	parents, guards, err := e.inherited(ctx, p, req)
	if err != nil {
		return resp, err
	}
	// Rules that the agent brings are compiled now, so that a bad one is said at the start.
	chain, err := e.chain(protocol.Subject{Profile: in.AgentType, Tighten: in.Permissions, Parents: parents, Isolation: string(iso.Kind)})
	if err != nil {
		return resp, err
	}
	budget, err := e.budget(in, p, names)
	if err != nil {
		return resp, err
	}
	frozen := Frozen{System: p.System, Tools: specs(set), Prices: e.pricesOf(names)}
	if err := e.freezeOutput(&frozen, in, p); err != nil {
		return resp, err
	}
	ref, err := e.freeze(ctx, frozen)
	if err != nil {
		return resp, err
	}
	prompt, err := e.prompt(ctx, in.Prompt)
	if err != nil {
		return resp, err
	}
	resp = protocol.ResolveResponse{
		Models: names, Tools: e.facts(set, from), ToolsetHash: set.Hash(), Frozen: ref, PromptRef: prompt, Isolation: iso,
		Limits: limits(in, p), BudgetUSD: budget, KeepOnError: e.cfg.KeepOnError, Dir: e.cfg.Dir, Store: e.cfg.Blobs.ID(), Guards: guards, Parents: parents,
		Attributes: e.attributes(ctx), Observers: e.cfg.Pipeline.HasObservers(), ContinueAfter: e.cfg.ContinueAfter,
		Under: protocol.Under{RunID: activity.GetInfo(ctx).WorkflowExecution.RunID, PolicyDigest: chain.Digest()},
	}
	if n := size(resp); n > protocol.MaxInput {
		// One that the server refuses would not say why.
		return protocol.ResolveResponse{}, fault.Configf("tools", "%d tools of profile %q have %d bytes of JSON, at most %d fit",
			set.Len(), p.Name, n, protocol.MaxInput)
	}
	return resp, nil
}

func limits(in protocol.AgentInput, p config.Profile) protocol.Limits {
	base := p.Limits.Over(protocol.DefaultLimits())
	if in.Limits != nil {
		return in.Limits.Over(base)
	}
	return base
}

// models returns the list of models, all of which this worker can reach.
func (e *Engine) models(in protocol.AgentInput, p config.Profile) ([]string, error) {
	names := p.Models
	if len(in.Models) > 0 {
		names = in.Models
	}
	if len(names) == 0 {
		return nil, fault.Configf("model", "profile %q names none and neither does the input", p.Name)
	}
	for _, n := range names {
		if _, _, err := e.model(n); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// model splits `provider:name` and returns the provider's driver.
func (e *Engine) model(full string) (model.Model, string, error) {
	provider, name, ok := strings.Cut(full, ":")
	m, known := e.cfg.Models[provider]
	if !ok || name == "" {
		return nil, "", fault.Configf("model", "%q is not of the form provider:name", full)
	}
	if !known {
		return nil, "", &fault.ConfigError{Key: "model", Msg: "unknown provider \"" + provider + "\" in \"" + full + "\"",
			Allowed: slices.Sorted(maps.Keys(e.cfg.Models))}
	}
	if n, ok := m.(model.Named); ok {
		if err := n.Knows(name); err != nil {
			return nil, "", err
		}
	}
	return m, name, nil
}

// toolset is the set of an agent: its input's list wins over the profile's, an explicit empty one removes all.
func (e *Engine) toolset(ctx context.Context, in protocol.AgentInput, p config.Profile) (tool.Toolset, origins, error) {
	names := p.Tools
	if in.Tools != nil {
		names = *in.Tools
	}
	set, from, err := e.tools(ctx, names)
	if err == nil && p.Attestation != nil {
		err = p.Attestation.Check(set)
	}
	if err != nil {
		return tool.Toolset{}, nil, err
	}
	return set, from, nil
}

// origins names the source of each tool that comes from one.
type origins map[string]string

func (e *Engine) tools(ctx context.Context, names []string) (tool.Toolset, origins, error) {
	var defs []*tool.Def
	from := origins{}
	ask := e.asking(ctx, names)
	for _, name := range names {
		if s := e.source(name); s != nil {
			offered, err := ask(s)
			if err != nil {
				return tool.Toolset{}, nil, err
			}
			if err := e.distinct(name, offered, from); err != nil {
				return tool.Toolset{}, nil, err
			}
			defs = append(defs, offered...)
			continue
		}
		members, ok := e.cfg.Toolsets[name]
		if !ok {
			members = []string{name}
		}
		for _, m := range members {
			def, ok := e.cfg.Pipeline.Lookup(m)
			if !ok {
				return tool.Toolset{}, nil, &fault.ConfigError{Key: "tools", Msg: "unknown tool or toolset \"" + m + "\"", Allowed: e.toolNames()}
			}
			defs = append(defs, def)
		}
	}
	set, err := tool.ToolsetOf(defs...)
	return set, from, err
}

// asking puts the question to all sources among names at once, and returns what waits for the answer of one.
func (e *Engine) asking(ctx context.Context, names []string) func(*source) ([]*tool.Def, error) {
	type answer struct {
		defs []*tool.Def
		err  error
	}
	asked := map[*source]chan answer{}
	for _, name := range names {
		s := e.source(name)
		if s == nil || asked[s] != nil {
			continue
		}
		c := make(chan answer, 1)
		asked[s] = c
		go func() {
			defs, err := s.list(ctx)
			c <- answer{defs, err}
		}()
	}
	return func(s *source) ([]*tool.Def, error) {
		a := <-asked[s]
		asked[s] <- a
		return a.defs, a.err
	}
}

// distinct notes where the tools of a source come from, and refuses names that are taken: a rule could not tell two apart.
func (e *Engine) distinct(source string, offered []*tool.Def, from origins) error {
	for _, d := range offered {
		other, taken := from[d.Name()]
		_, mounted := e.cfg.Pipeline.Lookup(d.Name())
		switch {
		case mounted:
			return fault.Configf("tools", "source %q offers %q, which is a tool of the worker's own", source, d.Name())
		case taken && other != source:
			return fault.Configf("tools", "the sources %q and %q both offer %q", other, source, d.Name())
		case taken:
			return fault.Configf("tools", "source %q offers %q twice, or is listed twice", source, d.Name())
		}
		from[d.Name()] = source
	}
	return nil
}

func (e *Engine) toolNames() []string {
	names := slices.Collect(maps.Keys(e.cfg.Toolsets))
	for _, s := range e.sources {
		names = append(names, s.name)
	}
	for _, d := range e.cfg.Pipeline.Tools() {
		names = append(names, d.Name())
	}
	slices.Sort(names)
	return names
}

// facts is what the workflow keeps of each tool.
func (e *Engine) facts(set tool.Toolset, from origins) []protocol.ToolFacts {
	out := make([]protocol.ToolFacts, 0, set.Len())
	for _, i := range set.Infos() {
		f := FactsOf(i)
		f.Source = from[i.Name]
		f.CallTool = e.cfg.CallTool && f.Source != "" && f.Remote == nil
		out = append(out, f)
	}
	return out
}

// FactsOf is what a workflow keeps of a tool.
func FactsOf(i tool.Info) protocol.ToolFacts {
	return protocol.ToolFacts{Name: i.Name, Risk: i.Risk, NeedsApproval: i.NeedsApproval, Idempotent: i.Idempotent,
		Concurrent: i.Concurrent, Timeout: i.Timeout, ContractHash: tool.ContractHash(i), Remote: i.Remote.Clone()}
}

// specs is what the model sees of each tool.
func specs(set tool.Toolset) []model.Spec {
	out := make([]model.Spec, 0, set.Len())
	for _, i := range set.Infos() {
		out = append(out, model.Spec{Name: i.Name, Description: i.Description, Parameters: i.Parameters})
	}
	return out
}

// isolation is the input's wish or the profile's, refused now if this worker cannot grant it.
func (e *Engine) isolation(in protocol.AgentInput, p config.Profile) (worktree.Isolation, error) {
	iso := p.Isolation
	if in.Isolation != nil {
		// A profile that confines its agents is not loosened by the input of one.
		if p.Isolation.Kind == worktree.Readonly && in.Isolation.Kind != worktree.Readonly {
			return iso, fault.Configf("isolation.kind", "profile %q is readonly", p.Name)
		}
		if p.Isolation.Private && in.Isolation.Kind != worktree.Tree {
			return iso, fault.Configf("isolation.kind", "profile %q is private: only kind %s can be asked for", p.Name, worktree.Tree)
		}
		repo, private := iso.Repo, iso.Private
		iso = *in.Isolation
		iso.Private = iso.Private || private
		if iso.Repo == "" {
			iso.Repo = repo
		}
	}
	if iso.Kind == "" {
		iso.Kind = worktree.None
	}
	if iso.Kind == worktree.Tree && e.cfg.Worktrees == nil {
		return iso, errNoWorktrees
	}
	if iso.Kind != worktree.Tree && (iso.Repo != "" || iso.Ref != "") && in.Isolation != nil && in.Isolation.Repo != "" {
		return iso, fault.Configf("isolation.repo", "goes with kind worktree only")
	}
	if iso.Private && iso.Kind != worktree.Tree {
		return iso, fault.Configf("isolation.private", "goes with kind worktree only")
	}
	return iso, nil
}
