package workflows_test

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/workflows"
	"github.com/assent-dev/assent/worktree"
)

// bench is one agent in the time-skipping environment, with real activities behind the real gate.
type bench struct {
	t    *testing.T
	env  *testsuite.TestWorkflowEnvironment
	blob blob.Store
	// engine is behind the registered activities.
	engine *activities.Engine
	gate   interceptor.WorkerInterceptor
	tools  []*tool.Def
	codec  converter.DataConverter
	mu     sync.Mutex
	// ran records the inputs with which tools really ran; order has the tools and inputs in the order of their start.
	ran   map[string][]string
	order []string
}

type setup struct {
	script string
	// model plays instead of the script.
	model model.Model
	// prices goes before what the engine knows.
	prices  model.Prices
	profile config.Profile
	engine  permission.Layer
	plugins []pipeline.Plugin
	tools   []*tool.Def
	trees   worktree.Provider
	// blobs stands before the store if it is set.
	blobs func(blob.Store) blob.Store
	// codec is the SDK's default converter unless set.
	codec converter.DataConverter
	// patience is the gate's default unless set.
	patience time.Duration
	// approvers knows who answers.
	approvers approval.Directory
	// hookTimeout is a minute unless set.
	hookTimeout time.Duration
	// checkAnswer is the engine's unless set.
	checkAnswer func(approval.Approval, approval.Resolution, time.Time) error
	// decideTurn is the engine's unless set.
	decideTurn any
	// attributes asks anew whether there are search attributes; nil never asks.
	attributes any
	// spent is asked what a cancelled turn may have cost.
	spent any
}

type pathIn struct {
	Path string `json:"path"`
}

func newBench(t *testing.T, s setup) *bench {
	t.Helper()
	b := &bench{t: t, ran: map[string][]string{}}
	var store blob.Store = blob.NewMemory("memory")
	b.blob = store
	if s.blobs != nil {
		store = s.blobs(store)
	}
	if s.model == nil {
		script, err := scripted.Parse("script.yaml", []byte(s.script))
		require.NoError(t, err)
		s.model = scripted.Set{"s": script}
	}
	pipe := pipeline.New(pipeline.Config{})
	_, err := pipe.Mount(pipeline.Readonly())
	require.NoError(t, err)
	tools := append(s.tools, b.tool("look", tool.Read), b.tool("change", tool.Write), b.tool("run", tool.Execute))
	_, err = pipe.Mount(pipeline.PluginFunc("tools", func(sc *pipeline.Scope) error {
		for _, d := range tools {
			if err := sc.Tool(d); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, err)
	for _, p := range s.plugins {
		_, err = pipe.Mount(p)
		require.NoError(t, err)
	}
	s.profile.Name = "p"
	s.profile.Models = []string{"scripted:s"}
	if s.profile.Tools == nil {
		for _, d := range tools {
			s.profile.Tools = append(s.profile.Tools, d.Name())
		}
	}
	engine, err := activities.New(activities.Config{
		Pipeline: pipe, Models: map[string]model.Model{"scripted": s.model}, Prices: s.prices,
		Profiles: map[string]config.Profile{"p": s.profile}, Permissions: s.engine, Blobs: store, Dir: t.TempDir(),
		Worktrees: s.trees, HostQueue: "host", Approvers: s.approvers, HookTimeout: cmp.Or(s.hookTimeout, time.Minute),
	})
	require.NoError(t, err)
	b.engine = engine
	if s.checkAnswer == nil {
		s.checkAnswer = engine.CheckAnswer
	}
	if s.decideTurn == nil {
		s.decideTurn = activities.AssentDecideTurn
	}
	b.gate, err = workflows.NewInterceptor(workflows.Config{Decide: activities.AssentDecide, DecideTurn: s.decideTurn, Admit: activities.AssentAdmit, Continue: activities.AssentContinue, CheckAnswer: s.checkAnswer,
		DecideTimeout: 2 * time.Minute, Attributes: s.attributes, Spent: s.spent, Converter: s.codec, Patience: s.patience})
	require.NoError(t, err)
	b.tools, b.codec = tools, s.codec
	b.renew()
	return b
}

// patient gives an environment time on a slow machine; a test that hangs is stopped by its package. Beside it options are set
// with a DeadlockDetectionTimeout, or the SDK's is a second.
func patient(env *testsuite.TestWorkflowEnvironment) {
	env.SetTestTimeout(10 * time.Minute)
	env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute})
}

// renew gives the agent another environment in which its next run can be.
func (b *bench) renew() {
	var suite testsuite.WorkflowTestSuite
	engine := b.engine
	b.env = suite.NewTestWorkflowEnvironment()
	if b.codec != nil {
		b.env.SetDataConverter(b.codec)
	}
	// The machine may be slow; a test that hangs is stopped by its package.
	b.env.SetTestTimeout(10 * time.Minute)
	b.env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{b.gate, activities.NewInterceptor(engine)}})
	b.env.RegisterWorkflowWithOptions(workflows.Agent, workflow.RegisterOptions{Name: protocol.WorkflowAgent})
	reg := func(name string, fn any) {
		b.env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	reg(protocol.ActivityResolveToolset, engine.ResolveToolset)
	reg(protocol.ActivityGenerate, engine.Generate)
	reg(protocol.ActivityObserve, engine.Observe)
	reg(protocol.ActivityDecideSlow, activities.AssentDecideSlow)
	reg(protocol.ActivityAdmitSlow, activities.AssentAdmitSlow)
	reg(protocol.ActivityAskApprover, activities.AssentAskApprover)
	reg(protocol.ActivityResolveRef, engine.ResolveRef)
	reg(protocol.ActivityAcquireWorktree, engine.AcquireWorktree)
	reg(protocol.ActivityCollectWorktree, engine.CollectWorktree)
	reg(protocol.ActivityDisposeWorktree, engine.DisposeWorktree)
	for _, d := range b.tools {
		reg(protocol.ToolPrefix+d.Name(), activities.RunTool)
	}
}

// tool records its input and answers with it.
func (b *bench) tool(name string, risk tool.Risk) *tool.Def {
	return tool.MustNew(name, "Does "+name+".", func(_ context.Context, _ *tool.Context, in pathIn) (pathIn, error) {
		b.began(name, in.Path)
		return in, nil
	}, risk)
}

type shellIn struct {
	Command string `json:"command"`
}

// shellTool has an input that argv rules read.
func shellTool() *tool.Def {
	return tool.MustNew("sh", "Runs a command.", func(_ context.Context, _ *tool.Context, in shellIn) (shellIn, error) { return in, nil }, tool.Execute)
}

func (b *bench) began(name, input string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ran[name] = append(b.ran[name], input)
	b.order = append(b.order, name+" "+input)
}

func (b *bench) run(in protocol.AgentInput) protocol.AgentResult {
	b.t.Helper()
	if in.AgentType == "" {
		in.AgentType = "p"
	}
	if in.Prompt == "" {
		in.Prompt = "go"
	}
	b.env.ExecuteWorkflow(protocol.WorkflowAgent, in)
	require.True(b.t, b.env.IsWorkflowCompleted())
	require.NoError(b.t, b.env.GetWorkflowError())
	var res protocol.AgentResult
	require.NoError(b.t, b.env.GetWorkflowResult(&res))
	return res
}

func (b *bench) list() approval.List {
	b.t.Helper()
	v, err := b.env.QueryWorkflow(protocol.QueryApprovals)
	require.NoError(b.t, err)
	var l approval.List
	require.NoError(b.t, v.Get(&l))
	return l
}

// results returns the tool results that the model was given, in order.
func (b *bench) results(res protocol.AgentResult) []model.ToolResult {
	b.t.Helper()
	msgs, err := activities.ReadTranscript(context.Background(), b.blob, res.Transcript)
	require.NoError(b.t, err)
	var out []model.ToolResult
	for _, m := range msgs {
		out = append(out, m.Results...)
	}
	return out
}

func (b *bench) codes(res protocol.AgentResult) []string {
	var out []string
	for _, r := range b.results(res) {
		s := string(r.Result.Code)
		if r.Result.Failure != nil && r.Result.Failure.Reason != "" {
			s += "/" + string(r.Result.Failure.Reason)
		}
		out = append(out, s)
	}
	return out
}

func (b *bench) signal(after time.Duration, payload any) {
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(protocol.SignalApproval, payload) }, after)
}

// answer sends an answer to the n-th pending question.
func (b *bench) answer(after time.Duration, n int, choice approval.Choice) {
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.Greater(b.t, len(p), n)
		b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: p[n].Key, Decision: choice, By: "alice", Reason: "because"})
	}, after)
}

func TestAllowedCallsRun(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}, {tool: change, args: {path: b}}]
  - say: done
`})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, "done", res.Output)
	require.Equal(t, []string{"OK", "OK"}, b.codes(res))
	require.Equal(t, map[string][]string{"look": {"a"}, "change": {"b"}}, b.ran)
}

func TestAskedCallWaitsForDaysAndRunsOnce(t *testing.T) {
	b := newBench(t, setup{profile: config.Profile{Permissions: permission.Layer{Preset: permission.Standard}}, script: `
turns:
  - calls: [{tool: run, args: {path: a}}, {tool: look, args: {path: b}}]
  - say: done
`})
	b.env.RegisterDelayedCallback(func() {
		l := b.list()
		require.Len(t, l.Pending, 1)
		require.JSONEq(t, `{"path":"a"}`, string(l.Pending[0].Input))
		require.Equal(t, []string{"b"}, b.ran["look"], "the allowed call did not wait")
	}, time.Hour)
	b.answer(72*time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK", "OK"}, b.codes(res))
	require.Equal(t, []string{"a"}, b.ran["run"])
	require.Equal(t, 1, res.Asked)
}

func TestDeniedByAPerson(t *testing.T) {
	b := newBench(t, setup{profile: config.Profile{Permissions: permission.Layer{Preset: permission.Standard}}, script: `
turns:
  - calls: [{tool: run, args: {path: a}}]
  - say: sorry
    expect: {lastResult: {code: DENIED, contains: because}}
`})
	b.answer(time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"DENIED/person"}, b.codes(res))
	require.Empty(t, b.ran)
}
