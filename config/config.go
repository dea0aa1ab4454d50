package config

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// File is what a configuration file says, with relative paths resolved against the file's folder.
type File struct {
	// Path is the name the file was loaded or parsed under.
	Path string
	// Engine is the layer under every profile.
	Engine permission.Layer
	// Groups maps a group of approvers to its principals.
	Groups map[string][]string
	// Keys holds the public key of principals who sign their answers.
	Keys     map[string]ed25519.PublicKey
	Profiles map[string]Profile
	Models   Models
	// MCP maps the name of a server, which stands for its tools in a profile's list, to what is said of it.
	MCP    map[string]MCPServer
	Worker Worker

	source *reader // knows the place of every key
}

// Profile is one type of agent.
type Profile struct {
	Name, Description string
	// System is the system prompt.
	System string
	// Models are `provider:name`, the first preferred and the rest fallbacks. It may be empty: then the agent's input
	// must name one.
	Models []string
	// Tools are names of tools and toolsets. Nil means that none were written.
	Tools       []string
	Permissions permission.Layer
	// Guards must be mounted on the worker that runs a call.
	Guards []string
	// Attestation is nil unless the profile pins its toolset.
	Attestation *tool.Attestation
	Isolation   worktree.Isolation
	// Limits are complete: what was not written has its default.
	Limits Limits
	// BudgetUSD is nil for no budget, else more than zero.
	BudgetUSD *float64
	// Output is nil unless the agent's answer has a schema: tool.OutputFor, OutputFromSchema or OutputFromPair make it.
	Output *tool.Validator
}

// Limits bounds an agent.
type Limits = protocol.Limits

// Models configures the model providers.
type Models struct {
	// Scripted maps the name in `scripted:name` to the absolute path of its script.
	Scripted map[string]string
	// Providers maps the name in `name:model` to its endpoint.
	Providers map[string]Provider
	// Prices goes before model.DefaultPrices.
	Prices model.Prices
	// CompactAt is the share of a context window at which a conversation is compacted; zero is the engine's default.
	CompactAt float64
	// StreamEvery is how often what a model says is told while it speaks; zero is the engine's default, negative is never.
	StreamEvery time.Duration
}

// Worker configures the stock worker. What was not written is the zero value, except PinCap and Shell.Engine.
type Worker struct {
	TaskQueue, Address, Namespace string
	// Dir is where tools run without a worktree; Blobs is the folder of the blob store.
	Dir, Blobs string
	// GrantKeyFile holds the key that grants are signed with.
	GrantKeyFile string
	// Deployment makes the worker one version of a Worker Deployment; its zero value is a worker without versions.
	Deployment Deployment
	Worktrees  Worktrees
	Fetch      Fetch
	Shell      Shell
}

// The behaviors of agents when another build of their worker becomes current.
const (
	// Pinned agents finish on the build they began on, whose workers must stay until they have. It is the default.
	Pinned = "pinned"
	// AutoUpgrade moves an agent to the current build with its next task. A tool whose contract has changed is then
	// CONTRACT_DRIFT to it.
	AutoUpgrade = "autoUpgrade"
)

// Deployment is a version of a Worker Deployment. New agents go to it once it is the deployment's current version, which
// `temporal worker deployment set-current-version` makes it. The queue of a host's worktrees has no versions.
type Deployment struct {
	Name, BuildID string
	// Behavior is Pinned or AutoUpgrade.
	Behavior string
}

// Worktrees says which repositories may be worked on and where their trees go.
type Worktrees struct {
	// Repos maps a name to an absolute path.
	Repos       map[string]string
	Root        string
	KeepOnError bool
	// PinCap is the number of failed agents' trees to retain: 4 if nothing was written.
	PinCap int
	// MinFree and MaxBytes are bytes: what must be free on the disk for another tree, and what all may take together.
	MinFree, MaxBytes int64
	// Private makes all trees private, PrivateRepos those of the named repositories, whatever an agent asks for.
	Private      bool
	PrivateRepos []string
	// Git is the path of a git binary for repositories that cannot be served without; Filters are the filter drivers
	// that it may run.
	Git     string
	Filters []string
}

// DefaultPinCap is the pin cap of a file that sets none.
const DefaultPinCap = 4

// Fetch admits private addresses to the fetch tool.
type Fetch struct {
	// Allow are hosts, addresses and CIDR prefixes.
	Allow []string
}

// The engines of the shell tool.
const (
	// ShellInterp interprets commands and enforces deny rules at run time.
	ShellInterp = "interp"
	// ShellSh runs the real shell without enforcement at run time.
	ShellSh = "sh"
)

// Shell configures the shell tool.
type Shell struct {
	// Engine is ShellInterp or ShellSh.
	Engine string
	// Env is added to the minimal environment.
	Env map[string]string
}

// Profile returns a profile by name. The error of an unknown one is a *fault.ConfigError that lists those there are.
func (f *File) Profile(name string) (Profile, error) {
	if p, ok := f.Profiles[name]; ok {
		return p, nil
	}
	e := fault.Configf("", "unknown profile %q", name)
	e.File = f.Path
	e.Allowed = slices.Sorted(maps.Keys(f.Profiles))
	return Profile{}, e
}
