package tool

import (
	"errors"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/assent-dev/assent/internal/canonjson"
)

// nameCheck does the work of propertyNames. The library's own reports the place of a bad name in memory that it
// goes on to use for the places after it, so that below a list the pointer may be any element's.
type nameCheck struct{ schema *jsonschema.Schema }

// takeOver does what the library cannot be left to do.
func takeOver(s *jsonschema.Schema) {
	if s.PropertyNames != nil {
		s.Extensions = append(s.Extensions, nameCheck{s.PropertyNames})
		s.PropertyNames = nil
	}
	if s.UniqueItems {
		s.Extensions = append(s.Extensions, uniqueCheck{})
		s.UniqueItems = false
	}
}

// namesOf returns the schema for the names of properties, or nil.
func namesOf(s *jsonschema.Schema) *jsonschema.Schema {
	for _, e := range s.Extensions {
		if names, ok := e.(nameCheck); ok {
			return names.schema
		}
	}
	return nil
}

// unique reports whether the elements of a list have to differ.
func unique(s *jsonschema.Schema) bool {
	return slices.Contains(s.Extensions, jsonschema.SchemaExt(uniqueCheck{}))
}

// uniqueCheck does the work of uniqueItems. The library's own compares every two lists that only differ in how they are
// nested, which takes time quadratic in the length of a list.
type uniqueCheck struct{}

// Validate reports the first two elements of the list v that are equal.
func (uniqueCheck) Validate(ctx *jsonschema.ValidatorContext, v any) {
	list, _ := v.([]any)
	seen := make(map[string]int, len(list))
	for n, element := range list {
		// What was decoded from JSON always encodes.
		text, _ := canonjson.Marshal(element)
		if first, twice := seen[string(text)]; twice {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{first, n}})
			return
		}
		seen[string(text)] = n
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
