package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver"
)

// ErrRunning says that another process has the demo up.
var ErrRunning = errors.New("the demo is up in another process")

// Running is a demo whose server and worker are up. Down ends them. Its methods are called by one goroutine.
type Running struct {
	*Demo
	// Server is the connection to the server.
	Server *connect.Server
	// UIURL is the address of the web UI, or empty.
	UIURL string
	// Program says what the demo's own server is, or is empty.
	Program string

	lock   *os.File
	own    *devserver.Server
	worker *child
	once   sync.Once
	down   error
}

// Up starts the server and the worker of a demo, and returns when agents can be started. Progress is for people. An
// error wraps ErrRunning if another process has the demo up; after any error nothing runs.
func (d *Demo) Up(ctx context.Context, progress io.Writer) (*Running, error) {
	r := &Running{Demo: d}
	if err := r.up(ctx, progress); err != nil {
		return nil, errors.Join(err, r.Down())
	}
	return r, nil
}

func (r *Running) up(ctx context.Context, progress io.Writer) error {
	f, err := os.OpenFile(r.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock demo %q: %w", r.ID, err)
	}
	r.lock = f
	taken, err := tryLock(f)
	if err != nil {
		return fmt.Errorf("lock demo %q: %w", r.ID, err)
	}
	if !taken {
		return fmt.Errorf("bring up demo %q: %w", r.ID, ErrRunning)
	}
	settings := connect.Settings{Address: r.Address, Namespace: r.Namespace}
	if r.Address == "" {
		if err := r.serve(ctx, progress); err != nil {
			return err
		}
		settings = connect.Settings{Address: r.own.Address(), Namespace: r.Namespace, Alone: true}
	}
	if r.Server, err = connect.Dial(ctx, settings); err != nil {
		return err
	}
	return r.StartWorker(ctx)
}

// serve starts the demo's own server, on the ports it had before if they are free.
func (r *Running) serve(ctx context.Context, progress io.Writer) error {
	binary, err := devserver.Locate(ctx, devserver.Options{Progress: progress})
	if err != nil {
		return err
	}
	r.Program = binary.Version
	o := devserver.StartOptions{Binary: binary, DBFile: r.path(databaseFile), Namespace: r.Namespace, UI: true, LogFile: r.path(serverLog),
		Port: r.Port, UIPort: r.UIPort}
	r.own, err = devserver.Start(ctx, o)
	if err != nil && o.Port != 0 && ctx.Err() == nil {
		o.Port, o.UIPort = 0, 0
		r.own, err = devserver.Start(ctx, o)
	}
	if err != nil {
		return err
	}
	r.UIURL = r.own.UIURL()
	if r.Port, err = portOf(r.own.Address()); err != nil {
		return err
	}
	if r.UIPort, err = portOf(r.UIURL[len("http://"):]); err != nil {
		return err
	}
	return r.save()
}

func portOf(address string) (int, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("read port of %q: %w", address, err)
	}
	return strconv.Atoi(port)
}

// StartWorker starts the worker process: this program again, with its hidden command.
func (r *Running) StartWorker(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	args := []string{"worker", "--config", r.path(configFile), "--address", r.Server.Address, "--namespace", r.Server.Namespace, "--queue", r.Queue}
	if r.Address == "" {
		args = append(args, "--alone")
	}
	r.worker, err = startChild(ctx, exec.Command(self, args...), r.path(workerLog))
	return err
}

// WorkerPID is the process id of the worker.
func (r *Running) WorkerPID() int { return r.worker.process.Pid }

// KillWorker ends the worker process as a crash would.
func (r *Running) KillWorker() { r.worker.kill() }

// Lost is closed when the worker process has ended.
func (r *Running) Lost() <-chan struct{} { return r.worker.exited }

// ServerLost is closed when the demo's own server has ended; it is nil for a server of others.
func (r *Running) ServerLost() <-chan struct{} {
	if r.own == nil {
		return nil
	}
	return r.own.Exited()
}

// Log is the file in which the worker says what is wrong.
func (r *Running) Log() string { return r.path(workerLog) }

// Blobs is the folder of the worker's blob store.
func (r *Running) Blobs() string { return r.path(blobsDir) }

// OwnAddress is where the demo's own server listens, or did last.
func (d *Demo) OwnAddress() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.Port)) }

// Hint says what to do about a server program that cannot be had, or nothing.
func Hint(err error) string {
	var missing *devserver.NotFoundError
	if errors.As(err, &missing) {
		return missing.Hint
	}
	return ""
}

// Down ends the worker and the demo's own server, in an orderly way. The agent waits for the next Up. A second call
// returns what the first one did.
func (r *Running) Down() error {
	r.once.Do(func() {
		var errs []error
		if r.worker != nil {
			errs = append(errs, r.worker.stop())
		}
		if r.Server != nil {
			r.Server.Close()
		}
		if r.own != nil {
			errs = append(errs, r.own.Stop(context.Background()))
		}
		if r.lock != nil {
			errs = append(errs, r.lock.Close()) // which releases it
		}
		r.down = errors.Join(errs...)
	})
	return r.down
}
