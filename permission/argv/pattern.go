package argv

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

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

// Compile compiles a pattern. The error is a [*PatternError]: no words, text that is no list of shell words, a
// ** that is not last, or a word that no command can match, such as a command substitution.
func Compile(text string) (Pattern, error) {
	fail := func(offset int, format string, args ...any) (Pattern, error) {
		return Pattern{}, &PatternError{Pattern: text, Offset: offset, Msg: fmt.Sprintf(format, args...)}
	}
	if reason := refusal(text); reason != "" {
		return fail(0, "%s", reason)
	}
	words, err := patternWords(text)
	if err != nil {
		offset, msg := patternTrouble(err)
		return fail(offset, "%s", msg)
	}
	if len(words) == 0 {
		return fail(0, "no words")
	}
	p := Pattern{text: text, tokens: make([]token, 0, len(words))}
	for i, w := range words {
		offset := int(w.Pos().Offset())
		source := source(text, w)
		v := evalWord(text, w)
		switch {
		case source == "**" && i < len(words)-1:
			return fail(offset, "** is not last")
		case source == "**":
			p.rest = true
		case source == "*":
			p.tokens = append(p.tokens, token{any: true})
		case v.asks != "":
			return fail(offset, "no command can match a %s", v.asks)
		default:
			p.tokens = append(p.tokens, token{text: v.text, dyn: v.dyn})
		}
	}
	return p, nil
}

// errPatternLines refuses what the parser would skip in silence.
var errPatternLines = errors.New("a pattern is one line without comments")

func patternWords(text string) (words []*syntax.Word, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("parser failed: %v", r)
		}
	}()
	parser := newParser(syntax.Variant(syntax.LangBash))
	end := 0
	for w, err := range parser.WordsSeq(strings.NewReader(text)) {
		if err != nil {
			return nil, err
		}
		if strings.Trim(text[end:w.Pos().Offset()], " \t") != "" {
			return nil, errPatternLines
		}
		end = int(w.End().Offset())
		words = append(words, w)
	}
	if strings.Trim(text[end:], " \t\n") != "" {
		return nil, errPatternLines
	}
	return words, nil
}

func patternTrouble(err error) (offset int, msg string) {
	var parseErr syntax.ParseError
	var langErr syntax.LangError
	switch {
	case errors.As(err, &parseErr):
		return int(parseErr.Pos.Offset()), parseErr.Text
	case errors.As(err, &langErr):
		return int(langErr.Pos.Offset()), langErr.Feature
	}
	return 0, err.Error()
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// covers reports whether p, as an allow pattern, covers every one of words. A word that must be spelled out is
// covered by its own text alone, and one that a shell expands not by text that it would not.
func covers(p *Pattern, words []word) bool {
	if len(words) < len(p.tokens) || len(words) == 0 || p.text == "" {
		return false
	}
	for i, t := range p.tokens {
		w := &words[i]
		switch {
		case t.any:
			if w.spelled {
				return false
			}
		case t.text != w.text, w.dyn && !t.dyn:
			return false
		}
	}
	if !p.rest {
		return len(words) == len(p.tokens)
	}
	for i := range words[len(p.tokens):] {
		if words[len(p.tokens)+i].spelled {
			return false
		}
	}
	return true
}
