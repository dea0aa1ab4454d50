package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/telemetry"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// workerEnv makes the test binary a worker process.
const workerEnv = "ASSENT_E2E_WORKER"

// spec is what a worker process is told.
type spec struct {
	Setup                          setup
	Address, Queue, Effects, Blobs string
}

// build is one version of a team's worker: two of them differ in what a deployment changes.
type build struct {
	// Reason stands in the rule that asks about send, drop and shove. Two reasons make two policies with the same verdicts.
	Reason string `json:"reason"`
	// Shift is the description of the tools shift and shove: another one is another contract.
	Shift string `json:"shift,omitempty"`
	// Extra adds a tool of this name.
	Extra bool `json:"extra,omitempty"`
	// Patience is how long a call waits for a worker that serves its contract.
	Patience time.Duration `json:"patience,omitempty"`
	// Busy is a script that agents may name, beside the one of the setup.
	Busy string `json:"busy,omitempty"`
	// Ponder adds a slow hook that has no opinion, and waits for the file with .go at the end of its name to say so.
	Ponder bool `json:"ponder,omitempty"`
	// Slow bounds how long an effect takes, before and after it is written.
	Slow time.Duration `json:"slow,omitempty"`
	// Deployment and ID make the worker a version of a Worker Deployment; Auto lets its runs move on.
	Deployment string `json:"deployment,omitempty"`
	ID         string `json:"id,omitempty"`
	Auto       bool   `json:"auto,omitempty"`
}

// apply gives a worker the tools and rules of its build.
func (b *build) apply(cfg *worker.Config, p *config.Profile, effects string) error {
	if b.Busy != "" {
		busy, err := scripted.Parse("busy.yaml", []byte(b.Busy))
		if err != nil {
			return err
		}
		cfg.Models["scripted"].(scripted.Set)["busy"] = busy
	}
	shift := b.Shift
	if shift == "" {
		shift = "Shifts."
	}
	defs := []*tool.Def{
		b.effect("probe", "Reads.", effects, tool.Read), b.effect("put", "Writes, the same twice.", effects, tool.Write, tool.Idempotent()),
		b.effect("mark", "Writes.", effects, tool.Write), b.effect("fire", "Executes.", effects, tool.Execute),
		b.effect("send", "Sends.", effects, tool.Network), b.effect("drop", "Drops.", effects, tool.Destructive),
		b.effect("shift", shift, effects, tool.Write), b.effect("shove", shift, effects, tool.Execute),
	}
	if b.Extra {
		defs = append(defs, b.effect("extra", "Is new.", effects, tool.Write))
	}
	if b.Ponder {
		cfg.Permissions.Hooks = append(cfg.Permissions.Hooks, ponder(effects))
	}
	for _, d := range defs {
		p.Tools = append(p.Tools, d.Name())
	}
	cfg.Tools, cfg.Patience = append(cfg.Tools, defs...), b.Patience
	p.Permissions.Ask = append(p.Permissions.Ask, permission.Rule{Tool: permission.Many("send", "drop", "shove"), Reason: b.Reason})
	return nil
}

// ponder notes that it was asked, in the file with .asked at the end of its name.
func ponder(effects string) permission.Hook {
	return permission.Hook{Name: "ponder", Slow: true, Judge: func(ctx context.Context, _ permission.Call) (permission.Answer, error) {
		if err := appendLine(effects+".asked", "asked"); err != nil {
			return permission.Answer{}, err
		}
		for {
			if _, err := os.Stat(effects + ".go"); err == nil {
				return permission.Answer{}, nil
			}
			select {
			case <-ctx.Done():
				return permission.Answer{}, ctx.Err()
			case <-time.After(tick):
			}
		}
	}}
}

// effect is a tool whose effect is a line in a file: its run, its call, its name, its text and its idempotency key.
func (b *build) effect(name, description, effects string, options ...tool.Option) *tool.Def {
	dawdle := func() {
		if b.Slow > 0 {
			time.Sleep(rand.N(b.Slow))
		}
	}
	return tool.MustNew(name, description, func(_ context.Context, c *tool.Context, in noteIn) (map[string]any, error) {
		dawdle()
		err := appendLine(effects, fmt.Sprintf("%s %s %s %s %s", c.RunID, c.CallID, name, in.Text, c.IdempotencyKey))
		dawdle()
		return map[string]any{"noted": in.Text}, err
	}, options...)
}

// options adds what the build says to the options of every worker here.
func (b *build) options(o sdkworker.Options) sdkworker.Options {
	if b == nil || b.Deployment == "" {
		return o
	}
	o.DeploymentOptions = sdkworker.DeploymentOptions{UseVersioning: true,
		Version:                   sdkworker.WorkerDeploymentVersion{DeploymentName: b.Deployment, BuildID: b.ID},
		DefaultVersioningBehavior: workflow.VersioningBehaviorPinned}
	if b.Auto {
		o.DeploymentOptions.DefaultVersioningBehavior = workflow.VersioningBehaviorAutoUpgrade
	}
	return o
}

func workerMain() int {
	// Whoever runs workers starts one again that could not reach its server, which may just be coming back.
	var err error
	for range 60 {
		if err = serve(); err == nil {
			return 0
		}
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(time.Second)
	}
	return 1
}

func serve() error {
	var s spec
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &s); err != nil {
		return err
	}
	o := client.Options{HostPort: s.Address, Logger: sdklog.NewStructuredLogger(logger())}
	if s.Setup.Spans != "" {
		tel, err := telemetry.New(telemetry.Config{Tracers: (&spanFile{path: s.Setup.Spans}).provider()})
		if err != nil {
			return err
		}
		o.Interceptors = append(o.Interceptors, tel)
	}
	c, err := client.Dial(o)
	if err != nil {
		return err
	}
	defer c.Close()
	store, err := blob.NewDir(s.Blobs)
	if err != nil {
		return err
	}
	p, done, err := plugin(s.Setup, c, s.Effects, store)
	if err != nil {
		return err
	}
	defer done()
	if s.Setup.Uncached {
		// For the whole process, and before its first worker.
		sdkworker.SetStickyWorkflowCacheSize(0)
	}
	w := sdkworker.New(c, s.Queue, s.Setup.Build.options(options(p)))
	replaytest.Register(w)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := w.Start(); err != nil {
		return err
	}
	go func() {
		// The test's end of the pipe goes with the test, however that ends.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	<-stop
	w.Stop()
	return nil
}

// process is a worker in a process of its own, for tests that kill it.
type process struct {
	cmd   *exec.Cmd
	ended sync.Once
	err   error
}

func (w *world) spawn(s setup, address string) *process {
	w.t.Helper()
	b, err := json.Marshal(spec{Setup: s, Address: address, Queue: w.queue, Effects: w.effects,
		Blobs: filepath.Join(filepath.Dir(w.effects), "blobs")})
	require.NoError(w.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(b))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	p := &process{cmd: cmd}
	w.t.Cleanup(func() { p.kill(w.t) })
	return p
}

// kill is SIGKILL; killing twice is fine.
func (p *process) kill(t testing.TB) {
	t.Helper()
	p.ended.Do(func() {
		_ = p.cmd.Process.Kill()
		p.err = p.cmd.Wait()
	})
}

// wait waits for a worker that ends by itself, and returns how it did.
func (p *process) wait() error {
	p.ended.Do(func() { p.err = p.cmd.Wait() })
	return p.err
}

// term is SIGTERM, as a deployment sends it, and waits for an orderly end.
func (p *process) term(t testing.TB) {
	t.Helper()
	p.ended.Do(func() {
		if p.err = p.cmd.Process.Signal(syscall.SIGTERM); p.err == nil {
			p.err = p.cmd.Wait()
		}
	})
	require.NoError(t, p.err)
}
