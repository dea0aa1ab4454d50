package config

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// prices reads what models cost, by `provider:model`.
func (v value) prices() model.Prices {
	out := model.Prices{}
	v.entries("a mapping of prices", func(name string, at place, member value) {
		if provider, of, ok := strings.Cut(name, ":"); !ok || provider == "" || of == "" {
			v.r.fail(v.r.errorAt(at, v.key, strconv.Quote(name)+" is not provider:model such as openai:gpt-5.2"))
			return
		}
		p := member.price()
		if v.r.err == nil {
			v.r.locate(p.Validate(member.key))
		}
		out[name] = p
	})
	return out
}

// price reads USD for a million tokens, and how much fits into the model.
func (v value) price() model.Price {
	var p model.Price
	rates := func(r *model.Rates) []field {
		return []field{
			{"input", func(v value) { r.Input = v.number() }},
			{"cachedInput", func(v value) { r.CachedInput = v.number() }},
			{"cacheWrite", func(v value) { r.CacheWrite = v.number() }},
			{"output", func(v value) { r.Output = v.number() }},
		}
	}
	v.fields(append(rates(&p.Rates),
		field{"longAbove", func(v value) { p.LongAbove = int64(v.integer(1)) }},
		field{"long", func(v value) { v.fields(rates(&p.Long)...) }},
		field{"contextWindow", func(v value) { p.ContextWindow = int64(v.integer(1)) }},
		field{"maxOutput", func(v value) { p.MaxOutput = int64(v.integer(1)) }},
		field{"free", func(v value) { p.Free = v.boolean() }},
		field{"asOf", func(v value) {
			p.AsOf = v.text()
			if _, err := time.Parse(time.DateOnly, p.AsOf); err != nil && v.r.err == nil {
				v.fail("bad day %q, want one such as %s", p.AsOf, model.PricesAsOf)
			}
		}},
		field{"source", func(v value) { p.Source = v.name() }})...)
	return p
}

// number reads a number that is not negative.
func (v value) number() float64 {
	switch v.node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
	default:
		v.want("a number")
		return 0
	}
	text := v.node.GetToken().Value
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 {
		v.fail("%s is no number of at least zero", text)
	}
	return f
}

// share reads a part of a whole.
func (v value) share() float64 {
	f := v.number()
	if v.r.err == nil && !(f >= model.LeastShare && f <= model.MostShare) {
		v.fail("%v is out of range; %v to %v", f, model.LeastShare, model.MostShare)
	}
	return f
}

// output reads the JSON Schema of an agent's answer, written in YAML.
func (v value) output() *tool.Validator {
	if _, ok := v.node.(*ast.MappingNode); !ok {
		v.want("a JSON Schema")
		return nil
	}
	var schema map[string]any
	if err := yaml.NodeToValue(v.node, &schema); err != nil {
		v.fail("cannot be read: %v", err)
		return nil
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		v.fail("has no JSON form: %v", err)
		return nil
	}
	out, err := tool.OutputFromSchema(raw)
	if bad := (*fault.ConfigError)(nil); errors.As(err, &bad) {
		bad.Key = v.key
	}
	v.r.locate(err)
	return out
}
