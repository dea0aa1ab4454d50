package mcp

import (
	"context"
	"time"
)

// silence is how long a program may say nothing before it counts as one that hangs: in a call that nobody waits for any
// more, and then in answer to a ping. A program that died is known at once, but one that hangs takes every later call with it.
type silence struct{ call, ping time.Duration }

const (
	silentCall = 3 * time.Second
	silentPing = 10 * time.Second
)

// heard is how much a program has written to its output; zero over HTTP, where each request has a connection of its own.
func (c *session) heard() int64 {
	if c.lines == nil {
		return 0
	}
	return c.lines.heard.Load()
}

// suspect asks a program whether it hangs, if it has said nothing since it had written that much. Nobody waits for it.
func (c *session) suspect(before int64) {
	if c.lines == nil || c.broken() || !c.silent(before) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pinging == nil {
		c.pinging = make(chan struct{})
		c.later(func() { c.replaceIfHung(before) })
	}
}

// asked is closed when the program has been asked whether it hangs; nil if it is not.
func (c *session) asked() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pinging
}

// silent reports that nothing came since then and nobody waits: a program that does one thing after the other is busy with a
// call that others wait for, and says nothing either.
func (c *session) silent(before int64) bool { return c.heard() == before && !c.wire.waiting() }

// replaceIfHung ends a session whose program does not even answer a ping, so that the next call starts another.
func (c *session) replaceIfHung(before int64) {
	stderr := c.proc.Stderr()
	ctx, cancel := context.WithTimeout(c.life, c.silence.ping)
	defer cancel()
	x := &exchange{}
	_ = c.cs.Ping(x.in(ctx), nil) // that something comes is the answer, not what
	c.wire.forget(x)
	c.mu.Lock()
	hangs := ctx.Err() != nil && c.life.Err() == nil && c.silent(before) && c.proc.Stderr() == stderr
	c.gone = c.gone || hangs
	close(c.pinging)
	c.pinging = nil
	c.mu.Unlock()
	if hangs {
		c.wire.say.log.Warn("assent: an MCP server hangs: it answers neither a call nor a ping, and is ended", "pid", c.proc.Pid())
		c.close()
	}
}
