package tool

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	texts "golang.org/x/text/message"
)

// maxIssues bounds how many issues one validation reports, and maxIssueText the bytes of the message and of the
// pointer of each: the model has to read them and history has to keep them.
const (
	maxIssues    = 100
	maxIssueText = 500
)

var english = texts.NewPrinter(language.English)

// A leaf is a failure that becomes an Issue if it is among the first.
type leaf struct {
	at     *jsonschema.ValidationError
	member []string // the name of a member below at, if any
	text   func() string
}

// place compares leaves by where they are. It writes no pointers, of which there may be a million.
func (l leaf) place(o leaf) int {
	a, b := l.at.InstanceLocation, o.at.InstanceLocation
	n := min(len(a), len(b))
	if c := slices.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return slices.Compare(slices.Concat(a[n:], l.member), slices.Concat(b[n:], o.member))
}

// schemaIssues flattens the tree of a failed validation into Issues sorted by pointer, each once. The order is
// fixed although the validator visits members in random order, because results end in history.
func schemaIssues(root *jsonschema.ValidationError) []Issue {
	leaves := leavesOf(root, nil)
	slices.SortFunc(leaves, leaf.place)
	// Texts cost the most: only the first places get them.
	first := min(len(leaves), maxIssues)
	for 0 < first && first < len(leaves) && leaves[first].place(leaves[first-1]) == 0 {
		first++
	}
	issues := make([]Issue, 0, first)
	for _, l := range leaves[:first] {
		issues = append(issues, l.issue())
	}
	slices.SortFunc(issues, func(a, b Issue) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	issues = slices.Compact(issues)
	return atMost(issues, len(leaves)-first)
}

// atMost shortens a list of issues and says how many there are beyond it, more others included.
func atMost(issues []Issue, more int) []Issue {
	if cut := len(issues) - maxIssues; cut > 0 {
		issues, more = issues[:maxIssues:maxIssues], more+cut
	}
	if more > 0 {
		issues = append(issues, Issue{Message: fmt.Sprintf("and %d more issues", more)})
	}
	return issues
}

// leavesOf appends the failures in the tree of e that say what is wrong.
func leavesOf(e *jsonschema.ValidationError, to []leaf) []leaf {
	say := func(text string, member ...string) {
		to = append(to, leaf{e, member, func() string { return text }})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		say("fits none of the alternatives of anyOf")
	case *kind.OneOf:
		if len(e.Causes) > 0 {
			say("fits none of the alternatives of oneOf")
		} else {
			say("fits more than one alternative of oneOf")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			say("is not a known property", name)
		}
	case *kind.Required:
		for _, name := range k.Missing {
			to = append(to, leaf{e, nil, func() string { return fmt.Sprintf("lacks the required property %q", name) }})
		}
	case *kind.PropertyNames:
		// Only schemas themselves get here, from their meta-schema; see nameCheck. The causes are about the name
		// alone and know no place in the value.
		for _, i := range schemaIssues(&jsonschema.ValidationError{ErrorKind: &kind.Group{}, Causes: e.Causes}) {
			say("is not an allowed name: "+i.Message, k.Property)
		}
		return to
	case *badName:
		say("is not an allowed name: "+k.text, k.Property)
	case *kind.FalseSchema:
		say("is not allowed here")
	default:
		if len(e.Causes) == 0 {
			to = append(to, leaf{e, nil, func() string { return textOf(k) }})
		}
	}
	for _, cause := range e.Causes {
		to = leavesOf(cause, to)
	}
	return to
}

// issue writes the leaf down, within bounds.
func (l leaf) issue() Issue {
	return Issue{Pointer: pointerOf(slices.Concat(l.at.InstanceLocation, l.member)), Message: shortened(l.text())}
}

// pointerOf returns a JSON pointer; of a long one the beginning, and … in place of the rest.
func pointerOf(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		if b.Len() > maxIssueText {
			break
		}
		b.WriteByte('/')
		b.WriteString(escapeToken.Replace(token[:min(len(token), 2*maxIssueText)]))
	}
	return shortened(b.String())
}

var escapeToken = strings.NewReplacer("~", "~0", "/", "~1")

func shortened(text string) string {
	if len(text) > maxIssueText {
		text = strings.ToValidUTF8(text[:maxIssueText], "") + "…"
	}
	return text
}

// textOf says what is wrong. The library rounds the numbers in its own texts.
func textOf(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return beyond("minimum", k.Got, k.Want)
	case *kind.Maximum:
		return beyond("maximum", k.Got, k.Want)
	case *kind.ExclusiveMinimum:
		return beyond("exclusiveMinimum", k.Got, k.Want)
	case *kind.ExclusiveMaximum:
		return beyond("exclusiveMaximum", k.Got, k.Want)
	case *kind.MultipleOf:
		return beyond("multipleOf", k.Got, k.Want)
	case *kind.Format:
		return fmt.Sprintf("%s is not valid %s: %v", quoted(fmt.Sprint(k.Got)), k.Want, k.Err)
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match pattern %s", quoted(k.Got), quoted(k.Want))
	}
	return k.LocalizedString(english)
}

// quoted shows the beginning of a text, so that there is room for what is wrong with it.
func quoted(text string) string {
	const most = 150
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	q := strings.ReplaceAll(strconv.Quote(text), `\"`, `"`)
	return "'" + strings.ReplaceAll(q[1:len(q)-1], "'", `\'`) + "'"
}

func beyond(keyword string, got, want *big.Rat) string {
	// Shown in full where the difference is in the last digits.
	a, b := decimal(got), decimal(want)
	if a == b && got.Cmp(want) != 0 {
		a, b = got.FloatString(50), want.FloatString(50)
	}
	return fmt.Sprintf("%s: got %s, want %s", keyword, a, b)
}

// decimal writes an integer with all its digits, up to some hundred, and another number as a float64.
func decimal(r *big.Rat) string {
	if !r.IsInt() {
		f, _ := r.Float64()
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	const most = 100
	text := r.Num().String()
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
