//go:build unix

package demo

import (
	"os"
	"syscall"
)

// terminate asks the process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
