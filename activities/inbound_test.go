package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

var key = protocol.GrantKey{ID: "k1", Secret: []byte("0123456789abcdef")}

func ring(t *testing.T) protocol.Keyring {
	t.Helper()
	r, err := protocol.NewKeyring(key)
	require.NoError(t, err)
	return r
}

// callOf is a call as a workflow sends it, with the grant and the place that fit it.
func (b *bench) callOf(name, input string) (tool.Call, protocol.Grant, protocol.Place) {
	b.t.Helper()
	c, err := canonjson.Canonical([]byte(input))
	require.NoError(b.t, err)
	call := tool.Call{ID: callID, Name: name, Input: json.RawMessage(input), ContractHash: b.facts(name).ContractHash}
	return call, protocol.Grant{CallID: callID, RunID: runID, ContractHash: call.ContractHash, InputDigest: canonjson.SHA256(c)},
		protocol.Place{Namespace: namespace, WorkflowID: workflow, ActivityType: "tool." + name, ActivityID: callID}
}

// invoke runs a tool activity and returns its result, whether it came as a value or as a refusal.
func (b *bench) invoke(call any, name string) tool.Result {
	b.t.Helper()
	return b.invokeAs("tool."+name, call)
}

func (b *bench) invokeAs(activityType string, call any) tool.Result {
	b.t.Helper()
	var r tool.Result
	err := b.call(activityType, activities.RunTool, call, &r)
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		require.Equal(b.t, protocol.ErrorDenied, app.Type())
		require.True(b.t, app.NonRetryable())
		require.NoError(b.t, app.Details(&r))
		return r
	}
	require.NoError(b.t, err)
	return r
}

// A tool runs only with a grant for exactly this call, in exactly this place.
func TestGrants(t *testing.T) {
	other, err := protocol.NewKeyring(protocol.GrantKey{ID: "k1", Secret: []byte("another secret of 16+")})
	require.NoError(t, err)
	type parts struct {
		call  tool.Call
		grant protocol.Grant
		place protocol.Place
		ring  protocol.Keyring
		none  bool
	}
	for name, tc := range map[string]struct {
		change func(*parts)
		want   string
	}{
		"right":             {func(*parts) {}, "OK"},
		"still valid":       {func(p *parts) { p.grant.Expires = time.Now().Add(time.Hour).Unix() }, "OK"},
		"none":              {func(p *parts) { p.none = true }, "carries no grant"},
		"unsigned":          {func(p *parts) { p.ring = protocol.Keyring{} }, "not signed"},
		"forged":            {func(p *parts) { p.ring = other }, "signature does not match"},
		"expired":           {func(p *parts) { p.grant.Expires = 1 }, "expired"},
		"other call":        {func(p *parts) { p.grant.CallID, p.call.ID = "2", "2" }, "another call"},
		"other call's id":   {func(p *parts) { p.call.ID = "2" }, "another call"},
		"other workflow":    {func(p *parts) { p.place.WorkflowID = "w" }, "signature does not match"},
		"other namespace":   {func(p *parts) { p.place.Namespace = "n" }, "signature does not match"},
		"other tool":        {func(p *parts) { p.place.ActivityType = "tool.look" }, "signature does not match"},
		"other arguments":   {func(p *parts) { p.call.Input = raw(pathIn{"b"}) }, "other arguments"},
		"twice the member":  {func(p *parts) { p.call.Input = json.RawMessage(`{"path":"a","path":"a"}`) }, "not valid JSON"},
		"no arguments":      {func(p *parts) { p.call.Input = nil }, "not valid JSON"},
		"other contract":    {func(p *parts) { p.grant.ContractHash = "x" }, "another contract"},
		"drift":             {func(p *parts) { p.call.ContractHash = "x" }, "differs from the one"},
		"names another one": {func(p *parts) { p.call.Name = "look" }, "another tool than its activity"},
		"other run":         {func(p *parts) { p.grant.RunID = "before" }, "may have had its effect"},
		"the run before": {func(p *parts) {
			p.grant.RunID = "before"
			p.call.Agent = &tool.Agent{RunID: "before"}
			p.grant.Terms = protocol.Terms(p.call)
		}, "may have had its effect"},
		"another agent":     {func(p *parts) { p.call.Agent = &tool.Agent{RunID: "other"} }, "signature does not match|another directory, agent"},
		"no agent":          {func(p *parts) { p.call.Agent = nil }, "signature does not match|another directory, agent|for other arguments"},
		"another directory": {func(p *parts) { p.call.Dir = "/" }, "signature does not match|another directory, agent"},
		"no rules":          {func(p *parts) { p.call.Tighten = json.RawMessage(`{}`) }, "signature does not match|another directory, agent"},
		"nobody allowed it": {func(p *parts) { p.call.Approved = &tool.Approved{Key: "k"} }, "signature does not match|another directory, agent"},
	} {
		check := func(t *testing.T, slim bool) {
			b := newBench(t, activities.Config{Keys: ring(t)})
			p := parts{ring: ring(t)}
			p.call, p.grant, p.place = b.callOf("run", `{"path":"a"}`)
			p.call.Agent = &tool.Agent{RunID: runID}
			p.grant.Terms = protocol.Terms(p.call)
			known := p.grant
			tc.change(&p)
			g := p.ring.Sign(p.grant, p.place)
			if slim {
				// As a workflow sends it.
				if name == "the run before" {
					known.RunID, known.Terms = p.call.Agent.RunID, p.grant.Terms
				}
				g = g.Slim(known)
				if p.call.ID == callID && p.call.Name == "run" {
					p.call = protocol.Sent(p.call, protocol.ToolPrefix+p.call.Name)
				}
			}
			if !p.none {
				b.granted(g)
			}
			r := b.invoke(p.call, "run")
			if tc.want == "OK" {
				require.Equal(t, tool.OK, r.Code)
				require.Equal(t, []string{"run a"}, b.ran)
				return
			}
			require.Regexp(t, tc.want, r.Failure.Message)
			require.Empty(t, b.ran)
		}
		t.Run(name, func(t *testing.T) { check(t, false) })
		t.Run(name+", slim", func(t *testing.T) { check(t, true) })
	}
}

// What a slim grant leaves out is under its signature: a worker that has no key to check that takes nothing for granted.
func TestASlimGrantNeedsAKey(t *testing.T) {
	for name, tc := range map[string]struct {
		slim  bool
		input string
		want  string
	}{
		"slim":                       {true, `{"path":"a"}`, "no key to check it"},
		"slim, for other arguments":  {true, `{"path":"b"}`, "no key to check it"},
		"whole":                      {false, `{"path":"a"}`, ""},
		"whole, for other arguments": {false, `{"path":"b"}`, "other arguments"},
	} {
		b := newBench(t, activities.Config{})
		call, g, p := b.callOf("run", `{"path":"a"}`)
		call.Agent = &tool.Agent{RunID: runID}
		g.Terms = protocol.Terms(call)
		signed := ring(t).Sign(g, p)
		if tc.slim {
			signed = signed.Slim(g)
		}
		b.granted(signed)
		call.Input = json.RawMessage(tc.input)
		r := b.invoke(call, "run")
		if tc.want == "" {
			require.Equal(t, tool.OK, r.Code, name)
			continue
		}
		require.Contains(t, r.Failure.Message, tc.want, name)
		require.Equal(t, tc.slim, r.Code == tool.ContractDrift, "%s: another worker may have the key", name)
		require.Empty(t, b.ran, name)
	}
}

// A call carries the beginning of its contract, and its grant is for all of it.
func TestTheBeginningOfAContractIsNotEnough(t *testing.T) {
	for name, change := range map[string]func(*tool.Call, *protocol.Grant, *protocol.Grant){
		"signed for a contract that begins alike": func(_ *tool.Call, g, known *protocol.Grant) {
			g.ContractHash = g.ContractHash[:32] + strings.Repeat("0", 32)
			known.ContractHash = g.ContractHash
		},
		"too short": func(c *tool.Call, _, _ *protocol.Grant) { c.ContractHash = c.ContractHash[:15] },
		"none":      func(c *tool.Call, _, _ *protocol.Grant) { c.ContractHash = "" },
	} {
		b := newBench(t, activities.Config{Keys: ring(t)})
		call, g, p := b.callOf("run", `{"path":"a"}`)
		call.Agent = &tool.Agent{RunID: runID}
		known := g
		sent := protocol.Sent(call, "tool.run")
		require.Len(t, sent.ContractHash, 16)
		change(&sent, &g, &known)
		b.granted(ring(t).Sign(g, p).Slim(known))
		require.NotEqual(t, tool.OK, b.invoke(sent, "run").Code, name)
		require.Empty(t, b.ran, name)
	}
}

// A tool that may be repeated runs under the grant of a run before a reset.
func TestAReadMayRunAfterAReset(t *testing.T) {
	b := newBench(t, activities.Config{Keys: ring(t)})
	call, g, p := b.callOf("look", `{"path":"a"}`)
	g.RunID = "before"
	b.granted(ring(t).Sign(g, p))
	require.Equal(t, tool.OK, b.invoke(call, "look").Code)
}

func TestInputByReference(t *testing.T) {
	b := newBench(t, activities.Config{})
	large := string(raw(pathIn{strings.Repeat("x", 40<<10)}))
	call, g, p := b.callOf("run", large)
	ref, err := b.store.Put(context.Background(), []byte(large))
	require.NoError(t, err)
	call.Input, call.InputRef = nil, &ref
	b.granted(protocol.Keyring{}.Sign(g, p))
	r := b.invoke(call, "run")
	require.Equal(t, tool.OK, r.Code)
	require.Empty(t, r.Value)
	require.NotNil(t, r.ValueRef, "a large result goes by reference")
	require.LessOrEqual(t, len(r.Preview), 1<<10+3)
}

func TestFailuresAreBounded(t *testing.T) {
	loud := tool.MustNew("loud", "Fails at length.", func(context.Context, *tool.Context, pathIn) (string, error) {
		return "", tool.ModelRetry{Message: strings.Repeat("é", 1<<20), Data: strings.Repeat("d", 1<<20)}
	})
	b := newBench(t, activities.Config{}, withTool(loud))
	call, g, p := b.callOf("loud", `{"path":"a"}`)
	b.granted(protocol.Keyring{}.Sign(g, p))
	r := b.invoke(call, "loud")
	require.Equal(t, tool.ToolError, r.Code)
	require.Less(t, len(raw(r)), 64<<10)
	require.Empty(t, r.Failure.Data)
}

// The guards of the worker have the last word, those that a profile requires included.
func TestGuardsOfTheWorker(t *testing.T) {
	guard := pipeline.PluginFunc("g", func(s *pipeline.Scope) error {
		return s.Guard("g", func(context.Context, pipeline.Call) error { return errors.New("not today") })
	})
	b := newBench(t, activities.Config{}, guard)
	call, g, p := b.callOf("run", `{"path":"a"}`)
	b.granted(protocol.Keyring{}.Sign(g, p))
	r := b.invoke(call, "run")
	require.Equal(t, tool.ByGuard, r.Failure.Reason)

	b = newBench(t, activities.Config{})
	call.Guards = []string{"g"}
	b.granted(protocol.Keyring{}.Sign(g, p))
	require.Equal(t, tool.ByGuard, b.invoke(call, "run").Failure.Reason)
	require.Empty(t, b.ran)
}

func TestALeaseThatCannotBeUsed(t *testing.T) {
	for lease, want := range map[string]string{`7`: "cannot be read", `{"id":"x"}`: "has no worktrees"} {
		b := newBench(t, activities.Config{})
		call, g, p := b.callOf("run", `{"path":"a"}`)
		call.Lease = json.RawMessage(lease)
		b.granted(protocol.Keyring{}.Sign(g, p))
		r := b.invoke(call, "run")
		require.Equal(t, tool.EnvironmentLost, r.Code)
		require.Contains(t, r.Failure.Message, want)
	}
	// A tool of an agent in a worktree runs in the tree that its own run was leased, and nowhere else.
	lease := worktree.Lease{ID: "x", Dir: "/trees/x", Run: runID}
	for name, tc := range map[string]struct {
		change func(*tool.Call)
		says   string
	}{
		"no lease":            {func(c *tool.Call) { c.Lease = nil }, "cannot be read"},
		"null":                {func(c *tool.Call) { c.Lease = json.RawMessage("null") }, "another directory"},
		"another directory":   {func(c *tool.Call) { c.Dir = "/home/user" }, "another directory"},
		"no directory":        {func(c *tool.Call) { c.Dir = "" }, "another directory"},
		"another run's lease": {func(c *tool.Call) { c.Lease = raw(worktree.Lease{ID: "x", Dir: "/trees/x", Run: "before"}) }, "another run"},
		"nobody's lease":      {func(c *tool.Call) { c.Lease = raw(worktree.Lease{ID: "x", Dir: "/trees/x"}) }, "another run"},
		"as it should be":     {func(*tool.Call) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := treeBench(t, &trees{})
			call, g, p := b.callOf("run", `{"path":"a"}`)
			call.Isolation, call.Lease, call.Dir = string(worktree.Tree), raw(lease), lease.Dir
			tc.change(&call)
			b.granted(protocol.Keyring{}.Sign(g, p))
			r := b.invoke(call, "run")
			if tc.says == "" {
				require.Equal(t, tool.OK, r.Code)
				return
			}
			require.Equal(t, tool.EnvironmentLost, r.Code)
			require.Contains(t, r.Failure.Message, tc.says)
			require.Empty(t, b.ran)
		})
	}
}

// A worker without the interceptor runs no tool, and a call of nothing is refused.
func TestNoToolWithoutTheInterceptor(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.RegisterActivityWithOptions(activities.RunTool, activity.RegisterOptions{Name: "tool.run"})
	_, err := env.ExecuteActivity("tool.run", tool.Call{ID: callID, Name: "run"})
	requireType(t, err, protocol.ErrorDenied, false)
	env.RegisterActivity(activities.AssentDecide)
	_, err = env.ExecuteActivity("AssentDecide", protocol.DecideRequest{})
	requireType(t, err, protocol.ErrorConfig, false)

	b := newBench(t, activities.Config{})
	require.Equal(t, tool.ContractDrift, b.invoke(tool.Call{}, "run").Code)
	require.Empty(t, b.ran)
}

// A team's own activity under guard: its error keeps its type, and without a grant it runs only where that is allowed.
func TestGuardedActivities(t *testing.T) {
	facts := map[string]protocol.ToolFacts{"pay": {Name: "pay", Risk: tool.Destructive, ActivityType: "pay"}}
	good := func(context.Context, string) (string, error) { return "paid", nil }
	bad := func(context.Context, string) (string, error) {
		return "", temporal.NewApplicationError("no funds", "Funds")
	}
	grant := protocol.Keyring{}.Sign(protocol.Grant{CallID: callID, RunID: runID}, protocol.Place{})
	late, other := grant, grant
	late.Expires, other.RunID = 1, "another run"
	for name, tc := range map[string]struct {
		enforce activities.Enforce
		fn      any
		grant   *protocol.Grant
		typ     string
		says    string
	}{
		"granted":              {activities.On, good, &grant, "", ""},
		"its own error":        {activities.On, bad, &grant, "Funds", ""},
		"no grant":             {activities.On, good, nil, protocol.ErrorDenied, "DENIED/grant"},
		"no grant, zero value": {"", good, nil, protocol.ErrorDenied, "DENIED/grant"},
		"no grant, log":        {activities.Log, good, nil, "", ""},
		"no grant, off":        {activities.Off, good, nil, "", ""},
		"expired":              {activities.On, good, &late, protocol.ErrorDenied, "DENIED/expired"},
		"expired, log":         {activities.Log, good, &late, protocol.ErrorDenied, "DENIED/expired"},
		"after a reset":        {activities.On, good, &other, protocol.ErrorDenied, "EFFECT_UNKNOWN/"},
		"after a reset, log":   {activities.Log, good, &other, protocol.ErrorDenied, "EFFECT_UNKNOWN/"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, activities.Config{Guarded: facts, Enforce: tc.enforce})
			if tc.grant != nil {
				b.granted(*tc.grant)
			}
			var out string
			err := b.call("pay", tc.fn, "x", &out)
			if tc.typ == "" {
				require.NoError(t, err)
				require.Equal(t, "paid", out)
				return
			}
			var app *temporal.ApplicationError
			require.True(t, errors.As(err, &app), "%v", err)
			require.Equal(t, tc.typ, app.Type())
			if tc.says != "" {
				var r tool.Result
				require.NoError(t, app.Details(&r))
				require.Equal(t, tc.says, string(r.Code)+"/"+string(r.Failure.Reason))
			}
		})
	}
}

func TestResolveToolset(t *testing.T) {
	b := newBench(t, activities.Config{Models: map[string]model.Model{"m": text("hi")}, Toolsets: map[string][]string{"all": {"look", "run"}}})
	var resp protocol.ResolveResponse
	in := protocol.AgentInput{Prompt: "go", AgentType: "p", Models: []string{"m:x"}, Tools: &[]string{"all"}, Limits: &protocol.Limits{MaxTurns: 3}}
	require.NoError(t, b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset, protocol.ResolveRequest{Input: in}, &resp))
	require.Equal(t, []string{"look", "run"}, []string{resp.Tools[0].Name, resp.Tools[1].Name})
	require.Equal(t, protocol.Limits{MaxTurns: 3, MaxToolCalls: 128, MaxOutputTokens: 8192, MaxIdleTurns: 3}, resp.Limits)
	require.Equal(t, worktree.None, resp.Isolation.Kind)
	require.Equal(t, "memory", resp.Store)
	require.False(t, resp.Attributes, "without a server there are no search attributes")
	require.False(t, resp.Observers)
	frozen, err := b.store.Get(context.Background(), resp.Frozen)
	require.NoError(t, err)
	require.Contains(t, string(frozen), `"name":"look"`)
	require.Nil(t, resp.PromptRef, "a short prompt travels with the first turn")

	long := in
	long.Prompt = strings.Repeat("<", protocol.InlinePrompt+1)
	require.NoError(t, b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset, protocol.ResolveRequest{Input: long}, &resp))
	prompt, err := b.store.Get(context.Background(), *resp.PromptRef)
	require.NoError(t, err)
	require.Equal(t, long.Prompt, string(prompt))

	for name, change := range map[string]func(*protocol.AgentInput){
		"profile":  func(in *protocol.AgentInput) { in.AgentType = "q" },
		"no model": func(in *protocol.AgentInput) { in.Models = nil },
		"model":    func(in *protocol.AgentInput) { in.Models = []string{"m"} },
		"tool":     func(in *protocol.AgentInput) { in.Tools = &[]string{"fly"} },
		"tree":     func(in *protocol.AgentInput) { in.Isolation = &worktree.Isolation{Kind: worktree.Tree} },
		"rule":     func(in *protocol.AgentInput) { in.Permissions = &protocol.Tighten{Ask: []permission.Rule{{}}} },
		"rules": func(in *protocol.AgentInput) {
			in.Permissions = &protocol.Tighten{Deny: []permission.Rule{{Tool: permission.One("run"), Reason: strings.Repeat("x", protocol.MaxTighten)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad := in
			change(&bad)
			err := b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset, protocol.ResolveRequest{Input: bad}, &resp)
			requireType(t, err, protocol.ErrorConfig, false)
		})
	}
}

// Observers hear of a call that never ran, with what the worker knows of its tool.
func TestObserve(t *testing.T) {
	var heard []string
	watch := pipeline.PluginFunc("watch", func(s *pipeline.Scope) error {
		return s.Observe(func(_ context.Context, c pipeline.Call, r tool.Result) error {
			heard = append(heard, c.Name+" "+string(c.Info.Risk)+" "+string(r.Code)+" "+c.RunID)
			return errors.New("a failing observer changes nothing")
		})
	})
	b := newBench(t, activities.Config{}, watch)
	for _, name := range []string{"run", "fly"} {
		require.NoError(t, b.call(protocol.ActivityObserve, b.engine.Observe,
			protocol.ObserveRequest{Call: tool.Call{ID: "c", Name: name}, Result: tool.Deny(tool.ByPerson, "alice", "no")}, nil))
	}
	require.Equal(t, []string{"run execute DENIED " + runID, "fly  DENIED " + runID}, heard)
}

// Arguments that went by reference reach observers too; where they cannot be had, the outcome still does.
func TestObserveLoadsTheArguments(t *testing.T) {
	var heard []string
	b := newBench(t, activities.Config{}, pipeline.PluginFunc("watch", func(s *pipeline.Scope) error {
		return s.Observe(func(_ context.Context, c pipeline.Call, r tool.Result) error {
			heard = append(heard, string(r.Code)+" "+string(c.Input))
			return nil
		})
	}))
	ref, err := b.store.Put(t.Context(), []byte(`{"path":"long"}`))
	require.NoError(t, err)
	for _, ref := range []blob.Ref{ref, refOf("gone")} {
		require.NoError(t, b.call(protocol.ActivityObserve, b.engine.Observe, protocol.ObserveRequest{
			Call: tool.Call{ID: "c", Name: "run", InputRef: &ref}, Result: tool.Fail(tool.Skipped, "m")}, nil))
	}
	require.Equal(t, []string{`SKIPPED {"path":"long"}`, "SKIPPED "}, heard)
}

func TestNewRefuses(t *testing.T) {
	pipe, store := pipeline.New(pipeline.Config{}), blob.NewMemory("memory")
	for says, cfg := range map[string]activities.Config{
		"blob store":            {Pipeline: pipe},
		"a pipeline is needed":  {Blobs: store},
		"host's own":            {Pipeline: pipe, Blobs: store, Worktrees: &trees{}},
		`unknown mode "strict"`: {Pipeline: pipe, Blobs: store, Enforce: "strict"},
		"engine.deny[0]":        {Pipeline: pipe, Blobs: store, Permissions: permission.Layer{Deny: []permission.Rule{{}}}},
	} {
		_, err := activities.New(cfg)
		require.ErrorContains(t, err, says)
		requireConfig(t, err)
	}
}

// A dynamic activity serves tools alone; they pass the same gate.
func TestDynamicTools(t *testing.T) {
	b := newBench(t, activities.Config{})
	run := func(name string) (tool.Result, error) {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.SetTestTimeout(10 * time.Minute)
		env.SetHeader(b.header)
		env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{activities.NewInterceptor(b.engine)}})
		env.RegisterDynamicActivity(activities.RunDynamicTool, activity.DynamicRegisterOptions{})
		call, g, p := b.callOf("run", `{"path":"a"}`)
		if b.header == nil {
			b.granted(protocol.Keyring{}.Sign(g, p))
		}
		var r tool.Result
		v, err := env.ExecuteActivity(name, call)
		if err != nil {
			return r, err
		}
		return r, v.Get(&r)
	}
	_, err := run("tool.run")
	requireType(t, err, protocol.ErrorDenied, false)
	r, err := run("tool.run")
	require.NoError(t, err)
	require.Equal(t, tool.OK, r.Code)
	require.Equal(t, []string{"run a"}, b.ran)
	_, err = run("other")
	requireType(t, err, "ActivityNotRegisteredError", true)
}
