package verify

import (
	"github.com/assent-dev/assent/protocol"
)

// byEntry is the run of a guarded workflow type, which is a call itself.
const byEntry way = "workflow"

// entered judges the run of a guarded workflow type: one that was not allowed does not come to its end. What the team's
// interceptors do before the workflow's first line is their own, so only the end tells.
func (j *judge) entered() {
	if j.agent || j.versions[protocol.ChangeGuard+j.workflowType] < 1 {
		return
	}
	end := j.ended == "completed" || j.ended == "continued"
	c := &judged{judge: j, use: &use{way: byEntry, event: j.last, typ: j.workflowType}, call: Call{EventID: 1, Tool: protocol.ToolName(j.workflowType)}}
	if !end {
		// It may wait for its answer, or have failed for want of one.
		for i, d := range j.decisions {
			if d.Tool == c.call.Tool && c.allows(i) {
				end = true
			}
		}
	}
	if !end || !c.unnamed() || !c.permitted() {
		return
	}
	c.once()
	c.call.EventID = 1
	j.out.Calls = append(j.out.Calls, c.call)
	input, err := j.judgedInput(j.started.GetInput())
	if sum, failed := digest(input); err != nil || failed != nil || sum != c.p.digest {
		j.note("the arguments of the run: those in history are not those that were judged; an interceptor of the worker may have changed them")
	}
}
