package devserver

import (
	"context"
	"errors"
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

// ErrDatabaseInUse is the cause of a StartError if a server that runs already keeps its data in the same file. Two of
// them would each believe to own every workflow in it.
var ErrDatabaseInUse = errors.New("the database file is in use by another server")

// lockDatabase marks the database file of o as in use, until every process that has the returned file open has closed
// it: the server inherits it. Without a database file it returns nil.
func lockDatabase(o StartOptions) (*os.File, error) {
	if o.DBFile == "" {
		return nil, nil
	}
	f, err := os.OpenFile(o.DBFile+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	taken, err := tryLock(f)
	if err == nil && !taken {
		err = ErrDatabaseInUse
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the database %q: %w", o.DBFile, err)
	}
	return f, nil
}
