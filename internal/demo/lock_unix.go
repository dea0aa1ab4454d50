//go:build unix

package demo

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an advisory lock on f, which ends with the process, or reports false if another process has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
