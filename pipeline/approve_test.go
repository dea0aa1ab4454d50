package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
)

func question() permission.Decision {
	return permission.Decision{Verdict: permission.Ask, Reason: "why", Input: json.RawMessage(`{"a":1}`),
		Rule: &permission.Rule{Reason: "r"}, Advisories: []permission.Advisory{{Host: "h"}}}
}

func TestApprove(t *testing.T) {
	fails := func(a pipeline.Answer, err error) pipeline.Approver {
		return func(context.Context, call, permission.Decision) (pipeline.Answer, error) { return a, err }
	}
	yes := pipeline.Answer{Verdict: permission.Allow, Reason: "fine"}
	for _, c := range []struct {
		name        string
		approver    pipeline.Approver
		want        pipeline.Answer
		err         string
		unavailable bool
	}{
		{name: "nobody", want: pipeline.Deny("no approver is mounted"), err: "approver unavailable", unavailable: true},
		{name: "allow", approver: says(yes), want: yes},
		{name: "deny", approver: says(pipeline.Deny("no")), want: pipeline.Deny("no")},
		{name: "zero", approver: says(pipeline.Answer{}), want: pipeline.Deny("")},
		{name: "ask", approver: says(pipeline.Ask("?")), want: pipeline.Deny("?")},
		{name: "beyond allow", approver: says(pipeline.Answer{Verdict: 3, Reason: "yes"}), want: pipeline.Deny("yes")},
		{name: "unavailable", approver: fails(yes, fmt.Errorf("closed: %w", pipeline.ErrUnavailable)),
			want: pipeline.Deny(`approver of plugin "human" failed: closed: approver unavailable`), err: `plugin "human": approver unavailable`, unavailable: true},
		{name: "an error beside an allow", approver: fails(yes, errors.New("x")),
			want: pipeline.Deny(`approver of plugin "human" failed: x`), err: `approver of plugin "human" failed: x`},
		{name: "an error that panics", approver: fails(yes, badError{}),
			want: pipeline.Deny(`approver of plugin "human" failed: %!v(PANIC=Error method: no text)`), err: `approver of plugin "human" failed: %!v(PANIC=Error method: no text)`},
		{name: "a panic", approver: func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
			panic(pipeline.ErrUnavailable)
		},
			want: pipeline.Deny(`approver of plugin "human" failed: panic: approver unavailable`), err: `approver of plugin "human" failed: panic: approver unavailable`},
		{name: "an exit", approver: func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
			runtime.Goexit()
			return yes, nil
		}, want: pipeline.Deny(`approver of plugin "human" failed: ended without an answer`), err: `approver of plugin "human" failed: ended without an answer`},
		{name: "says it was cancelled and was not", approver: fails(yes, context.Canceled),
			want: pipeline.Deny(`approver of plugin "human" failed: context canceled`), err: `approver of plugin "human" failed: context canceled`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := quiet()
			if c.approver != nil {
				mount(t, p, "human", func(s *pipeline.Scope) error { return s.Approver(c.approver) })
			}
			answer, by, err := p.Approve(t.Context(), call{}, question())
			assert.Equal(t, c.want, answer)
			assert.Equal(t, c.approver != nil, p.HasApprover())
			assert.Equal(t, c.approver != nil, by == "human")
			if c.err == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, c.err)
			}
			assert.Equal(t, c.unavailable, errors.Is(err, pipeline.ErrUnavailable))
		})
	}
}

// What an approver says while its call is being cancelled is no answer, unless it is a clear yes.
func TestApproveIsCancelled(t *testing.T) {
	lost := errors.New("the worker stops")
	for name, say := range map[string]func() (pipeline.Answer, error){
		"deny":        func() (pipeline.Answer, error) { return pipeline.Deny("no"), nil },
		"zero":        func() (pipeline.Answer, error) { return pipeline.Answer{}, context.Canceled },
		"unavailable": func() (pipeline.Answer, error) { return pipeline.Answer{}, pipeline.ErrUnavailable },
		"panic":       func() (pipeline.Answer, error) { panic("x") },
		"allow":       func() (pipeline.Answer, error) { return pipeline.Allow(), nil },
	} {
		p := quiet()
		ctx, cancel := context.WithCancelCause(t.Context())
		mount(t, p, "human", func(s *pipeline.Scope) error {
			return s.Approver(func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
				cancel(lost)
				return say()
			})
		})
		answer, by, err := p.Approve(ctx, call{}, question())
		assert.Equal(t, "human", by, name)
		if name == "allow" {
			assert.Equal(t, pipeline.Allow(), answer)
			assert.NoError(t, err)
			continue
		}
		assert.ErrorIs(t, err, lost, name)
		assert.NotErrorIs(t, err, pipeline.ErrUnavailable, name)
		assert.Equal(t, pipeline.Deny("the call was cancelled while an approver was asked: the worker stops"), answer, name)
	}
}

// An approver can change neither the question nor the call of its caller, and the newest one that is open answers.
func TestApproveAsksTheNewestWithCopies(t *testing.T) {
	p := quiet()
	mount(t, p, "old", func(s *pipeline.Scope) error { return s.Approver(says(pipeline.Deny("old"))) })
	newest := mount(t, p, "new", func(s *pipeline.Scope) error {
		return s.Approver(func(_ context.Context, c call, d permission.Decision) (pipeline.Answer, error) {
			copy(d.Input, "XX")
			copy(c.Input, "XX")
			d.Rule.Reason, d.Advisories[0].Host = "changed", "changed"
			return pipeline.Allow(), nil
		})
	})
	q, c := question(), call{Input: json.RawMessage(`{"a":1}`)}
	answer, by, err := p.Approve(t.Context(), c, q)
	assert.NoError(t, err)
	assert.Equal(t, pipeline.Allow(), answer)
	assert.Equal(t, "new", by)
	assert.Equal(t, question(), q)
	assert.Equal(t, `{"a":1}`, string(c.Input))
	newest.Close()
	answer, by, err = p.Approve(t.Context(), c, q)
	assert.NoError(t, err)
	assert.Equal(t, pipeline.Deny("old"), answer)
	assert.Equal(t, "old", by)
}
