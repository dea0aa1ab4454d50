package tool

import (
	"errors"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	texts "golang.org/x/text/message"
)

// nameCheck does the work of propertyNames. The library's own reports the place of a bad name in memory that it
// goes on to use for the places after it, so that below a list the pointer may be any element's.
type nameCheck struct{ schema *jsonschema.Schema }

// checkNames takes propertyNames over from the library.
func checkNames(s *jsonschema.Schema) {
	if s.PropertyNames != nil {
		s.Extensions = append(s.Extensions, nameCheck{s.PropertyNames})
		s.PropertyNames = nil
	}
}

// Validate reports every name in the object v that does not fit.
func (c nameCheck) Validate(ctx *jsonschema.ValidatorContext, v any) {
	object, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var failed *jsonschema.ValidationError
		if errors.As(c.schema.Validate(name), &failed) {
			for _, i := range schemaIssues(failed) {
				ctx.AddError(&badName{kind.PropertyNames{Property: name}, i.Message})
			}
		}
	}
}

// badName says what is wrong with the name of a property.
type badName struct {
	kind.PropertyNames
	text string
}

// LocalizedString returns what is wrong.
func (b *badName) LocalizedString(*texts.Printer) string { return b.text }
