package workflows

import (
	"unique"

	"github.com/assent-dev/assent/protocol"
)

// toolset holds the facts of an agent's frozen tools. What is equal is there once for all runs of a worker: else a thousand
// agents that are parked would keep the facts of all their tools a thousand times.
type toolset []toolFacts

type toolFacts = unique.Handle[protocol.ToolFacts]

// noTool stands for the facts of a tool that is unknown.
var noTool = unique.Make(protocol.ToolFacts{})

func newToolset(facts []protocol.ToolFacts) toolset {
	if facts == nil {
		return nil
	}
	t := make(toolset, len(facts))
	for i, f := range facts {
		t[i] = unique.Make(f)
	}
	return t
}

// facts are what the toolset was made of.
func (t toolset) facts() []protocol.ToolFacts {
	if t == nil {
		return nil
	}
	out := make([]protocol.ToolFacts, len(t))
	for i, h := range t {
		out[i] = h.Value()
	}
	return out
}

// tool finds a tool by its name.
func (t toolset) tool(name string) toolFacts {
	for _, h := range t {
		if h.Value().Name == name {
			return h
		}
	}
	return noTool
}

// unresolved is what an agent has before it is resolved.
var unresolved protocol.ResolveResponse

// freeze keeps what was resolved, thawed is that again.
func (a *agent) freeze(r protocol.ResolveResponse) {
	a.tools, a.promptRef, a.frozenIn = newToolset(r.Tools), r.PromptRef, r.Under.RunID
	if a.frozenIn == a.id {
		// Equal texts share one place in memory from here on.
		a.frozenIn = a.id
	}
	r.Tools, r.PromptRef, r.Under.RunID = nil, nil, ""
	a.frozen = protocol.Share(r)
}

func (a *agent) thawed() protocol.ResolveResponse {
	r := *a.frozen
	r.Tools, r.PromptRef, r.Under.RunID = a.tools.facts(), a.promptRef, a.frozenIn
	return r
}
