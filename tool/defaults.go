package tool

import (
	"encoding/json"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
)

// tidy brings a reflected schema into the form that providers accept and that its own defaults fit.
func tidy(key string, s *jsonschema.Schema) error {
	if s == nil {
		return nil
	}
	if s.Type == "object" && s.Properties != nil && s.Properties.Len() == 0 {
		s.AdditionalProperties = nil
	}
	typeArrayDefault(s)
	children := []*jsonschema.Schema{s.Items, s.AdditionalProperties}
	if s.Properties != nil {
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			if err := tidy(key+"."+p.Key, p.Value); err != nil {
				return err
			}
		}
	}
	for _, child := range children {
		if err := tidy(key, child); err != nil {
			return err
		}
	}
	return checkDefault(key, s)
}

// typeArrayDefault gives the elements of an array's default, which the library leaves as text, the type of the items.
func typeArrayDefault(s *jsonschema.Schema) {
	list, ok := s.Default.([]any)
	if !ok || s.Items == nil {
		return
	}
	for n, element := range list {
		text, _ := element.(string)
		switch s.Items.Type {
		case "integer", "number", "boolean":
			if json.Valid([]byte(text)) {
				list[n] = json.RawMessage(text)
			}
		}
	}
}

// checkDefault refuses a default that its own schema refuses: it would make every call that relies on it invalid.
func checkDefault(key string, s *jsonschema.Schema) error {
	if s.Default == nil {
		return nil
	}
	value, err := json.Marshal(s.Default)
	if err != nil {
		return &fault.ConfigError{Key: key, Msg: "the default has no JSON form", Cause: err}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return &fault.ConfigError{Key: key, Msg: "the schema has no JSON form", Cause: err}
	}
	v, err := compileSchema(key, unmark(text), true)
	if err != nil {
		return err
	}
	if issues := v.Validate(value); issues != nil {
		return fault.Configf(key, "the default %s does not fit: %s", value, issues[0].Message)
	}
	return nil
}

// defaults fills in what struct tags say about absent members.
type defaults struct {
	schema map[string]any
}

// defaultsOf returns the defaults in the schema of a struct, or nil if there are none.
func defaultsOf(schema json.RawMessage) *defaults {
	if !strings.Contains(string(schema), `"default":`) {
		return nil
	}
	object, _ := decodeAny(schema).(map[string]any)
	return &defaults{object}
}

// fill returns the canonical arguments with defaults in place of absent members of objects that are there.
func (d *defaults) fill(canonical json.RawMessage) (json.RawMessage, error) {
	value := decodeAny(canonical)
	fillValue(d.schema, value)
	return canonjson.Marshal(value)
}

func fillValue(schema map[string]any, value any) {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, sub := range properties {
			child, _ := sub.(map[string]any)
			if member, present := v[name]; present {
				fillValue(child, member)
			} else if value, ok := child["default"]; ok {
				v[name] = value
			}
		}
		if others, ok := schema["additionalProperties"].(map[string]any); ok {
			for name, member := range v {
				if _, declared := properties[name]; !declared {
					fillValue(others, member)
				}
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, element := range v {
			fillValue(items, element)
		}
	}
}
