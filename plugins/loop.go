package plugins

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/pipeline"
)

// Defaults and bounds of LoopConfig.
const (
	DefaultLoopCalls  = 5
	DefaultLoopWindow = 32
	DefaultLoopRuns   = 4096
	DefaultLoopIdle   = time.Hour
	MostLoopWindow    = 4096
)

// LoopConfig says what counts as a loop. The zero value means the defaults.
type LoopConfig struct {
	// Calls is the number of the identical call that is denied first; zero is DefaultLoopCalls, the least is 2.
	Calls int
	// Window is how many of a run's last calls are looked at; zero is DefaultLoopWindow. Consecutive looks only at those
	// since the last different call.
	Window      int
	Consecutive bool
	// Except names tools that may be called as often as a model likes, such as one that polls.
	Except []string
	// Runs bounds how many runs are remembered, the longest silent are forgotten first; zero is DefaultLoopRuns. A run that
	// was silent for Idle has ended as far as this plugin is concerned; zero is DefaultLoopIdle.
	Runs int
	Idle time.Duration
	// Now tells the time; nil is time.Now.
	Now func() time.Time
}

func (c LoopConfig) checked() (LoopConfig, error) {
	orDefault := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	orDefault(&c.Calls, DefaultLoopCalls)
	orDefault(&c.Window, max(DefaultLoopWindow, min(c.Calls, MostLoopWindow)))
	orDefault(&c.Runs, DefaultLoopRuns)
	if c.Idle == 0 {
		c.Idle = DefaultLoopIdle
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	switch {
	case c.Calls < 2:
		return c, fault.Configf("loop.calls", "is %d; the first call of its kind repeats nothing, so it is at least 2", c.Calls)
	case c.Window < c.Calls || c.Window > MostLoopWindow:
		return c, fault.Configf("loop.window", "is %d, not between calls, %d, and %d", c.Window, c.Calls, MostLoopWindow)
	case c.Runs < 1:
		return c, fault.Configf("loop.runs", "is negative")
	case c.Idle < 0:
		return c, fault.Configf("loop.idle", "is negative")
	case slices.Contains(c.Except, ""):
		return c, fault.Configf("loop.except", "has an empty name")
	}
	c.Except = slices.Clone(c.Except)
	return c, nil
}

// Loop returns the plugin that denies a call when its run has made it again and again: same tool, same arguments as
// canonical JSON. Calls that were refused count too, so nobody is asked the same question for ever. A call that is judged
// twice, such as one that was asked about, counts once and gets the same answer.
//
// Mount it before listeners that decide without asking those inside. It counts per run, in the memory of one worker: a run
// that moves to another worker starts anew there. Without a run (a bare Execute) all calls of the pipeline are one.
func Loop(config LoopConfig) (pipeline.Plugin, error) {
	c, err := config.checked()
	if err != nil {
		return nil, err
	}
	return pipeline.PluginFunc("loop", func(s *pipeline.Scope) error {
		// What is counted lives as long as the scope.
		l := &loop{config: c, runs: map[string]*list.Element{}, order: list.New()}
		if err := s.OnClose(l.forget); err != nil {
			return err
		}
		return s.Pre(l.listen)
	}), nil
}

type loop struct {
	config LoopConfig

	mu   sync.Mutex
	runs map[string]*list.Element
	// order holds *loopRun, the one that was heard of last in front.
	order *list.List
}

// loopRun is what is remembered of one run: its last calls, the oldest first.
type loopRun struct {
	id    string
	last  time.Time
	calls []loopCall
}

type loopCall struct {
	id, what [sha256.Size]byte
	// count is the how-many-th of its kind it was.
	count int
}

func (l *loop) listen(ctx context.Context, call pipeline.Call, next func(context.Context) pipeline.Answer) (pipeline.Answer, error) {
	if slices.Contains(l.config.Except, call.Name) {
		return next(ctx), nil
	}
	if n := l.count(call); n >= l.config.Calls {
		return pipeline.Deny(fmt.Sprintf("this is the same call of %s with the same arguments for the %s time; "+
			"it will not end differently, so change the arguments, use another tool, or report what blocks you", call.Name, ordinal(n))), nil
	}
	return next(ctx), nil
}

// count returns the how-many-th of its kind the call is.
func (l *loop) count(call pipeline.Call) int {
	input, err := canonjson.Canonical(call.Input)
	if err != nil {
		input = call.Input
	}
	this := loopCall{id: sha256.Sum256([]byte(call.ID)), what: sha256.Sum256(append([]byte(call.Name+"\x00"), input...))}
	now := l.config.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	run := l.run(runOf(call))
	run.last = now
	if i := slices.IndexFunc(run.calls, func(c loopCall) bool { return c.id == this.id }); i >= 0 {
		return run.calls[i].count
	}
	if len(run.calls) >= l.config.Window {
		run.calls = slices.Delete(run.calls, 0, len(run.calls)-l.config.Window+1)
	}
	this.count = 1
	for i := len(run.calls) - 1; i >= 0; i-- {
		switch same := run.calls[i].what == this.what; {
		case same:
			this.count++
		case l.config.Consecutive:
			i = 0
		}
	}
	run.calls = append(run.calls, this)
	return this.count
}

// run returns what is known of a run and puts it in front. The caller holds l.mu.
func (l *loop) run(id string) *loopRun {
	if e, ok := l.runs[id]; ok {
		l.order.MoveToFront(e)
		return e.Value.(*loopRun)
	}
	if l.order.Len() >= l.config.Runs {
		l.drop(l.order.Back())
	}
	r := &loopRun{id: id}
	l.runs[id] = l.order.PushFront(r)
	return r
}

// expire drops runs that have been silent for too long. The caller holds l.mu.
func (l *loop) expire(now time.Time) {
	for e := l.order.Back(); e != nil && now.Sub(e.Value.(*loopRun).last) > l.config.Idle; e = l.order.Back() {
		l.drop(e)
	}
}

func (l *loop) drop(e *list.Element) { delete(l.runs, l.order.Remove(e).(*loopRun).id) }

func (l *loop) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs, l.order = map[string]*list.Element{}, list.New()
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}
