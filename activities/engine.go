package activities

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/transcript"
	"github.com/assent-dev/assent/worktree"
)

// Enforce says what a worker does with a tool activity that has no valid grant.
type Enforce string

// The modes of enforcement. The zero value is On.
const (
	Off Enforce = "off"
	// Log lets the call run and reports what On would refuse: for the time in which old runs still close. A grant that
	// has expired or is of a run before a reset refuses all the same.
	Log Enforce = "log"
	On  Enforce = "on"
)

// Config is what an Engine is made of. Blobs and Pipeline are needed; the rest may be empty.
type Config struct {
	Pipeline *pipeline.Pipeline
	// Models maps a provider's name to its driver.
	Models map[string]model.Model
	// Prices goes before model.DefaultPrices.
	Prices model.Prices
	// CompactAt is the share of a context window at which a conversation is compacted; zero is model.DefaultShare.
	CompactAt float64
	// StreamEvery is how often what a model says is told while it speaks; zero is DefaultStreamEvery, negative never.
	StreamEvery time.Duration
	Profiles    map[string]config.Profile
	// Permissions is the engine's layer, under every profile's.
	Permissions permission.Layer
	// Approvers knows the principals who answer questions.
	Approvers approval.Directory
	// Toolsets maps a name to names of tools.
	Toolsets map[string][]string
	// Sources offer tools that are known only at run time. In a list of tools its name stands for all that a source
	// offers when an agent starts.
	Sources []tool.Source
	// CallTool runs tools of sources as assent.CallTool, for agents that this worker resolves: the worker's dynamic activity
	// is the team's own.
	CallTool bool
	Blobs    blob.Store
	// Worktrees manages trees on this host; HostQueue is this host's own task queue.
	Worktrees   worktree.Provider
	HostQueue   string
	KeepOnError bool
	Keys        protocol.Keyring
	// Enforce is for workflows that are not agents; tools of agents always need a grant.
	Enforce Enforce
	// Words says where refusals may hold what a guard says.
	Words protocol.Words
	// Guarded names activity types that are tools in workflows that are not agents.
	Guarded map[string]protocol.ToolFacts
	// Draining are those of Guarded that new runs call without a grant: for them On is Log.
	Draining []string
	// Dir is where tools run without a worktree.
	Dir string
	// ContinueAfter is the number of events after which agents continue as new; 0 leaves it to the server.
	ContinueAfter int
	HookTimeout   time.Duration
	Log           *slog.Logger
	// Converter reads what the starter of an agent sent; nil is the SDK's default.
	Converter converter.DataConverter
}

// Engine serves the activities of one worker process. It is safe for concurrent use.
type Engine struct {
	cfg Config
	log *slog.Logger

	prices model.Prices

	mu      sync.Mutex
	chains  map[string]*permission.Chain
	outputs map[string]*tool.Validator
	attrs   attributeCheck

	sources []*source
}

const (
	// leastEvents is more than a run has before its first turn, mostEvents far less than the server takes.
	leastEvents = 50
	mostEvents  = 20000
)

// New checks the configuration and compiles every profile's chain, so that a bad rule is found at start.
func New(cfg Config) (*Engine, error) {
	switch {
	case cfg.Blobs == nil:
		return nil, fault.Configf("Blobs", "a blob store is needed")
	case cfg.Pipeline == nil:
		return nil, fault.Configf("Pipeline", "a pipeline is needed")
	case cfg.Worktrees != nil && cfg.HostQueue == "":
		return nil, fault.Configf("HostQueue", "worktrees need a task queue of this host's own")
	case cfg.Enforce != "" && cfg.Enforce != Off && cfg.Enforce != Log && cfg.Enforce != On:
		return nil, &fault.ConfigError{Key: "Enforce", Msg: "unknown mode \"" + string(cfg.Enforce) + "\"", Allowed: []string{"off", "log", "on"}}
	}
	if n := cfg.ContinueAfter; n != 0 && (n < leastEvents || n > mostEvents) {
		return nil, fault.Configf("ContinueAfter", "%d is out of range; %d to %d, or 0 to leave it to the server", n, leastEvents, mostEvents)
	}
	e := &Engine{cfg: cfg, log: cfg.Log, chains: map[string]*permission.Chain{}, outputs: map[string]*tool.Validator{},
		prices: model.DefaultPrices()}
	if e.log == nil {
		e.log = slog.Default()
	}
	if err := cfg.Approvers.Check(); err != nil {
		return nil, err
	}
	if err := e.checkPrices(); err != nil {
		return nil, err
	}
	var err error
	e.sources, err = newSources(cfg.Sources, func(name string) bool {
		_, isTool := cfg.Pipeline.Lookup(name)
		_, isSet := cfg.Toolsets[name]
		return isTool || isSet
	})
	if err != nil {
		return nil, err
	}
	if _, err := e.chain(protocol.Subject{}); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Profiles)) {
		if _, err := e.chain(protocol.Subject{Profile: name}); err != nil {
			return nil, err
		}
		if err := e.known(cfg.Profiles[name]); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// known refuses what a profile asks for and this version cannot do: a promise that is silently dropped would be a
// hole in the policy.
func (e *Engine) known(p config.Profile) error {
	key := "profiles." + p.Name
	if err := protocol.CheckBudget(key+".budgetUSD", p.BudgetUSD); err != nil {
		return err
	}
	if p.BudgetUSD != nil {
		if err := e.priced(key+".budgetUSD", p.Models); err != nil {
			return err
		}
	}
	if p.Output != nil && !p.Output.Object() {
		return fault.Configf(key+".output", "must be an object schema: %s", `"type": "object" at the top`)
	}
	for _, m := range p.Models {
		if _, _, err := e.model(m); err != nil {
			return &fault.ConfigError{Key: key + ".model", Msg: "cannot be used", Cause: err}
		}
	}
	// What a source offers is known when an agent starts.
	mounted := slices.DeleteFunc(slices.Clone(p.Tools), func(name string) bool { return e.source(name) != nil })
	if _, _, err := e.tools(context.Background(), mounted); err != nil {
		return &fault.ConfigError{Key: key + ".tools", Msg: "cannot be used", Cause: err}
	}
	return nil
}

// maxChains bounds the compiled chains that are kept; agents bring rules of their own.
const maxChains = 256

// chainKey tells the policies of subjects apart. Most have nothing of their own, and are asked about all the time.
func chainKey(s protocol.Subject, spec permission.Spec) (string, error) {
	if s.Tighten == nil && len(spec.RunVetted) == 0 && len(s.Parents) == 0 {
		if spec.Readonly {
			return "readonly " + s.Profile, nil
		}
		return "profile " + s.Profile, nil
	}
	key, err := canonjson.Marshal(map[string]any{"profile": s.Profile, "readonly": spec.Readonly, "tighten": s.Tighten,
		"vetted": spec.RunVetted, "parents": s.Parents})
	return string(key), err
}

// chain returns the compiled policy of a subject.
func (e *Engine) chain(s protocol.Subject) (*permission.Chain, error) {
	var p config.Profile
	if s.Profile != "" {
		var ok bool
		if p, ok = e.cfg.Profiles[s.Profile]; !ok {
			return nil, e.unknownProfile(s.Profile)
		}
	}
	spec := permission.Spec{Engine: e.cfg.Permissions, Profile: p.Permissions, HookTimeout: e.cfg.HookTimeout,
		Readonly: s.Isolation == string(worktree.Readonly)}
	if s.Tighten != nil {
		spec.AgentDeny, spec.AgentAsk = s.Tighten.Deny, s.Tighten.Ask
	}
	var err error
	if spec.Parent, err = config.ParentLayer(e.profile, s.Parents); err != nil {
		return nil, err
	}
	for _, v := range s.Vetted {
		spec.RunVetted = append(spec.RunVetted, v.Line)
	}
	key, err := chainKey(s, spec)
	if err != nil {
		return nil, fault.Configf("permissions", "cannot be read: %v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.chains[key]; ok {
		return c, nil
	}
	c, err := permission.Compile(spec)
	if err != nil {
		return nil, err
	}
	if err := e.answerable(p.Name, e.cfg.Permissions, p.Permissions); err != nil {
		return nil, err
	}
	if len(e.chains) >= maxChains {
		clear(e.chains)
	}
	e.chains[key] = c
	return c, nil
}

func (e *Engine) unknownProfile(name string) error {
	return &fault.ConfigError{Key: "agentType", Msg: "unknown profile \"" + name + "\"",
		Allowed: slices.Sorted(maps.Keys(e.cfg.Profiles))}
}

type engineKey struct{}

// errNoEngine says that a function was called on a worker without the interceptor.
var errNoEngine = temporal.NewNonRetryableApplicationError("this worker has no Assent engine", protocol.ErrorConfig, nil)

func engineFrom(ctx context.Context) (*Engine, error) {
	if e, ok := ctx.Value(engineKey{}).(*Engine); ok {
		return e, nil
	}
	return nil, errNoEngine
}

// mostError bounds the text of a failure, which may quote what a model or its provider sent: one that the server
// refuses would be tried for ever.
const mostError = 4 << 10

// wire turns an error into one whose type survives the way to the workflow and says whether trying again can help.
func wire(err error) error {
	if err == nil {
		return nil
	}
	var app *temporal.ApplicationError
	var gone *worktree.GoneError
	var needs *worktree.NeedsGitError
	var missing *worktree.MissingError
	var m *model.Error
	var broken *transcript.BrokenError
	msg := cut(err.Error(), mostError)
	switch {
	case errors.As(err, &app):
		return err
	case ofBlob(err) != nil:
		return ofBlob(err)
	case fault.IsConfig(err), errors.As(err, &needs), errors.As(err, &missing):
		return temporal.NewNonRetryableApplicationError(msg, protocol.ErrorConfig, nil)
	case errors.As(err, &broken):
		return temporal.NewNonRetryableApplicationError(msg, protocol.ErrorBlobAltered, nil)
	case errors.As(err, &gone):
		return temporal.NewNonRetryableApplicationError(msg, protocol.ErrorGone, nil)
	case errors.As(err, &m) && !m.Retry:
		return temporal.NewNonRetryableApplicationError(msg, protocol.ErrorModel, nil)
	case errors.As(err, &m):
		return temporal.NewApplicationErrorWithOptions(msg, protocol.ErrorModel+".retry",
			temporal.ApplicationErrorOptions{NextRetryDelay: m.After})
	}
	return err
}

// heartbeats reports life until stop is called; it is how cancellation reaches an activity.
func heartbeats(ctx context.Context) (stop func()) {
	return heartbeatsWith(ctx, func() { activity.RecordHeartbeat(ctx) })
}

// heartbeatsWith reports life by beat.
func heartbeatsWith(ctx context.Context, beat func()) (stop func()) {
	every := activity.GetInfo(ctx).HeartbeatTimeout / 4
	if every <= 0 {
		return func() {}
	}
	done := make(chan struct{})
	var once sync.Once
	go func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				beat()
			}
		}
	}()
	return func() { once.Do(func() { close(done) }) }
}

// digest is the hex SHA-256 of the canonical form.
func digest(raw json.RawMessage) (string, error) {
	c, err := canonjson.Canonical(raw)
	if err != nil {
		return "", err
	}
	return canonjson.SHA256(c), nil
}
