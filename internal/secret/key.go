package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/assent-dev/assent/fault"
)

// Secret is a key. However it is printed, logged or encoded, it does not show; Reveal gives it.
type Secret struct{ text string }

const hidden = "(secret)"

// Of is the secret of a text.
func Of(text string) Secret { return Secret{text} }

// String, GoString, Format, MarshalText and LogValue do not show the key.
func (Secret) String() string { return hidden }

// GoString is for %#v.
func (Secret) GoString() string { return hidden }

// Format is for every other verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText is for encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Reveal returns the key.
func (s Secret) Reveal() string { return s.text }

// Key says where a key is. The zero value is no key at all, for servers that ask for none.
type Key struct {
	// Env is the name of an environment variable, File the path of a file; at most one is set.
	Env, File string
}

// None reports that no key is sent.
func (k Key) None() bool { return k == Key{} }

// mostKey bounds a key in bytes; tokens of gateways can be long.
const mostKey = 16 << 10

// Read is ReadAs for configurations that call it a key.
func (k Key) Read() (Secret, error) { return k.ReadAs("key") }

// ReadAs reads the key; name is what the configuration calls it, to which Env and File are appended. A newline at its end,
// which editors and `echo` leave, is not a part of it. Anything else that no header can hold is refused, because it is not
// the key that was meant. Errors are *fault.ConfigError and never show a byte of it.
func (k Key) ReadAs(name string) (Secret, error) {
	switch {
	case k.None():
		return Secret{}, nil
	case k.Env != "" && k.File != "":
		return Secret{}, fault.Configf(name+"Env", "and %sFile are both set; one of them names the %[1]s", name)
	case k.Env != "":
		text, ok := os.LookupEnv(k.Env)
		if !ok {
			return Secret{}, fault.Configf(name+"Env", "the environment variable %s is not set", k.Env)
		}
		return parse(name, "Env", "the environment variable "+k.Env, text)
	}
	f, err := os.Open(k.File)
	if err != nil {
		return Secret{}, unreadable(name, k.File, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, mostKey+1))
	if err != nil {
		return Secret{}, unreadable(name, k.File, err)
	}
	return parse(name, "File", "the file "+k.File, string(bytes.TrimPrefix(data, []byte("\ufeff"))))
}

func unreadable(name, path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the message has the path
	}
	return &fault.ConfigError{Key: name + "File", Msg: fmt.Sprintf("the file %s cannot be read", path), Cause: err}
}

// parse checks what was found in a place.
func parse(name, kind, place, text string) (Secret, error) {
	key := name + kind
	text = strings.TrimRight(text, "\r\n")
	switch {
	case text == "":
		return Secret{}, fault.Configf(key, "%s is empty", place)
	case len(text) > mostKey:
		return Secret{}, fault.Configf(key, "%s holds more than %d bytes; that is no %s", place, mostKey, name)
	case strings.ContainsAny(text, "\r\n"):
		return Secret{}, fault.Configf(key, "%s holds more than one line; a %s is one", place, name)
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return Secret{}, fault.Configf(key, "%s holds a space or another character that no %s has", place, name)
		}
	}
	return Secret{text}, nil
}

// Hide replaces every occurrence of the keys in a text that is shown.
func Hide(text string, keys ...Secret) string {
	for _, key := range keys {
		if key.text != "" {
			text = strings.ReplaceAll(text, key.text, hidden)
		}
	}
	return text
}
