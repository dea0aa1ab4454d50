package gitproc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// endWait bounds the wait for processes that cannot be found or do not die.
const endWait = 30 * time.Second

// End ends what an earlier call on this lock file has left, after its worker was killed, and returns when no process
// of it lives. A lock file that does not exist was never used. It has no context: what they
// write to must not be touched before.
func End(lock string) error {
	if _, err := os.Lstat(lock); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, err := take(lock)
	if err != nil {
		return err
	}
	return f.Close()
}

// take returns the lock file, locked, after ending whoever still holds it.
func take(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ok, err := tryLock(f)
		if ok {
			return f, nil
		}
		if err == nil {
			endHolders(f)
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
				err = errors.New("processes of an earlier git still run")
			}
		}
		f.Close()
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
}

func closeAndEnd(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return err
	}
	return End(path)
}
