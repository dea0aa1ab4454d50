package argv

import "strings"

// decodeANSI decodes the inside of $'…' as bash does: \x72, \162, \u00e9, \cA, \n and the like. It ends at a
// NUL, as bash ends the string there.
func decodeANSI(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		text, size := ansiEscape(s[i+1:])
		if text == "\x00" {
			return b.String()
		}
		b.WriteString(text)
		i += 1 + size
	}
	return b.String()
}

// ansiEscape decodes what follows a backslash and returns how many bytes it took.
func ansiEscape(s string) (string, int) {
	switch c := s[0]; c {
	case 'a':
		return "\a", 1
	case 'b':
		return "\b", 1
	case 'e', 'E':
		return "\x1b", 1
	case 'f':
		return "\f", 1
	case 'n':
		return "\n", 1
	case 'r':
		return "\r", 1
	case 't':
		return "\t", 1
	case 'v':
		return "\v", 1
	case '\\', '\'', '"', '?':
		return s[:1], 1
	case 'x':
		if len(s) > 1 && s[1] == '{' {
			return braced(s)
		}
		return number(s, 1, 2, 16, false)
	case 'u':
		return number(s, 1, 4, 16, true)
	case 'U':
		return number(s, 1, 8, 16, true)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return number(s, 0, 3, 8, false)
	case 'c':
		if strings.HasPrefix(s, `c\\`) {
			return "\x1c", 3
		}
		if len(s) > 1 {
			return string(rune(s[1] & 0x1f)), 2
		}
	}
	return "\\" + s[:1], 1
}

// braced decodes x{72}, whose closing brace bash does not insist on.
func braced(s string) (string, int) {
	text, size := number(s, 2, len(s), 16, false)
	if size < len(s) && s[size] == '}' {
		size++
	}
	return text, size
}

// number decodes up to digits digits of s from start. Without a digit the escape stands for itself.
func number(s string, start, digits, base int, isRune bool) (string, int) {
	end := start
	for end < len(s) && end-start < digits && isDigit(s[end], base) {
		end++
	}
	if end == start {
		return "\\" + s[:1], 1
	}
	n := uint32(0)
	for _, c := range s[start:end] {
		n = n*uint32(base) + digit(c) // bash lets it overflow too
	}
	if isRune {
		return string(rune(n)), end
	}
	return string([]byte{byte(n)}), end
}

func digit(c rune) uint32 {
	if c <= '9' {
		return uint32(c - '0')
	}
	return uint32(c|0x20-'a') + 10
}

func isDigit(c byte, base int) bool {
	switch {
	case '0' <= c && c <= '7':
		return true
	case base == 16:
		return c == '8' || c == '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
	}
	return false
}
