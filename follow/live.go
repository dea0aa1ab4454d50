package follow

import (
	"context"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/assent-dev/assent/protocol"
)

// glance is how often the server is asked what is being said.
const glance = 500 * time.Millisecond

// live is what was told of a turn that goes on.
type live struct {
	// asked is the event that asked for the turn, in this run.
	asked int64
	run   string
	last  protocol.Speech
}

// listen tells what a model says, until hush is called; when that returns, nothing more is told. Without a turn that goes on
// it does nothing.
func (f *follower) listen(ctx context.Context) (hush func()) {
	if f.live == nil || f.quiet {
		return func() {}
	}
	asked, activityID := f.reader.asking()
	if asked == 0 {
		return func() {}
	}
	if f.live.asked != asked || f.live.run != f.run {
		*f.live = live{asked: asked, run: f.run}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		t := time.NewTicker(glance)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			// A failure of one look is the next one's to mend, or that of the history.
			if said, ok := f.look(ctx, activityID); ok && !f.yield(said) {
				return
			}
		}
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// look asks what is being said, and returns what is new of it.
func (f *follower) look(ctx context.Context, activityID string) (Event, bool) {
	now, err := f.client.DescribeWorkflow(ctx, f.workflowID, f.run)
	if err != nil {
		return Event{}, false
	}
	for _, p := range now.RawResponse.GetPendingActivities() {
		if p.GetActivityId() != activityID {
			continue
		}
		speech, ok := f.reader.speech(p)
		if !ok || ctx.Err() != nil {
			// What is not told now must not count as told: the turn may go on after the event that has come.
			return Event{}, false
		}
		said := f.live.more(speech)
		return Event{Kind: Said, Time: p.GetLastHeartbeatTime().AsTime(), WorkflowID: f.workflowID, RunID: f.run, EventID: f.live.asked, Said: said},
			said != nil
	}
	return Event{}, false
}

// asking is the turn that goes on: the event that asked for it and its activity; 0 if there is none.
func (r *Reader) asking() (event int64, activityID string) {
	for id, s := range r.scheduled {
		// There is one at a time.
		if s.kind == protocol.ActivityGenerate && id > event {
			event, activityID = id, s.activityID
		}
	}
	return event, activityID
}

// speech is the second detail of a heartbeat.
func (r *Reader) speech(p *workflowpb.PendingActivityInfo) (s protocol.Speech, ok bool) {
	d := p.GetHeartbeatDetails().GetPayloads()
	if len(d) < 2 || !r.from(d[1], &s) {
		return s, false
	}
	return s, s.Request > 0
}

// more is what a speech says more than the last one, nil if that is nothing. Heartbeats can overtake each other.
func (l *live) more(s protocol.Speech) *Saying {
	last := l.last
	switch {
	case s.Attempt < last.Attempt, s.Attempt == last.Attempt && s.Request < last.Request:
		return nil
	case s.Attempt != last.Attempt, s.Request != last.Request:
		last = protocol.Speech{}
	}
	out := &Saying{Number: s.Turn, Attempt: s.Attempt, Request: s.Request, Model: s.Model, Summary: s.Summary, Calls: s.Calls,
		Text: piece(last.Text, s.Text), Thinking: piece(last.Thinking, s.Thinking)}
	switch {
	case shorter(s.Text, last.Text), shorter(s.Thinking, last.Thinking), written(s.Calls) < written(last.Calls):
		return nil
	case last.Request != 0 && out.Text == nil && out.Thinking == nil && slices.Equal(s.Calls, last.Calls):
		return nil
	}
	l.last = s
	return out
}

func shorter(now, before *protocol.SpeechText) bool { return length(now) < length(before) }

func length(t *protocol.SpeechText) int64 {
	if t == nil {
		return 0
	}
	return t.Bytes
}

func written(calls []protocol.SpeechCall) int64 {
	n := int64(len(calls))
	for _, c := range calls {
		n += c.Bytes
	}
	return n
}

// piece is what was added to a text, as far as its end shows it.
func piece(before, now *protocol.SpeechText) *Piece {
	added := length(now) - length(before)
	if added <= 0 {
		return nil
	}
	text := now.Tail
	if over := int64(len(text)) - added; over > 0 {
		text = text[over:]
		for text != "" && !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
	}
	if text == "" {
		return nil
	}
	return &Piece{At: now.Bytes - int64(len(text)), Text: text}
}
