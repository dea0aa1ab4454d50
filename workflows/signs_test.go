package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// shown is what a run wrote for the server to index, with the calls that began between: "waiting run" is a status and the tools
// that are asked about, "memo 2" a memo of two questions, "begins" a call.
type shown struct {
	signs []string
	// timers is what became of those of a second.
	timers []string
}

// watched records what is shown from now on.
func (b *bench) watched() *shown {
	s := &shown{}
	b.env.OnActivity(protocol.ActivityResolveToolset, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, req protocol.ResolveRequest) (protocol.ResolveResponse, error) {
			resp, err := b.engine.ResolveToolset(ctx, req)
			resp.Attributes = true
			return resp, err
		})
	b.env.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(a temporal.SearchAttributes) bool {
		status, _ := a.GetKeyword(temporal.NewSearchAttributeKeyKeyword(protocol.AttrStatus))
		tools, _ := a.GetKeywordList(temporal.NewSearchAttributeKeyKeywordList(protocol.AttrPendingTool))
		s.signs = append(s.signs, strings.Join(append([]string{status}, tools...), " "))
		return true
	})).Return(nil)
	b.env.OnUpsertMemo(mock.MatchedBy(func(m map[string]any) bool {
		s.signs = append(s.signs, fmt.Sprintf("memo %d", strings.Count(fmt.Sprintf("%+v", m[protocol.MemoPending]), "Key:")))
		return true
	})).Return(nil)
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if strings.HasPrefix(info.ActivityType.Name, protocol.ToolPrefix) {
			s.signs = append(s.signs, "begins")
		}
	})
	ours := map[string]bool{}
	b.env.SetOnTimerScheduledListener(func(id string, d time.Duration) {
		if ours[id] = d == time.Second; ours[id] {
			s.timers = append(s.timers, "set")
		}
	})
	ended := func(how string) func(string) {
		return func(id string) {
			if ours[id] {
				s.timers = append(s.timers, how)
			}
		}
	}
	b.env.SetOnTimerFiredListener(ended("rang"))
	b.env.SetOnTimerCanceledListener(ended("stopped"))
	return s
}

// lasts lets calls of the tool named run take a while.
func (b *bench) lasts(d time.Duration) {
	b.env.OnActivity(protocol.ToolPrefix+"run", mock.Anything, mock.Anything).After(d).Return(tool.Result{Code: tool.OK, Value: json.RawMessage("1")}, nil)
}

// all answers every question at once.
func (b *bench) all(after time.Duration, choices ...approval.Choice) {
	b.env.RegisterDelayedCallback(func() {
		p := b.list().Pending
		require.Len(b.t, p, len(choices))
		for i, c := range choices {
			b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: p[i].Key, Decision: c, By: "alice"})
		}
	}, after)
}

// asks is a turn of so many calls that ask.
func asks(n int) string {
	return "turns:\n  - calls: [" + strings.Repeat("{tool: run, args: {path: a}}, ", n) + "]\n  - say: done\n"
}

// What a run shows is taken down after the call that was allowed has begun: when it ends, or a second later. Nothing is written
// of what holds for less.
func TestSignsFollowAnAnswer(t *testing.T) {
	begin := []string{"running", "waiting run", "memo 1"}
	two := []string{"running", "waiting run", "memo 2"}
	for name, tc := range map[string]struct {
		calls  int
		play   func(b *bench)
		begin  []string
		signs  []string
		timers []string
	}{
		"a short call": {1, func(b *bench) { b.answer(time.Hour, 0, approval.Allow) }, begin,
			[]string{"begins", "running", "memo 0"}, []string{"set", "stopped"}},
		"a long call": {1, func(b *bench) { b.lasts(time.Hour); b.answer(time.Hour, 0, approval.Allow) }, begin,
			[]string{"begins", "running", "memo 0"}, []string{"set", "rang"}},
		"a refusal": {1, func(b *bench) { b.answer(time.Hour, 0, approval.Deny) }, begin,
			[]string{"running", "memo 0"}, nil},
		"short calls while another waits": {2, func(b *bench) { b.answer(time.Hour, 0, approval.Allow); b.answer(2*time.Hour, 0, approval.Allow) }, two,
			[]string{"begins", "waiting run", "memo 1", "begins", "running", "memo 0"}, []string{"set", "stopped", "set", "stopped"}},
		"a long call while another waits": {2, func(b *bench) {
			b.lasts(time.Hour)
			b.answer(time.Hour, 0, approval.Allow)
			b.answer(10*time.Hour, 0, approval.Deny)
		}, two, []string{"begins", "running", "memo 0", "waiting run", "memo 1", "running", "memo 0"}, []string{"set", "rang"}},
		"a long call while very many wait": {12, func(b *bench) {
			b.lasts(time.Hour)
			b.answer(time.Hour, 0, approval.Allow)
			b.all(10*time.Hour, slices.Repeat([]approval.Choice{approval.Deny}, 11)...)
		}, []string{"running", "waiting run", "memo 10"}, []string{"begins", "running", "memo 0", "waiting run", "memo 10", "running", "memo 0"}, []string{"set", "rang"}},
		"a call that begins when another ends": {2, func(b *bench) {
			b.lasts(800 * time.Millisecond)
			b.answer(time.Hour, 0, approval.Allow)
			b.answer(time.Hour+500*time.Millisecond, 0, approval.Allow)
		}, two, []string{"begins", "begins", "running", "memo 0"}, []string{"set", "rang"}},
		"a burst of short calls": {8, func(b *bench) {
			b.all(time.Hour, slices.Repeat([]approval.Choice{approval.Allow}, 8)...)
		}, []string{"running", "waiting run", "memo 8"}, append(slices.Repeat([]string{"begins"}, 8), "running", "memo 0"), []string{"set", "stopped"}},
		"the last question is refused while another's call runs": {2, func(b *bench) {
			b.lasts(500 * time.Millisecond)
			b.all(time.Hour, approval.Allow, approval.Deny)
		}, two, []string{"begins", "running", "memo 0"}, []string{"set", "stopped"}},
		"the last question is refused while another's long call runs": {2, func(b *bench) {
			b.lasts(time.Hour)
			b.all(time.Hour, approval.Allow, approval.Deny)
		}, two, []string{"begins", "running", "memo 0"}, []string{"set", "rang"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, asking(asks(tc.calls)))
			s := b.watched()
			tc.play(b)
			res := b.run(protocol.AgentInput{})
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, append(append(tc.begin, tc.signs...), "done"), s.signs)
			require.Equal(t, tc.timers, s.timers)
		})
	}
}

// A run that is stopped in the second after an answer shows at its end that nothing waits.
func TestSignsOfARunThatIsStopped(t *testing.T) {
	after := time.Hour + 500*time.Millisecond
	for name, tc := range map[string]struct {
		stop   func(b *bench)
		limits *protocol.Limits
		status protocol.Status
	}{
		"cancelled":      {cancelled, nil, protocol.Cancelled},
		"the wall clock": {func(*bench) {}, &protocol.Limits{WallClock: after}, protocol.LimitHit},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, asking(asks(2)))
			s := b.watched()
			b.lasts(time.Hour)
			b.answer(time.Hour, 0, approval.Allow)
			b.env.RegisterDelayedCallback(func() { tc.stop(b) }, after)
			res := b.run(protocol.AgentInput{Limits: tc.limits})
			require.Equal(t, tc.status, res.Status, res.Error)
			require.Equal(t, []string{"running", "waiting run", "memo 2", "begins", "running", "memo 0", "done"}, s.signs)
			require.NotContains(t, s.timers, "rang")
		})
	}
}

func cancelled(b *bench) { b.env.CancelWorkflow() }

// The next life of an agent whose environment was lost begins with nothing that waits.
func TestSignsOfALostEnvironment(t *testing.T) {
	s, _ := inTree(0, asks(2))
	b := newBench(t, s)
	seen := b.watched()
	lost := true
	b.env.OnActivity(protocol.ToolPrefix+"run", mock.Anything, mock.Anything).Return(func(context.Context, tool.Call) (tool.Result, error) {
		if lost {
			lost = false
			return tool.Fail(tool.EnvironmentLost, "gone"), nil
		}
		return tool.Result{Code: tool.OK, Value: json.RawMessage("1")}, nil
	})
	b.answer(time.Hour, 0, approval.Allow)
	b.answer(2*time.Hour, 0, approval.Allow)
	b.answer(3*time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, 1, res.Restarts)
	require.Equal(t, []string{"running", "waiting run", "memo 2",
		"begins", "waiting run", "memo 1", "running", "memo 0",
		"waiting run", "memo 2", "begins", "waiting run", "memo 1", "running", "memo 0", "done"}, seen.signs)
	require.Equal(t, []string{"set", "stopped", "set", "stopped"}, seen.timers)
}

// A run that leaves the rest of a turn to the next one has shown what waits, and no timer runs.
func TestSignsOfARunThatContinues(t *testing.T) {
	b := newBench(t, asking(asks(2)))
	s := b.watched()
	b.lasts(500 * time.Millisecond)
	b.answer(time.Hour, 0, approval.Allow)
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, time.Hour+200*time.Millisecond)
	l := b.begin(protocol.AgentInput{})
	require.Len(t, l.state.Ledger.Open, 1)
	open := []string{l.state.Ledger.Open[0].Key}
	require.Equal(t, protocol.BoardState{Status: protocol.StatusWaiting, Shown: open, Memo: open}, l.state.Board)
	require.Equal(t, []string{"running", "waiting run", "memo 2", "begins", "waiting run", "memo 1"}, s.signs)
	require.NotContains(t, s.timers, "rang")

	b.goOn()
	s = b.watched()
	b.lasts(time.Hour)
	b.answer(time.Hour, 0, approval.Allow)
	res := b.finish(l)
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"begins", "running", "memo 0", "done"}, s.signs)
	require.Equal(t, []string{"set", "rang"}, s.timers)
}

// While it is asked whether the namespace still has the attributes, the call that goes on may end: then what is true is shown once.
func TestSignsThatAreOutOfDate(t *testing.T) {
	s := asking(asks(2))
	s.attributes = activities.AssentAttributes
	b := newBench(t, s)
	seen := b.watched()
	doubts := 0
	b.env.OnActivity(activities.AssentAttributes, mock.Anything).Return(func(context.Context) (protocol.AttributesResponse, error) {
		doubts++
		return protocol.AttributesResponse{Attributes: true}, nil
	}).AfterFn(func() time.Duration {
		// The first is about what the timer shows; the call ends before it is known.
		return 10 * time.Second
	})
	b.lasts(5 * time.Second)
	b.answer(time.Hour, 0, approval.Allow)
	b.answer(2*time.Hour, 0, approval.Deny)
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.NotZero(t, doubts)
	require.Equal(t, []string{"running", "waiting run", "memo 2", "begins", "waiting run", "memo 1", "running", "memo 0", "done"}, seen.signs)
}

// A team's own history gets no timers of ours.
func TestSignsOfAGuardedWorkflowHaveNoTimer(t *testing.T) {
	b := newTeams(t, askPay)
	timers := 0
	b.env.SetOnTimerScheduledListener(func(string, time.Duration) { timers++ })
	b.answer(time.Hour, approval.Resolution{Decision: approval.Allow, By: "alice"})
	var value string
	require.NoError(t, b.run(func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, "pay", payment{"bob", 5}).Get(ctx, &value)
	}))
	require.Equal(t, "paid bob", value)
	require.Zero(t, timers)
}

// Whatever is answered when and however long calls take: a call that was there a second ago is shown as running, a run that only
// waits shows exactly what it waits for, and one timer runs at a time.
func TestSignsAreNeverFalseForLong(t *testing.T) {
	for seed := range int64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewSource(seed))
			n := 1 + r.Intn(12)
			b := newBench(t, asking(asks(n)))
			s := b.watched()
			b.env.OnActivity(protocol.ToolPrefix+"run", mock.Anything, mock.Anything).AfterFn(func() time.Duration {
				return time.Duration(1+r.Intn(40)) * 100 * time.Millisecond
			}).Return(tool.Result{Code: tool.OK, Value: json.RawMessage("1")}, nil)
			end := time.Duration(10+r.Intn(200)) * 100 * time.Millisecond
			for range n {
				b.env.RegisterDelayedCallback(func() {
					if p := b.list().Pending; len(p) > 0 {
						choice := []approval.Choice{approval.Allow, approval.Allow, approval.Deny}[r.Intn(3)]
						b.env.SignalWorkflow(protocol.SignalApproval, approval.Resolution{Key: p[r.Intn(len(p))].Key, Decision: choice, By: "alice"})
					}
				}, time.Hour+time.Duration(r.Int63n(int64(end))).Round(100*time.Millisecond))
			}
			if r.Intn(3) == 0 {
				b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour+end/2)
			} else {
				b.env.RegisterDelayedCallback(b.env.CancelWorkflow, 10*time.Hour)
			}
			var before []approval.Granted
			for at := time.Hour; at < time.Hour+2*end+time.Minute; at += 1100 * time.Millisecond {
				b.env.RegisterDelayedCallback(func() {
					if b.env.IsWorkflowCompleted() {
						return
					}
					l := b.list()
					for _, g := range l.Granted {
						same := func(o approval.Granted) bool { return o.Key == g.Key }
						require.False(t, slices.ContainsFunc(before, same) && strings.HasPrefix(s.last(false), "waiting"), "%s runs: %v", g.Key, s.signs)
					}
					before = l.Granted
					if len(l.Pending) > 0 && len(l.Granted) == 0 && len(l.Pending)+len(l.Closed) == n {
						require.Equal(t, "waiting run", s.last(false))
						require.Equal(t, fmt.Sprintf("memo %d", min(len(l.Pending), 10)), s.last(true))
					}
				}, at)
			}
			b.run(protocol.AgentInput{})
			require.Equal(t, "done", s.signs[len(s.signs)-1])
			running := 0
			for _, what := range s.timers {
				if running--; what == "set" {
					running += 2
				}
				require.LessOrEqual(t, running, 1, "%v", s.timers)
			}
		})
	}
}

// last is the memo that is shown, or the status.
func (s *shown) last(memo bool) string {
	for i := len(s.signs) - 1; i >= 0; i-- {
		if what := s.signs[i]; what != "begins" && strings.HasPrefix(what, "memo") == memo {
			return what
		}
	}
	return ""
}
