package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/assent-dev/assent/permission"
)

// ErrUnavailable is what an Approver returns, wrapped or not, when it has no answer now: an engine then leaves
// the question to people. In a bare Execute, where there are none, the call is DENIED.
var ErrUnavailable = errors.New("approver unavailable")

// HasApprover reports whether an approver is mounted.
func (p *Pipeline) HasApprover() bool { return p.live.Load().approver != nil }

// Approve puts a question to the approver that is the newest now. The verdict of the Answer is Allow or Deny, and
// Allow only if the approver said exactly that and no error. by names its plugin; it is empty if there is none.
//
// With an error the Answer denies and its Reason says what went wrong. The error is ErrUnavailable if there is no
// approver or it is unavailable, and the cause of ctx if the call was cancelled before it allowed: neither is an
// answer. Any other error is how the approver failed, its panic included; that denies. The activity that asks
// approvers calls it; it bounds the time of the approver by ctx.
func (p *Pipeline) Approve(ctx context.Context, call Call, question permission.Decision) (answer Answer, by string, err error) {
	return approve(ctx, p.live.Load().approver, call, question)
}

func approve(ctx context.Context, e *entry, call Call, question permission.Decision) (Answer, string, error) {
	if e == nil {
		return Deny("no approver is mounted"), "", ErrUnavailable
	}
	question.Input = bytes.Clone(question.Input)
	question.Advisories, question.Segments = slices.Clone(question.Advisories), slices.Clone(question.Segments)
	question.Invalid, question.Rule = slices.Clone(question.Invalid), clonePointer(question.Rule)
	answer, err := contain(func() (Answer, error) { return e.approver(ctx, call.Clone(), question) })
	switch {
	case err == nil && answer.Verdict == permission.Allow:
		return answer, e.owner, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
		return Deny("the call was cancelled while an approver was asked: " + text(err)), e.owner, err
	case err != nil && unavailable(err):
		return Deny(failed("approver", e.owner, err)), e.owner, fmt.Errorf("plugin %q: %w", e.owner, ErrUnavailable)
	case err != nil:
		// The text of a foreign error is taken once, here: its methods may panic.
		err = errors.New(failed("approver", e.owner, err))
		return Deny(err.Error()), e.owner, err
	}
	return Deny(answer.Reason), e.owner, nil
}

func unavailable(err error) bool {
	is, _ := contain(func() (bool, error) { return errors.Is(err, ErrUnavailable), nil })
	return is
}
