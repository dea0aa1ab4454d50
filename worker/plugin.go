package worker

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// Plugin is Assent on a client, a worker or both. One Plugin serves one worker process.
type Plugin struct {
	clientBase
	//lint:ignore U1000 The SDK demands that it is embedded; its unexported method makes this a worker.Plugin.
	workerBase

	name    string
	agents  bool
	dynamic bool
	// callTool serves tools of sources by one activity of a name of its own.
	callTool bool
	hosts    bool
	hostID   string
	client   client.Client

	decideTimeout, patience, hostPatience time.Duration
	converter                             converter.DataConverter
	// configured says that the converter is not a client's.
	configured bool
	pipeline   *pipeline.Pipeline
	guards     guards
	engine     activities.Config

	mu sync.Mutex
	// built is set when the first worker or replayer is configured: then the task queue is known.
	built       *parts
	host        worker.Worker
	hostStarted int
	// stopSweep ends the looking after the host's trees.
	stopSweep func()
	// hostKeys are the instances of host, which meet this Plugin again when it is on their client.
	hostKeys map[string]bool
	// failures says that the client has a failure converter.
	failures bool
	// fronted says that a client has this Plugin, behind that a warning of interceptors behind the gate was given.
	fronted atomic.Bool
	behind  sync.Once
	// registered are the activity types of each worker, by its instance.
	registered map[string]*registered
	// pins are the workers whose agents are pinned for want of another word: a versioned worker without a default behavior,
	// whose own workflows name theirs, cannot take one without. noWorkflows are those that take activities alone.
	pins, noWorkflows map[string]bool
}

type (
	clientBase = client.PluginBase
	//lint:ignore U1000 As above.
	workerBase = worker.PluginBase
)

// parts are what a worker gets: both halves of the seam.
type parts struct {
	engine    *activities.Engine
	hostQueue string
	// first and last stand round the team's own interceptors.
	first interceptor.WorkerInterceptor
	last  []interceptor.WorkerInterceptor
}

// half is one of the interceptors of a Plugin and says whose it is.
type half struct {
	interceptor.WorkerInterceptor
	of *Plugin
}

var (
	_ client.Plugin = (*Plugin)(nil)
	_ worker.Plugin = (*Plugin)(nil)
)

// Name is the plugin's name in worker heartbeats.
func (p *Plugin) Name() string { return p.name }

// Pipeline is where plugins are mounted on a running worker.
func (p *Plugin) Pipeline() *pipeline.Pipeline { return p.pipeline }

func (p *Plugin) keys(keys []protocol.GrantKey) error {
	ring, err := protocol.NewKeyring(keys...)
	if err != nil {
		return err
	}
	p.engine.Keys = ring
	// Everything that can be wrong is found now and not when the worker is made, where an error is a panic.
	_, err = p.build(protocol.DefaultTaskQueue)
	p.built = nil
	return err
}

// build makes both halves for a task queue.
func (p *Plugin) build(queue string) (*parts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.built != nil {
		return p.built, nil
	}
	cfg := p.engine
	cfg.Words, cfg.Converter = p.words(), p.converter
	agents := ""
	if !p.agents {
		agents = protocol.DefaultTaskQueue
	}
	if p.hosts {
		cfg.HostQueue = hostQueue(queue, p.hostID)
	}
	engine, err := activities.New(cfg)
	if err != nil {
		return nil, err
	}
	first, last, err := workflows.NewInterceptors(workflows.Config{
		Decide: activities.AssentDecide, DecideTurn: activities.AssentDecideTurn, Admit: activities.AssentAdmit,
		Attributes: activities.AssentAttributes, Continue: activities.AssentContinue, Spent: activities.AssentSpent,
		CheckAnswer: engine.CheckAnswer, DecideTimeout: p.decideTimeout, Patience: p.patience, HostPatience: p.hostPatience,
		Keys: cfg.Keys, Converter: p.converter, Words: cfg.Words, AgentQueue: agents, Guarded: p.guards.activities,
		GuardedWorkflows: p.guards.workflows, GuardedOperations: p.guards.operations, Behind: p.lookBehind,
	})
	if err != nil {
		return nil, err
	}
	p.built = &parts{engine: engine, hostQueue: cfg.HostQueue,
		first: half{first, p},
		last:  []interceptor.WorkerInterceptor{half{last, p}, bodies{half{activities.NewInterceptor(engine), p}}}}
	return p.built, nil
}

// words says where refusals may hold what people say. What is not known to be in plain text anyway stays out of it.
func (p *Plugin) words() protocol.Words {
	switch {
	case p.failures:
		return protocol.WordsInDetails
	case p.converter == nil && p.fronted.Load(), p.converter == converter.GetDefaultDataConverter():
		return protocol.AllWords
	}
	return protocol.NoWords
}

func hostQueue(queue, hostID string) string { return queue + "@" + hostID }

// ConfigureClient takes the team's data converter, because arguments are judged as it encodes them, and stands before
// the client's interceptors, which would else come before all of a worker's.
func (p *Plugin) ConfigureClient(_ context.Context, o client.PluginConfigureClientOptions) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	theirs := o.ClientOptions.DataConverter
	if theirs == nil {
		theirs = converter.GetDefaultDataConverter()
	}
	switch {
	case p.configured:
		// The Plugin's own configuration says which.
	case !p.fronted.Load():
		p.converter = theirs
	case !reflect.DeepEqual(theirs, p.converter):
		return fault.Configf("DataConverter", "another client of this plugin has another one; make a plugin for each, or name the one of both in its configuration")
	}
	p.failures = p.failures || o.ClientOptions.FailureConverter != nil
	have := slices.DeleteFunc(slices.Clone(o.ClientOptions.Interceptors), func(i interceptor.ClientInterceptor) bool {
		f, ok := i.(*front)
		return ok && f.of == p
	})
	p.fronted.Store(true)
	o.ClientOptions.Interceptors = append([]interceptor.ClientInterceptor{&front{of: p}}, have...)
	return nil
}

// made is what build has made for the worker.
func (p *Plugin) made() *parts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.built
}

// ConfigureWorker installs the interceptors round all others, once.
func (p *Plugin) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	parts, err := p.build(o.TaskQueue)
	if err != nil {
		return err
	}
	if err := p.alone(o.WorkerOptions.Interceptors); err != nil {
		return err
	}
	o.WorkerOptions.Interceptors = parts.install(o.WorkerOptions.Interceptors)
	if parts.hostQueue != "" && o.TaskQueue == parts.hostQueue {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hostKeys[o.WorkerInstanceKey] = true
		return nil
	}
	// A worker that stops lets decisions that have begun end, or their calls would be denied.
	if least := max(p.decideTimeout, 2*time.Second) + time.Second; o.WorkerOptions.WorkerStopTimeout < least {
		o.WorkerOptions.WorkerStopTimeout = least
	}
	if d := o.WorkerOptions.DeploymentOptions; d.UseVersioning && d.DefaultVersioningBehavior == workflow.VersioningBehaviorUnspecified {
		p.mu.Lock()
		p.pins[o.WorkerInstanceKey] = true
		p.mu.Unlock()
	}
	if o.WorkerOptions.DisableWorkflowWorker {
		p.mu.Lock()
		p.noWorkflows[o.WorkerInstanceKey] = true
		p.mu.Unlock()
	}
	p.watch(o)
	if p.guards.drain || len(p.guards.draining) > 0 || o.WorkerOptions.PreferredVersionProvider != nil {
		o.WorkerOptions.PreferredVersionProvider = p.guards.versions(o.WorkerOptions.PreferredVersionProvider)
	}
	if p.agents && o.WorkerOptions.MaxEagerActivityReservationsPerWorkflowTask == nil {
		// The SDK's 3 would leave the other calls of a turn to the pollers, one after another.
		most := eager
		o.WorkerOptions.MaxEagerActivityReservationsPerWorkflowTask = &most
	}
	if o.WorkerOptions.StickyScheduleToStartTimeout == 0 {
		// How long a run waits for a worker that crashed before another one takes it.
		o.WorkerOptions.StickyScheduleToStartTimeout = 2 * time.Second
	}
	return nil
}

// eager is how many activities of one task the worker that asks for them may take along at once, if it has room.
const eager = 16

// HeartbeatThrottle is the MaxHeartbeatThrottleInterval of a worker that runs agents and tools and nothing else: a tool hears of a
// cancellation within that time. The SDK would hold reports of life back for eight of the ten seconds after which the server takes
// a worker for lost, and one that starves for two loses its calls. The Plugin sets it on no worker of a team's: the SDK tries a report for as long as
// that and then cancels the activity, so one that has a minute would not outlive a server that is away for five seconds.
const HeartbeatThrottle = 4 * time.Second

// alone refuses a worker that has another Plugin of ours: only the outer one would act, and what the inner one was
// to guard would run unguarded.
func (p *Plugin) alone(have []interceptor.WorkerInterceptor) error {
	for _, i := range have {
		if h, ok := i.(half); ok && h.of != p {
			return fault.Configf("Plugins", "the worker has the plugin %q already; a worker takes one plugin of Assent", h.of.name)
		}
	}
	return nil
}

// install puts ours round those of the team, once.
func (p *parts) install(have []interceptor.WorkerInterceptor) []interceptor.WorkerInterceptor {
	first := []interceptor.WorkerInterceptor{p.first}
	ours := append(first, p.last...)
	have = slices.DeleteFunc(slices.Clone(have), func(i interceptor.WorkerInterceptor) bool { return slices.Contains(ours, i) })
	return slices.Concat(first, have, p.last)
}

// ConfigureWorkflowReplayer installs the interceptors in a replayer.
func (p *Plugin) ConfigureWorkflowReplayer(_ context.Context, o worker.PluginConfigureWorkflowReplayerOptions) error {
	parts, err := p.build(protocol.DefaultTaskQueue)
	if err != nil {
		return err
	}
	if err := p.alone(o.WorkflowReplayerOptions.Interceptors); err != nil {
		return err
	}
	o.WorkflowReplayerOptions.Interceptors = parts.install(o.WorkflowReplayerOptions.Interceptors)
	return nil
}

// ReplayWorkflow registers the agent for a replay.
func (p *Plugin) ReplayWorkflow(ctx context.Context, o worker.PluginReplayWorkflowOptions,
	next func(context.Context, worker.PluginReplayWorkflowOptions) error) error {
	if p.agents {
		o.WorkflowReplayRegistry.RegisterWorkflowWithOptions(workflows.Agent, agentOptions)
	}
	return next(ctx, o)
}

var agentOptions = workflow.RegisterOptions{Name: protocol.WorkflowAgent, DisableAlreadyRegisteredCheck: true}

// StartWorker registers the agent and its activities, starts the worker, and with it this host's own queue.
func (p *Plugin) StartWorker(ctx context.Context, o worker.PluginStartWorkerOptions,
	next func(context.Context, worker.PluginStartWorkerOptions) error) error {
	parts, err := p.build(protocol.DefaultTaskQueue)
	if err != nil {
		return err
	}
	if p.among(p.hostKeys, o.WorkerInstanceKey) {
		return next(ctx, o)
	}
	if err := p.present(o.WorkerInstanceKey); err != nil {
		return err
	}
	registerSlow(o.WorkerRegistry)
	if !p.agents {
		return next(ctx, o)
	}
	if !p.among(p.noWorkflows, o.WorkerInstanceKey) {
		agent := agentOptions
		if p.among(p.pins, o.WorkerInstanceKey) {
			agent.VersioningBehavior = workflow.VersioningBehaviorPinned
		}
		o.WorkerRegistry.RegisterWorkflowWithOptions(workflows.Agent, agent)
	}
	registerShared(o.WorkerRegistry, parts.engine)
	if err := p.registerTools(o.WorkerRegistry); err != nil {
		return err
	}
	if err := p.startHost(parts); err != nil {
		return err
	}
	if err := next(ctx, o); err != nil {
		p.stopHost()
		return err
	}
	return nil
}

// StopWorker stops the host's queue with the last worker.
func (p *Plugin) StopWorker(ctx context.Context, o worker.PluginStopWorkerOptions, next func(context.Context, worker.PluginStopWorkerOptions)) {
	next(ctx, o)
	if !p.among(p.hostKeys, o.WorkerInstanceKey) {
		p.stopHost()
	}
}

// among reports whether a worker is in one of the plugin's sets of them.
func (p *Plugin) among(set map[string]bool, key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return set[key]
}

// registry is the part of a worker that both its plugins' registry and a worker itself have.
type registry interface {
	RegisterActivityWithOptions(any, activity.RegisterOptions)
	RegisterDynamicActivity(any, activity.DynamicRegisterOptions)
}

func register(r registry, name string, fn any) {
	r.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name, DisableAlreadyRegisteredCheck: true})
}

func registerSlow(r registry) {
	register(r, protocol.ActivityDecideSlow, activities.AssentDecideSlow)
	register(r, protocol.ActivityAdmitSlow, activities.AssentAdmitSlow)
	register(r, protocol.ActivityAskApprover, activities.AssentAskApprover)
	register(r, protocol.ActivityJoinAgent, activities.AssentJoinAgent)
	register(r, protocol.ActivityForwardAnswer, activities.AssentForwardAnswer)
}

// registerShared registers what any worker of the queue can do.
func registerShared(r registry, e *activities.Engine) {
	register(r, protocol.ActivityResolveToolset, e.ResolveToolset)
	register(r, protocol.ActivityResolveRef, e.ResolveRef)
	register(r, protocol.ActivityGenerate, e.Generate)
	register(r, protocol.ActivityObserve, e.Observe)
	register(r, protocol.ActivityReceiveResult, e.ReceiveResult)
}

// registerHost registers what only the host of a tree can do.
func registerHost(r registry, e *activities.Engine) {
	register(r, protocol.ActivityAcquireWorktree, e.AcquireWorktree)
	register(r, protocol.ActivityCollectWorktree, e.CollectWorktree)
	register(r, protocol.ActivityDisposeWorktree, e.DisposeWorktree)
}

func (p *Plugin) registerTools(r registry) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Configf("Dynamic", "tools that come later need the one dynamic activity of a worker, and this one has its own: %v", v)
		}
	}()
	for _, d := range p.pipeline.Tools() {
		// One that is an activity or a workflow of the team's own runs where its workers are.
		if d.Info().Remote == nil {
			register(r, protocol.ToolPrefix+d.Name(), activities.RunTool)
		}
	}
	if p.callTool {
		// Also on a dynamic worker: another one of the queue may have resolved the agent.
		register(r, protocol.ActivityCallTool, activities.RunTool)
	}
	if p.dynamic {
		r.RegisterDynamicActivity(activities.RunDynamicTool, activity.DynamicRegisterOptions{})
	}
	return nil
}

// noBlobs is the store of a guard: it has none, because the arguments of a team's activities stay in history.
type noBlobs struct{}

func (noBlobs) ID() string { return "" }

func (noBlobs) Put(context.Context, []byte) (blob.Ref, error) {
	return blob.Ref{}, fault.Configf("Blobs", "a guard has no blob store")
}

func (noBlobs) Get(_ context.Context, ref blob.Ref) ([]byte, error) {
	return nil, &blob.NotFoundError{Ref: ref}
}
