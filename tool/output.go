package tool

import (
	"encoding/json"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
)

// OutputFor describes an agent's structured output by a Go type, in the way of New: its schema is what SchemaFor says,
// defaults from tags are filled in, and what fits can be decoded into T. T must be a struct or a map.
func OutputFor[T any]() (*Validator, error) {
	v, err := ValidatorFor[T]()
	if err != nil {
		return nil, err
	}
	v.defaults = defaultsOf(v.raw)
	return v, v.outputs()
}

// MustOutputFor is OutputFor for package variables; it panics on a bad type.
func MustOutputFor[T any]() *Validator {
	v, err := OutputFor[T]()
	if err != nil {
		panic(err)
	}
	return v
}

// OutputFromSchema describes an agent's structured output by a JSON Schema, in the way of FromSchema.
func OutputFromSchema(schema json.RawMessage) (*Validator, error) {
	v, err := compileSchema("output", schema, false)
	if err != nil {
		return nil, err
	}
	return v, v.outputs()
}

// OutputFromPair adds what a schema cannot say, in the way of FromPair: validate is asked about output that fits the schema,
// must be free of effects, and every error that it joins becomes an Issue.
func OutputFromPair(schema json.RawMessage, validate func(json.RawMessage) error) (*Validator, error) {
	if validate == nil {
		return nil, fault.Configf("output", "the validate function is nil")
	}
	v, err := OutputFromSchema(schema)
	if err != nil {
		return nil, err
	}
	return v.With(validate), nil
}

// outputs refuses a schema that not every provider takes for an answer.
func (v *Validator) outputs() error {
	if !v.object {
		return fault.Configf("output", `must be an object schema: "type": "object" at the top`)
	}
	return nil
}

// Checked reports whether there is more to v than its schema.
func (v *Validator) Checked() bool { return len(v.checks) > 0 || v.defaults != nil }

// Accept returns a value that fits in canonical form, with the defaults of a Go type filled in, or every place where it does
// not fit.
func (v *Validator) Accept(value json.RawMessage) (json.RawMessage, []Issue) {
	canonical, err := canonjson.Canonical(value)
	if err != nil {
		return nil, jsonIssues(err)
	}
	if v.defaults != nil {
		if canonical, err = v.defaults.fill(canonical); err != nil {
			return nil, jsonIssues(err)
		}
	}
	if issues := v.Validate(canonical); issues != nil {
		return nil, issues
	}
	return canonical, nil
}
