// Command browser looks at a page as a person does: in Chromium, which it starts and ends. Tests read what it prints.
//
//	browser --click '#tab' --frame '#details' --wait 'Approval needed' --screenshot page.png http://127.0.0.1:8233/…
//
// Steps (--click, --fill, --wait) are taken in the order in which they are given; each waits until it can be taken.
// What is seen then is printed as JSON, also when a step could not be taken; then the exit code is 1. It never reaches
// anything but this machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are what the command line says.
type options struct {
	url string
	// frame is the CSS selector of a frame whose document is reported; its text counts as visible.
	frame string
	// global is a JavaScript name that no window of the page may have.
	global string
	// refresh is a key that is pressed now and then while a text is waited for.
	refresh    string
	screenshot string
	width      int64
	height     int64
	timeout    time.Duration
	steps      []step
}

// step is one thing to do on the page.
type step struct {
	do, selector, text string
}

func (s step) String() string {
	switch s.do {
	case "wait":
		return fmt.Sprintf("wait for %q", s.text)
	case "fill":
		return fmt.Sprintf("fill %q", s.selector)
	}
	return fmt.Sprintf("%s %q", s.do, s.selector)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("browser", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.frame, "frame", "", "CSS `selector` of a frame to report, too")
	f.StringVar(&o.global, "global", "", "`name` of a JavaScript global to look for in every window of the page")
	f.StringVar(&o.refresh, "refresh", "", "`key` to press every few seconds while a text is waited for")
	f.StringVar(&o.screenshot, "screenshot", "", "`file` for a PNG of the page as it is at the end")
	f.Int64Var(&o.width, "width", 1280, "width of the window in `pixels`")
	f.Int64Var(&o.height, "height", 1000, "height of the window in `pixels`")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "the longest that all of it may take")
	f.Func("click", "click the first visible element of a CSS `selector`", func(s string) error {
		o.steps = append(o.steps, step{do: "click", selector: s})
		return nil
	})
	f.Func("fill", "put text into an input: `selector=text`, cut at the first = outside of brackets", func(s string) error {
		selector, text, err := cutSelector(s)
		o.steps = append(o.steps, step{do: "fill", selector: selector, text: text})
		return err
	})
	f.Func("wait", "wait until a `text` can be read on the page or in the frame, in capital letters or not", func(s string) error {
		o.steps = append(o.steps, step{do: "wait", text: s})
		return nil
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() != 1 {
		return o, fmt.Errorf("parse arguments: one URL is needed, there are %d", f.NArg())
	}
	o.url = f.Arg(0)
	return o, loopback(o.url)
}

// cutSelector splits selector=text; an = inside of [ ] belongs to the selector.
func cutSelector(s string) (selector, text string, err error) {
	depth := 0
	for i, r := range s {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == '=' && depth == 0:
			return s[:i], s[i+1:], nil
		}
	}
	return "", "", fmt.Errorf("%q is not selector=text", s)
}

// loopback refuses what is not on this machine.
func loopback(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fmt.Errorf("parse URL: %w", err)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "http" || (u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())) {
		return fmt.Errorf("parse URL %q: only http:// on this machine is looked at", raw)
	}
	return nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 2
	}
	seen, err := look(ctx, o)
	enc := json.NewEncoder(stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if encErr := enc.Encode(seen); err == nil {
		err = encErr
	}
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", strings.TrimSpace(err.Error()))
		return 1
	}
	return 0
}
