package pipeline

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// Execute runs a mounted tool without any agent: validation, Judge with the configured chain, the approver if
// the verdict is ask, Run. It never panics and every failure is a code; every outcome is observed. Ask without
// an approver, or with one that fails or answers anything but Allow, is DENIED. ABORTED is the answer only
// when ctx was cancelled. args is one JSON object.
func (p *Pipeline) Execute(ctx context.Context, name string, args json.RawMessage) tool.Result {
	start := p.live.Load()
	call := Call{
		ID: rand.Text(), Name: name, Input: bytes.Clone(args), Info: tool.Info{Name: name},
		Dir: p.config.Dir, Isolation: p.config.Isolation, Attempt: 1,
	}
	digest := sha256.Sum256(args)
	call.IdempotencyKey = call.ID + "-" + hex.EncodeToString(digest[:8])
	e, ok := start.tools[name]
	if !ok {
		return p.end(ctx, start, call, tool.Fail(tool.UnknownTool, fmt.Sprintf("there is no tool %q", name)))
	}
	call.Info = e.def.Info()
	if r := call.Info.Remote; r != nil {
		// Said before anybody is asked about it.
		return p.end(ctx, start, call, tool.Fail(tool.ToolError, fmt.Sprintf("the tool %q is %s and runs in an agent only", name, r)))
	}
	if result, ok := validated(e.def, call.Input); !ok {
		return p.end(ctx, start, call, result)
	}
	if ctx.Err() != nil {
		return p.end(ctx, start, call, aborted(ctx, false))
	}
	call, refusal := p.decide(ctx, start, call)
	if refusal != nil {
		return p.end(ctx, start, call, *refusal)
	}
	if call.Modified {
		if result, ok := validated(e.def, call.Input); !ok {
			return p.end(ctx, start, call, result)
		}
	}
	return p.run(ctx, start, call, p.config.Required, func(ctx context.Context) tool.Result {
		return e.def.Invoke(ctx, p.toolContext(call), bytes.Clone(call.Input))
	})
}

// decide returns the call as it may run, or the result that refuses it.
func (p *Pipeline) decide(ctx context.Context, start *snapshot, call Call) (Call, *tool.Result) {
	var chain func(context.Context) permission.Decision
	if p.config.Chain != nil {
		chain = func(ctx context.Context) permission.Decision { return p.config.Chain(ctx, call.Clone()) }
	}
	j := p.judge(ctx, start, call, chain, p.config.Required)
	if j.DecidedBy != permission.ByInvalid {
		call.Modified = !bytes.Equal(call.Input, j.Input)
		call.Input = j.Input
	}
	switch {
	case j.stopped:
		r := aborted(ctx, false)
		return call, &r
	case j.Verdict == permission.Deny:
		r := Refusal(j.Decision)
		return call, &r
	case j.Verdict == permission.Ask:
		return p.ask(ctx, start, call, j.Decision)
	}
	return call, nil
}

// ask puts the question to the approver that was the newest when the call began.
func (p *Pipeline) ask(ctx context.Context, start *snapshot, call Call, d permission.Decision) (Call, *tool.Result) {
	refuse := func(reason tool.Reason, by, message string) (Call, *tool.Result) {
		r := tool.Deny(reason, by, message)
		return call, &r
	}
	if start.approver == nil {
		return refuse(tool.ByFailure, Refusal(d).Failure.By, orElse(d.Reason, "approval required, but no approver is registered"))
	}
	answer, by, err := approve(ctx, start.approver, call, d)
	switch {
	case err == nil && answer.Verdict == permission.Allow:
		call.Approved = &tool.Approved{Key: call.ID, By: by, Reason: answer.Reason}
		return call, nil
	case ctx.Err() != nil:
		r := aborted(ctx, false)
		return call, &r
	case err != nil:
		return refuse(tool.ByFailure, by, answer.Reason)
	}
	return refuse(tool.ByPerson, by, orElse(answer.Reason, orElse(d.Reason, "denied by approver")))
}

// validated reports whether the arguments fit; if not, with the result that says where they do not.
func validated(def *tool.Def, input json.RawMessage) (tool.Result, bool) {
	issues, err := contain(func() ([]tool.Issue, error) { return def.Validate(input), nil })
	if err != nil {
		issues = []tool.Issue{{Message: "the arguments could not be checked: " + text(err)}}
	}
	if len(issues) == 0 {
		return tool.Result{}, true
	}
	r := tool.Fail(tool.InvalidArguments, "the arguments do not fit the tool's schema")
	r.Failure.Issues = issues
	return r, false
}

// end is the way out for calls that never ran.
func (p *Pipeline) end(ctx context.Context, start *snapshot, call Call, result tool.Result) tool.Result {
	p.observe(ctx, start, call, result)
	return result
}

func (p *Pipeline) toolContext(call Call) *tool.Context {
	log := p.config.Log
	if log == nil {
		log = slog.Default()
	}
	c := &tool.Context{
		SpanID: call.ID, CallID: call.ID, IdempotencyKey: call.IdempotencyKey, Attempt: call.Attempt,
		Dir: call.Dir, Isolation: call.Isolation, Approved: clonePointer(call.Approved),
		Log: log.With("tool", call.Name, "call", call.ID),
	}
	if p.config.Rules != nil {
		c.Rules = p.config.Rules(call.Name)
	}
	return c
}
