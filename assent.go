// Package assent adds durable, permission-gated LLM agents to a Temporal worker.
//
// New makes the engine and NewGuard the gate alone; both are Temporal Plugins and go into a worker's or a client's
// options. Services that only start agents and answer their questions need the package protocol instead.
package assent

import "github.com/assent-dev/assent/worker"

type (
	// Config is the whole engine: models, profiles, policy, tools, stores.
	Config = worker.Config
	// GuardConfig guards activities that a team already has, with no agent in sight.
	GuardConfig = worker.GuardConfig
	// Guarded names activities, workflows and operations of a team's own that are tools.
	Guarded = worker.Guarded
	// Plugin is Assent on a client, a worker or both.
	Plugin = worker.Plugin
)

// New returns the engine as a Plugin, or a *fault.ConfigError.
func New(cfg Config) (*Plugin, error) { return worker.New(cfg) }

// NewGuard returns the gate alone as a Plugin, or a *fault.ConfigError.
func NewGuard(cfg GuardConfig) (*Plugin, error) { return worker.NewGuard(cfg) }

// HeartbeatThrottle is worker.HeartbeatThrottle.
const HeartbeatThrottle = worker.HeartbeatThrottle
