package follow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/protocol"
)

// server is a client of a server that has these runs of workflows, by id; the last of each is the latest.
type server struct {
	client.Client
	runs map[string][]run
	// cuts breaks each reading of a history after so many events, the first time.
	cuts map[string]int
	// before are what readings of a history get before it is what it is, each with its error.
	before map[string][]reading
	mu     sync.Mutex
}

// reading is what one reader gets.
type reading struct {
	events []*historypb.HistoryEvent
	err    error
}

type run struct {
	id     string
	events []*historypb.HistoryEvent
}

func (s *server) find(workflowID, runID string) (run, error) {
	runs := s.runs[workflowID]
	if len(runs) > 0 && runID == "" {
		return runs[len(runs)-1], nil
	}
	for _, r := range runs {
		if r.id == runID {
			return r, nil
		}
	}
	return run{}, serviceerror.NewNotFound("there is no such run")
}

func (s *server) DescribeWorkflow(_ context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error) {
	r, err := s.find(workflowID, runID)
	if err != nil {
		return nil, err
	}
	return &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: r.id}}}}, nil
}

func (s *server) GetWorkflowHistory(ctx context.Context, workflowID, runID string, wait bool, _ enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	r, err := s.find(workflowID, runID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.before[runID]; len(of) > 0 {
		s.before[runID] = of[1:]
		return &iterator{ctx: ctx, events: of[0].events, cut: len(of[0].events), broken: of[0].err}
	}
	cut, ok := s.cuts[runID]
	if !ok || !wait {
		cut = -1
	}
	delete(s.cuts, runID)
	return &iterator{ctx: ctx, events: r.events, err: err, cut: cut, wait: wait}
}

// iterator waits at the end of a history that is not over, as the server does.
type iterator struct {
	ctx    context.Context
	events []*historypb.HistoryEvent
	err    error
	at     int
	cut    int
	broken error
	wait   bool
}

func (i *iterator) open() bool {
	return len(i.events) > 0 && i.events[len(i.events)-1].GetWorkflowExecutionCompletedEventAttributes() == nil
}

func (i *iterator) HasNext() bool {
	return i.err != nil || i.at < len(i.events) || i.at == i.cut || i.wait && i.open() && !over(i.events)
}

func over(events []*historypb.HistoryEvent) bool {
	switch events[len(events)-1].GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		return true
	}
	return false
}

func (i *iterator) Next() (*historypb.HistoryEvent, error) {
	switch {
	case i.err != nil:
		return nil, i.err
	case i.at == i.cut && i.broken != nil:
		return nil, i.broken
	case i.at == i.cut:
		return nil, serviceerror.NewUnavailable("the server restarts")
	case i.at < len(i.events):
		i.at++
		return i.events[i.at-1], nil
	}
	<-i.ctx.Done()
	return nil, i.ctx.Err()
}

// relay is an agent in three runs: the first two continue as new.
func relay(t testing.TB) []run {
	t.Helper()
	whole := history(t, "asked-and-allowed")
	var runs []run
	for n, id := range []string{"run-1", "run-2", "run-3"} {
		var events []*historypb.HistoryEvent
		for _, e := range whole {
			events = append(events, proto.Clone(e).(*historypb.HistoryEvent))
		}
		if n > 0 {
			a := events[0].GetWorkflowExecutionStartedEventAttributes()
			a.ContinuedExecutionRunId, a.Initiator = runs[n-1].id, enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
		}
		if n < 2 {
			last := events[len(events)-1]
			last.EventType = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
			last.Attributes = &historypb.HistoryEvent_WorkflowExecutionContinuedAsNewEventAttributes{
				WorkflowExecutionContinuedAsNewEventAttributes: &historypb.WorkflowExecutionContinuedAsNewEventAttributes{NewExecutionRunId: []string{"run-2", "run-3"}[n]}}
		}
		runs = append(runs, run{id, events})
	}
	return runs
}

func collect(feed *follow.Feed) []follow.Event {
	var out []follow.Event
	for e := range feed.Events {
		out = append(out, e)
	}
	return out
}

// each is what says where an event comes from, which no two share that say the same thing.
type each struct {
	run  string
	id   int64
	kind follow.Kind
	call string
}

func once(t testing.TB, events []follow.Event) {
	t.Helper()
	seen := map[each]bool{}
	for _, e := range events {
		k := each{e.RunID, e.EventID, e.Kind, ""}
		if e.Decision != nil {
			k.call = e.Decision.CallID
		}
		require.False(t, seen[k], "%+v is told twice", k)
		seen[k] = true
	}
}

func TestAFeedEndsWithTheRun(t *testing.T) {
	s := &server{runs: map[string][]run{"w": {{"r", history(t, "asked-and-allowed")}}}}
	feed, err := follow.Start(context.Background(), s, "w", "", follow.Options{Wait: true})
	require.NoError(t, err)
	got := collect(feed)
	require.Equal(t, kinds(read(t, "asked-and-allowed")), kinds(got))
	end, err := feed.Wait()
	require.NoError(t, err)
	require.Equal(t, "completed", end.Closed)
	require.Equal(t, protocol.OK, end.Result.Status)
}

// A server may show a workflow task that it has not written, under ids that another event gets, and may take back what it has
// said of its last write.
func TestAFeedIsOfWhatIsWritten(t *testing.T) {
	moved := serviceerror.NewInvalidArgument("Current and request branch tokens, or current and request versioned transitions, don't match.")
	whole := history(t, "asked-and-allowed")
	for i, e := range whole {
		e.TaskId = int64(100 + i)
	}
	asked := slices.IndexFunc(whole, func(e *historypb.HistoryEvent) bool {
		return e.GetWorkflowExecutionSignaledEventAttributes() != nil || e.GetWorkflowExecutionUpdateAcceptedEventAttributes() != nil
	})
	require.Positive(t, asked)
	shown := func(at int, of ...enumspb.EventType) (out []*historypb.HistoryEvent) {
		for i, kind := range of {
			out = append(out, &historypb.HistoryEvent{EventId: int64(at + 1 + i), EventType: kind, EventTime: whole[at].EventTime})
		}
		return out
	}
	task := shown(asked, enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED)
	// gone is a cancel that was never written.
	gone := shown(asked, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED)
	gone[0].TaskId = 7
	want := kinds(read(t, "asked-and-allowed"))
	for name, c := range map[string]struct {
		before []reading
		more   []follow.Kind
	}{
		"a task under way":     {[]reading{{slices.Concat(whole[:asked], task), moved}}, nil},
		"a place that is gone": {[]reading{{whole[:3], moved}, {whole[:3], moved}, {whole[:asked], moved}}, nil},
		"an event that is gone": {[]reading{{slices.Concat(whole[:asked], gone), moved}, {whole[:asked], moved}},
			[]follow.Kind{follow.CancelRequested}},
	} {
		for _, wait := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, wait %v", name, wait), func(t *testing.T) {
				t.Parallel()
				s := &server{runs: map[string][]run{"w": {{"r", whole}}}, before: map[string][]reading{"r": slices.Clone(c.before)}}
				feed, err := follow.Start(context.Background(), s, "w", "", follow.Options{Wait: wait})
				require.NoError(t, err)
				got := collect(feed)
				_, err = feed.Wait()
				require.NoError(t, err)
				require.Empty(t, s.before["r"])
				if c.more == nil {
					require.Equal(t, want, kinds(got))
					return
				}
				// What was told cannot be taken back; all that was written is told, once.
				require.Len(t, got, len(want)+len(c.more))
				require.Equal(t, want, kinds(slices.DeleteFunc(got, func(e follow.Event) bool { return slices.Contains(c.more, e.Kind) })))
			})
		}
	}
}

func TestThereIsNoFeedOfARunThatIsNot(t *testing.T) {
	_, err := follow.Start(context.Background(), &server{}, "w", "", follow.Options{Wait: true})
	var gone *serviceerror.NotFound
	require.ErrorAs(t, err, &gone)
}

// Whoever joins late and asks for all gets the same as whoever was there from the beginning; a server that went away in the
// middle of a run makes nothing come twice.
func TestAFeedGoesOnFromRunToRun(t *testing.T) {
	runs := relay(t)
	s := &server{runs: map[string][]run{"w": runs}, cuts: map[string]int{"run-1": 9, "run-2": 4}}
	early, err := follow.Start(context.Background(), s, "w", "run-1", follow.Options{Wait: true})
	require.NoError(t, err)
	got := collect(early)
	once(t, got)
	require.Len(t, of(got, follow.AgentEnd), 1)
	require.Len(t, of(got, follow.ToolEnd), 3)
	starts := of(got, follow.AgentStart)
	require.Len(t, starts, 3)
	require.Empty(t, starts[0].Start.ContinuedFrom)
	require.Equal(t, "run-2", starts[2].Start.ContinuedFrom)
	require.Equal(t, "run-3", of(got, follow.Continued)[1].Note)
	order := []string{}
	for _, e := range got {
		if order = append(order, e.RunID); len(order) > 1 && order[len(order)-2] == e.RunID {
			order = order[:len(order)-1]
		}
	}
	require.Equal(t, []string{"run-1", "run-2", "run-3"}, order)

	late, err := follow.Start(context.Background(), s, "w", "", follow.Options{FromFirst: true})
	require.NoError(t, err)
	require.Equal(t, got, collect(late))

	// Of what the server has deleted nothing is told.
	s.runs["w"] = runs[1:]
	rest, err := follow.Start(context.Background(), s, "w", "", follow.Options{FromFirst: true})
	require.NoError(t, err)
	require.Equal(t, "run-2", collect(rest)[0].RunID)
}

// A run is reset while it is followed: what was told is not told again.
func TestAFeedGoesOnAfterAReset(t *testing.T) {
	after := history(t, "reset")
	original := after[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()
	var before []*historypb.HistoryEvent
	for _, e := range after {
		if f := e.GetWorkflowTaskFailedEventAttributes(); f != nil && f.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			break
		}
		before = append(before, e)
	}
	ended := proto.Clone(before[len(before)-1]).(*historypb.HistoryEvent)
	ended.EventId, ended.EventType = ended.EventId+1, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED
	ended.Attributes = &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
		WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: "reset"}}
	s := &server{runs: map[string][]run{"w": {{original, append(before, ended)}, {"reset-run", after}}}}
	feed, err := follow.Start(context.Background(), s, "w", original, follow.Options{Wait: true})
	require.NoError(t, err)
	got := collect(feed)
	once(t, got)
	require.Len(t, of(got, follow.Reset), 1)
	require.Len(t, of(got, follow.AgentStart), 1)
	require.Len(t, of(got, follow.AgentEnd), 1)
	require.Equal(t, "reset-run", got[len(got)-1].RunID)
	require.Equal(t, kinds(read(t, "reset")), kinds(got))
}

// A run is reset, and went on in others since, of which the last is followed: it goes on with the reset one, although that is
// none of the same original run. It has gone on in another one before anybody looked.
func TestAFeedGoesOnAfterAResetOfAnEarlierRun(t *testing.T) {
	after := history(t, "reset")
	original := after[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()
	i := slices.IndexFunc(after, func(e *historypb.HistoryEvent) bool {
		return e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
	})
	clone := func(events []*historypb.HistoryEvent) (out []*historypb.HistoryEvent) {
		for _, e := range events {
			out = append(out, proto.Clone(e).(*historypb.HistoryEvent))
		}
		return out
	}
	continued := func(events []*historypb.HistoryEvent, as string) []*historypb.HistoryEvent {
		last := events[len(events)-1]
		last.EventType = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
		last.Attributes = &historypb.HistoryEvent_WorkflowExecutionContinuedAsNewEventAttributes{
			WorkflowExecutionContinuedAsNewEventAttributes: &historypb.WorkflowExecutionContinuedAsNewEventAttributes{NewExecutionRunId: as}}
		return events
	}
	begun := func(run, before string, at *timestamppb.Timestamp) []*historypb.HistoryEvent {
		events := clone(history(t, "asked-and-allowed"))
		a := events[0].GetWorkflowExecutionStartedEventAttributes()
		a.FirstExecutionRunId, a.OriginalExecutionRunId = original, run
		a.ContinuedExecutionRunId, a.Initiator = before, enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
		events[0].EventTime = at
		return events
	}
	second := begun("second", original, after[i].EventTime)[:9]
	last := second[8]
	last.EventType = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED
	last.Attributes = &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
		WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: "reset"}}
	later := timestamppb.New(after[len(after)-1].EventTime.AsTime().Add(time.Second))
	for name, runs := range map[string][]run{
		"at once":              {{"anew", after}},
		"and continued since":  {{"anew", continued(clone(after), "third")}, {"third", begun("third", "anew", later)}},
		"another agent":        {{"else", history(t, "asked-and-allowed")}},
		"terminated by people": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{runs: map[string][]run{"w": append([]run{{original, continued(clone(after[:i]), "second")}, {"second", second}}, runs...)}}
			for _, first := range []string{original, "second"} {
				feed, err := follow.Start(context.Background(), s, "w", first, follow.Options{Wait: true})
				require.NoError(t, err)
				got := collect(feed)
				once(t, got)
				require.Len(t, of(got, follow.AgentEnd), 1)
				if len(runs) == 0 || runs[0].id != "anew" {
					require.Empty(t, of(got, follow.Reset))
					require.Equal(t, "second", got[len(got)-1].RunID)
					continue
				}
				require.Len(t, of(got, follow.Reset), 1)
				require.Equal(t, "anew", of(got, follow.Reset)[0].RunID)
				require.Equal(t, runs[len(runs)-1].id, got[len(got)-1].RunID)
			}
		})
	}
}

// A reader that stops holds up nobody else, and leaves nothing behind once its context has ended.
func TestASlowReaderHoldsUpItself(t *testing.T) {
	s := &server{runs: map[string][]run{"w": {{"r", history(t, "suspended")}}}}
	ctx, cancel := context.WithCancel(context.Background())
	slow, err := follow.Start(ctx, s, "w", "", follow.Options{Wait: true})
	require.NoError(t, err)
	quick, err := follow.Start(ctx, s, "w", "", follow.Options{})
	require.NoError(t, err)
	require.Equal(t, kinds(read(t, "suspended")), kinds(collect(quick)))
	end, err := quick.Wait()
	require.NoError(t, err)
	require.Nil(t, end, "it goes on")
	<-slow.Events
	cancel()
	_, err = slow.Wait()
	require.ErrorIs(t, err, context.Canceled)
	_, open := <-slow.Events
	require.False(t, open)
}

// parent is a workflow that has started an agent.
func parent(child string) []*historypb.HistoryEvent {
	at := timestamppb.New(time.Unix(1, 0))
	agent := &commonpb.WorkflowType{Name: protocol.WorkflowAgent}
	of := &commonpb.WorkflowExecution{WorkflowId: child, RunId: "c"}
	return []*historypb.HistoryEvent{
		{EventId: 1, EventTime: at, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
				WorkflowType: &commonpb.WorkflowType{Name: "Plan"}}}},
		{EventId: 2, EventTime: at, EventType: enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED,
			Attributes: &historypb.HistoryEvent_ChildWorkflowExecutionStartedEventAttributes{ChildWorkflowExecutionStartedEventAttributes: &historypb.ChildWorkflowExecutionStartedEventAttributes{
				WorkflowType: agent, WorkflowExecution: of}}},
		{EventId: 3, EventTime: at, EventType: enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED,
			Attributes: &historypb.HistoryEvent_ChildWorkflowExecutionTerminatedEventAttributes{ChildWorkflowExecutionTerminatedEventAttributes: &historypb.ChildWorkflowExecutionTerminatedEventAttributes{
				WorkflowType: agent, WorkflowExecution: of}}},
		{EventId: 4, EventTime: at, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{}}},
	}
}

// Children are told of in any case, and followed if that is asked for.
func TestAFeedFollowsChildren(t *testing.T) {
	s := &server{runs: map[string][]run{"plan": {{"p", parent("kid")}}, "kid": {{"c", history(t, "asked-and-allowed")}}}}
	for _, children := range []bool{false, true} {
		feed, err := follow.Start(context.Background(), s, "plan", "", follow.Options{Wait: true, Children: children})
		require.NoError(t, err)
		got := map[string][]follow.Event{}
		for e := range feed.Events {
			got[e.WorkflowID] = append(got[e.WorkflowID], e)
		}
		require.Equal(t, []follow.Kind{follow.AgentStart, follow.ChildStart, follow.ChildEnd, follow.AgentEnd}, kinds(got["plan"]))
		require.Equal(t, follow.Child{Run: follow.Run{WorkflowID: "kid", RunID: "c"}, Closed: "terminated"}, *got["plan"][2].Child)
		end, err := feed.Wait()
		require.NoError(t, err)
		require.Nil(t, end.Result, "the end is that of the run, not of its child")
		if children {
			require.Equal(t, kinds(read(t, "asked-and-allowed")), kinds(got["kid"]))
		} else {
			require.Empty(t, got["kid"])
		}
	}
	// A child that the server does not know is an error, behind everything else.
	delete(s.runs, "kid")
	feed, err := follow.Start(context.Background(), s, "plan", "", follow.Options{Wait: true, Children: true})
	require.NoError(t, err)
	require.True(t, slices.Contains(kinds(collect(feed)), follow.AgentEnd))
	end, err := feed.Wait()
	require.NotNil(t, end)
	var lost *follow.ChildError
	require.True(t, errors.As(err, &lost))
	require.Equal(t, "kid", lost.WorkflowID)
}
