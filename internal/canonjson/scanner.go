package canonjson

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// A scanner reads one value from in and appends its canonical bytes to out in the same pass. Only objects
// whose members are not sorted yet are moved afterwards.
type scanner struct {
	in   []byte
	pos  int
	out  []byte
	text []byte // the decoded string that was read last
	keys []byte // the decoded keys of all members, one after another
	path []step // where in the document pos is, for errors
}

// A step is one token of the pointer: a key, or an index when isIndex is set.
type step struct {
	key     []byte
	index   int
	isIndex bool
}

type member struct {
	key        []byte
	at         int // offset of the key in the input
	start, end int // the canonical `"key":value` in the output
}

func (s *scanner) fail(err error, offset int, detail string) error {
	var b strings.Builder
	for _, p := range s.path {
		if b.Len() > maxPointer {
			b.WriteString("/…")
			break
		}
		b.WriteByte('/')
		if p.isIndex {
			b.WriteString(strconv.Itoa(p.index))
		} else {
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(shortened(string(p.key))))
		}
	}
	return &Error{Err: err, Pointer: b.String(), Offset: offset, Detail: detail}
}

// maxPointer bounds the pointer of an error in bytes, roughly, and maxToken one key in it.
const (
	maxPointer = 4 << 10
	maxToken   = 500
)

func shortened(key string) string {
	if len(key) <= maxToken {
		return key
	}
	return strings.ToValidUTF8(key[:maxToken], "") + "…"
}

// unexpected reports what stands at pos in place of what was wanted.
func (s *scanner) unexpected(want string) error {
	if s.pos >= len(s.in) {
		return s.fail(ErrSyntax, s.pos, "unexpected end, want "+want)
	}
	return s.fail(ErrSyntax, s.pos, "unexpected "+strconv.QuoteRune(rune(s.in[s.pos]))+", want "+want)
}

func (s *scanner) space() {
	for s.pos < len(s.in) {
		switch s.in[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, or 0 at the end. A NUL byte is a syntax error everywhere
// that peek is used, so the two need no telling apart.
func (s *scanner) peek() byte {
	s.space()
	if s.pos < len(s.in) {
		return s.in[s.pos]
	}
	return 0
}

func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return s.fail(ErrTooDeep, s.pos, "")
		}
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '"':
		if err := s.string(); err != nil {
			return err
		}
		s.out = appendString(s.out, s.text)
		return nil
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.unexpected("a value")
}

func (s *scanner) word(w string) error {
	for i := range len(w) {
		if s.pos >= len(s.in) || s.in[s.pos] != w[i] {
			return s.unexpected(w)
		}
		s.pos++
	}
	s.out = append(s.out, w...)
	return nil
}

func (s *scanner) array(depth int) error {
	s.pos++
	s.out = append(s.out, '[')
	if s.peek() == ']' {
		s.pos++
		s.out = append(s.out, ']')
		return nil
	}
	for i := 0; ; i++ {
		s.path = append(s.path, step{index: i, isIndex: true})
		if err := s.value(depth); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
		switch s.peek() {
		case ',':
			s.pos++
			s.out = append(s.out, ',')
		case ']':
			s.pos++
			s.out = append(s.out, ']')
			return nil
		default:
			return s.unexpected("',' or ']'")
		}
	}
}

func (s *scanner) object(depth int) error {
	s.pos++
	s.out = append(s.out, '{')
	if s.peek() == '}' {
		s.pos++
		s.out = append(s.out, '}')
		return nil
	}
	members := make([]member, 0, 8)
	for {
		m, err := s.member(depth)
		if err != nil {
			return err
		}
		members = append(members, m)
		switch s.peek() {
		case ',':
			s.pos++
			s.out = append(s.out, ',')
		case '}':
			s.pos++
			if err := s.sort(members); err != nil {
				return err
			}
			s.out = append(s.out, '}')
			return nil
		default:
			return s.unexpected("',' or '}'")
		}
	}
}

func (s *scanner) member(depth int) (member, error) {
	if s.peek() != '"' {
		return member{}, s.unexpected("a key")
	}
	m := member{at: s.pos, start: len(s.out)}
	if err := s.string(); err != nil {
		return m, err
	}
	at := len(s.keys)
	s.keys = append(s.keys, s.text...)
	// It stays as it is when keys grows and moves.
	m.key = s.keys[at:]
	s.out = appendString(s.out, s.text)
	if s.peek() != ':' {
		return m, s.unexpected("':'")
	}
	s.pos++
	s.out = append(s.out, ':')
	s.path = append(s.path, step{key: m.key})
	if err := s.value(depth); err != nil {
		return m, err
	}
	s.path = s.path[:len(s.path)-1]
	m.end = len(s.out)
	return m, nil
}

// sort brings the members, the last thing in out, into canonical order and refuses equal keys.
func (s *scanner) sort(members []member) error {
	start := members[0].start
	byKey := func(a, b member) int { return compareKeys(a.key, b.key) }
	sorted := slices.IsSortedFunc(members, byKey)
	if !sorted {
		slices.SortStableFunc(members, byKey)
	}
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i].key, members[i-1].key) {
			s.path = append(s.path, step{key: members[i].key})
			return s.fail(ErrDuplicateKey, members[i].at, "")
		}
	}
	if sorted {
		return nil
	}
	moved := slices.Clone(s.out[start:])
	s.out = s.out[:start]
	for i, m := range members {
		if i > 0 {
			s.out = append(s.out, ',')
		}
		s.out = append(s.out, moved[m.start-start:m.end-start]...)
	}
	return nil
}
