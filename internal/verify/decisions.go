package verify

import (
	"encoding/json"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// Decided is one recorded decision with what is known of its call, so that another policy can be asked about it.
type Decided struct {
	EventID int64
	CallID  string
	// Facts are those of the tool at that time; Known is false if the history has only its name.
	Facts protocol.ToolFacts
	Known bool
	// Profile is the agent type; empty outside agents.
	Profile string
	// Tighten holds the rules of the agent's own input.
	Tighten *protocol.Tighten
	// Parents are the agents above whose policy the agent has inherited.
	Parents []protocol.Parent
	// Vetted are the lines that answers of before had added, also in the runs that this one continues.
	Vetted    []permission.Vetted
	Isolation string
	// Exactly one of Input and InputRef is set, or none if the history has no arguments. They are those that were asked
	// for, before any hook.
	Input    json.RawMessage
	InputRef *blob.Ref
	Decision permission.Decision
}

// Decisions lists the decisions of a history on calls that a worker could serve, in the order of their events. It says
// nothing of whether they were heeded; History does.
func Decisions(events []*historypb.HistoryEvent, c converter.DataConverter) []Decided {
	r := recordOf(events, c)
	var out []Decided
	for _, d := range r.decisions {
		if d.carried != nil {
			// It is one of the run before.
			continue
		}
		o := Decided{EventID: d.event, CallID: d.CallID, Facts: protocol.ToolFacts{Name: d.Tool}, Decision: d.Decision}
		if f, ok := r.facts[d.Tool]; ok {
			o.Facts, o.Known = f, true
		} else if d.request != nil {
			o.Facts, o.Known = d.request.Tool, true
		}
		if r.agent {
			o.Profile, o.Tighten = r.input.AgentType, r.input.Permissions
		}
		if r.frozen != nil {
			o.Isolation, o.Parents = string(r.frozen.Isolation.Kind), r.frozen.Parents
		}
		for _, v := range r.lines() {
			o.Vetted = append(o.Vetted, v.Line)
		}
		for _, a := range r.vetted {
			if a.event < d.event {
				o.Vetted = append(o.Vetted, *a.Vetted)
			}
		}
		o.Input, o.InputRef = r.requested(d)
		out = append(out, o)
	}
	return out
}
