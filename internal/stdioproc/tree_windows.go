package stdioproc

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tree is a job object: its members end with it, and it ends with the last handle, which only this process has.
type tree struct {
	mu  sync.Mutex
	job windows.Handle
}

func newTree(*slog.Logger) (*tree, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		_ = windows.CloseHandle(job)
		return nil, fmt.Errorf("job object: %w", err)
	}
	return &tree{job: job}, nil
}

func (t *tree) environ(env []string) []string { return env }

// began makes the head a member. What it starts from then on is one too.
func (t *tree) began(head *os.Process) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(head.Pid))
	if err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := windows.AssignProcessToJobObject(t.job, h); err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	return nil
}

// ask does nothing: here is no way to ask a program that has no window.
func (t *tree) ask() {}

func (t *tree) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.job != 0 {
		_ = windows.TerminateJobObject(t.job, 1)
	}
}

func (t *tree) end(time.Duration) { t.kill() }

func (t *tree) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.job != 0 {
		_ = windows.CloseHandle(t.job)
		t.job = 0
	}
}

// sysProcAttr keeps a Ctrl-C in the console from the program.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func wait(cmd *exec.Cmd, rest func()) error {
	err := cmd.Wait()
	rest()
	return err
}

func isBusy(error) bool { return false }
