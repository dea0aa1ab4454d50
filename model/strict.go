package model

import (
	"encoding/json"
	"slices"
)

// AskedFor is what a driver adds to the system prompt if its provider has no other way to ask for an output, or none for a
// schema like this. The engine checks the answer either way.
func AskedFor(schema json.RawMessage) string {
	return "When you give your final answer, it must be one JSON object that fits the JSON Schema below, and nothing else: " +
		"no words before or after it and no code fence.\n\n" + string(schema)
}

// The parts of JSON Schema that providers can hold a model to.
var (
	strictKeys = []string{"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
		"description", "title", "format"}
	strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

// Strict reports what providers want of a schema before they hold a model to it: closed, if each object says that it has
// no other properties and no keyword is beyond them; complete, if it is closed and each object requires all its properties.
func Strict(schema json.RawMessage) (closed, complete bool) {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		return false, false
	}
	complete = true
	return strict(root, &complete), complete
}

func strict(s map[string]any, complete *bool) bool {
	for key := range s {
		if !slices.Contains(strictKeys, key) {
			*complete = false
			return false
		}
	}
	format, has := s["format"]
	if text, _ := format.(string); has && !slices.Contains(strictFormats, text) {
		*complete = false
		return false
	}
	properties, _ := s["properties"].(map[string]any)
	if s["type"] == "object" || properties != nil {
		if s["additionalProperties"] != false {
			*complete = false
			return false
		}
		required, _ := s["required"].([]any)
		for name := range properties {
			*complete = *complete && slices.Contains(required, any(name))
		}
	}
	definitions, _ := s["$defs"].(map[string]any)
	var below []any
	for _, m := range []map[string]any{properties, definitions} {
		for _, v := range m {
			below = append(below, v)
		}
	}
	if items, ok := s["items"]; ok {
		below = append(below, items)
	}
	if any, ok := s["anyOf"].([]any); ok {
		below = append(below, any...)
	}
	for _, v := range below {
		m, ok := v.(map[string]any)
		if !ok || !strict(m, complete) {
			*complete = false
			return false
		}
	}
	return true
}
