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
	// stopped is true when it refused because the call was cancelled.
	stopped bool
}

// Judge decides on a call: stage 1 round the chain, then the guards, required ones included. Nothing
// loosens the chain: the verdict is the strictest of what it says and what the listeners returned, and a
// guard denies whatever stage 1 said. The chain is asked first and exactly once, because its hooks may change
// the input, which is what listeners and guards have to judge; next gives the innermost listener its verdict.
// A chain that finds the call invalid is the last word. A nil chain allows, or asks when the tool needs approval.
//
// The Decision is the chain's, unless a listener or a guard was stricter: then DecidedBy and By say which, Rule
// is nil and Reason is theirs. What listeners say that are of the chain's own strict opinion follows its reason.
// Judge never panics. If ctx is cancelled it denies; the caller, who
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
		d = permission.Decision{DecidedBy: permission.ByDefault, Failed: true, Reason: "the permission chain failed: " + text(err)}
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
		out.Rule, out.Reason, out.By = nil, refusal.reason, refusal.guard
		out.Failed, out.stopped = refusal.failed, refusal.stopped
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

// saying is an answer of a listener.
type saying struct {
	Answer
	owner string
	// words are the reason and whose it is.
	words string
	// failed says that the listener failed, stopped that it did because the call was cancelled.
	failed, stopped bool
}

// ruling collects what the frames of stage 1 say. Frames may run on several goroutines.
type ruling struct {
	mu       sync.Mutex
	answered bool
	last     Answer
	// strictest is the strictest answer. sayings are those that listeners gave in their own words, the innermost first.
	strictest saying
	sayings   []saying
	// broken is set for good when a frame breaks the rule of next.
	broken *saying
}

// waterfall runs stage 1 and merges its verdict into the chain's decision.
func waterfall(ctx context.Context, listeners []*entry, call Call, d permission.Decision) judgement {
	r := &ruling{}
	r.frame(ctx, listeners, call, Answer{Verdict: d.Verdict, Reason: d.Reason})

	r.mu.Lock()
	defer r.mu.Unlock()
	out := judgement{Decision: d}
	if r.broken != nil {
		r.answered, r.strictest, r.sayings = true, *r.broken, []saying{*r.broken}
	}
	switch s := r.strictest; {
	case r.answered && s.Verdict < d.Verdict:
		out.Verdict, out.DecidedBy, out.By = s.Verdict, permission.ByListener, s.owner
		out.Rule, out.Reason, out.Failed, out.stopped = nil, s.Reason, s.failed, s.stopped
	case d.Verdict != permission.Allow:
		out.Reason = r.agreed(d)
	}
	return out
}

// agreed is the reason of a decision with those of the listeners that came to the same verdict.
func (r *ruling) agreed(d permission.Decision) string {
	var reasons []string
	if d.Reason != "" {
		reasons = append(reasons, d.Reason)
	}
	for _, s := range slices.Backward(r.sayings) {
		if s.Verdict == d.Verdict && s.Reason != "" && s.Reason != d.Reason {
			reasons = append(reasons, s.words)
		}
	}
	return strings.Join(reasons, "; ")
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
	said := saying{Answer: answer, owner: e.owner, words: fmt.Sprintf("plugin %q: %s", e.owner, answer.Reason)}
	switch {
	case err != nil:
		said = broken(e.owner, err)
		said.stopped = stopped(ctx, err)
	case answer.Verdict > permission.Allow:
		said.Answer = Deny(fmt.Sprintf("pre-execute listener of plugin %q returned an unrecognised verdict", e.owner))
		said.words, said.failed = said.Reason, true
	case answer == Answer{}:
		said.Answer = Deny(fmt.Sprintf("denied by a pre-execute listener of plugin %q", e.owner))
		said.words = said.Reason
	}
	r.record(said, chain)
	return said.Answer
}

// broken is the answer of a listener that failed.
func broken(owner string, err error) saying {
	reason := failed("pre-execute listener", owner, err)
	return saying{Answer: Deny(reason), owner: owner, words: reason, failed: true}
}

// record keeps the strictest answer. Among equals the outermost has the word, unless it only passes on
// what it heard.
func (r *ruling) record(s saying, chain Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := chain
	if r.answered {
		heard = r.last
	}
	if s.Answer != heard {
		r.sayings = append(r.sayings, s)
	}
	passedOn := r.answered && s.Answer == r.last
	r.last = s.Answer
	if r.answered && (s.Verdict > r.strictest.Verdict || passedOn && s.Answer == r.strictest.Answer) {
		return
	}
	r.answered, r.strictest = true, s
}

func (r *ruling) breakRule(owner string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		s := broken(owner, err)
		r.broken = &s
	}
}

// refusal is a guard's denial.
type refusal struct {
	guard, reason string
	// failed says that the guard could not judge, stopped that this is because the call was cancelled.
	failed, stopped bool
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
		cancelled := stopped(ctx, err)
		return &refusal{guard: e.name, reason: reason, failed: cancelled || crashed(err), stopped: cancelled}
	}
	return nil
}

// Refusal returns the Result of a Decision that denies: INVALID_ARGUMENTS with every issue when the call was
// invalid, else DENIED with the layer's reason; By names the rule, guard or plugin. Not for Decisions that allow or ask.
func Refusal(d permission.Decision) tool.Result {
	if d.DecidedBy == permission.ByInvalid {
		r := tool.Fail(tool.InvalidArguments, orElse(d.Reason, "the arguments do not fit the tool's schema"))
		r.Failure.Issues = slices.Clone(d.Invalid)
		return r
	}
	reason, by := tool.ByRule, d.By
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
