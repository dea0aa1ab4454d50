package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stub is a connection whose answers the test gives.
type stub struct{ written chan jsonrpc.Message }

func (s stub) Read(ctx context.Context) (jsonrpc.Message, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (s stub) Write(_ context.Context, m jsonrpc.Message) error { s.written <- m; return nil }
func (stub) Close() error                                       { return nil }
func (stub) SessionID() string                                  { return "" }

// A server may answer a call that it was told is cancelled; whether the cancellation or the answer is noticed first must not
// decide what becomes of it.
func TestAnAnswerAfterTheCancellationIsNone(t *testing.T) {
	for name, cancelled := range map[string]bool{"in time": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w := newWire(stub{make(chan jsonrpc.Message, 1)}, &notices{log: slog.New(slog.DiscardHandler)}, nil)
			defer w.end()
			x := &exchange{shown: json.RawMessage(`{"content":[]}`), over: func() bool { return ctx.Err() != nil }}
			id, err := jsonrpc.MakeID("1")
			require.NoError(t, err)
			require.NoError(t, w.Write(x.in(context.Background()), &jsonrpc.Request{ID: id, Method: "tools/call"}))
			if cancelled {
				cancel()
			}
			shown := w.answer(&jsonrpc.Response{ID: id, Result: json.RawMessage(`{"content":[{"type":"text","text":"half"}]}`)})
			if cancelled {
				assert.Nil(t, shown)
				assert.Nil(t, x.answered())
				return
			}
			require.NotNil(t, shown)
			assert.JSONEq(t, `{"content":[]}`, string(shown.Result))
			assert.Contains(t, string(x.answered()), "half")
		})
	}
}
