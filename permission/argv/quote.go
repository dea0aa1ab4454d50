package argv

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// quote returns a shell word, and a pattern word, that is exactly text.
func quote(text string) string {
	switch text {
	case "":
		return "''"
	case "!":
		return text
	}
	for i := range len(text) {
		if !safe(text[i]) {
			return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		}
	}
	return text
}

func safe(c byte) bool {
	return lower(c) || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_@%+=:,./-", c) >= 0
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

// escape writes the first rune of text to b, escaped if [unreadable] refuses it, and returns its size.
func escape(b *strings.Builder, text string) int {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case unreadable(text[:size]) == "":
		b.WriteString(text[:size])
	case r == utf8.RuneError && size <= 1:
		fmt.Fprintf(b, `\x%02x`, text[0])
	case r < 0x100:
		fmt.Fprintf(b, `\x%02x`, r)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
	return max(size, 1)
}

// Suggest returns the exact pattern that allows segment, the text of one simple command, and nothing else;
// false if there is none, because a shell would expand a word of it or it can never be allowed.
func Suggest(segment string) (string, bool) {
	if strings.HasSuffix(segment, ellipsis) && len(segment) >= maxShown {
		return "", false
	}
	c := Lex(segment)
	if c.broken != "" || len(c.segments) != 1 {
		return "", false
	}
	words := make([]string, len(c.segments[0].words))
	for i, w := range c.segments[0].words {
		if w.dyn {
			return "", false
		}
		words[i] = w.text
	}
	p, err := Compile(quoteAll(words))
	if err != nil || c.Match(Tables{Allow: NewTable(p)}).Outcome != Allow {
		return "", false
	}
	return p.text, true
}
