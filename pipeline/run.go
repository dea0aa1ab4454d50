package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/assent-dev/assent/tool"
)

// codes is the closed list that a Result may carry.
var codes = []tool.Code{
	tool.OK, tool.UnknownTool, tool.InvalidArguments, tool.Denied, tool.Blocked, tool.ToolError, tool.ToolTimeout,
	tool.Aborted, tool.NonSerializable, tool.ContractDrift, tool.Skipped, tool.EffectUnknown, tool.EnvironmentLost,
}

// Run executes one attempt of a call that may run: guards once more, required ones included, the wrappers
// round body, the post-execute listeners, the observers. body gets the context that the wrappers made; its
// panic is TOOL_ERROR. Run never panics and its Result always has a code of the closed list and a valid value;
// ABORTED, which only the cancellation of ctx brings about, says whether the body had started. A body
// that succeeds in spite of the cancellation has succeeded. FinalInput is set when call.Modified is. The
// activity that runs tools calls it.
func (p *Pipeline) Run(ctx context.Context, call Call, required []string, body func(context.Context) tool.Result) tool.Result {
	return p.run(ctx, p.live.Load(), call, required, body)
}

func (p *Pipeline) run(ctx context.Context, start *snapshot, call Call, required []string, body func(context.Context) tool.Result) tool.Result {
	call = call.Clone()
	var result tool.Result
	if ctx.Err() != nil {
		result = aborted(ctx, false)
	} else if refusal := p.guards(ctx, start, call, required); refusal == nil {
		x := &execution{pipeline: p, ctx: ctx, call: call, body: body}
		result = x.stage3(start.wraps)
		result = x.stage4(start.posts, result)
		if call.Modified {
			result.FinalInput = bytes.Clone(call.Input)
		}
	} else if refusal.stopped {
		result = aborted(ctx, false)
	} else {
		result = tool.Deny(tool.ByGuard, refusal.guard, refusal.reason)
	}
	p.observe(ctx, start, call, result)
	return result
}

func aborted(ctx context.Context, started bool) tool.Result {
	message := "the call was cancelled before the tool started"
	if started {
		message = "the call was cancelled while the tool was running"
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		message += ": " + text(cause)
	}
	r := tool.Fail(tool.Aborted, message)
	r.Failure.Started = started
	return r
}

// execution is one attempt of one call in stages 3 and 4.
type execution struct {
	pipeline *Pipeline
	// ctx is the call's own; frames may have narrower ones.
	ctx  context.Context
	call Call
	body func(context.Context) tool.Result
	// started is set when the body begins, over when stage 3 has returned: nothing may begin any more.
	started, over atomic.Bool
}

func (x *execution) stage3(wraps []*entry) tool.Result {
	defer x.over.Store(true)
	return x.settle(x.wrapped(x.ctx, wraps))
}

// wrapped calls the first of wraps with the others inside, or the body.
func (x *execution) wrapped(ctx context.Context, wraps []*entry) tool.Result {
	if len(wraps) == 0 {
		return x.attempt(ctx)
	}
	e := wraps[0]
	var returned atomic.Bool
	next := func(inner context.Context) tool.Result {
		if returned.Load() {
			return tool.Fail(tool.ToolError, errNextLate.Error())
		}
		return cloneResult(x.wrapped(orOuter(inner, ctx), wraps[1:]))
	}
	result, err := contain(func() (tool.Result, error) { return e.wrap(ctx, x.call.Clone(), next) })
	returned.Store(true)
	if err != nil {
		result = tool.Fail(tool.ToolError, text(err))
		result.Failure.By = e.owner
		return x.settle(result)
	}
	if badValue(result) {
		result = tool.Fail(tool.ToolError, fmt.Sprintf("wrapper of plugin %q returned a value that is not JSON", e.owner))
	}
	return x.settle(cloneResult(result))
}

// attempt runs the body once, unless there is nobody left to run it for.
func (x *execution) attempt(ctx context.Context) tool.Result {
	if ctx.Err() != nil || x.ctx.Err() != nil || x.over.Load() {
		return x.settle(tool.Fail(tool.ToolError, "the time of the call was over before the tool started"))
	}
	x.started.Store(true)
	result, err := contain(func() (tool.Result, error) { return x.body(ctx), nil })
	if err != nil {
		result = tool.Fail(tool.ToolError, text(err))
	}
	if badValue(result) {
		result = tool.Fail(tool.NonSerializable, "the tool returned a value that is not JSON")
	}
	return x.settle(result)
}

// settle makes r a Result that may leave the stage: a code of the closed list, a value only with OK, a
// Failure only without, and ABORTED exactly when the cancellation of the call made it fail.
func (x *execution) settle(r tool.Result) tool.Result {
	if r.Code == tool.OK {
		r.Failure = nil
		if len(r.Value) == 0 && r.ValueRef == nil {
			r.Value = json.RawMessage("null")
		}
		return r
	}
	r.Value, r.ValueRef, r.Images = nil, nil, nil
	f := tool.Failure{}
	if r.Failure != nil {
		f = *r.Failure
	}
	if !slices.Contains(codes, r.Code) {
		f.Message = orElse(f.Message, "a wrapper returned no result")
		r.Code = tool.ToolError
	}
	switch cancelled := x.ctx.Err() != nil; {
	case cancelled && r.Code == tool.ToolError:
		r = aborted(x.ctx, x.started.Load())
		if r.Failure.Started && f.Message != "" {
			r.Failure.Message += ": " + f.Message
		}
		r.Failure.Issues, r.Failure.Data = f.Issues, f.Data
		return r
	case cancelled && r.Code == tool.Aborted:
		f.Started = x.started.Load()
	case r.Code == tool.Aborted:
		r.Code, f.Started = tool.ToolError, false
	}
	f.Message = orElse(f.Message, "the call ended with "+string(r.Code))
	r.Failure = &f
	return r
}

func badValue(r tool.Result) bool {
	return r.Code == tool.OK && len(r.Value) > 0 && !json.Valid(r.Value)
}
