package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/secret"
	"github.com/assent-dev/assent/internal/stdioproc"
)

// session is one initialized connection to a server.
type session struct {
	cs   *sdk.ClientSession
	wire *wire
	// lines and proc are nil over HTTP.
	lines *lines
	proc  *stdioproc.Process
	// life is the server's: a request in flight ends with it.
	life context.Context
	// keys are not shown.
	keys []secret.Secret

	// silence and later are the server's, the latter for the session's directory.
	silence silence
	later   func(func())

	mu sync.Mutex
	// pinging is open while a silent program is asked whether it hangs, and nil else.
	pinging chan struct{}
	// useful is set when the server has answered something after it was initialized.
	useful bool
	gone   bool

	closing sync.Once
}

// The versions of the protocol that are tried. A server of the older kind may hang at a question of the newer one, so it is
// asked in its own way first; one that knows only the newer says so at once.
const (
	versionOfSessions = "2025-11-25"
	versionOfRequests = "2026-07-28"
)

const (
	// exitWait is how long an error waits for the exit code of a program that has closed its output.
	exitWait = 2 * time.Second
	// mostStderr is what is told of the stderr of a program that does not start, in bytes.
	mostStderr = 8 << 10
	// pingTime bounds a question whether a session is known.
	pingTime = 10 * time.Second
	// closeWait bounds the end of a session that does not answer.
	closeWait = 15 * time.Second
)

// connect makes a session, or says why there is none.
func (s *Server) connect(ctx context.Context, dir string) (*session, error) {
	conn, err := s.open(ctx, dir, versionOfSessions)
	if unspoken(err) {
		conn, err = s.open(ctx, dir, versionOfRequests)
	}
	return conn, err
}

// unspoken reports that a server does not know how sessions begin.
func unspoken(err error) bool {
	var said *jsonrpc.Error
	return errors.As(err, &said) && (said.Code == jsonrpc.CodeMethodNotFound || said.Code == sdk.CodeUnsupportedProtocolVersion)
}

// open makes a session in one version of the protocol.
func (s *Server) open(ctx context.Context, dir, version string) (*session, error) {
	conn := &session{life: s.life, silence: s.silence, later: func(end func()) { s.later(dir, end) }}
	var roots []string
	caps := &sdk.ClientCapabilities{}
	if dir != "" {
		roots = []string{dir}
		//lint:ignore SA1019 Servers of today learn their directory by roots; the newest protocol has none.
		caps.RootsV2 = &sdk.RootCapabilities{}
	}
	if s.cfg.URL != "" {
		transport := &sdk.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: s.web.client(), MaxRetries: mostResumed,
			DisableStandaloneSSE: true, MaxEventSize: -1} // events bounds them
		c, err := transport.Connect(context.Background())
		if err != nil {
			return nil, err
		}
		conn.wire = newWire(c, s.say, roots)
		conn.wire.version, conn.wire.hide = s.web.agreed, s.web.quoted
	} else {
		conn.keys = s.cfg.passed()
		program := s.program(dir)
		program.Hide = func(line string) string { return secret.Hide(line, conn.keys...) }
		proc, err := stdioproc.Start(program)
		if err != nil {
			return nil, s.cfg.named(err)
		}
		hide := func(text string) string { return quoted(text, conn.keys...) }
		conn.proc, conn.lines = proc, newLines(proc.Stdin, proc.Stdout, s.say, hide)
		conn.wire = newWire(conn.lines, s.say, roots)
		conn.wire.hide = hide
	}
	conn.wire.changed = func() { s.changed.Store(time.Now().UnixNano()) }
	client := sdk.NewClient(&sdk.Implementation{Name: "assent", Version: "1"}, &sdk.ClientOptions{Capabilities: caps,
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}})
	x := &exchange{}
	type made struct {
		cs  *sdk.ClientSession
		err error
	}
	done := make(chan made, 1)
	go func() {
		cs, err := client.Connect(x.in(ctx), conn.wire, &sdk.ClientSessionOptions{ProtocolVersion: version})
		done <- made{cs, err}
	}()
	var got made
	select {
	case got = <-done:
	case <-ctx.Done():
		got.err = ctx.Err()
	}
	if got.err == nil {
		conn.cs = got.cs
		return conn, nil
	}
	err := conn.why(ctx, x, got.err, mostStderr)
	s.later(dir, conn.close)
	return nil, err
}

// program is what is started for a directory; empty is none.
func (s *Server) program(dir string) stdioproc.Config {
	c := stdioproc.Config{Command: s.cfg.Command, Env: s.cfg.Env, PassEnv: s.cfg.PassEnv, Dir: s.cfg.Dir, Log: s.cfg.Log}
	if dir != "" {
		// Else `python -m` would take any module of the agent's tree before its own.
		c.Env = map[string]string{"PYTHONSAFEPATH": "1"}
		maps.Copy(c.Env, s.cfg.Env)
		c.Dir, c.Command = dir, make([]string, len(s.cfg.Command))
		for i, arg := range s.cfg.Command {
			c.Command[i] = strings.ReplaceAll(arg, Dir, dir)
		}
	}
	return c
}

// why says what is known of a connection that was not made or broke. Of what the program wrote to stderr it tells that many
// bytes: operators need all of it, and a model the reason alone.
func (c *session) why(ctx context.Context, x *exchange, err error, stderr int) error {
	if f := x.failure(); f != nil {
		return f
	}
	var f *failure
	var said *jsonrpc.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &said):
		return said
	}
	broken := &failure{msg: quoted(err.Error()), refused: !x.maySent(), gone: true}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		broken.msg = "no answer in time"
	}
	if read := c.wire.err(); errors.As(read, &f) {
		broken.msg = f.msg
	} else if read != nil && !errors.Is(read, io.EOF) && !errors.Is(read, os.ErrClosed) {
		broken.msg = quoted(read.Error())
	}
	if noise := x.noises(); noise != "" {
		broken.msg += fmt.Sprintf("; it sent what is no message: %q", noise)
	}
	if c.proc != nil {
		c.ended(ctx, broken, stderr)
	}
	return broken
}

// ended adds what is known of a program.
func (c *session) ended(ctx context.Context, broken *failure, stderr int) {
	if ctx.Err() == nil {
		late := time.NewTimer(exitWait)
		defer late.Stop()
		select {
		case <-c.proc.Done():
		case <-late.C:
		}
	}
	var exit *stdioproc.ExitError
	if errors.As(c.proc.Err(), &exit) {
		broken.msg = fmt.Sprintf("the program %s has ended: %s", filepath.Base(exit.Program), exit.Status)
	}
	if text := secret.Hide(c.proc.Stderr(), c.keys...); text != "" {
		if len(text) > stderr {
			text = "…" + strings.ToValidUTF8(text[len(text)-stderr:], "")
		}
		broken.msg += "; the end of its stderr:\n" + text
	}
	if text := c.lines.printed(); text != "" && !strings.Contains(broken.msg, text) {
		broken.msg += fmt.Sprintf("; it prints to its standard output, which is for messages alone: %q", text)
	}
}

// ask sends one request and returns the result as it came; the SDK gets shown. The error is a *failure, a *jsonrpc.Error that the server gave,
// or the context's.
func (c *session) ask(ctx context.Context, shown string, send func(context.Context, *sdk.ClientSession) error) (json.RawMessage, string, error) {
	x := &exchange{shown: json.RawMessage(shown), over: func() bool { return ctx.Err() != nil }}
	// It is not cancelled at the end: the end of a stream is read in it, and ctx ends soon.
	sending, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(c.life, cancel)()
	since, before := time.Now(), c.heard()
	err := send(x.in(sending), c.cs)
	c.wire.forget(x)
	if ctx.Err() != nil && time.Since(since) >= c.silence.call {
		c.suspect(before)
	}
	raw := x.answered()
	var said *jsonrpc.Error
	if raw != nil || errors.As(err, &said) && x.failure() == nil {
		c.mu.Lock()
		c.useful = true
		c.mu.Unlock()
	}
	switch {
	case raw != nil:
		return raw, x.askedFor(), nil
	case err == nil:
		return nil, x.askedFor(), &failure{msg: "the answer has no result"}
	case ctx.Err() != nil && x.failure() == nil:
		return nil, x.askedFor(), ctx.Err()
	case c.life.Err() != nil:
		return nil, x.askedFor(), &failure{msg: errClosed.Error(), refused: !x.maySent(), gone: true}
	}
	err = c.why(ctx, x, err, mostQuoted)
	var f *failure
	if errors.As(err, &f) && f.doubt && c.unknown(ctx) {
		f = &failure{msg: f.msg + "; the session is unknown to it", refused: true, gone: true}
		err = f
	}
	if f != nil && f.gone {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
	}
	return nil, x.askedFor(), err
}

// unknown reports that the server does not know the session: it says of a ping in it what it said of a request. Who sends a
// call again because of the status alone may have it run twice.
func (c *session) unknown(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	x := &exchange{}
	if c.cs.Ping(x.in(ctx), nil) == nil {
		return false
	}
	c.wire.forget(x)
	f := x.failure()
	return f != nil && f.doubt
}

// broken reports that the session is of no more use.
func (c *session) broken() bool {
	select {
	case <-c.wire.done:
		return true
	default:
	}
	if c.proc != nil && c.proc.Err() != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (c *session) wasUseful() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.useful
}

// close ends the session, whatever the server does about it. Calls after the first wait for it.
func (c *session) close() { c.closing.Do(c.end) }

func (c *session) end() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The wire comes first: the SDK would wait for requests in flight.
		_ = c.wire.Close()
		if c.cs != nil {
			_ = c.cs.Close()
		}
	}()
	if c.proc != nil {
		_ = c.proc.Close()
	}
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
}

// isConfig is for errors that no new attempt mends.
func isConfig(err error) bool {
	var built *fault.NotBuiltError
	return fault.IsConfig(err) || errors.As(err, &built)
}
