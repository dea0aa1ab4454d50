package verify_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/protocol"
)

// tape is a recorded history that a test tampers with. Positions are indices; ids are made whole at the end.
type tape struct {
	t      testing.TB
	events []*historypb.HistoryEvent
}

func record(t testing.TB, name string) *tape {
	return &tape{t, read(t, filepath.Join("..", "..", "workflows", "testdata", "histories", name+".json"))}
}

// members is a JSON object under change.
type members = map[string]any

// at is the index of the n-th event, from 0, that is so.
func (p *tape) at(n int, is func(*historypb.HistoryEvent) bool) int {
	p.t.Helper()
	for i, e := range p.events {
		if is(e) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	require.Fail(p.t, "no such event")
	return 0
}

func local(activityType string) func(*historypb.HistoryEvent) bool {
	return func(e *historypb.HistoryEvent) bool {
		var data struct{ ActivityType string }
		p := e.GetMarkerRecordedEventAttributes().GetDetails()["data"].GetPayloads()
		return len(p) > 0 && json.Unmarshal(p[0].GetData(), &data) == nil && data.ActivityType == activityType
	}
}

func schedules(activityType string) func(*historypb.HistoryEvent) bool {
	return func(e *historypb.HistoryEvent) bool {
		return e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == activityType
	}
}

func is(kind enumspb.EventType) func(*historypb.HistoryEvent) bool {
	return func(e *historypb.HistoryEvent) bool { return e.GetEventType() == kind }
}

var (
	decide     = local(protocol.ActivityDecide)
	decideTurn = local(protocol.ActivityDecideTurn)
	admit      = local(protocol.ActivityAdmit)
	signaled   = is(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
)

// payload changes the JSON of a payload.
func (p *tape) payload(of *commonpb.Payload, change func(members)) {
	p.t.Helper()
	var m members
	require.NoError(p.t, json.Unmarshal(of.Data, &m))
	change(m)
	var err error
	of.Data, err = json.Marshal(m)
	require.NoError(p.t, err)
}

func (p *tape) result(i int, change func(members)) {
	p.t.Helper()
	p.payload(p.events[i].GetMarkerRecordedEventAttributes().Details["result"].Payloads[0], change)
}

// decided changes one decision of the first turn of several calls.
func (p *tape) decided(n int, change func(members)) {
	p.t.Helper()
	p.result(p.at(0, decideTurn), func(m members) { change(m["decisions"].([]any)[n].(members)) })
}

func (p *tape) grant(i int, change func(members)) {
	p.t.Helper()
	p.payload(header(p.events[i]).Fields[protocol.HeaderGrant], change)
}

func header(e *historypb.HistoryEvent) *commonpb.Header {
	if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil {
		return a.Header
	}
	return e.GetActivityTaskScheduledEventAttributes().GetHeader()
}

func (p *tape) argument(i int, change func(members)) {
	p.t.Helper()
	in := p.events[i].GetActivityTaskScheduledEventAttributes().GetInput()
	if a := p.events[i].GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil {
		in = a.Input
	}
	p.payload(in.Payloads[0], change)
}

func (p *tape) drop(i int) { p.events = slices.Delete(p.events, i, i+1) }

// insert puts events before position i.
func (p *tape) insert(i int, events ...*historypb.HistoryEvent) {
	for _, e := range events {
		e.EventTime = p.events[min(i, len(p.events)-1)].EventTime
	}
	p.events = slices.Insert(p.events, i, events...)
}

func (p *tape) copyOf(i int) *historypb.HistoryEvent {
	return proto.Clone(p.events[i]).(*historypb.HistoryEvent)
}

// fresh ids are far from those of recordings until whole gives the right ones.
const fresh = 1_000_000

// again schedules what event i schedules once more before position at, under another activity id, and lets it complete.
func (p *tape) again(i, at int, id string) {
	s := p.copyOf(i)
	s.EventId = fresh
	s.GetActivityTaskScheduledEventAttributes().ActivityId = id
	p.insert(at, s, &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
		ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: fresh, Result: payloads(`{"code":"OK"}`)}}})
}

// endOf is the index of the event that ends what event i schedules.
func (p *tape) endOf(i int) int {
	id := p.events[i].GetEventId()
	return p.at(0, func(e *historypb.HistoryEvent) bool {
		return e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId() == id || e.GetActivityTaskFailedEventAttributes().GetScheduledEventId() == id
	})
}

// ends replaces how event i ended; without a start it never began.
func (p *tape) ends(i int, started bool, end *historypb.HistoryEvent) {
	at := p.endOf(i)
	end.EventId, end.EventTime = p.events[at].EventId, p.events[at].EventTime
	p.events[at] = end
	if !started {
		p.drop(p.at(0, starts(p.events[i].GetEventId())))
	}
}

func failing(scheduled int64, f *failurepb.Failure) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, Attributes: &historypb.HistoryEvent_ActivityTaskFailedEventAttributes{
		ActivityTaskFailedEventAttributes: &historypb.ActivityTaskFailedEventAttributes{ScheduledEventId: scheduled, Failure: f}}}
}

func application(errorType string) *failurepb.Failure {
	return &failurepb.Failure{FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: errorType}}}
}

func late(scheduled int64, kind enumspb.TimeoutType) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, Attributes: &historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes{
		ActivityTaskTimedOutEventAttributes: &historypb.ActivityTaskTimedOutEventAttributes{ScheduledEventId: scheduled, Failure: &failurepb.Failure{
			FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: kind}}}}}}
}

func payloads(text string) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(text)}}}
}

func signal(text string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: protocol.SignalApproval, Input: payloads(text)}}}
}

func updated(text string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{
		WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{AcceptedRequest: &updatepb.Request{
			Input: &updatepb.Input{Name: protocol.UpdateResolve, Args: payloads(text)}}}}}
}

func resetTo(run string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{
		WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{Cause: enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW, NewRunId: run}}}
}

// rings are the two events of a timer.
func rings(t testing.TB, summary string) []*historypb.HistoryEvent {
	p, err := converter.GetDefaultDataConverter().ToPayload(summary)
	require.NoError(t, err)
	return []*historypb.HistoryEvent{
		{EventId: fresh + 1, EventType: enumspb.EVENT_TYPE_TIMER_STARTED, UserMetadata: &sdkpb.UserMetadata{Summary: p}},
		{EventType: enumspb.EVENT_TYPE_TIMER_FIRED, Attributes: &historypb.HistoryEvent_TimerFiredEventAttributes{
			TimerFiredEventAttributes: &historypb.TimerFiredEventAttributes{StartedEventId: fresh + 1}}},
	}
}

// version is a marker of workflow.GetVersion.
func version(change string, n string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_MARKER_RECORDED, Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{
		MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{MarkerName: "Version",
			Details: map[string]*commonpb.Payloads{"change-id": payloads(`"` + change + `"`), "version": payloads(n)}}}}
}

// marker is the record of a local activity.
func marker(activityType, result string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_MARKER_RECORDED, Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{
		MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{MarkerName: "LocalActivity",
			Details: map[string]*commonpb.Payloads{"data": payloads(`{"ActivityType":"` + activityType + `"}`), "result": payloads(result)}}}}
}

// whole numbers the events anew, so that a history was not cut where it was tampered with, and keeps what they refer to.
func (p *tape) whole() []*historypb.HistoryEvent {
	ids := map[int64]int64{}
	for i, e := range p.events {
		if e.EventId != 0 {
			ids[e.EventId] = int64(i + 1)
		}
		e.EventId = int64(i + 1)
	}
	for _, e := range p.events {
		switch a := e.Attributes.(type) {
		case *historypb.HistoryEvent_ActivityTaskStartedEventAttributes:
			a.ActivityTaskStartedEventAttributes.ScheduledEventId = ids[a.ActivityTaskStartedEventAttributes.ScheduledEventId]
		case *historypb.HistoryEvent_ActivityTaskCompletedEventAttributes:
			a.ActivityTaskCompletedEventAttributes.ScheduledEventId = ids[a.ActivityTaskCompletedEventAttributes.ScheduledEventId]
		case *historypb.HistoryEvent_ActivityTaskFailedEventAttributes:
			a.ActivityTaskFailedEventAttributes.ScheduledEventId = ids[a.ActivityTaskFailedEventAttributes.ScheduledEventId]
		case *historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes:
			a.ActivityTaskTimedOutEventAttributes.ScheduledEventId = ids[a.ActivityTaskTimedOutEventAttributes.ScheduledEventId]
		case *historypb.HistoryEvent_TimerFiredEventAttributes:
			a.TimerFiredEventAttributes.StartedEventId = ids[a.TimerFiredEventAttributes.StartedEventId]
		}
	}
	return p.events
}

func (p *tape) verify() verify.Report {
	return verify.History(p.whole(), verify.Options{Namespace: "default"})
}
