package canonjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of objects and arrays that is accepted.
const MaxDepth = 1000

// MaxExponent bounds the decimal exponent of a number on both sides. It keeps a nine byte literal from
// costing a gigabyte in whoever computes with it next.
const MaxExponent = 10_000

// MaxDigits bounds the significant digits of a number, which cost time beyond proportion in whoever computes with them.
const MaxDigits = MaxExponent

// What can be wrong with JSON text. An *Error wraps exactly one of them.
var (
	ErrSyntax        = errors.New("syntax error")
	ErrDuplicateKey  = errors.New("duplicate key")
	ErrLoneSurrogate = errors.New("lone surrogate")
	ErrInvalidUTF8   = errors.New("invalid utf-8")
	ErrTrailingData  = errors.New("data after the value")
	ErrTooDeep       = errors.New("nested too deeply")
	ErrNumberRange   = errors.New("number out of range")
	ErrNotObject     = errors.New("not an object")
)

// Error says what is wrong with a JSON text and where.
type Error struct {
	// Err is one of the sentinels of this package.
	Err error
	// Pointer is the JSON pointer of the value that was being read; empty is the whole text. Of a long key or pointer
	// it is the beginning, with … for the rest.
	Pointer string
	// Offset counts bytes from the start of the text.
	Offset int
	// Detail says more, or is empty.
	Detail string
}

// Error prints `json "/pointer": cause at byte n: detail`.
func (e *Error) Error() string {
	s := fmt.Sprintf("json %q: %v at byte %d", e.Pointer, e.Err, e.Offset)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Canonical returns the canonical bytes of the one JSON value in raw. Every error is an *Error. The result
// shares no memory with raw, and Canonical of it is itself.
func Canonical(raw []byte) ([]byte, error) {
	// Most documents are arguments and grants, for which this is room enough.
	s := scanner{in: raw, out: make([]byte, 0, len(raw)), text: make([]byte, 0, 64), keys: make([]byte, 0, 128), path: make([]step, 0, 8)}
	if err := s.value(0); err != nil {
		return nil, err
	}
	if s.space(); s.pos < len(s.in) {
		return nil, s.fail(ErrTrailingData, s.pos, "")
	}
	return s.out, nil
}

// Marshal encodes v with encoding/json and returns the canonical bytes. Go strings that are not UTF-8 are
// encoded with U+FFFD, as encoding/json does; check them before if they must stay apart.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode json: %w", err)
	}
	return Canonical(b.Bytes())
}

// AppendString appends the canonical bytes of a text. Text that is not UTF-8 is an *Error.
func AppendString(out []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return out, &Error{Err: ErrInvalidUTF8}
	}
	return appendString(out, text), nil
}

// SHA256 returns the lower-case hex SHA-256 of bytes that Canonical or Marshal returned.
func SHA256(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// Object returns nil if raw is exactly one JSON object that has a canonical form, and an *Error otherwise.
func Object(raw []byte) error {
	canonical, err := Canonical(raw)
	if err != nil {
		return err
	}
	if canonical[0] != '{' {
		return &Error{Err: ErrNotObject}
	}
	return nil
}
