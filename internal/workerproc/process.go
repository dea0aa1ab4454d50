package workerproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/protocol"
	engine "github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// Options say what to run. Exactly one of Config and File is set.
type Options struct {
	// Config is the path of the configuration file; File is one that was read already.
	Config string
	File   *config.File
	// Connect holds the flags of the connection. What the file says is added to it.
	Connect connect.Settings
	// Queue is the flag of that name; empty means the file's, else the default.
	Queue string
	// Log gets what the worker and the SDK say; nil discards it.
	Log *slog.Logger
	// DeadlockDetection is how long a workflow may compute at a stretch; zero is the SDK's second. A machine that starves
	// takes longer than that.
	DeadlockDetection time.Duration
	// ContinueAfter is the number of events after which agents continue as new; zero leaves it to the server.
	ContinueAfter int
}

// Process is a running worker.
type Process struct {
	// Server is the connection, which Stop closes.
	Server *connect.Server
	// Queue is the task queue; HostID is set on a worker with worktrees.
	Queue, HostID string
	// Profiles counts the profiles it serves.
	Profiles int
	// repos are the names of its repositories, sorted.
	repos []string
	// deployment is the version that it is; the zero value is a worker without versions.
	deployment config.Deployment

	worker worker.Worker
	mcp    *MCP
	trees  *git.Driver
	log    *slog.Logger
	fatal  chan error
	once   sync.Once
}

// Start runs a worker and returns once it polls. Errors are *fault.ConfigError for what the file says, else those of
// the connection.
func Start(ctx context.Context, o Options) (*Process, error) {
	f := o.File
	if f == nil {
		var err error
		if f, err = config.Load(o.Config); err != nil {
			return nil, err
		}
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg, trees, err := assemble(f, log)
	if err != nil {
		return nil, inFile(o.Config, err)
	}
	servers, err := OpenMCP(f, log)
	if err != nil {
		return nil, inFile(o.Config, err)
	}
	s := o.Connect
	s.FileAddress, s.FileNamespace, s.Log = f.Worker.Address, f.Worker.Namespace, log
	server, err := connect.Dial(ctx, s)
	if err != nil {
		return nil, err
	}
	p := &Process{Server: server, Queue: queue(o.Queue, f), HostID: cfg.HostID, Profiles: len(f.Profiles),
		repos: slices.Sorted(maps.Keys(f.Worker.Worktrees.Repos)), mcp: servers, trees: trees, log: log,
		deployment: f.Worker.Deployment, fatal: make(chan error, 1)}
	cfg.ContinueAfter = o.ContinueAfter
	if err := p.serve(ctx, cfg, o.DeadlockDetection); err != nil {
		p.close()
		return nil, inFile(o.Config, err)
	}
	return p, nil
}

// serve starts the MCP servers, and with them the worker.
func (p *Process) serve(ctx context.Context, cfg engine.Config, deadlockDetection time.Duration) error {
	err := p.mcp.Start(ctx, cfg.Tools)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := p.mcp.Failed(); err != nil {
		return err
	}
	// Their tools run as tool.<name>, which the dynamic activity of this worker serves.
	cfg.Sources, cfg.Dynamic = p.mcp.Sources(), len(p.mcp.Servers()) > 0
	return p.start(cfg, deadlockDetection)
}

// inFile says in which file a key is that was found wrong after reading.
func inFile(file string, err error) error {
	if c := (*fault.ConfigError)(nil); errors.As(err, &c) && c.File == "" {
		c.File = file
	}
	return err
}

func queue(flag string, f *config.File) string {
	switch {
	case flag != "":
		return flag
	case f.Worker.TaskQueue != "":
		return f.Worker.TaskQueue
	}
	return protocol.DefaultTaskQueue
}

// assemble makes the engine's configuration of a file. Nothing of it needs the server.
func assemble(f *config.File, log *slog.Logger) (engine.Config, *git.Driver, error) {
	var cfg engine.Config
	defs, sets, err := Tools(f)
	if err != nil {
		return cfg, nil, err
	}
	models, err := drivers(f)
	if err != nil {
		return cfg, nil, err
	}
	dir, err := BlobsDir(f)
	if err != nil {
		return cfg, nil, err
	}
	blobs, err := blob.NewDir(dir)
	if err != nil {
		return cfg, nil, err
	}
	cfg = engine.Config{
		Models: models, Prices: f.Models.Prices, CompactAt: f.Models.CompactAt, StreamEvery: f.Models.StreamEvery, Profiles: f.Profiles, Permissions: f.Engine,
		Approvers: approval.Directory{Groups: f.Groups, Keys: f.Keys},
		Tools:     defs, Toolsets: sets, Blobs: blobs, Dir: f.Worker.Dir, KeepOnError: f.Worker.Worktrees.KeepOnError, Log: log,
	}
	if f.Worker.GrantKeyFile != "" {
		if cfg.GrantKeys, err = GrantKeys(f.Worker.GrantKeyFile); err != nil {
			return cfg, nil, err
		}
	} else {
		log.Warn("assent: grants are not signed; worker.grantKeyFile names a file of keys")
	}
	trees, err := openTrees(f)
	if err != nil || trees == nil {
		return cfg, nil, err
	}
	cfg.Worktrees = trees
	cfg.HostID, err = trees.HostID()
	return cfg, trees, err
}

// openTrees is the worktree driver, or nil for a file without repositories.
func openTrees(f *config.File) (*git.Driver, error) {
	w := f.Worker.Worktrees
	if len(w.Repos) == 0 {
		return nil, nil
	}
	root, err := TreesDir(f)
	if err != nil {
		return nil, err
	}
	return git.New(git.Config{Repos: w.Repos, Root: root, PinCap: &w.PinCap, KeepOnError: w.KeepOnError, MinFree: w.MinFree, MaxBytes: w.MaxBytes,
		Private: w.Private, PrivateRepos: w.PrivateRepos,
		Git: w.Git, Filters: w.Filters})
}

// start builds the worker and lets it poll.
func (p *Process) start(cfg engine.Config, deadlockDetection time.Duration) error {
	cfg.Client = p.Server.Client
	plugin, err := engine.New(cfg)
	if err != nil {
		return err
	}
	p.worker = worker.New(p.Server.Client, p.Queue, worker.Options{
		Plugins: []worker.Plugin{plugin}, DeploymentOptions: versioning(p.deployment),
		DeadlockDetectionTimeout: deadlockDetection, MaxHeartbeatThrottleInterval: engine.HeartbeatThrottle,
		OnFatalError: func(err error) {
			select {
			case p.fatal <- err:
			default:
			}
		},
	})
	if err := p.worker.Start(); err != nil {
		return fmt.Errorf("start worker on queue %q: %w", p.Queue, err)
	}
	return nil
}

// Fatal yields the error after which the worker cannot go on.
func (p *Process) Fatal() <-chan error { return p.fatal }

// Stop lets running calls end, for a few seconds, and closes everything. A second call does nothing.
func (p *Process) Stop() {
	p.once.Do(func() {
		p.worker.Stop()
		p.close()
	})
}

// close ends what the worker used, which polls no more.
func (p *Process) close() {
	if err := p.mcp.Close(); err != nil {
		p.log.Warn("MCP servers were not ended", "error", err)
	}
	if p.trees != nil {
		if err := p.trees.Close(); err != nil {
			p.log.Warn("worktrees were not closed", "error", err)
		}
	}
	p.Server.Close()
}

// ready is the one line that says that tasks are taken. Programs that start a worker wait for it.
func (p *Process) ready(w io.Writer) {
	host := ""
	if p.HostID != "" {
		host = ", worktrees on host " + p.HostID
	}
	fmt.Fprintf(w, "worker ready: queue %q, namespace %q, server %s, %s%s%s%s\n", p.Queue, p.Server.Namespace, p.Server.Address,
		plural(p.Profiles, "profile"), p.mcp.count(), host, p.build())
}

// doubts names the repositories that no agent could work on now, and says that no agent comes to this build yet, and which
// MCP servers do not answer. It stops nobody: a repository may be cloned later, and until then an agent that asks for it is refused.
func (p *Process) doubts(ctx context.Context, w io.Writer) {
	p.notCurrent(ctx, w)
	p.mcp.doubts(w)
	for _, name := range p.repos {
		if _, err := p.trees.Resolve(ctx, worktree.Isolation{Kind: worktree.Tree, Repo: name}); err != nil {
			fmt.Fprintf(w, "warning: repository %q cannot be worked on now: %v\n", name, err)
		}
	}
}

// Run starts a worker, says on stdout that it is ready, and stops it when ctx ends, which is no error.
func Run(ctx context.Context, o Options, stdout io.Writer) error {
	p, err := Start(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // it was told to stop before it was ready
	}
	if err != nil {
		return err
	}
	defer p.Stop()
	p.ready(stdout)
	p.doubts(ctx, stdout)
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.fatal:
		return fmt.Errorf("worker on queue %q: %w", p.Queue, err)
	}
}
