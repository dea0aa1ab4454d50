package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// stopWithin is how long Stop waits for an orderly end before it kills the server.
const stopWithin = 15 * time.Second

// Server is a running development server. Its methods may be called by many goroutines.
type Server struct {
	ports     chosenPorts
	namespace string
	logs      *logFile
	// database is the lock on the database file, nil without one. The server has it open too.
	database *os.File
	process  *os.Process
	// ending is set once Stop or Kill was called: however the process ends then, it is what was asked for.
	ending atomic.Bool
	// exited is closed when the process has ended, and exitErr is how; it is read after that only.
	exited  chan struct{}
	exitErr error
}

// spawn starts cmd and waits for it, both on one thread: see endWithParent.
func (s *Server) spawn(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	go func() {
		unlock := lockParentThread()
		defer unlock()
		err := cmd.Start()
		if err == nil {
			s.process = cmd.Process
		}
		started <- err
		if err == nil {
			s.exitErr = cmd.Wait()
		}
		_ = s.database.Close() // nil is fine
		close(s.exited)        // last: whoever waits for it may start the next server
	}()
	return <-started
}

// Address is where clients connect, for example 127.0.0.1:40213.
func (s *Server) Address() string { return hostPort(s.ports.grpc) }

// UIURL is the address of the web UI, for example http://127.0.0.1:40215, or empty without one.
func (s *Server) UIURL() string {
	if s.ports.ui == 0 {
		return ""
	}
	return "http://" + hostPort(s.ports.ui)
}

// HTTPURL is the address of the HTTP API, for example http://127.0.0.1:40214.
func (s *Server) HTTPURL() string { return "http://" + hostPort(s.ports.http) }

// Namespace is the namespace that was asked for.
func (s *Server) Namespace() string { return s.namespace }

// PID is the process id.
func (s *Server) PID() int { return s.process.Pid }

// Exited is closed when the server has ended, for whatever reason.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Log returns the last lines that the server printed.
func (s *Server) Log() string { return s.logs.tail() }

// Stop asks the server to end and waits for it. A server that takes too long, or that is still there when ctx ends,
// is killed. Stopping one that has ended already returns the error it ended with, unless it was stopped or killed.
func (s *Server) Stop(ctx context.Context) error {
	select {
	case <-s.exited:
		return s.verdict()
	default:
	}
	s.ending.Store(true)
	if err := terminate(s.process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the Temporal development server %d: %w", s.PID(), err)
	}
	grace := time.NewTimer(stopWithin)
	defer grace.Stop()
	select {
	case <-s.exited:
		return s.verdict()
	case <-grace.C:
	case <-ctx.Done():
	}
	return s.Kill()
}

// Kill ends the server at once, as a crash would, and waits until it is gone.
func (s *Server) Kill() error {
	s.ending.Store(true)
	if err := s.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the Temporal development server %d: %w", s.PID(), err)
	}
	<-s.exited
	return s.verdict()
}

// verdict is what Stop and Kill return once the process has ended.
func (s *Server) verdict() error {
	if s.ending.Load() || s.exitErr == nil {
		return nil
	}
	return fmt.Errorf("the Temporal development server %d had ended: %w; it printed:\n%s", s.PID(), s.exitErr, s.logs.tail())
}
