package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// standard asks before execute-risk tools.
var standard = config.Profile{Permissions: permission.Layer{Preset: permission.Standard}}

const oneAsk = `
turns:
  - calls: [{tool: run, args: {path: a}}]
  - say: done
`

const twoAsks = `
turns:
  - calls: [{tool: run, args: {path: a}}, {tool: run, args: {path: a}}]
  - say: done
`

func asking(script string) setup { return setup{profile: standard, script: script} }

// reply sends an answer to the first pending question; {key} in it stands for the question's key.
func (b *bench) reply(after time.Duration, text string) {
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.NotEmpty(b.t, p)
		b.env.SignalWorkflow(protocol.SignalApproval, json.RawMessage(strings.ReplaceAll(text, "{key}", p[0].Key)))
	}, after)
}

// A signal is forgiven its form and never its substance; whatever changes nothing says why.
func TestFormsOfAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		text, code string
		ignored    bool
	}{
		"object":                 {`{"key":"{key}","decision":"allow"}`, "OK", false},
		"string that holds it":   {`"{\"key\":\"{key}\",\"decision\":\"allow\"}"`, "OK", false},
		"bare allow":             {`"allow"`, "OK", false},
		"bare deny":              {`"deny"`, "DENIED/person", false},
		"another word":           {`{"key":"{key}","decision":"yes"}`, "DENIED/person", false},
		"no decision":            {`{"key":"{key}"}`, "DENIED/person", false},
		"the tool is not edited": {`{"key":"{key}","decision":"allow","tool":"look"}`, "OK", false},
		"true":                   {`true`, "DENIED/expired", true},
		"yes":                    {`"yes"`, "DENIED/expired", true},
		"null":                   {`null`, "DENIED/expired", true},
		"empty object":           {`{}`, "DENIED/expired", true},
		"unknown key":            {`{"key":"run-00000000","decision":"allow"}`, "DENIED/expired", true},
		"part of the key":        {`{"key":"run","decision":"allow"}`, "DENIED/expired", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := asking(oneAsk)
			s.profile.Permissions.Approval = &permission.ApprovalPolicy{Deadline: 2 * time.Hour}
			b := newBench(t, s)
			b.reply(time.Hour, tc.text)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, []string{tc.code}, b.codes(res))
			if tc.code == "OK" {
				require.Equal(t, map[string][]string{"run": {"a"}}, b.ran)
			} else {
				require.Empty(t, b.ran)
			}
			l := b.list()
			require.Empty(t, l.Pending)
			require.Equal(t, tc.ignored, len(l.Ignored) == 1, "%+v", l.Ignored)
		})
	}
}

func TestAnAnswerBeforeTheQuestionChangesNothing(t *testing.T) {
	s := asking(oneAsk)
	s.profile.Permissions.Approval = &permission.ApprovalPolicy{Deadline: time.Hour}
	b := newBench(t, s)
	b.signal(0, "allow")
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/expired"}, b.codes(res))
	require.Len(t, b.list().Ignored, 1)
}

// Nobody answered: that is neither a person's deny nor a rule's.
func TestDeadline(t *testing.T) {
	s := asking(`
turns:
  - calls: [{tool: run, args: {path: a}}]
  - say: done
    expect: {lastResult: {code: DENIED, contains: nobody answered in time}}
`)
	s.profile.Permissions.Approval = &permission.ApprovalPolicy{Deadline: 48 * time.Hour}
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(func() {
		q := b.list().Pending[0]
		require.Equal(t, q.AskedAt.Add(48*time.Hour), *q.Deadline)
	}, time.Hour)
	b.signal(49*time.Hour, "allow")
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	f := b.results(res)[0].Result.Failure
	require.Equal(t, tool.ByExpiry, f.Reason)
	require.Equal(t, "timer", f.By)
	c := b.list().Closed
	require.Len(t, c, 1)
	require.Equal(t, approval.Expired, c[0].How)
	require.Equal(t, "timer", c[0].Via)
	require.Empty(t, c[0].By)
}

func TestRevoke(t *testing.T) {
	b := newBench(t, asking(oneAsk))
	b.answer(time.Hour, 0, approval.Revoke)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/revoked"}, b.codes(res))
	require.Empty(t, b.ran)
	require.Equal(t, approval.Revoked, b.list().Closed[0].How)
}

// Two rivals in one workflow task: the first one wins, the second is noted.
func TestTheFirstOfTwoRivalsWins(t *testing.T) {
	for first, code := range map[approval.Choice]string{approval.Allow: "OK", approval.Deny: "DENIED/person"} {
		b := newBench(t, asking(oneAsk))
		b.env.RegisterDelayedCallback(func() {
			key := b.list().Pending[0].Key
			second := map[approval.Choice]approval.Choice{approval.Allow: approval.Deny, approval.Deny: approval.Allow}[first]
			b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: key, Decision: first, By: "alice"})
			b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: key, Decision: second, By: "bob"})
		}, time.Hour)
		res := b.run(protocol.AgentInput{})
		require.Equal(t, []string{code}, b.codes(res))
		l := b.list()
		require.Len(t, l.Closed, 1)
		require.Equal(t, "alice", l.Closed[0].By)
		require.Len(t, l.Ignored, 1)
	}
}

func TestEqualCallsHaveQuestionsOfTheirOwn(t *testing.T) {
	b := newBench(t, asking(twoAsks))
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.Len(t, p, 2)
		require.Equal(t, p[0].Key+".2", p[1].Key)
	}, time.Minute)
	b.answer(time.Hour, 1, approval.Allow)
	b.answer(2*time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/person", "OK"}, b.codes(res))
	require.Equal(t, map[string][]string{"run": {"a"}}, b.ran)
	require.Equal(t, 2, res.Asked)
}

// A call id that the model sends again inherits nothing.
func TestAReusedCallIDIsAskedAgain(t *testing.T) {
	b := newBench(t, asking(`
turns:
  - calls: [{tool: run, args: {path: a}, id: same}]
  - calls: [{tool: run, args: {path: b}, id: same}]
  - say: done
`))
	b.answer(time.Hour, 0, approval.Allow)
	b.answer(2*time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"OK", "DENIED/person"}, b.codes(res))
	require.Equal(t, map[string][]string{"run": {"a"}}, b.ran)
}

// One answer to each question, whatever came before: deny first, allow second runs the second alone.
func TestEachQuestionHasItsOwnAnswer(t *testing.T) {
	b := newBench(t, asking(`
turns:
  - calls: [{tool: run, args: {path: a}}, {tool: run, args: {path: b}}, {tool: look, args: {path: c}}]
  - say: done
`))
	b.answer(time.Hour, 0, approval.Deny)
	b.answer(2*time.Hour, 0, approval.Allow)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/person", "OK", "OK"}, b.codes(res))
	require.Equal(t, []string{"look c", "run b"}, b.order)
}

func TestCancellationBeatsAnAnswerOfTheSameMoment(t *testing.T) {
	for name, answerFirst := range map[string]bool{"cancel first": false, "answer first": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, asking(oneAsk))
			b.env.RegisterDelayedCallback(func() {
				allow := approval.Resolution{Key: b.list().Pending[0].Key, Decision: approval.Allow}
				if answerFirst {
					b.env.SignalWorkflow(protocol.SignalApproval, allow)
				}
				b.env.CancelWorkflow()
				if !answerFirst {
					b.env.SignalWorkflow(protocol.SignalApproval, allow)
				}
			}, time.Hour)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.Cancelled, res.Status)
			require.Empty(t, b.ran)
			l := b.list()
			require.Len(t, l.Closed, 1)
			require.Equal(t, approval.Cancelled, l.Closed[0].How)
			if answerFirst {
				require.Len(t, l.Ignored, 1)
				require.Contains(t, l.Ignored[0].Why, "cancellation")
			}
		})
	}
}

// The in-process ways to edit a call: each edited input is judged like a new call.
func TestEdits(t *testing.T) {
	guard := pipeline.PluginFunc("g", func(s *pipeline.Scope) error {
		return s.Guard("no-prod", func(_ context.Context, c pipeline.Call) error {
			if strings.Contains(string(c.Input), "prod") {
				return errors.New("not in production")
			}
			return nil
		})
	})
	deny := permission.Layer{Preset: permission.Standard, Hooks: []permission.Hook{{Name: "h", Judge: func(_ context.Context, c permission.Call) (permission.Answer, error) {
		switch {
		case strings.Contains(string(c.Input), "forbidden"):
			return permission.AnswerDeny("forbidden path"), nil
		case strings.Contains(string(c.Input), "relative"):
			return permission.AnswerModify(json.RawMessage(`{"path":"/absolute"}`)), nil
		}
		return permission.Answer{}, nil
	}}}}
	for name, tc := range map[string]struct {
		input, code, says string
		ran               []string
	}{
		"allowed":             {`{"path":"b"}`, "OK", `"finalInput":{"path":"b"}`, []string{"b"}},
		"as it was":           {`{ "path": "a" }`, "OK", `{"code":"OK","value":{"path":"a"}}`, []string{"a"}},
		"denied by a hook":    {`{"path":"forbidden"}`, "DENIED/rule", "a person allowed this call, and it was denied on the second look by hook:", nil},
		"denied by a guard":   {`{"path":"prod"}`, "DENIED/guard", "not in production", nil},
		"does not fit":        {`{"path":7}`, "DENIED/failure", "do not fit the tool's schema", nil},
		"no object":           {`"b"`, "DENIED/failure", "do not fit the tool's schema", nil},
		"a member too many":   {`{"path":"b","tool":"look"}`, "DENIED/failure", "do not fit the tool's schema", nil},
		"twice the member":    {`{"path":"b","path":"c"}`, "DENIED/failure", "not valid JSON", nil},
		"a hook would change": {`{"path":"relative"}`, "DENIED/rule", "a hook would change the edited arguments", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{profile: config.Profile{Permissions: deny}, plugins: []pipeline.Plugin{guard}, script: oneAsk})
			b.reply(time.Hour, `{"key":"{key}","decision":"allow","by":"alice","input":`+tc.input+`}`)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, []string{tc.code}, b.codes(res))
			require.Equal(t, tc.ran, b.ran["run"])
			text, err := json.Marshal(b.results(res)[0].Result)
			require.NoError(t, err)
			require.Contains(t, string(text), tc.says)
		})
	}
}

func TestAnEditIsDeniedByARule(t *testing.T) {
	layer := permission.Layer{Preset: permission.Standard,
		Deny: []permission.Rule{{Tool: permission.One("sh"), Argv: permission.One("rm **")}}}
	b := newBench(t, setup{profile: config.Profile{Permissions: layer}, tools: []*tool.Def{shellTool()}, script: `
turns:
  - calls: [{tool: sh, args: {command: ls}}]
  - say: done
`})
	b.reply(time.Hour, `{"key":"{key}","decision":"allow","input":{"command":"rm -r x"}}`)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/rule"}, b.codes(res))
	require.Equal(t, "deny-rule", b.results(res)[0].Result.Failure.By)
	require.Equal(t, approval.Denied, b.list().Closed[0].How)
}

// The answer's own last moment has passed, or the worker cannot check who gave it.
func TestAnswersThatCannotBeAdmitted(t *testing.T) {
	for text, want := range map[string][2]string{
		`{"key":"{key}","decision":"allow","expiresAt":"2001-01-01T00:00:00Z"}`:     {"DENIED/expired", "the answer came too late"},
		`{"key":"{key}","decision":"allow","signature":{"keyId":"k","sig":"c2ln"}}`: {"DENIED/person", "is not known here"},
		`{"key":"{key}","decision":"allow","expiresAt":"2001-01-01"}`:               {"DENIED/person", "no RFC 3339 time"},
		`{"key":"{key}","decision":"allow","reason":["x"]}`:                         {"DENIED/person", "wrong type"},
	} {
		b := newBench(t, asking(oneAsk))
		b.reply(time.Hour, text)
		res := b.run(protocol.AgentInput{})
		require.Equal(t, []string{want[0]}, b.codes(res))
		require.Contains(t, b.results(res)[0].Result.Failure.Message, want[1])
		require.Empty(t, b.ran)
	}
}
