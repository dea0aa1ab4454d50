package mcp

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// exchange is one request to a server and what became of it. It travels in the context of the request: the SDK hands that
// down to where bytes are written.
type exchange struct {
	// shown is what the SDK gets in place of the result, which is kept here as it came: the SDK would lose the digits of numbers
	// and refuse what it does not know. nil leaves the result to the SDK.
	shown json.RawMessage
	// over says that nobody waits any more; nil is never.
	over func() bool

	mu sync.Mutex
	id jsonrpc.ID
	// sent says that the server may have it.
	sent   bool
	result json.RawMessage
	failed *failure
	// asked is what the server has asked for meanwhile that it cannot have.
	asked string
	// heard is the beginning of what came and is no message.
	heard string
	// resumed counts how often the stream was opened again at the same place.
	resumed int
	place   string
}

type exchangeKey struct{}

func (x *exchange) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf is nil for requests of the SDK's own.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

func (x *exchange) begin(id jsonrpc.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.id, x.sent, x.result = id, false, nil
}

func (x *exchange) reached() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = true
}

func (x *exchange) maySent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent
}

// fail keeps the first failure, which is the cause of others.
func (x *exchange) fail(f *failure) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed == nil {
		x.failed = f
	}
}

func (x *exchange) failure() *failure {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed
}

// answer reports whether somebody still waits for it. What a server says of a call after that was cancelled is no result of
// it: the call may have ended half done.
func (x *exchange) answer(result json.RawMessage) bool {
	if x.over != nil && x.over() {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result = result
	return true
}

func (x *exchange) answered() json.RawMessage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result
}

func (x *exchange) requestID() jsonrpc.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.id
}

// ask puts down what a server asked for.
func (x *exchange) ask(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked = what
}

func (x *exchange) askedFor() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked
}

// noise puts down what is no message.
func (x *exchange) noise(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.heard == "" {
		x.heard = text
	}
}

func (x *exchange) noises() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.heard
}

// resume counts the openings of a broken stream at one place.
func (x *exchange) resume(place string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.place != place {
		x.place, x.resumed = place, 0
	}
	x.resumed++
	return x.resumed
}
