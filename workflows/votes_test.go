package workflows_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

var people = approval.Directory{Groups: map[string][]string{"ops": {"alice", "bob"}, "leads": {"carol"}}}

// needing asks about every call in the way that p says.
func needing(p permission.ApprovalPolicy, script string) setup {
	s := asking(script)
	s.profile.Permissions.Approval = &p
	s.approvers = people
	return s
}

func twoOfOps() permission.ApprovalPolicy {
	return permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}
}

// said sends answers to the first pending question at once; {key} in them stands for its key.
func (b *bench) said(after time.Duration, texts ...string) {
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.NotEmpty(b.t, p)
		for _, text := range texts {
			b.env.SignalWorkflow(protocol.SignalApproval, json.RawMessage(strings.ReplaceAll(text, "{key}", p[0].Key)))
		}
	}, after)
}

func allowBy(who string) string { return `{"key":"{key}","decision":"allow","by":"` + who + `"}` }

func why(l approval.List) []string {
	var out []string
	for _, i := range l.Ignored {
		out = append(out, i.By+": "+i.Why)
	}
	return out
}

// Two distinct members have to allow the call. Whoever cannot give an allow changes nothing, and is told why.
func TestQuorum(t *testing.T) {
	b := newBench(t, needing(twoOfOps(), oneAsk))
	b.said(1*time.Hour, allowBy("alice"))
	b.said(2*time.Hour, allowBy("alice"), allowBy("carol"), allowBy("dan"), `"allow"`)
	b.env.RegisterDelayedCallback(func() {
		q := b.list().Pending[0]
		require.Len(t, q.Votes, 1)
		require.Equal(t, "alice", q.Votes[0].By)
		require.Contains(t, b.details(), "- **who may allow it** the members of `ops`, but not `dan`, who asked for the run; 2 of them must")
		require.Contains(t, b.details(), "- **allowed so far** by `alice`")
	}, 3*time.Hour)
	b.said(4*time.Hour, allowBy("bob"), allowBy("alice"))
	res := b.run(protocol.AgentInput{RequestedBy: "dan"})
	require.Equal(t, []string{"OK"}, b.codes(res))
	require.Equal(t, map[string][]string{"run": {"a"}}, b.ran)
	l := b.list()
	require.Len(t, l.Closed, 1)
	require.Equal(t, "alice, bob", l.Closed[0].By)
	require.Len(t, l.Closed[0].Votes, 2)
	key := l.Closed[0].Key
	require.Equal(t, []string{
		`alice: it does not count: "alice" has allowed it before`,
		`carol: it does not count: "carol" is in none of the groups ops`,
		`dan: it does not count: "dan" asked for the run`,
		`: it does not count: it does not say who gives it (by)`,
		`alice: approval "` + key + `": already allowed`,
	}, why(l))
}

// Two allows in one workflow task are both counted.
func TestVotesInOneTask(t *testing.T) {
	b := newBench(t, needing(twoOfOps(), oneAsk))
	b.said(time.Hour, allowBy("alice"), allowBy("bob"))
	require.Equal(t, []string{"OK"}, b.codes(b.run(protocol.AgentInput{})))
	require.Len(t, b.list().Closed[0].Votes, 2)
	require.Empty(t, b.list().Ignored)
}

// One deny is a veto, whoever gives it, and arguments that others have allowed are not edited.
func TestVeto(t *testing.T) {
	b := newBench(t, needing(twoOfOps(), oneAsk))
	b.said(time.Hour, allowBy("alice"), `{"key":"{key}","decision":"allow","by":"bob","input":{"path":"b"}}`)
	b.said(2*time.Hour, `{"key":"{key}","decision":"deny","by":"eve"}`)
	require.Equal(t, []string{"DENIED/person"}, b.codes(b.run(protocol.AgentInput{})))
	require.Empty(t, b.ran)
	require.Contains(t, why(b.list())[0], "bob: it does not count: the arguments of a call that several people have to allow cannot be edited")
}

// An early vote that is good until some moment bounds the call that it allows.
func TestVotesExpireTogether(t *testing.T) {
	b := newBench(t, needing(twoOfOps(), oneAsk))
	b.said(time.Hour, `{"key":"{key}","decision":"allow","by":"alice","expiresAt":"2001-01-01T00:00:00Z"}`)
	require.Equal(t, []string{"DENIED/expired"}, b.codes(b.run(protocol.AgentInput{})))
}

// Reminders come until somebody answers, and after a while more people may.
func TestRemindAndEscalate(t *testing.T) {
	p := permission.ApprovalPolicy{Remind: 24 * time.Hour, Deadline: 31 * 24 * time.Hour,
		Escalate:  &permission.Escalation{After: 60 * time.Hour, Groups: []string{"leads", "ops"}},
		Approvers: &permission.Approvers{Groups: []string{"ops"}}}
	b := newBench(t, needing(p, oneAsk))
	b.said(59*time.Hour, allowBy("carol"))
	var before, after approval.Approval
	b.env.RegisterDelayedCallback(func() { before = b.list().Pending[0] }, 59*time.Hour+time.Minute)
	b.env.RegisterDelayedCallback(func() {
		after = b.list().Pending[0]
		require.Contains(t, b.details(), "to `leads`, `ops`")
		require.Contains(t, b.details(), "- **reminded** 3 times")
	}, 80*time.Hour)
	b.said(30*24*time.Hour, allowBy("carol"))
	require.Equal(t, []string{"OK"}, b.codes(b.run(protocol.AgentInput{})))
	require.Equal(t, 2, before.Reminded)
	require.Nil(t, before.Escalated)
	require.Equal(t, 3, after.Reminded)
	require.Equal(t, after.AskedAt.Add(60*time.Hour), *after.Escalated)
	require.Equal(t, []string{"ops", "leads"}, after.Approvers.Groups)
	require.Equal(t, []string{`carol: it does not count: "carol" is in none of the groups ops`}, why(b.list()))
}

// Nobody comes: after all reminders the deadline denies, and that is nobody's deny.
func TestRemindedInVain(t *testing.T) {
	b := newBench(t, needing(permission.ApprovalPolicy{Remind: time.Hour, Deadline: 31 * 24 * time.Hour,
		Escalate: &permission.Escalation{After: time.Hour, Groups: []string{"leads"}}}, oneAsk))
	var last approval.Approval
	b.env.RegisterDelayedCallback(func() { last = b.list().Pending[0] }, 31*24*time.Hour-time.Minute)
	require.Equal(t, []string{"DENIED/expired"}, b.codes(b.run(protocol.AgentInput{})))
	require.Equal(t, 100, last.Reminded, "each is a timer in history")
	require.Nil(t, last.Approvers, "anybody could answer, and still can")
	require.Equal(t, []string{"leads"}, last.EscalatedTo)
}

// An answer that was sent before the deadline counts, one that was sent after it does not.
func TestAnswersAroundTheDeadline(t *testing.T) {
	b := newBench(t, needing(permission.ApprovalPolicy{Deadline: time.Hour}, oneAsk))
	b.said(time.Hour-time.Second, allowBy("alice"))
	require.Equal(t, []string{"OK"}, b.codes(b.run(protocol.AgentInput{})))
}

// Who signs answers is proved; nobody else answers in that name.
func TestSignedAnswers(t *testing.T) {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))
	s := needing(twoOfOps(), oneAsk)
	s.approvers.Keys = map[string]ed25519.PublicKey{"alice": key.Public().(ed25519.PublicKey)}
	b := newBench(t, s)
	b.said(time.Hour, allowBy("alice"), allowBy("bob"))
	b.env.RegisterDelayedCallback(func() {
		r, err := approval.Sign(b.list().Pending[0], approval.Resolution{Decision: approval.Allow, Reason: "read it"}, "alice", key)
		require.NoError(t, err)
		b.env.SignalWorkflow(protocol.SignalApproval, r)
	}, 2*time.Hour)
	require.Equal(t, []string{"OK"}, b.codes(b.run(protocol.AgentInput{})))
	l := b.list()
	require.Equal(t, []string{`alice: it does not count: "alice" signs answers, and this one is not signed`}, why(l))
	require.False(t, l.Closed[0].Signed, "bob's name is not proved")
	require.Equal(t, []bool{false, true}, []bool{l.Closed[0].Votes[0].Signed, l.Closed[0].Votes[1].Signed})
}

// A signature that proves nothing is no allow.
func TestForgedAnswerDenies(t *testing.T) {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))
	s := asking(oneAsk)
	s.approvers.Keys = map[string]ed25519.PublicKey{"alice": key.Public().(ed25519.PublicKey)}
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(func() {
		q := b.list().Pending[0]
		other := q
		other.Key = "run-00000000"
		r, err := approval.Sign(other, approval.Resolution{Decision: approval.Allow}, "alice", key)
		require.NoError(t, err)
		r.Key = q.Key
		b.env.SignalWorkflow(protocol.SignalApproval, r)
	}, time.Hour)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/person"}, b.codes(res))
	require.Contains(t, b.results(res)[0].Result.Failure.Message, "it is not over this answer to this question")
}

// An update is told at once what would come of it.
func TestUpdatesAreCheckedAtOnce(t *testing.T) {
	b := newBench(t, needing(twoOfOps(), oneAsk))
	got := map[string]*outcome{}
	reject := func(text, want string) {
		b.env.RegisterDelayedCallback(func() {
			key := b.list().Pending[0].Key
			var out outcome
			b.env.UpdateWorkflow(protocol.UpdateResolve, "", &out, json.RawMessage(strings.ReplaceAll(text, "{key}", key)))
			got[want] = &out
		}, time.Hour)
	}
	reject(allowBy("carol"), "is in none of the groups ops")
	reject(`{"key":"{key}","decision":"allow"}`, "does not say who gives it")
	reject(`{"key":"{key}","decision":"allow","by":"bob","input":{}}`, "cannot be edited")
	reject(`{"key":"{key}","decision":"allow","by":"bob","expiresAt":"2001-01-01T00:00:00Z"}`, "expiresAt has passed")
	reject(`{"key":"{key}","decision":"allow","by":"bob","signature":{"keyId":"bob","sig":""}}`, `the key "bob" is not known here`)
	b.said(2*time.Hour, `"deny"`)
	require.Equal(t, []string{"DENIED/person"}, b.codes(b.run(protocol.AgentInput{})))
	require.Empty(t, b.list().Ignored)
	require.Len(t, got, 5)
	for want, out := range got {
		require.ErrorContains(t, out.rejected, want)
	}
}

func approver(fn pipeline.Approver) pipeline.Plugin {
	return pipeline.PluginFunc("robot", func(s *pipeline.Scope) error { return s.Approver(fn) })
}

// An approver in the worker answers like anybody else; what is no exact allow denies, and one that is unavailable leaves
// the question to people.
func TestApprover(t *testing.T) {
	for name, tc := range map[string]struct {
		says func(n int) (pipeline.Answer, error)
		code string
		by   string
	}{
		"allows":         {func(int) (pipeline.Answer, error) { return pipeline.Allow(), nil }, "OK", "robot"},
		"denies":         {func(int) (pipeline.Answer, error) { return pipeline.Deny("no"), nil }, "DENIED/person", "robot"},
		"asks back":      {func(int) (pipeline.Answer, error) { return pipeline.Ask("?"), nil }, "DENIED/person", "robot"},
		"says nothing":   {func(int) (pipeline.Answer, error) { return pipeline.Answer{}, nil }, "DENIED/person", "robot"},
		"fails":          {func(int) (pipeline.Answer, error) { return pipeline.Allow(), errors.New("x") }, "DENIED/person", "robot"},
		"panics":         {func(int) (pipeline.Answer, error) { panic("x") }, "DENIED/person", "robot"},
		"is unavailable": {func(int) (pipeline.Answer, error) { return pipeline.Allow(), pipeline.ErrUnavailable }, "OK", "alice"},
		"allows in the end": {func(n int) (pipeline.Answer, error) {
			if n < 3 {
				return pipeline.Answer{}, pipeline.ErrUnavailable
			}
			return pipeline.Allow(), nil
		}, "OK", "robot"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			s := needing(permission.ApprovalPolicy{Remind: time.Hour}, oneAsk)
			s.plugins = []pipeline.Plugin{approver(func(_ context.Context, c pipeline.Call, d permission.Decision) (pipeline.Answer, error) {
				n++
				require.Equal(t, "run", c.Name)
				require.JSONEq(t, `{"path":"a"}`, string(c.Input))
				require.Equal(t, tool.Execute, c.Info.Risk)
				require.Equal(t, permission.Ask, d.Verdict)
				return tc.says(n)
			})}
			b := newBench(t, s)
			if tc.by == "alice" {
				b.said(90*time.Minute, allowBy("alice"))
			}
			require.Equal(t, []string{tc.code}, b.codes(b.run(protocol.AgentInput{})))
			require.Equal(t, tc.by, b.list().Closed[0].By)
		})
	}
}

// An approver is one principal among those that a question needs.
func TestApproverInAQuorum(t *testing.T) {
	s := needing(twoOfOps(), oneAsk)
	s.approvers = approval.Directory{Groups: map[string][]string{"ops": {"alice", "robot"}}}
	s.plugins = []pipeline.Plugin{approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
		return pipeline.Allow(), nil
	})}
	b := newBench(t, s)
	b.said(time.Hour, allowBy("robot"), allowBy("alice"))
	require.Equal(t, []string{"OK"}, b.codes(b.run(protocol.AgentInput{})))
	require.Equal(t, "robot, alice", b.list().Closed[0].By)
}

const shellTwice = `
turns:
  - calls: [{tool: sh, args: {command: ls -l}}]
  - calls: [{tool: sh, args: {command: ls -l}}, {tool: sh, args: {command: ls -la}}]
  - say: done
`

// `always` is asked once in a run, and the line that others would need is proposed.
func TestAlways(t *testing.T) {
	s := asking(shellTwice)
	s.tools = []*tool.Def{shellTool()}
	b := newBench(t, s)
	b.said(1*time.Hour, `{"key":"{key}","decision":"allow","by":"alice","always":true}`)
	b.said(2*time.Hour, `"deny"`)
	require.Equal(t, []string{"OK", "OK", "DENIED/person"}, b.codes(b.run(protocol.AgentInput{})))
	c := b.list().Closed
	require.Len(t, c, 2)
	require.Equal(t, &permission.Vetted{Tool: permission.Many("sh"), Argv: permission.Many("ls -l")}, c[0].Vetted)
	require.Contains(t, b.details(), "`{\"tool\":[\"sh\"],\"argv\":[\"ls -l\"]}`")
}

// Where no line can help the answer holds for its call alone, and that is said.
func TestAlwaysOfWhatIsNoCommand(t *testing.T) {
	b := newBench(t, asking(oneAsk))
	b.said(time.Hour, `{"key":"{key}","decision":"allow","by":"alice","always":true}`)
	require.Equal(t, []string{"OK"}, b.codes(b.run(protocol.AgentInput{})))
	require.Nil(t, b.list().Closed[0].Vetted)
	require.Equal(t, []string{"alice: always adds no line: only commands can be vetted, and the input has no command; the answer is for this call alone"}, why(b.list()))

	s := asking(shellTwice)
	s.tools = []*tool.Def{shellTool()}
	s.profile.Permissions.Ask = []permission.Rule{{Tool: permission.One("sh"), Argv: permission.One("ls **")}}
	b = newBench(t, s)
	b.said(1*time.Hour, `{"key":"{key}","decision":"allow","by":"alice","always":true}`)
	b.said(2*time.Hour, `"deny"`)
	require.Equal(t, []string{"OK", "DENIED/person", "DENIED/person"}, b.codes(b.run(protocol.AgentInput{})))
	require.Contains(t, why(b.list())[0], "it would be asked about all the same: ask-rule")
}
