package follow_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

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
