//go:build unix

package toolbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// jobs owns the processes of one call. Each command leads a session and process group of its own; when the call is
// over, whatever is left of them is ended.
type jobs struct {
	mark string
	// grace is how long a process may take to obey SIGTERM before it gets SIGKILL.
	grace time.Duration
	began time.Time

	mu     sync.Mutex
	closed bool
	active sync.WaitGroup
	// left holds the sessions that had members when their leader was reaped.
	left map[int]bool
}

func newJobs(grace time.Duration) *jobs {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, see crypto/rand
	return &jobs{mark: hex.EncodeToString(random[:]), grace: grace, began: time.Now(), left: map[int]bool{}}
}

// run starts cmd, waits for it and returns its exit code, 128 plus the signal for a process that died of one. The
// error says that it did not start, or is that of ctx. Standard output and error go to out and err; those that are
// no files are fed until every process that holds them is gone, as in a shell.
func (j *jobs) run(ctx context.Context, cmd *exec.Cmd, out, err io.Writer) (int, error) {
	if !j.enter(ctx) {
		return 0, context.Cause(ctx)
	}
	defer j.active.Done()

	feeds := &feeds{}
	defer feeds.close()
	var attachErr error
	if cmd.Stdout, attachErr = feeds.file(out); attachErr != nil {
		return 0, attachErr
	}
	if cmd.Stderr, attachErr = feeds.file(err); attachErr != nil {
		return 0, attachErr
	}
	cmd.Env = append(cmd.Env, markName+"="+j.mark)
	cmd.SysProcAttr = sysProcAttr()
	started, done := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel ties a child to the thread that made it, see sysProcAttr, so the thread stays ours as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := startRetrying(cmd)
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	feeds.handOver()

	var waitErr error
	select {
	case waitErr = <-done:
	case <-ctx.Done():
		waitErr = j.end(pid, done)
	}
	// The leader is reaped. If its group still has members the number cannot belong to anybody else.
	if !errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH) {
		j.mu.Lock()
		j.left[pid] = true
		j.mu.Unlock()
	}
	if !feeds.wait(ctx) || ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return exitCode(waitErr)
}

// enter registers a command unless the call is over.
func (j *jobs) enter(ctx context.Context) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed || ctx.Err() != nil {
		return false
	}
	j.active.Add(1)
	return true
}

// end asks the group of pid to stop and insists after the grace.
func (j *jobs) end(pid int, done <-chan error) error {
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	// A stopped process could not obey.
	_ = syscall.Kill(-pid, syscall.SIGCONT)
	timer := time.NewTimer(j.grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return <-done
}

// close waits for the running commands, whose context must be done, and ends every process that is left. It returns
// an error if some would not die.
func (j *jobs) close() error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.active.Wait()

	const patience = 5 * time.Second
	if j.signal(syscall.SIGTERM) == 0 || j.gone(j.grace, syscall.Signal(0)) {
		return nil
	}
	if j.gone(patience, syscall.SIGKILL) {
		return nil
	}
	return fmt.Errorf("%d processes of the call do not die", j.signal(syscall.Signal(0)))
}

// gone sends sig to what is left until nothing is or the time is over.
func (j *jobs) gone(limit time.Duration, sig syscall.Signal) bool {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if j.signal(sig) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

// exitCode reads what Wait returned.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// startRetrying starts cmd. A process forked elsewhere in the worker may for a moment hold a file open for writing
// that was just written and is now to be executed; that passes.
func startRetrying(cmd *exec.Cmd) error {
	for delay := time.Millisecond; ; delay *= 2 {
		err := cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || delay > 256*time.Millisecond {
			return err
		}
		time.Sleep(delay)
		// A command can be started once; every field that matters here is public.
		*cmd = exec.Cmd{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Stdin: cmd.Stdin,
			Stdout: cmd.Stdout, Stderr: cmd.Stderr, SysProcAttr: cmd.SysProcAttr}
	}
}

// feeds gives processes files in place of writers, so that the exit of a process can be told from the end of its output.
type feeds struct {
	writers []io.Writer
	ends    []*os.File
	reads   []*os.File
	copied  sync.WaitGroup
}

// file returns w itself if it is a file, else the writing end of a pipe that is copied into it.
func (f *feeds) file(w io.Writer) (*os.File, error) {
	if s, ok := w.(shared); ok {
		w = s.Writer
	}
	if file, ok := w.(*os.File); ok {
		return file, nil
	}
	for i, known := range f.writers {
		if known == w {
			return f.ends[i], nil
		}
	}
	r, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	f.writers, f.ends, f.reads = append(f.writers, w), append(f.ends, end), append(f.reads, r)
	f.copied.Go(func() {
		_, _ = io.Copy(w, r)
		// A reader that stopped must not block the process, which a real pipe would end with SIGPIPE.
		_ = r.Close()
	})
	return end, nil
}

// handOver gives up our copies of the writing ends.
func (f *feeds) handOver() {
	for _, end := range f.ends {
		_ = end.Close()
	}
}

// wait returns true when all output is copied and false when ctx was done before.
func (f *feeds) wait(ctx context.Context) bool {
	if len(f.ends) == 0 {
		return true
	}
	all := make(chan struct{})
	go func() { f.copied.Wait(); close(all) }()
	select {
	case <-all:
		return true
	case <-ctx.Done():
		f.close()
		<-all
		return false
	}
}

// close ends all copying.
func (f *feeds) close() {
	f.handOver()
	for _, r := range f.reads {
		_ = r.Close()
	}
	f.copied.Wait()
}
