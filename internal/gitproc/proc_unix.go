//go:build linux || darwin

package gitproc

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says that this system has process groups and inherited locks.
const supported = true

const noFollow = syscall.O_NOFOLLOW

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(head int) { _ = syscall.Kill(-head, syscall.SIGKILL) }

// tryLock takes the lock without waiting. It belongs to the open file, and so to every process that inherits it.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
