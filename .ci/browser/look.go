package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// page is what a person sees, and what only the browser sees.
type page struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	// Text is the visible text of the page without its frames.
	Text string `json:"text"`
	// Frame is the document in the frame that was asked for, or nil if it is not there.
	Frame *frame `json:"frame"`
	// Global reports whether a window has the global that was asked for.
	Global bool `json:"global"`
	// Errors are errors in the console, and exceptions. What a content policy stopped is one.
	Errors []string `json:"errors"`
	// Requests are the addresses that the page and its frames asked for, without their queries.
	Requests []string `json:"requests"`
}

type frame struct {
	// Text is the visible text.
	Text string `json:"text"`
	// Elements are all elements in the order of the document.
	Elements []element `json:"elements"`
	// Comments are HTML comments, which nobody sees.
	Comments []string `json:"comments"`
}

type element struct {
	Tag        string            `json:"tag"`
	Attributes map[string]string `json:"attributes"`
}

// grace is for a last look and for ending the browser, after the time of the steps.
const grace = 30 * time.Second

// look opens the page, takes the steps and reports what is there at the end, or when a step could not be taken.
func look(ctx context.Context, o options) (seen page, err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return seen, fmt.Errorf("find chromium (the Debian package is chromium): %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout+grace)
	defer cancel()
	// chromedp removes the browser's profile. What else it leaves in a folder for such files is in this one.
	tmp, err := os.MkdirTemp("", "assent-browser-")
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	ctx, end := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.Env("TMPDIR="+tmp), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Nothing but this machine can be reached, by whatever name.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("lang", "en-US"))...)
	defer end()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	w := &witness{}
	// The browser lives as long as the context of the first action.
	if err := chromedp.Do(ctx); err != nil {
		return seen, fmt.Errorf("start %q: %w", path, err)
	}
	if err := chromedp.Listen(ctx, w.event); err != nil {
		return seen, fmt.Errorf("listen to %q: %w", path, err)
	}
	stepErr := walk(ctx, o)
	last, cancelLast := context.WithTimeout(ctx, grace/2)
	defer cancelLast()
	seen, err = glance(last, o)
	if o.screenshot != "" {
		if shotErr := shoot(last, o.screenshot); err == nil {
			err = shotErr
		}
	}
	seen.Errors, seen.Requests = w.report()
	return seen, errors.Join(stepErr, err)
}

// walk opens the page and takes the steps.
func walk(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := chromedp.Do(ctx, call(network.Enable, network.EnableParams{}), chromedp.EmulateViewport(o.width, o.height),
		chromedp.Navigate(o.url)); err != nil {
		return fmt.Errorf("open %q: %w", o.url, err)
	}
	for _, s := range o.steps {
		if err := take(ctx, o, s); err != nil {
			return err
		}
	}
	return nil
}

// take takes one step as soon as the page lets it.
func take(ctx context.Context, o options, s step) error {
	const pause, patience = 200 * time.Millisecond, 5 * time.Second
	var last error
	refreshed := time.Now()
	for {
		done, err := try(ctx, o, s)
		if done {
			return nil
		}
		if s.do == "wait" && o.refresh != "" && time.Since(refreshed) > patience {
			_, err = evaluate[bool](ctx, press, o.refresh)
			refreshed = time.Now()
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("%s: %w: %w", s, ctx.Err(), last)
			}
			return fmt.Errorf("%s: %w", s, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// try reports whether the step is done. What it returns false for changes nothing, and is tried again.
func try(ctx context.Context, o options, s step) (bool, error) {
	if s.do == "wait" {
		seen, err := glance(ctx, o)
		text := seen.Text
		if seen.Frame != nil {
			text += "\n" + seen.Frame.Text
		}
		return strings.Contains(strings.ToLower(text), strings.ToLower(s.text)), err
	}
	found, err := evaluate[bool](ctx, use, s.selector, s.do)
	if err != nil || !found || s.do != "fill" {
		return found, err
	}
	if err := chromedp.Do(ctx, call(input.InsertText, input.InsertTextParams{Text: s.text})); err != nil {
		return false, err
	}
	// A page that has drawn itself anew meanwhile has lost the text.
	return evaluate[bool](ctx, holds, s.selector)
}

// use clicks or focuses the first element that a person could click, in one go: between finding a place and clicking
// there a page can move.
const use = `(selector, how) => {
  for (const e of document.querySelectorAll(selector)) {
    if (!e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || e.disabled) continue;
    e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    const r = e.getBoundingClientRect();
    const top = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
    if (!top || !(e.contains(top) || top.contains(e))) continue;
    how === 'click' ? e.click() : e.focus();
    return true;
  }
  return false;
}`

// press sends a key to the page and not to the field that has the focus.
const press = `(key) => window.dispatchEvent(new KeyboardEvent('keydown', {key}))`

// holds reports whether an element has text in it. A page may have hidden ones of the same name.
const holds = `(selector) => Array.from(document.querySelectorAll(selector)).some((e) => (e.value ?? e.textContent).trim() !== '')`

// reading is a page without what only the browser knows.
const reading = `(selector, global) => {
  const text = (e) => e ? e.innerText : '';
  const f = selector ? document.querySelector(selector) : null;
  const inside = f ? f.contentDocument : null;
  const seen = {url: location.href, title: document.title, text: text(document.body), frame: null, global: false};
  const windows = [window, ...Array.from(document.querySelectorAll('iframe'), (i) => i.contentWindow)];
  seen.global = global !== '' && windows.some((w) => w && global in w);
  if (inside && inside.readyState === 'complete' && inside.body) {
    const comments = [];
    const walk = inside.createTreeWalker(inside, NodeFilter.SHOW_COMMENT);
    while (walk.nextNode()) comments.push(walk.currentNode.data);
    seen.frame = {
      text: text(inside.body),
      elements: Array.from(inside.querySelectorAll('*'), (e) => ({
        tag: e.tagName.toLowerCase(),
        attributes: Object.fromEntries(Array.from(e.attributes, (a) => [a.name, a.value])),
      })),
      comments,
    };
  }
  return seen;
}`

func glance(ctx context.Context, o options) (page, error) {
	seen, err := evaluate[page](ctx, reading, o.frame, o.global)
	if err != nil {
		return page{}, fmt.Errorf("read the page: %w", err)
	}
	return seen, nil
}

// evaluate calls a JavaScript function with texts.
func evaluate[T any](ctx context.Context, function string, args ...string) (T, error) {
	b, err := json.Marshal(args)
	if err != nil {
		var none T
		return none, err
	}
	// Text in JSON is text in JavaScript, too.
	return chromedp.Run(ctx, chromedp.Evaluate[T]("("+function+")(..."+string(b)+")"))
}

// call makes an action of a command whose answer is empty.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, params)
		return chromedp.Void{}, err
	}
}

func shoot(ctx context.Context, file string) error {
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return fmt.Errorf("take a screenshot: %w", err)
	}
	return os.WriteFile(file, png, 0o600)
}

// witness hears what a person would find in the developer tools.
type witness struct {
	mu       sync.Mutex
	errors   []string
	requests []string
}

func (w *witness) event(ev any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := ev.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			w.errors = append(w.errors, string(e.Entry.Source)+": "+e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			text += ": " + o.Description
		}
		w.errors = append(w.errors, "exception: "+text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			w.errors = append(w.errors, "console: "+strings.Join(words, " "))
		}
	case *network.EventRequestWillBeSent:
		if address, _, _ := strings.Cut(e.Request.URL, "?"); !strings.HasPrefix(address, "data:") {
			w.requests = append(w.requests, address)
		}
	}
}

func (w *witness) report() (errs, requests []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.errors...), append([]string{}, w.requests...)
}
