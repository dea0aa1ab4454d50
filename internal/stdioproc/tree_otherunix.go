//go:build unix && !linux

package stdioproc

import (
	"os/exec"
	"syscall"
)

// sysProcAttr gives the program a session and thereby a process group of its own.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// wait reaps the head and has the rest ended: here is no way to wait without reaping. As long as the group has members,
// its number goes to nobody else.
func wait(cmd *exec.Cmd, rest func()) error {
	err := cmd.Wait()
	rest()
	return err
}

// signal sends sig to the group of the head and returns whether it has members.
func (t *tree) signal(sig syscall.Signal) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.head == 0 {
		return 0
	}
	return t.signalGroup(sig)
}
