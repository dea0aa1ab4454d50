package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
)

// Def is a defined tool: its Info and the code behind it. It is immutable and safe for concurrent use if its
// function is.
type Def struct {
	info                Info
	contract, authority string
	schema              *Validator
	// defaults fills the defaults of struct tags in, or is nil.
	defaults *defaults
	// check finds what a schema cannot say; it runs on arguments that fit the schema. It may be nil.
	check func(input, canonical json.RawMessage) []Issue
	run   func(ctx context.Context, call *Context, input, canonical json.RawMessage) (any, error)
}

// New defines a tool whose parameters are the fields of the struct In (see SchemaFor) and whose result is the
// JSON of Out. fn gets decoded arguments that fit the schema, with the defaults of their tags filled in. Everything
// wrong with the definition is a *fault.ConfigError.
func New[In, Out any](name, description string, fn func(context.Context, *Context, In) (Out, error), opts ...Option) (*Def, error) {
	d := &Def{info: Info{Name: name, Description: description}}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fault.Configf(d.key(), "the function is nil")
	}
	schema, err := schemaOf(d.key()+".parameters", reflect.TypeFor[In]())
	if err != nil {
		return nil, err
	}
	d.check = func(_, canonical json.RawMessage) []Issue {
		var in In
		return decodeInto(canonical, &in)
	}
	d.run = func(ctx context.Context, call *Context, _, canonical json.RawMessage) (any, error) {
		var in In
		if issues := decodeInto(canonical, &in); issues != nil {
			return nil, invalidArguments(issues)
		}
		return fn(ctx, call, in)
	}
	if err := d.complete(schema, true, opts); err != nil {
		return nil, err
	}
	d.defaults = defaultsOf(schema)
	return d, nil
}

// MustNew is New for package variables; it panics on an error.
func MustNew[In, Out any](name, description string, fn func(context.Context, *Context, In) (Out, error), opts ...Option) *Def {
	d, err := New(name, description, fn, opts...)
	if err != nil {
		panic(err)
	}
	return d
}

// FromSchema defines a tool from a JSON Schema of draft 2020-12, which is sent to the model as it is written. fn
// gets the bytes of the arguments as they were decided on; no defaults are filled in.
func FromSchema(name, description string, schema json.RawMessage, fn func(context.Context, *Context, json.RawMessage) (any, error), opts ...Option) (*Def, error) {
	d := &Def{info: Info{Name: name, Description: description}}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fault.Configf(d.key(), "the function is nil")
	}
	d.run = func(ctx context.Context, call *Context, input, _ json.RawMessage) (any, error) {
		return fn(ctx, call, slices.Clone(input))
	}
	if err := d.complete(schema, false, opts); err != nil {
		return nil, err
	}
	return d, nil
}

// FromPair is FromSchema with a validation of your own for what a schema cannot say. It runs on arguments that
// fit the schema, before anybody is asked, possibly several times, and must be free of effects. Every error that
// it joins becomes an Issue.
func FromPair(name, description string, schema json.RawMessage, validate func(json.RawMessage) error, fn func(context.Context, *Context, json.RawMessage) (any, error), opts ...Option) (*Def, error) {
	d, err := FromSchema(name, description, schema, fn, opts...)
	if err != nil {
		return nil, err
	}
	if validate == nil {
		return nil, fault.Configf(d.key(), "the validate function is nil")
	}
	d.check = func(input, _ json.RawMessage) []Issue { return issuesOf(validate(slices.Clone(input))) }
	return d, nil
}

// object is what FromObject asks of a value.
type object interface {
	Name() string
	Description() string
	Execute(context.Context, json.RawMessage) (any, error)
}

// FromObject defines a tool from any value with the methods Name() string, Description() string and
// Execute(context.Context, json.RawMessage) (any, error), and optionally Parameters() json.RawMessage; without
// it the tool has no parameters. The value need not import this package. Its methods are asked once, here; a panic of
// one of them is a *fault.ConfigError.
func FromObject(v any, opts ...Option) (d *Def, err error) {
	o, ok := v.(object)
	if !ok {
		return nil, fault.Configf("tools", "%T is no tool: it needs the methods Name() string, Description() string "+
			"and Execute(context.Context, json.RawMessage) (any, error)", v)
	}
	if r := reflect.ValueOf(v); slices.Contains(nilable, r.Kind()) && r.IsNil() {
		return nil, fault.Configf("tools", "the tool is a nil %T", v)
	}
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, fault.Configf("tools", "%T panics when it is asked what it is: %s", v, bounded(fmt.Sprint(p)))
		}
	}()
	name, description, schema := o.Name(), o.Description(), json.RawMessage(`{"type":"object","properties":{}}`)
	if p, ok := v.(interface{ Parameters() json.RawMessage }); ok {
		if given := p.Parameters(); given != nil {
			schema = given
		}
	} else if m := reflect.ValueOf(v).MethodByName("Parameters"); m.IsValid() {
		return nil, fault.Configf("tools", "the method Parameters of %T is a %s; want func() json.RawMessage", v, m.Type())
	}
	fn := func(ctx context.Context, _ *Context, input json.RawMessage) (any, error) {
		return o.Execute(ctx, input)
	}
	return FromSchema(name, description, schema, fn, opts...)
}

// nilable are the kinds of values whose methods cannot do anything when they are nil.
var nilable = []reflect.Kind{reflect.Pointer, reflect.Func, reflect.Chan}

// complete verifies and freezes the definition. fromType says that the schema was reflected from a Go type.
func (d *Def) complete(schema json.RawMessage, fromType bool, opts []Option) error {
	if err := checkName(d.info.Name); err != nil {
		return err
	}
	if strings.TrimSpace(d.info.Description) == "" {
		return fault.Configf(d.key()+".description", "is missing; the model decides by it when to call")
	}
	var said choices
	for _, o := range opts {
		if r := reflect.ValueOf(o); o == nil || r.Kind() == reflect.Pointer && r.IsNil() {
			return fault.Configf(d.key(), "an option is nil")
		}
		o.apply(&d.info, &said)
	}
	if err := d.checkPolicy(); err != nil {
		return err
	}
	d.info.Concurrent = d.info.Risk == Read
	if said.concurrent != nil {
		d.info.Concurrent = *said.concurrent
	}
	validator, err := compileSchema(d.key()+".parameters", schema, fromType)
	if err != nil {
		return err
	}
	if !validator.Object() {
		return fault.Configf(d.key()+".parameters", `must be an object schema: "type": "object" at the top`)
	}
	d.schema = validator
	d.info.Parameters = validator.Schema()
	if err := d.remote(said, properties(d.info.Parameters)); err != nil {
		return err
	}
	contract, err := Contract(d.info)
	if err != nil {
		return &fault.ConfigError{Key: d.key(), Msg: "has no contract", Cause: err}
	}
	d.contract, d.authority = canonjson.SHA256(contract), AuthorityHash(d.info)
	return nil
}

func (d *Def) checkPolicy() error {
	if err := checkRisk(d.info.Name, d.info.Risk); err != nil {
		return err
	}
	if d.info.Timeout < 0 {
		return fault.Configf(d.key()+".timeout", "is negative: %s", d.info.Timeout)
	}
	if d.info.Executor == "" && d.info.Remote == nil {
		d.info.Executor = InProcess
	}
	if _, served := runnerOf(d.info.Executor); served != nil {
		return &fault.ConfigError{Key: d.key() + ".executor", Msg: "unknown executor \"" + d.info.Executor + "\"", Allowed: served}
	}
	return nil
}

var namePattern = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)

func checkName(name string) error {
	if namePattern.MatchString(name) {
		return nil
	}
	return fault.Configf("tools.name", "illegal tool name %q: want 1 to 64 of a-z A-Z 0-9 _ -", name)
}

func checkRisk(name string, r Risk) error {
	if r == Undeclared || slices.Contains(Risks(), r) {
		return nil
	}
	e := fault.Configf("tools."+name+".risk", "unknown risk %q", string(r))
	for _, known := range Risks() {
		e.Allowed = append(e.Allowed, string(known))
	}
	return e
}

func (d *Def) key() string { return "tools." + d.info.Name }

// Info returns a copy of everything about the tool except its code.
func (d *Def) Info() Info { return d.info.clone() }

// Name returns the name that models and rules use.
func (d *Def) Name() string { return d.info.Name }

// ContractHash returns the hash of what the model reads about the tool.
func (d *Def) ContractHash() string { return d.contract }

// AuthorityHash returns the hash of what the tool may do.
func (d *Def) AuthorityHash() string { return d.authority }

// decodeInto reads canonical arguments into a struct, keeping the digits of numbers that go into an any.
func decodeInto(canonical json.RawMessage, in any) []Issue {
	dec := json.NewDecoder(bytes.NewReader(canonical))
	dec.UseNumber()
	return decodeIssues(dec.Decode(in))
}
