package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/anthropic"
	"github.com/assent-dev/assent/model/cassette"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/model/modeltest"
	"github.com/assent-dev/assent/model/openai"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// fiveTurns has calls that are allowed, asked, denied by rule and by a person, malformed, unknown, and without arguments.
const fiveTurns = `
turns:
  - say: I look & ask <first>.
    calls:
      - {tool: look, id: one, args: {text: "ä <1> & more"}}
      - {tool: run, id: two, args: {text: build}}
      - {tool: look, id: three, args: {text: again}}
    usage: {inputTokens: 1000, cachedInputTokens: 600, outputTokens: 40}
  - expect: {lastResult: {code: OK, contains: again}}
    calls:
      - {tool: note, id: four, raw: '{"text": "cut'}
      - {tool: nothing, id: five, args: {}}
      - {tool: look, id: six, args: {}}
    usage: {inputTokens: 1200, outputTokens: 30}
  - expect: {lastResult: {code: INVALID_ARGUMENTS}}
    say: Now what is forbidden.
    calls: [{tool: big, id: seven, args: {bytes: 10}}]
    usage: {inputTokens: 1300, outputTokens: 20}
  - expect: {lastResult: {code: DENIED}}
    calls: [{tool: run, id: eight, args: {text: deploy}}]
    usage: {inputTokens: 1400, outputTokens: 20}
  - expect: {lastResult: {code: DENIED, contains: because}}
    say: Done, as far as I may.
    usage: {inputTokens: 1500, cacheWriteTokens: 100, outputTokens: 10}
`

// realModel makes a driver for a server on loopback that plays a script in the wire format of an API.
func realModel(t *testing.T, api modeltest.API, script string) (model.Streamer, *modeltest.Server) {
	t.Helper()
	t.Setenv("E2E_MODEL_KEY", modeltest.Key)
	m, err := scripted.Parse("script.yaml", []byte(script))
	require.NoError(t, err)
	s := modeltest.Serve(t, api, m)
	at := endpoint.Config{BaseURL: s.URL, Key: endpoint.Key{Env: "E2E_MODEL_KEY"}}
	var d model.Streamer
	switch api {
	case modeltest.Messages:
		d, err = anthropic.New(anthropic.Config{Endpoint: at, Thinking: anthropic.ThinkingAdaptive})
	case modeltest.Responses:
		d, err = openai.New(openai.Config{Endpoint: at, Dialect: openai.Full})
	default:
		d, err = openai.New(openai.Config{Endpoint: at, API: openai.Chat})
	}
	require.NoError(t, err)
	return d, s
}

// outcome is what must not depend on the model's API.
type outcome struct {
	Decisions []permission.Decision
	Closed    []string
	Results   []tool.Result
	Effects   []string
	Agent     protocol.AgentResult
}

// The same five turns give the same decisions and results whatever API the model has: played without one, and over the wire
// of each, where providers fail in between and servers hold every request to one result for each call.
func TestFiveTurnsWithEveryAPI(t *testing.T) {
	var want outcome
	// What goes over the first wire is recorded, and played at the end.
	const played = "a cassette"
	tape := filepath.Join(t.TempDir(), "tape.jsonl")
	callID := regexp.MustCompile(`"call":"[^"]+"`)
	same := cassette.Options{Normalize: func(s string) string { return callID.ReplaceAllString(s, `"call":""`) }}
	for _, api := range append(append([]modeltest.API{""}, modeltest.APIs...), played) {
		t.Run("over "+string(api), func(t *testing.T) {
			w := newWorld(t)
			s := setup{Script: fiveTurns, Keys: true, Preset: permission.Standard, Deny: []permission.Rule{{Tool: permission.One("big"), Reason: "too much"}}}
			name := "scripted:s"
			cfg, done, err := engine(s, w.c, w.effects, w.blobs)
			require.NoError(t, err)
			t.Cleanup(done)
			var server *modeltest.Server
			var recorder *cassette.Recorder
			if api != "" {
				name = "real:s"
				var m model.Model
				if api == played {
					m, err = cassette.Play(tape, same)
					require.NoError(t, err)
				} else {
					m, server = realModel(t, api, fiveTurns)
				}
				if api == modeltest.APIs[0] {
					recorder, err = cassette.Record(tape, m, same)
					require.NoError(t, err)
					m = recorder
				}
				cfg.Models["real"] = m
				cfg.Prices = model.Prices{name: {Free: true}} // as scripts are
			}
			p := cfg.Profiles["p"]
			p.Models, p.System = []string{name}, "You are tested."
			cfg.Profiles["p"] = p
			plug, err := worker.New(cfg)
			require.NoError(t, err)
			w.workWith(plug)
			if server != nil {
				server.Fail(
					modeltest.Status(http.StatusTooManyRequests, api, "rate_limit_error", "slow down", "Retry-After", "1"),
					func(w http.ResponseWriter, _ *http.Request) { modeltest.Stream(w); panic(http.ErrAbortHandler) },
				)
			}
			w.start(protocol.AgentInput{})
			w.answer(w.pending(1)[0].Key, approval.Allow)
			require.Eventually(t, func() bool {
				l, err := w.list()
				return err == nil && len(l.Closed) == 1 && len(l.Pending) == 1
			}, patience, tick)
			w.answer(w.pending(1)[0].Key, approval.Deny)
			got := w.outcome()
			w.sound()
			if api == "" {
				want = got
				require.Equal(t, protocol.OK, got.Agent.Status, got.Agent.Error)
				require.Equal(t, 5, got.Agent.Turns)
				require.Len(t, got.Results, 8)
				return
			}
			requireSame(t, want, got)
			if recorder != nil {
				require.NoError(t, recorder.Close())
				raw, err := os.ReadFile(tape)
				require.NoError(t, err)
				require.NotContains(t, string(raw), modeltest.Key)
				require.Equal(t, 1+7, bytes.Count(raw, []byte("\n")), "the failures as well")
			}
			if server != nil {
				require.Len(t, server.Bodies(), 7, "five turns and two failures")
			}
			for _, e := range w.history() {
				require.NotContains(t, e.String(), modeltest.Key)
			}
		})
	}
}

// requireSame compares as JSON, which shows what differs.
func requireSame(t *testing.T, want, got outcome) {
	t.Helper()
	a, err := json.Marshal(want)
	require.NoError(t, err)
	b, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, string(a), string(b))
}

// outcome waits for the end of the agent and reads what came of it.
func (w *world) outcome() outcome {
	w.t.Helper()
	o := outcome{Agent: w.result(), Effects: w.ran()}
	for _, r := range w.results(o.Agent) {
		o.Results = append(o.Results, r.Result)
	}
	slices.Sort(o.Effects) // reading tools run side by side
	for i, r := range o.Results {
		var m map[string]any
		if json.Unmarshal(r.Value, &m) == nil {
			// A call id holds the run.
			delete(m, "call")
			o.Results[i].Value, _ = json.Marshal(m)
		}
	}
	for e, err := range follow.Follow(context.Background(), w.c, w.id, "", follow.Options{}) {
		require.NoError(w.t, err)
		switch e.Kind {
		case follow.Decision:
			o.Decisions = append(o.Decisions, e.Decision.Decision)
		case follow.ApprovalClosed:
			o.Closed = append(o.Closed, string(e.Closed.Key)+" "+string(e.Closed.How))
		}
	}
	o.Agent.Transcript, o.Agent.Store = nil, ""
	return o
}

// A model that cannot be had ends the agent with the reason: at once where trying again cannot help, and without the key.
func TestAProviderThatRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		fault http.HandlerFunc
		want  string
	}{
		"unknown model": {modeltest.Status(404, modeltest.Messages, "not_found_error", "model: s"), "not_found: status 404: model: s"},
		"wrong key":     {modeltest.Status(401, modeltest.Messages, "authentication_error", "invalid x-api-key: "+modeltest.Key), "authentication: status 401: invalid x-api-key: (secret)"},
		"no tools":      {modeltest.Status(400, modeltest.Messages, "invalid_request_error", "s does not support tools"), "does not support tools"},
		"a proxy's page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<title>Log in</title>"))
		}, "no event stream but text/html: Log in; is the base URL right?"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d, server := realModel(t, modeltest.Messages, "turns: [{say: never}]")
			server.Fail(c.fault)
			w.workLike(setup{}, func(cfg *worker.Config, p *config.Profile) {
				cfg.Models["real"], p.Models = d, []string{"real:s"}
			})
			w.start(protocol.AgentInput{})
			res := w.result()
			require.Equal(t, protocol.Failed, res.Status)
			require.Contains(t, res.Error, c.want)
			require.Len(t, server.Bodies(), 1)
			for _, e := range w.history() {
				require.NotContains(t, e.String(), modeltest.Key)
			}
		})
	}
}

// A cancelled agent does not wait for a model that never stops.
func TestCancelWhileTheModelNeverStops(t *testing.T) {
	w := newWorld(t)
	d, server := realModel(t, modeltest.Chat, "turns: [{say: never}]")
	began := make(chan struct{})
	server.Fail(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		for r.Context().Err() == nil {
			modeltest.Stream(w, modeltest.Event{Data: `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"on "}}]}`})
			time.Sleep(time.Millisecond)
		}
	})
	w.workLike(setup{}, func(cfg *worker.Config, p *config.Profile) { cfg.Models["real"], p.Models = d, []string{"real:s"} })
	w.start(protocol.AgentInput{})
	<-began
	require.NoError(t, w.c.CancelWorkflow(t.Context(), w.id, ""))
	res := w.result()
	require.Equal(t, protocol.Cancelled, res.Status, res.Error)
}
