package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/worktree"
)

// startHost serves this host's own queue: activities only, unversioned, so that agents pinned to an older build
// still find their trees.
func (p *Plugin) startHost(parts *parts) error {
	if !p.hosts || !p.first() {
		return nil
	}
	w := worker.New(p.client, parts.hostQueue, worker.Options{
		DisableWorkflowWorker: true, Interceptors: parts.install(nil), WorkerStopTimeout: 5 * time.Second,
		MaxHeartbeatThrottleInterval: HeartbeatThrottle,
	})
	registerHost(w, parts.engine)
	err := p.registerTools(w)
	if err == nil {
		err = w.Start()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.hostStarted--
		return err
	}
	p.host = w
	if trees, ok := p.engine.Worktrees.(worktree.Sweeper); ok {
		p.stopSweep = sweeping(trees, time.NewTicker(sweepEvery), p.engine.Log)
	}
	return nil
}

// first counts a worker in and reports whether it is the first of this process.
func (p *Plugin) first() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hostStarted++
	return p.hostStarted == 1
}

func (p *Plugin) stopHost() {
	p.mu.Lock()
	var last worker.Worker
	var stopSweep func()
	if p.hostStarted > 0 {
		if p.hostStarted--; p.hostStarted == 0 {
			last, p.host = p.host, nil
			stopSweep, p.stopSweep = p.stopSweep, nil
		}
	}
	p.mu.Unlock()
	// Outside the lock: the host's own stop comes through this Plugin again.
	if last != nil {
		last.Stop()
	}
	if stopSweep != nil {
		stopSweep()
	}
}

// sweepEvery is how often a worker finishes what crashed ones left of worktrees on this host.
const sweepEvery = time.Hour

// sweeping looks after trees at once and at each tick, until stop is called, which waits. A failure is no reason to end.
func sweeping(trees worktree.Sweeper, ticker *time.Ticker, log *slog.Logger) (stop func()) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		defer ticker.Stop()
		for {
			done, err := trees.Sweep(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.Warn("assent: worktrees were not swept entirely", "finished", len(done), "error", err)
			case len(done) > 0:
				log.Info("assent: worktrees swept", "finished", len(done))
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
