package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxExpanded bounds the number of subschemas that a value may be checked against once references are followed.
// Definitions that refer to each other twice per level would otherwise cost time exponential in their number.
const maxExpanded = 100_000

// maxSubschemas bounds the size of a schema: compiling takes time quadratic in it, and schemas come from servers
// that nobody here wrote. Providers refuse larger ones.
const maxSubschemas = 5_000

// maxPointer bounds the pointer of a subschema in bytes, and with it how deep it lies, for the same reason.
const maxPointer = 4 << 10

// Where the drafts keep subschemas: below the keyword itself, in a list, or by name.
var (
	oneSubschema = []string{
		"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
		"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
	}
	listOfSubschemas  = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	namedSubschemas   = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
	dynamicReferences = []string{"$dynamicRef", "$recursiveRef"}
)

// subschemas returns the URL-escaped pointers of all subschemas of a document, used or not, in a fixed order. Data
// that only looks like a schema, in const, enum, default, examples or an unknown keyword, is not visited.
func subschemas(document any) ([]string, error) {
	var pointers []string
	var visit func(schema any, pointer string) error
	visit = func(schema any, pointer string) error {
		object, ok := schema.(map[string]any)
		if !ok {
			return nil
		}
		for _, keyword := range dynamicReferences {
			if _, ok := object[keyword]; ok {
				return fmt.Errorf("%q: dynamic reference %s", pointer, keyword)
			}
		}
		clampCounts(object)
		children := map[string]any{}
		for _, k := range oneSubschema {
			children[pointer+"/"+k] = object[k]
		}
		for _, k := range listOfSubschemas {
			list, _ := object[k].([]any)
			for n, child := range list {
				children[pointer+"/"+k+"/"+strconv.Itoa(n)] = child
			}
		}
		for _, k := range namedSubschemas {
			named, _ := object[k].(map[string]any)
			for name, child := range named {
				children[pointer+"/"+escapePointer(k)+"/"+escapePointer(name)] = child
			}
		}
		for _, p := range slices.Sorted(maps.Keys(children)) {
			child := children[p]
			if _, ok := child.(map[string]any); !ok {
				continue
			}
			if pointers = append(pointers, p); len(pointers) > maxSubschemas {
				return fmt.Errorf("more than %d subschemas", maxSubschemas)
			}
			if len(p) > maxPointer {
				return fmt.Errorf("%q…: a subschema whose pointer has more than %d bytes", p[:100], maxPointer)
			}
			if err := visit(child, p); err != nil {
				return err
			}
		}
		return nil
	}
	return pointers, visit(document, "")
}

// counts are the keywords that count something.
var counts = []string{
	"maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties",
}

// clampCounts lowers counts that no value in a memory reaches to one that the library can hold; it takes larger ones
// for 0. The schema that is sent stays as it is.
func clampCounts(schema map[string]any) {
	for _, k := range counts {
		if n, ok := schema[k].(json.Number); ok {
			if f, err := n.Float64(); err != nil || f > math.MaxInt32 {
				schema[k] = json.Number(strconv.Itoa(math.MaxInt32))
			}
		}
	}
}

// escapePointer writes a token of a JSON pointer that stands in the fragment of a URL.
func escapePointer(token string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
}

// A refGraph finds references that come back to where they started or that leave the document. On its way it
// visits every schema once and lets takeOver change it.
type refGraph struct {
	// sizes holds the expanded size of finished schemas; unfinished marks those on the way down.
	sizes map[*jsonschema.Schema]int
}

const unfinished = -1

func (g *refGraph) walk(s *jsonschema.Schema) error {
	_, err := g.size(s)
	return err
}

func (g *refGraph) size(s *jsonschema.Schema) (int, error) {
	if size, seen := g.sizes[s]; seen {
		if size == unfinished {
			return 0, fmt.Errorf("%q: recursive reference", strings.TrimPrefix(s.Location, schemaURL))
		}
		return size, nil
	}
	if !strings.HasPrefix(s.Location, schemaURL+"#") {
		return 0, fmt.Errorf("%q: reference to another document", s.Location)
	}
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return 0, fmt.Errorf("%q: dynamic reference", strings.TrimPrefix(s.Location, schemaURL))
	}
	g.sizes[s] = unfinished
	total := 1
	for _, child := range below(s) {
		size, err := g.size(child)
		if err != nil {
			return 0, err
		}
		if total += size; total > maxExpanded {
			return 0, errors.New("references expand to more than " + strconv.Itoa(maxExpanded) + " subschemas")
		}
	}
	g.sizes[s] = total
	takeOver(s)
	return total, nil
}

// below lists the schemas that checking a value against s may go on to.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{
		s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020,
		s.UnevaluatedItems, s.ContentSchema,
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		all = append(all, list...)
	}
	all = slices.AppendSeq(all, maps.Values(s.Properties))
	all = slices.AppendSeq(all, maps.Values(s.PatternProperties))
	all = slices.AppendSeq(all, maps.Values(s.DependentSchemas))
	mixed := slices.Collect(maps.Values(s.Dependencies))
	for _, m := range append(mixed, s.AdditionalProperties, s.AdditionalItems, s.Items) {
		switch m := m.(type) {
		case *jsonschema.Schema:
			all = append(all, m)
		case []*jsonschema.Schema:
			all = append(all, m...)
		}
	}
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}
