package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/assent-dev/assent/tool"
)

// Receive runs stages 4 and 5 on the result of a call that ran somewhere else: the post-execute listeners, then the
// observers. The Result has a code of the closed list and a valid value, like that of Run; unlike there, ABORTED is
// believed, because it is not ctx that says whether the call was cancelled. When ctx ends meanwhile, the Result counts for
// nothing, nobody observes it and the caller tries again. FinalInput is set when call.Modified is. The activity that receives results calls it.
func (p *Pipeline) Receive(ctx context.Context, call Call, result tool.Result) tool.Result {
	start := p.live.Load()
	call = call.Clone()
	x := &execution{pipeline: p, ctx: ctx, call: call}
	x.started.Store(true)
	result = x.stage4(start.posts, received(cloneResult(result)))
	if call.Modified {
		result.FinalInput = bytes.Clone(call.Input)
	}
	if ctx.Err() == nil {
		p.observe(ctx, start, call, result)
	}
	return result
}

// received makes r a Result that a listener may see: a value only with OK, a Failure only without.
func received(r tool.Result) tool.Result {
	if badValue(r) {
		r = tool.Fail(tool.NonSerializable, "the tool returned a value that is not JSON")
	}
	if r.Code == tool.OK {
		r.Failure = nil
		if len(r.Value) == 0 && r.ValueRef == nil {
			r.Value = json.RawMessage("null")
		}
		return r
	}
	r.Value, r.ValueRef, r.Images = nil, nil, nil
	if !slices.Contains(codes, r.Code) {
		r.Code = tool.ToolError
	}
	if r.Failure == nil {
		r.Failure = &tool.Failure{}
	}
	r.Failure.Message = orElse(r.Failure.Message, "the call ended with "+string(r.Code))
	return r
}
