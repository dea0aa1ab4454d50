package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
)

// schemaURL is the address a schema has while it is compiled. Nothing is ever loaded from it or from any other. It
// has a path, so that a relative reference leads away from it.
const schemaURL = "assent:///schema"

// maxSchema bounds the text of a schema in bytes; providers refuse much smaller ones.
const maxSchema = 1 << 20

// Validator is a compiled JSON Schema: for the parameters of a tool, or for an agent's structured output. It is
// safe for concurrent use.
type Validator struct {
	raw      json.RawMessage
	compiled *jsonschema.Schema
	object   bool
	// checks find what a schema cannot say. Each runs on values that passed those before it.
	checks []func(json.RawMessage) []Issue
	// defaults are those of a Go type that describes output.
	defaults *defaults
}

// CompileSchema compiles a JSON Schema of draft 2020-12, or of the draft that its $schema names, with formats
// asserted and unknown keywords accepted. What can never validate anything is a *fault.ConfigError here: a value
// that is no schema, an unknown type, a pattern outside RE2, and a $ref that is remote, dynamic, recursive or
// dangling, even in a definition that nothing uses.
func CompileSchema(raw json.RawMessage) (*Validator, error) {
	return compileSchema("schema", raw, false)
}

// ValidatorFor compiles the schema of a Go type, see SchemaFor. What fits it can be decoded into the type.
func ValidatorFor[T any]() (*Validator, error) {
	schema, err := SchemaFor[T]()
	if err != nil {
		return nil, err
	}
	v, err := compileSchema("schema", schema, true)
	if err != nil {
		return nil, err
	}
	return v.and(func(value json.RawMessage) []Issue {
		var into T
		return decodeInto(value, &into)
	}), nil
}

// With returns a Validator that asks validate too, about values that fit so far. validate must be free of effects;
// every error that it joins becomes an Issue.
func (v *Validator) With(validate func(json.RawMessage) error) *Validator {
	return v.and(func(value json.RawMessage) []Issue { return issuesOf(validate(value)) })
}

func (v *Validator) and(check func(json.RawMessage) []Issue) *Validator {
	with := *v
	with.checks = append(slices.Clip(v.checks), check)
	return &with
}

// Schema returns the schema as it is sent to the model: the text it was compiled from, without white space.
func (v *Validator) Schema() json.RawMessage { return bytes.Clone(v.raw) }

// Validate returns every place where value does not fit, sorted by pointer, or nil. A value that is not exactly
// one JSON text does not fit.
func (v *Validator) Validate(value json.RawMessage) []Issue {
	canonical, err := canonjson.Canonical(value)
	if err != nil {
		return jsonIssues(err)
	}
	issues := v.validate(canonical)
	for _, check := range v.checks {
		if issues == nil {
			issues = guarded(func() []Issue { return check(bytes.Clone(value)) })
		}
	}
	return issues
}

// Object reports whether the schema admits objects only, said in the one way that every provider reads.
func (v *Validator) Object() bool { return v.object }

// validate checks a canonical value against the schema alone.
func (v *Validator) validate(canonical json.RawMessage) []Issue {
	return guarded(func() []Issue {
		value := decodeAny(canonical)
		if b := (budget{left: maxSteps}); !b.affords(v.compiled, value, 0) {
			return []Issue{{Message: fmt.Sprintf("is too large: checking it takes more than %d steps", maxSteps)}}
		}
		var failed *jsonschema.ValidationError
		if errors.As(v.compiled.Validate(value), &failed) {
			return schemaIssues(failed)
		}
		return nil
	})
}

// compileSchema compiles raw, the value of key. With content, text that is declared as base64 has to be base64; that
// is for schemas of Go types, whose decoding insists on it anyway but cannot say where.
func compileSchema(key string, raw json.RawMessage, content bool) (*Validator, error) {
	if len(raw) > maxSchema {
		return nil, fault.Configf(key, "has %d bytes, at most %d are taken", len(raw), maxSchema)
	}
	canonical, err := canonjson.Canonical(raw)
	if err != nil {
		return nil, &fault.ConfigError{Key: key, Msg: "is not a JSON text", Cause: err}
	}
	object := false
	document := decodeAny(canonical)
	switch d := document.(type) {
	case map[string]any:
		object = d["type"] == "object"
	case bool:
	default:
		return nil, fault.Configf(key, "is not a JSON Schema: want an object")
	}
	compiled, err := compile(document, content)
	if err != nil {
		return nil, &fault.ConfigError{Key: key, Msg: "is not a usable JSON Schema", Cause: plain(err)}
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, raw) // what has a canonical form is JSON
	return &Validator{raw: compact.Bytes(), compiled: compiled, object: object}, nil
}

// compile compiles the whole document, definitions that nothing uses included.
func compile(document any, content bool) (schema *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			schema, err = nil, fmt.Errorf("compile schema: %v", p)
		}
	}()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	for _, f := range formats {
		compiler.RegisterFormat(f)
	}
	engine := &patterns{}
	compiler.UseRegexpEngine(engine.compile)
	if content {
		compiler.AssertContent()
	}
	compiler.UseLoader(noLoader{})
	pointers, err := subschemas(document)
	if err != nil {
		return nil, err
	}
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return nil, err
	}
	if schema, err = compiler.Compile(schemaURL); err != nil {
		return nil, err
	}
	graph := refGraph{sizes: map[*jsonschema.Schema]int{}}
	if err := graph.walk(schema); err != nil {
		return nil, err
	}
	for _, pointer := range pointers {
		part, err := compiler.Compile(schemaURL + "#" + pointer)
		if err != nil {
			return nil, err
		}
		if err := graph.walk(part); err != nil {
			return nil, err
		}
	}
	engine.sealed = true
	return schema, nil
}

// plain says in one line, the same every time, where a document breaks the rules for schemas.
func plain(err error) error {
	var broken *jsonschema.SchemaValidationError
	var failed *jsonschema.ValidationError
	if !errors.As(err, &broken) || !errors.As(broken.Err, &failed) {
		return err
	}
	at := strings.TrimPrefix(broken.URL, schemaURL+"#")
	var lines []string
	for _, i := range schemaIssues(failed) {
		lines = append(lines, fmt.Sprintf("%q: %s", at+i.Pointer, i.Message))
	}
	return errors.New(strings.Join(lines, "; "))
}

// noLoader refuses every reference that leaves the schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("load %q: a schema must not refer to another document", url)
}

// decodeAny decodes canonical JSON, which never fails, keeping the digits of numbers.
func decodeAny(canonical []byte) any {
	dec := json.NewDecoder(bytes.NewReader(canonical))
	dec.UseNumber()
	var v any
	_ = dec.Decode(&v)
	return v
}
