//go:build unix && !linux

package toolbox

import "syscall"

// sysProcAttr gives a command its own session and thereby its own process group.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signal sends sig to what is left of the call and returns how many groups there are.
func (j *jobs) signal(sig syscall.Signal) int { return j.signalGroups(sig) }
