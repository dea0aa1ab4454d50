package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/storage"
	"github.com/assent-dev/assent/tool"
)

// What the SDK calls its markers and the parts of their details.
const (
	markerLocal   = "LocalActivity"
	markerVersion = "Version"
	detailData    = "data"
	detailResult  = "result"
	detailChange  = "change-id"
	detailVersion = "version"
)

// deadlineSuffix ends the summary of a question's timer, after its key.
const deadlineSuffix = " · deadline"

// record is what one history says about the gate, in the order of its events.
type record struct {
	converter    converter.DataConverter
	started      *historypb.WorkflowExecutionStartedEventAttributes
	workflowType string
	agent        bool
	input        protocol.AgentInput
	inputRead    bool
	// runs are the runs that wrote this history: a reset goes on with the events of another one.
	runs []turnover
	// versions are those of the gate's changes: protocol.ChangeGate, and one for each guarded name.
	versions map[string]int
	frozen   *protocol.ResolveResponse
	facts    map[string]protocol.ToolFacts
	// state is what an agent's run took over from the one that it continues, stamp the run that it then named.
	state *protocol.AgentState
	stamp stamp
	// under is what decisions leave out that are made in it.
	under protocol.Under
	// tally counts what this run did, next is how it continued.
	tally tally
	began time.Time
	next  *historypb.WorkflowExecutionContinuedAsNewEventAttributes
	// turns are the calls that the model asked for, by turn.
	turns      map[int][]protocol.Requested
	decisions  []decision
	byCall     map[string][]int
	admissions map[string][]admission
	// vetted are the admissions that added a vetted line.
	vetted  []admission
	answers map[string][]answer
	// deadlines are the events at which the deadlines of questions rang, by key.
	deadlines map[string]int64
	uses      []*use
	scheduled map[int64]*scheduled
	timers    map[int64]string
	last      int64
	ended     string
	findings  []Finding
	// sealed counts records that could not be decoded while it is not known whether they matter.
	sealed []Finding
}

// turnover is the event from which on a run wrote the history.
type turnover struct {
	event int64
	run   string
}

// decision is a recorded decision on a call that its worker could serve.
type decision struct {
	protocol.DecideResponse
	event int64
	// facts and input are known where an activity decided: its request is in history.
	request *protocol.DecideRequest
	// carried is the question of a decision that the run before made.
	carried *approval.Approval
}

// admission is the recorded effect of an answer.
type admission struct {
	protocol.AdmitResponse
	event int64
}

// answer is what somebody sent, to a key that it names; a bare allow or deny names none.
type answer struct {
	approval.Resolution
	event int64
	// approver says that an approver mounted on a worker gave it, who is believed without a signature.
	approver bool
	// signal says that its place in history is its place among the answers: an update is accepted as its task ends.
	signal bool
}

// scheduled is an activity, child or operation until it ends.
type scheduled struct {
	kind   string
	use    *use
	turn   int
	decide *protocol.DecideRequest
	// key is of the question that the activity is about, or the id of the call whose result it takes.
	key string
	// lent is what agents below that call may have spent.
	lent float64
}

func newRecord(c converter.DataConverter) *record {
	if c == nil {
		c = converter.GetDefaultDataConverter()
	}
	return &record{converter: c, versions: map[string]int{}, facts: map[string]protocol.ToolFacts{}, turns: map[int][]protocol.Requested{},
		byCall: map[string][]int{}, admissions: map[string][]admission{}, answers: map[string][]answer{}, deadlines: map[string]int64{},
		scheduled: map[int64]*scheduled{}, timers: map[int64]string{}, tally: tally{received: map[string]tool.Result{}}}
}

// recordOf reads all events.
func recordOf(events []*historypb.HistoryEvent, c converter.DataConverter) *record {
	r := newRecord(c)
	for _, e := range events {
		if !r.order(e) {
			break
		}
		r.read(e)
	}
	return r
}

// order reports whether an event is the next one. What comes behind a gap proves nothing: what is missing may be what
// revoked it.
func (r *record) order(e *historypb.HistoryEvent) bool {
	id := e.GetEventId()
	switch {
	case id != r.last+1:
		r.find(Finding{Kind: Incomplete, EventID: id, Why: sprintf("event %d comes where event %d should be; nothing behind it was read", id, r.last+1)})
		return false
	case (id == 1) != (e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED):
		r.find(Finding{Kind: Incomplete, EventID: id, Why: "a history begins with WORKFLOW_EXECUTION_STARTED, and has it once"})
		return false
	}
	r.last = id
	return true
}

func (r *record) find(f Finding) { r.findings = append(r.findings, f) }

func (r *record) read(e *historypb.HistoryEvent) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_UNSPECIFIED:
		r.find(Finding{Kind: Unreadable, EventID: e.GetEventId(), Why: "the event has no type that is known here; it may be a call, or an answer"})
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		r.began = e.GetEventTime().AsTime()
		r.start(e)
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		if a := e.GetWorkflowTaskFailedEventAttributes(); a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			r.runs = append(r.runs, turnover{e.GetEventId(), a.GetNewRunId()})
		}
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		r.marker(e)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		if a := e.GetWorkflowExecutionSignaledEventAttributes(); a.GetSignalName() == r.pick(protocol.SignalApproval, protocol.GuardSignalApproval) {
			r.answer(e.GetEventId(), a.GetInput(), true)
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		in := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
		if in.GetName() == r.pick(protocol.UpdateResolve, protocol.GuardUpdateResolve) {
			r.answer(e.GetEventId(), in.GetArgs(), false)
		}
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		if key, ok := strings.CutSuffix(r.text(e.GetUserMetadata().GetSummary()), deadlineSuffix); ok {
			r.timers[e.GetEventId()] = key
		}
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		if key, ok := r.timers[e.GetTimerFiredEventAttributes().GetStartedEventId()]; ok && r.deadlines[key] == 0 {
			r.deadlines[key] = e.GetEventId()
		}
	default:
		if !r.dispatch(e) {
			r.close(e)
		}
	}
}

// pick is the name of a handler: agents and other workflows have their own.
func (r *record) pick(agent, other string) string {
	if r.agent {
		return agent
	}
	return other
}

func (r *record) start(e *historypb.HistoryEvent) {
	a := e.GetWorkflowExecutionStartedEventAttributes()
	r.started, r.workflowType = a, a.GetWorkflowType().GetName()
	r.agent = r.workflowType == protocol.WorkflowAgent
	// The run that begins a history is the original one, also after resets.
	r.runs = append(r.runs, turnover{1, a.GetOriginalExecutionRunId()})
	// Without an input, or with nonsense, an agent comes to nothing.
	r.inputRead = r.agent && r.decode(a.GetInput(), &r.input)
	if r.continues() {
		r.takeOver(e, a.GetInput().GetPayloads())
	}
}

// runAt is the run that wrote an event; empty if the history does not say.
func (r *record) runAt(event int64) string {
	i, exact := slices.BinarySearchFunc(r.runs, event, func(t turnover, id int64) int { return int(t.event - id) })
	if !exact {
		i--
	}
	if i < 0 {
		return ""
	}
	return r.runs[i].run
}

// runID is the run that the history is of.
func (r *record) runID() string { return r.runAt(r.last) }

// marker reads versions, decisions and admissions, and local activities that may be tools.
func (r *record) marker(e *historypb.HistoryEvent) {
	a := e.GetMarkerRecordedEventAttributes()
	details := a.GetDetails()
	unread := func(what string) {
		r.unread(e, what)
	}
	switch a.GetMarkerName() {
	case markerVersion:
		var change string
		var version int
		if !r.decode(details[detailChange], &change) || !r.decode(details[detailVersion], &version) {
			unread("the marker of a version")
			return
		}
		if _, known := r.versions[change]; !known {
			r.versions[change] = version
		}
	case markerLocal:
		var data struct {
			ActivityType string
			Backoff      time.Duration
		}
		if !r.decode(details[detailData], &data) || data.ActivityType == "" {
			unread("the marker of a local activity")
			return
		}
		failed := a.GetFailure() != nil
		switch data.ActivityType {
		case protocol.ActivityDecide:
			if !failed && !r.decided(e.GetEventId(), details[detailResult], nil) {
				unread("the recorded decision")
			}
		case protocol.ActivityDecideTurn:
			if !failed && !r.decidedTurn(e.GetEventId(), details[detailResult]) {
				unread("the recorded decisions of a turn")
			}
		case protocol.ActivityAdmit:
			if !failed && !r.admitted(e.GetEventId(), details[detailResult], "") {
				unread("the recorded admission of an answer")
			}
		case protocol.ActivityContinue:
			if !failed && !r.stamped(e.GetEventId(), details[detailResult]) {
				unread("the name of the run that continues")
			}
		default:
			r.local(e, data.ActivityType, failed && data.Backoff > 0)
		}
	}
}

// decidedTurn keeps the decisions of a turn, of which there is one on each call, in their order: out of it they deny.
func (r *record) decidedTurn(event int64, result *commonpb.Payloads) bool {
	var turn protocol.DecideTurnResponse
	if !r.decode(result, &turn) || len(turn.Decisions) == 0 {
		return false
	}
	var first, last int
	for i, d := range turn.Decisions {
		var of, number int
		if _, err := fmt.Sscanf(d.CallID, "t%d.%d", &of, &number); err != nil || d.CallID != fmt.Sprintf("t%d.%d", of, number) ||
			i > 0 && of != first || number <= last {
			return false
		}
		first, last = of, number
	}
	for _, d := range turn.Decisions {
		r.keep(event, d, nil)
	}
	return true
}

// decided keeps a decision. One that is about another call than was asked denies, as it does in the workflow.
func (r *record) decided(event int64, result *commonpb.Payloads, of *protocol.DecideRequest) bool {
	var d protocol.DecideResponse
	if !r.decode(result, &d) || d.CallID == "" {
		return false
	}
	r.keep(event, d, of)
	return true
}

func (r *record) keep(event int64, d protocol.DecideResponse, of *protocol.DecideRequest) {
	if of == nil {
		d = d.Whole(&r.under)
	}
	if d.Slow || d.Drift != "" || of != nil && (d.CallID != of.CallID || d.Tool != of.Tool.Name) {
		return
	}
	r.byCall[d.CallID] = append(r.byCall[d.CallID], len(r.decisions))
	r.decisions = append(r.decisions, decision{DecideResponse: d, event: event, request: of})
}

// admitted keeps an admission.
func (r *record) admitted(event int64, result *commonpb.Payloads, key string) bool {
	var d protocol.AdmitResponse
	if !r.decode(result, &d) || d.Key == "" {
		return false
	}
	if !d.Slow && (key == "" || key == d.Key) {
		r.admissions[d.Key] = append(r.admissions[d.Key], admission{d, event})
		if d.How == approval.Allowed && d.Vetted != nil {
			r.vetted = append(r.vetted, admission{d, event})
		}
	}
	return true
}

func (r *record) close(e *historypb.HistoryEvent) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		r.ended = "completed"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		r.ended = "failed"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		r.ended = "cancelled"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		r.ended = "terminated"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		r.ended = "timed-out"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		r.ended, r.next = "continued", e.GetWorkflowExecutionContinuedAsNewEventAttributes()
	}
}

// decode reads the first payload into v and reports whether that worked.
func (r *record) decode(p *commonpb.Payloads, v any) bool {
	list := p.GetPayloads()
	return len(list) > 0 && list[0] != nil && r.from(list[0], v)
}

// from is decode for one payload. Anybody may have sent it, and a codec may panic of it.
func (r *record) from(p *commonpb.Payload, v any) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return r.converter.FromPayload(p, v) == nil
}

// value is a payload with the codec taken off, or nil.
func (r *record) value(p *commonpb.Payload) *commonpb.Payload {
	var raw converter.RawValue
	if _, _, elsewhere := storage.Claimed(p); elsewhere || p == nil || !r.from(p, &raw) {
		return nil
	}
	return raw.Payload()
}

// unread notes a record that cannot be decoded, and where it is if it was offloaded.
func (r *record) unread(e *historypb.HistoryEvent, what string) {
	r.sealed = append(r.sealed, Finding{Kind: Unreadable, EventID: e.GetEventId(), Why: what + " cannot be read" + elsewhere(e)})
}

// elsewhere says where the payloads of an event are that was offloaded; of others it says nothing.
func elsewhere(e *historypb.HistoryEvent) string {
	driver, ok := storage.Offloaded(e)
	if !ok {
		return ""
	}
	return fmt.Sprintf(": it lies in the external storage %q", driver)
}

func (r *record) text(p *commonpb.Payload) string {
	var s string
	if p == nil || !r.from(p, &s) {
		return ""
	}
	return s
}
