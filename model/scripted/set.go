package scripted

import (
	"context"
	"maps"
	"slices"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
)

// Set is the provider `scripted`: it plays the script that a request names.
type Set map[string]*Model

var (
	_ model.Model  = Set{}
	_ model.Named  = Set{}
	_ model.Priced = Set{}
)

// LoadSet reads the scripts of a configuration: name to path.
func LoadSet(paths map[string]string) (Set, error) {
	s := Set{}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		m, err := Load(paths[name])
		if err != nil {
			return nil, err
		}
		s[name] = m
	}
	return s, nil
}

// Knows returns nil if there is a script of this name, else a *fault.ConfigError that lists those there are.
func (s Set) Knows(name string) error {
	if _, ok := s[name]; ok {
		return nil
	}
	return &fault.ConfigError{Key: "model", Msg: "unknown script \"scripted:" + name + "\"", Allowed: slices.Sorted(maps.Keys(s))}
}

// Price says that scripts cost nothing.
func (s Set) Price(string) model.Price { return model.Price{Free: true} }

// Generate plays the next turn of the script that r.Model names.
func (s Set) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	m, ok := s[r.Model]
	if !ok {
		return model.Response{}, &model.Error{Kind: "unknown_model", Msg: "there is no script \"" + r.Model + "\""}
	}
	return m.Generate(ctx, r)
}
