package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// page is the same contract everywhere, with a body that says whose it is.
func page(of, description string) *tool.Def {
	return tool.MustNew("fetch_page", description, func(context.Context, *tool.Context, pathIn) (string, error) { return of, nil }, tool.Read)
}

func named(name string, tools func() ([]*tool.Def, error)) *remote {
	return &remote{name: name, tools: tools}
}

func one(d *tool.Def) func() ([]*tool.Def, error) {
	return func() ([]*tool.Def, error) { return []*tool.Def{d}, nil }
}

// resolved freezes the first tool of an agent whose profile lists the source far.
func (b *bench) resolved() (protocol.ToolFacts, error) {
	b.t.Helper()
	var frozen protocol.ResolveResponse
	err := b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset,
		protocol.ResolveRequest{Input: protocol.AgentInput{Prompt: "go", AgentType: "p"}}, &frozen)
	if err != nil {
		return protocol.ToolFacts{}, err
	}
	return frozen.Tools[0], nil
}

// runs calls a frozen tool of a source.
func (b *bench) runs(f protocol.ToolFacts) tool.Result {
	b.t.Helper()
	call, grant, place := b.callOf("look", `{"path":"a"}`)
	call.Name, call.Source, call.ContractHash, grant.ContractHash, grant.Source = f.Name, f.Source, f.ContractHash, f.ContractHash, f.Source
	call.Risk, call.NeedsApproval = f.Risk, f.NeedsApproval
	place.ActivityType = f.Activity()
	b.granted(protocol.Keyring{}.Sign(grant, place))
	return b.invokeAs(f.Activity(), call)
}

// Two sources may offer one contract, such as a server for tests and the real one: an agent's calls go where its tools
// come from.
func TestCallsGoToTheirSource(t *testing.T) {
	for _, first := range []string{"near", "far"} {
		other := map[string]string{"near": "far", "far": "near"}[first]
		var sources []tool.Source
		for _, name := range []string{first, other} {
			sources = append(sources, named(name, one(page(name, "Gets a page."))))
		}
		b := newBench(t, sourceConfig(sources...))
		f, err := b.resolved()
		require.NoError(t, err)
		require.JSONEq(t, `"far"`, string(b.runs(f).Value))
		cold := newBench(t, sourceConfig(sources...))
		require.JSONEq(t, `"far"`, string(cold.runs(f).Value))
	}
	mounted := newBench(t, sourceConfig(named("far", one(page("far", "Gets a page.")))))
	f, err := mounted.resolved()
	require.NoError(t, err)
	_, err = mounted.pipe.Mount(withTool(page("here", "Gets a page.")))
	require.NoError(t, err)
	require.JSONEq(t, `"far"`, string(mounted.runs(f).Value))
}

// A tool is the one that its call began with, although the source offers another one before its body begins.
func TestASourceThatChangesItsMind(t *testing.T) {
	now, ran := page("old", "Gets a page."), 0
	src := named("far", func() ([]*tool.Def, error) { return []*tool.Def{now}, nil })
	var b *bench
	b = newBench(t, sourceConfig(src), pipeline.PluginFunc("swap", func(s *pipeline.Scope) error {
		return s.Wrap(func(ctx context.Context, _ pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
			ran++
			now = page("new", "Gets a page, and more.")
			_, err := b.resolved()
			require.NoError(t, err)
			return next(ctx), nil
		})
	}))
	f, err := b.resolved()
	require.NoError(t, err)
	require.JSONEq(t, `"old"`, string(b.runs(f).Value))
	require.Equal(t, 1, ran)
	require.Equal(t, tool.ContractDrift, b.runs(f).Code)
}

// strange is a source whose methods do not work.
type strange struct{ name *string }

func (s *strange) Name() string { return *s.name }

func (*strange) Tools(context.Context) ([]*tool.Def, error) { return nil, nil }
