//go:build !unix

package toolbox

import (
	"context"
	"io"
	"os/exec"
	"time"

	"github.com/assent-dev/assent/fault"
)

// jobs refuses to start anything: without process groups there is no promise that processes end with their call.
type jobs struct{ grace time.Duration }

func newJobs(grace time.Duration) *jobs { return &jobs{grace: grace} }

func (*jobs) run(context.Context, *exec.Cmd, io.Writer, io.Writer) (int, error) {
	return 0, &fault.NotBuiltError{Feature: "running programs on this operating system"}
}

func (*jobs) close() error { return nil }
