//go:build unix && !linux

package devserver

import "syscall"

// endWithParent has no way to do so here: a server whose owner is killed stays, until somebody ends it.
func endWithParent(*syscall.SysProcAttr) {}

func lockParentThread() func() { return func() {} }
