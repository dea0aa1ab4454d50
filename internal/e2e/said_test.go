package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/modeltest"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// speaker is a model that says what a test tells it to, when it is told.
type speaker struct {
	// say has the pieces of a turn; its end ends the turn, a nil piece breaks it.
	say chan *model.Delta
	// gone is closed when a turn ended because nobody wanted it.
	gone chan struct{}
	once sync.Once
}

func newSpeaker() *speaker { return &speaker{say: make(chan *model.Delta), gone: make(chan struct{})} }

func (s *speaker) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	return s.Stream(ctx, r, func(model.Delta) {})
}

func (s *speaker) Stream(ctx context.Context, _ model.Request, progress func(model.Delta)) (model.Response, error) {
	var text strings.Builder
	for {
		select {
		case d, ok := <-s.say:
			switch {
			case !ok:
				return model.Response{Text: text.String(), Stop: model.StopEnd}, nil
			case d == nil:
				return model.Response{}, &model.Error{Kind: "stream_cut", Msg: "it broke", Retry: true, After: time.Millisecond}
			}
			text.WriteString(d.Text)
			progress(*d)
		case <-ctx.Done():
			s.once.Do(func() { close(s.gone) })
			return model.Response{}, ctx.Err()
		}
	}
}

// speaking starts an agent whose model is s.
func (w *world) speaking(m model.Model) {
	w.t.Helper()
	cfg, done, err := engine(setup{Script: "turns: [{say: unused}]"}, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	cfg.StreamEvery = 100 * time.Millisecond
	cfg.Models["live"] = m
	p := cfg.Profiles["p"]
	p.Models = []string{"live:m"}
	cfg.Profiles["p"] = p
	plug, err := worker.New(cfg)
	require.NoError(w.t, err)
	w.workWith(plug)
	w.start(protocol.AgentInput{})
}

// heard puts together what a feed tells of a turn that goes on; a later request begins anew.
type heard struct {
	text     string
	attempt  int
	calls    []protocol.SpeechCall
	turns    []follow.TurnOf
	restarts int
}

func (h *heard) add(t testing.TB, e follow.Event) {
	switch e.Kind {
	case follow.Said:
		require.Empty(t, h.turns, "nothing is said of a turn after it")
		if h.attempt != 0 && e.Said.Attempt != h.attempt {
			h.text, h.restarts = "", h.restarts+1
		}
		h.attempt, h.calls = e.Said.Attempt, e.Said.Calls
		if p := e.Said.Text; p != nil {
			require.EqualValues(t, len(h.text), p.At, "a piece twice, or one that is missing")
			h.text += p.Text
		}
	case follow.Turn:
		h.turns = append(h.turns, *e.Turn)
	}
}

// What a model says reaches whoever follows the run while the turn goes on, each piece once; a stream that broke begins anew.
func TestWhatAModelSaysIsFollowedWhileItSpeaks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSpeaker()
	w.speaking(s)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	feed, err := follow.Start(ctx, w.c, w.id, "", follow.Options{Wait: true, Live: true})
	require.NoError(t, err)
	var h heard
	until := func(what string, met func() bool) {
		for !met() {
			select {
			case e, ok := <-feed.Events:
				require.True(t, ok, "the feed ended before %s", what)
				h.add(t, e)
			case <-ctx.Done():
				require.FailNow(t, "never "+what, "%+v", h)
			}
		}
	}
	s.say <- &model.Delta{Text: "One \u00e4"}
	until("the first words", func() bool { return h.text == "One \u00e4" })
	s.say <- &model.Delta{Thinking: "hm"}
	s.say <- &model.Delta{Call: &model.CallDelta{Name: "run"}}
	s.say <- &model.Delta{Call: &model.CallDelta{Input: `{"text":`}}
	s.say <- &model.Delta{Text: " two"}
	until("the call", func() bool { return h.text == "One \u00e4 two" && len(h.calls) == 1 })
	require.Equal(t, []protocol.SpeechCall{{Name: "run", Bytes: 8}}, h.calls)
	s.say <- nil
	s.say <- &model.Delta{Text: "Anew."}
	until("the second attempt", func() bool { return h.text == "Anew." })
	require.Equal(t, 1, h.restarts)
	close(s.say)
	until("the turn", func() bool { return len(h.turns) > 0 })
	end, err := feed.Wait()
	require.NoError(t, err)
	require.Equal(t, "Anew.", h.turns[0].Text)
	require.Equal(t, protocol.OK, end.Result.Status)
	for _, e := range w.history() {
		require.NotContains(t, e.String(), "One ", "what counts for nothing is in no history")
	}
}

// What is said goes through the team's codec, bound to its place as all that the next attempt reads.
func TestSpeechIsEncrypted(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]bool{"one key": false, "bound to a workflow": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), newSealer()
			s.bound = bound
			c, err := client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: s.converter(), Logger: sdklog.NewStructuredLogger(logger())})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			place := converter.ActivitySerializationContext{Namespace: "default", WorkflowID: w.id}
			w.c, w.converter = c, converter.WithDataConverterSerializationContext(s.converter(), place)
			m := newSpeaker()
			w.speaking(m)
			m.say <- &model.Delta{Text: secretReason}
			var details []*commonpb.Payload
			require.Eventually(t, func() bool {
				d, err := c.DescribeWorkflow(context.Background(), w.id, "")
				require.NoError(t, err)
				for _, p := range d.RawResponse.GetPendingActivities() {
					details = p.GetHeartbeatDetails().GetPayloads()
				}
				return len(details) == 2
			}, patience, tick)
			hides(t, map[string]string{"heartbeat": fmt.Sprint(details)}, secretReason)
			var said protocol.Speech
			require.NoError(t, w.converter.FromPayload(details[1], &said))
			require.Equal(t, secretReason, said.Text.Tail)
			close(m.say)
			require.Equal(t, protocol.OK, w.result().Status)
		})
	}
}

// A cancelled agent does not wait for its model to end.
func TestAModelThatNobodyWantsStopsSpeaking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSpeaker()
	w.speaking(s)
	s.say <- &model.Delta{Text: "Word "}
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	for done := false; !done; {
		select {
		case s.say <- &model.Delta{Text: "after word "}:
		case <-s.gone:
			done = true
		case <-time.After(patience):
			require.FailNow(t, "it speaks on")
		}
		time.Sleep(tick)
	}
	require.Equal(t, protocol.Cancelled, w.result().Status)
}

// The same over the wire: a provider's stream is told while it comes, and one that broke counts for nothing.
func TestAStreamOnTheWireIsFollowed(t *testing.T) {
	w := newWorld(t)
	m, server := realModel(t, modeltest.Messages, `turns: [{say: The whole answer.}]`)
	broke := make(chan struct{})
	server.Fail(func(rw http.ResponseWriter, _ *http.Request) {
		modeltest.Stream(rw, modeltest.Event{Name: "message_start", Data: map[string]any{"type": "message_start", "message": map[string]any{
			"id": "m", "type": "message", "role": "assistant", "content": []any{}, "model": "m", "usage": map[string]any{"input_tokens": 1, "output_tokens": 1}}}},
			modeltest.Event{Name: "content_block_start", Data: map[string]any{"type": "content_block_start", "index": 0,
				"content_block": map[string]any{"type": "text", "text": ""}}},
			modeltest.Event{Name: "content_block_delta", Data: map[string]any{"type": "content_block_delta", "index": 0,
				"delta": map[string]any{"type": "text_delta", "text": "Half of an"}}})
		<-broke
		panic(http.ErrAbortHandler)
	})
	w.speaking(m)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	feed, err := follow.Start(ctx, w.c, w.id, "", follow.Options{Wait: true, Live: true})
	require.NoError(t, err)
	var h heard
	half := false
	for e := range feed.Events {
		h.add(t, e)
		if !half && h.text == "Half of an" {
			half = true
			close(broke)
		}
	}
	_, err = feed.Wait()
	require.NoError(t, err)
	require.True(t, half, "the broken stream was told while it was open")
	require.Equal(t, "The whole answer.", h.turns[0].Text)
}
