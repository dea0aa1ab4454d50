package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-dev/assent/tool"
)

// MetaIdempotencyKey is the member of a call's _meta that is the same for every attempt of one call, and for no other call.
const MetaIdempotencyKey = "assent.dev/idempotency-key"

// lingerTime is how long the stream of an answer may take to end after it, so that its connection can be used again.
const lingerTime = time.Second

// call is the body of a tool. A call that cannot have reached the server, or whose effect may be repeated, is tried again on a
// new connection; any other that has no answer is a tool.Unsure.
func (s *Server) call(ctx context.Context, call *tool.Context, name string, repeatable bool, input json.RawMessage) (any, error) {
	dir := ""
	if s.cfg.PerDir {
		if dir = call.Dir; dir == "" {
			return nil, fmt.Errorf("mcp server %q runs in the working directory of the agent, and this one has none", s.cfg.Name)
		}
		// Servers compare paths with what the system calls a directory: /private/tmp is another name than /tmp.
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
	}
	at, err := s.places.take(dir)
	if err != nil {
		return nil, s.wrong(err)
	}
	defer at.leave()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer func() { time.AfterFunc(lingerTime, cancel) }()
	params := &sdk.CallToolParams{Name: name, Arguments: input}
	if call.IdempotencyKey != "" {
		params.Meta = sdk.Meta{MetaIdempotencyKey: call.IdempotencyKey}
	}
	for n := 1; ; n++ {
		conn, err := at.session(ctx)
		if err != nil {
			if ctx.Err() == nil && n < attempts && !isConfig(err) && !errors.Is(err, errClosed) {
				continue
			}
			return nil, s.wrong(fmt.Errorf("%w; the tool did not run", err))
		}
		raw, asked, err := conn.tool(ctx, params)
		if err == nil {
			return s.result(call, raw, asked)
		}
		again, err := s.judge(ctx, err, asked, repeatable)
		if !again || n == attempts {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(firstPause):
		}
	}
}

// tool calls a tool once. When ctx ends the server is told and this returns.
func (c *session) tool(ctx context.Context, params *sdk.CallToolParams) (json.RawMessage, string, error) {
	p := *params
	return c.ask(ctx, `{"content":[]}`, func(ctx context.Context, cs *sdk.ClientSession) error {
		_, err := cs.CallTool(ctx, &p)
		return err
	})
}

// judge says what an error of a call means, and whether to try again.
func (s *Server) judge(ctx context.Context, err error, asked string, repeatable bool) (again bool, told error) {
	var f *failure
	var said *jsonrpc.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return false, ctx.Err()
	case ctx.Err() != nil:
		f = &failure{msg: fmt.Sprintf("no answer in %s", s.cfg.CallTimeout)}
		repeatable = false
	case errors.As(err, &said):
		return false, s.wrong(afterAsking(fmt.Errorf("it refuses the call: %s (code %d)", quoted(said.Message), said.Code), asked))
	case !errors.As(err, &f):
		f = &failure{msg: quoted(err.Error())}
	}
	told = s.wrong(afterAsking(f, asked))
	switch {
	case f.answered:
		return false, fmt.Errorf("%w; the tool has run", told)
	case f.refused:
		return f.gone, fmt.Errorf("%w; the tool did not run", told)
	case repeatable:
		return true, told
	}
	return false, tool.Unsure{Message: told.Error() + "; the call may have had its effect, check before trying again"}
}
