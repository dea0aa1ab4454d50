package stdioproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assent-dev/assent/fault"
)

// Process is a program that was started. Its methods may be called from any goroutine.
type Process struct {
	// Stdin is written to; a write waits while the program does not read, until Close.
	Stdin io.WriteCloser
	// Stdout is read to its end: what a program wrote before it ended can be read after.
	Stdout io.ReadCloser

	path   string
	grace  time.Duration
	cmd    *exec.Cmd
	tree   *tree
	stderr complaints
	files  []*os.File // stdin, stdout and stderr, our ends
	read   chan struct{}
	// done is closed when the head and what it started have ended; exit is set before.
	done chan struct{}
	exit *ExitError

	closing  sync.Once
	closeErr error
	// asked is set when Close has begun.
	asked atomic.Bool
}

const (
	// drainWait is how long pipes are read that a process which got away still holds.
	drainWait = 5 * time.Second
	// crashGrace is how long what a head has left may take to obey, when nobody asked the head to end: its tree is of no
	// more use, and whoever waits for an answer waits for this too.
	crashGrace = 200 * time.Millisecond
	// killWait is how long processes may take to die of SIGKILL.
	killWait = 10 * time.Second
)

// ExitError reports a program that has ended.
type ExitError struct {
	// Program is its path.
	Program string
	// Status is how it ended, such as "exit status 1" or "signal: killed".
	Status string
	// Code is the exit code, -1 for a signal.
	Code int
	// Stderr is the end of what it wrote there, at most 8 KiB.
	Stderr string
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s has ended: %s", filepath.Base(e.Program), e.Status)
	if e.Stderr == "" {
		return text + "; it wrote nothing to stderr"
	}
	return text + "; the end of its stderr:\n" + e.Stderr
}

// Start starts the program. Errors are *fault.ConfigError for what is wrong with c, *fault.NotBuiltError on a system
// without process trees, and those of the system. A program that ends at once is no error here: see Done and Err.
func Start(c Config) (*Process, error) {
	path, err := c.Look()
	if err != nil {
		return nil, err
	}
	p := &Process{path: path, grace: c.Grace, read: make(chan struct{}), done: make(chan struct{})}
	if p.grace <= 0 {
		p.grace = defaultGrace
	}
	if p.tree, err = newTree(c.Log); err != nil {
		return nil, err
	}
	theirs, err := p.pipes()
	if err != nil {
		p.tree.release()
		return nil, err
	}
	started := make(chan error, 1)
	go p.run(func() *exec.Cmd {
		cmd := exec.Command(path, c.Command[1:]...)
		cmd.Args[0] = c.Command[0]
		cmd.Env, cmd.Dir = p.tree.environ(c.environ()), c.Dir
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
		cmd.SysProcAttr = sysProcAttr()
		return cmd
	}, started)
	err = <-started
	closeAll(theirs)
	if err != nil {
		closeAll(p.files)
		p.tree.release()
		return nil, startError(path, err)
	}
	go func() {
		defer close(p.read)
		p.stderr.read(p.files[2], c.Log, c.Hide)
	}()
	return p, nil
}

// startError says more of a program that the system did not start. That a file which exists is not found means the
// interpreter that its first line names.
func startError(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return &fault.ConfigError{Key: "command", Msg: fmt.Sprintf("%q names an interpreter or a loader that does not exist", path), Cause: err}
	}
	return &fault.ConfigError{Key: "command", Msg: fmt.Sprintf("%q cannot be started", path), Cause: err}
}

// pipes makes the three pipes and returns the ends of the program.
func (p *Process) pipes() (theirs []*os.File, err error) {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(theirs)
			closeAll(p.files)
			return nil, err
		}
		if i == 0 {
			theirs, p.files = append(theirs, r), append(p.files, w)
		} else {
			theirs, p.files = append(theirs, w), append(p.files, r)
		}
	}
	p.Stdin, p.Stdout = p.files[0], &output{p.files[1]}
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// run starts the program and sees it to its end. It keeps one thread for as long, because Linux ties a child to the
// thread that made it, and waiting takes one anyway.
func (p *Process) run(command func() *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := startRetrying(command)
	if err == nil {
		p.cmd = cmd
		if err = p.tree.began(cmd.Process); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	started <- err
	if err != nil {
		return
	}
	waitErr := wait(cmd, func() {
		grace := p.grace
		if !p.asked.Load() {
			grace = min(grace, crashGrace)
		}
		p.tree.end(grace)
	})
	p.tree.release()

	// Everything that could write is dead, so that both pipes end at once, but for a process that got away.
	_ = p.files[2].SetReadDeadline(time.Now().Add(drainWait))
	_ = p.files[1].SetReadDeadline(time.Now().Add(drainWait))
	<-p.read
	_ = p.files[2].Close()
	p.exit = &ExitError{Program: p.path, Status: cmd.ProcessState.String(), Code: cmd.ProcessState.ExitCode(), Stderr: p.stderr.text()}
	if exit := (*exec.ExitError)(nil); waitErr != nil && !errors.As(waitErr, &exit) {
		p.exit.Status = waitErr.Error()
	}
	close(p.done)
}

// startRetrying starts a command. A process forked elsewhere in the worker may for a moment hold a file open for
// writing that was just written and is now to be executed; that passes.
func startRetrying(command func() *exec.Cmd) (*exec.Cmd, error) {
	for delay := time.Millisecond; ; delay *= 2 {
		cmd := command()
		err := cmd.Start()
		if !isBusy(err) || delay > 256*time.Millisecond {
			return cmd, err
		}
		time.Sleep(delay)
	}
}

// Pid is the process id of the head.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program and everything that it started have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil as long as Done is open, and then says how the program ended, also when that was asked for.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.exit
	default:
		return nil
	}
}

// Stderr is the end of what the program has written there, at most 8 KiB.
func (p *Process) Stderr() string { return p.stderr.text() }

// Close closes stdin, and for a program that does not end by that asks its tree to stop, and then ends it. It takes
// up to twice the grace and returns when nothing is left, or an error that says what does not die. Calls after
// the first wait for it.
func (p *Process) Close() error {
	p.closing.Do(func() {
		p.asked.Store(true)
		_ = p.files[0].Close()
		if !p.ended(p.grace) {
			p.tree.ask()
			if !p.ended(p.grace) {
				p.tree.kill()
				if !p.ended(killWait) {
					p.closeErr = fmt.Errorf("process %d of %s does not die", p.Pid(), p.path)
				}
			}
		}
		_ = p.files[1].Close()
	})
	return p.closeErr
}

func (p *Process) ended(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// output is stdout. It ends a while after the program has, although a process that got away may still hold it open.
type output struct{ f *os.File }

func (o *output) Read(b []byte) (int, error) {
	n, err := o.f.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	// The deadline is set when the program has ended; what it wrote before may still be there.
	_ = o.f.SetReadDeadline(time.Now().Add(drainWait))
	if n, err = o.f.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

func (o *output) Close() error { return o.f.Close() }
