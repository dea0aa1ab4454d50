package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// DefaultStreamEvery is how often a model's speech is told when Config.StreamEvery is zero.
const DefaultStreamEvery = time.Second

// speech collects what a model says while it says it, for heartbeats to carry.
type speech struct {
	mu  sync.Mutex
	now protocol.Speech
	// heard says that a model has said something, spoken that the one that is asked now has, changed that there is more since the
	// last take.
	heard, spoken, changed bool
}

// begin forgets what was said: another request has been sent.
func (s *speech) begin(name string, summary bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = protocol.Speech{Turn: s.now.Turn, Attempt: s.now.Attempt, Request: s.now.Request + 1,
		Model: name, Summary: summary}
	s.changed, s.spoken = s.heard, false
}

// spoke reports whether the model that is asked now has said something.
func (s *speech) spoke() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spoken
}

// hear takes the next piece. A driver calls it, and what it is told can be anything.
func (s *speech) hear(d model.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.spoken, s.changed = true, true, true
	s.now.Text = grown(s.now.Text, d.Text)
	s.now.Thinking = grown(s.now.Thinking, d.Thinking)
	c := d.Call
	if c == nil || c.Index < 0 || c.Index >= protocol.MaxCallsPerTurn {
		return
	}
	for len(s.now.Calls) <= c.Index {
		s.now.Calls = append(s.now.Calls, protocol.SpeechCall{})
	}
	call := &s.now.Calls[c.Index]
	if call.Name == "" {
		call.Name = cut(strings.ToValidUTF8(c.Name, "\ufffd"), mostSpokenName)
	}
	call.Bytes += int64(len(c.Input))
}

// mostSpokenName bounds the name of a call in a heartbeat, in bytes.
const mostSpokenName = 200

// grown is a text with more at its end.
func grown(t *protocol.SpeechText, more string) *protocol.SpeechText {
	if more == "" {
		return t
	}
	if t == nil {
		t = new(protocol.SpeechText)
	}
	more = strings.ToValidUTF8(more, "\ufffd")
	t.Bytes += int64(len(more))
	if len(more) > protocol.SpeechTail {
		t.Tail, more = "", more[len(more)-protocol.SpeechTail:]
	}
	t.Tail += more
	if over := len(t.Tail) - protocol.SpeechTail; over > 0 {
		t.Tail = t.Tail[over:]
	}
	for t.Tail != "" && !utf8.RuneStart(t.Tail[0]) {
		t.Tail = t.Tail[1:]
	}
	return t
}

// said returns a copy of what was said, nil if that is nothing.
func (s *speech) said() *protocol.Speech {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.heard {
		return nil
	}
	c := s.now
	c.Calls = slices.Clone(c.Calls)
	for _, t := range []**protocol.SpeechText{&c.Text, &c.Thinking} {
		if *t != nil {
			text := **t
			*t = &text
		}
	}
	return &c
}

// take reports whether something was said since the last call.
func (s *speech) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.changed
	s.changed = false
	return was
}

// details are those of a heartbeat of Generate: the money at risk, then what was said.
func (g *generation) details() []any {
	money := g.purse.details()
	said := g.speech.said()
	if said == nil {
		return money
	}
	if money == nil {
		money = []any{0.0}
	}
	return append(money, said)
}

// beat is a heartbeat of Generate. The SDK panics of details that cannot be encoded; what a codec cannot do now it may do the next time,
// and the server keeps what it has.
func (g *generation) beat(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Warn("assent: a turn could not report what it may cost", "error", fmt.Sprint(p))
		}
	}()
	g.purse.sending.Lock()
	defer g.purse.sending.Unlock()
	g.purse.held.Store(true)
	activity.RecordHeartbeat(ctx, g.details()...)
}

// report is beat at once, and says what the server answered.
func (g *generation) report(ctx context.Context) error {
	g.purse.sending.Lock()
	defer g.purse.sending.Unlock()
	return report(ctx, g.details()...)
}

// tell puts what the model says down with the server while it speaks, until stop is called. The SDK's own heartbeats come
// too seldom for people who watch. The context that it returns ends when the server says that the turn is not wanted any more.
func (g *generation) tell(ctx context.Context) (_ context.Context, stop func()) {
	every := g.cfg.StreamEvery
	if every == 0 {
		every = DefaultStreamEvery
	}
	if every < 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		// The first words are worth more than the later ones.
		next := time.NewTimer(every / 4)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
				next.Reset(every)
			}
			if !g.speech.take() {
				continue
			}
			if err := g.report(ctx); temporal.IsCanceledError(err) {
				cancel(errUnwanted)
			}
		}
	})
	return ctx, func() {
		cancel(context.Canceled)
		all.Wait()
	}
}

// errUnwanted is why a turn ends that the server wants no more.
var errUnwanted = temporal.NewCanceledError()
