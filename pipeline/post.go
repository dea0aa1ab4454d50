package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/assent-dev/assent/tool"
)

// stage4 lets the post-execute listeners judge what stage 3 has returned.
func (x *execution) stage4(posts []*entry, result tool.Result) tool.Result {
	if len(posts) == 0 {
		return result
	}
	// broken is set for good when a frame breaks the rule of next: its inner answer cannot be trusted.
	var broken atomic.Pointer[entry]
	answer := x.postFrame(x.ctx, posts, result, &broken)
	if e := broken.Load(); e != nil {
		answer = withheld(e.owner)
	}
	if answer.kind == postReplace {
		made, ok := replaced(result, answer)
		if ok {
			return made
		}
		answer = PostAnswer{kind: postBlock, owner: answer.owner, feedback: "result withheld: its replacement is for another kind of result"}
	}
	switch {
	case answer.kind == postAccept:
		return result
	case answer.stopped && x.ctx.Err() != nil:
		return aborted(x.ctx, x.started.Load())
	}
	r := tool.Fail(tool.Blocked, orElse(answer.feedback, fmt.Sprintf("blocked by plugin %q", answer.owner)))
	r.Failure.By = answer.owner
	return r
}

// postFrame asks the first of posts with the others inside; without any, the result is accepted. What it
// returns already holds the inner answers that it cannot undo.
func (x *execution) postFrame(ctx context.Context, posts []*entry, result tool.Result, broken *atomic.Pointer[entry]) PostAnswer {
	if len(posts) == 0 {
		return Accept()
	}
	e := posts[0]
	g := &gate{onFirstViolation: func(error) { broken.CompareAndSwap(nil, e) }}
	inner := Accept()
	next := func(c context.Context) PostAnswer {
		if g.enter() != nil {
			return withheld(e.owner)
		}
		defer g.leave()
		answer := x.postFrame(orOuter(c, ctx), posts[1:], result, broken)
		g.mu.Lock()
		inner = answer
		g.mu.Unlock()
		return answer
	}
	answer, err := contain(func() (PostAnswer, error) { return e.post(ctx, x.call.Clone(), cloneResult(result), next) })
	violation := g.shut()
	if err != nil {
		// Its text may quote what the listener was there to hide.
		x.pipeline.logFailure(&x.call, "post-execute listener failed", e.owner, untold(err))
	}
	if err != nil || violation != nil || answer.kind == postNothing {
		answer = withheld(e.owner)
		answer.stopped = stopped(x.ctx, err)
		return answer
	}
	if answer.kind != postAccept && answer.owner == "" {
		answer.owner = e.owner
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return strictestPost(inner, answer)
}

// strictestPost lets outer stand unless it would undo inner: nothing undoes a Block, and accepting keeps a
// replacement. An outer replacement takes the place of an inner one; it was made knowing it.
func strictestPost(inner, outer PostAnswer) PostAnswer {
	if inner.kind == postBlock && outer.kind != postBlock || inner.kind == postReplace && outer.kind == postAccept {
		return inner
	}
	return outer
}

// withheld is the answer of a listener that failed. Its error is not told: it may quote what the listener
// was there to hide.
func withheld(owner string) PostAnswer {
	a := Block(fmt.Sprintf("result withheld: a post-execute listener of plugin %q failed", owner))
	a.owner = owner
	return a
}

// replaced is r with what the answer says in place of what it says; false if the answer is about another kind of
// result.
func replaced(r tool.Result, a PostAnswer) (tool.Result, bool) {
	ok := r.Code == tool.OK
	switch {
	case a.result != nil && ok != (a.result.Code == tool.OK):
		return r, false
	case a.result != nil && ok:
		made := cloneResult(*a.result)
		r.Value, r.ValueRef, r.Preview, r.Images = made.Value, made.ValueRef, made.Preview, made.Images
		if len(r.Value) == 0 && r.ValueRef == nil {
			r.Value = json.RawMessage("null")
		}
		return r, true
	case ok:
		// Who hides a part of a value has not looked at its images.
		r.Value, r.ValueRef, r.Preview, r.Images = bytes.Clone(a.value), nil, "", nil
		return r, true
	}
	f := *r.Failure
	if a.result != nil {
		said := tool.Failure{}
		if made := cloneResult(*a.result); made.Failure != nil {
			said = *made.Failure
		}
		f.Message, f.By, f.Issues, f.Data = orElse(said.Message, "the call ended with "+string(r.Code)), said.By, said.Issues, said.Data
		r.Failure, r.Preview = &f, a.result.Preview
		return r, true
	}
	f.Issues, f.Data = nil, nil
	var s string
	if err := json.Unmarshal(a.value, &s); err != nil || string(a.value) == "null" {
		s = string(a.value)
	}
	f.Message = s
	r.Failure, r.Preview = &f, ""
	return r, true
}
