package worker

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// Guarded names pieces of a team's own workflows that are tools, and what rules need to know about them. Rules name them
// by protocol.ToolName.
type Guarded struct {
	// Tools maps an activity type to its options. It is gated in every workflow of the worker that is not an agent,
	// called as an activity or as a local one.
	Tools map[string]tool.Options
	// Workflows maps a workflow type. Its runs pass the gate before their first line, whoever started them.
	Workflows map[string]tool.Options
	// Operations maps a Nexus operation, written service/operation. The calling workflow passes the gate.
	Operations map[string]tool.Options
	// Elsewhere lists activity types of Tools that only other workers serve. Without it, a type that is not
	// registered when the worker starts is a *fault.ConfigError: a misspelt guard guards nothing.
	Elsewhere []string
	// Enforce is what the worker does with a guarded activity that has no grant; empty means log, until the runs
	// that began before the guard have closed. What drains is at most logged.
	Enforce activities.Enforce
	// Drain gates no new run, and finishes those that are gated. Deploy it first, before the guard, and last, before
	// the worker loses the guard.
	Drain bool
	// Draining does the same for names of Tools, Workflows or Operations that are to be guarded no more.
	Draining []string
}

// guards are checked Guarded: facts by the name that the SDK uses.
type guards struct {
	activities, workflows, operations map[string]protocol.ToolFacts
	elsewhere                         []string
	enforce                           activities.Enforce
	drain                             bool
	draining                          []string
}

func (g Guarded) empty() bool { return len(g.Tools)+len(g.Workflows)+len(g.Operations) == 0 }

func (g Guarded) check() (guards, error) {
	out := guards{elsewhere: g.Elsewhere, enforce: g.Enforce, drain: g.Drain, draining: g.Draining}
	if out.enforce == "" {
		out.enforce = activities.Log
	}
	// One namespace of tool names: a rule could not tell two of one name apart.
	names := map[string]string{}
	var err error
	if out.activities, err = facts("Tools", g.Tools, names); err != nil {
		return out, err
	}
	if out.workflows, err = facts("Workflows", g.Workflows, names); err != nil {
		return out, err
	}
	if out.operations, err = facts("Operations", g.Operations, names); err != nil {
		return out, err
	}
	for _, name := range g.Draining {
		_, called := out.activities[name]
		_, begun := out.workflows[name]
		_, operated := out.operations[name]
		if !called && !begun && !operated {
			return out, fault.Configf("Draining", "%q is not guarded", name)
		}
	}
	for _, name := range g.Elsewhere {
		if _, ok := g.Tools[name]; !ok {
			return out, &fault.ConfigError{Key: "Elsewhere", Msg: fmt.Sprintf("%q is not among Tools", name), Allowed: slices.Sorted(maps.Keys(g.Tools))}
		}
	}
	return out, nil
}

func facts(kind string, options map[string]tool.Options, names map[string]string) (map[string]protocol.ToolFacts, error) {
	out := map[string]protocol.ToolFacts{}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		key, o := kind+"."+name, options[name]
		switch {
		case name == "":
			return nil, fault.Configf(kind, "a name is empty")
		case kind == "Operations" && strings.Count(name, "/") < 1:
			return nil, fault.Configf(key, "a Nexus operation is written service/operation")
		case ours(name):
			return nil, fault.Configf(key, "the name is Assent's own")
		case o.Timeout != 0 || o.Executor != "":
			return nil, fault.Configf(key, "it keeps the timeouts that its workflow gives it, and runs where it is: Timeout and Executor are for tools of agents")
		case o.Risk != tool.Undeclared && !slices.Contains(tool.Risks(), o.Risk):
			return nil, &fault.ConfigError{Key: key, Msg: fmt.Sprintf("unknown risk %q", o.Risk), Allowed: permission.RiskNames()}
		}
		toolName := protocol.ToolName(name)
		if other, taken := names[toolName]; taken {
			return nil, fault.Configf(key, "rules know it as %q, like %s", toolName, other)
		}
		names[toolName] = key
		out[name] = protocol.ToolFacts{Name: toolName, Risk: o.Risk, NeedsApproval: o.NeedsApproval, Idempotent: o.Idempotent,
			ActivityType: name}
	}
	return out, nil
}

// ours reports whether an activity or workflow type is one of the engine's.
func ours(name string) bool {
	return protocol.IsTool(name) || name == protocol.WorkflowAgent || slices.Contains([]string{
		protocol.ActivityDecide, protocol.ActivityDecideTurn, protocol.ActivityDecideSlow, protocol.ActivityAdmit, protocol.ActivityAdmitSlow, protocol.ActivityAskApprover, protocol.ActivityAttributes, protocol.ActivityResolveToolset,
		protocol.ActivityResolveRef, protocol.ActivityGenerate, protocol.ActivityAcquireWorktree,
		protocol.ActivityCollectWorktree, protocol.ActivityDisposeWorktree, protocol.ActivityObserve,
		protocol.ActivityReceiveResult, protocol.ActivityContinue, protocol.ActivitySpent, protocol.ActivityJoinAgent, protocol.ActivityForwardAnswer}, name)
}

// registered remembers what the team registers on one worker.
type registered struct {
	activities, workflows []string
	// anyActivity and anyWorkflow say that a dynamic one takes every type.
	anyActivity, anyWorkflow bool
}

// watch learns what the team registers on a worker, before it starts.
func (p *Plugin) watch(o worker.PluginConfigureWorkerOptions) {
	on := o.WorkerRegistryOptions
	if on == nil || len(p.guards.activities)+len(p.guards.workflows) == 0 {
		return
	}
	r := &registered{}
	p.mu.Lock()
	p.registered[o.WorkerInstanceKey] = r
	p.mu.Unlock()
	on.OnRegisterActivity = also(p, on.OnRegisterActivity, func(fn any, opts activity.RegisterOptions) {
		r.activities = append(r.activities, types(fn, opts.Name)...)
	})
	on.OnRegisterWorkflow = also(p, on.OnRegisterWorkflow, func(fn any, opts workflow.RegisterOptions) {
		r.workflows = append(r.workflows, types(fn, opts.Name)...)
	})
	on.OnRegisterDynamicActivity = also(p, on.OnRegisterDynamicActivity, func(any, activity.DynamicRegisterOptions) { r.anyActivity = true })
	on.OnRegisterDynamicWorkflow = also(p, on.OnRegisterDynamicWorkflow, func(any, workflow.DynamicRegisterOptions) { r.anyWorkflow = true })
}

// also calls ours under the Plugin's lock, and then whoever listened before.
func also[O any](p *Plugin, then, ours func(any, O)) func(any, O) {
	return func(fn any, opts O) {
		p.mu.Lock()
		ours(fn, opts)
		p.mu.Unlock()
		if then != nil {
			then(fn, opts)
		}
	}
}

// types are the names under which the SDK registers a function, or the methods of a struct.
func types(fn any, name string) []string {
	t := reflect.TypeOf(fn)
	if t == nil {
		return nil
	}
	if t.Kind() == reflect.Func {
		if name != "" {
			return []string{name}
		}
		full := runtime.FuncForPC(reflect.ValueOf(fn).Pointer()).Name()
		return []string{strings.TrimSuffix(full[strings.LastIndex(full, ".")+1:], "-fm")}
	}
	var names []string
	for i := range t.NumMethod() {
		names = append(names, name+t.Method(i).Name)
	}
	return names
}

// present refuses a guard that would guard nothing: of a type that this worker does not have.
func (p *Plugin) present(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.registered[key]
	if r == nil {
		return nil
	}
	// A worker without any activities leaves them to others.
	if !r.anyActivity && len(r.activities) > 0 {
		for _, name := range slices.Sorted(maps.Keys(p.guards.activities)) {
			if !slices.Contains(r.activities, name) && !slices.Contains(p.guards.elsewhere, name) {
				return &fault.ConfigError{Key: "Tools." + name, Allowed: slices.Sorted(slices.Values(r.activities)),
					Msg: "this worker registers no such activity; if only another one does, name it in Elsewhere"}
			}
		}
	}
	if !r.anyWorkflow && len(r.workflows) > 0 {
		for _, name := range slices.Sorted(maps.Keys(p.guards.workflows)) {
			if !slices.Contains(r.workflows, name) {
				return &fault.ConfigError{Key: "Workflows." + name, Allowed: slices.Sorted(slices.Values(r.workflows)),
					Msg: "this worker registers no such workflow"}
			}
		}
	}
	return nil
}

// versions keeps new runs out of the gate while it drains, by the SDK's own way to roll out a version. Every other change
// keeps the team's preference; ours never ask for it, because one for all changes would open the gate unseen.
func (g guards) versions(then worker.PreferredVersionProvider) worker.PreferredVersionProvider {
	return func(in worker.PreferredVersionProviderInput) *worker.VersionPreference {
		name, one := strings.CutPrefix(in.ChangeID, protocol.ChangeGuard)
		switch {
		case in.ChangeID == protocol.ChangeGate && g.drain, one && slices.Contains(g.draining, name):
			return &worker.VersionPreference{Version: workflow.DefaultVersion}
		case in.ChangeID == protocol.ChangeGate, one, then == nil:
			return nil
		}
		return then(in)
	}
}

// released are the activities that new runs call without a grant.
func (g guards) released() []string {
	if g.drain {
		return slices.Collect(maps.Keys(g.activities))
	}
	return g.draining
}
