package mcp

import (
	"context"
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
	said   atomic.Int64
	asked  chan jsonrpc.ID
	id     jsonrpc.ID
	answer int64 // when said is that much
}

func (f *flood) Read(context.Context) (jsonrpc.Message, error) {
	n := f.said.Add(1)
	if n > 1_000_000 {
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
	return &jsonrpc.Request{Method: "notifications/tools/list_changed"}, nil
}

func (f *flood) Write(_ context.Context, m jsonrpc.Message) error {
	f.asked <- m.(*jsonrpc.Request).ID
	return nil
}

func (f *flood) Close() error { return nil }

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
