package follow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/storage"
	"github.com/assent-dev/assent/tool"
)

// Reader is the state of one agent, fed with its history event by event. It is not safe for concurrent use.
type Reader struct {
	workflowID, runID string
	// originalRun stays the same over resets.
	originalRun string
	// firstRun is the first of the runs that continued each other, since when the one that is read began.
	firstRun  string
	since     time.Time
	converter converter.DataConverter
	// agent is false in workflows that are not agents, whose handlers have other names.
	agent bool
	now   *historypb.HistoryEvent
	out   []Event
	// clock is the workflow's time: that of the task in which it acts, as far as an event tells. taskAt is when the last task
	// was started.
	clock, taskAt time.Time

	turn    TurnOf
	decided map[string]Decided
	// batch are the decisions since the last event that was no marker.
	batch     []judged
	ledger    *approval.Ledger
	open      map[string]*waiting
	timers    map[int64]string
	scheduled map[int64]*scheduled
	// said is what approvers have said since the last workflow task.
	said []approval.Resolution
	// revoked are the keys of allows that were taken back, vetted how many lines answers have added.
	revoked map[string]bool
	// ending are the codes of allowed calls whose end the workflow has not taken yet, by key.
	ending    map[string]tool.Code
	vetted    int
	overruled *Overruled
	// contracts are the hashes of an agent's frozen tools.
	contracts   map[string]string
	agentType   string
	requestedBy string
	// ready says that what is frozen was told, stands is the run whose questions an agent's run took over.
	ready  bool
	stands string
	// queue is that of the run.
	queue string
	// under is what the decisions of local activities leave out.
	under protocol.Under
	// anew says that the server has begun this run anew: by its schedule, or after one that failed.
	anew bool
	// foreign are calls that workers of somebody else run, by call id.
	foreign map[string]*foreign
	// dropped says why questions that nobody answered close with the next workflow task.
	dropped *approval.Closed
	// elsewhere are the drivers of payloads that could not be had.
	elsewhere map[string]bool
}

// scheduled is an activity that has not ended.
type scheduled struct {
	kind       string
	activityID string
	call       *Call
	turn       int
	tree       string
	started    time.Time
	// host says that only one host can run it: the one that has the agent's worktree.
	host bool
	// key is of the question whose answer the activity admits, or that it puts to an approver.
	key string
	// once says that the activity is tried once at most.
	once bool
	// received is the call whose result the activity takes.
	received *Call
}

// foreign is a call that a worker of somebody else runs.
type foreign struct {
	call  *Call
	since time.Time
}

// NewReader returns a reader for the history of a run that begins.
func NewReader(workflowID, runID string, c converter.DataConverter) *Reader {
	if c == nil {
		c = converter.GetDefaultDataConverter()
	}
	return &Reader{workflowID: workflowID, runID: runID, converter: c, decided: map[string]Decided{}, ledger: approval.NewLedger(),
		open: map[string]*waiting{}, timers: map[int64]string{}, scheduled: map[int64]*scheduled{}, revoked: map[string]bool{},
		ending:    map[string]tool.Code{},
		contracts: map[string]string{}, foreign: map[string]*foreign{}}
}

// Pending lists the questions that can be answered now, in order of asking.
func (r *Reader) Pending() []Question {
	var out []Question
	for _, q := range r.ledger.List().Pending {
		out = append(out, r.open[q.Key].Question)
	}
	return out
}

// List is what the history says of questions, as the approvals query of the run would.
func (r *Reader) List() approval.List {
	l := r.ledger.List()
	for i, q := range l.Pending {
		l.Pending[i] = r.open[q.Key].Approval()
	}
	return l
}

// Read takes the next event of the history and returns what it means. Decisions and questions are held back until the
// next event, or Flush, because only then is their order known.
func (r *Reader) Read(e *historypb.HistoryEvent) []Event {
	r.out = nil
	if !r.inBatch(e) {
		r.settle()
	}
	r.now, r.clock = e, e.GetEventTime().AsTime()
	r.read(e)
	return r.out
}

// Flush returns what was held back, at the end of a history.
func (r *Reader) Flush() []Event {
	r.out = nil
	r.settle()
	return r.out
}

func (r *Reader) read(e *historypb.HistoryEvent) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		r.started(e.GetWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		r.marker(e.GetMarkerRecordedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		r.signal(e.GetWorkflowExecutionSignaledEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		r.update(e.GetWorkflowExecutionUpdateAcceptedEventAttributes())
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		r.timers[e.GetEventId()] = r.text(e.GetUserMetadata().GetSummary())
		r.armed(r.timers[e.GetEventId()])
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		r.fired(r.timers[e.GetTimerFiredEventAttributes().GetStartedEventId()])
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		r.tell(Event{Kind: CancelRequested, Note: e.GetWorkflowExecutionCancelRequestedEventAttributes().GetCause()})
		r.dropped = &approval.Closed{How: approval.Cancelled, Via: viaWorkflow}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
		r.taskAt = r.clock
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		r.taskDone()
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		r.taskFailed(e.GetWorkflowTaskFailedEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		r.activity(e.GetActivityTaskScheduledEventAttributes())
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		r.child(e.GetStartChildWorkflowExecutionInitiatedEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		if s := r.scheduled[e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()]; s != nil {
			s.started = e.GetEventTime().AsTime()
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := e.GetActivityTaskCompletedEventAttributes()
		r.activityEnd(a.GetScheduledEventId(), a.GetResult(), "")
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		r.lostHost(a.GetScheduledEventId(), a.GetFailure())
		r.activityEnd(a.GetScheduledEventId(), nil, why(a.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		r.lostHost(a.GetScheduledEventId(), a.GetFailure())
		r.activityEnd(a.GetScheduledEventId(), nil, why(a.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED:
		r.withdrawn(e.GetActivityTaskCancelRequestedEventAttributes().GetScheduledEventId())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		r.activityEnd(e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId(), nil, cancelled)
	case enumspb.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED:
		a := e.GetNexusOperationScheduledEventAttributes()
		r.began(a.GetService() + "/" + a.GetOperation())
	default:
		if !r.offspring(e) {
			r.ended(e)
		}
	}
}

// tell adds an event that the present history event means.
func (r *Reader) tell(e Event) {
	e.Time, e.WorkflowID, e.RunID, e.EventID = r.now.GetEventTime().AsTime(), r.workflowID, r.runID, r.now.GetEventId()
	r.out = append(r.out, e)
}

func (r *Reader) started(a *historypb.WorkflowExecutionStartedEventAttributes) {
	// The ids of the events of a run before mean others here, and nothing of it is on its way any more.
	clear(r.timers)
	clear(r.scheduled)
	r.said, r.dropped, r.overruled = nil, nil, nil
	r.agent = a.GetWorkflowType().GetName() == protocol.WorkflowAgent
	r.firstRun, r.since = a.GetFirstExecutionRunId(), r.now.GetEventTime().AsTime()
	if r.originalRun = a.GetOriginalExecutionRunId(); r.runID == "" {
		r.runID = r.originalRun
	}
	r.queue = a.GetTaskQueue().GetName()
	s := &Started{WorkflowType: a.GetWorkflowType().GetName(), TaskQueue: a.GetTaskQueue().GetName()}
	if a.GetInitiator() == enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW {
		s.ContinuedFrom = a.GetContinuedExecutionRunId()
	}
	var in protocol.AgentInput
	if r.agent && r.decode(a.GetInput(), &in) {
		s.AgentType, s.Label, s.Prompt, s.Isolation, s.RequestedBy = in.AgentType, in.Label, cut(in.Prompt), in.Isolation, in.RequestedBy
	}
	if p := a.GetParentWorkflowExecution(); p.GetWorkflowId() != "" {
		parent := runOf(p)
		s.Parent = &parent
	}
	r.agentType, r.requestedBy = s.AgentType, s.RequestedBy
	if !r.agent {
		r.agentType = s.WorkflowType
		r.continues(a)
	}
	r.tell(Event{Kind: AgentStart, Start: s})
	if r.agent {
		r.takeOver(a, s)
	}
}

// kin reports whether a run is one of those that continued each other or were reset from one of them.
func (r *Reader) kin(a *historypb.WorkflowExecutionStartedEventAttributes) bool {
	if first := a.GetFirstExecutionRunId(); first != "" && r.firstRun != "" {
		return first == r.firstRun
	}
	return a.GetOriginalExecutionRunId() == r.originalRun
}

// continues takes over the keys of the run before, as the workflow does. Only the server says that there was one.
func (r *Reader) continues(a *historypb.WorkflowExecutionStartedEventAttributes) {
	r.anew = a.GetContinuedExecutionRunId() != "" && (a.GetCronSchedule() != "" || a.GetAttempt() > 1)
	r.ledger = approval.NewLedger()
	r.forget(nil)
	payload := a.GetHeader().GetFields()[protocol.HeaderCarry]
	if payload == nil || a.GetContinuedExecutionRunId() == "" {
		return
	}
	var c protocol.Carry
	if converter.GetDefaultDataConverter().FromPayload(payload, &c) == nil {
		r.ledger.Restore(c.Ledger)
	}
}

// taskFailed tells of workflow tasks that fail for a reason which a person must look at.
func (r *Reader) taskFailed(a *historypb.WorkflowTaskFailedEventAttributes) {
	switch a.GetCause() {
	case enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
		r.tell(Event{Kind: Reset, Note: why(a.GetFailure())})
	case enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND:
		// Something arrived meanwhile; the task is simply done again.
	default:
		r.tell(Event{Kind: Problem, Note: fmt.Sprintf("workflow task failed (%s): %s", a.GetCause(), why(a.GetFailure()))})
	}
}

// ended handles the events that close a run.
func (r *Reader) ended(e *historypb.HistoryEvent) {
	end := &Ended{}
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		end.Closed = "completed"
		var res protocol.AgentResult
		if r.agent && r.decode(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &res) {
			end.Result, end.Error = &res, res.Error
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		f := e.GetWorkflowExecutionFailedEventAttributes().GetFailure()
		end.Closed, end.Error, end.ErrorType = "failed", why(f), f.GetApplicationFailureInfo().GetType()
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		end.Closed = "cancelled"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		end.Closed, end.Error = "terminated", e.GetWorkflowExecutionTerminatedEventAttributes().GetReason()
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		end.Closed = "timed-out"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		if !r.agent {
			r.dropAll(approval.Closed{How: approval.Abandoned, Reason: "the workflow continued as new", Via: viaWorkflow})
			r.abandoned()
		}
		r.tell(Event{Kind: Continued, Note: e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()})
		return
	default:
		return
	}
	r.dropAll(approval.Closed{How: approval.Abandoned, Reason: "the run ended", Via: viaWorkflow})
	r.abandoned()
	r.tell(Event{Kind: AgentEnd, End: end})
}

// decode reads the first payload into v and reports whether that worked. What cannot be read is left out: a history
// is shown as far as it can be.
func (r *Reader) decode(p *commonpb.Payloads, v any) bool {
	if len(p.GetPayloads()) == 0 {
		return false
	}
	if driver, _, ok := storage.Claimed(p.GetPayloads()[0]); ok {
		r.offloaded(driver)
		return false
	}
	return r.from(p.GetPayloads()[0], v)
}

// from is decode for one payload. Anybody may have sent it, and a codec may panic of it.
func (r *Reader) from(p *commonpb.Payload, v any) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return r.converter.FromPayload(p, v) == nil
}

// offloaded tells, once for each driver, that a payload is elsewhere.
func (r *Reader) offloaded(driver string) {
	if r.elsewhere[driver] {
		return
	}
	if r.elsewhere == nil {
		r.elsewhere = map[string]bool{}
	}
	r.elsewhere[driver] = true
	r.tell(Event{Kind: Problem, Note: (&storage.UnreadableError{EventID: r.now.GetEventId(), Driver: driver}).Error() +
		"; what lies there is not shown"})
}

// raw returns the JSON of the first payload, or nil.
func (r *Reader) raw(p *commonpb.Payloads) []byte {
	var raw converter.RawValue
	if !r.decode(p, &raw) || raw.Payload() == nil {
		return nil
	}
	return raw.Payload().GetData()
}

// written returns the JSON of an answer, or nil. One in an encoding of the team's own is read by its converter, as the workflow does.
func (r *Reader) written(p *commonpb.Payloads) []byte {
	if list := p.GetPayloads(); len(list) > 0 && plain(list[0]) {
		if _, _, elsewhere := storage.Claimed(list[0]); !elsewhere {
			// A codec may refuse what it did not encode.
			return list[0].GetData()
		}
	}
	var raw converter.RawValue
	if !r.decode(p, &raw) || raw.Payload() == nil {
		return nil
	}
	var res approval.Resolution
	if plain(raw.Payload()) || !r.decode(p, &res) {
		return raw.Payload().GetData()
	}
	text, _ := json.Marshal(res) // nil if it fails
	return text
}

func plain(p *commonpb.Payload) bool {
	return protocol.PlainEncoding(string(p.GetMetadata()[converter.MetadataEncoding]))
}

func (r *Reader) text(p *commonpb.Payload) string {
	var s string
	if p == nil || !r.from(p, &s) {
		return ""
	}
	return s
}

// input returns what a call of the present turn asks for, by its id.
func (r *Reader) input(callID string) (json.RawMessage, *blob.Ref) {
	var turn, n int
	if _, err := fmt.Sscanf(callID, "t%d.%d", &turn, &n); err != nil || turn != r.turn.Number || n < 1 || n > len(r.turn.Calls) {
		return nil, nil
	}
	c := r.turn.Calls[n-1]
	return c.Input, c.InputRef
}

// why is the innermost message of a failure that says something.
func why(f *failurepb.Failure) string {
	var parts []string
	for ; f != nil; f = f.GetCause() {
		if m := f.GetMessage(); m != "" && !slices.Contains(parts, m) {
			parts = append(parts, m)
		}
	}
	return strings.Join(parts, ": ")
}

// mostPrompt bounds the prompt in an event, in bytes.
const mostPrompt = 4 << 10

func cut(s string) string {
	if len(s) <= mostPrompt {
		return s
	}
	return strings.ToValidUTF8(s[:mostPrompt], "") + "…"
}
