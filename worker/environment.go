package worker

import (
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// Environment is what the SDK's test environment has of a worker.
type Environment interface {
	registry
	RegisterWorkflowWithOptions(any, workflow.RegisterOptions)
}

// Register registers with a test environment what a worker with the Plugin has: the agent, the engine's activities and the
// tools. The environment starts no worker, so it is for the test to call, after SetWorkerOptions with the Plugin. Package
// assenttest does both.
func (p *Plugin) Register(env Environment) error {
	parts, err := p.build(protocol.DefaultTaskQueue)
	if err != nil {
		return err
	}
	registerSlow(env)
	if !p.agents {
		return nil
	}
	env.RegisterWorkflowWithOptions(workflows.Agent, agentOptions)
	registerShared(env, parts.engine)
	if p.hosts {
		registerHost(env, parts.engine)
	}
	return p.registerTools(env)
}
