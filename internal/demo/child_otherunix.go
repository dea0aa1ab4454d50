//go:build unix && !linux

package demo

import (
	"os/exec"
	"syscall"
)

// apart puts cmd into a process group of its own, so that a Ctrl-C in the terminal reaches its owner and not it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func holdThread() {}
