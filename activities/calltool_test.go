package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// callTool is the configuration of a team's worker, whose dynamic activity is its own.
func callTool(sources ...tool.Source) activities.Config {
	cfg := sourceConfig(sources...)
	cfg.CallTool = true
	return cfg
}

// A worker that resolves says how the tools of its sources run. A call under the shared activity type is bound to the tool
// that was decided on: to its name by the contract, and to its source.
func TestCallTool(t *testing.T) {
	two := func() []tool.Source {
		return []tool.Source{
			named("far", func() ([]*tool.Def, error) {
				return []*tool.Def{page("far", "Gets a page."), tool.MustNew("other", "Gets a page.", func(context.Context, *tool.Context, pathIn) (string, error) { return "other", nil }, tool.Read)}, nil
			}),
			named("near", one(page("near", "Gets a page."))),
		}
	}
	b := newBench(t, callTool(two()...))
	f, err := b.resolved()
	require.NoError(t, err)
	require.True(t, f.CallTool)
	require.Equal(t, protocol.ActivityCallTool, f.Activity())
	require.JSONEq(t, `"far"`, string(b.runs(f).Value))
	dynamic := newBench(t, sourceConfig(two()...))
	require.JSONEq(t, `"far"`, string(dynamic.runs(f).Value), "a Dynamic worker of the same queue serves it too")
	g, err := dynamic.resolved()
	require.NoError(t, err)
	require.False(t, g.CallTool)
	require.Equal(t, tool.ContractDrift, b.runs(g).Code, "the team's dynamic activity would get it")

	keys := ring(t)
	signed := newBench(t, func() activities.Config { c := callTool(two()...); c.Keys = keys; return c }())
	for what, tc := range map[string]struct {
		change func(*tool.Call)
		code   tool.Code
		says   string
	}{
		"as it was granted": {func(*tool.Call) {}, tool.OK, ""},
		"another source":    {func(c *tool.Call) { c.Source = "near" }, tool.Denied, "it is for another call, run or contract"},
		"another tool":      {func(c *tool.Call) { c.Name = "other" }, tool.ContractDrift, "another description or schema"},
		"no name":           {func(c *tool.Call) { c.Name = "" }, tool.ContractDrift, "does not offer"},
		"no source":         {func(c *tool.Call) { c.Source = "" }, tool.ContractDrift, "is for tools of sources"},
		"a mounted tool":    {func(c *tool.Call) { c.Source, c.Name, c.ContractHash = "", "look", signed.facts("look").ContractHash }, tool.ContractDrift, "is for tools of sources"},
		"an unknown source": {func(c *tool.Call) { c.Source = "moon" }, tool.ContractDrift, `does not have the source "moon"`},
	} {
		for name, with := range map[string]*bench{"unsigned": b, "signed": signed} {
			t.Run(what+", "+name, func(t *testing.T) {
				call, grant, place := b.callOf("look", `{"path":"a"}`)
				call.Name, call.Source, call.ContractHash, call.Risk = f.Name, f.Source, f.ContractHash, f.Risk
				call.Agent = &tool.Agent{RunID: grant.RunID}
				grant.Terms = protocol.Terms(call)
				grant.ContractHash, grant.Source, place.ActivityType = f.ContractHash, f.Source, protocol.ActivityCallTool
				ring := protocol.Keyring{}
				if with == signed {
					ring = keys
				}
				header := ring.Sign(grant, place).Slim(protocol.Known(call, grant.InputDigest))
				tc.change(&call)
				with.granted(header)
				r := with.invokeAs(protocol.ActivityCallTool, protocol.Sent(call, protocol.ActivityCallTool))
				require.Equal(t, tc.code, r.Code, "%+v", r.Failure)
				switch {
				case r.Failure == nil:
				case with == b && what == "another source":
					require.Contains(t, r.Failure.Message, "for another contract or source")
				default:
					require.Contains(t, r.Failure.Message, tc.says)
				}
			})
		}
	}
	signed.header = nil
	call, _, _ := b.callOf("look", `{"path":"a"}`)
	call.Name, call.Source, call.ContractHash, call.Risk = f.Name, f.Source, f.ContractHash, f.Risk
	require.Equal(t, tool.Denied, signed.invokeAs(protocol.ActivityCallTool, call).Code, "without a grant nothing runs")
}

// A source whose tool has become stricter than the one that an agent began with does not serve that agent any more, and one
// that has become milder does: calls are judged by what was frozen.
func TestRaisedAuthorityIsDrift(t *testing.T) {
	with := func(o ...tool.Option) *remote {
		return named("far", one(tool.MustNew("fetch_page", "Gets a page.", func(context.Context, *tool.Context, pathIn) (string, error) { return "got", nil }, o...)))
	}
	for _, tc := range []struct {
		then, now []tool.Option
		drift     string
	}{
		{nil, []tool.Option{tool.Destructive}, "is of risk destructive now and was undeclared"},
		{[]tool.Option{tool.Read}, nil, "is of risk undeclared now and was read"},
		{[]tool.Option{tool.Read}, []tool.Option{tool.Write}, "is of risk write now and was read"},
		{nil, []tool.Option{tool.NeedsApproval()}, "needs approval now"},
		{nil, []tool.Option{tool.Read}, ""},
		{[]tool.Option{tool.Destructive, tool.NeedsApproval()}, nil, ""},
		{[]tool.Option{tool.Write}, []tool.Option{tool.Write, tool.Timeout(time.Hour)}, ""},
	} {
		then := newBench(t, callTool(with(tc.then...)))
		f, err := then.resolved()
		require.NoError(t, err)
		now := newBench(t, callTool(with(tc.now...)))
		r, d := now.runs(f), protocol.DecideResponse{}
		require.NoError(t, now.call(protocol.ActivityDecide, activities.AssentDecide,
			protocol.DecideRequest{CallID: "c", Tool: f, Subject: protocol.Subject{Profile: "p"}, Input: raw(pathIn{"a"})}, &d))
		if tc.drift == "" {
			require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
			require.Empty(t, d.Drift)
			continue
		}
		require.Equal(t, tool.ContractDrift, r.Code)
		require.Contains(t, r.Failure.Message, tc.drift)
		require.Contains(t, d.Drift, tc.drift)
	}
}

// Names that two offer are refused by both names, since a rule could not tell them apart.
func TestSourcesThatOfferOneName(t *testing.T) {
	cfg := callTool(named("far", one(page("far", "Gets a page."))), named("near", one(page("near", "Gets another page."))))
	p := cfg.Profiles["p"]
	for names, want := range map[string][]string{
		`the sources "far" and "near" both offer "fetch_page"`:       {"far", "look", "near"},
		`the sources "near" and "far" both offer "fetch_page"`:       {"near", "far"},
		`source "far" offers "fetch_page" twice, or is listed twice`: {"far", "far"},
	} {
		p.Tools = want
		cfg.Profiles["p"] = p
		_, err := newBench(t, cfg).resolved()
		requireType(t, err, protocol.ErrorConfig, false)
		require.ErrorContains(t, err, names)
	}
}

// A source that is lost says so by its name, and by its cause where no model reads it.
func TestALostSourceIsNamed(t *testing.T) {
	src := offers("fetch_page", "Gets a page.")
	b := newBench(t, callTool(src))
	f, err := b.resolved()
	require.NoError(t, err)
	lost := newBench(t, callTool(named("far", func() ([]*tool.Def, error) { return nil, errors.New("exit status 127") })))
	_, err = lost.resolved()
	require.ErrorContains(t, err, `list tools of source "far": exit status 127`)
	r := lost.runs(f)
	require.Equal(t, tool.ContractDrift, r.Code)
	require.Equal(t, `the tool "fetch_page" is not to be had: the source "far" does not answer this worker, whose log says why`, r.Failure.Message)
}

// Sources are asked at once: slow ones together take no longer than one.
func TestSourcesAreAskedAtOnce(t *testing.T) {
	var list []tool.Source
	var names []string
	all := make(chan struct{}, 3)
	for i := range 3 {
		name := fmt.Sprintf("s%d", i)
		list, names = append(list, named(name, func() ([]*tool.Def, error) {
			all <- struct{}{}
			for len(all) < cap(all) {
				time.Sleep(time.Millisecond)
			}
			return []*tool.Def{tool.MustNew("tool_"+name, "Is one.", func(context.Context, *tool.Context, pathIn) (int, error) { return 0, nil })}, nil
		})), append(names, name)
	}
	cfg := callTool(list...)
	p := cfg.Profiles["p"]
	p.Tools = names
	cfg.Profiles["p"] = p
	_, err := newBench(t, cfg).resolved()
	require.NoError(t, err)
}

// Five hundred tools of one source fit where they are recorded.
func TestFiveHundredTools(t *testing.T) {
	cfg := callTool(named("far", func() (defs []*tool.Def, err error) {
		for n := range 500 {
			d, err := tool.FromSchema(fmt.Sprintf("a_server_of_many_tools_%03d", n), "Does one of many things, and says at some length which one that is and what it is good for.",
				json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"The path."},"depth":{"type":"integer"}},"required":["path"]}`),
				func(context.Context, *tool.Context, json.RawMessage) (any, error) { return n, nil })
			if err != nil {
				return nil, err
			}
			defs = append(defs, d)
		}
		return defs, nil
	}))
	b := newBench(t, cfg)
	var resp protocol.ResolveResponse
	require.NoError(t, b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset,
		protocol.ResolveRequest{Input: protocol.AgentInput{Prompt: "go", AgentType: "p"}}, &resp))
	require.Len(t, resp.Tools, 501)
	response, err := json.Marshal(resp)
	require.NoError(t, err)
	state, err := json.Marshal(protocol.AgentState{Frozen: resp})
	require.NoError(t, err)
	t.Logf("500 tools: %d bytes of ResolveResponse, %d of AgentState, %d of the frozen blob", len(response), len(state), resp.Frozen.Size)
	require.Less(t, len(response), 200<<10)
	require.Less(t, len(state), 200<<10)
}

// Observers hear the risk of a call that was refused, also on a worker that has not listed its source.
func TestObserversOfAColdWorkerHearTheRisk(t *testing.T) {
	var heard []tool.Info
	b := newBench(t, callTool(offers("fetch_page", "Gets a page.")), pipeline.PluginFunc("watch", func(s *pipeline.Scope) error {
		return s.Observe(func(_ context.Context, c pipeline.Call, _ tool.Result) error {
			heard = append(heard, c.Info)
			return nil
		})
	}))
	require.NoError(t, b.call(protocol.ActivityObserve, b.engine.Observe, protocol.ObserveRequest{
		Call: tool.Call{ID: "t1.1", Name: "fetch_page", Source: "far", Input: json.RawMessage(`{}`), Store: b.store.ID(), Risk: tool.Destructive}, Result: tool.Deny(tool.ByRule, "", "no")}, nil))
	require.Equal(t, []tool.Info{{Name: "fetch_page", Risk: tool.Destructive}}, heard)
}
