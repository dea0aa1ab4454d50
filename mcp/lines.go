package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines are the messages of a program over its stdin and stdout, one a line.
//
// A line that is no message is passed over, because programs print a greeting or a log there; what they printed first is kept
// for errors. A line that is too large is read to its end and fails the request that it answers.
type lines struct {
	in  io.WriteCloser
	out io.ReadCloser
	say *notices
	// hide makes what is printed fit for an error.
	hide func(string) string

	// incoming are what the reader has read; closed ends it.
	incoming chan incoming
	closed   chan struct{}
	closing  func()
	// heard counts what was read of the output, in bytes.
	heard atomic.Int64
	// writing is held by whoever writes.
	writing chan struct{}

	mu      sync.Mutex
	garbage string
}

type incoming struct {
	msg jsonrpc.Message
	err error
}

const (
	// mostGarbage bounds what a program may print between two messages, in bytes, and empty lines.
	mostGarbage = 4 << 20
	// mostLine bounds a line that is passed over; one without an end is no message.
	mostLine = 512 << 20
	// writeGrace is how long a program may take to read a message whose request was given up.
	writeGrace = 5 * time.Second
	// mostBatch bounds the messages in one line.
	mostBatch = 1000
	// ends is how much of a line that is too large is kept at either end, to find out what it answers.
	ends = 4 << 10
)

func newLines(in io.WriteCloser, out io.ReadCloser, say *notices, hide func(string) string) *lines {
	l := &lines{in: in, out: out, say: say, hide: hide, incoming: make(chan incoming), closed: make(chan struct{}), writing: make(chan struct{}, 1)}
	l.closing = sync.OnceFunc(func() { close(l.closed) })
	go l.read()
	return l
}

// SessionID is for the SDK; there is none here.
func (l *lines) SessionID() string { return "" }

// Read returns the next message.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, io.EOF
	case in := <-l.incoming:
		return in.msg, in.err
	}
}

// read reads until the end of the output, or something that no later line can mend.
func (l *lines) read() {
	from := bufio.NewReaderSize(l.out, 64<<10)
	passed := 0
	for {
		line, long, err := l.line(from)
		if long == nil && len(line) == 0 && err != nil {
			l.deliver(incoming{err: err})
			return
		}
		msgs, ok := l.parse(line, long)
		if !ok {
			msgs = nil
			l.pass(line)
		}
		if long != nil && msgs == nil {
			l.deliver(incoming{err: tooLarge()})
			return
		}
		if passed += len(line) + 1; len(msgs) > 0 {
			passed = 0
		}
		if passed > mostGarbage {
			l.deliver(incoming{err: fmt.Errorf("it prints to its standard output, which is for messages alone: %q", l.printed())})
			return
		}
		for _, m := range msgs {
			if !l.deliver(incoming{msg: m}) {
				return
			}
		}
	}
}

func (l *lines) deliver(in incoming) bool {
	select {
	case l.incoming <- in:
		return true
	case <-l.closed:
		return false
	}
}

// long is the beginning and the end of a line that is too large.
type long struct{ head, tail []byte }

// line reads one line. What is left at the end of the output without a newline is a line too.
func (l *lines) line(from *bufio.Reader) (line []byte, large *long, err error) {
	size := 0
	for {
		part, err := from.ReadSlice('\n')
		l.heard.Add(int64(len(part)))
		size += len(part)
		switch {
		case large != nil:
			large.tail = last(append(large.tail, part...), ends)
		case size > MaxMessage:
			large = &long{head: bytes.Clone(line[:ends]), tail: last(append(bytes.Clone(last(line, ends)), part...), ends)}
			line = nil
		default:
			line = append(line, part...)
		}
		if size > mostLine {
			return nil, nil, tooLarge()
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), large, err
		}
	}
}

func last(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// parse reads the messages of a line; false if it is none. No messages of a long line say that nobody knows what it answers.
func (l *lines) parse(line []byte, large *long) ([]jsonrpc.Message, bool) {
	switch {
	case large != nil:
		if id, ok := large.answers(); ok {
			return []jsonrpc.Message{&jsonrpc.Response{ID: id, Error: tooLarge()}}, true
		}
		return nil, true
	case len(line) == 0:
		return nil, true
	case line[0] == '[':
		batch := elements{open: '[', most: mostBatch}
		if json.Unmarshal(line, &batch) != nil || batch.more {
			return nil, false
		}
		var msgs []jsonrpc.Message
		for _, raw := range batch.list {
			m, err := decode(raw)
			if err != nil {
				return nil, false
			}
			msgs = append(msgs, m)
		}
		return msgs, true
	case line[0] != '{':
		return nil, false
	}
	m, err := decode(line)
	return []jsonrpc.Message{m}, err == nil
}

// The id of an answer stands before its result or after it.
var (
	idAtHead = regexp.MustCompile(`\A\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*[,}]`)
	idAtTail = regexp.MustCompile(`,\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\z`)
)

// answers finds which request a long line answers.
func (l *long) answers() (jsonrpc.ID, bool) {
	for _, m := range [][][]byte{idAtHead.FindSubmatch(l.head), idAtTail.FindSubmatch(l.tail)} {
		if m == nil {
			continue
		}
		n, _ := strconv.ParseInt(string(m[1]), 10, 64) // digits that fit
		if id, err := jsonrpc.MakeID(float64(n)); err == nil {
			return id, true
		}
	}
	return jsonrpc.ID{}, false
}

// pass puts down what is no message.
func (l *lines) pass(line []byte) {
	text := l.hide(string(line[:min(len(line), mostHidden)]))
	l.mu.Lock()
	if l.garbage == "" {
		l.garbage = text
	}
	l.mu.Unlock()
	l.say.once("prints", "assent: an MCP server prints to its standard output, which is for messages alone", "printed", text)
}

// printed is the beginning of what was no message.
func (l *lines) printed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.garbage
}

// Write sends one message. When ctx ends while the program does not read, and it does not go on to, the connection is closed.
func (l *lines) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	data = append(data, '\n')
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return io.ErrClosedPipe
	}
	written := make(chan error, 1)
	go func() {
		defer func() { <-l.writing }()
		n, err := l.in.Write(data)
		if x := exchangeOf(ctx); x != nil && n == len(data) {
			x.reached()
		}
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
	}
	if x := exchangeOf(ctx); x != nil {
		x.reached() // the pipe may have all of it by now
	}
	go func() {
		// Half a message may be in the pipe, so nothing can follow it unless the program reads on.
		late := time.NewTimer(writeGrace)
		defer late.Stop()
		select {
		case err := <-written:
			if err != nil {
				_ = l.Close()
			}
		case <-l.closed:
		case <-late.C:
			_ = l.Close()
		}
	}()
	return ctx.Err()
}

// Close closes both pipes.
func (l *lines) Close() error {
	l.closing()
	return errors.Join(l.in.Close(), l.out.Close())
}
