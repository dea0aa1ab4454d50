package follow_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/assent-dev/assent/follow"
)

// continued are the runs of an agent that continued as new twice, while three questions waited and then two.
func continued(t testing.TB) (runs []run) {
	t.Helper()
	for i := range 3 {
		events := history(t, fmt.Sprintf("continued-%d", i+1))
		runs = append(runs, run{events[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId(), events})
	}
	return runs
}

// Over all its runs a question is told once, when it is asked, and closed once; whoever begins in the midst is told of what is
// open there, under the same keys.
func TestQuestionsGoOnFromRunToRun(t *testing.T) {
	runs := continued(t)
	s := &server{runs: map[string][]run{"w": runs}}
	feed, err := follow.Start(context.Background(), s, "w", "", follow.Options{FromFirst: true})
	require.NoError(t, err)
	all := collect(feed)
	for kind, n := range map[follow.Kind]int{follow.AgentStart: 3, follow.AgentReady: 1, follow.ApprovalPending: 3, follow.ApprovalClosed: 3,
		follow.ApprovalVote: 2, follow.Decision: 6, follow.Turn: 3, follow.ToolEnd: 5, follow.Continued: 2, follow.AgentEnd: 1} {
		require.Len(t, of(all, kind), n, kind)
	}
	asked := map[string]bool{}
	for _, e := range of(all, follow.ApprovalPending) {
		require.Equal(t, runs[0].id, e.RunID)
		asked[e.Question.Key] = true
	}
	for _, e := range of(all, follow.ApprovalClosed) {
		require.True(t, asked[e.Closed.Key])
	}
	require.Equal(t, []int{0, 1, 2}, []int{of(all, follow.AgentStart)[0].Start.RunsBefore, of(all, follow.AgentStart)[1].Start.RunsBefore,
		of(all, follow.AgentStart)[2].Start.RunsBefore})

	for i, want := range []int{3, 3, 2} {
		alone := follow.NewReader("w", "", nil)
		var told []follow.Event
		for _, e := range runs[i].events {
			told = append(told, alone.Read(e)...)
		}
		pending := of(told, follow.ApprovalPending)
		require.Len(t, pending, want, "run %d", i+1)
		require.Len(t, of(told, follow.AgentReady), 1)
		for _, e := range pending {
			require.True(t, asked[e.Question.Key])
			require.NotEmpty(t, e.Question.Input)
		}
	}
}

// Without a state that can be read, what is known of the run before is kept; without any there are no questions.
func TestAStateThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*historypb.WorkflowExecutionStartedEventAttributes)
		open   int
	}{
		"encrypted": {func(a *historypb.WorkflowExecutionStartedEventAttributes) {
			a.Input.Payloads[1].Metadata["encoding"] = []byte("binary/encrypted")
		}, 3},
		"none":          {func(a *historypb.WorkflowExecutionStartedEventAttributes) { a.Input.Payloads = a.Input.Payloads[:1] }, 0},
		"of a starter":  {func(a *historypb.WorkflowExecutionStartedEventAttributes) { a.ContinuedExecutionRunId = "" }, 0},
		"of a schedule": {func(a *historypb.WorkflowExecutionStartedEventAttributes) { a.CronSchedule = "* * * * *" }, 0},
	} {
		runs := continued(t)
		r := follow.NewReader("w", "", nil)
		for _, e := range runs[0].events {
			r.Read(e)
		}
		require.Len(t, r.Pending(), 3)
		tc.change(runs[1].events[0].GetWorkflowExecutionStartedEventAttributes())
		r.Read(runs[1].events[0])
		require.Len(t, r.Pending(), tc.open, name)
	}
}

// The history of a run that another one went on in may be rewritten too: what the run took over is not told again.
func TestARewrittenRunTellsNothingAgainThatItTookOver(t *testing.T) {
	t.Parallel()
	moved := serviceerror.NewInvalidArgument("Current and request branch tokens, or current and request versioned transitions, don't match.")
	runs := continued(t)
	want := func() []follow.Kind {
		feed, err := follow.Start(context.Background(), &server{runs: map[string][]run{"w": runs}}, "w", runs[0].id, follow.Options{Wait: true})
		require.NoError(t, err)
		return kinds(collect(feed))
	}()
	for i := range runs[1:] {
		whole := runs[i+1]
		for n := 1; n < len(whole.events); n++ {
			synctest.Test(t, func(t *testing.T) {
				gone := &historypb.HistoryEvent{EventId: int64(n + 1), TaskId: 7, EventTime: whole.events[n].EventTime,
					EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED}
				s := &server{runs: map[string][]run{"w": runs}, before: map[string][]reading{whole.id: {
					{append(slices.Clone(whole.events[:n]), gone), moved}, {whole.events[:n], moved}}}}
				feed, err := follow.Start(context.Background(), s, "w", runs[0].id, follow.Options{Wait: true})
				require.NoError(t, err)
				got := slices.DeleteFunc(collect(feed), func(e follow.Event) bool { return e.EventID == gone.EventId && e.Kind == follow.Signal })
				_, err = feed.Wait()
				require.NoError(t, err)
				require.Equal(t, want, kinds(got), "run %d, behind %d", i+2, n)
			})
		}
	}
}
