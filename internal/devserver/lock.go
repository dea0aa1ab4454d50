package devserver

import (
	"context"
	"fmt"
	"os"
	"time"
)

// lock takes the lock file at path for this process and returns what releases it. Ending ctx ends the wait.
func (l *locator) lock(ctx context.Context, path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the server cache: %w", err)
	}
	release := func() { _ = f.Close() } // closing releases the lock
	// Polled, because a blocking flock cannot be interrupted.
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	say := time.NewTicker(l.progress.every)
	defer say.Stop()
	started := time.Now()
	for first := true; ; first = false {
		taken, err := tryLock(f)
		if err != nil {
			release()
			return nil, fmt.Errorf("lock the server cache %q: %w", path, err)
		}
		if taken {
			return release, nil
		}
		if first {
			l.progress.line("another process is building the Temporal development server: waiting for it")
		}
		select {
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		case <-say.C:
			l.progress.update("… %s, still waiting", elapsed(started))
		case <-poll.C:
		}
	}
}
