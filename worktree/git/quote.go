package git

import (
	"fmt"
	"strings"
)

const escapes = "\a\b\t\n\v\f\r\"\\"
const escaped = "abtnvfr\"\\"

// quote returns path as git prints it in a patch, with prefix before it: bare, or in double quotes with octal
// escapes if it holds a control byte, a quote, a backslash or a byte above ASCII.
func quote(prefix, path string) string {
	plain := true
	for i := 0; i < len(path); i++ {
		if c := path[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return prefix + path
	}
	var b strings.Builder
	b.WriteString(`"` + prefix)
	for i := 0; i < len(path); i++ {
		c := path[i]
		if j := strings.IndexByte(escapes, c); j >= 0 {
			b.WriteByte('\\')
			b.WriteByte(escaped[j])
		} else if c < ' ' || c >= 0x7f {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// unquote reads a string quoted by git at the beginning of s and returns it with the rest of s.
func unquote(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		if c == '"' {
			return b.String(), s[i+1:], true
		}
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		if i++; i >= len(s) {
			break
		}
		if j := strings.IndexByte(escaped, s[i]); j >= 0 {
			b.WriteByte(escapes[j])
			continue
		}
		if i+2 >= len(s) || s[i] < '0' || s[i] > '3' || s[i+1] < '0' || s[i+1] > '7' || s[i+2] < '0' || s[i+2] > '7' {
			break
		}
		b.WriteByte((s[i]-'0')<<6 | (s[i+1]-'0')<<3 | (s[i+2] - '0'))
		i += 2
	}
	return "", s, false
}
