package tool

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the work of one validation, which is the product of two sizes: that of a schema, which a server may
// have sent, and that of a value, which a model sends. A step is a microsecond or so, and some kilobytes if it fails.
const maxSteps = 1_000_000

// budget counts the steps of checking a value, without checking it. It never counts too little.
type budget struct{ left int }

// spend reports whether the budget still lasts.
func (b *budget) spend(steps int) bool {
	b.left -= steps
	return b.left >= 0
}

// affords reports whether checking v, which lies depth levels deep, against s stays within the budget.
func (b *budget) affords(s *jsonschema.Schema, v any, depth int) bool {
	if s == nil {
		return true
	}
	// The depth counts because an error copies the path to its place.
	if !b.spend(depth/8 + (1+listed(s))*weight(v)) {
		return false
	}
	if compares := comparisons(s); compares > 0 && !b.compare(v, compares) {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		if !b.members(s, v, depth) {
			return false
		}
	case []any:
		if !b.elements(s, v, depth) {
			return false
		}
	case string:
		if s.Pattern != nil && !b.spend(matching(s.Pattern, v)) {
			return false
		}
		if s.Format != nil && s.Format.Name == "regex" && !b.spend(compiling(v)) {
			return false
		}
	}
	for _, same := range inPlace(s) {
		if !b.affords(same, v, depth) {
			return false
		}
	}
	return true
}

func (b *budget) members(s *jsonschema.Schema, object map[string]any, depth int) bool {
	others, _ := s.AdditionalProperties.(*jsonschema.Schema)
	names := namesOf(s)
	for name, member := range object {
		for _, below := range []*jsonschema.Schema{s.Properties[name], others, s.UnevaluatedProperties} {
			if !b.affords(below, member, depth+1) {
				return false
			}
		}
		for p, below := range s.PatternProperties {
			if !b.spend(matching(p, name)) || !b.affords(below, member, depth+1) {
				return false
			}
		}
		if names != nil && !b.affords(names, name, depth) {
			return false
		}
	}
	return true
}

func (b *budget) elements(s *jsonschema.Schema, list []any, depth int) bool {
	every := []*jsonschema.Schema{s.Items2020, s.Contains, s.UnevaluatedItems}
	tuple := s.PrefixItems
	for _, old := range []any{s.Items, s.AdditionalItems} {
		switch old := old.(type) {
		case *jsonschema.Schema:
			every = append(every, old)
		case []*jsonschema.Schema:
			tuple = old
		}
	}
	for n, element := range list {
		for _, below := range every {
			if !b.affords(below, element, depth+1) {
				return false
			}
		}
		if n < len(tuple) && !b.affords(tuple[n], element, depth+1) {
			return false
		}
	}
	return true
}

// inPlace lists the schemas that check the same value as s.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	for _, one := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if one != nil {
			all = append(all, one)
		}
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		all = append(all, list...)
	}
	for _, dependent := range s.DependentSchemas {
		all = append(all, dependent)
	}
	for _, d := range s.Dependencies {
		if dependent, ok := d.(*jsonschema.Schema); ok {
			all = append(all, dependent)
		}
	}
	return all
}

// listed counts the names that an object has to hold.
func listed(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.Dependencies) + len(s.DependentRequired)
	for _, names := range s.DependentRequired {
		n += len(names)
	}
	return n / 4
}

// comparisons counts the values that a value is compared with.
func comparisons(s *jsonschema.Schema) int {
	n := 0
	if s.Const != nil || unique(s) {
		n++
	}
	if s.Enum != nil {
		n += 1 + len(s.Enum.Values)/4
	}
	return n
}

// compare spends for comparing all of v so many times.
func (b *budget) compare(v any, times int) bool {
	if !b.spend(times * weight(v)) {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if !b.compare(member, times) {
				return false
			}
		}
	case []any:
		for _, element := range v {
			if !b.compare(element, times) {
				return false
			}
		}
	}
	return true
}

// weight is the cost of a value by itself, without what is in it.
func weight(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return 1 + len(v)/4
	case []any:
		return 1 + len(v)/4
	case string:
		return 1 + len(v)>>12
	case json.Number:
		text := string(v)
		n := len(text) >> 5
		if e := strings.LastIndexByte(text, 'e'); e >= 0 {
			exponent, _ := strconv.Atoi(text[e+1:])
			n += max(exponent, -exponent) >> 7
		}
		return 1 + n
	}
	return 1
}

// matching is the cost of matching a text.
func matching(p jsonschema.Regexp, text string) int {
	own, _ := p.(pattern)
	return len(text) * (1 + own.steps) / 256
}

// compiling is the cost of compiling a text that has to be a regular expression; repetitions may expand to maxPattern
// steps.
func compiling(text string) int {
	if strings.Contains(text, "{") {
		return len(text) + maxPattern/16
	}
	return len(text)
}
