package pipeline

import (
	"bytes"
	"slices"

	"encoding/json"

	"github.com/assent-dev/assent/tool"
)

// Call is one tool call as the stages see it. It is a plain value: every listener gets its own copy, so
// writing to one, Input included, changes nothing for anybody else.
type Call struct {
	// ID is unique in the run.
	ID   string
	Name string
	// Input is the final argument object; stage 1 sees it after the hooks of the chain have changed it.
	// Observers get none where it was stored apart from the call and is gone.
	Input json.RawMessage
	// Info is the definition of the tool; zero except for Info.Name when the tool is not known.
	Info tool.Info
	// Agent is nil outside agents.
	Agent *tool.Agent
	// RunID is the workflow run; empty in a bare Execute.
	RunID string
	// Dir is the absolute working directory; Isolation is none, readonly or worktree.
	Dir, Isolation string
	// Attempt counts from 1; it is 0 while the call is being judged by the engine.
	Attempt int
	// IdempotencyKey is the same for every attempt.
	IdempotencyKey string
	// Approved is nil unless somebody was asked and allowed the call.
	Approved *tool.Approved
	// Modified is true when Input is not what the model sent.
	Modified bool
}

// Clone returns a deep copy.
func (c Call) Clone() Call {
	c.Input = bytes.Clone(c.Input)
	c.Info.Parameters = bytes.Clone(c.Info.Parameters)
	c.Info.Version, c.Info.Remote = clonePointer(c.Info.Version), c.Info.Remote.Clone()
	c.Agent = clonePointer(c.Agent)
	c.Approved = clonePointer(c.Approved)
	return c
}

// cloneResult returns a deep copy of r.
func cloneResult(r tool.Result) tool.Result {
	r.Value = bytes.Clone(r.Value)
	r.ValueRef = clonePointer(r.ValueRef)
	r.FinalInput = bytes.Clone(r.FinalInput)
	r.Images = slices.Clone(r.Images)
	for i, m := range r.Images {
		r.Images[i].Ref, r.Images[i].Data = clonePointer(m.Ref), bytes.Clone(m.Data)
	}
	if r.Failure != nil {
		f := *r.Failure
		f.Issues = slices.Clone(f.Issues)
		f.Data = bytes.Clone(f.Data)
		r.Failure = &f
	}
	return r
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
