package follow_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/assent-dev/assent/follow"
)

// A server may go away after it has given a run's last event and before it has said that there is no other one.
func TestAFeedKnowsAnEndThatItHasSeen(t *testing.T) {
	t.Parallel()
	whole := history(t, "asked-and-allowed")
	s := &server{runs: map[string][]run{"w": {{"r", whole}}}, cuts: map[string]int{"r": len(whole)}}
	feed, err := follow.Start(context.Background(), s, "w", "", follow.Options{Wait: true})
	require.NoError(t, err)
	require.Equal(t, kinds(read(t, "asked-and-allowed")), kinds(collect(feed)))
	end, err := feed.Wait()
	require.NoError(t, err)
	require.NotNil(t, end)
}

// away is a server that does not answer looks at these workflows so many times.
type away struct {
	*server
	mu    sync.Mutex
	looks map[string]int
	// after is how many looks it answers first.
	after map[string]int
}

func (a *away) DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.after[workflowID]--; a.after[workflowID] < 0 && a.looks[workflowID] > 0 {
		a.looks[workflowID]--
		return nil, serviceerror.NewUnavailable("the server restarts")
	}
	return a.server.DescribeWorkflow(ctx, workflowID, runID)
}

// A server may go away also while it is asked where a run goes on, or for a child.
func TestAFeedWaitsForAServerWhateverItAsks(t *testing.T) {
	t.Parallel()
	ended := slices.Clone(history(t, "asked-and-allowed"))
	ended[len(ended)-1] = &historypb.HistoryEvent{EventId: int64(len(ended)), EventTime: ended[0].EventTime,
		EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{}}}
	s := &away{server: &server{runs: map[string][]run{"plan": {{"p", parent("kid")}}, "kid": {{"c", ended}}}},
		looks: map[string]int{"kid": 2}}
	for _, answered := range []int{0, 1} {
		s.after, s.looks = map[string]int{"kid": answered}, map[string]int{"kid": 2}
		feed, err := follow.Start(context.Background(), s, "plan", "", follow.Options{Wait: true, Children: true})
		require.NoError(t, err)
		got := collect(feed)
		_, err = feed.Wait()
		require.NoError(t, err)
		require.Len(t, of(got, follow.AgentEnd), 2)
		require.Zero(t, s.looks["kid"])
	}
	// One that stays away is not waited for for ever.
	s.after, s.looks = map[string]int{}, map[string]int{"kid": 1000}
	feed, err := follow.Start(context.Background(), s, "plan", "", follow.Options{Wait: true, Children: true, Patience: time.Millisecond})
	require.NoError(t, err)
	_, err = feed.Wait()
	var gone *serviceerror.Unavailable
	require.ErrorAs(t, err, &gone)
}

// idle is a server that goes away while nothing happens, so many times, and whose whole history can be had in between.
type idle struct {
	*server
	mu    sync.Mutex
	times int
	// stuck says that what comes behind the first events cannot be had at all.
	stuck bool
}

func (i *idle) GetWorkflowHistory(ctx context.Context, workflowID, runID string, wait bool, f enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	i.mu.Lock()
	defer i.mu.Unlock()
	whole := i.runs[workflowID][0].events
	switch {
	case i.stuck:
		return &iterator{ctx: ctx, events: whole, cut: 5}
	case i.times > 0 && wait:
		i.times--
		return &iterator{ctx: ctx, events: whole[:5], cut: 5}
	case i.times > 0:
		return &iterator{ctx: ctx, events: whole[:5], cut: -1}
	}
	return i.server.GetWorkflowHistory(ctx, workflowID, runID, wait, f)
}

// Patience is for each time that the server goes away: hours may lie between two, in which nothing has happened.
func TestAFeedIsPatientEachTime(t *testing.T) {
	t.Parallel()
	whole := history(t, "asked-and-allowed")
	s := &idle{server: &server{runs: map[string][]run{"w": {{"r", whole}}}}, times: 3}
	feed, err := follow.Start(context.Background(), s, "w", "", follow.Options{Wait: true, Patience: 500 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, kinds(read(t, "asked-and-allowed")), kinds(collect(feed)))
	_, err = feed.Wait()
	require.NoError(t, err)
	// A server that gives some of a history, and never the rest, is one that stays away.
	s.stuck = true
	feed, err = follow.Start(context.Background(), s, "w", "", follow.Options{Wait: true, Patience: 500 * time.Millisecond})
	require.NoError(t, err)
	_, err = feed.Wait()
	var gone *serviceerror.Unavailable
	require.ErrorAs(t, err, &gone)
}

func clones(events []*historypb.HistoryEvent) (out []*historypb.HistoryEvent) {
	for _, e := range events {
		out = append(out, proto.Clone(e).(*historypb.HistoryEvent))
	}
	return out
}

func isReset(e *historypb.HistoryEvent) bool {
	return e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
}

// terminated are events, of which another reset has terminated the run.
func terminated(events []*historypb.HistoryEvent) []*historypb.HistoryEvent {
	last := events[len(events)-1]
	return append(slices.Clone(events), &historypb.HistoryEvent{EventId: last.EventId + 1, EventTime: last.EventTime,
		EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: "reset"}}})
}

// A run that was reset is reset again, to a point behind the first one: the history of the third run tells of both.
func TestAFeedGoesOnAfterASecondReset(t *testing.T) {
	t.Parallel()
	second := history(t, "reset")
	original := second[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()
	first := slices.IndexFunc(second, isReset)
	// The workflow task in which the second run asks is the one that is gone back to.
	at := first + 1 + slices.IndexFunc(second[first+1:], func(e *historypb.HistoryEvent) bool {
		return e.GetActivityTaskCompletedEventAttributes() != nil
	})
	require.Greater(t, at, first+1)
	third := clones(second)
	anew := proto.Clone(second[first]).(*historypb.HistoryEvent)
	anew.EventTime = timestamppb.New(second[len(second)-1].EventTime.AsTime().Add(time.Second))
	third = slices.Insert(third, at+1, anew)
	for i, e := range third {
		e.EventId = int64(i + 1)
	}
	s := &server{runs: map[string][]run{"w": {{original, terminated(second[:first])}, {"second", terminated(second[:at+1])}, {"third", third}}}}
	// The latest run is the one that a reset is looked for in: the third is there once the second has been read.
	s.runs["w"] = s.runs["w"][:2]
	feed, err := follow.Start(context.Background(), &growing{s, run{"third", third}}, "w", original, follow.Options{Wait: true})
	require.NoError(t, err)
	got := collect(feed)
	_, err = feed.Wait()
	require.NoError(t, err)
	resets := of(got, follow.Reset)
	require.Len(t, resets, 2)
	require.Equal(t, []string{"second", "third"}, []string{resets[0].RunID, resets[1].RunID})
	told := map[int64]string{}
	for _, e := range got {
		if e.EventID <= int64(at+1) && e.EventID > int64(first+1) {
			require.Contains(t, []string{"", e.RunID}, told[e.EventID], "event %d is told of two runs", e.EventID)
			told[e.EventID] = e.RunID
		}
	}
	require.NotEmpty(t, told)
}

// growing is a server whose workflow w gets another run when its second one is read.
type growing struct {
	*server
	next run
}

func (g *growing) GetWorkflowHistory(ctx context.Context, workflowID, runID string, wait bool, f enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	if g.next.id != "" && wait && runID == "second" {
		g.runs["w"] = append(g.runs["w"], g.next)
		g.next = run{}
	}
	return g.server.GetWorkflowHistory(ctx, workflowID, runID, wait, f)
}

// A history may be rewritten behind any of its events, more than once, and in a run that was reset: what is in it in the end is
// told once.
func TestAFeedOfARewrittenHistory(t *testing.T) {
	t.Parallel()
	moved := serviceerror.NewInvalidArgument("Current and request branch tokens, or current and request versioned transitions, don't match.")
	numbered := func(name string) []*historypb.HistoryEvent {
		events := clones(history(t, name))
		for i, e := range events {
			e.TaskId = int64(100 + i)
		}
		return events
	}
	// lost is a signal of no meaning, that was never written.
	lost := func(whole []*historypb.HistoryEvent, n int) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventId: int64(n + 1), TaskId: 7, EventTime: whole[n].EventTime, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED}
	}
	whole, again := numbered("asked-and-allowed"), numbered("reset")
	original := again[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()
	reset := slices.IndexFunc(again, isReset)
	behind := func(events []*historypb.HistoryEvent, n int) []reading {
		return []reading{{append(slices.Clone(events[:n]), lost(events, n)), moved}, {events[:n], moved}}
	}
	for n := 1; n < len(whole); n++ {
		for name, before := range map[string][]reading{
			"once":  behind(whole, n),
			"short": {{append(slices.Clone(whole[:n]), lost(whole, n)), moved}, {whole[:n-1], nil}, {whole[:n], moved}},
			"twice": append(behind(whole, n), behind(whole, max(n-3, 1))...),
		} {
			s := &server{runs: map[string][]run{"w": {{"r", whole}}}, before: map[string][]reading{"r": before}}
			rewrittenTo(t, s, name, n, "r", "asked-and-allowed")
		}
	}
	for n := reset + 1; n < len(again); n++ {
		s := &server{runs: map[string][]run{"w": {{original, terminated(again[:reset])}, {"reset-run", again}}},
			before: map[string][]reading{"reset-run": nil}}
		rewrittenTo(t, &resetting{s, behind(again, n)}, "reset", n, original, "reset")
	}
}

// resetting is a server that gives the readings to whoever follows the reset run.
type resetting struct {
	*server
	readings []reading
}

func (r *resetting) GetWorkflowHistory(ctx context.Context, workflowID, runID string, wait bool, f enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	if runID == "reset-run" && wait {
		r.before[runID] = append(r.before[runID], r.readings...)
		r.readings = nil
	}
	return r.server.GetWorkflowHistory(ctx, workflowID, runID, wait, f)
}

func rewrittenTo(t *testing.T, s client.Client, name string, n int, first, want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		feed, err := follow.Start(context.Background(), s, "w", first, follow.Options{Wait: true})
		require.NoError(t, err)
		got := collect(feed)
		_, err = feed.Wait()
		require.NoError(t, err)
		// What was told of a lost one cannot be taken back.
		got = slices.DeleteFunc(got, func(e follow.Event) bool { return e.Kind == follow.Signal })
		require.Equal(t, kinds(read(t, want)), kinds(got), "%s, behind %d", name, n)
	})
}

// forgetful is a server that deletes a workflow whose end it has told.
type forgetful struct {
	*server
	looks int
	err   error
}

func (f *forgetful) DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error) {
	if f.looks--; f.looks < 0 {
		return nil, f.err
	}
	return f.server.DescribeWorkflow(ctx, workflowID, runID)
}

// Whoever deletes a workflow that runs terminates it: its follower has seen the end, and nothing goes on.
func TestAFeedKnowsTheEndOfADeletedRun(t *testing.T) {
	t.Parallel()
	ended := terminated(history(t, "asked-and-allowed")[:9])
	for _, runID := range []string{"", "r"} {
		s := &forgetful{&server{runs: map[string][]run{"w": {{"r", ended}}}}, 1, serviceerror.NewNotFound("workflow not found for ID: w")}
		feed, err := follow.Start(context.Background(), s, "w", runID, follow.Options{Wait: true})
		require.NoError(t, err)
		got := collect(feed)
		end, err := feed.Wait()
		require.NoError(t, err)
		require.NotNil(t, end)
		require.Equal(t, "terminated", end.Closed)
		require.Len(t, of(got, follow.AgentEnd), 1)
	}
	// A namespace that is gone, or that one may not look at any more, is an error.
	for _, err := range []error{serviceerror.NewNamespaceNotFound("default"), serviceerror.NewPermissionDenied("no", "")} {
		s := &forgetful{&server{runs: map[string][]run{"w": {{"r", ended}}}}, 1, err}
		feed, started := follow.Start(context.Background(), s, "w", "", follow.Options{Wait: true})
		require.NoError(t, started)
		_, got := feed.Wait()
		require.ErrorIs(t, got, err)
	}
}

// A server that has too much to do, or whose namespace moves, says so in other words.
func TestAFeedWaitsForAServerThatIsBusy(t *testing.T) {
	t.Parallel()
	whole := history(t, "asked-and-allowed")
	for _, busy := range []error{
		serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "namespace rate limit exceeded"),
		serviceerror.NewNamespaceUnavailable("default"),
		serviceerror.NewAborted("try again"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{runs: map[string][]run{"w": {{"r", whole}}}, before: map[string][]reading{"r": {{whole[:5], busy}}}}
			feed, err := follow.Start(context.Background(), s, "w", "", follow.Options{Wait: true})
			require.NoError(t, err)
			require.Equal(t, kinds(read(t, "asked-and-allowed")), kinds(collect(feed)))
			_, err = feed.Wait()
			require.NoError(t, err)
		})
	}
}

// A reset may terminate a run right behind a decision, which is held back until its batch is whole.
func TestAFeedTellsTheLastDecisionBeforeAReset(t *testing.T) {
	t.Parallel()
	after := history(t, "reset")
	original := after[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()
	reset := slices.IndexFunc(after, isReset)
	marker := reset + slices.IndexFunc(after[reset:], func(e *historypb.HistoryEvent) bool { return e.GetMarkerRecordedEventAttributes() != nil })
	require.Greater(t, marker, reset)
	// The run that is reset went as far as the other one.
	before := terminated(slices.Delete(clones(after[:marker+1]), reset, reset+1))
	s := &server{runs: map[string][]run{"w": {{original, before}, {"reset-run", after}}}}
	feed, err := follow.Start(context.Background(), s, "w", original, follow.Options{Wait: true})
	require.NoError(t, err)
	got := collect(feed)
	_, err = feed.Wait()
	require.NoError(t, err)
	count := func(run string, k follow.Kind) int {
		return len(slices.DeleteFunc(of(got, k), func(e follow.Event) bool { return e.RunID != run }))
	}
	for _, k := range []follow.Kind{follow.Decision, follow.ApprovalPending} {
		require.Equal(t, 1, count(original, k), k)
		require.Equal(t, 1, count("reset-run", k), k)
	}
}

// Whoever began to follow behind a reset is not told of it when a run from before is reset once more.
func TestAFeedGoesOnAfterTheResetOfARunThatWasReset(t *testing.T) {
	t.Parallel()
	second := history(t, "reset")
	original := second[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()
	first := slices.IndexFunc(second, isReset)
	at := first + 1 + slices.IndexFunc(second[first+1:], func(e *historypb.HistoryEvent) bool {
		return e.GetActivityTaskCompletedEventAttributes() != nil
	})
	last := second[len(second)-1].EventTime.AsTime()
	anew := proto.Clone(second[first]).(*historypb.HistoryEvent)
	anew.EventTime = timestamppb.New(last.Add(2 * time.Second))
	third := slices.Insert(clones(second), at+1, anew)
	for i, e := range third {
		e.EventId = int64(i + 1)
	}
	went := clones(history(t, "asked-and-allowed"))[:9]
	went[0].EventTime = timestamppb.New(last.Add(time.Second))
	a := went[0].GetWorkflowExecutionStartedEventAttributes()
	a.FirstExecutionRunId, a.OriginalExecutionRunId = second[0].GetWorkflowExecutionStartedEventAttributes().GetFirstExecutionRunId(), "went"
	a.ContinuedExecutionRunId, a.Initiator = "second", enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
	s := &server{runs: map[string][]run{"w": {{original, terminated(second[:first])}, {"went", terminated(went)}, {"third", third}}}}
	feed, err := follow.Start(context.Background(), s, "w", "went", follow.Options{Wait: true})
	require.NoError(t, err)
	got := collect(feed)
	_, err = feed.Wait()
	require.NoError(t, err)
	require.Len(t, of(got, follow.AgentEnd), 1)
	for _, e := range got {
		if e.RunID == "third" {
			require.GreaterOrEqual(t, e.EventID, int64(at+2), "%s was before", e.Kind)
		}
	}
	require.Len(t, of(got, follow.Reset), 1)
}
