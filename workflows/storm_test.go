package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// schedule is one agent's story by chance: what comes, comes on the hour, so that much of it comes in one task.
type schedule struct {
	*bench
	rnd   *rand.Rand
	calls int
	// wall allows the run to end otherwise than by its model.
	wall bool
	// slow makes a call of run take an hour or more, so that what comes finds it on its way.
	slow time.Duration
	// left are the keys of the questions that the run before has left.
	left []string
}

// open are the keys that can be answered, or revoked.
func (s *schedule) open() (keys []string) {
	l := s.list()
	for _, q := range l.Pending {
		keys = append(keys, q.Key)
	}
	for _, g := range l.Granted {
		keys = append(keys, g.Key)
	}
	return keys
}

func newSchedule(t *testing.T, seed uint64) *schedule {
	s := &schedule{rnd: rand.New(rand.NewPCG(seed, 7))}
	var script strings.Builder
	script.WriteString("turns:\n")
	for range 1 + s.rnd.IntN(3) {
		script.WriteString("  - calls: [")
		for range 1 + s.rnd.IntN(5) {
			s.calls++
			fmt.Fprintf(&script, "{tool: %s, args: {path: p%d}}, ", []string{"run", "run", "run", "look", "change", "nowhere"}[s.rnd.IntN(6)], s.calls)
		}
		script.WriteString("]\n")
	}
	script.WriteString("  - say: done\n")
	p := permission.ApprovalPolicy{}
	if s.rnd.IntN(2) == 0 {
		p.Deadline = time.Duration(5+s.rnd.IntN(20)) * time.Hour
	}
	if s.rnd.IntN(2) == 0 {
		p.Remind = time.Duration(1+s.rnd.IntN(4)) * time.Hour
	}
	if s.rnd.IntN(4) == 0 {
		p.Approvers = &permission.Approvers{Groups: []string{"ops"}, Min: 2}
	}
	if s.rnd.IntN(3) == 0 {
		s.slow = time.Duration(1+s.rnd.IntN(3)) * time.Hour
	}
	set := needing(p, script.String())
	if set.profile.Limits.MaxIdleTurns = 50; s.rnd.IntN(6) == 0 {
		s.wall, set.profile.Limits.WallClock = true, time.Duration(5+s.rnd.IntN(30))*time.Hour
	}
	if s.rnd.IntN(3) == 0 {
		robot, mu := rand.New(rand.NewPCG(seed, 8)), sync.Mutex{}
		set.plugins = append(set.plugins, approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			if robot.IntN(4) == 0 {
				return pipeline.Allow(), nil
			}
			return pipeline.Answer{}, pipeline.ErrUnavailable
		}))
	}
	s.bench = newBench(t, set)
	s.slows()
	return s
}

func (s *schedule) slows() {
	if s.slow == 0 {
		return
	}
	s.env.OnActivity(protocol.ToolPrefix+"run", mock.Anything, mock.Anything).After(s.slow).Return(
		func(_ context.Context, c tool.Call) (tool.Result, error) {
			var in pathIn
			if err := json.Unmarshal(c.Input, &in); err != nil {
				return tool.Result{}, err
			}
			s.began("run", in.Path)
			return tool.Result{Code: tool.OK, Value: c.Input}, nil
		})
}

// comes makes something come at an hour of the run.
func (s *schedule) comes(hour int) {
	what, pick, choice := s.rnd.IntN(8), s.rnd.IntN(100), []approval.Choice{approval.Allow, approval.Allow, approval.Deny, approval.Revoke}[s.rnd.IntN(4)]
	s.env.RegisterDelayedCallback(func() {
		keys := s.left
		if hour > 0 {
			keys = s.open()
		} else if what < 4 {
			what = 4
		}
		r := protocol.Resolution{Key: "nobody", Decision: choice, By: []string{"alice", "bob"}[pick%2]}
		if len(keys) > 0 {
			r.Key = keys[pick%len(keys)]
		}
		switch what {
		case 0:
			s.env.SetContinueAsNewSuggested(true)
		case 1:
			s.env.SignalWorkflow(protocol.SignalApproval, "nonsense")
		case 2, 3:
			s.env.UpdateWorkflow(protocol.UpdateResolve, "", &outcome{}, r)
		default:
			s.env.SignalWorkflow(protocol.SignalApproval, r)
		}
	}, time.Duration(hour)*time.Hour)
}

// play plays the agent through all its runs.
func (s *schedule) play() (res protocol.AgentResult, runs int) {
	s.t.Helper()
	args := []any{protocol.AgentInput{AgentType: "p", Prompt: "go"}}
	for runs = 1; ; runs++ {
		require.Less(s.t, runs, 60, "it continues without end")
		for range s.rnd.IntN(12) {
			s.comes(s.rnd.IntN(12))
		}
		for hour := 20; hour < 400; hour += 5 {
			s.env.RegisterDelayedCallback(func() { s.env.SignalWorkflow(protocol.SignalApproval, "deny") }, time.Duration(hour)*time.Hour)
		}
		env := s.env
		env.RegisterDelayedCallback(func() { require.Fail(s.t, "it hangs", "%+v", s.list()); env.CancelWorkflow() }, 500*time.Hour)
		env.ExecuteWorkflow(protocol.WorkflowAgent, args...)
		err := env.GetWorkflowError()
		var next *workflow.ContinueAsNewError
		if !errors.As(err, &next) {
			require.NoError(s.t, err)
			require.NoError(s.t, env.GetWorkflowResult(&res))
			return res, runs
		}
		var l left
		require.NoError(s.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &l.in, &l.state))
		waits := 0
		for _, st := range l.state.Steps {
			if st.Result == nil {
				waits++
			}
		}
		if waits > 0 {
			require.Equal(s.t, protocol.StatusWaiting, l.state.Board.Status)
			require.Len(s.t, l.state.Board.Shown, waits)
		} else {
			require.Equal(s.t, protocol.StatusRunning, l.state.Board.Status)
		}
		require.Len(s.t, l.state.Ledger.Open, waits)
		s.left = nil
		for _, q := range l.state.Ledger.Open {
			s.left = append(s.left, q.Key)
		}
		at := env.Now()
		s.goOn()
		s.slows()
		s.env.SetStartTime(at)
		args = []any{l.in, l.state}
	}
}

// Stories by chance, with all that comes coming at once: none hangs or continues without end, each call has one result, and
// one that was not OK did not run.
func TestSchedulesByChance(t *testing.T) {
	first, n := uint64(time.Now().UnixNano()), 25
	if text := os.Getenv("ASSENT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		first, n = seed, 1
	} else if os.Getenv("ASSENT_LONG") == "1" {
		n = 3000
	}
	total, codes := 0, map[string]int{}
	for i := range n {
		seed := first + uint64(i)
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("to repeat it: ASSENT_SEED=%d go test ./workflows -run TestSchedulesByChance", seed)
			s := newSchedule(t, seed)
			res, runs := s.play()
			total += runs
			if s.wall && res.Status == protocol.LimitHit {
				return
			}
			require.Equal(t, protocol.OK, res.Status, res.Error)
			results := s.results(res)
			require.Len(t, results, s.calls)
			for n, r := range results {
				path, ran := fmt.Sprintf("p%d", n+1), 0
				for _, got := range s.ran[r.Name] {
					if got == path {
						ran++
					}
				}
				want := 0
				if r.Result.IsOK() {
					want = 1
				}
				if r.Result.Code == tool.Aborted {
					want = ran
				}
				require.Equal(t, want, ran, "%s: %v", path, r.Result)
			}
			for _, c := range s.codes(res) {
				codes[c]++
			}
		})
		if !ok {
			break
		}
	}
	t.Logf("%d agents, %d runs, told %v", n, total, codes)
}
