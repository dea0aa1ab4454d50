package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/assent-dev/assent/tool"
)

// Decide judges one call: validation, hooks, deny rules, ask rules, canUseTool, default; then the readonly guard. It
// never panics, and whatever fails denies in the name of the layer that failed. validate returns every place where an
// input does not fit the tool; it may be nil, and is called again for each modified input. Decide takes as long as
// the hooks do; ctx ends their wait, which denies.
func (c *Chain) Decide(ctx context.Context, call Call, validate func(json.RawMessage) []tool.Issue) (d Decision) {
	j := judging{chain: c, call: call, validate: validate, layer: ByInvalid, plan: c.plans[call.Tool.Name]}
	j.call.Input = bytes.Clone(call.Input)
	if !json.Valid(j.call.Input) {
		// What is not JSON cannot stand in a decision, which is JSON itself.
		j.call.Input = json.RawMessage("null")
		d = j.decide(Deny, ByInvalid, "the input is not JSON")
		d.Invalid = []tool.Issue{{Message: "not JSON"}}
		return d
	}
	defer func() {
		if p := recover(); p != nil {
			d = j.fail(fmt.Errorf("panic: %v", p))
		}
	}()
	d = j.run(ctx)
	if d.Verdict != Deny && c.readonly && (call.Tool.Risk == tool.Write || call.Tool.Risk == tool.Destructive) {
		reason := fmt.Sprintf("readonly isolation: the tool declares %s", call.Tool.Risk)
		d = j.decide(Deny, ByGuard, reason)
	}
	return d
}

// judging is one call on its way through the chain.
type judging struct {
	chain    *Chain
	call     Call
	validate func(json.RawMessage) []tool.Issue
	// layer is the one at work, in whose name a panic denies.
	layer    Decider
	modified bool
	// plan holds the rules that read the input of the tool, or is nil.
	plan *plan
	// found is what the tables say about the present input, once found.known is set.
	found finding
}

func (j *judging) run(ctx context.Context) Decision {
	if issues := j.issues(); len(issues) > 0 {
		d := j.decide(Deny, ByInvalid, "the input does not fit the tool")
		d.Invalid = issues
		return d
	}
	for _, h := range j.chain.hooks {
		if d, done := j.hook(ctx, h); done {
			return d
		}
	}
	if d, done := j.vetted(); done {
		return d
	}
	if d, done := j.tables(); done {
		return d
	}
	if d, done := j.ask(ctx); done {
		return d
	}
	return j.fallback()
}

func (j *judging) issues() []tool.Issue {
	if j.validate == nil {
		return nil
	}
	return j.validate(bytes.Clone(j.call.Input))
}

// hook consults one hook and reports whether it decided.
func (j *judging) hook(ctx context.Context, h Hook) (Decision, bool) {
	j.layer = ByHook
	wait := j.chain.timeout
	if h.Slow {
		wait *= slowFactor
	}
	answer, err := consult(ctx, wait, j.call.clone(), h.Judge)
	if err == nil && answer.kind == answerModify {
		return j.modify(answer.input, fmt.Sprintf("hook %q", h.Name))
	}
	switch {
	case err != nil:
		return j.fail(fmt.Errorf("hook %q: %w", h.Name, err)), true
	case answer.kind == answerNone:
		return Decision{}, false
	}
	verdict := Deny
	switch answer.kind {
	case answerAllow:
		verdict = Allow
	case answerAsk:
		verdict = Ask
	}
	reason := fmt.Sprintf("hook %q", h.Name)
	if answer.reason != "" {
		reason += ": " + answer.reason
	}
	return j.decide(verdict, ByHook, reason), true
}

// modify puts another input in place. One that the tool could not take denies.
func (j *judging) modify(input json.RawMessage, who string) (Decision, bool) {
	if !json.Valid(input) {
		return j.fail(fmt.Errorf("%s changed the input to what is not JSON", who)), true
	}
	j.call.Input, j.modified, j.found.known = input, true, false
	if issues := j.issues(); len(issues) > 0 {
		d := j.fail(fmt.Errorf("%s changed the input to one that does not fit the tool", who))
		d.Invalid = issues
		return d, true
	}
	return Decision{}, false
}

// tables asks the deny and the ask rules, and leaves what asks for want of knowledge to fallback.
func (j *judging) tables() (Decision, bool) {
	j.layer = ByDenyRule
	f := j.find()
	if f.deny != none {
		return j.byRule(Deny, ByDenyRule, &j.chain.deny, f.deny), true
	}
	j.layer = ByAskRule
	if f.ask != none && !j.chain.ask.rules[f.ask].agent {
		return j.byRule(Ask, ByAskRule, &j.chain.ask, f.ask), true
	}
	return Decision{}, false
}

// ask consults canUseTool and reports whether it decided.
func (j *judging) ask(ctx context.Context) (Decision, bool) {
	if j.chain.canUseTool == nil {
		return Decision{}, false
	}
	j.layer = ByCanUseTool
	answer, err := consult(ctx, j.chain.timeout, j.call.clone(), j.chain.canUseTool)
	if err != nil {
		return j.fail(fmt.Errorf("canUseTool: %w", err)), true
	}
	switch answer.kind {
	case answerDeny:
		return j.decide(Deny, ByCanUseTool, answer.reason), true
	case answerAllow:
		if j.find().soft() || j.chain.strict && j.call.Tool.NeedsApproval {
			return Decision{}, false
		}
		return j.decide(Allow, ByCanUseTool, ""), true
	case answerAsk:
		return j.fail(errors.New("canUseTool cannot ask")), true
	case answerModify:
		if d, done := j.modify(answer.input, "canUseTool"); done {
			return d, true
		}
		return j.tables()
	}
	return Decision{}, false
}

// fallback is the end of the chain: the asks that must not shield a call from canUseTool, then the default.
func (j *judging) fallback() Decision {
	j.layer = ByAskRule
	if f := j.find(); f.ask != none {
		return j.byRule(Ask, ByAskRule, &j.chain.ask, f.ask)
	} else if f.unsure != "" {
		d := j.decide(Ask, ByAskRule, f.unsure)
		d.Segments = f.segments
		return d
	}
	j.layer = ByDefault
	verdict, reason := Allow, ""
	if j.call.Tool.NeedsApproval {
		verdict, reason = Ask, "the tool needs approval"
	}
	d := j.decide(verdict, ByDefault, reason)
	d.Segments = j.found.segments
	return d
}

// byRule is a decision of a table.
func (j *judging) byRule(v Verdict, by Decider, t *table, index int) Decision {
	d := j.decide(v, by, t.rules[index].why)
	d.Rule = t.copyOf(index)
	d.Segments = j.found.segments
	return d
}

func (j *judging) decide(v Verdict, by Decider, reason string) Decision {
	return Decision{
		Verdict: v, DecidedBy: by, Reason: reason, Input: j.call.Input, Modified: j.modified,
		Advisories: j.advisories(), PolicyDigest: j.chain.digest,
	}
}

// advisories reads the input only if some rule is about domains.
func (j *judging) advisories() []Advisory {
	if j.plan == nil || j.plan.domains.empty() {
		return nil
	}
	return j.find().advisories
}

func (j *judging) fail(err error) Decision {
	return Decision{
		Verdict: Deny, DecidedBy: j.layer, Reason: err.Error(), Input: j.call.Input, Modified: j.modified,
		Failed: true, PolicyDigest: j.chain.digest,
	}
}

// errExited reports a hook whose goroutine ended without returning.
var errExited = errors.New("ended without an answer")

// consult calls a hook and waits no longer than the hook may take, even for one that ignores its context.
func consult(ctx context.Context, wait time.Duration, call Call, judge func(context.Context, Call) (Answer, error)) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errExited}
		defer func() {
			if p := recover(); p != nil {
				o = outcome{err: fmt.Errorf("panic: %v", p)}
			}
			done <- o
		}()
		answer, err := judge(ctx, call)
		o = outcome{answer, err}
	}()
	return inTime(ctx, done)
}

// outcome is what a hook returned.
type outcome struct {
	answer Answer
	err    error
}

// inTime waits for an outcome while ctx lasts. One that comes later is none, whichever of the two is noticed first.
func inTime(ctx context.Context, done <-chan outcome) (Answer, error) {
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	return o.answer, o.err
}
