//go:build unix

package devserver

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// tryLock takes an advisory lock on f, or reports false if another process has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// owned makes cmd, which was made with a context, end with that context and with this process, and its children too:
// a compiler runs many.
func owned(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
}

// apart puts cmd into a process group of its own, so that a Ctrl-C in the terminal reaches its owner and not it. A
// detached one gets a session of its own and lives on when its owner ends; any other ends with it.
func apart(cmd *exec.Cmd, detached bool) {
	if detached {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
}

// terminate asks the process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// inherit leaves f open in the process that cmd starts. A nil f is none.
func inherit(cmd *exec.Cmd, f *os.File) {
	if f != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
}
