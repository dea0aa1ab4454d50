package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/assent-dev/assent/fault"
)

// crashError is what foreign code left that did not return.
type crashError struct {
	text string
	// kind says the same without the words of a plugin or a tool.
	kind  string
	stack []byte
}

func (e *crashError) Error() string { return e.text }

// errExited reports foreign code that ended its goroutine instead of returning.
var errExited = &crashError{text: "ended without an answer", kind: "ended without an answer"}

// crashed reports whether err is what contain made of code that did not return.
func crashed(err error) bool {
	_, is := err.(*crashError) //errorlint:ignore the outermost one: foreign code may wrap that of other calls
	return is
}

// untold is err without its text, which may hold a secret: its type, and the stack of a panic.
func untold(err error) error {
	if e, is := err.(*crashError); is { //errorlint:ignore as in crashed
		return &crashError{text: e.kind, kind: e.kind, stack: e.stack}
	}
	return fmt.Errorf("an error of type %T", err)
}

// contain calls foreign code and returns its panic as an error, with a zero value beside it. The code has a goroutine of
// its own, because one that it ends with runtime.Goexit would be that of the activity.
func contain[T any](f func() (T, error)) (out T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var zero T
		err = errExited
		defer func() {
			if v := recover(); v != nil {
				out, err = zero, &crashError{text: "panic: " + fmt.Sprint(v), kind: "panic: " + fault.PanicKind(v), stack: debug.Stack()}
			}
		}()
		out, err = f()
	}()
	<-done
	return out, err
}

// text is err.Error() of foreign errors: fmt survives an Error method that panics, contain one that ends its goroutine.
func text(err error) string {
	s, failed := contain(func() (string, error) { return fmt.Sprint(err), nil })
	if failed != nil {
		return fmt.Sprintf("an error of type %T whose text cannot be read", err)
	}
	return s
}

// stopped reports whether err is the way in which foreign code passes on that ctx was cancelled. Code that
// says it was cancelled while its call was not has simply failed.
func stopped(ctx context.Context, err error) bool {
	if ctx.Err() == nil || err == nil {
		return false
	}
	is, _ := contain(func() (bool, error) {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, context.Cause(ctx)), nil
	})
	return is
}
