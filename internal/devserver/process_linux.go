package devserver

import (
	"runtime"
	"syscall"
)

// endWithParent makes the kernel kill the child when its parent ends, however it ends.
//
// Linux means the parent *thread*. A Go program may end a thread at any time, so whoever starts such a child keeps
// the thread for as long as the child lives: see lockParentThread.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// lockParentThread keeps the calling goroutine on its thread. It is called by a goroutine that starts a child with
// endWithParent and waits for it, and what it returns is called when the child has ended.
func lockParentThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
