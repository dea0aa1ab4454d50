//go:build !unix && !windows

package stdioproc

import (
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/assent-dev/assent/fault"
)

// tree refuses: without process groups there is no promise that processes end with the worker.
type tree struct{}

func newTree(*slog.Logger) (*tree, error) {
	return nil, &fault.NotBuiltError{Feature: "starting a program for its stdin and stdout on this operating system"}
}

func (*tree) environ(env []string) []string { return env }

func (*tree) began(*os.Process) error { return nil }

func (*tree) ask() {}

func (*tree) kill() {}

func (*tree) end(time.Duration) {}

func (*tree) release() {}

func sysProcAttr() *syscall.SysProcAttr { return nil }

func wait(cmd *exec.Cmd, rest func()) error {
	err := cmd.Wait()
	rest()
	return err
}

func isBusy(error) bool { return false }
