package argv

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The parser recurses once per open bracket or compound and a Go stack cannot be caught when it overflows, so
// what is too large or too deep is refused before it is parsed.
const (
	maxBytes     = 64 << 10
	maxBrackets  = 400
	maxKeywords  = 2000 // words that may open a compound: far fewer can nest before maxCompounds refuses them
	maxCompounds = 200
)

// refusal returns the reason why text must not reach the parser, or "". It holds for the text as a whole,
// inside quotes too, because these bytes make parser and shells disagree or show a reader something else than
// what runs.
func refusal(text string) string {
	if len(text) > maxBytes {
		return "more than 64 KiB"
	}
	if reason := unreadable(text); reason != "" {
		return reason
	}
	if strings.Contains(text, "$\\\n") {
		// The shells join the lines first and see $( or ${; the parser sees a lone dollar.
		return "dollar before a line continuation"
	}
	if splitOperator(text) {
		return "line continuation inside an operator"
	}
	return nesting(text)
}

// nesting returns the reason why text may be too deep for the parser's recursion, or "".
func nesting(text string) string {
	brackets := 0
	for _, open := range []string{"(", "{", "[", "`"} {
		brackets += strings.Count(text, open)
	}
	switch {
	case brackets > maxBrackets:
		return "more than 400 open brackets"
	case keywords(text) > maxKeywords:
		return "too many compound commands"
	}
	return ""
}

// unreadable names the first byte or rune that no command may hold.
func unreadable(text string) string {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if reason := controlByte(c); reason != "" {
				return reason
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			return "invalid UTF-8"
		case r >= 0x80 && r < 0xa0:
			return "control character"
		case isBidi(r):
			return "bidirectional control character"
		}
		i += size
	}
	return ""
}

func controlByte(c byte) string {
	switch {
	case c == 0:
		return "NUL byte"
	case c == '\r':
		return "carriage return"
	case c == '\t' || c == '\n':
		return ""
	case c < ' ' || c == 0x7f:
		return "control character"
	}
	return ""
}

func isBidi(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200e, r == 0x200f:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// invisible reports whether a reader cannot tell r from a blank or from nothing. Inside quotes it is text.
func invisible(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return false
	case unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	case r == 0x2800, r >= 0x180b && r <= 0x180f: // the empty braille pattern; Mongolian selectors and separator
		return true
	}
	return false
}

// splitOperator reports whether line continuations stand between two bytes that may form one operator. The
// shells join them, the parser does not.
func splitOperator(text string) bool {
	const operators = "&|;<>()"
	for i := strings.Index(text, "\\\n"); i >= 0; {
		end := i
		for strings.HasPrefix(text[end:], "\\\n") {
			end += 2
		}
		if i > 0 && end < len(text) && strings.IndexByte(operators, text[i-1]) >= 0 &&
			(strings.IndexByte(operators, text[end]) >= 0 || text[end] == '-') {
			return true
		}
		next := strings.Index(text[end:], "\\\n")
		if next < 0 {
			return false
		}
		i = end + next
	}
	return false
}

// keywords counts the words that can open a compound command or prefix one, quoted or not.
func keywords(text string) int {
	n := 0
	for start := 0; start < len(text); {
		for start < len(text) && !lower(text[start]) && text[start] != '!' {
			start++
		}
		end := start
		for end < len(text) && (lower(text[end]) || text[end] == '!') {
			end++
		}
		switch text[start:end] {
		case "if", "while", "until", "for", "case", "select", "function", "time", "coproc", "elif", "!":
			n++
		}
		start = end
	}
	return n
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
