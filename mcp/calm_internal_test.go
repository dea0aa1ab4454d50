package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// flood is a connection on which a server says without end that its tools have changed, and answers in between.
type flood struct {
	sdk.Connection
	params json.RawMessage
	takes  time.Duration // to read one of these
	said   atomic.Int64
	closed atomic.Bool
	asked  chan jsonrpc.ID
	id     jsonrpc.ID
	answer int64 // when said is that much
}

func (f *flood) Read(context.Context) (jsonrpc.Message, error) {
	n := f.said.Add(1)
	if n > 1_000_000 || f.closed.Load() {
		return nil, io.EOF // nobody slows it down
	}
	select {
	case f.id = <-f.asked:
		f.answer = n + 10*mostTalk
	default:
	}
	if n == f.answer {
		return &jsonrpc.Response{ID: f.id, Result: []byte("{}")}, nil
	}
	time.Sleep(f.takes)
	return &jsonrpc.Request{Method: "notifications/tools/list_changed", Params: f.params}, nil
}

func (f *flood) Write(_ context.Context, m jsonrpc.Message) error {
	f.asked <- m.(*jsonrpc.Request).ID
	return nil
}

func (f *flood) Close() error {
	f.closed.Store(true)
	return nil
}

// While nobody asks, a flood is read slowly; what somebody waits for is read at once.
func TestAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flood{asked: make(chan jsonrpc.ID, 1)}
		w := newWire(f, &notices{log: slog.New(slog.DiscardHandler)}, nil)
		read := make(chan jsonrpc.Message, 1)
		go func() {
			m, err := w.Read(context.Background())
			if err == nil {
				read <- m
			}
		}()
		time.Sleep(10 * calmTime)
		require.LessOrEqual(t, f.said.Load(), int64(12*(mostTalk+1)))
		id, err := jsonrpc.MakeID(float64(1))
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, w.Write(context.Background(), &jsonrpc.Request{ID: id, Method: "ping"}))
		require.IsType(t, &jsonrpc.Response{}, <-read)
		require.Less(t, time.Since(began), calmTime)
		require.NoError(t, w.Close())
	})
}

// Large messages take a core as well as many do: they are few in each moment.
func TestAFloodOfLargeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flood{asked: make(chan jsonrpc.ID, 1), params: make([]byte, 4<<20), takes: calmTime / 2}
		w := newWire(f, &notices{log: slog.New(slog.DiscardHandler)}, nil)
		go func() { _, _ = w.Read(context.Background()) }()
		time.Sleep(10 * time.Second)
		said := f.said.Load()
		require.NoError(t, w.Close())
		require.LessOrEqual(t, said, int64(20), "4 MiB in a second, and not 80")
	})
}

// What a program prints between messages counts for what it is, also if it is empty.
func TestAFloodOfNothing(t *testing.T) {
	for _, line := range []string{"\n", "[]\n", " \n", "noise\n"} {
		l := newLines(nopWriter{}, io.NopCloser(&endless{line: line, most: 4 * mostGarbage}), &notices{log: slog.New(slog.DiscardHandler)}, func(s string) string { return s })
		_, err := l.Read(context.Background())
		require.ErrorContains(t, err, "it prints to its standard output", "%q", line)
		require.NoError(t, l.Close())
	}
}

type nopWriter struct{ io.Writer }

func (nopWriter) Close() error { return nil }

// endless prints one line until it has printed that much.
type endless struct {
	line string
	most int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.most <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n+len(e.line) <= len(b) {
		n += copy(b[n:], e.line)
	}
	e.most -= n
	return n, nil
}
