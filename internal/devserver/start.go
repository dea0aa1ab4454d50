package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// readyWithin is more than a loaded machine ever needed; the usual time is half a second.
	readyWithin = 2 * time.Minute
	// attempts bounds how often a server is started on other ports because the first ones were taken meanwhile.
	attempts = 4
	// exitUsage is the exit code of a program that does not know its arguments.
	exitUsage = 2
)

// StartOptions says which server Start runs. The zero value of everything but Binary is good: in memory, namespace
// default, no web UI, free ports.
type StartOptions struct {
	// Binary is the program, from Locate.
	Binary Binary
	// DBFile is the sqlite file that keeps everything, created if there is none. It survives a killed server. One
	// server at a time may use it; a file beside it, with `.lock` added to the name, sees to that. Empty means in memory.
	DBFile string
	// Namespace is created and made ready. Empty means `default`, which always exists.
	Namespace string
	// UI runs the web UI too.
	UI bool
	// Port is the gRPC port, UIPort that of the web UI. 0 means a free one.
	Port, UIPort int
	// LogFile gets the server's output, appended. Empty means a file that nobody else sees; errors still quote it.
	LogFile string
	// Detach lets the server live on when this process ends. Without it the server dies with this process, on Linux
	// however that ends.
	Detach bool
}

// StartError reports a server that did not become ready.
type StartError struct {
	// Log is the last of what the server printed.
	Log string
	// Cause says how it ended, or what it was waited for.
	Cause error
}

func (e *StartError) Error() string {
	msg := "start the Temporal development server: " + e.Cause.Error()
	if e.Log != "" {
		msg += "; it printed:\n" + e.Log
	}
	return msg
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Cause }

// Start runs a server and returns when clients can work with it: the frontend serves, the namespace can be described
// and has the search attributes, and the HTTP API and the web UI listen. Errors are *StartError; a ctx that ends first ends the server.
func Start(ctx context.Context, o StartOptions) (*Server, error) {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.DBFile != "" {
		file, err := filepath.Abs(o.DBFile)
		if err != nil {
			return nil, &StartError{Cause: err}
		}
		o.DBFile = file
	}
	for try := 1; ; try++ {
		s, err := startOnce(ctx, o)
		if err == nil {
			return s, nil
		}
		// Ports that were free a moment ago may be taken now: those that were chosen here, or those that the program
		// chose for its inner services. Only then is there sense in trying again.
		again := o.Port == 0 && o.UIPort == 0 && try < attempts && ctx.Err() == nil
		if exit := (*exec.ExitError)(nil); !again || !errors.As(err, &exit) || exit.ExitCode() == exitUsage {
			return nil, err
		}
	}
}

// startOnce makes one attempt. The server it returns is ready.
func startOnce(ctx context.Context, o StartOptions) (*Server, error) {
	logs, err := openLog(o.LogFile)
	if err != nil {
		return nil, &StartError{Cause: err}
	}
	r, err := reserve(o)
	if err != nil {
		logs.close()
		return nil, &StartError{Cause: err}
	}
	database, err := lockDatabase(o)
	if err != nil {
		r.release()
		logs.close()
		return nil, &StartError{Cause: err}
	}
	cmd := exec.Command(o.Binary.Path, arguments(o, r.chosenPorts)...)
	cmd.Env = os.Environ()
	if o.Binary.Config != "" {
		cmd.Env = append(cmd.Env, configVariable+"="+o.Binary.Config)
	}
	cmd.Stdout, cmd.Stderr = logs.file, logs.file
	apart(cmd, o.Detach)
	inherit(cmd, database)
	r.release()
	s := &Server{ports: r.chosenPorts, namespace: o.Namespace, logs: logs, database: database, exited: make(chan struct{})}
	if err := s.spawn(cmd); err != nil {
		logs.close()
		return nil, &StartError{Cause: err}
	}
	if err := s.await(ctx); err != nil {
		_ = s.Kill() // the error to report is why
		return nil, &StartError{Cause: err, Log: logs.tail()}
	}
	return s, nil
}

// await returns nil once the server is ready, or why it will not be.
func (s *Server) await(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not ready after %v", readyWithin))
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- waitReady(waiting, s.ports, s.namespace) }()
	select {
	case <-s.exited:
	case err := <-ready:
		select {
		case <-s.exited: // then it was another server that answered on that port
		default:
			return err
		}
	}
	cancel()
	if s.exitErr == nil {
		return errors.New("it ended at once, without an error")
	}
	return fmt.Errorf("it ended at once: %w", s.exitErr)
}
