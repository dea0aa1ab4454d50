package toolbox

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// maxStream is how many bytes of one output stream reach the model: half from its start, half from its end.
const maxStream = 256 << 10

// capture collects one output stream through a pipe, reading on when its room is full so that nothing blocks.
type capture struct {
	// in is what processes write to.
	in   *os.File
	out  *os.File
	done chan struct{}

	head, tail []byte
	// next is where the ring of the tail goes on; it is in use once the tail is full.
	next  int
	total int64
	room  int
}

func newCapture(room int) (*capture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &capture{in: w, out: r, done: make(chan struct{}), room: room}
	go func() {
		defer close(c.done)
		_, _ = io.Copy(c, r)
	}()
	return c, nil
}

// Write keeps the first and the last half of what it gets.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	half := c.room / 2
	if free := half - len(c.head); free > 0 {
		cut := min(free, len(p))
		c.head, p = append(c.head, p[:cut]...), p[cut:]
	}
	if len(p) > half {
		p = p[len(p)-half:]
	}
	if free := half - len(c.tail); free > 0 {
		cut := min(free, len(p))
		c.tail, p = append(c.tail, p[:cut]...), p[cut:]
	}
	for len(p) > 0 {
		cut := copy(c.tail[c.next:], p)
		c.next, p = (c.next+cut)%half, p[cut:]
	}
	return n, nil
}

// stream is what came out of one stream.
type stream struct {
	text    string
	dropped int64
	// replaced is true when bytes that are not UTF-8 were replaced.
	replaced bool
}

// drainWait is how long the end of a stream may take to be read. A busy machine needs more than a moment, and what is not
// read by then is lost without a word.
const drainWait = 5 * time.Second

// finish returns the stream. A process that outlived the call may hold the pipe open; it is not waited for.
func (c *capture) finish() stream {
	_ = c.in.Close()
	select {
	case <-c.done:
	case <-time.After(drainWait):
		_ = c.out.SetReadDeadline(time.Now())
		<-c.done
	}
	_ = c.out.Close()

	tail := append(append([]byte(nil), c.tail[c.next:]...), c.tail[:c.next]...)
	kept := int64(len(c.head) + len(tail))
	if c.total == kept {
		return validText(string(c.head)+string(tail), 0)
	}
	head, tail := dropCutRune(c.head), dropLeadingCut(tail)
	dropped := c.total - int64(len(head)+len(tail))
	return validText(fmt.Sprintf("%s\n[... %d bytes dropped ...]\n%s", head, dropped, tail), dropped)
}

func validText(text string, dropped int64) stream {
	s := stream{text: text, dropped: dropped}
	if !utf8.ValidString(text) {
		s.text, s.replaced = strings.ToValidUTF8(text, "\uFFFD"), true
	}
	return s
}

// dropCutRune removes the beginning of a character that lost its end to the cut.
func dropCutRune(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// dropLeadingCut removes the end of a character that lost its beginning to the cut.
func dropLeadingCut(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
