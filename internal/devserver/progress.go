package devserver

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress writes to people: whole lines, and on a terminal one line that is rewritten.
type progress struct {
	w        io.Writer
	terminal bool
	// every is the time between two updates.
	every time.Duration
	// open is true while the cursor stands on a line to be rewritten.
	open bool
}

func newProgress(w io.Writer) *progress {
	if w == nil {
		w = io.Discard
	}
	p := &progress{w: w, every: 10 * time.Second}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.terminal, p.every = true, time.Second
		}
	}
	return p
}

// line writes a line that stays.
func (p *progress) line(format string, args ...any) {
	p.write(fmt.Sprintf(format, args...) + "\n")
	p.open = false
}

// update writes a line that the next one replaces, on a terminal.
func (p *progress) update(format string, args ...any) {
	if !p.terminal {
		p.line(format, args...)
		return
	}
	p.write(fmt.Sprintf(format, args...))
	p.open = true
}

func (p *progress) write(text string) {
	if p.open {
		text = "\r\x1b[K" + text
	}
	_, _ = io.WriteString(p.w, text) // nobody is there to be told
}

// elapsed is the time since t in whole seconds, for example `42 s` or `3 min 2 s`.
func elapsed(t time.Time) string {
	s := int(time.Since(t).Round(time.Second).Seconds())
	if s < 60 {
		return fmt.Sprintf("%d s", s)
	}
	return fmt.Sprintf("%d min %d s", s/60, s%60)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
