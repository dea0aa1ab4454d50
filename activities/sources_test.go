package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// remote is a source of tools that counts how often it is asked.
type remote struct {
	name  string
	tools func() ([]*tool.Def, error)
	asked int
}

func (r *remote) Name() string { return r.name }

func (r *remote) Tools(context.Context) ([]*tool.Def, error) {
	r.asked++
	return r.tools()
}

func offers(name, description string) *remote {
	return &remote{name: "far", tools: func() ([]*tool.Def, error) {
		return []*tool.Def{tool.MustNew(name, description, func(_ context.Context, _ *tool.Context, in pathIn) (string, error) {
			return "far away " + in.Path, nil
		}, tool.Read)}, nil
	}}
}

func sourceConfig(sources ...tool.Source) activities.Config {
	return activities.Config{Sources: sources, Models: map[string]model.Model{"m": text("hi")},
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"m:x"}, Tools: []string{"far", "look"}}}}
}

// What a source offers is frozen with an agent, and a worker that never listed it finds it by its contract.
func TestToolsOfASource(t *testing.T) {
	warm := newBench(t, sourceConfig(offers("fetch_page", "Gets a page.")))
	var frozen protocol.ResolveResponse
	resolve := func(b *bench) error {
		return b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset,
			protocol.ResolveRequest{Input: protocol.AgentInput{Prompt: "go", AgentType: "p"}}, &frozen)
	}
	require.NoError(t, resolve(warm))
	require.Len(t, frozen.Tools, 2)
	require.Equal(t, "fetch_page", frozen.Tools[0].Name)

	run := func(b *bench) tool.Result {
		call, grant, place := warm.callOf("look", `{"path":"a"}`)
		call.Name, call.Source, call.ContractHash, grant.ContractHash = "fetch_page", "far", frozen.Tools[0].ContractHash, frozen.Tools[0].ContractHash
		call.Risk, grant.Source = tool.Read, "far"
		place.ActivityType = "tool.fetch_page"
		b.granted(ring(t).Sign(grant, place))
		return b.invoke(call, "fetch_page")
	}
	r := run(warm)
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	require.Equal(t, `"far away a"`, string(r.Value))

	src := offers("fetch_page", "Gets a page.")
	cold := newBench(t, sourceConfig(src))
	require.Equal(t, tool.OK, run(cold).Code)
	require.Equal(t, 1, src.asked, "once, not for every call")

	changed := newBench(t, sourceConfig(offers("fetch_page", "Gets a page, and more.")))
	require.Equal(t, tool.ContractDrift, run(changed).Code)
	gone := newBench(t, sourceConfig(offers("other", "Is another.")))
	require.Equal(t, tool.ContractDrift, run(gone).Code)
	lost := newBench(t, sourceConfig(&remote{name: "far", tools: func() ([]*tool.Def, error) { return nil, errors.New("no route") }}))
	require.Equal(t, tool.ContractDrift, run(lost).Code)
	require.ErrorContains(t, resolve(lost), "no route")
	require.False(t, fault.IsConfig(resolve(lost)), "it may answer later")

	var d protocol.DecideResponse
	b := newBench(t, sourceConfig(offers("fetch_page", "Gets a page.")))
	req := protocol.DecideRequest{CallID: "c", Tool: frozen.Tools[0], Subject: protocol.Subject{Profile: "p"}, Input: raw(pathIn{"a"})}
	require.NoError(t, b.call(protocol.ActivityDecide, activities.AssentDecide, req, &d))
	require.Empty(t, d.Drift)
	require.Equal(t, "allow", d.Decision.Verdict.String())
}

func TestBadSources(t *testing.T) {
	for name, list := range map[string][]tool.Source{
		"nil":     {nil},
		"no name": {&remote{}},
		"panics":  {(*strange)(nil)},
		"twice":   {offers("a", "Is a."), offers("b", "Is b.")},
		"a tool":  {&remote{name: "look"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sourceConfig(list...)
			cfg.Blobs, cfg.Pipeline = blob.NewMemory("memory"), pipeline.New(pipeline.Config{})
			_, err := cfg.Pipeline.Mount(pipeline.PluginFunc("look", func(s *pipeline.Scope) error {
				return s.Tool(tool.MustNew("look", "Looks.", func(context.Context, *tool.Context, pathIn) (string, error) { return "", nil }))
			}))
			require.NoError(t, err)
			_, err = activities.New(cfg)
			require.True(t, fault.IsConfig(err), "%v", err)
		})
	}
	for name, tc := range map[string]struct {
		tools  func() ([]*tool.Def, error)
		config bool
	}{
		"panics":         {func() ([]*tool.Def, error) { panic("no") }, false},
		"a nil tool":     {func() ([]*tool.Def, error) { return []*tool.Def{nil}, nil }, false},
		"one of our own": {offers("look", "Looks far.").tools, true},
		"very many": {func() (all []*tool.Def, err error) {
			for n := range 10_000 {
				all = append(all, tool.MustNew(fmt.Sprintf("%060d", n), "Is one.", func(context.Context, *tool.Context, struct{}) (int, error) { return n, nil }))
			}
			return all, nil
		}, true},
		"one twice": {func() ([]*tool.Def, error) {
			a, _ := offers("a", "Is a.").tools()
			return append(a, a...), nil
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, sourceConfig(&remote{name: "far", tools: tc.tools}))
			var resp protocol.ResolveResponse
			err := b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset,
				protocol.ResolveRequest{Input: protocol.AgentInput{Prompt: "go", AgentType: "p"}}, &resp)
			require.Error(t, err)
			if tc.config {
				requireType(t, err, protocol.ErrorConfig, false)
			}
		})
	}
}
