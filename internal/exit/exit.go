package exit

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/fault"
)

// The exit codes of every command.
const (
	OK = 0
	// Failed is an error, or an agent that ended with one or was cancelled.
	Failed = 1
	// Usage is a wrong invocation, a configuration that cannot be used, or a name that means several things.
	Usage = 2
	// Suspended is an agent that was left waiting for an answer.
	Suspended = 3
	// Limited is an agent that ended at a limit or escalated.
	Limited = 4
	// Interrupted is what a shell reports for Ctrl-C: the command ended, what it watched goes on.
	Interrupted = 130
)

// Error is an error with its exit code and what to do about it.
type Error struct {
	Code int
	// Err may be nil: then nothing is printed, because the command has said it already.
	Err error
	// Hint is one line, or empty.
	Hint string
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error underneath.
func (e *Error) Unwrap() error { return e.Err }

// Code is an exit code without a message; nil for OK.
func Code(code int) error {
	if code == OK {
		return nil
	}
	return &Error{Code: code}
}

// Failf is a plain failure with a hint, which may be empty.
func Failf(hint, format string, args ...any) error {
	return &Error{Code: Failed, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Usagef is a wrong invocation with a hint, which may be empty.
func Usagef(hint, format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...), Hint: hint}
}

// WithHint adds what to do to an error and keeps its code. A hint that is there already stays.
func WithHint(err error, hint string) error {
	var e *Error
	if err == nil || errors.As(err, &e) && e.Hint != "" {
		return err
	}
	return &Error{Code: CodeOf(err), Err: err, Hint: hint}
}

// CodeOf is the exit code of an error.
func CodeOf(err error) int {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case fault.IsConfig(err):
		return Usage
	}
	return Failed
}

// Report prints an error for people and returns its exit code.
func Report(w io.Writer, err error) int {
	if err == nil {
		return OK
	}
	var e *Error
	if errors.As(err, &e) && e.Err == nil {
		return e.Code
	}
	fmt.Fprintf(w, "error: %s\n", indent(visible(err.Error())))
	var c *fault.ConfigError
	if errors.As(err, &c) && c.Excerpt != "" {
		fmt.Fprintln(w, clip(visible(strings.TrimRight(c.Excerpt, "\n"))))
	}
	if e != nil && e.Hint != "" {
		fmt.Fprintf(w, "hint: %s\n", indent(visible(e.Hint)))
	}
	return CodeOf(err)
}

// indent keeps the further lines of a message from looking like messages of their own.
func indent(s string) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// visible writes what could move the cursor or hide as an escape: messages quote files and addresses as they are.
func visible(s string) string {
	shown := func(r rune) bool { return r == '\n' || r == '\t' || approval.Visible(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !shown(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if shown(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// mostColumns is more than a line that a person wrote has.
const mostColumns = 160

// clip shortens the lines of an excerpt: a file that is not text may be one line.
func clip(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if runes := []rune(line); len(runes) > mostColumns {
			lines[i] = string(runes[:mostColumns]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}
