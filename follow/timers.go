package follow

import (
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/approval"
)

// inBatch reports whether an event may stand among the markers of one turn's decisions: besides markers, it is the timer of
// a deadline, which runs from the moment a question is asked.
func (r *Reader) inBatch(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		return true
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		return strings.HasSuffix(r.text(e.GetUserMetadata().GetSummary()), beforeOccasion+string(approval.AtDeadline))
	}
	return false
}

// armed notes that a timer of a question runs, and fired that it has fired.
func (r *Reader) armed(summary string) {
	if w, what := r.timed(summary); w != nil && what != approval.AtDeadline {
		w.armed = true
	}
}

func (r *Reader) fired(summary string) {
	if summary == wallClock {
		r.dropped = &approval.Closed{How: approval.Abandoned, Reason: "the wall-clock limit was reached", Via: viaWorkflow}
	}
	switch w, what := r.timed(summary); {
	case w == nil:
	case what == approval.AtDeadline:
		w.late = true
	default:
		w.armed, w.rung = false, what
	}
}

// timed is the open question that a timer belongs to, and the timer's occasion.
func (r *Reader) timed(summary string) (w *waiting, occasion approval.Occasion) {
	i := strings.LastIndex(summary, beforeOccasion)
	if i < 0 {
		return nil, ""
	}
	return r.open[summary[:i]], approval.Occasion(summary[i+len(beforeOccasion):])
}

// rings acts on a timer that has fired, and on what is due by then: that needs no timer, and leaves none in history.
func (r *Reader) rings(w *waiting) {
	for {
		if w.late {
			r.close(approval.Closed{Key: w.Key, How: approval.Expired, Via: viaTimer})
			return
		}
		what := w.rung
		if what == "" && !w.armed {
			at, next := w.Approval().Upcoming(w.policy, w.reminded)
			if next != "" && !at.After(r.clock) && (w.Deadline == nil || at.Before(*w.Deadline)) {
				what = next
			}
		}
		w.rung = ""
		switch what {
		case approval.AtEscalation:
			r.escalate(w)
			r.tell(Event{Kind: ApprovalEscalated, Progress: w.progress(nil)})
		case approval.AtReminder:
			w.Reminded++
			w.reminded = r.clock
			r.tell(Event{Kind: ApprovalReminder, Progress: w.progress(nil)})
		default:
			return
		}
	}
}
