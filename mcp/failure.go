package mcp

import (
	"fmt"
	"os"
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

const (
	// mostQuoted bounds the text of a server in an error, in bytes.
	mostQuoted = 500
	// mostHidden is how much of it is looked through for keys, so that none is cut before it is found.
	mostHidden = 64 << 10
)

// quoted makes a server's text fit for an error and a log: one line, bounded, without the token.
func quoted(text string, keys ...secret.Secret) string {
	text = secret.Hide(strings.ToValidUTF8(text, "\ufffd"), keys...)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return cut(text, mostQuoted)
}

// minKey is the shortest value of a variable that is taken for a key, in bytes: a shorter one is a switch, or a number.
const minKey = 8

// passed are the values of variables that the worker passes on, and the lines of one that has several: a log has one at a
// time. Programs print what they do not like of them.
func (c *Config) passed() []secret.Secret {
	var keys []secret.Secret
	for _, name := range c.PassEnv {
		value := os.Getenv(name)
		for _, text := range append([]string{value}, strings.Split(value, "\n")...) {
			if text = strings.TrimSpace(text); len(text) >= minKey {
				keys = append(keys, secret.Of(text))
			}
		}
	}
	return keys
}

// hidden is a text without the keys that the server was given.
func (s *Server) hidden(text string) string {
	if s.web == nil {
		return secret.Hide(text, s.cfg.passed()...)
	}
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	return secret.Hide(text, s.web.sent...)
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
