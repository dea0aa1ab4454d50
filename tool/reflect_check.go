package tool

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/assent-dev/assent/fault"
)

// tagWords are the keys that the tag `jsonschema` may hold. The library drops others without a word, and with
// them the rest of a description that has a comma in it.
var tagWords = strings.Fields(`
	title description type anchor oneof_required anyof_required oneof_ref oneof_type anyof_ref anyof_type
	minLength maxLength pattern format readOnly writeOnly default example enum
	multipleOf minimum maximum exclusiveMaximum exclusiveMinimum minItems maxItems uniqueItems`)

// checkType refuses types before they are reflected: the library would not come back from a recursive one.
func checkType(key string, t reflect.Type) error {
	c := typeCheck{key: key}
	return c.check(t)
}

type typeCheck struct {
	key  string
	path []reflect.Type
	// seen counts the types on all paths: everything is inlined, so a few structs may stand for a million.
	seen int
}

func (c *typeCheck) fail(format string, args ...any) error {
	return fault.Configf(c.key, format, args...)
}

func (c *typeCheck) check(t reflect.Type) error {
	if slices.Contains(c.path, t) {
		return c.fail("recursive type %s", t)
	}
	if c.seen++; c.seen > 4*maxSubschemas {
		return c.fail("type %s: with everything inlined the schema is too large", t)
	}
	c.path = append(c.path, t)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && hasOwnForm(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return c.check(t.Elem())
	case reflect.Map:
		k := t.Key()
		isText := k.Implements(textUnmarshaler) || reflect.PointerTo(k).Implements(textUnmarshaler)
		isInt := k.Kind() >= reflect.Int && k.Kind() <= reflect.Uint64
		if !isText && !isInt && k.Kind() != reflect.String {
			return c.fail("type %s: JSON keys are strings, not %s", t, k)
		}
		return c.check(t.Elem())
	case reflect.Struct:
		return c.fields(t, map[string]bool{})
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.Uintptr, reflect.UnsafePointer:
		return c.fail("type %s has no JSON form", t)
	}
	return nil
}

// hasOwnForm reports whether a type's JSON form does not come from its fields or elements.
func hasOwnForm(t reflect.Type) bool {
	_, ok := known[t]
	p := reflect.PointerTo(t)
	return ok || t.Implements(customSchema) || p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
}

// fields checks the fields of a struct and of those embedded in it; names collects their JSON names.
func (c *typeCheck) fields(t reflect.Type, names map[string]bool) error {
	for n := range t.NumField() {
		f := t.Field(n)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		words := splitTag(f.Tag.Get("jsonschema"))
		if f.Tag.Get("json") == "-" || words[0] == "-" {
			continue
		}
		target := f.Type
		if target.Kind() == reflect.Pointer {
			target = target.Elem()
		}
		if f.Anonymous && name == "" && target.Kind() == reflect.Struct {
			if err := c.embedded(f, target, names); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() {
			if f.Anonymous {
				return c.fail("field %s.%s: what is embedded without its own fields has to be exported", t, f.Name)
			}
			continue
		}
		if name == "" {
			name = f.Name
		} else if !validName(name) {
			return c.fail("field %s.%s: encoding/json does not take the name %q", t, f.Name, name)
		}
		if names[name] {
			return c.fail("type %s: two fields are called %q", t, name)
		}
		names[name] = true
		if slices.Contains(strings.Split(options, ","), "inline") {
			return c.fail("field %s.%s: encoding/json knows no inline; embed the struct", t, f.Name)
		}
		if err := c.tag(t, f, words); err != nil {
			return err
		}
		if err := c.check(f.Type); err != nil {
			return err
		}
	}
	return nil
}

func (c *typeCheck) embedded(f reflect.StructField, target reflect.Type, names map[string]bool) error {
	if f.Type.Kind() == reflect.Pointer && !f.IsExported() {
		return c.fail("embedded *%s is not exported: encoding/json cannot set it", target)
	}
	if hasOwnForm(target) {
		return c.fail("embedded %s has its own JSON form: give it a name", target)
	}
	if slices.Contains(c.path, target) {
		return c.fail("recursive type %s", target)
	}
	c.path = append(c.path, target)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	return c.fields(target, names)
}

func (c *typeCheck) tag(t reflect.Type, f reflect.StructField, words []string) error {
	for _, w := range words {
		key, _, hasValue := strings.Cut(w, "=")
		switch {
		case w == "" || w == "required":
			continue
		case hasValue && slices.Contains(tagWords, key):
			if err := c.effect(t, f, w); err != nil {
				return err
			}
			continue
		case w == "nullable":
			return c.fail("field %s.%s: providers refuse unions with null; use omitempty", t, f.Name)
		}
		return c.fail(`field %s.%s: unknown word %q in the jsonschema tag; write a comma in a text as \\, or use jsonschema_description`,
			t, f.Name, w)
	}
	return nil
}

// effect refuses a word that the library drops because it does not fit the type of the field, such as minLength=x or a
// default of a map, and one that says null.
func (c *typeCheck) effect(t reflect.Type, f reflect.StructField, word string) error {
	if c.check(f.Type) != nil || strings.HasSuffix(word, "=false") {
		return nil
	}
	with, without := schemaOfField(f.Type, word), schemaOfField(f.Type, "")
	switch key, value, _ := strings.Cut(word, "="); {
	case with != nil && bytes.Equal(with, without):
		return c.fail("field %s.%s: %q in the jsonschema tag has no effect on a %s", t, f.Name, word, f.Type)
	case strings.HasSuffix(key, "type") && slices.Contains(strings.Split(value, ";"), "null"):
		return c.fail("field %s.%s: providers refuse unions with null; use omitempty", t, f.Name)
	case key == "type" && f.Type.Kind() != reflect.Interface:
		return c.fail("field %s.%s: %q contradicts %s", t, f.Name, word, f.Type)
	}
	return nil
}

// schemaOfField returns the schema of a field whose tag has this one word.
func schemaOfField(t reflect.Type, word string) json.RawMessage {
	tag := strconv.Quote(strings.ReplaceAll(word, ",", `\,`))
	one := reflect.StructOf([]reflect.StructField{{Name: "F", Type: t, Tag: reflect.StructTag("jsonschema:" + tag)}})
	s := reflectSchema(one)
	// Words about the struct, such as oneof_required, stay beside its properties.
	text, err := json.Marshal([]any{s.Properties.Value("F"), s.OneOf, s.AnyOf})
	if err != nil {
		return nil // said where the schema is written
	}
	return text
}

// validName reports whether encoding/json takes a name from a tag; from others it silently goes back to the Go name.
// A dash alone is what the schema library leaves out.
func validName(name string) bool {
	odd := func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return name != "-" && !strings.ContainsFunc(name, odd)
}

// splitTag splits at commas that no backslash precedes, as the library does.
func splitTag(tag string) []string {
	var words []string
	carry := ""
	for _, part := range strings.Split(tag, ",") {
		part = carry + part
		if kept, escaped := strings.CutSuffix(part, `\`); escaped {
			carry = kept + ","
			continue
		}
		carry = ""
		words = append(words, part)
	}
	if carry != "" {
		words = append(words, carry)
	}
	return words
}
