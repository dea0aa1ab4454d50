package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// reports are faults that users of other approval systems met, and the tests that show the right behaviour here.
var _ = map[string][]func(*testing.T){
	"1 an approved effect runs twice, because its activity is retried":    {TestReport01, TestKillInTheMiddleOfATool},
	"2 the approver sees the arguments from before a hook changed them":   {TestReport02},
	"3 a run that resumes runs arguments that nobody approved":            {TestReport03, TestResetToEveryTaskNeverRunsOnAVoidAnswer},
	"4 parallel questions share one id":                                   {TestReport04},
	"5 a call that was rejected runs all the same":                        {TestReport05},
	"6 an edit goes past the policy":                                      {TestReport06},
	"8 the model repeats what it asked for, after a person changed it":    {TestReport08},
	"9 one question holds up the whole batch":                             {TestReport09},
	"10 a rejected call leaves the model's next request without a result": {TestReport05, TestReport10},
	"12 a tool runs before it is confirmed":                               {TestDecisionsComeBeforeCalls},
	"13 somebody is asked about a call that cannot run":                   {TestInvalidCalls},
	"17 a question that ran out of time is told as a person's refusal":    {TestReport17},
	"19 a late answer acts after the run was cancelled":                   {TestCancelAndAllowInOneTask},
	"21 a call with an id that was there before inherits its approval":    {TestReport21},
	"24 a UI sends the answer as a JSON string, or sends something else":  {TestMalformedSignals, TestFormsThatAllow},
}

// wires are the calls of one model turn, each a tool and its text.
func wires(toolText ...string) []model.ToolCall {
	var calls []model.ToolCall
	for i := 0; i < len(toolText); i += 2 {
		calls = append(calls, model.ToolCall{ID: fmt.Sprintf("id-%d", i/2), Name: toolText[i],
			Input: json.RawMessage(fmt.Sprintf(`{"text":%q}`, toolText[i+1]))})
	}
	return calls
}

// overheard is a model whose requests can be looked at.
type overheard struct {
	model.Model
	requests chan model.Request
}

func overhear(m model.Model) *overheard { return &overheard{m, make(chan model.Request, 100)} }

func (o *overheard) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	o.requests <- r
	return o.Model.Generate(ctx, r)
}

// last is the newest request.
func (o *overheard) last() (r model.Request) {
	for len(o.requests) > 0 {
		r = <-o.requests
	}
	return r
}

// The heartbeat of an approved call stops in the middle: its activity times out, and the effect is there. It does not
// run again unless its tool says that this is the same as once; then it has the same key.
func TestReport01(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var deaf atomic.Bool
	drop := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if deaf.Load() && strings.HasSuffix(method, "/RecordActivityTaskHeartbeat") {
			return status.Error(codes.PermissionDenied, "lost on its way")
		}
		return next(ctx, method, req, reply, cc, opts...)
	}
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, Logger: sdklog.NewStructuredLogger(logger()),
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(drop)}}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w.c = c
	over := make(chan struct{})
	first := map[string]*atomic.Bool{"row": {}, "upsert": {}}
	writes := func(name string, opts ...tool.Option) *tool.Def {
		return tool.MustNew(name, "Writes a row.", func(_ context.Context, c *tool.Context, _ noteIn) (string, error) {
			if err := appendLine(w.effects, name+" "+c.IdempotencyKey); err != nil {
				return "", err
			}
			if first[name].CompareAndSwap(false, true) {
				for _, f := range first {
					if !f.Load() {
						<-over
					}
				}
				deaf.Store(true)
				<-over
			}
			return "written", nil
		}, append(opts, tool.Execute, tool.Concurrent(true))...)
	}
	w.workLike(asking, func(c *worker.Config, p *config.Profile) {
		c.Models["other"], p.Models = callsOf(wires("row", "a", "upsert", "a")...), []string{"other:x"}
		c.Tools = append(c.Tools, writes("row"), writes("upsert", tool.Idempotent()))
		p.Tools = append(p.Tools, "row", "upsert")
	})
	t.Cleanup(func() { close(over) }) // before the worker stops
	w.start(protocol.AgentInput{})
	for _, q := range w.pending(2) {
		w.answer(q.Key, approval.Allow)
	}
	res := w.result()
	require.Equal(t, []string{"EFFECT_UNKNOWN", "OK"}, w.codes(res))
	ran := w.ran()
	slices.Sort(ran)
	require.Len(t, ran, 3)
	require.True(t, strings.HasPrefix(ran[0], "row "), ran[0])
	require.True(t, strings.HasPrefix(ran[1], "upsert "), ran[1])
	require.Equal(t, ran[1], ran[2], "the same key")
	require.Equal(t, []string{"t1.1"}, w.ids("tool.row"))
	w.sound()
}

// A hook rewrites a path: the approver is shown what the hook made of it, and exactly these bytes run.
func TestReport02(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan string, 1)
	raw, err := tool.FromSchema("raw", "Keeps what it gets.", json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"n":{}}}`),
		func(_ context.Context, _ *tool.Context, in json.RawMessage) (any, error) {
			got <- string(in)
			return "kept", nil
		}, tool.Execute)
	require.NoError(t, err)
	w.workLike(asking, func(c *worker.Config, p *config.Profile) {
		c.Models["other"], p.Models = callsOf(model.ToolCall{ID: "1", Name: "raw", Input: json.RawMessage(`{"path":"/tmp/a","n":9007199254740993}`)}), []string{"other:x"}
		c.Tools, p.Tools = append(c.Tools, raw), []string{"raw"}
		c.Permissions.Hooks = []permission.Hook{{Name: "root", Judge: func(_ context.Context, call permission.Call) (permission.Answer, error) {
			if out := strings.Replace(string(call.Input), "/tmp/", "/etc/", 1); out != string(call.Input) {
				return permission.AnswerModify(json.RawMessage(out)), nil
			}
			return permission.Answer{}, nil
		}}}
	})
	w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	require.JSONEq(t, `{"path":"/etc/a","n":9007199254740993}`, string(q.Input))
	require.Contains(t, w.details(), "/etc/a")
	require.NotContains(t, w.details(), "/tmp/a")
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, []string{"OK"}, w.codes(res))
	require.Equal(t, string(q.Input), <-got)
	require.Equal(t, string(q.Input), string(w.results(res)[0].Result.FinalInput), "the model is told")
}

// An approved run is reset to before the model spoke, and the model says something else: that is a new question. The old
// answer, which the server delivers again, is for none.
func TestReport03(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var text atomic.Value
	text.Store("a")
	w.playing(asking, rethinking(func() model.Response {
		return model.Response{Calls: wires("run", text.Load().(string)), Stop: model.StopToolUse}
	}))
	run := w.start(protocol.AgentInput{}).GetRunID()
	old := w.pending(1)[0].Key
	w.answer(old, approval.Allow)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Equal(t, []string{"run a"}, w.ran())

	text.Store("b")
	var before int64
	for _, e := range w.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); before == 0 && a.GetActivityType().GetName() == protocol.ActivityGenerate {
			before = a.GetWorkflowTaskCompletedEventId()
		}
	}
	require.False(t, w.settles(w.reset(run, before)), "it asks")
	q := w.pending(1)[0]
	require.JSONEq(t, `{"text":"b"}`, string(q.Input))
	require.NotEqual(t, old, q.Key)
	l := w.lists()
	require.Len(t, l.Ignored, 1)
	require.Equal(t, old, l.Ignored[0].Key)
	require.Equal(t, []string{"run a"}, w.ran())
	w.answer(q.Key, approval.Deny)
	require.Equal(t, []string{"DENIED/person"}, w.codes(w.result()))
	require.Equal(t, []string{"run a"}, w.ran())
	replaytest.Replay(t, &historypb.History{Events: w.history()})
}

// rethinking is a model whose first turn is made when it is asked for.
type rethinking func() model.Response

func (m rethinking) Generate(_ context.Context, r model.Request) (model.Response, error) {
	if len(r.Messages) > 1 {
		return model.Response{Text: "done", Stop: model.StopEnd}, nil
	}
	return m(), nil
}

// Three equal calls of one turn are three questions; allowing the second runs only the second.
func TestReport04(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.playing(asking, callsOf(wires("run", "a", "run", "a", "run", "a")...))
	w.start(protocol.AgentInput{})
	q := w.pending(3)
	require.Equal(t, []string{q[0].Key + ".2", q[0].Key + ".3"}, []string{q[1].Key, q[2].Key})
	w.answer(q[1].Key, approval.Allow)
	w.pending(2)
	w.answer(q[2].Key, approval.Deny)
	w.pending(1)
	w.answer(q[0].Key, approval.Deny)
	res := w.result()
	require.Equal(t, []string{"DENIED/person", "OK", "DENIED/person"}, w.codes(res))
	require.Equal(t, []string{"run a"}, w.ran())
	require.Equal(t, []string{"t1.2"}, w.ids("tool.run"))
}

// Two questions, the first denied and then the second allowed: only the second is scheduled, and the model gets both
// results.
func TestReport05(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.playing(asking, callsOf(wires("run", "a", "run", "b")...))
	w.start(protocol.AgentInput{})
	q := w.pending(2)
	w.answer(q[0].Key, approval.Deny)
	w.pending(1)
	w.answer(q[1].Key, approval.Allow)
	res := w.result()
	require.Equal(t, []string{"DENIED/person", "OK"}, w.codes(res))
	require.Equal(t, []string{"run b"}, w.ran())
	require.Equal(t, []string{"t1.2"}, w.ids("tool.run"))
}

// An edit is judged like a call of the model's: what a deny rule matches is denied, by that rule. Which tool runs cannot be
// edited.
func TestReport06(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type in struct {
		Command string `json:"command"`
	}
	command := func(id, text string) model.ToolCall {
		return model.ToolCall{ID: id, Name: "sh", Input: json.RawMessage(fmt.Sprintf(`{"command":%q}`, text))}
	}
	w.workLike(setup{Keys: true}, func(c *worker.Config, p *config.Profile) {
		c.Models["other"], p.Models = callsOf(command("1", "echo a"), command("2", "echo b")), []string{"other:x"}
		c.Tools = append(c.Tools, tool.MustNew("sh", "Runs a command.", func(_ context.Context, _ *tool.Context, in in) (string, error) {
			return "ran", appendLine(w.effects, in.Command)
		}, tool.Execute))
		p.Tools = append(p.Tools, "sh")
		p.Permissions.Ask = []permission.Rule{{Tool: permission.One("sh"), Argv: permission.Many("echo **")}}
		p.Permissions.Deny = []permission.Rule{{Tool: permission.One("sh"), Argv: permission.Many("rm **"), Reason: "nothing is removed"}}
	})
	w.start(protocol.AgentInput{})
	q := w.pending(2)
	w.send(`{"key":"` + q[0].Key + `","decision":"allow","by":"alice","input":{"command":"rm -r /"}}`)
	w.pending(1)
	w.send(`{"key":"` + q[1].Key + `","decision":"allow","tool":"delete_file","input":{"command":"echo c"}}`)
	res := w.result()
	require.Equal(t, []string{"DENIED/rule", "OK"}, w.codes(res))
	f := w.results(res)[0].Result.Failure
	require.Contains(t, f.Message, "nothing is removed")
	require.Equal(t, string(permission.ByDenyRule), f.By)
	require.Equal(t, []string{"echo c"}, w.ran())
	require.Equal(t, []string{"t1.2"}, w.ids("tool.sh"))
}

// A person allows with another address: the model is told that its arguments were changed, and to what.
func TestReport08(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := overhear(callsOf(wires("run", "to: all@example.com")...))
	w.playing(asking, m)
	w.start(protocol.AgentInput{})
	w.send(`{"key":"` + w.pending(1)[0].Key + `","decision":"allow","input":{"text":"to: ops@example.com"}}`)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Equal(t, []string{"run to: ops@example.com"}, w.ran())
	msgs := m.last().Messages
	told := msgs[len(msgs)-1].Results
	require.Len(t, told, 1)
	require.JSONEq(t, `{"text":"to: ops@example.com"}`, string(told[0].Result.FinalInput))
	require.JSONEq(t, `{"text":"to: all@example.com"}`, string(msgs[len(msgs)-2].Calls[0].Input), "what it said stays what it said")
}

// One turn with a call that is allowed and one that is asked: the first runs at once, and exactly one question is open.
func TestReport09(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.playing(asking, callsOf(wires("run", "a", "look", "b")...))
	w.start(protocol.AgentInput{})
	q := w.pending(1)
	require.Equal(t, "run", q[0].Tool)
	require.Eventually(t, func() bool { return slices.Equal(w.ran(), []string{"look b"}) }, patience, tick)
	w.answer(q[0].Key, approval.Allow)
	require.Equal(t, []string{"OK", "OK"}, w.codes(w.result()))
	require.Equal(t, []string{"look b", "run a"}, w.ran())
}

// Whatever becomes of the calls of a turn, the next request has one result for each of them, in their order.
func TestReport10(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := append(wires("run", "a", "look", "b", "run", "c", "nothing", "d"), model.ToolCall{ID: "raw", Name: "look", Raw: "{"})
	m := overhear(callsOf(calls...))
	w.playing(asking, m)
	w.start(protocol.AgentInput{})
	q := w.pending(2)
	w.answer(q[1].Key, approval.Allow)
	w.pending(1)
	w.answer(q[0].Key, approval.Deny)
	res := w.result()
	require.Equal(t, []string{"DENIED/person", "OK", "OK", "UNKNOWN_TOOL", "INVALID_ARGUMENTS"}, w.codes(res))
	msgs := m.last().Messages
	require.Equal(t, model.Tool, msgs[len(msgs)-1].Role)
	require.Len(t, msgs[len(msgs)-1].Results, len(calls))
	for i, r := range msgs[len(msgs)-1].Results {
		require.Equal(t, calls[i].ID, r.CallID)
		require.Equal(t, calls[i].Name, r.Name)
	}
}

// Nobody answers: the result, the list and the events say that time ran out, and name no person.
func TestReport17(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := askingWith(oneAsk)
	s.Deadline = time.Second
	w.work(s)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, []string{"DENIED/expired"}, w.codes(res))
	f := w.results(res)[0].Result.Failure
	require.Equal(t, "timer", f.By)
	require.NotContains(t, f.Message, "person")
	l := w.lists()
	require.Len(t, l.Closed, 1)
	require.Equal(t, approval.Expired, l.Closed[0].How)
	require.Equal(t, "timer", l.Closed[0].Via)
	closed := 0
	for e, err := range follow.Follow(context.Background(), w.c, w.id, "", follow.Options{}) {
		require.NoError(t, err)
		if e.Kind == follow.ApprovalClosed {
			closed++
			require.Equal(t, approval.Expired, e.Closed.How)
		}
	}
	require.Equal(t, 1, closed)
	require.Empty(t, w.ran())
}

// A provider's call id may come again, with other arguments or the same: each is a question of its own.
func TestReport21(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	say := func(text string) model.Response {
		return model.Response{Calls: []model.ToolCall{{ID: "same", Name: "run", Input: json.RawMessage(`{"text":"` + text + `"}`)}}, Stop: model.StopToolUse}
	}
	w.playing(asking, turns{say("a"), say("b"), say("a")})
	w.start(protocol.AgentInput{})
	keys := map[string]bool{}
	for i, text := range []string{"a", "b", "a"} {
		var q approval.Approval
		require.Eventually(t, func() bool {
			l, err := w.list()
			if err != nil || len(l.Pending) != 1 || keys[l.Pending[0].Key] {
				return false
			}
			q = l.Pending[0]
			return true
		}, patience, tick, "question %d", i+1)
		keys[q.Key] = true
		require.JSONEq(t, `{"text":"`+text+`"}`, string(q.Input))
		choice := approval.Allow
		if i == 1 {
			choice = approval.Deny
		}
		w.answer(q.Key, choice)
	}
	require.Equal(t, []string{"OK", "DENIED/person", "OK"}, w.codes(w.result()))
	require.Equal(t, []string{"run a", "run a"}, w.ran())
	require.Equal(t, 2, count(w.history(), enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)-w.scheduled(protocol.ActivityGenerate)-w.scheduled(protocol.ActivityResolveToolset))
}
