package devservertest

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/assent-dev/assent/internal/devserver"
)

var shared struct {
	mu     sync.Mutex
	binary devserver.Binary
	server *devserver.Server
	err    error
}

// Server returns the server that all tests of this process share, in memory and without a web UI. It is ready, and it
// ends with the process. The first call may compile it, which takes minutes on a machine that has not done so before.
func Server(tb testing.TB) *devserver.Server {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = startShared()
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	select {
	case <-shared.server.Exited():
		tb.Fatalf("the shared Temporal server has ended; it printed:\n%s", shared.server.Log())
	default:
	}
	return shared.server
}

// Binary returns the server program, for tests that start a server of their own.
func Binary(tb testing.TB) devserver.Binary {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	b, err := locate()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Run runs the tests and then stops the shared server in an orderly way, for use in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }
//
// Without it the server is killed when the process ends, on Linux; on other systems it would stay.
func Run(m *testing.M) int {
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		if err := shared.server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// startShared uses no test's context: the server outlives the test that asked first.
func startShared() (*devserver.Server, error) {
	b, err := locate()
	if err != nil {
		return nil, err
	}
	return devserver.Start(context.Background(), devserver.StartOptions{Binary: b})
}

// locate is called with shared.mu held.
func locate() (devserver.Binary, error) {
	if shared.binary.Path != "" {
		return shared.binary, nil
	}
	w, done := progressWriter()
	defer done()
	b, err := devserver.Locate(context.Background(), devserver.Options{Progress: w})
	if err == nil {
		shared.binary = b
	}
	return b, err
}

// progressWriter is the terminal, if there is one: `go test` holds back what a test prints until the package is done,
// and a build takes minutes.
func progressWriter() (io.Writer, func()) {
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		return tty, func() { _ = tty.Close() }
	}
	return os.Stderr, func() {}
}
