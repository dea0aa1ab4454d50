package mcptest

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assent-dev/assent/internal/stdioproc"
)

// HTTP is a server over streamable HTTP, a process of its own on this machine. It ends with the test.
type HTTP struct {
	// URL stays the same over restarts.
	URL string

	tb      testing.TB
	start   func() *stdioproc.Process
	process *stdioproc.Process
}

// Serve starts the test server over HTTP, with flags.
func Serve(tb testing.TB, flags ...string) *HTTP {
	tb.Helper()
	h := &HTTP{tb: tb}
	address := "127.0.0.1:" + freePort(tb)
	h.start = func() *stdioproc.Process {
		tb.Helper()
		p := start(tb, stdioproc.Config{Command: append(Command(tb, "-http", address), flags...)})
		url, err := bufio.NewReader(p.Stdout).ReadString('\n')
		if err != nil {
			<-p.Done()
			tb.Fatalf("the server says no URL: %v", p.Err())
		}
		h.URL = strings.TrimSpace(url)
		address = strings.TrimSuffix(strings.TrimPrefix(h.URL, "http://"), "/mcp")
		return p
	}
	h.process = h.start()
	return h
}

// ServeProgram starts another program that serves MCP over HTTP at path. What it is started with is made for a free port
// of this machine.
func ServeProgram(tb testing.TB, path string, config func(port string) stdioproc.Config) *HTTP {
	tb.Helper()
	port := freePort(tb)
	h := &HTTP{tb: tb, URL: "http://127.0.0.1:" + port + path}
	h.start = func() *stdioproc.Process {
		tb.Helper()
		p := start(tb, config(port))
		go func() { _, _ = io.Copy(io.Discard, p.Stdout) }()
		for {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				_ = c.Close()
				return p
			}
			select {
			case <-p.Done():
				tb.Fatalf("the server does not listen: %v", p.Err())
			case <-tb.Context().Done():
				tb.Fatalf("the server does not listen: it says %s", p.Stderr())
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	h.process = h.start()
	return h
}

// Stop ends the server and leaves its port.
func (h *HTTP) Stop() {
	h.tb.Helper()
	if err := h.process.Close(); err != nil {
		h.tb.Fatal(err)
	}
}

// Restart starts the server again at its URL, as a process that knows nothing of the one before.
func (h *HTTP) Restart() {
	h.tb.Helper()
	h.Stop()
	h.process = h.start()
}

// Pid is the process id of the server that runs now.
func (h *HTTP) Pid() int { return h.process.Pid() }

func start(tb testing.TB, c stdioproc.Config) *stdioproc.Process {
	tb.Helper()
	c.Grace = 100 * time.Millisecond
	p, err := stdioproc.Start(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// freePort is a port that nobody listened at a moment ago. It lies below those that systems give to whoever asks for any or
// connects: such a one may be somebody else's before the server listens there, and while it is restarted.
func freePort(tb testing.TB) string {
	tb.Helper()
	var err error
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	tb.Fatal(err)
	return ""
}
