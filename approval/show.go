package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// Show renders arguments for people: indented JSON, at most `most` bytes, with every character that could hide or
// reorder text written as an escape. It never shows less than it says: what is cut is named.
func Show(input json.RawMessage, most int) string {
	var buf bytes.Buffer
	text := string(input)
	if err := json.Indent(&buf, input, "", "  "); err == nil {
		text = buf.String()
	}
	var b strings.Builder
	for i, r := range text {
		if b.Len() >= most {
			fmt.Fprintf(&b, "\n… %d of %d bytes are not shown", len(text)-i, len(text))
			break
		}
		if r == '\n' || Visible(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			fmt.Fprintf(&b, `\U%08x`, r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// blank counts as printable and has no ink.
const blank = '\u2800'

// Visible reports whether a reader sees that the character is there: fillers and variation selectors count as
// printable, and could carry a text that nobody is shown.
func Visible(r rune) bool {
	return unicode.IsPrint(r) && r != blank && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
