package follow

import (
	"encoding/json"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// abroad tells of the start of an agent's call that a worker of somebody else runs, once for all tries. Its end is that
// of the activity which receives the result: what came back before has passed no listener.
func (r *Reader) abroad(c *Call) {
	if r.foreign[c.CallID] != nil {
		return
	}
	r.foreign[c.CallID] = &foreign{call: c, since: r.now.GetEventTime().AsTime()}
	start := *c
	r.sent(start.CallID)
	r.tell(Event{Kind: ToolStart, Tool: &start})
}

// child takes notice of a workflow that is a tool; its id ends with that of the call.
func (r *Reader) child(a *historypb.StartChildWorkflowExecutionInitiatedEventAttributes) {
	id := a.GetWorkflowId()
	callID := id[strings.LastIndexByte(id, '_')+1:]
	d, ok := r.decided[callID]
	if !ok || !r.agent {
		return
	}
	c := &Call{CallID: callID, ActivityID: id, Tool: d.Tool, Input: r.arguments(a.GetInput())}
	r.verdict(c)
	r.abroad(c)
}

// arguments are what a call of somebody else's worker gets: the one object, or a list under args.
func (r *Reader) arguments(p *commonpb.Payloads) json.RawMessage {
	list := make([]json.RawMessage, 0, len(p.GetPayloads()))
	for _, one := range p.GetPayloads() {
		list = append(list, r.raw(&commonpb.Payloads{Payloads: []*commonpb.Payload{one}}))
	}
	if len(list) == 1 && strings.HasPrefix(string(list[0]), "{") {
		return list[0]
	}
	out, err := json.Marshal(map[string]any{"args": list})
	if err != nil {
		// Sealed by a codec that is not known here.
		return nil
	}
	return out
}

// receiving is the call whose result an activity takes.
func (r *Reader) receiving(a *historypb.ActivityTaskScheduledEventAttributes) *Call {
	var req protocol.ReceiveRequest
	if !r.decode(a.GetInput(), &req) {
		return nil
	}
	c := &Call{CallID: req.Call.ID, ActivityID: req.Call.ID}
	if f := r.foreign[req.Call.ID]; f != nil {
		c = f.call
	} else {
		r.verdict(c)
	}
	c.Tool, c.Input, c.InputRef, c.Approved = req.Call.Name, req.Call.Input, req.Call.InputRef, req.Call.Approved
	return c
}

// received tells how such a call ended.
func (r *Reader) received(c *Call, result *commonpb.Payloads, failed string) {
	var res tool.Result
	if c.Error = failed; failed == "" && r.decode(result, &res) {
		c.Result = &res
	}
	if f := r.foreign[c.CallID]; f != nil {
		c.Took = r.now.GetEventTime().AsTime().Sub(f.since)
	}
	r.callEnded(c, &scheduled{started: r.now.GetEventTime().AsTime()})
	r.tell(Event{Kind: ToolEnd, Tool: c})
}
