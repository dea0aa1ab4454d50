package demo

import (
	"os/exec"
	"runtime"
	"syscall"
)

// apart puts cmd into a process group of its own, so that a Ctrl-C in the terminal reaches its owner and not it, and
// makes the kernel kill it when its owner ends, however that ends.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// holdThread keeps the calling goroutine on its thread: the kernel takes the end of the thread that started the child
// for the end of the owner.
func holdThread() { runtime.LockOSThread() }
