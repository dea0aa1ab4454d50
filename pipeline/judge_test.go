package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

func TestJudgeTakesTheStrictest(t *testing.T) {
	rule := &permission.Rule{Tool: permission.One("t")}
	verdicts := []permission.Verdict{permission.Deny, permission.Ask, permission.Allow}
	for _, chained := range verdicts {
		for _, listened := range verdicts {
			for _, callsNext := range []bool{false, true} {
				p := quiet()
				pre(t, p, "l", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
					if callsNext {
						assert.Equal(t, chained, next(ctx).Verdict)
					}
					return pipeline.Answer{Verdict: listened, Reason: "listener"}, nil
				})
				d := p.Judge(t.Context(), call{Name: "t", Input: json.RawMessage(`{}`)},
					chain(permission.Decision{Verdict: chained, DecidedBy: permission.ByAskRule, Rule: rule, Reason: "chain", PolicyDigest: "p"}), nil)
				assert.Equal(t, permission.Strictest(chained, listened), d.Verdict)
				assert.Equal(t, "p", d.PolicyDigest)
				assert.JSONEq(t, `{}`, string(d.Input))
				if listened < chained {
					assert.Equal(t, permission.ByListener, d.DecidedBy)
					assert.Equal(t, "listener", d.Reason)
					assert.Equal(t, "l", d.By)
					assert.Nil(t, d.Rule)
				} else {
					// A tie is the chain's: its rule says who may answer.
					assert.Equal(t, permission.ByAskRule, d.DecidedBy)
					assert.Equal(t, rule, d.Rule)
					assert.Empty(t, d.By)
					want := "chain"
					if listened == chained && chained != permission.Allow {
						want = `chain; plugin "l": listener`
					}
					assert.Equal(t, want, d.Reason)
				}
			}
		}
	}
}

func TestJudgeListenersAndGuardsSeeTheChainsInput(t *testing.T) {
	p := quiet()
	var seen []string
	note := func(who string, c call) {
		seen = append(seen, who+string(c.Input))
		assert.True(t, c.Modified)
		copy(c.Input, "XXXXXXX") // changes a private copy
	}
	pre(t, p, "l", func(ctx context.Context, c call, next ask) (pipeline.Answer, error) {
		note("l", c)
		return next(ctx), nil
	})
	guard(t, p, "g", func(_ context.Context, c call) error { note("g", c); return nil })
	guard(t, p, "h", func(_ context.Context, c call) error { note("h", c); return nil })
	d := p.Judge(t.Context(), call{Name: "t", Input: json.RawMessage(`{"a":1}`)}, chain(permission.Decision{
		Verdict: permission.Allow, DecidedBy: permission.ByHook, Input: json.RawMessage(`{"a":2}`), Modified: true}), []string{"g"})
	assert.Equal(t, permission.Allow, d.Verdict)
	assert.Equal(t, []string{`l{"a":2}`, `g{"a":2}`, `h{"a":2}`}, seen)
	assert.Equal(t, `{"a":2}`, string(d.Input))
}

func TestJudgeFailsClosed(t *testing.T) {
	allow := permission.Decision{Verdict: permission.Allow, DecidedBy: permission.ByDefault}
	for _, c := range []struct {
		name   string
		mount  func(*pipeline.Pipeline)
		chain  func(context.Context) permission.Decision
		by     permission.Decider
		reason string
	}{
		{"a chain that panics", nil, func(context.Context) permission.Decision { panic("x") },
			permission.ByDefault, "the permission chain failed: panic: x"},
		{"a chain beyond allow", nil, chain(permission.Decision{Verdict: 3, DecidedBy: permission.ByHook, Reason: "r"}), permission.ByHook, "r"},
		{"an invalid call", nil, chain(permission.Decision{Verdict: permission.Allow, DecidedBy: permission.ByInvalid}), permission.ByInvalid, ""},
		{"a listener that panics", func(p *pipeline.Pipeline) {
			pre(t, p, "l", func(context.Context, call, ask) (pipeline.Answer, error) { panic("x") })
		}, nil, permission.ByListener, `pre-execute listener of plugin "l" failed: panic: x`},
		{"a listener that panics after an allow", func(p *pipeline.Pipeline) {
			pre(t, p, "l", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
				next(ctx)
				panic(errors.New("x"))
			})
		}, nil, permission.ByListener, `pre-execute listener of plugin "l" failed: panic: x`},
		{"an error beside an allow", func(p *pipeline.Pipeline) {
			pre(t, p, "l", func(context.Context, call, ask) (pipeline.Answer, error) { return pipeline.Allow(), errors.New("x") })
		}, nil, permission.ByListener, `pre-execute listener of plugin "l" failed: x`},
		{"an error whose text panics", func(p *pipeline.Pipeline) {
			pre(t, p, "l", func(context.Context, call, ask) (pipeline.Answer, error) { return pipeline.Allow(), badError{} })
		}, nil, permission.ByListener, `pre-execute listener of plugin "l" failed: %!v(PANIC=Error method: no text)`},
		{"an inner failure that the outer drops", func(p *pipeline.Pipeline) {
			pre(t, p, "o", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
				next(ctx)
				return pipeline.Allow(), nil
			})
			pre(t, p, "i", func(context.Context, call, ask) (pipeline.Answer, error) { panic("x") })
		}, nil, permission.ByListener, `pre-execute listener of plugin "i" failed: panic: x`},
		{"next twice, the second answer dropped", func(p *pipeline.Pipeline) {
			pre(t, p, "l", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
				a := next(ctx)
				next(ctx)
				return a, nil
			})
		}, nil, permission.ByListener, `pre-execute listener of plugin "l" failed: next was called twice`},
		{"a guard that panics", func(p *pipeline.Pipeline) {
			guard(t, p, "g", func(context.Context, call) error { panic("x") })
		}, nil, permission.ByGuard, "panic: x"},
		{"a guard without words", func(p *pipeline.Pipeline) { guard(t, p, "g", refuses("")) }, nil, permission.ByGuard, "refused by guard g"},
		{"a guard with a typed nil", func(p *pipeline.Pipeline) {
			guard(t, p, "g", func(context.Context, call) error { return (*nilError)(nil) })
		}, nil, permission.ByGuard, "<nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := quiet()
			if c.mount != nil {
				c.mount(p)
			}
			if c.chain == nil {
				c.chain = chain(allow)
			}
			d := p.Judge(t.Context(), call{Name: "t"}, c.chain, nil)
			assert.Equal(t, permission.Deny, d.Verdict)
			assert.Equal(t, c.by, d.DecidedBy)
			assert.Equal(t, c.reason, d.Reason)
		})
	}
}

type badError struct{}

func (badError) Error() string  { panic("no text") }
func (badError) Is(error) bool  { panic("no kind") }
func (badError) As(any) bool    { panic("no kind") }
func (badError) String() string { return "" }

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestJudgeNextOutlivesItsFrame(t *testing.T) {
	t.Run("called after the listener returned, before stage 1 ended", func(t *testing.T) {
		p := quiet()
		var late ask
		pre(t, p, "outer", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			a := next(ctx)
			assert.Equal(t, permission.Deny, late(ctx).Verdict)
			return a, nil
		})
		pre(t, p, "inner", func(_ context.Context, _ call, next ask) (pipeline.Answer, error) {
			late = next
			return pipeline.Allow(), nil
		})
		d := p.Judge(t.Context(), call{Name: "t"}, nil, nil)
		assert.Equal(t, permission.Deny, d.Verdict)
		assert.Contains(t, d.Reason, `"inner" failed: next was called after`)
	})
	t.Run("called long after", func(t *testing.T) {
		p := quiet()
		var late ask
		pre(t, p, "l", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			late = next
			return pipeline.Allow(), nil
		})
		assert.Equal(t, permission.Allow, p.Judge(t.Context(), call{Name: "t"}, nil, nil).Verdict)
		assert.Equal(t, permission.Deny, late(t.Context()).Verdict)
	})
	t.Run("still running", func(t *testing.T) {
		p := quiet()
		entered, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		pre(t, p, "outer", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			go func() { defer close(done); next(ctx) }()
			<-entered
			return pipeline.Allow(), nil
		})
		pre(t, p, "inner", func(context.Context, call, ask) (pipeline.Answer, error) {
			close(entered)
			<-release
			return pipeline.Deny("too late to be heard"), nil
		})
		d := p.Judge(t.Context(), call{Name: "t"}, nil, nil)
		assert.Equal(t, permission.Deny, d.Verdict)
		assert.Contains(t, d.Reason, "while next was still running")
		close(release)
		<-done
	})
	t.Run("from two goroutines at once", func(t *testing.T) {
		p := quiet()
		pre(t, p, "l", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			second := make(chan pipeline.Answer)
			go func() { second <- next(ctx) }()
			a := next(ctx)
			b := <-second
			assert.NotEqual(t, a.Verdict, b.Verdict, "one is refused")
			return pipeline.Allow(), nil
		})
		assert.Equal(t, permission.Deny, p.Judge(t.Context(), call{Name: "t"}, nil, nil).Verdict)
	})
}

func TestJudgeReasons(t *testing.T) {
	p := quiet()
	pre(t, p, "outer", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) { return next(ctx), nil })
	pre(t, p, "middle", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
		next(ctx)
		return pipeline.Ask("middle"), nil
	})
	answers(t, p, "inner", pipeline.Ask("inner"))
	d := p.Judge(t.Context(), call{Name: "t"}, nil, nil)
	assert.Equal(t, permission.Ask, d.Verdict)
	assert.Equal(t, "middle", d.Reason, "of equals the outermost that speaks for itself")
}

// Whoever is of the chain's strict opinion is heard after it, in its own words; who only passes it on says nothing new.
func TestJudgeKeepsReasonsOfTheSameVerdict(t *testing.T) {
	judge := func(v permission.Verdict, mount func(p *pipeline.Pipeline)) permission.Decision {
		p := quiet()
		mount(p)
		return p.Judge(t.Context(), call{Name: "t"}, chain(permission.Decision{Verdict: v, DecidedBy: permission.ByAskRule, Reason: "chain"}), nil)
	}
	passes := func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) { return next(ctx), nil }
	d := judge(permission.Ask, func(p *pipeline.Pipeline) {
		pre(t, p, "outermost", passes)
		pre(t, p, "outer", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			next(ctx)
			return pipeline.Ask("costs money"), nil
		})
		pre(t, p, "middle", passes)
		pre(t, p, "allows", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			next(ctx)
			return pipeline.Allow(), nil
		})
		pre(t, p, "inner", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			next(ctx)
			return pipeline.Ask("is public"), nil
		})
		pre(t, p, "innermost", passes)
	})
	assert.Equal(t, `chain; plugin "outer": costs money; plugin "inner": is public`, d.Reason)
	assert.Equal(t, permission.ByAskRule, d.DecidedBy)

	d = judge(permission.Deny, func(p *pipeline.Pipeline) {
		pre(t, p, "l", func(context.Context, call, ask) (pipeline.Answer, error) { panic("x") })
		answers(t, p, "silent", pipeline.Answer{})
	})
	assert.Equal(t, `chain; pre-execute listener of plugin "l" failed: panic: x`, d.Reason)

	d = judge(permission.Deny, func(p *pipeline.Pipeline) {
		pre(t, p, "twice", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) {
			next(ctx)
			return next(ctx), nil
		})
		answers(t, p, "inner", pipeline.Deny("no"))
	})
	assert.Equal(t, `chain; pre-execute listener of plugin "twice" failed: next was called twice`, d.Reason,
		"what a frame that breaks the rule of next has heard is not told")
}

// Failed tells a layer that could not judge from one that was against the call.
func TestJudgeTellsFailureFromOpinion(t *testing.T) {
	for name, c := range map[string]struct {
		mount  func(*pipeline.Pipeline)
		by     string
		failed bool
	}{
		"listener denies": {func(p *pipeline.Pipeline) { answers(t, p, "l", pipeline.Deny("no")) }, "l", false},
		"listener panics": {func(p *pipeline.Pipeline) {
			pre(t, p, "l", func(context.Context, call, ask) (pipeline.Answer, error) { panic("x") })
		}, "l", true},
		"listener calls next twice": {func(p *pipeline.Pipeline) {
			pre(t, p, "l", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) { next(ctx); return next(ctx), nil })
		}, "l", true},
		"guard denies": {func(p *pipeline.Pipeline) { guard(t, p, "g", refuses("no")) }, "g", false},
		"guard panics": {func(p *pipeline.Pipeline) { guard(t, p, "g", func(context.Context, call) error { panic("x") }) }, "g", true},
		"guard exits": {func(p *pipeline.Pipeline) {
			guard(t, p, "g", func(context.Context, call) error { runtime.Goexit(); return nil })
		}, "g", true},
		"guard that says it was cancelled": {func(p *pipeline.Pipeline) {
			guard(t, p, "g", func(context.Context, call) error { return context.Canceled })
		}, "g", false},
	} {
		p := quiet()
		c.mount(p)
		d := p.Judge(t.Context(), call{Name: "t"}, nil, nil)
		assert.Equal(t, permission.Deny, d.Verdict, name)
		assert.Equal(t, c.by, d.By, name)
		assert.Equal(t, c.failed, d.Failed, name)
		assert.Equal(t, c.by, pipeline.Refusal(d).Failure.By, name)
	}
	p := quiet()
	ctx, cancel := context.WithCancel(t.Context())
	guard(t, p, "g", func(context.Context, call) error { cancel(); return ctx.Err() })
	assert.True(t, p.Judge(ctx, call{Name: "t"}, nil, nil).Failed, "it was cut short")
	d := quiet().Judge(t.Context(), call{}, func(context.Context) permission.Decision { panic("x") }, nil)
	assert.True(t, d.Failed)
}

func TestJudgeNilContextToNext(t *testing.T) {
	p := quiet()
	pre(t, p, "outer", func(_ context.Context, _ call, next ask) (pipeline.Answer, error) {
		var none context.Context
		return next(none), nil
	})
	pre(t, p, "inner", func(ctx context.Context, _ call, next ask) (pipeline.Answer, error) { return next(ctx), ctx.Err() })
	assert.Equal(t, permission.Allow, p.Judge(t.Context(), call{Name: "t"}, nil, nil).Verdict)
}

func TestRequiredGuards(t *testing.T) {
	p := quiet()
	ran := 0
	guard(t, p, "here", func(context.Context, call) error { ran++; return nil })
	d := p.Judge(t.Context(), call{Name: "t"}, nil, []string{"here", "b", "a"})
	assert.Equal(t, permission.Deny, d.Verdict)
	assert.Equal(t, permission.ByGuard, d.DecidedBy)
	assert.Equal(t, "required guard not mounted: b, a", d.Reason)
	assert.Zero(t, ran)
	d = p.Judge(t.Context(), call{Name: "t"}, nil, []string{"here"})
	assert.Equal(t, permission.Allow, d.Verdict)
	assert.Equal(t, 1, ran)

	codes := watch(t, p)
	r := p.Run(t.Context(), call{Name: "t"}, []string{"away"}, func(context.Context) tool.Result { panic("must not run") })
	assert.Equal(t, tool.Deny(tool.ByGuard, "away", "required guard not mounted: away"), r)
	assert.Equal(t, []tool.Code{tool.Denied}, *codes)
}

func TestGuardsRunBeforeAsking(t *testing.T) {
	p := quiet()
	guard(t, p, "g", refuses("never"))
	d := p.Judge(t.Context(), call{Name: "t"}, chain(permission.Decision{
		Verdict: permission.Ask, DecidedBy: permission.ByAskRule, Rule: &permission.Rule{Tool: permission.One("t")}}), nil)
	assert.Equal(t, permission.Decision{Verdict: permission.Deny, DecidedBy: permission.ByGuard, By: "g", Reason: "never"}, d)
}

func TestDefaultDecision(t *testing.T) {
	p := quiet()
	d := p.Judge(t.Context(), call{Name: "t", Info: tool.Info{NeedsApproval: true}}, nil, nil)
	assert.Equal(t, permission.Ask, d.Verdict)
	assert.Equal(t, permission.ByDefault, d.DecidedBy)
}

func TestRefusal(t *testing.T) {
	rule := &permission.Rule{Tool: permission.One("t")}
	issues := []tool.Issue{{Pointer: "/a", Message: "m"}}
	for _, c := range []struct {
		in   permission.Decision
		want tool.Result
	}{
		{permission.Decision{DecidedBy: permission.ByDenyRule, Rule: rule, Reason: "r"}, tool.Deny(tool.ByRule, rule.String(), "r")},
		{permission.Decision{DecidedBy: permission.ByDenyRule, Rule: rule}, tool.Deny(tool.ByRule, rule.String(), "denied by deny-rule")},
		{permission.Decision{DecidedBy: permission.ByHook, Reason: "r"}, tool.Deny(tool.ByRule, "hook", "r")},
		{permission.Decision{DecidedBy: permission.ByCanUseTool, Reason: "r"}, tool.Deny(tool.ByRule, "canUseTool", "r")},
		{permission.Decision{DecidedBy: permission.ByGuard, Reason: "r"}, tool.Deny(tool.ByGuard, "", "r")},
		{permission.Decision{DecidedBy: permission.ByListener, Reason: "r"}, tool.Deny(tool.ByListener, "", "r")},
		{permission.Decision{DecidedBy: permission.ByDefault, Reason: "r"}, tool.Deny(tool.ByFailure, "", "r")},
		{permission.Decision{DecidedBy: permission.ByInvalid, Reason: "r", Invalid: issues},
			tool.Result{Code: tool.InvalidArguments, Failure: &tool.Failure{Message: "r", Issues: issues}}},
	} {
		assert.Equal(t, c.want, pipeline.Refusal(c.in))
	}
}

func TestReadonly(t *testing.T) {
	p := quiet()
	_, err := p.Mount(pipeline.Readonly())
	require.NoError(t, err)
	assert.Equal(t, []string{pipeline.ReadonlyGuard}, p.GuardNames())
	for _, risk := range append(tool.Risks(), tool.Undeclared) {
		for _, isolation := range []string{"", "none", "worktree", "readonly"} {
			d := p.Judge(t.Context(), call{Name: "t", Isolation: isolation, Info: tool.Info{Risk: risk}}, nil, nil)
			refused := isolation == "readonly" && (risk == tool.Write || risk == tool.Destructive)
			assert.Equal(t, refused, d.Verdict == permission.Deny, "%s in %s", risk, isolation)
		}
	}
}
