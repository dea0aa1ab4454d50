package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// asker is a run with open questions: an agent, or a workflow of a team's own whose calls are guarded.
type asker struct {
	*world
	signal, update, query string
	// other is the id of a run of the same kind with one question about something else.
	other string
	// codes are what became of the calls, once the run has ended.
	codes func() []string
}

// byPrompt is a model that asks for as many calls as its prompt says, each about the prompt.
type byPrompt struct{}

func (byPrompt) Generate(_ context.Context, r model.Request) (model.Response, error) {
	if len(r.Messages) > 1 {
		return model.Response{Text: "done", Stop: model.StopEnd}, nil
	}
	var n int
	var what string
	if _, err := fmt.Sscan(r.Messages[0].Text, &n, &what); err != nil {
		return model.Response{}, err
	}
	var calls []string
	for i := range n {
		calls = append(calls, "run", fmt.Sprintf("%s-%d", what, i))
	}
	return model.Response{Calls: wires(calls...), Stop: model.StopToolUse}, nil
}

// numbered are n calls of the tool run, all different.
func numbered(n int) []model.ToolCall {
	var calls []string
	for i := range n {
		calls = append(calls, "run", fmt.Sprint(i))
	}
	return wires(calls...)
}

// agentAsks starts an agent with n open questions, and another one with one.
func agentAsks(t *testing.T, n int) *asker {
	w := newWorld(t)
	w.playing(asking, byPrompt{})
	w.start(protocol.AgentInput{Prompt: fmt.Sprint(n, " this")})
	other := *w
	other.id += "-other"
	other.start(protocol.AgentInput{Prompt: "1 that"})
	return &asker{w, protocol.SignalApproval, protocol.UpdateResolve, protocol.QueryApprovals, other.id,
		func() []string { return w.codes(w.result()) }}
}

// guardAsks is agentAsks with guarded calls of a team's own workflow.
func guardAsks(t *testing.T, n int) *asker {
	m := newTeam(t)
	m.work()
	m.begin("Ship", manyOrders(n))
	other := *m.world
	other.id += "-other"
	other.run("", "Ship", shipping{Orders: []order{{Service: "that"}}})
	return &asker{m.world, protocol.GuardSignalApproval, protocol.GuardUpdateResolve, protocol.GuardQueryApprovals, other.id, m.shipped}
}

var askers = map[string]func(*testing.T, int) *asker{"agent": agentAsks, "guarded workflow": guardAsks}

// until waits for the list of questions to be as told.
func (a *asker) until(ok func(approval.List) bool) (l approval.List) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		var err error
		l, err = a.listOf(a.id, a.query)
		return err == nil && ok(l)
	}, patience, tick)
	return l
}

func (a *asker) open(n int) []approval.Approval {
	a.t.Helper()
	return a.until(func(l approval.List) bool { return len(l.Pending) == n }).Pending
}

// otherKey is the key of the other run's question.
func (a *asker) otherKey() string {
	a.t.Helper()
	var key string
	require.Eventually(a.t, func() bool {
		l, err := a.listOf(a.other, a.query)
		if err != nil || len(l.Pending) != 1 {
			return false
		}
		key = l.Pending[0].Key
		return true
	}, patience, tick)
	return key
}

// denied waits for the end of the run, and checks that a person denied n calls and that the one that is left ran.
func (a *asker) denied(n int) {
	a.t.Helper()
	codes := a.codes()
	require.Len(a.t, codes, n+1)
	codes = slices.DeleteFunc(codes, func(c string) bool { return c == "DENIED/person" })
	require.Len(a.t, codes, 1)
	require.NotContains(a.t, codes[0], "DENIED")
	require.Len(a.t, a.ran(), 1)
}

// say signals raw bytes.
func (a *asker) say(raw string) {
	a.t.Helper()
	require.NoError(a.t, a.c.SignalWorkflow(context.Background(), a.id, "", a.signal, plainly(raw)))
}

// resolve sends an update, with an argument or none, and returns what its sender is told.
func (a *asker) resolve(args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := a.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: a.id, UpdateName: a.update, Args: args,
		WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

func encoded(encoding, data string) converter.RawValue {
	return converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)})
}

// sized is an allow of exactly n bytes.
func sized(key string, n int) string {
	head, tail := `{"key":"`+key+`","decision":"allow","reason":"`, `"}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

// namesNothing are answers that name no question of the run, and why they are ignored; KEY is a key that is pending, OTHER one
// of another run.
var namesNothing = map[string]struct{ raw, why string }{
	"no text":                    {``, "it is empty"},
	"blanks":                     {" \n", "no object"},
	"true":                       {`true`, "no object"},
	"null":                       {`null`, "no object"},
	"a number":                   {`7`, "no object"},
	"a list":                     {`[{"key":"KEY","decision":"allow"}]`, "no object"},
	"an empty object":            {`{}`, "it names no key"},
	"yes":                        {`"yes"`, "neither allow nor deny"},
	"an upper-case word":         {`"ALLOW"`, "neither allow nor deny"},
	"allow, of several":          {`"allow"`, "needs exactly one pending question"},
	"an unknown key":             {`{"key":"run-00000000","decision":"allow"}`, "is not pending"},
	"a key of another run":       {`{"key":"OTHER","decision":"allow"}`, "is not pending"},
	"a part of the key":          {`{"key":"run","decision":"allow"}`, "is not pending"},
	"a blank after the key":      {`{"key":"KEY ","decision":"allow"}`, "is not pending"},
	"a number for the key":       {`{"key":7,"decision":"allow"}`, "it names no key"},
	"a list of keys":             {`{"key":["KEY"],"decision":"allow"}`, "it names no key"},
	"an upper-case member":       {`{"KEY":"KEY","decision":"allow"}`, "it names no key"},
	"not JSON":                   {`{"key":"KEY"`, "not valid JSON"},
	"two documents":              {`{"key":"KEY","decision":"allow"}{}`, "not valid JSON"},
	"no UTF-8":                   {"{\"key\":\"KEY\",\"decision\":\"allow\",\"reason\":\"\xff\"}", "not UTF-8"},
	"deep":                       {strings.Repeat(`[`, 20_000), "no object"},
	"deep in a member":           {`{"key":"KEY","decision":"allow","input":` + strings.Repeat(`[`, 20_000) + `}`, "not valid JSON"},
	"a string that holds true":   {`"true"`, "neither allow nor deny"},
	"a string in a string":       {`"\"{\\\"key\\\":\\\"KEY\\\",\\\"decision\\\":\\\"allow\\\"}\""`, "neither allow nor deny"},
	"a string with the key else": {`"{\"key\":\"OTHER\",\"decision\":\"allow\"}"`, "is not pending"},
	"one byte too many":          {"SIZED", "65537 bytes"},
}

// denies are answers that name a pending question and do not explicitly allow it.
var denies = map[string]string{
	"no decision":            `{"key":"KEY"}`,
	"upper-case decision":    `{"key":"KEY","decision":"ALLOW"}`,
	"decision yes":           `{"key":"KEY","decision":"yes"}`,
	"decision true":          `{"key":"KEY","decision":true}`,
	"decision null":          `{"key":"KEY","decision":null}`,
	"decision 1":             `{"key":"KEY","decision":1}`,
	"two decisions":          `{"key":"KEY","decision":"deny","decision":"allow"}`,
	"a number for a reason":  `{"key":"KEY","decision":"allow","reason":3}`,
	"a number for a name":    `{"key":"KEY","decision":"allow","by":7}`,
	"always in a string":     `{"key":"KEY","decision":"allow","always":"yes"}`,
	"no time":                `{"key":"KEY","decision":"allow","expiresAt":"soon"}`,
	"a number for a time":    `{"key":"KEY","decision":"allow","expiresAt":32503680000}`,
	"a word for a signature": `{"key":"KEY","decision":"allow","signature":"trust me"}`,
	"a list for a signature": `{"key":"KEY","decision":"allow","signature":[]}`,
	"a string that holds it": `"{\"key\":\"KEY\",\"decision\":1}"`,
}

func (a *asker) filled(raw, key, other string) string {
	if raw == "SIZED" {
		return sized(key, approval.MaxAnswer+1)
	}
	// An upper-case member stays what it is.
	return strings.NewReplacer(`"KEY":`, `"KEY":`, "KEY", key, "OTHER", other).Replace(raw)
}

// A malformed signal that names a pending question denies that one and no other; every other one changes nothing and is
// shown, with the reason. It is so in agents and in guarded workflows of a team's own.
func TestMalformedSignals(t *testing.T) {
	t.Parallel()
	for kind, start := range askers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := start(t, len(denies)+1)
			q := a.open(len(denies) + 1)
			key, other := q[0].Key, a.otherKey()
			var whys []string
			for _, bad := range namesNothing {
				a.say(a.filled(bad.raw, key, other))
				whys = append(whys, bad.why)
			}
			a.wire(a.signal, nil)
			a.wire(a.signal, &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("binary/null")}}}})
			a.wire(a.signal, raw("binary/plain", "\x00\x01\xff"))
			a.wire(a.signal, raw("binary/protobuf", "\x0a\x02"))
			whys = append(whys, "it is empty", "it is empty", "not UTF-8", "no object")
			l := a.until(func(l approval.List) bool { return len(l.Ignored) == len(whys) })
			for i, why := range whys {
				require.Contains(t, l.Ignored[i].Why, why)
			}
			require.Len(t, l.Pending, len(q), "nothing was answered")
			require.Empty(t, l.Closed)

			names := map[string]string{}
			i := 1
			for name, bad := range denies {
				names[q[i].Key] = name
				a.say(a.filled(bad, q[i].Key, other))
				i++
			}
			l = a.until(func(l approval.List) bool { return len(l.Closed) == len(denies) })
			for _, c := range l.Closed {
				require.Equal(t, approval.Denied, c.How, names[c.Key])
				require.Contains(t, c.Reason, "malformed answer: ", names[c.Key])
				delete(names, c.Key)
			}
			require.Empty(t, names, "each was closed by its own answer")
			require.Len(t, l.Pending, 1)
			require.Empty(t, a.ran())

			// The largest answer that is read.
			a.say(sized(key, approval.MaxAnswer))
			a.denied(len(denies))
			require.Equal(t, other, a.otherKey(), "nobody has answered the other run")

			var gone *serviceerror.NotFound
			require.ErrorAs(t, a.c.SignalWorkflow(context.Background(), a.id, "", a.signal, plainly(`{"key":"`+key+`","decision":"deny"}`)), &gone)
			require.ErrorAs(t, a.resolve(plainly(`{"key":"`+key+`","decision":"deny"}`)), &gone)
			require.Empty(t, a.failedTasks())
		})
	}
}

// A malformed update is refused at once, by the type of its error, whatever it names. It changes nothing and leaves nothing in
// history.
func TestUpdatesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	for kind, start := range askers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := start(t, 2)
			q := a.open(2)
			key, other := q[0].Key, a.otherKey()
			allow := `{"key":"` + key + `","decision":"allow"}`
			refused := func(name, kind string, args ...any) {
				t.Helper()
				err := a.resolve(args...)
				var app *temporal.ApplicationError
				require.ErrorAs(t, err, &app, name)
				if kind != "" {
					require.Equal(t, kind, app.Type(), "%s: %v", name, err)
				}
			}
			before := a.happened()
			for name, bad := range namesNothing {
				kind := protocol.ErrorBadAnswer
				switch {
				case strings.HasPrefix(bad.raw, `"`):
					// An update is strict in its form: no string stands for an object.
				case bad.why == "is not pending":
					kind = protocol.ErrorNotPending
				}
				refused(name, kind, plainly(a.filled(bad.raw, key, other)))
			}
			for name, bad := range denies {
				refused(name, protocol.ErrorBadAnswer, plainly(a.filled(bad, key, other)))
			}
			refused("bare deny", protocol.ErrorBadAnswer, plainly(`"deny"`))
			refused("a string that holds an allow", protocol.ErrorBadAnswer, asJSON(t, json.RawMessage(allow)))
			refused("nothing", protocol.ErrorBadAnswer, nil)
			refused("no argument", "")
			refused("two answers", protocol.ErrorBadAnswer, plainly(allow), plainly(`{"key":"`+other+`","decision":"deny"}`))
			refused("a second argument", protocol.ErrorBadAnswer, plainly(allow), nil)
			refused("bytes", protocol.ErrorBadAnswer, encoded("binary/plain", "\x00\x01\xff"))
			refused("protobuf", protocol.ErrorBadAnswer, encoded("binary/protobuf", "\x0a\x02"))
			require.Equal(t, before, a.happened(), "a refused update costs no history")
			l := a.until(func(approval.List) bool { return true })
			require.Len(t, l.Pending, 2)
			require.Empty(t, l.Ignored)

			require.NoError(t, a.resolve(plainly(sized(key, approval.MaxAnswer))))
			a.open(1)
			a.until(func(l approval.List) bool { return len(l.Closed) == 1 })
			refused("again", protocol.ErrorNotPending, plainly(allow))
			require.NoError(t, a.resolve(approval.Resolution{Key: q[1].Key, Decision: approval.Deny}))
			a.denied(1)
			require.Zero(t, count(a.history(), enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED))
			require.Empty(t, a.failedTasks())
		})
	}
}
