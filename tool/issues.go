package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	texts "golang.org/x/text/message"
)

// maxIssues bounds how many issues one validation reports, and maxIssueText the bytes of each: the model has to
// read them and history has to keep them.
const (
	maxIssues    = 100
	maxIssueText = 500
)

var english = texts.NewPrinter(language.English)

// schemaIssues flattens the tree of a failed validation into Issues sorted by pointer, each once. The order is
// fixed although the validator visits members in random order, because results end in history.
func schemaIssues(root *jsonschema.ValidationError) []Issue {
	var issues []Issue
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		switch k := e.ErrorKind.(type) {
		case *kind.AnyOf:
			issues = append(issues, issueAt(e, "fits none of the alternatives of anyOf"))
		case *kind.OneOf:
			if len(e.Causes) > 0 {
				issues = append(issues, issueAt(e, "fits none of the alternatives of oneOf"))
			} else {
				issues = append(issues, issueAt(e, "fits more than one alternative of oneOf"))
			}
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				issues = append(issues, issueAt(e, "is not a known property", name))
			}
		case *kind.Required:
			for _, name := range k.Missing {
				issues = append(issues, issueAt(e, fmt.Sprintf("lacks the required property %q", name)))
			}
		case *kind.PropertyNames:
			// Only schemas themselves get here, from their meta-schema; see nameCheck. The causes are about the name
			// alone and know no place in the value.
			for _, i := range schemaIssues(&jsonschema.ValidationError{ErrorKind: &kind.Group{}, Causes: e.Causes}) {
				issues = append(issues, issueAt(e, "is not an allowed name: "+i.Message, k.Property))
			}
			return
		case *badName:
			issues = append(issues, issueAt(e, "is not an allowed name: "+k.text, k.Property))
		case *kind.FalseSchema:
			issues = append(issues, issueAt(e, "is not allowed here"))
		default:
			if len(e.Causes) == 0 {
				issues = append(issues, issueAt(e, k.LocalizedString(english)))
			}
		}
		for _, cause := range e.Causes {
			visit(cause)
		}
	}
	visit(root)
	slices.SortFunc(issues, func(a, b Issue) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	issues = slices.Compact(issues)
	if more := len(issues) - maxIssues; more > 0 {
		issues = append(issues[:maxIssues:maxIssues], Issue{Message: fmt.Sprintf("and %d more issues", more)})
	}
	return issues
}

// issueAt returns an Issue at the place of e, or at members below it.
func issueAt(e *jsonschema.ValidationError, text string, members ...string) Issue {
	var b strings.Builder
	for _, token := range slices.Concat(e.InstanceLocation, members) {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	if len(text) > maxIssueText {
		text = strings.ToValidUTF8(text[:maxIssueText], "") + "…"
	}
	return Issue{Pointer: b.String(), Message: text}
}
