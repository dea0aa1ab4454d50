package tool

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Repetitions multiply: a pattern of a kilobyte may stand for a million steps. maxPattern bounds one pattern and
// maxPatterns all patterns of a schema, in steps of the compiled program.
const (
	maxPattern  = 10_000
	maxPatterns = 200_000
)

// patterns is the regular expression engine of one schema: RE2, which never backtracks, within bounds.
type patterns struct {
	used int
	// sealed is set when the schema is compiled. From then on values of format regex are compiled, at the same time.
	sealed bool
}

// pattern is a compiled pattern and its size in steps.
type pattern struct {
	*regexp.Regexp
	steps int
}

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	steps := stepsOf(parsed)
	if steps > maxPattern {
		return nil, fmt.Errorf("its repetitions expand to more than %d steps", maxPattern)
	}
	if !p.sealed {
		if p.used += steps; p.used > maxPatterns {
			return nil, fmt.Errorf("the patterns of the schema expand to more than %d steps", maxPatterns)
		}
	}
	compiled, err := regexp.Compile(text)
	return pattern{compiled, steps}, err
}

// stepsOf estimates the size of the program of a parsed expression, whose nesting the parser has bounded.
func stepsOf(r *syntax.Regexp) int {
	steps := 1 + len(r.Rune)/8
	for _, sub := range r.Sub {
		steps += stepsOf(sub)
	}
	if r.Op == syntax.OpRepeat {
		steps *= max(1, r.Min, r.Max)
	}
	return min(steps, 1<<24)
}
