package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// ReceiveResult takes the outcome of a call that ran as an activity or a workflow of a team's own: it passes the
// post-execute listeners and the observers here, and becomes a result that fits into history. It has no effect of its own
// and may be tried again.
func (e *Engine) ReceiveResult(ctx context.Context, req protocol.ReceiveRequest, value converter.RawValue) (protocol.ReceiveResponse, error) {
	if err := e.sameStore(req.Call.Store); err != nil {
		return protocol.ReceiveResponse{}, err
	}
	spent, err := e.spentBelow(ctx, req)
	if err != nil {
		return protocol.ReceiveResponse{}, err
	}
	res, err := e.receive(ctx, req, value)
	return protocol.ReceiveResponse{Result: res, SpentUSD: spent}, err
}

func (e *Engine) receive(ctx context.Context, req protocol.ReceiveRequest, value converter.RawValue) (tool.Result, error) {
	res := req.Result
	if res.Code == tool.OK {
		res = valueOf(value.Payload())
	}
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	if req.Dispatched && run != req.RunID && !req.Tool.Repeatable() {
		res = repeated(res)
	}
	info, _, _ := e.subjectTool(ctx, req.Tool)
	call := pipeline.Call{ID: req.Call.ID, Name: req.Call.Name, Input: req.Call.Input, Info: info, Agent: req.Call.Agent, RunID: run,
		Dir: req.Call.Dir, Isolation: req.Call.Isolation, Attempt: 1, IdempotencyKey: req.Call.IdempotencyKey,
		Approved: req.Call.Approved, Modified: req.Call.Modified}
	if req.Dispatched && res.Code != tool.Denied {
		res = e.cfg.Pipeline.Receive(ctx, call, res)
	} else {
		e.cfg.Pipeline.Observe(ctx, call, res)
	}
	if err := ctx.Err(); err != nil {
		// The worker is going away; what its listeners said while they were stopped counts for nothing.
		return tool.Result{}, err
	}
	return e.stored(ctx, res)
}

// stored makes a received result fit into history. Unlike one of our own tools, it can be had again when the store fails.
func (e *Engine) stored(ctx context.Context, res tool.Result) (tool.Result, error) {
	if size(res.Value) > protocol.InlineResult {
		if _, err := e.cfg.Blobs.Put(ctx, res.Value); err != nil {
			return tool.Result{}, fmt.Errorf("store the result: %w", err)
		}
	}
	out, err := e.settle(ctx, res)
	if r, ok := out.(tool.Result); ok && err == nil {
		return r, nil
	}
	return tool.Result{}, err
}

// valueOf reads what an activity or a workflow returned.
func valueOf(p *commonpb.Payload) tool.Result {
	data, encoding := p.GetData(), string(p.GetMetadata()[converter.MetadataEncoding])
	switch {
	case p == nil || encoding == converter.MetadataEncodingNil:
		return tool.Result{Code: tool.OK, Value: json.RawMessage("null")}
	case json.Valid(data) && utf8.Valid(data):
		return tool.Result{Code: tool.OK, Value: data}
	}
	r := tool.Fail(tool.NonSerializable, fmt.Sprintf("it ran and returned %d bytes of encoding %q, which are not JSON", len(data), cut(encoding, 100)))
	r.Failure.Started = true
	return r
}

// repeated is the result of a call that was in flight when its run was reset: the server has dispatched it again, and
// nobody on its worker could know.
func repeated(res tool.Result) tool.Result {
	if res.Code == tool.EffectUnknown {
		return res
	}
	r := tool.Fail(tool.EffectUnknown, fmt.Sprintf("the run was reset while this call was in flight, so it may have had its effect "+
		"more than once; the last time it ended with %s; check before trying again", res.Code))
	r.Failure.Started = true
	return r
}
