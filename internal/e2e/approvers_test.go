package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// moody is an approver that does what the arguments of the call say.
func moody(hang <-chan struct{}) pipeline.Plugin {
	return pipeline.PluginFunc("robot", func(s *pipeline.Scope) error {
		return s.Approver(func(_ context.Context, call pipeline.Call, _ permission.Decision) (pipeline.Answer, error) {
			says := func(what string) bool { return strings.Contains(string(call.Input), what) }
			switch {
			case says("allow"):
				return pipeline.Allow(), nil
			case says("deny"):
				return pipeline.Deny("not this one"), nil
			case says("panic"):
				panic("out of order")
			case says("error"):
				return pipeline.Allow(), errors.New("out of order")
			case says("unavailable"):
				return pipeline.Answer{}, pipeline.ErrUnavailable
			}
			<-hang
			return pipeline.Allow(), nil
		})
	})
}

// An approver in the worker answers what it can. One that fails denies; one that is unavailable, or does not come back,
// leaves the question to people, whose answer stands whatever it says later.
func TestApproversInTheWorker(t *testing.T) {
	t.Parallel()
	moods := []string{"allow", "deny", "panic", "error", "unavailable", "hang"}
	check := func(t *testing.T, a *asker) {
		l := a.until(func(l approval.List) bool { return len(l.Pending) == 2 && len(l.Closed) == 4 })
		for _, q := range l.Pending {
			require.Regexp(t, "unavailable|hang", string(q.Input))
			a.say(allowOfAlice(q.Key))
		}
		codes := a.codes()
		require.Equal(t, []string{"DENIED/person", "DENIED/person", "DENIED/person"}, codes[1:4])
		for _, i := range []int{0, 4, 5} {
			require.NotContains(t, codes[i], "DENIED", moods[i])
		}
		require.Len(t, a.ran(), 3)
		l = a.until(func(l approval.List) bool { return len(l.Closed) == len(moods) })
		who := map[string]int{}
		for _, c := range l.Closed {
			who[c.By+" "+c.Via+" "+string(c.How)]++
		}
		require.Equal(t, map[string]int{"robot approver allowed": 1, "robot approver denied": 3, "alice signal allowed": 2}, who)
		require.Empty(t, a.failedTasks())
	}
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		hang := make(chan struct{})
		w.workLike(asking, func(c *worker.Config, p *config.Profile) {
			var calls []string
			for _, m := range moods {
				calls = append(calls, "run", m)
			}
			c.Models["other"], p.Models, c.Plugins = callsOf(wires(calls...)...), []string{"other:x"}, append(c.Plugins, moody(hang))
		})
		t.Cleanup(func() { close(hang) })
		w.start(protocol.AgentInput{})
		check(t, w.asAgent())
	})
	t.Run("guarded workflow", func(t *testing.T) {
		t.Parallel()
		m := newTeam(t)
		hang := make(chan struct{})
		m.guard.Plugins = append(m.guard.Plugins, moody(hang))
		m.work()
		t.Cleanup(func() { close(hang) })
		s := shipping{Parallel: true}
		for _, mood := range moods {
			s.Orders = append(s.Orders, order{Service: mood})
		}
		m.begin("Ship", s)
		a := m.asGuarded()
		a.codes = m.shipped
		check(t, a)
	})
}

// A worker is killed while its approver thinks: that says nothing, and the approver of another worker is asked.
func TestApproverOfAWorkerThatIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := devservertest.Server(t).Address()
	p := w.spawn(robotic("hang"), address)
	w.start(protocol.AgentInput{})
	w.pending(1)
	require.Eventually(t, func() bool {
		d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
		return err == nil && len(d.RawResponse.GetPendingActivities()) == 1 && d.RawResponse.GetPendingActivities()[0].GetLastStartedTime() != nil
	}, patience, tick)
	p.kill(t)
	w.work(robotic("allow"))
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	require.Equal(t, "robot", w.lists().Closed[0].By)
	require.Equal(t, []string{"run a"}, w.ran())
	w.sound()
}

// The worker is killed again and again while a question waits, is reminded of and goes to more people: nothing is forgotten
// and nothing counted twice, and only those to whom it went can answer it in the end.
func TestRemindersAndEscalationSurviveKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := devservertest.Server(t).Address()
	s := answering(oneAsk, permission.ApprovalPolicy{Remind: time.Second, Approvers: &permission.Approvers{Groups: []string{"ops"}},
		Escalate: &permission.Escalation{After: 3 * time.Second, Groups: []string{"leads"}}})
	p := w.spawn(s, address)
	w.start(protocol.AgentInput{})
	first := w.waits(func(l approval.List) bool { return len(l.Pending) == 1 && l.Pending[0].Reminded > 0 }).Pending[0]
	p.kill(t)
	p = w.spawn(s, address)
	q := w.waits(func(l approval.List) bool { return len(l.Pending) == 1 && l.Pending[0].Escalated != nil }).Pending[0]
	require.Equal(t, first.Key, q.Key)
	require.Equal(t, first.AskedAt.UTC(), q.AskedAt.UTC())
	require.GreaterOrEqual(t, q.Reminded, first.Reminded)
	require.Equal(t, []string{"ops", "leads"}, q.Approvers.Groups)
	p.kill(t)
	// The answers wait for a worker.
	for _, who := range []string{"eve", "carol"} {
		w.send(`{"key":"` + q.Key + `","decision":"allow","by":"` + who + `"}`)
	}
	w.spawn(s, address)
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	l := w.lists()
	require.Len(t, l.Closed, 1)
	require.Equal(t, "carol", l.Closed[0].By)
	require.Len(t, l.Ignored, 1)
	require.Equal(t, "eve", l.Ignored[0].By)
	require.Contains(t, l.Ignored[0].Why, "in none of the groups ops, leads")
	require.Equal(t, []string{"run a"}, w.ran())
	w.sound()
}
