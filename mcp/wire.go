package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// wire is a connection below the SDK's client. It passes on answers to requests that are open and nothing else: what a server
// asks is answered here, what it tells is dropped, and a storm of either costs nothing but reading it.
type wire struct {
	sdk.Connection
	say *notices
	// roots are what the server is told of directories; nil is that there are none to tell.
	roots []string
	// version is told the protocol version that was agreed on.
	version func(string)
	// changed is told that the server's list of tools is another one.
	changed func()
	// hide makes words of the server fit for an error.
	hide func(string) string

	// replies are answers to what the server asks, sent one after the other.
	replies chan *jsonrpc.Response
	done    chan struct{}
	end     func()

	// calm is the reader's.
	calm calm

	mu      sync.Mutex
	open    map[jsonrpc.ID]*exchange
	lastErr error
}

const (
	// mostReplies bounds what waits to be sent to a server that asks faster than it reads. Further questions get no answer.
	mostReplies = 64
	replyTime   = 10 * time.Second
)

func newWire(c sdk.Connection, say *notices, roots []string) *wire {
	w := &wire{Connection: c, say: say, roots: roots, version: func(string) {}, changed: func() {}, hide: func(text string) string { return quoted(text) }, replies: make(chan *jsonrpc.Response, mostReplies),
		done: make(chan struct{}), open: map[jsonrpc.ID]*exchange{}, calm: calm{stir: make(chan struct{}, 1)}}
	w.end = sync.OnceFunc(func() { close(w.done) })
	go w.reply()
	return w
}

// Connect is for the SDK, which takes a transport.
func (w *wire) Connect(context.Context) (sdk.Connection, error) { return w, nil }

// Write sends a message and puts the exchange of a request down before.
func (w *wire) Write(ctx context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		x := exchangeOf(ctx)
		if x == nil {
			x = &exchange{}
			ctx = x.in(ctx)
		}
		x.begin(req.ID)
		w.mu.Lock()
		w.open[req.ID] = x
		w.mu.Unlock()
		w.calm.wake()
	} else {
		// A cancellation is sent in the context of what it cancels, and is no part of that.
		ctx = context.WithValue(ctx, exchangeKey{}, (*exchange)(nil))
	}
	return w.Connection.Write(ctx, msg)
}

// forget closes an exchange that nobody waits for any more.
func (w *wire) forget(x *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, x.requestID())
}

// waiting reports a request for which somebody waits.
func (w *wire) waiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.open {
		if x.shown != nil {
			return true
		}
	}
	return false
}

// Read returns the next answer.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := w.Connection.Read(ctx)
		if err != nil {
			w.mu.Lock()
			w.lastErr = err
			w.mu.Unlock()
			w.end()
			return nil, err
		}
		size := 0
		switch m := msg.(type) {
		case *jsonrpc.Response:
			size = len(m.Result)
			if answer := w.answer(m); answer != nil {
				return answer, nil
			}
		case *jsonrpc.Request:
			size = len(m.Params)
			if m.IsCall() {
				w.asked(m)
			} else if m.Method == methodChanged {
				w.changed()
			}
		}
		w.calm.dropped(size, w.busy, w.done)
	}
}

// busy reports an open request.
func (w *wire) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open) > 0
}

// answer is what the SDK sees of a response; nil if nobody waits for it.
func (w *wire) answer(r *jsonrpc.Response) *jsonrpc.Response {
	w.mu.Lock()
	x, ok := w.open[r.ID]
	delete(w.open, r.ID)
	w.mu.Unlock()
	if !ok {
		w.say.once("stray", "assent: an MCP server answers what nobody asked, or twice")
		return nil
	}
	var said *jsonrpc.Error
	if errors.As(r.Error, &said) {
		data := said.Data
		if len(data) > mostData {
			data = nil
		}
		return &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: said.Code, Message: w.hide(said.Message), Data: data}}
	}
	if r.Error != nil {
		return r
	}
	if x.shown == nil {
		if len(r.Result) > mostPlain {
			words := fmt.Sprintf("its answer is larger than %d KiB, which is the most that is read of one that is no list or result", mostPlain>>10)
			return &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: words}}
		}
		var hello struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		if json.Unmarshal(r.Result, &hello) == nil && hello.ProtocolVersion != "" {
			w.version(hello.ProtocolVersion)
		}
		return r
	}
	if !x.answer(r.Result) {
		return nil
	}
	return &jsonrpc.Response{ID: r.ID, Result: x.shown}
}

// The methods of a server's questions.
const (
	methodPing  = "ping"
	methodRoots = "roots/list"
	// methodChanged is no question.
	methodChanged = "notifications/tools/list_changed"
)

// asked answers what a server asks. Nothing waits for it.
func (w *wire) asked(r *jsonrpc.Request) {
	answer := &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}
	switch {
	case r.Method == methodPing:
	case r.Method == methodRoots && w.roots != nil:
		answer.Result = rootsOf(w.roots)
	default:
		method := cut(r.Method, 64)
		answer.Result, answer.Error = nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client does not offer " + method}
		w.refuse(method)
	}
	select {
	case w.replies <- answer:
	default:
	}
}

// refuse tells every open request what the server asked for meanwhile.
func (w *wire) refuse(method string) {
	w.say.once("asks", "assent: an MCP server asks for what it is not offered", "method", quoted(method))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.open {
		x.ask(method)
	}
}

func (w *wire) reply() {
	for {
		select {
		case <-w.done:
			return
		case r := <-w.replies:
			ctx, cancel := context.WithTimeout(context.Background(), replyTime)
			err := w.Connection.Write(ctx, r)
			cancel()
			if err != nil {
				w.say.log.Debug("assent: an answer to an MCP server was not sent", "error", quoted(err.Error()))
			}
		}
	}
}

// Close ends the connection.
func (w *wire) Close() error {
	w.end()
	return w.Connection.Close()
}

// err is why nothing is read any more, or nil.
func (w *wire) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastErr
}

func rootsOf(dirs []string) json.RawMessage {
	type root struct {
		URI string `json:"uri"`
	}
	list := struct {
		Roots []root `json:"roots"`
	}{[]root{}}
	for _, d := range dirs {
		list.Roots = append(list.Roots, root{fileURI(d)})
	}
	out, _ := json.Marshal(list) // strings always encode
	return out
}

// fileURI is the address of an absolute directory.
func fileURI(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir
	}
	return (&url.URL{Scheme: "file", Path: dir}).String()
}
