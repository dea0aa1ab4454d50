package stdioproc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

const (
	// maxTail bounds what is kept of stderr, maxLine a line of it in the log, and maxWaiting the lines that wait for a
	// slow log; the others are counted. What is hidden is looked for in maxRead of a line, so that none of it is cut.
	maxTail    = 8 << 10
	maxLine    = 2 << 10
	maxRead    = 32 << 10
	maxWaiting = 256
)

// complaints reads stderr as fast as it comes. The log is another goroutine's, so that a slow one cannot block the program.
type complaints struct {
	mu   sync.Mutex
	tail []byte
	// cut says that tail is not all.
	cut bool

	line    []byte
	hide    func(string) string
	lines   chan string
	dropped int
}

// read takes everything from r until it ends.
func (c *complaints) read(r io.Reader, log *slog.Logger, hide func(string) string) {
	c.hide = hide
	var logged sync.WaitGroup
	if log != nil && log.Enabled(context.Background(), slog.LevelDebug) {
		c.lines = make(chan string, maxWaiting)
		logged.Go(func() {
			for line := range c.lines {
				log.Debug("stderr", "line", line)
			}
		})
	}
	_, _ = io.Copy(c, r)
	if c.lines == nil {
		return
	}
	c.endLine()
	close(c.lines)
	// The log may hang; who waits for the end of stderr does not wait for it.
	if dropped := c.dropped; dropped > 0 {
		go func() { logged.Wait(); log.Debug("stderr: the log was too slow for it", "dropped", dropped) }()
	}
}

// Write never fails and never waits.
func (c *complaints) Write(data []byte) (int, error) {
	c.mu.Lock()
	c.tail = append(c.tail, data...)
	if over := len(c.tail) - maxTail; over > 0 {
		c.tail, c.cut = append(c.tail[:0], c.tail[over:]...), true
	}
	c.mu.Unlock()
	if c.lines == nil {
		return len(data), nil
	}
	for rest := data; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		c.line = append(c.line, part[:min(len(part), maxRead-len(c.line))]...)
		if whole {
			c.endLine()
		}
		rest = after
	}
	return len(data), nil
}

func (c *complaints) endLine() {
	text := strings.TrimRight(string(c.line), "\r")
	c.line = c.line[:0]
	if c.hide != nil {
		text = c.hide(text)
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxLine)], "\uFFFD")
	if text == "" {
		return
	}
	select {
	case c.lines <- text:
	default:
		c.dropped++
	}
}

// text is the end of what was written, from the beginning of a line if there is one.
func (c *complaints) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := c.tail
	if c.cut {
		if i := bytes.IndexByte(tail, '\n'); i >= 0 && i < len(tail)-1 {
			tail = tail[i+1:]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(tail), "\uFFFD"))
}
