package worker

import (
	"log/slog"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// Config is the whole engine. Profiles and Blobs are needed; every other zero value is useful.
type Config struct {
	// Models maps a provider's name, the part before the colon, to its driver.
	Models map[string]model.Model
	// Prices, by `provider:model`, goes before model.DefaultPrices. A budget needs the price of every model of its agent.
	Prices model.Prices
	// CompactAt is the share of a model's context window at which older turns are summarised; zero is model.DefaultShare.
	CompactAt float64
	// StreamEvery is how often what a model says is put down with the server while it speaks, for people who watch: one
	// heartbeat each time. Zero is a second, negative never.
	StreamEvery time.Duration
	Profiles    map[string]config.Profile
	// Permissions is the engine's layer, under every profile's.
	Permissions permission.Layer
	// Approvers knows the groups and the public keys that approval policies and signed answers name.
	Approvers approval.Directory
	// Tools are served by this worker; Toolsets gives names to groups of them.
	Tools    []*tool.Def
	Toolsets map[string][]string
	// Sources offer tools that are known only at run time. A profile lists a source by its name, which stands for all
	// that it offers when an agent starts; they are frozen for the agent's life. They run as assent.CallTool, or as
	// tool.<name> if a Dynamic worker has frozen them, which only Dynamic workers serve.
	Sources []tool.Source
	// Pipeline may bring plugins that are mounted already; nil makes a new one.
	Pipeline *pipeline.Pipeline
	Plugins  []pipeline.Plugin
	Blobs    blob.Store
	// Worktrees manages git worktrees on this host. It needs HostID, a name that this machine keeps, and Client,
	// because the host has a task queue of its own. One that is a worktree.Sweeper is swept at the start and hourly.
	Worktrees   worktree.Provider
	HostID      string
	Client      client.Client
	KeepOnError bool
	// GrantKeys are shared by all workers; the first signs. Without a key a grant finds faults of wiring only.
	GrantKeys []protocol.GrantKey
	// DataConverter is the one of the client, needed here only if the Plugin is not given to the client.
	DataConverter converter.DataConverter
	// Dir is where tools run without a worktree; empty means the working directory.
	Dir string
	// Guarded are activities, workflows and operations of the team's own that are tools too.
	Guarded Guarded
	// Dynamic serves tools that are mounted later, and those of Sources, through the worker's one dynamic activity.
	Dynamic bool
	// DecideTimeout bounds one decision; zero means 2 s. HookTimeout bounds one hook.
	DecideTimeout, HookTimeout time.Duration
	// Patience is how long a call waits for a worker that serves its frozen contract; zero means 10 minutes.
	Patience time.Duration
	// HostPatience is how long an agent in a worktree waits for the host that has it; zero means 5 minutes. After that the
	// tree is lost and the agent starts again on another host.
	HostPatience time.Duration
	// ContinueAfter is the number of events of history after which an agent continues as new; zero leaves it to the server,
	// which suggests it at some 4,000 events or 4 MiB. An agent keeps the value with which it began.
	ContinueAfter int
	Log           *slog.Logger
}

// GuardConfig guards what a team already has, in workflows that are not agents. Its Tools, Workflows, Operations,
// Enforce and so on are those of Guarded.
type GuardConfig struct {
	Tools      map[string]tool.Options
	Workflows  map[string]tool.Options
	Operations map[string]tool.Options
	Elsewhere  []string
	Enforce    activities.Enforce
	Drain      bool
	Draining   []string

	Permissions permission.Layer
	// Approvers knows the groups and the public keys that approval policies and signed answers name.
	Approvers approval.Directory
	Pipeline  *pipeline.Pipeline
	Plugins   []pipeline.Plugin
	// GrantKeys are shared by all workers; the first signs. Without a key a grant finds faults of wiring only.
	GrantKeys []protocol.GrantKey
	// DataConverter is the one of the client, needed here only if the Plugin is not given to the client.
	DataConverter converter.DataConverter
	// DecideTimeout bounds one decision; zero means 2 s. HookTimeout bounds one hook.
	DecideTimeout, HookTimeout time.Duration
	Log                        *slog.Logger
}

// New returns the engine as a Plugin, or a *fault.ConfigError.
func New(cfg Config) (*Plugin, error) {
	switch {
	case len(cfg.Profiles) == 0:
		return nil, fault.Configf("Profiles", "an engine needs at least one profile")
	case cfg.Blobs == nil:
		return nil, fault.Configf("Blobs", "an engine needs a blob store")
	case cfg.Worktrees != nil && (cfg.HostID == "" || cfg.Client == nil):
		return nil, fault.Configf("Worktrees", "need HostID and Client")
	}
	guards, err := cfg.Guarded.check()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, &fault.ConfigError{Key: "Dir", Msg: "cannot be made absolute", Cause: err}
	}
	pipe, err := mount(cfg.Pipeline, cfg.Log, cfg.Tools, cfg.Plugins)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		name: "assent", agents: true, dynamic: cfg.Dynamic, callTool: len(cfg.Sources) > 0, client: cfg.Client, hostID: cfg.HostID, hosts: cfg.Worktrees != nil,
		decideTimeout: cfg.DecideTimeout, patience: cfg.Patience, hostPatience: cfg.HostPatience, converter: cfg.DataConverter, configured: cfg.DataConverter != nil, pipeline: pipe,
		guards: guards, registered: map[string]*registered{}, pins: map[string]bool{}, noWorkflows: map[string]bool{}, hostKeys: map[string]bool{},
		engine: activities.Config{
			Approvers: cfg.Approvers, Guarded: guards.activities, Enforce: guards.enforce, Draining: guards.released(),
			Pipeline: pipe, Models: cfg.Models, Prices: cfg.Prices, CompactAt: cfg.CompactAt, StreamEvery: cfg.StreamEvery, Profiles: cfg.Profiles, Permissions: cfg.Permissions, Toolsets: cfg.Toolsets, Sources: cfg.Sources, CallTool: !cfg.Dynamic,
			Blobs: cfg.Blobs, Worktrees: cfg.Worktrees, KeepOnError: cfg.KeepOnError, Dir: dir, ContinueAfter: cfg.ContinueAfter,
			HookTimeout: cfg.HookTimeout, Log: cfg.Log,
		},
	}
	return p, p.keys(cfg.GrantKeys)
}

// NewGuard returns the gate alone as a Plugin, or a *fault.ConfigError.
func NewGuard(cfg GuardConfig) (*Plugin, error) {
	guarded := Guarded{Tools: cfg.Tools, Workflows: cfg.Workflows, Operations: cfg.Operations, Elsewhere: cfg.Elsewhere,
		Enforce: cfg.Enforce, Drain: cfg.Drain, Draining: cfg.Draining}
	if guarded.empty() {
		return nil, fault.Configf("Tools", "a guard without activity types, workflow types or operations guards nothing")
	}
	guards, err := guarded.check()
	if err != nil {
		return nil, err
	}
	pipe, err := mount(cfg.Pipeline, cfg.Log, nil, cfg.Plugins)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		name: "assent-guard", decideTimeout: cfg.DecideTimeout, converter: cfg.DataConverter, configured: cfg.DataConverter != nil, pipeline: pipe,
		guards: guards, registered: map[string]*registered{}, pins: map[string]bool{}, noWorkflows: map[string]bool{}, hostKeys: map[string]bool{},
		engine: activities.Config{Pipeline: pipe, Permissions: cfg.Permissions, Approvers: cfg.Approvers, Guarded: guards.activities,
			Enforce: guards.enforce, Draining: guards.released(), HookTimeout: cfg.HookTimeout, Blobs: noBlobs{}, Log: cfg.Log},
	}
	return p, p.keys(cfg.GrantKeys)
}

// mount puts tools and plugins on a pipeline, in order; the shipped guard and timeout come with every one.
func mount(pipe *pipeline.Pipeline, log *slog.Logger, tools []*tool.Def, plugins []pipeline.Plugin) (*pipeline.Pipeline, error) {
	if pipe == nil {
		pipe = pipeline.New(pipeline.Config{Log: log})
		plugins = append([]pipeline.Plugin{pipeline.Readonly(), pipeline.Timeout()}, plugins...)
	}
	if len(tools) > 0 {
		plugins = append([]pipeline.Plugin{pipeline.PluginFunc("tools", func(s *pipeline.Scope) error {
			for _, d := range tools {
				if err := s.Tool(d); err != nil {
					return err
				}
			}
			return nil
		})}, plugins...)
	}
	for _, p := range plugins {
		if _, err := pipe.Mount(p); err != nil {
			return nil, err
		}
	}
	return pipe, nil
}
