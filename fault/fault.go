package fault

import (
	"errors"
	"fmt"
	"strings"
)

// ConfigError reports a definition, policy or configuration that cannot be used. It is raised where the
// value is defined or loaded, never at first use, and trying again without changing it cannot help.
type ConfigError struct {
	// File, Line and Column say where; a zero Line means the value did not come from a file.
	File         string
	Line, Column int
	// Key is the dotted path of the offending key, or the subject, for example `profiles.fixer.model`.
	Key string
	// Msg says what is wrong, in lower case and without a final stop.
	Msg string
	// Allowed lists the values that would have been accepted, if the set is closed.
	Allowed []string
	// Excerpt shows the lines around the place, or is empty.
	Excerpt string
	// Cause is the error underneath, or nil.
	Cause error
}

// Configf returns a ConfigError about key.
func Configf(key, format string, args ...any) *ConfigError {
	return &ConfigError{Key: key, Msg: fmt.Sprintf(format, args...)}
}

// Error prints `file:line:col: key: message; one of a, b`, without the parts that are not known.
func (e *ConfigError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, max(e.Column, 1))
		}
		b.WriteString(": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key)
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	if len(e.Allowed) > 0 {
		b.WriteString("; one of ")
		b.WriteString(strings.Join(e.Allowed, ", "))
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Cause }

// IsConfig reports whether err is or wraps a ConfigError.
func IsConfig(err error) bool {
	var c *ConfigError
	return errors.As(err, &c)
}

// NotBuiltError reports a capability that is specified but does not exist yet. It is never retried.
type NotBuiltError struct {
	// Feature names the capability, for example `approval edit`.
	Feature string
}

func (e *NotBuiltError) Error() string { return e.Feature + " is not available in this version" }
