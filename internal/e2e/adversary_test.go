package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// turns is a model that plays what a provider could send and a script cannot say.
type turns []model.Response

func (m turns) Generate(_ context.Context, r model.Request) (model.Response, error) {
	n := 0
	for _, msg := range r.Messages {
		if msg.Role == model.Assistant {
			n++
		}
	}
	if n >= len(m) {
		return model.Response{Text: "done", Stop: model.StopEnd}, nil
	}
	return m[n], nil
}

func callsOf(calls ...model.ToolCall) turns {
	return turns{{Calls: calls, Stop: model.StopToolUse}}
}

// refusing is a provider whose every answer is an error.
type refusing struct{ err error }

func (r refusing) Generate(context.Context, model.Request) (model.Response, error) {
	return model.Response{}, r.err
}

// workLike is work with a changed configuration.
func (w *world) workLike(s setup, change func(*worker.Config, *config.Profile)) {
	w.t.Helper()
	s.Script = oneAsk
	cfg, done, err := engine(s, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	p := cfg.Profiles["p"]
	change(&cfg, &p)
	cfg.Profiles["p"] = p
	plug, err := worker.New(cfg)
	require.NoError(w.t, err)
	w.workWith(plug)
}

// playing is work with another model.
func (w *world) playing(s setup, m model.Model) {
	w.t.Helper()
	w.workLike(s, func(c *worker.Config, p *config.Profile) {
		c.Models["other"], p.Models = m, []string{"other:x"}
	})
}

// sound checks of a run that has ended that none of its workflow tasks failed, and that it replays.
func (w *world) sound() {
	w.t.Helper()
	h := w.history()
	for _, e := range h {
		if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil {
			require.Equal(w.t, enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, a.Cause, a.Failure.GetMessage())
		}
	}
	replaytest.Replay(w.t, &historypb.History{Events: h})
}

// A question is open while later calls of its turn are still being judged; an answer that comes then is not lost.
func TestAnAnswerWhileALaterCallIsJudged(t *testing.T) {
	t.Parallel()
	for _, choice := range []approval.Choice{approval.Allow, approval.Deny} {
		t.Run(string(choice), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			judge := make(chan struct{})
			w.workLike(asking, func(c *worker.Config, p *config.Profile) {
				c.Models["other"], p.Models = callsOf(
					model.ToolCall{ID: "1", Name: "run", Input: json.RawMessage(`{"text":"a"}`)},
					model.ToolCall{ID: "2", Name: "run", Input: json.RawMessage(`{"text":"b"}`)}), []string{"other:x"}
				c.Permissions.Hooks = []permission.Hook{{Name: "slow", Slow: true,
					Judge: func(_ context.Context, call permission.Call) (permission.Answer, error) {
						if strings.Contains(string(call.Input), "b") {
							<-judge
						}
						return permission.Answer{}, nil
					}}}
			})
			w.start(protocol.AgentInput{})
			first := w.pending(1)[0]
			w.answer(first.Key, choice)
			w.pending(0)
			close(judge)
			w.answer(w.pending(1)[0].Key, approval.Deny)
			require.Equal(t, protocol.OK, w.result().Status)
			if choice == approval.Allow {
				require.Equal(t, []string{"run a"}, w.ran())
			} else {
				require.Empty(t, w.ran())
			}
			w.sound()
		})
	}
}

// Whatever a model or its provider sends, the run ends and no workflow task fails.
func TestNothingAModelSendsFailsATask(t *testing.T) {
	many := func(call func(i int) model.ToolCall) turns {
		var calls []model.ToolCall
		for i := range protocol.MaxCallsPerTurn {
			calls = append(calls, call(i))
		}
		return callsOf(calls...)
	}
	deep := func(n int) json.RawMessage {
		return json.RawMessage(`{"text":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	for name, tc := range map[string]struct {
		model model.Model
		want  protocol.Status
	}{
		"large ids": {many(func(i int) model.ToolCall {
			return model.ToolCall{ID: strings.Repeat("i", 13<<10), Name: strings.Repeat("n", 200),
				Input: json.RawMessage(fmt.Sprintf(`{"text":"%d"}`, i))}
		}), protocol.OK},
		"an id of 3 MB":      {callsOf(model.ToolCall{ID: strings.Repeat("i", 3<<20), Name: "look", Input: json.RawMessage(`{"text":"a"}`)}), protocol.OK},
		"names like markup":  {callsOf(model.ToolCall{Name: strings.Repeat("<", 300)}, model.ToolCall{Name: strings.Repeat("\xff", 300)}), protocol.OK},
		"deep":               {callsOf(model.ToolCall{Name: "look", Input: deep(5000)}), protocol.OK},
		"as deep as JSON is": {callsOf(model.ToolCall{Name: "look", Input: deep(9999)}), protocol.OK},
		"twice the same key": {callsOf(model.ToolCall{Name: "look", Input: json.RawMessage(`{"text":"a","text":"b"}`)}), protocol.OK},
		"half a character":   {callsOf(model.ToolCall{Name: "look", Input: json.RawMessage(`{"text":"\ud800"}`)}), protocol.OK},
		"a long error":       {refusing{&model.Error{Kind: "bad_request", Msg: strings.Repeat("\ue000", 2<<20)}}, protocol.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.playing(setup{Keys: true, Limits: protocol.Limits{MaxToolCalls: 500}}, tc.model)
			w.start(protocol.AgentInput{})
			res := w.result()
			require.Equal(t, tc.want, res.Status, res.Error)
			w.sound()
		})
	}
}

// The decisions of one turn are recorded in one workflow task: all of them together fit, however much each explains.
func TestManyDecisionsWithLongExplanations(t *testing.T) {
	w := newWorld(t)
	command := strings.Repeat("ls "+strings.Repeat("a", 80)+"; ", 255)
	var calls []model.ToolCall
	for i := range protocol.MaxCallsPerTurn {
		calls = append(calls, model.ToolCall{ID: fmt.Sprint(i), Name: "sh", Input: json.RawMessage(fmt.Sprintf(`{"command":"%s echo %d"}`, command, i))})
	}
	type in struct {
		Command string `json:"command"`
	}
	w.workLike(setup{Preset: permission.Standard, Limits: protocol.Limits{MaxToolCalls: 500}}, func(c *worker.Config, p *config.Profile) {
		c.Models["other"], p.Models = callsOf(calls...), []string{"other:x"}
		c.Tools = append(c.Tools, tool.MustNew("sh", "Runs a command.", func(context.Context, *tool.Context, in) (string, error) { return "", nil }, tool.Execute))
		p.Tools = append(p.Tools, "sh")
		p.Permissions.Ask = []permission.Rule{{Tool: permission.One("sh"), Argv: permission.Many("echo **")}}
	})
	w.start(protocol.AgentInput{})
	w.pending(len(calls))
	w.send(`"deny"`)
	require.Equal(t, protocol.OK, w.result().Status)
	w.sound()
}

// What an input names is said back in an error that any server takes.
func TestLongNamesInTheInput(t *testing.T) {
	long := strings.Repeat("\ue000", 100<<10)
	for name, in := range map[string]protocol.AgentInput{
		"tool":  {Tools: &[]string{long}},
		"model": {Models: []string{long}},
		"type":  {AgentType: long},
		"label": {Label: long},
		"rule":  {Permissions: &protocol.Tighten{Deny: []permission.Rule{{Tool: permission.One(long + "[")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(askingWith(oneAsk))
			w.start(in)
			require.Less(t, len(w.configError().Error()), 16<<10)
			w.sound()
		})
	}
}

// An agent that is started without its argument fails once, with what is missing.
func TestAgentWithoutInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(oneAsk))
	_, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, protocol.WorkflowAgent)
	require.NoError(t, err)
	require.ErrorContains(t, w.configError(), "agentType")
	w.sound()
}
