package devserver

import (
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/windows"
)

// tryLock takes a lock on f, or reports false if another process has it.
func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}

// owned makes cmd end with the context it was made with.
func owned(cmd *exec.Cmd) { cmd.WaitDelay = 5 * time.Second }

// apart keeps a Ctrl-C in the console from cmd. It ends with its owner only if that one calls Stop.
func apart(cmd *exec.Cmd, _ bool) {
	cmd.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// terminate ends the process: there is no asking here.
func terminate(p *os.Process) error { return p.Kill() }

func lockParentThread() func() { return func() {} }

// inherit cannot be done here: f is locked as long as this process lives.
func inherit(*exec.Cmd, *os.File) {}
