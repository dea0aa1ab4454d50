package tool

import (
	"bytes"
	"encoding"
	"encoding/json"
	"math/big"
	"reflect"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/assent-dev/assent/fault"
)

// SchemaFor returns the JSON Schema of a Go type, in the form that LLM providers accept: everything inline, no
// $schema or $id, no union with null, one type per value. Struct fields follow encoding/json; those without
// omitempty or omitzero are required and others are refused. []byte is a base64 string, time.Time a date-time, a
// type with its own UnmarshalText a string, and any, json.RawMessage or a type with its own UnmarshalJSON
// anything; a method JSONSchema() *jsonschema.Schema overrides all that. Descriptions, bounds and defaults come
// from the tags `jsonschema` and `jsonschema_description`. Types that have no finite schema or that
// encoding/json cannot read are a *fault.ConfigError.
func SchemaFor[T any]() (json.RawMessage, error) { return schemaOf("schema", reflect.TypeFor[T]()) }

var (
	customSchema    = reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// anyMark marks a schema without constraints until it is printed: the library would write it as true, which
// some providers refuse, and has no way to write {}.
const anyMark = "assent: any value"

func anySchema() *jsonschema.Schema { return &jsonschema.Schema{Comments: anyMark} }

// known holds the types whose JSON form does not follow from their kind or methods.
var known = map[reflect.Type]jsonschema.Schema{
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	reflect.TypeFor[json.Number]():     {Type: "number"},
	reflect.TypeFor[json.RawMessage](): {Comments: anyMark},
	reflect.TypeFor[big.Int]():         {Type: "integer"},
}

func schemaOf(key string, t reflect.Type) (schema json.RawMessage, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	defer func() {
		// A JSONSchema method is foreign code, and the library panics on what it cannot express.
		if p := recover(); p != nil {
			schema, err = nil, fault.Configf(key, "no schema for %s: %v", t, p)
		}
	}()
	if err := checkType(key, t); err != nil {
		return nil, err
	}
	s := reflectSchema(t)
	if err := tidy(key, s); err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, &fault.ConfigError{Key: key, Msg: "no schema for " + t.String(), Cause: err}
	}
	return unmark(text), nil
}

func reflectSchema(t reflect.Type) *jsonschema.Schema {
	r := &jsonschema.Reflector{Anonymous: true, DoNotReference: true, Mapper: mapType}
	s := r.ReflectFromType(t)
	s.Version, s.ID, s.Definitions = "", "", nil
	return s
}

// mapType answers for the types where the library's answer differs from what encoding/json does, or from what
// providers accept.
func mapType(t reflect.Type) *jsonschema.Schema {
	if t.Implements(customSchema) {
		return nil
	}
	if s, ok := known[t]; ok {
		return &s
	}
	pointer := reflect.PointerTo(t)
	switch {
	case pointer.Implements(jsonUnmarshaler):
		return anySchema()
	case pointer.Implements(textUnmarshaler):
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Interface:
		return anySchema()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
		}
	case reflect.Map:
		s := &jsonschema.Schema{Type: "object"}
		if t.Elem().Kind() != reflect.Interface {
			s.AdditionalProperties = reflectSchema(t.Elem())
		}
		return s
	}
	return nil
}

// unmark prints marked schemas as {}, and the schema of an empty struct as providers document it. Quotes inside
// a string are escaped, so neither pattern can stand in one.
func unmark(text []byte) []byte {
	mark := []byte(`"$comment":"` + anyMark + `"`)
	for _, m := range [][]byte{append([]byte(","), mark...), append(mark[:len(mark):len(mark)], ','), mark} {
		text = bytes.ReplaceAll(text, m, nil)
	}
	return bytes.ReplaceAll(text, []byte(`"properties":{},"type":"object"`), []byte(`"type":"object","properties":{}`))
}
