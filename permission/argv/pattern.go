package argv

import "fmt"

// Pattern is a compiled token pattern. The zero value matches nothing.
type Pattern struct {
	text   string
	tokens []token
	rest   bool // ends in **
}

type token struct {
	text string
	any  bool // a bare *
	dyn  bool // written with an unquoted character that a shell would expand
}

// PatternError says why a pattern cannot be compiled.
type PatternError struct {
	// Pattern is the text as given.
	Pattern string
	// Offset is the byte in Pattern where the trouble starts, from 0.
	Offset int
	// Msg says what is wrong.
	Msg string
}

// Error prints `pattern "text": byte N: message`.
func (e *PatternError) Error() string {
	return fmt.Sprintf("pattern %q: byte %d: %s", e.Pattern, e.Offset, e.Msg)
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }
