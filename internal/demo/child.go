package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// readyLine begins the line on which a worker says that it takes tasks.
	readyLine = "worker ready:"
	// workerWithin is more than a loaded machine needs to start one.
	workerWithin = 2 * time.Minute
	// stopWithin is how long a worker may take to end running calls.
	stopWithin = 20 * time.Second
)

// child is a worker process.
type child struct {
	process *os.Process
	log     string
	// said carries the end of standard output: the ready line, or that it closed without one.
	said chan bool
	// exited is closed when the process has ended, and exitErr is how; it is read after that only.
	exited  chan struct{}
	exitErr error
}

// startChild starts a worker and returns when it takes tasks. What it logs goes to a file.
func startChild(ctx context.Context, cmd *exec.Cmd, log string) (*child, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	defer f.Close()
	from, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	cmd.Stderr = f
	apart(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	c := &child{log: log, said: make(chan bool, 1), exited: make(chan struct{})}
	if err := c.spawn(cmd, out); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	late := time.NewTimer(workerWithin)
	defer late.Stop()
	select {
	case ready := <-c.said:
		if ready {
			return c, nil
		}
		<-c.exited
		err = fmt.Errorf("the worker ended at once: %s", c.why(from))
	case <-late.C:
		err = fmt.Errorf("the worker takes no tasks after %v; see %s", workerWithin, log)
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.kill()
	return nil, err
}

// spawn starts cmd and waits for it, both on one thread: see holdThread.
func (c *child) spawn(cmd *exec.Cmd, out io.Reader) error {
	started := make(chan error, 1)
	go func() {
		holdThread()
		err := cmd.Start()
		if err == nil {
			c.process = cmd.Process
		}
		started <- err
		if err != nil {
			return
		}
		c.read(out)
		c.exitErr = cmd.Wait()
		close(c.exited)
	}()
	return <-started
}

// read waits for the ready line and then for the end of standard output.
func (c *child) read(out io.Reader) {
	ready := false
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		ready = strings.HasPrefix(lines.Text(), readyLine)
	}
	c.said <- ready
	_, _ = io.Copy(io.Discard, out) // the end of the pipe is the end of the process, which Wait reports
}

// why is what the worker said last from a place in its log on, else how it ended.
func (c *child) why(from int64) string {
	if f, err := os.Open(c.log); err == nil {
		defer f.Close()
		if _, err := f.Seek(from, io.SeekStart); err == nil {
			if b, err := io.ReadAll(io.LimitReader(f, 64<<10)); err == nil && len(b) > 0 {
				return strings.TrimPrefix(strings.TrimSpace(string(b)), "error: ")
			}
		}
	}
	if c.exitErr != nil {
		return c.exitErr.Error()
	}
	return "it gave no reason; see " + filepath.Base(c.log)
}

func (c *child) kill() {
	_ = c.process.Kill() // it may have ended by itself
	<-c.exited
}

// stop asks the worker to end, and kills it when it takes too long.
func (c *child) stop() error {
	select {
	case <-c.exited:
		return nil
	default:
	}
	if err := terminate(c.process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop worker %d: %w", c.process.Pid, err)
	}
	late := time.NewTimer(stopWithin)
	defer late.Stop()
	select {
	case <-c.exited:
	case <-late.C:
		c.kill()
	}
	return nil
}
