package mcp

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/assent-dev/assent/internal/secret"
)

// failure is why a request has no answer.
type failure struct {
	msg string
	// refused says that the server did not do what it was asked: it said so, or was never reached.
	refused bool
	// gone says that the session is of no more use.
	gone bool
	// doubt says that the session may be unknown to the server, or only what was asked in it.
	doubt bool
	// answered says that the server has done what it was asked, and what it said cannot be used.
	answered bool
}

func (f *failure) Error() string { return f.msg }

// mostQuoted bounds the text of a server in an error, in bytes.
const mostQuoted = 500

// quoted makes a server's text fit for an error and a log: one line, bounded, without the token.
func quoted(text string, keys ...secret.Secret) string {
	text = secret.Hide(strings.ToValidUTF8(text, "\ufffd"), keys...)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return cut(text, mostQuoted)
}

// cut shortens a text to most bytes, at a whole character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func tooLarge() *failure {
	return &failure{msg: fmt.Sprintf("its answer is larger than %d MiB, which is the most that is read", MaxMessage>>20), answered: true}
}
