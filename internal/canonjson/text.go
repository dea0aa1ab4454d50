package canonjson

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads the string at pos into text.
func (s *scanner) string() error {
	s.pos++
	s.text = s.text[:0]
	for s.pos < len(s.in) {
		// Most text is ASCII without escapes.
		if n := s.plain(); n > 0 {
			s.text = append(s.text, s.in[s.pos:s.pos+n]...)
			s.pos += n
			continue
		}
		switch c := s.in[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < ' ':
			return s.unexpected("an escape")
		default:
			r, n := utf8.DecodeRune(s.in[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return s.fail(ErrInvalidUTF8, s.pos, "")
			}
			s.text = append(s.text, s.in[s.pos:s.pos+n]...)
			s.pos += n
		}
	}
	return s.unexpected(`'"'`)
}

// plain counts the bytes from pos on that stand for themselves.
func (s *scanner) plain() int {
	for n, c := range s.in[s.pos:] {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return n
		}
	}
	return len(s.in) - s.pos
}

// escapes maps the byte after a backslash to what it stands for.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (s *scanner) escape() error {
	start := s.pos
	s.pos++
	if s.pos < len(s.in) && s.in[s.pos] == 'u' {
		s.pos++
		return s.unicode(start)
	}
	if s.pos < len(s.in) {
		if c, ok := escapes[s.in[s.pos]]; ok {
			s.text = append(s.text, c)
			s.pos++
			return nil
		}
	}
	return s.unexpected("an escape")
}

// unicode reads the digits of a \u escape, and its other half if it is a surrogate.
func (s *scanner) unicode(start int) error {
	r, err := s.hex()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if s.pos+1 >= len(s.in) || s.in[s.pos] != '\\' || s.in[s.pos+1] != 'u' {
			return s.fail(ErrLoneSurrogate, start, "")
		}
		s.pos += 2
		low, err := s.hex()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return s.fail(ErrLoneSurrogate, start, "")
		}
	}
	s.text = utf8.AppendRune(s.text, r)
	return nil
}

func (s *scanner) hex() (rune, error) {
	var r rune
	for range 4 {
		digit := -1
		if s.pos < len(s.in) {
			digit = strings.IndexByte("0123456789abcdef", s.in[s.pos]|0x20)
		}
		if digit < 0 || s.in[s.pos] < '0' {
			return 0, s.unexpected("a hex digit")
		}
		r = r<<4 | rune(digit)
		s.pos++
	}
	return r, nil
}

// appendString quotes text, which is valid UTF-8, with the shortest escapes.
func appendString[Text string | []byte](out []byte, text Text) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	plain := 0
	for n := 0; n < len(text); n++ {
		c := text[n]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, text[plain:n]...)
		plain = n + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, '\\', 'b')
		case '\f':
			out = append(out, '\\', 'f')
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(out, text[plain:]...), '"')
}

// compareKeys orders by UTF-16 code units. That is the order of code points, except that the code points
// beyond U+FFFF, whose first unit is a surrogate, sort before U+E000 to U+FFFF.
func compareKeys(a, b []byte) int {
	for i := 0; i < len(a); {
		if i >= len(b) {
			return 1
		}
		r, n := utf8.DecodeRune(a[i:])
		q, _ := utf8.DecodeRune(b[i:])
		if r == q {
			i += n
			continue
		}
		if wide := r > 0xFFFF; wide != (q > 0xFFFF) {
			if wide && q >= 0xE000 || !wide && r < 0xE000 {
				return -1
			}
			return 1
		}
		return int(r) - int(q)
	}
	return len(a) - len(b)
}
