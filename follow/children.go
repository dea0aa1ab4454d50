package follow

import (
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/protocol"
)

// offspring tells of the agents that a run starts as children. It reports whether the event was about one.
func (r *Reader) offspring(e *historypb.HistoryEvent) bool {
	if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil {
		if isAgent(a.GetWorkflowType()) {
			r.tell(Event{Kind: ChildStart, Child: &Child{Run: runOf(a.GetWorkflowExecution())}})
		}
		return true
	}
	var c Child
	var of *commonpb.WorkflowType
	if a := e.GetChildWorkflowExecutionCompletedEventAttributes(); a != nil {
		of, c = a.GetWorkflowType(), Child{Run: runOf(a.GetWorkflowExecution()), Closed: "completed"}
		var res protocol.AgentResult
		if isAgent(of) && r.decode(a.GetResult(), &res) {
			c.Result, c.Error = &res, res.Error
		}
	} else if a := e.GetChildWorkflowExecutionFailedEventAttributes(); a != nil {
		of, c = a.GetWorkflowType(), Child{Run: runOf(a.GetWorkflowExecution()), Closed: "failed", Error: why(a.GetFailure())}
	} else if a := e.GetChildWorkflowExecutionCanceledEventAttributes(); a != nil {
		of, c = a.GetWorkflowType(), Child{Run: runOf(a.GetWorkflowExecution()), Closed: "cancelled"}
	} else if a := e.GetChildWorkflowExecutionTerminatedEventAttributes(); a != nil {
		of, c = a.GetWorkflowType(), Child{Run: runOf(a.GetWorkflowExecution()), Closed: "terminated"}
	} else if a := e.GetChildWorkflowExecutionTimedOutEventAttributes(); a != nil {
		of, c = a.GetWorkflowType(), Child{Run: runOf(a.GetWorkflowExecution()), Closed: "timed-out"}
	} else {
		return false
	}
	if isAgent(of) {
		r.tell(Event{Kind: ChildEnd, Child: &c})
	}
	return true
}

func isAgent(t *commonpb.WorkflowType) bool { return t.GetName() == protocol.WorkflowAgent }

func runOf(e *commonpb.WorkflowExecution) Run { return Run{e.GetWorkflowId(), e.GetRunId()} }
