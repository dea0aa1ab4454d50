package workerproc

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/anthropic"
	"github.com/assent-dev/assent/model/openai"
	"github.com/assent-dev/assent/model/scripted"
)

// scriptedName is the provider of scripts.
const scriptedName = "scripted"

// drivers makes the drivers of a file, by the name of the provider. Nothing is sent. Errors are *fault.ConfigError with the
// place in the file.
func drivers(f *config.File) (map[string]model.Model, error) {
	scripts, err := scripted.LoadSet(f.Models.Scripted)
	if err != nil {
		return nil, err
	}
	out := map[string]model.Model{scriptedName: scripts}
	for _, name := range slices.Sorted(maps.Keys(f.Models.Providers)) {
		p := f.Models.Providers[name]
		m, err := driver(p)
		if err != nil {
			return nil, f.Locate(p.Key, err)
		}
		out[name] = m
		if len(p.Models) > 0 {
			out[name] = listed{m, name, p.Models}
		}
	}
	return out, nil
}

func driver(p config.Provider) (model.Streamer, error) {
	if p.API == config.APIMessages {
		return anthropic.New(anthropic.Config{Endpoint: p.Endpoint, Cache: p.Cache, Thinking: p.Thinking, Effort: p.Effort})
	}
	return openai.New(openai.Config{Endpoint: p.Endpoint, API: p.API, Dialect: p.Dialect, Effort: p.Effort})
}

// listed is a driver whose models the file lists.
type listed struct {
	model.Streamer
	provider string
	names    []string
}

// Knows returns nil for a name of the list.
func (l listed) Knows(name string) error {
	if slices.Contains(l.names, name) {
		return nil
	}
	return &fault.ConfigError{Key: "model", Msg: "unknown model \"" + l.provider + ":" + name + "\"", Allowed: l.names}
}

// Provider is what a file offers of one provider.
type Provider struct {
	Name    string `json:"name"`
	API     string `json:"api"`
	BaseURL string `json:"baseURL,omitempty"`
	// Key says where the key is: an environment variable as $NAME, or a path. KeyProblem says why it cannot be used.
	Key        string `json:"key,omitempty"`
	KeyProblem string `json:"keyProblem,omitempty"`
	// Any says that every model may be asked for, not only those that are listed.
	Any    bool    `json:"any"`
	Models []Offer `json:"models"`
}

// Offer is one model.
type Offer struct {
	// Name is `provider:model`.
	Name string `json:"name"`
	// Profiles prefer it or fall back on it.
	Profiles []string `json:"profiles,omitempty"`
	// Price is what is known of it, Known whether a cost can be told.
	Price model.Price `json:"price"`
	Known bool        `json:"known"`
}

// Offers lists what a worker with this file offers: the models that the file names, and those of the table of prices whose
// provider it has. Nothing is sent, and no driver is made.
func Offers(f *config.File) []Provider {
	prices := f.Models.Prices.Over(model.DefaultPrices())
	users := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Profiles)) {
		for _, m := range f.Profiles[name].Models {
			if !slices.Contains(users[m], name) {
				users[m] = append(users[m], name)
			}
		}
	}
	var out []Provider
	for _, name := range f.ProviderNames() {
		p := Provider{Name: name, API: scriptedName}
		names := slices.Collect(maps.Keys(f.Models.Scripted))
		if name != scriptedName {
			p, names = provided(name, f.Models.Providers[name])
		}
		if p.Any {
			for _, full := range slices.Concat(slices.Collect(maps.Keys(prices)), slices.Collect(maps.Keys(users))) {
				if n, ok := strings.CutPrefix(full, name+":"); ok {
					names = append(names, n)
				}
			}
		}
		slices.Sort(names)
		for _, n := range slices.Compact(names) {
			full := name + ":" + n
			price := prices[full]
			if name == scriptedName {
				price.Free = true
			}
			p.Models = append(p.Models, Offer{Name: full, Profiles: users[full], Price: price, Known: price.Known()})
		}
		out = append(out, p)
	}
	return out
}

// provided is what a section says, and the names that it lists.
func provided(name string, c config.Provider) (Provider, []string) {
	p := Provider{Name: name, API: c.API, BaseURL: c.Endpoint.BaseURL, Any: len(c.Models) == 0}
	if p.BaseURL == "" && c.API == config.APIMessages {
		p.BaseURL = anthropic.DefaultBaseURL
	}
	p.BaseURL = cmp.Or(p.BaseURL, openai.DefaultBaseURL)
	if key := c.Endpoint.Key; !key.None() {
		p.Key = key.File
		if key.Env != "" {
			p.Key = "$" + key.Env
		}
		if _, err := key.Read(); err != nil {
			p.KeyProblem = err.Error()
		}
	}
	return p, slices.Clone(c.Models)
}
