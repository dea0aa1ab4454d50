package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
// new connection; any other that has no answer is a tool.Unsure, and so is one that does more than read if an attempt of it
// had none and no later one has.
func (s *Server) call(ctx context.Context, call *tool.Context, name string, f facts, input json.RawMessage) (any, error) {
	// The worker that had an attempt before this one was lost.
	lost := call.Attempt > 1 && !f.reads
	dir := ""
	if s.cfg.PerDir {
		if dir = call.Dir; dir == "" {
			return nil, fmt.Errorf("mcp server %q runs in the working directory of the agent, and this one has none", s.cfg.Name)
		}
		dir = realDir(dir)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer func() { time.AfterFunc(lingerTime, cancel) }()
	at, err := s.places.take(ctx, dir)
	if err != nil {
		return nil, unsure(lost, s.wrong(fmt.Errorf("%w; the tool did not run", err)))
	}
	defer at.leave()
	params := &sdk.CallToolParams{Name: name, Arguments: input}
	if call.IdempotencyKey != "" {
		params.Meta = sdk.Meta{MetaIdempotencyKey: call.IdempotencyKey}
	}
	tried := false // an attempt of which nobody knows whether it ran
	for n := 1; ; n++ {
		conn, err := at.session(ctx)
		if err != nil {
			if ctx.Err() == nil && n < attempts && !isConfig(err) && !errors.Is(err, errClosed) {
				continue
			}
			return nil, unsure(lost, s.wrong(fmt.Errorf("%w; %s", err, notRun(tried))))
		}
		raw, asked, err := conn.tool(ctx, params)
		if err == nil {
			return s.result(call, raw, asked)
		}
		again, ran, err := s.judge(ctx, err, asked, f.repeatable, tried)
		tried = tried || again && ran
		lost = lost || tried && !f.reads
		if !again || n == attempts {
			return nil, unsure(lost, err)
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

// facts is what the engine thinks of a tool, as far as it says what may be tried again.
type facts struct{ reads, repeatable bool }

// unsure says of a call that an attempt of it was lost, of which nobody knows whether it ran.
func unsure(lost bool, err error) error {
	if !lost || errors.Is(err, context.Canceled) || errors.As(err, new(tool.Unsure)) {
		return err
	}
	return tool.Unsure{Message: err.Error() + "; an attempt before may have had its effect, check before trying again"}
}

// notRun says of an attempt that it did not run, which is all that is known where another one was tried before it.
func notRun(tried bool) string {
	if tried {
		return "it was tried again and did not run then"
	}
	return "the tool did not run"
}

// judge says what an error of a call means: whether to try again, and whether it may have run.
func (s *Server) judge(ctx context.Context, err error, asked string, repeatable, tried bool) (again, ran bool, told error) {
	var f *failure
	var said *jsonrpc.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return false, true, ctx.Err()
	case ctx.Err() != nil:
		f = &failure{msg: fmt.Sprintf("no answer in %s", s.cfg.CallTimeout)}
		repeatable = false
	case errors.As(err, &said):
		return false, true, s.wrong(afterAsking(fmt.Errorf("it refuses the call: %s (code %d)", quoted(said.Message), said.Code), asked))
	case !errors.As(err, &f):
		f = &failure{msg: quoted(err.Error())}
	}
	told = s.wrong(afterAsking(f, asked))
	switch {
	case f.answered:
		return false, true, fmt.Errorf("%w; the tool has run", told)
	case f.refused:
		return f.gone, false, fmt.Errorf("%w; %s", told, notRun(tried))
	case repeatable:
		return true, true, told
	}
	return false, true, tool.Unsure{Message: told.Error() + "; the call may have had its effect, check before trying again"}
}
