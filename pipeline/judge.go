package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// judgement is a Decision and what a bare Execute wants to know besides.
type judgement struct {
	permission.Decision
	// by names the guard or the plugin that refused.
	by string
	// stopped is true when it refused because the call was cancelled.
	stopped bool
}

// Judge decides on a call: stage 1 round the chain, then the guards, required ones included. Nothing
// loosens the chain: the verdict is the strictest of what it says and what the listeners returned, and a
// guard denies whatever stage 1 said. The chain is asked first and exactly once, because its hooks may change
// the input, which is what listeners and guards have to judge; next gives the innermost listener its verdict.
// A chain that finds the call invalid is the last word. A nil chain allows, or asks when the tool needs approval.
//
// The Decision is the chain's, unless a listener or a guard was stricter: then DecidedBy says which, Rule
// is nil and Reason is theirs. Judge never panics. If ctx is cancelled it denies; the caller, who
// knows what cancelled it, decides what that means. The decision activity of the engine calls it.
func (p *Pipeline) Judge(ctx context.Context, call Call, chain func(context.Context) permission.Decision, required []string) permission.Decision {
	return p.judge(ctx, p.live.Load(), call, chain, required).Decision
}

func (p *Pipeline) judge(ctx context.Context, start *snapshot, call Call, chain func(context.Context) permission.Decision, required []string) judgement {
	if chain == nil {
		chain = func(context.Context) permission.Decision { return defaultDecision(call.Info) }
	}
	d, err := contain(func() (permission.Decision, error) { return chain(ctx), nil })
	if err != nil {
		d = permission.Decision{DecidedBy: permission.ByDefault, Reason: "the permission chain failed: " + text(err)}
	}
	d.Verdict = known(d.Verdict)
	if d.DecidedBy == permission.ByInvalid {
		d.Verdict = permission.Deny
		return judgement{Decision: d}
	}
	if len(d.Input) == 0 {
		d.Input = slices.Clone(call.Input)
	}
	call.Input, call.Modified = d.Input, call.Modified || d.Modified
	out := waterfall(ctx, start.pre, call, d)
	if out.Verdict == permission.Deny {
		return out
	}
	if refusal := p.guards(ctx, start, call, required); refusal != nil {
		out.Verdict, out.DecidedBy = permission.Deny, permission.ByGuard
		out.Rule, out.Reason = nil, refusal.reason
		out.by, out.stopped = refusal.guard, refusal.stopped
	}
	return out
}

// defaultDecision is what the registry says when there is no chain.
func defaultDecision(info tool.Info) permission.Decision {
	d := permission.Decision{Verdict: permission.Allow, DecidedBy: permission.ByDefault}
	if info.NeedsApproval {
		d.Verdict, d.Reason = permission.Ask, "the tool needs approval"
	}
	return d
}

// known maps a number that is no verdict to Deny; as a number it would be the loosest of all.
func known(v permission.Verdict) permission.Verdict {
	if v > permission.Allow {
		return permission.Deny
	}
	return v
}

// ruling collects what the frames of stage 1 say. Frames may run on several goroutines.
type ruling struct {
	mu              sync.Mutex
	answered        bool
	strictest, last Answer
	// owner gave the strictest answer; stopped says that it gave it because the call was cancelled.
	owner   string
	stopped bool
	// broken is set for good when a frame breaks the rule of next.
	broken      error
	brokenOwner string
}

// waterfall runs stage 1 and merges its verdict into the chain's decision.
func waterfall(ctx context.Context, listeners []*entry, call Call, d permission.Decision) judgement {
	r := &ruling{}
	r.frame(ctx, listeners, call, Answer{Verdict: d.Verdict, Reason: d.Reason})

	r.mu.Lock()
	defer r.mu.Unlock()
	out := judgement{Decision: d}
	if r.broken != nil {
		r.answered, r.owner, r.stopped = true, r.brokenOwner, false
		r.strictest = Deny(failed("pre-execute listener", r.brokenOwner, r.broken))
	}
	if r.answered && r.strictest.Verdict < d.Verdict {
		out.Verdict, out.DecidedBy = r.strictest.Verdict, permission.ByListener
		out.Rule, out.Reason = nil, r.strictest.Reason
		out.by, out.stopped = r.owner, r.stopped
	}
	return out
}

// frame asks the first of listeners with the others inside; without any, the chain has spoken.
func (r *ruling) frame(ctx context.Context, listeners []*entry, call Call, chain Answer) Answer {
	if len(listeners) == 0 {
		return chain
	}
	e := listeners[0]
	g := &gate{onFirstViolation: func(err error) { r.breakRule(e.owner, err) }}
	next := func(inner context.Context) Answer {
		if err := g.enter(); err != nil {
			return Deny(err.Error())
		}
		defer g.leave()
		return r.frame(orOuter(inner, ctx), listeners[1:], call, chain)
	}
	answer, err := contain(func() (Answer, error) { return e.pre(ctx, call.Clone(), next) })
	if violation := g.shut(); violation != nil {
		err = violation
	}
	switch {
	case err != nil:
		answer = Deny(failed("pre-execute listener", e.owner, err))
	case answer.Verdict > permission.Allow:
		answer = Deny(fmt.Sprintf("pre-execute listener of plugin %q returned an unrecognised verdict", e.owner))
	case answer == Answer{}:
		answer = Deny(fmt.Sprintf("denied by a pre-execute listener of plugin %q", e.owner))
	}
	r.record(e.owner, answer, stopped(ctx, err))
	return answer
}

// record keeps the strictest answer. Among equals the outermost has the word, unless it only passes on
// what it heard.
func (r *ruling) record(owner string, a Answer, stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	passedOn := r.answered && a == r.last
	r.last = a
	if r.answered && (a.Verdict > r.strictest.Verdict || passedOn && a == r.strictest) {
		return
	}
	r.answered, r.strictest, r.owner, r.stopped = true, a, owner, stopped
}

func (r *ruling) breakRule(owner string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken, r.brokenOwner = err, owner
	}
}

// refusal is a guard's denial.
type refusal struct {
	guard, reason string
	stopped       bool
}

// guards runs stage 2 on those mounted at the start of the call and now, and returns the first refusal.
func (p *Pipeline) guards(ctx context.Context, start *snapshot, call Call, required []string) *refusal {
	guards := start.guardsWith(p.live.Load())
	var missing []string
	for _, name := range required {
		if !slices.ContainsFunc(guards, func(e *entry) bool { return e.name == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		names := strings.Join(missing, ", ")
		return &refusal{guard: names, reason: "required guard not mounted: " + names}
	}
	for _, e := range guards {
		_, err := contain(func() (struct{}, error) { return struct{}{}, e.guard(ctx, call.Clone()) })
		if err == nil {
			continue
		}
		reason := text(err)
		if reason == "" {
			reason = fmt.Sprintf("refused by guard %s", e.name)
		}
		return &refusal{guard: e.name, reason: reason, stopped: stopped(ctx, err)}
	}
	return nil
}

// Refusal returns the Result of a Decision that denies: INVALID_ARGUMENTS with every issue when the call was
// invalid, else DENIED with the layer's reason; By names the rule. Not for Decisions that allow or ask.
func Refusal(d permission.Decision) tool.Result {
	if d.DecidedBy == permission.ByInvalid {
		r := tool.Fail(tool.InvalidArguments, orElse(d.Reason, "the arguments do not fit the tool's schema"))
		r.Failure.Issues = slices.Clone(d.Invalid)
		return r
	}
	reason, by := tool.ByRule, ""
	switch d.DecidedBy {
	case permission.ByGuard:
		reason = tool.ByGuard
	case permission.ByListener:
		reason = tool.ByListener
	case permission.ByDefault:
		// The default never denies; a chain that broke does, in its name.
		reason = tool.ByFailure
	case permission.ByHook, permission.ByCanUseTool:
		by = string(d.DecidedBy)
	}
	if d.Rule != nil {
		by = d.Rule.String()
	}
	return tool.Deny(reason, by, orElse(d.Reason, fmt.Sprintf("denied by %s", d.DecidedBy)))
}

// failed says which plugin's code failed.
func failed(what, plugin string, err error) string {
	return fmt.Sprintf("%s of plugin %q failed: %s", what, plugin, text(err))
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// orOuter guards against a listener that passes nil to next.
func orOuter(inner, outer context.Context) context.Context {
	if inner == nil {
		return outer
	}
	return inner
}
